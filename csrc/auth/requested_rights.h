/* requested_rights.h: determines the rights on resources that a request needs. Internal to csrc/auth.
 * RocketMQ: DefaultAuthorizationContextBuilder; RocketMQAction and RocketMQResource of the request headers (5.3.3 and 5.5.0).
 *
 * A table by request code (request_rules.h) says which fields, or members of the body, name the resources. A code that is not in the
 * table needs no right, as in RocketMQ: everybody who has signed may send it. RocketMQ's rules omit some requests that read or change
 * what its other rules protect; the table has these too, and marks them.
 *
 * Threads  pure. Names point into the command, or into the arena if JSON had escapes.
 * Bounds   RP_REQUESTED_RIGHTS_MAX rights of a request.
 */
#ifndef RP_AUTH_REQUESTED_RIGHTS_H
#define RP_AUTH_REQUESTED_RIGHTS_H

#include "../base/arena.h"
#include "../remoting/command.h"

#define RP_REQUESTED_RIGHTS_MAX 65536

typedef struct rp_requested_right {
    uint8_t resource_type; /* rp_resource_type */
    uint32_t actions;      /* rp_action bits, at least one of which has to be granted */
    rp_slice name;         /* data NULL: the request does not name it */
} rp_requested_right;

/* Calls visit for each right until it returns non-zero, which is then returned. Otherwise RP_OK; RP_E_PROTOCOL: a malformed body, or a
 * field with two values; RP_E_TOO_LARGE; RP_E_NO_MEMORY. */
int rp_requested_rights(const rp_command *command, rp_slice cluster_name, rp_arena *arena,
                        int (*visit)(void *context, const rp_requested_right *right), void *context);

/* What a send to the topic asks for. */
rp_requested_right rp_right_to_send(rp_slice topic);

#endif
