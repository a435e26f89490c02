/* timed_messages.h: what Python asks of messages with a time of their own (timer_service.h). Public, beside broker.h.
 * RocketMQ: TimerMessageStore, TimerMetrics, RecallMessageProcessor (5.3.3 store/timer/, broker/processor/).
 *
 * Sends with a timer are taken while timer_enable of the settings is 1, whether the service runs or not: they wait in rmq_sys_wheel_timer.
 *
 * Threads  start and stop from one thread; the rest from any.
 */
#ifndef RP_BROKER_TIMED_MESSAGES_H
#define RP_BROKER_TIMED_MESSAGES_H

#include <stdint.h>

#include "../base/clock.h"
#include "../base/file_ops.h"
#include "broker.h"

#define RP_TIMER_TOPIC "rmq_sys_wheel_timer"
#define RP_TIMER_CHECKPOINT_BYTES 56 /* of a GET_TIMER_CHECK_POINT response */

typedef struct rp_timer_options {
    const char *root_path;        /* storePathRootDir */
    int64_t log_file_size;        /* mappedFileSizeTimerLog, default 100 MiB */
    int32_t precision_ms;         /* timerPrecisionMs, 1 to 1,000; default 1,000. What reads it among the settings has to say the same */
    int32_t roll_window_slots;    /* timerRollWindowSlot, 2 to 604,740; default 172,800 */
    uint32_t flush_interval_ms;   /* timerFlushIntervalMs, default 1,000 */
    uint32_t progress_interval_ms;/* timerProgressLogIntervalMs, default 10,000; 0: no line about it */
    int32_t delivers;             /* 1: a master; 0: a slave enters what its master has entered, and delivers nothing */
    const rp_clock *clock;        /* NULL: the system's */
    const rp_file_ops *file_ops;  /* NULL: the kernel's */
} rp_timer_options;
void rp_timer_options_default(rp_timer_options *options);

/* Opens what there is under root_path and goes on where it was left. A second start, after a stop, goes on with the files as they are;
 * of its options `delivers` counts. RP_OK, also when it runs; RP_E_INVALID: an option; as of rp_timer_files_open and rp_thread_start. */
int rp_broker_start_timers(rp_broker *broker, const rp_timer_options *options, rp_error *error);
/* Returns when nothing is entered or delivered any more and all of it is on disk. RP_OK, also when it does not run; else what did not reach
 * the disk: nothing is lost, but something may be delivered twice by the next start. */
int rp_broker_stop_timers(rp_broker *broker, rp_error *error);

/* Before a start: of what waits here, messages that are due before until_ms and stand below queue_offset of the timer queue were
 * delivered by a slave that stood in for this master, `but` those at these offsets, by size. Those that were only to be rolled there are
 * rolled. Of a slave that stands in: by itself, before it was started again; what was rolled is over, too. Until the broker is closed;
 * 0, 0: none were. RP_OK; RP_E_NO_MEMORY: as before. */
int rp_broker_set_timers_passed_on(rp_broker *broker, int64_t until_ms, int64_t queue_offset, const int64_t *but, uint32_t count);
/* Of a slave that stands in: slots before *read_ms are over, but for the messages at these offsets of the timer queue, by size, which were
 * set aside; how many. *read_ms 0: it was never started. */
#define RP_TIMERS_ASIDE_MAX 16384
uint32_t rp_broker_read_timers_aside(const rp_broker *broker, int64_t *read_ms, int64_t *offsets);

typedef struct rp_timer_stats {
    int64_t read_time_ms;         /* slots before it have been delivered */
    int64_t queue_offset;         /* messages before it have been entered */
    int64_t queue_max_offset;
    int64_t master_queue_offset;  /* of a slave: as its master said last */
    int64_t messages_waiting;     /* in the wheel */
    int64_t enqueue_behind_ms;    /* how long ago the next message to enter was stored; 0: there is none */
    int64_t dequeue_behind_ms;    /* how long the next slot to deliver has been due; 0: it is not */
    uint64_t entered, delivered, rolled, recalled, passed_over;
    int32_t is_running;
} rp_timer_stats;
void rp_broker_read_timer_stats(const rp_broker *broker, rp_timer_stats *stats);

/* Of a master, for its slaves: the body of GET_TIMER_CHECK_POINT, of what is on disk. 1; 0: it was never started. */
int rp_broker_read_timer_checkpoint(const rp_broker *broker, uint8_t bytes[RP_TIMER_CHECKPOINT_BYTES]);
/* Of a slave: it follows its master, whose body this is. RP_OK; RP_E_PROTOCOL; RP_E_CLOSED: the service was never started, or delivers. */
int rp_broker_follow_timer_checkpoint(rp_broker *broker, const uint8_t *bytes, uint32_t size);

/* How many messages wait for each topic that is there and for which any did since the start; changed_ms of the wall clock. */
typedef struct rp_timer_count {
    rp_slice topic;
    int64_t count, changed_ms;
} rp_timer_count;
void rp_broker_each_timer_count(rp_broker *broker, int (*visit)(void *context, const rp_timer_count *count), void *context);
uint64_t rp_broker_timer_count_version(const rp_broker *broker); /* grows with each change */
/* How many wait in the slots of [now + begin_s, now + end_s). 0 before the first start. */
int64_t rp_broker_timers_between(const rp_broker *broker, int64_t begin_s, int64_t end_s);

/* Takes back a message with a timer, of which its sender was given topic, unique key and time. Its effect begins with the slot of its time:
 * only there its message is looked for. */
#define RP_RECALL_KEY_MAX 8192
typedef struct rp_recall {
    rp_slice topic, unique_key, producer_group;
    int64_t deliver_ms; /* of the wall clock */
    rp_slice born_host; /* address and 4-byte port: 8 or 20 bytes; data NULL: the store's */
    int32_t names_topic; /* appendTopicForTimerDeleteKey: the key is stored behind the topic's name, as by RocketMQ 5.3; both are read */
} rp_recall;
/* Appends, and wants it on disk without waiting for that; waits for the log no longer than any append, and of one with entries for the
 * commit (RP_E_TIMEOUT, RP_E_READ_ONLY as of rp_broker_send_back). RP_OK, and *end: of its record in the commit log. RP_E_INVALID: the
 * time is over or too far away, a text is empty, too long, or has a separator of properties in it; RP_E_UNSUPPORTED: timer_enable is 0;
 * RP_E_BUSY: flow control, or as of rp_append_item's status, as all others. */
int rp_broker_put_recall(rp_broker *broker, const rp_recall *recall, int64_t *end);

#endif
