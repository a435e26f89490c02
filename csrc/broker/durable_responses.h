/* durable_responses.h: the responses Python gives for messages it appended itself (delays, half messages, retries), held back until
 * they are as safe as the modes in force ask. Private to csrc/broker. The fast path's own wait in parked_responses.
 *
 *   Python ─ submit ─► lock-free stack ─ lane 0's wake ─► list by log offset ─ complete ─► rp_server_send
 *
 * Threads  submit: any. The rest: lane 0's reactor, which also keeps the deadlines for all servers.
 * Owns     copies of the commands.
 * Bounds   RP_DURABLE_MAX, then RP_E_BUSY.
 */
#ifndef RP_BROKER_DURABLE_RESPONSES_H
#define RP_BROKER_DURABLE_RESPONSES_H

#include <stdatomic.h>
#include <stdint.h>

#include "../remoting/server.h"

#define RP_DURABLE_MAX 65536

struct rp_lane;

typedef struct rp_durable_response rp_durable_response;

typedef struct rp_durable_responses {
    _Atomic(rp_durable_response *) inbox; /* release by submit, acquire by the lane that takes all */
    _Atomic uint32_t count;               /* submitted and not answered; acq_rel, see rp_parked_responses_push */
    rp_durable_response *list, *last;     /* lane 0's: ascending end offsets; last is valid while list is not NULL */
} rp_durable_responses;

/* RP_OK, RP_E_NO_MEMORY, RP_E_BUSY. The caller wakes lane 0. */
int rp_durable_responses_submit(rp_durable_responses *durable, rp_server *server, uint64_t connection_id, int64_t end_offset,
                                int64_t now_ns, const rp_command *response);
/* As rp_parked_responses_complete. */
int64_t rp_durable_responses_complete(struct rp_lane *lane, int64_t now_ns);
void rp_durable_responses_free(rp_durable_responses *durable);

#endif
