/* pull_path.h: answers pulls: checks, messages, response; a pull that finds nothing goes to long_polling. Private to csrc/broker.
 * RocketMQ: PullMessageProcessor, DefaultPullMessageResultHandler (5.3.3 broker/processor/).
 *
 *   request ─ rp_pull ─ check ─ get_message ─┬─ FOUND, or a status the consumer acts on ─► response
 *                          ▲                 ├─ FOUND, but on disk only ─► cold_flow, cold_reads ───┐
 *                          │                 ├─ PULL_NOT_FOUND and it may wait ─────────────────────┤
 *                          │   a filter has taken RP_FILTER_TURN_NS of this turn already ───────────┴─► long_polling ─┐
 *                          └──────────── woken or out of time (then it does not wait again) ◄─────────────────────────┘
 *
 * Punts    unknown topic or group; topics without RP_TOPIC_NATIVE_PULL; class filters; expressions that are neither tags nor SQL92;
 *          SQL92 while it is not enabled; subscriptions that Python keeps to itself; offsets of static topics that lie in an earlier
 *          queue; lite topics that nobody asked for yet.
 * Lite     a pull that names a lite topic (5.5) is handled as one of its topic, except for the messages it gets. It commits nothing:
 *          RocketMQ commits its offset in the topic's own queue.
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

/* Time in a turn for filters that read records; then no further such pull is begun, because the reactor's senders wait */
#define RP_FILTER_TURN_NS 1000000

#define RP_PULL_COMMIT_OFFSET 1
#define RP_PULL_SUSPEND 2
#define RP_PULL_SUBSCRIPTION 4
#define RP_PULL_CLASS_FILTER 8

/* A decoded pull. Nothing in it points into the request; the filter's words are in the arena. */
typedef struct rp_pull {
    rp_topic *topic; /* whose rights, subscription and counters apply */
    rp_topic *light; /* lite topic whose messages it gets instead; NULL: none */
    rp_group *group;
    rp_consumption *consumption;
    rp_queue_slot *slot;
    rp_consume_queue *queue;
    int64_t offset; /* as requested */
    int64_t from;   /* offset, or a later one: everything before it did not match */
    uint32_t judged_by; /* sequence of the heartbeat's subscription by which it did not match */
    int64_t max_bytes;
    int64_t sub_version;
    int64_t suspend_ms;
    int64_t commit_offset;
    uint64_t connection_id;
    int64_t arrived_ns;
    rp_message_filter filter; /* filter of the request; only with RP_PULL_SUBSCRIPTION */
    int32_t queue_id;
    int32_t global_id;  /* for a static topic: queue and offsets above are the local ones; -1: not a static topic */
    rp_mapped_queue at; /* of global_id */
    int32_t max_messages;
    int32_t sys_flag;
    int32_t opaque;
    int32_t request_code;
    uint8_t serialize_type;
    uint8_t oneway;
    uint8_t lite;
    uint8_t cold;       /* what it needs has to be read from disk first (cold_reads.h) */
    uint8_t disk_asked; /* rp_cold_kind bits that have been requested from the disk */
    uint8_t held;       /* its group has used up its disk reads in this window (cold_flow.h) */
    uint8_t later;      /* 1: it waits for a turn that has time for its filter */
} rp_pull;

enum rp_pull_attempt {
    RP_PULL_FIRST,    /* on arrival: may punt, may wait, commits its offset */
    RP_PULL_WOKEN,    /* after messages arrived: stays waiting if none matches */
    RP_PULL_LAST      /* its time is up: it is answered in any case, from the disk if need be */
};

#define RP_PULL_PUNTED 100 /* third result of a check, beside RP_OK and RP_HANDLED */

/* Reads the filter of a request into the reactor's arena. RP_OK, RP_PULL_PUNTED, or the request was answered. */
int rp_pull_read_filter(struct rp_lane *lane, rp_slice expression, rp_slice type, rp_answer_to to, rp_message_filter *filter);
/* Reads the limits for one request from the settings. */
void rp_pull_read_limits(const rp_broker *broker, rp_get_limits *limits);
int rp_pull_path_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

enum rp_pull_outcome {
    RP_PULL_WAITS = 0,  /* there is nothing for it; pull->from may have moved */
    RP_PULL_DONE = 1,   /* answered, or its connection is gone */
    RP_PULL_CHOKED = 2, /* its client has not read what it was sent: try again later */
    RP_PULL_LATER = 3   /* this turn has filtered for long enough: try again in the next */
};

/* Tries a suspended pull again. */
int rp_pull_path_retry(struct rp_lane *lane, rp_pull *pull, int attempt);

#endif
