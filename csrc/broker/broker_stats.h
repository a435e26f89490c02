/* broker_stats.h: the broker's counters: per topic, group, kind of answer, and in total. Public, beside broker.h.
 * RocketMQ: BrokerStatsManager, StoreStatsService, BrokerMetricsManager, RemotingMetricsManager (5.3.3).
 *
 * Threads  any; concurrent increments may or may not be included.
 */
#ifndef RP_BROKER_BROKER_STATS_H
#define RP_BROKER_BROKER_STATS_H

#include <stdint.h>

#include "../base/slice.h"
#include "broker.h"

/* Only existing topics and groups have counters: one that is deleted and created again begins at 0. */

/* ---- topics ---- */

enum rp_message_type { RP_MESSAGE_NORMAL = 0, RP_MESSAGE_FIFO = 1, RP_MESSAGE_DELAY = 2, RP_MESSAGE_TRANSACTION = 3 };
#define RP_MESSAGE_TYPES 4
#define RP_INTAKE_SIZES 7
#define RP_DURATION_CLASSES 7
uint32_t rp_intake_size_max(uint32_t class); /* upper bound of a record's bytes in each class but the last */
int32_t rp_end_seconds_max(uint32_t class); /* upper bound of the time from a message's birth to its commit, in each class but the last */
/* Upper bound of the time from a timed message's birth to its due time, in each class but the last */
int32_t rp_delay_seconds_max(uint32_t class);

/* Messages of one type: each counts in one of the sizes. */
typedef struct rp_intake_counts {
    uint64_t bytes;
    uint64_t sizes[RP_INTAKE_SIZES];
} rp_intake_counts;

/* Each duration counts in one of the classes. */
typedef struct rp_duration_counts {
    uint64_t seconds;
    uint64_t classes[RP_DURATION_CLASSES];
} rp_duration_counts;

/* Transactions whose messages were sent to a topic: decisions, and how long the committed ones took. */
typedef struct rp_transaction_ends {
    uint64_t commits, rollbacks;
    rp_duration_counts took;
} rp_transaction_ends;

typedef struct rp_topic_stats {
    rp_slice topic;
    uint64_t messages_in, bytes_in, messages_out, bytes_out; /* in: of all types */
    rp_intake_counts in[RP_MESSAGE_TYPES];
    rp_transaction_ends ends;
    /* Delays of timed messages, from birth to due time; counts those entered into the wheel or delivered at once. */
    rp_duration_counts delays;
    uint64_t timers_out; /* timed messages delivered, those from before the start included */
} rp_topic_stats;

/* The functions of this form call visit for each row until it returns non-zero. Slices are valid during the call. */
void rp_broker_each_topic_stats(rp_broker *broker, int (*visit)(void *context, const rp_topic_stats *stats), void *context);

/* ---- answers ---- */

/* Answers of one kind, by the time since their requests arrived. has_waited: they were written in a later turn of the reactor than the
 * one that read the request. Answers written by Python are not included. */
#define RP_ANSWER_CLASSES 10
typedef struct rp_answer_stats {
    int32_t request_code, response_code, has_waited;
    uint64_t total_ns;
    uint64_t classes[RP_ANSWER_CLASSES];
} rp_answer_stats;

int32_t rp_answer_class_ms(uint32_t class); /* upper bound of each class but the last */
/* One row for each kind of answer and each reactor. */
void rp_broker_each_answer_stats(rp_broker *broker, int (*visit)(void *context, const rp_answer_stats *stats), void *context);

/* ---- groups ---- */

typedef struct rp_group_stats {
    rp_slice group, topic;
    uint64_t messages_out, bytes_out;
    uint64_t sent_back; /* messages that the group could not process */
} rp_group_stats;

void rp_broker_each_group_stats(rp_broker *broker, int (*visit)(void *context, const rp_group_stats *stats), void *context);

/* ---- the whole broker ---- */

/* put_ms: sends by the time from arrival to append, as putMessageDistributeTime names the classes: <=0ms, 0~10ms, 10~50ms, 50~100ms,
 * 100~200ms, 200~500ms, 500ms~1s, 1~2s, 2~3s, 3~4s, 4~5s, 5~10s, 10s~. */
#define RP_PUT_MS_BUCKETS 13

typedef struct rp_broker_stats {
    uint64_t sends, sends_failed, sends_punted, pulls, pulls_found, pulls_missed, pulls_punted, pulls_suspended_now, pulls_woken;
    uint64_t messages_in, bytes_in, messages_out, bytes_out, responses_parked_now, flush_timeouts, slave_timeouts, slaves_missing;
    uint64_t puts_inside; /* records counted by rp_count_put_inside */
    uint64_t replies, replies_failed; /* answered SUCCESS; answered otherwise */
    uint64_t replies_pending_now; /* waiting for a requester or the disk */
    uint64_t put_ns_p50, put_ns_p99, put_ns_p999, put_ns_max, get_ns_max;
    uint64_t put_ms[RP_PUT_MS_BUCKETS];
} rp_broker_stats;

void rp_broker_read_stats(const rp_broker *broker, rp_broker_stats *stats);

#endif
