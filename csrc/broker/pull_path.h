/* pull_path.h: answers pulls: checks, messages, response; what finds nothing goes to long_polling. Private to csrc/broker.
 * RocketMQ: PullMessageProcessor, DefaultPullMessageResultHandler (5.3.3 broker/processor/).
 *
 *   request ─ rp_pull ─ check ─ get_message ─┬─ FOUND, or a status the consumer acts on ─► response
 *                          ▲                 ├─ FOUND, but on disk only ─► cold_flow, cold_reads ───┐
 *                          │                 ├─ PULL_NOT_FOUND and it may wait ─────────────────────┤
 *                          │   a filter has taken RP_FILTER_TURN_NS of this turn already ───────────┴─► long_polling ─┐
 *                          └──────────── woken or out of time (then it does not wait again) ◄─────────────────────────┘
 *
 * Punts    unknown topic or group, topics without RP_TOPIC_NATIVE_PULL, class filters, expressions that are neither tags nor SQL92,
 *          SQL92 while it is not enabled, subscriptions Python keeps to itself; of static topics what lies in an earlier queue; lite
 *          topics that nobody asked for yet.
 * Lite     a pull that names a lite topic (5.5) is its topic's in all but the messages. It commits nothing: RocketMQ commits its offset in
 *          the topic's own queue.
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_PULL_PATH_H
#define RP_BROKER_PULL_PATH_H

#include <stdint.h>

#include "../remoting/server.h"
#include "answers.h"
#include "get_message.h"
#include "group_table.h"
#include "topic_table.h"

struct rp_lane;

#define RP_FILTER_TURN_NS 1000000 /* of a turn, for filters that look into records: it begins no more such pulls, as its senders wait */

#define RP_PULL_COMMIT_OFFSET 1
#define RP_PULL_SUSPEND 2
#define RP_PULL_SUBSCRIPTION 4
#define RP_PULL_CLASS_FILTER 8

/* A pull as this broker understands it. Nothing in it points into the request; the filter's words lie in the arena. */
typedef struct rp_pull {
    rp_topic *topic; /* whose rights, subscription and counts hold */
    rp_topic *light; /* whose messages it gets instead: a lite topic of it; NULL: none */
    rp_group *group;
    rp_consumption *consumption;
    rp_queue_slot *slot;
    rp_consume_queue *queue;
    int64_t offset; /* as asked */
    int64_t from;   /* offset, or further: up to here nothing matched */
    uint32_t judged_by; /* sequence of the heartbeat's subscription that said so */
    int64_t max_bytes;
    int64_t sub_version;
    int64_t suspend_ms;
    int64_t commit_offset;
    uint64_t connection_id;
    int64_t arrived_ns;
    rp_message_filter filter; /* of the request; with RP_PULL_SUBSCRIPTION only */
    int32_t queue_id;
    int32_t global_id;  /* of a static topic: queue and offsets above are those that it has here; -1: not a static topic */
    rp_mapped_queue at; /* of global_id */
    int32_t max_messages;
    int32_t sys_flag;
    int32_t opaque;
    int32_t request_code;
    uint8_t serialize_type;
    uint8_t oneway;
    uint8_t lite;
    uint8_t cold;       /* what it needs has to be read from disk first (cold_reads.h) */
    uint8_t disk_asked; /* and have been asked for: rp_cold_kind bits */
    uint8_t held;       /* its group has had what it may have from the disk in this window (cold_flow.h) */
    uint8_t later;      /* 1: it waits for a turn that has time for its filter */
} rp_pull;

enum rp_pull_attempt {
    RP_PULL_FIRST,    /* from a request: may punt, may wait, commits its offset */
    RP_PULL_WOKEN,    /* messages came: stays waiting when none of them matches */
    RP_PULL_LAST      /* its time is up: is answered whatever there is, from the disk if need be */
};

#define RP_PULL_PUNTED 100 /* a check's third outcome, beside RP_OK and RP_HANDLED */

/* Reads the filter of a request into the reactor's arena. RP_OK, RP_PULL_PUNTED, or the request was answered. */
int rp_pull_read_filter(struct rp_lane *lane, rp_slice expression, rp_slice type, rp_answer_to to, rp_message_filter *filter);
/* The limits for one request according to the settings. */
void rp_pull_read_limits(const rp_broker *broker, rp_get_limits *limits);
int rp_pull_path_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

enum rp_pull_outcome {
    RP_PULL_WAITS = 0,  /* nothing for it; pull->from may have moved */
    RP_PULL_DONE = 1,   /* answered, or its connection is gone */
    RP_PULL_CHOKED = 2, /* its consumer has not read what it was sent: to be tried again when it has had time to */
    RP_PULL_LATER = 3   /* this turn has filtered for long enough: to be tried again in the next */
};

/* Tries a suspended pull again. */
int rp_pull_path_retry(struct rp_lane *lane, rp_pull *pull, int attempt);

#endif
