/* send_path.h: plain sends: checked as they arrive, appended together at the turn's end. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck, HookUtils.checkBeforePutMessage (5.3.3 broker/).
 *
 *   request ─ checks ─ items of this turn ─┐                       ┌─ response now
 *   request ─ checks ─ items of this turn ─┼─ one append (a lock) ─┤
 *   request ─ checks ─ items of this turn ─┘                       └─ parked until on disk and on slaves
 *
 * Punts    topics that are unknown or lack RP_TOPIC_NATIVE_SEND, except retry topics' messages that may have another try (send_retry.h);
 *          sys flags other than compression and multi tags; prepared messages while they are refused.
 * Threads  the reactor's.
 * Bounds   when RP_SEND_ITEMS messages wait for the turn's end they are appended at once; a batch may hold more.
 */
#ifndef RP_BROKER_SEND_PATH_H
#define RP_BROKER_SEND_PATH_H

#include <stdint.h>

#include "../remoting/server.h"
#include "../store/commit_log.h"
#include "answers.h"
#include "message_properties.h"
#include "request_header.h"
#include "topic_table.h"

#define RP_SEND_ITEMS 1024

struct rp_lane;

/* One accepted request of this turn. */
typedef struct rp_pending_send {
    rp_answer_to to; /* connection NULL: it closed meanwhile */
    rp_topic *topic;
    rp_slice unique_key; /* transactionId of the response */
    rp_slice recall_handle; /* for a message with a timer; data NULL: none */
    uint32_t item_first, item_count;
    int32_t queue_id;
    uint8_t is_mapped; /* report the offset as one of a global queue, by `at` */
    rp_mapped_queue at;
    struct rp_reply *reply; /* NULL; otherwise what is told of the append in place of a response (pending_replies.h) */
    uint8_t wait; /* WAIT; 0: answered without waiting for disk and slaves */
    uint8_t batch;
    uint8_t inner; /* a batch in one record of a batch queue */
    uint8_t type; /* rp_message_type */
} rp_pending_send;

typedef struct rp_send_batch {
    rp_append_item *items; /* slices point into this turn's frames and arena */
    rp_pending_send *sends;
    uint32_t item_count, item_capacity;
    uint32_t send_count, send_capacity;
    int64_t delay_ms_min; /* smallest delay of the delayed ones; INT64_MAX: there are none */
} rp_send_batch;

int rp_send_batch_init(rp_send_batch *batch);
void rp_send_batch_free(rp_send_batch *batch);

/* One send on its way through the checks. Replies go the same way, in an order of their own (reply_path.h). */
typedef struct rp_send_request {
    struct rp_lane *lane;
    const rp_command *command;
    rp_answer_to to;
    rp_send_header header;
    rp_sent_properties properties;
    rp_topic *topic;
    rp_consume_queue *queue;
    int32_t queue_id;
    int32_t global_id;   /* for a static topic, whose local queue is queue_id; -1: not a static topic */
    rp_mapped_queue at;  /* of global_id */
    enum rp_send_found found;
    int64_t delay_ms; /* -1: not delayed */
    int64_t out_ms;   /* slot of a message with a timer; -1: it has none */
    int32_t is_prepared; /* the message waits for the end of its transaction */
} rp_send_request;

/* The checks, in order: whether the broker accepts sends yet; topic, permission and queue; flags and properties; the body. Each returns
 * RP_OK, RP_PUNT, or the result of answering a refusal. */
int rp_send_check_time(const rp_send_request *request);
int rp_send_check_topic(rp_send_request *request);
int rp_send_check_properties(rp_send_request *request);
int rp_send_check_body(const rp_send_request *request);
/* Adds the message of a reply to this turn's items. 1; 0: that is not possible now, and nobody gets an answer. */
int rp_send_add_reply(rp_send_request *request, struct rp_reply *reply);

int rp_send_path_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command, enum rp_send_found found);
/* To be called after a turn's flush: what the turn sent to global queues is stored now. */
void rp_send_path_settle(struct rp_lane *lane);
/* Appends what this turn collected and answers it. */
void rp_send_path_flush(struct rp_lane *lane);
void rp_send_path_connection_closed(struct rp_lane *lane, const rp_connection *connection);

#endif
