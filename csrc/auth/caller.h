/* caller.h: checks on a reactor, against the published users and rights, who makes a call that is not a remoting command.
 * RocketMQ: AuthenticationPipeline, AuthorizationPipeline (5.3.3 proxy/grpc/pipeline/).
 *
 * Only a yes is final here. After a no, whoever asked finds out why, tells the caller and logs it.
 *
 * Threads  the reactor's.
 */
#ifndef RP_AUTH_CALLER_H
#define RP_AUTH_CALLER_H

#include "../base/address.h"
#include "auth_table.h"

/* Who it says it is, and what proves it. */
typedef struct rp_caller {
    rp_slice user;
    rp_slice content;      /* what is signed */
    const uint8_t *digest; /* its HmacSHA1, RP_SHA1_SIZE bytes */
    rp_address source;
} rp_caller;

/* An action on a resource that it asks for. */
typedef struct rp_asked_right {
    uint8_t resource_type; /* rp_resource_type */
    uint32_t actions;      /* rp_action bits: one has to be granted */
    rp_slice name;
} rp_asked_right;

/* Asks a gate of rp_auth_table_gate. 1, and counted: the user has signed the content and has all the rights, as far as the table's options
 * want either checked. 0: not, or it cannot be told yet. */
int rp_caller_is_admitted(const rp_gate *gate, const rp_reactor *reactor, const rp_caller *caller, const rp_asked_right *rights,
                          uint32_t count);

#endif
