/* half_messages.h: calls whose message is incomplete: what they hold, for how long they may, and which one is refused when that is too
 * much. Internal to csrc/grpc, C only.
 *
 *   begin, of a head or of a large message of a stream ─ grow … ─┬─ end: it is complete, or refused
 *                                                                ├─ no byte for stall_timeout_ms, or incomplete after
 *                                                                RP_GRPC_HALF_STALLS of those: refused
 *                                                                └─ the oldest, when another one needs its memory: refused
 *
 * Threads  a reactor's, like everything of its calls.
 * Bounds   half of the server's memory_bytes_max, divided among the reactors, for all half messages of one; a single one may have more.
 *          A call that has been here for less than RP_GRPC_HALF_GRACE_MS is not refused in favour of another.
 */
#ifndef RP_GRPC_HALF_MESSAGES_H
#define RP_GRPC_HALF_MESSAGES_H

#include "call.h"

#define RP_GRPC_HALF_STALLS 10
#define RP_GRPC_HALF_GRACE_MS 1000

typedef struct rp_grpc_halves {
    rp_grpc_call *oldest, *youngest;
    uint64_t bytes;
} rp_grpc_halves;

void rp_grpc_half_begin(rp_grpc_call *call); /* does nothing if it has begun already */
void rp_grpc_half_end(rp_grpc_call *call);   /* does nothing if it has not begun */
/* May the call hold that many bytes more? Other calls are refused in its favour if that helps. */
bool rp_grpc_half_may_grow(rp_grpc_call *call, uint32_t more);
void rp_grpc_half_grew(rp_grpc_call *call, uint32_t more);
void rp_grpc_half_heard(rp_grpc_call *call); /* bytes of it have arrived */
/* Returns by when the message has to be complete, or more of it has to have arrived; INT64_MAX: the call has no half message, or
 * stall_ms is 0. */
int64_t rp_grpc_half_limit_ns(const rp_grpc_call *call, uint32_t stall_ms);

#endif
