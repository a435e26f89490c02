/* caller.h: checks a call that is not a remoting command, on a reactor, against the published users and rights.
 * RocketMQ: AuthenticationPipeline, AuthorizationPipeline (5.3.3 proxy/grpc/pipeline/).
 *
 * Only a yes is final here. After a no, Python determines the reason, tells the caller and logs it.
 *
 * Threads  the reactor's.
 */
#ifndef RP_AUTH_CALLER_H
#define RP_AUTH_CALLER_H

#include "../base/address.h"
#include "auth_table.h"

/* The user that the call claims, and the proof. */
typedef struct rp_caller {
    rp_slice user;
    rp_slice content;      /* the signed content */
    const uint8_t *digest; /* its HmacSHA1, RP_SHA1_SIZE bytes */
    rp_address source;
} rp_caller;

/* A right that the call needs: one of the actions on a resource. */
typedef struct rp_asked_right {
    uint8_t resource_type; /* rp_resource_type */
    uint32_t actions;      /* rp_action bits: at least one has to be granted */
    rp_slice name;
} rp_asked_right;

/* Asks a gate of rp_auth_table_gate. 1: the user has signed the content and has all the rights, as far as the table's options require
 * either check; the call is counted. 0: not, or it cannot be told yet. */
int rp_caller_is_admitted(const rp_gate *gate, const rp_reactor *reactor, const rp_caller *caller, const rp_asked_right *rights,
                          uint32_t count);

#endif
