/* answer_times.h: measures how long the requests of one reactor took, from arrival to answer. Private to csrc/broker.
 * RocketMQ: RemotingMetricsManager.rpcLatency (5.3.3 remoting/metrics/).
 *
 *   answered in the turn it came in ─► counted; the turn's end says how long ─┐
 *   answered later ─► counted with its own time ─────────────────────────────┴─► rows by request code, response code, and whether it
 *   waited
 *
 * Threads  the reactor's; rows are read by any thread.
 * Bounds   RP_ANSWER_ROWS kinds of answers; further kinds are not counted.
 */
#ifndef RP_BROKER_ANSWER_TIMES_H
#define RP_BROKER_ANSWER_TIMES_H

#include <stdatomic.h>
#include <stdint.h>

#include "../remoting/server.h"
#include "broker_stats.h"

#define RP_ANSWER_ROWS 96

typedef struct rp_answer_row {
    int32_t request_code, response_code, has_waited; /* fixed */
    uint32_t in_turn;                                /* owned by the reactor: answers of the current turn */
    _Atomic uint64_t total_ns, classes[RP_ANSWER_CLASSES];
} rp_answer_row;

typedef struct rp_answer_times {
    rp_reactor *reactor; /* fixed */
    rp_answer_row *last; /* owned by the reactor; NULL: none yet */
    uint32_t in_turn;    /* owned by the reactor: answers of the current turn in all rows */
    _Atomic uint32_t count; /* released after the row is complete */
    rp_answer_row rows[RP_ANSWER_ROWS];
} rp_answer_times;

/* Counts an answer that is being written to a request of this reactor. arrived_ns: rp_reactor_now_ns of the turn in which the request
 * came. */
void rp_answer_times_note(rp_answer_times *times, int32_t request_code, int32_t response_code, int64_t arrived_ns);
/* Ends the turn that began at rp_reactor_now_ns. */
void rp_answer_times_end_turn(rp_answer_times *times);

#endif
