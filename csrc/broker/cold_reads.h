/* cold_reads.h: pulls of messages that are no longer in memory. Private to csrc/broker.
 *
 *   pull ─ check its entries ─ FOUND ─ check its messages ─► response
 *               └────────────────────────────┴─ on disk only: it waits with long_polling ─ ask ─► reader thread ─ read in ─► the queue's
 *               pulls are tried again
 *
 * Why      a response is gathered from mapped pages. The reactor would read a page that is not in memory from the disk itself, and every
 *          producer of that reactor would wait. After one such fault the kernel also reads ahead, megabytes at a time, and makes the
 *          next thread that faults, again the reactor, wait for that.
 * What     4 MiB regions of the log, and windows of 4096 queue entries: a consumer that reads one message of a backlog reads its
 *          neighbours soon. A pull whose messages are scattered over more of the log requests only those messages.
 * Cost     one comparison near the end of log and queue, for a region that was in memory within the last second, and for one that
 *          another pull of the same turn has missed; otherwise one mincore of the region. Scattered messages are checked one by one only
 *          where their region is known not to be in memory as a whole.
 *
 * Threads  look and ask: the lane's reactor. One reader thread for all lanes.
 * Bounds   RP_COLD_ASKED_MAX reads wait for the reader; beyond that the reactor reads by itself.
 */
#ifndef RP_BROKER_COLD_READS_H
#define RP_BROKER_COLD_READS_H

#include <stdint.h>

#include "../store/commit_log.h"
#include "../store/consume_queue.h"
#include "get_message.h"

#define RP_COLD_ASKED_MAX 4096u
#define RP_COLD_SEEN 256u  /* regions that a lane remembers, 1 GiB in all, and as many windows */
#define RP_COLD_WANTED 32u /* stretches that one pull may request */

struct rp_broker;
struct rp_group;
struct rp_lane;

typedef struct rp_cold_reads rp_cold_reads;

typedef struct rp_cold_stretch {
    int64_t begin, end;
} rp_cold_stretch;

enum rp_cold_kind {
    RP_COLD_MESSAGES = 1, /* of the log: stretches are log offsets */
    RP_COLD_ENTRIES = 2,  /* of the pull's queue: one stretch of queue offsets */
    RP_COLD_COMPACTED = 4 /* of the queue's compacted log (get_compacted.h): likewise */
};

/* What the last check of a region of the log found. */
typedef struct rp_cold_region {
    int64_t region;
    int64_t looked_at_ns; /* time of the turn; 0: never */
    int32_t in_memory;    /* 1: all of it was in memory */
} rp_cold_region;

/* A window of queue entries that is believed to be in memory. */
typedef struct rp_cold_window {
    const rp_consume_queue *queue; /* NULL: none; only compared */
    int64_t window;
    int64_t until_ns;
} rp_cold_window;

/* What a lane knows of which pages of the log and the queues are in memory. */
typedef struct rp_cold_looks {
    rp_cold_region regions[RP_COLD_SEEN]; /* indexed by region modulo their number */
    rp_cold_window windows[RP_COLD_SEEN]; /* indexed by queue and window */
    enum rp_cold_kind kind;               /* what the last check missed */
    uint32_t wanted_count;
    rp_cold_stretch wanted[RP_COLD_WANTED];
} rp_cold_looks;

/* 1 if the region of a log offset was in memory within the last second. context: the lane. For rp_get_request. */
int rp_cold_reads_saw(const void *context, int64_t log_offset);

/* Starts the reader. NULL: no memory, or no thread left. */
rp_cold_reads *rp_cold_reads_open(struct rp_broker *broker);
/* NULL is allowed. Pending reads are dropped. */
void rp_cold_reads_close(rp_cold_reads *reads);

/* 1 if some of the `count` entries from the queue offset on are on disk only; lane->looks.wanted says which. asked 1: the pull had them
 * read already, so only those of its first messages are checked, as for rp_cold_reads_look. */
int rp_cold_reads_look_at_entries(struct rp_lane *lane, rp_consume_queue *queue, int64_t offset, int64_t count, int asked);
/* 1 if some of the messages found are on disk only; lane->looks.wanted says where. asked 1: the pull had them read already, so only
 * these messages are checked: the rest of a region may be lost, or out of memory again. */
int rp_cold_reads_look(struct rp_lane *lane, const rp_get_result *result, int asked);
/* 1 if a message that a filter would read is on disk only; its region is then wanted. For rp_get_request; context: the lane. */
int rp_cold_reads_look_at_message(void *context, int64_t log_offset, uint32_t size);
/* Has what the last check missed read in; then the lane's pulls that wait on the queue are tried again. Returns 0 if too many reads are
 * pending. Bytes read from the log are counted for the group (cold_flow.h), unless that is NULL. */
int rp_cold_reads_ask(rp_cold_reads *reads, const rp_cold_looks *looks, rp_consume_queue *queue, uint16_t lane, struct rp_group *group);

#endif
