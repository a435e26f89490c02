/* timed_messages.h: Python's calls for messages with a timer (timer_service.h). Public, beside broker.h.
 * RocketMQ: TimerMessageStore, TimerMetrics, RecallMessageProcessor (5.3.3 store/timer/, broker/processor/).
 *
 * Sends with a timer are accepted while timer_enable of the settings is 1, whether the service runs or not: they wait in
 * rmq_sys_wheel_timer.
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
    int32_t precision_ms;         /* timerPrecisionMs, 1 to 1,000; default 1,000. The settings must have the same value */
    int32_t roll_window_slots;    /* timerRollWindowSlot, 2 to 604,740; default 172,800 */
    uint32_t flush_interval_ms;   /* timerFlushIntervalMs, default 1,000 */
    uint32_t progress_interval_ms;/* timerProgressLogIntervalMs, default 10,000; 0: progress is not logged */
    int32_t delivers;             /* 1: a master; 0: a slave, which enters what its master has entered and delivers nothing */
    const rp_clock *clock;        /* NULL: the system's */
    const rp_file_ops *file_ops;  /* NULL: the kernel's */
} rp_timer_options;
void rp_timer_options_default(rp_timer_options *options);

/* Starts the service: opens the files under root_path and continues where it stopped. A second start, after a stop, continues with the
 * files as they are, and uses only `delivers` of its options. RP_OK, also if it runs already; RP_E_INVALID: an option; errors of
 * rp_timer_files_open and rp_thread_start. */
int rp_broker_start_timers(rp_broker *broker, const rp_timer_options *options, rp_error *error);
/* Stops the service; returns when nothing is entered or delivered any more and everything is on disk. RP_OK, also if it does not run;
 * else why something is not on disk: nothing is lost, but the next start may deliver messages twice. */
int rp_broker_stop_timers(rp_broker *broker, rp_error *error);

/* To be called before a start. On a master: says that of the messages waiting here, those due before until_ms and below queue_offset of
 * the timer queue were delivered by the slave that acted for it, except those at the offsets in `but`, ascending. Those that were only
 * to be rolled there are rolled here. On an acting slave: the same for what it delivered itself before it was restarted; there rolled
 * messages are over too. Valid until the broker is closed; 0, 0: none. RP_OK; RP_E_NO_MEMORY: unchanged. */
int rp_broker_set_timers_passed_on(rp_broker *broker, int64_t until_ms, int64_t queue_offset, const int64_t *but, uint32_t count);
/* On an acting slave: slots before *read_ms are over, except for the messages at these offsets of the timer queue, ascending, which were
 * set aside. Returns how many. *read_ms 0: the service was never started. */
#define RP_TIMERS_ASIDE_MAX 16384
uint32_t rp_broker_read_timers_aside(const rp_broker *broker, int64_t *read_ms, int64_t *offsets);

typedef struct rp_timer_stats {
    int64_t read_time_ms;         /* slots before it have been delivered */
    int64_t queue_offset;         /* messages before it have been entered */
    int64_t queue_max_offset;
    int64_t master_queue_offset;  /* on a slave: as its master last reported */
    int64_t messages_waiting;     /* in the wheel */
    int64_t enqueue_behind_ms;    /* how long ago the next message to be entered was stored; 0: there is none */
    int64_t dequeue_behind_ms;    /* how long the next slot to be delivered has been due; 0: it is not due */
    uint64_t entered, delivered, rolled, recalled, passed_over;
    int32_t is_running;
} rp_timer_stats;
void rp_broker_read_timer_stats(const rp_broker *broker, rp_timer_stats *stats);

/* On a master, for its slaves: the body of GET_TIMER_CHECK_POINT, as on disk. 1; 0: the service was never started. */
int rp_broker_read_timer_checkpoint(const rp_broker *broker, uint8_t bytes[RP_TIMER_CHECKPOINT_BYTES]);
/* On a slave: follows its master, which sent this body. RP_OK; RP_E_PROTOCOL; RP_E_CLOSED: the service was never started, or it
 * delivers. */
int rp_broker_follow_timer_checkpoint(rp_broker *broker, const uint8_t *bytes, uint32_t size);

/* The number of messages waiting for a topic; there is a row for each existing topic for which any have waited since the start.
 * changed_ms: wall clock. */
typedef struct rp_timer_count {
    rp_slice topic;
    int64_t count, changed_ms;
} rp_timer_count;
void rp_broker_each_timer_count(rp_broker *broker, int (*visit)(void *context, const rp_timer_count *count), void *context);
uint64_t rp_broker_timer_count_version(const rp_broker *broker); /* grows with each change */
/* Returns how many messages wait in the slots of [now + begin_s, now + end_s); 0 before the first start. */
int64_t rp_broker_timers_between(const rp_broker *broker, int64_t begin_s, int64_t end_s);

/* A recall of a message with a timer, whose sender was told topic, unique key and time. It takes effect in the slot of that time, and
 * the message is looked for only there. */
#define RP_RECALL_KEY_MAX 8192
typedef struct rp_recall {
    rp_slice topic, unique_key, producer_group;
    int64_t deliver_ms; /* wall clock */
    rp_slice born_host; /* address and 4-byte port: 8 or 20 bytes; data NULL: the store's host */
    /* appendTopicForTimerDeleteKey: the key is stored behind the topic's name, as RocketMQ 5.3 does; both forms are read */
    int32_t names_topic;
} rp_recall;
/* Appends the recall and requests its sync without waiting; waits for the log no longer than any append and, if the log has entries, for
 * the commit (RP_E_TIMEOUT, RP_E_READ_ONLY as rp_broker_send_back). RP_OK, and *end: the end of its record in the commit log.
 * RP_E_INVALID: the time is over or too far away, or a text is empty, too long, or contains a separator of properties; RP_E_UNSUPPORTED:
 * timer_enable is 0; RP_E_BUSY: flow control, or, like all others, as rp_append_item's status. */
int rp_broker_put_recall(rp_broker *broker, const rp_recall *recall, int64_t *end);

#endif
