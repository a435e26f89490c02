/* dispatcher.h: enters a record of the commit log into its queue, when the append did not: after a crash, for rebuilt queues, and for
 * bytes that came from a master.
 * RocketMQ: CommitLogDispatcherBuildConsumeQueue, CommitLog.checkMessageAndReturnSize (tags code) (5.3.3 store/).
 *
 * Applying a record again changes nothing, so a pass may start anywhere before the first missing entry.
 * Threads  one at a time, while nobody appends (recovery, or under the append lock).
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
    rp_queue_table *queues; /* fixed, like the log and the levels */
    rp_log *log;
    int64_t delay_level_ms[RP_DELAY_LEVELS_MAX + 1]; /* by level, from 1; from messageDelayLevel */
    int32_t delay_level_max;
    rp_consume_queue *touched[1 + RP_LIGHT_TARGETS_MAX]; /* queues that the last record has given an entry, as far as they fit */
    uint32_t touched_count;
    rp_consume_queue *recent_queues[RP_RECENT_QUEUES]; /* by queue id: producers use a topic's queues in turn */
    uint64_t entries_added, entries_replaced, gaps_filled;
    int32_t has_light_queues, makes_light_queues; /* light_queue.h; fixed before the first record */
} rp_dispatcher;

/* delay_levels: as messageDelayLevel ("1s 5s 10s … 2h"); NULL: RocketMQ's default. RP_OK; RP_E_INVALID names the bad word. */
int rp_dispatcher_init(rp_dispatcher *dispatcher, rp_queue_table *queues, rp_log *log, const char *delay_levels, rp_error *error);

/* Called once the queues are loaded: entries are made for light queues too if makes_light_queues is set, or if light queues exist
 * already. */
void rp_dispatcher_look_for_light_queues(rp_dispatcher *dispatcher, int makes_light_queues);

/* Puts the entry of the record at message->physical_offset. RP_OK; RP_E_CORRUPT if topic or queue id is impossible; RP_E_DISK_FULL,
 * RP_E_IO, RP_E_NO_MEMORY. */
int rp_dispatcher_apply(rp_dispatcher *dispatcher, const rp_message *message, rp_error *error);
/* As rp_dispatcher_apply, with the tags code already known: of the record's bytes only the topic is read, and with light queues its
 * properties. */
int rp_dispatcher_apply_coded(rp_dispatcher *dispatcher, const rp_message *message, int64_t tags_code, rp_error *error);

/* Gives the record a place in its queues without an entry: later appends go behind it. RP_OK, RP_E_CORRUPT, RP_E_NO_MEMORY. */
int rp_dispatcher_place(rp_dispatcher *dispatcher, const rp_message *message, rp_error *error);

/* Returns the tags code for the record's queue entry: the hash of TAGS, or in the delay topic the due time in ms. Any thread. */
int64_t rp_dispatcher_tags_code(const rp_dispatcher *dispatcher, const rp_message *message);

#endif
