/* caller.h: who makes a call that is not a command, checked on a reactor by what is published. RocketMQ: AuthenticationPipeline,
 * AuthorizationPipeline (5.3.3 proxy/grpc/pipeline/).
 *
 * Only a yes is said here: whoever is not admitted is judged, told and logged by whoever asks.
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

/* By a gate of rp_auth_table_gate. 1, and counted: as far as the table's options want it asked, the user has signed the content and has all
 * the rights. 0: not, or not yet. */
int rp_caller_is_admitted(const rp_gate *gate, const rp_reactor *reactor, const rp_caller *caller, const rp_asked_right *rights,
                          uint32_t count);

#endif
