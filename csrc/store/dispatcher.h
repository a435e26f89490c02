/* dispatcher.h: from a record of the commit log to the entry of its queue, when the append did not do it itself: after a crash,
 * for rebuilt queues, and for bytes that came from a master.
 * RocketMQ: CommitLogDispatcherBuildConsumeQueue, CommitLog.checkMessageAndReturnSize (tags code) (5.3.3 store/).
 *
 * Applying a record again changes nothing, so a pass may start anywhere before the first record that is missing.
 * Threads  one at a time, and nobody appends meanwhile (recovery, or under the append lock).
 */
#ifndef RP_STORE_DISPATCHER_H
#define RP_STORE_DISPATCHER_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/log.h"
#include "light_targets.h"
#include "message.h"
#include "queue_table.h"

#define RP_RECENT_QUEUES 64

typedef struct rp_dispatcher {
    rp_queue_table *queues; /* fixed, as are the log and the levels */
    rp_log *log;
    int64_t delay_level_ms[RP_DELAY_LEVELS_MAX + 1]; /* by level, 1-based; of messageDelayLevel */
    int32_t delay_level_max;
    rp_consume_queue
        *touched[1 + RP_LIGHT_TARGETS_MAX]; /* queues that the record before has given an entry, as many as there is room for */
    uint32_t touched_count;
    rp_consume_queue *recent_queues[RP_RECENT_QUEUES]; /* by queue id: producers take a topic's queues in turn */
    uint64_t entries_added, entries_replaced, gaps_filled;
    int32_t has_light_queues, makes_light_queues; /* light_queue.h; fixed before the first record */
} rp_dispatcher;

/* delay_levels as messageDelayLevel ("1s 5s 10s … 2h"); NULL: RocketMQ's default. RP_OK; RP_E_INVALID names the bad word. */
int rp_dispatcher_init(rp_dispatcher *dispatcher, rp_queue_table *queues, rp_log *log, const char *delay_levels, rp_error *error);

/* The queues have been loaded: entries are made for light ones too when they are made here, or some are there. */
void rp_dispatcher_look_for_light_queues(rp_dispatcher *dispatcher, int makes_light_queues);

/* Puts the entry of a record that lies at message->physical_offset. RP_OK; RP_E_CORRUPT when topic or queue id cannot be;
 * RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY. */
int rp_dispatcher_apply(rp_dispatcher *dispatcher, const rp_message *message, rp_error *error);
/* The same with the record's tags code, which somebody has found already: of the record's bytes only the topic is read, and with light
 * queues its properties. */
int rp_dispatcher_apply_coded(rp_dispatcher *dispatcher, const rp_message *message, int64_t tags_code, rp_error *error);

/* The record's queues get no entry, but a place for it: what is appended goes behind it. RP_OK, RP_E_CORRUPT, RP_E_NO_MEMORY. */
int rp_dispatcher_place(rp_dispatcher *dispatcher, const rp_message *message, rp_error *error);

/* The tags code of the record's queue entry: hash of TAGS, or the time of delivery in the delay topic. From any thread. */
int64_t rp_dispatcher_tags_code(const rp_dispatcher *dispatcher, const rp_message *message);

#endif
