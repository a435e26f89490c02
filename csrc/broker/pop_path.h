/* pop_path.h: answers pops and the requests that belong to them. Private to csrc/broker.
 * RocketMQ: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor, PeekMessageProcessor, NotificationProcessor,
 * PollingInfoProcessor (5.3.3 broker/processor/). Design: docs/design-pop.md.
 *
 * Punts    unknown topic or group; a retry topic that does not exist yet or has too few queues (once: Python creates them and returns
 *          the request); expressions that are neither tags nor SQL92; SQL92 while it is not enabled.
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_POP_PATH_H
#define RP_BROKER_POP_PATH_H

#include <stdint.h>

#include "../remoting/server.h"
#include "answers.h"
#include "group_table.h"
#include "pop_records.h"
#include "topic_table.h"

struct rp_lane;

#define RP_POP_QUEUES_MAX 4096 /* queues of a topic that one pop visits */

enum rp_pop_kind { RP_POP_MESSAGES, RP_POP_NOTIFICATION };

/* A decoded pop or notification; attempt id and filter lie in the arena until it waits. */
typedef struct rp_pop {
    rp_topic *topic;
    rp_group *group;
    rp_topic *retry_topics[2]; /* by version; NULL: does not exist */
    int64_t invisible_ms;
    int64_t poll_ms;
    uint64_t connection_id;
    int64_t arrived_ns;
    rp_message_filter filter;
    rp_slice attempt_id;
    int64_t cold_ns; /* when a read from the disk was last requested; 0: none is under way */
    int64_t look_ms; /* when a blocked queue is free, wall clock; 0: none is blocked */
    int32_t queue_id; /* below 0: any queue */
    int32_t max_messages;
    int32_t opaque;
    int32_t request_code;
    uint8_t kind; /* rp_pop_kind */
    uint8_t order;
    uint8_t from_min; /* initMode */
    uint8_t serialize_type;
    uint8_t oneway;
    uint8_t cold_kinds; /* rp_cold_kind bits requested from the disk since cold_ns */
    uint8_t cold_asked; /* the same, as of the begin of this look */
    uint8_t cold_over;  /* the disk has not answered in time: what is only there is read by the reactor */
    uint8_t more; /* some queue was not read to its end: to be tried again in the next turn */
    struct rp_lite_reader *lite; /* for a pop of lite topics, whose parent is `topic` (lite_path.h); otherwise NULL */
} rp_pop;

int rp_pop_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command, int resubmitted);
int rp_pop_ack_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);
int rp_pop_batch_ack_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);
int rp_pop_change_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);
int rp_pop_peek_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);
int rp_pop_notification_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);
int rp_pop_polling_info_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

/* Steps of these requests. read and check: RP_OK, RP_PULL_PUNTED, or the request was answered. */
struct rp_pop_catch;
int rp_pop_read(struct rp_lane *lane, rp_connection *connection, const rp_command *command, rp_pop *pop, rp_pop_header *header);
int rp_pop_check(const rp_broker *broker, const rp_pop *pop, rp_answer_to to);
/* Finds the existing retry topics. 0: the one for unacked messages is missing, or has too few queues. */
int rp_pop_find_retry_topics(const rp_broker *broker, rp_pop *pop);
/* Resets the results of the last look, and notes the state of disk reads. last: this may be the last look. */
void rp_pop_begin_look(const struct rp_lane *lane, rp_pop *pop, int last);
rp_answer_to rp_pop_answer_to(struct rp_lane *lane, const rp_pop *pop, rp_connection *connection);
/* 1 if the client does not read what it was sent, and must not be given more. */
int rp_pop_is_choked(const rp_connection *connection);
void rp_pop_catch_begin(struct rp_lane *lane, const rp_pop *pop, struct rp_pop_catch *caught);
/* Sends the answer with what was caught, and hands that over. RP_HANDLED, or a negative status: the connection must be closed. */
int rp_pop_answer(struct rp_lane *lane, const rp_pop *pop, rp_answer_to to, int32_t code, struct rp_pop_catch *caught);

/* Answers a change of the invisible time. RP_HANDLED, or RP_E_NO_MEMORY. */
int rp_pop_answer_change(rp_answer_to to, int64_t pop_time_ms, int64_t invisible_ms, int32_t revive_queue_id);
#define RP_POP_INVISIBLE_MS_MAX (INT64_C(10) * 365 * 24 * 3600 * 1000)
/* Clips an invisible time so that it can be added to a clock. */
static inline int64_t rp_pop_invisible_ms(int64_t ms) { return ms < 0 ? 0 : ms > RP_POP_INVISIBLE_MS_MAX ? RP_POP_INVISIBLE_MS_MAX : ms; }

/* Tries a waiting pop again; `last`: its time is up. 1: answered, or its connection is gone. */
int rp_pop_retry(struct rp_lane *lane, rp_pop *pop, int last);

#endif
