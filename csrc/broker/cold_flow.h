/* cold_flow.h: limits how much each consumer group, and all of them together, may read from the disk in a window of time.
 * RocketMQ: ColdDataCgCtrService, ColdDataPullRequestHoldService (5.3.3 broker/coldctr/).
 *
 *   pull whose messages are on disk only ─┬─ its group is below its limit in this window ─► cold_reads, which counts what it reads
 *                                         └─ it is not: the pull is held until the window is over, then told to come again
 *
 * Messages in memory are never held back. RocketMQ judges by a message's distance from the log's end (accessMessageInMemoryHotRatio),
 * refuses push consumers with SYSTEM_BUSY, and gives others one message after three seconds. Here only pulls that may not be held get
 * SYSTEM_BUSY. Not counted: pops, the system's own groups, and what a reactor has to read itself once a pull's time is up.
 *
 * Threads  admits: reactors. note: the thread that reads. Limits (broker.h): Python's. A group's window and bytes are one word, changed
 *          by compare and swap: no lock.
 */
#ifndef RP_BROKER_COLD_FLOW_H
#define RP_BROKER_COLD_FLOW_H

#include <stdatomic.h>
#include <stdint.h>

#include "../base/slice.h"

struct rp_broker;
struct rp_group;

#define RP_COLD_WINDOW_MS 5000 /* as in RocketMQ */

/* What one group, or all of them, have read; relaxed. */
typedef struct rp_cold_use {
    _Atomic uint64_t window_bytes; /* the window's number in the high bits, its bytes in the low ones */
    _Atomic int64_t first_ms;      /* since when it has read from the disk with pauses of less than a minute; 0: never */
    _Atomic int64_t last_ms;
} rp_cold_use;

/* 1 if this group may read from the disk now. */
int rp_cold_flow_admits(const struct rp_broker *broker, const struct rp_group *group, int64_t now_ns);
/* Returns the ms until the window is over; at least 1. */
int64_t rp_cold_flow_rest_ms(const struct rp_broker *broker, int64_t now_ns);
void rp_cold_flow_note(struct rp_broker *broker, struct rp_group *group, int64_t bytes);

#endif
