/* request_header.h: decodes the headers of the requests that csrc/broker answers, in one pass over a command's fields. Private to
 * csrc/broker.
 * RocketMQ: SendMessageRequestHeader, SendMessageRequestHeaderV2 (names a..n), PullMessageRequestHeader, PopMessageRequestHeader and
 * others (5.3.3 remoting/protocol/header/).
 *
 * An absent field without which RocketMQ fails too is reported by its name, a malformed number with its text, as Java's parse reports
 * it.
 *
 * Threads  pure functions; slices point into the command.
 */
#ifndef RP_BROKER_REQUEST_HEADER_H
#define RP_BROKER_REQUEST_HEADER_H

#include <stdint.h>

#include "../remoting/command.h"
#include "transactions.h"

/* What Python found out about a send that it was given and returns (rp_server_resubmit). */
enum rp_send_found {
    RP_SEND_IS_NEW = 0,
    RP_SEND_CAN_BE_STORED = 1,  /* its topic exists; if that is a retry topic, the message may have another try */
    RP_SEND_IS_DEAD_LETTER = 2, /* it was sent to a retry topic after its last try: the dead letter topic exists */
};

/* The first field that could not be used. */
typedef struct rp_header_fault {
    const char *field; /* static storage */
    rp_slice value;    /* data NULL: the field is absent */
} rp_header_fault;

typedef struct rp_send_header {
    rp_slice topic;
    rp_slice properties;
    int64_t born_timestamp_ms;
    int32_t queue_id;
    int32_t sys_flag;
    int32_t flag;
    int32_t reconsume_times;
    int32_t batch;
} rp_send_header;

/* Where the fields of the last short header were: only a guess for the next one (initially zero). */
#define RP_SEND_SHORT_FIELDS 8
typedef struct rp_send_layout {
    uint8_t places[RP_SEND_SHORT_FIELDS];
} rp_send_layout;

typedef struct rp_pull_header {
    rp_slice group;
    rp_slice topic;
    rp_slice subscription;
    rp_slice expression_type;
    rp_slice lite_topic; /* data NULL: absent */
    int64_t queue_offset;
    int64_t commit_offset;
    int64_t suspend_timeout_ms;
    int64_t sub_version;
    int32_t queue_id;
    int32_t max_messages;
    int32_t max_bytes; /* 0: absent */
    int32_t sys_flag;
} rp_pull_header;

typedef struct rp_offset_header {
    rp_slice group;
    rp_slice topic;
    int64_t commit_offset;
    int32_t queue_id;
    int32_t set_zero_if_not_found; /* -1: absent */
    int32_t has_queue_id, has_commit_offset;
} rp_offset_header;

typedef struct rp_search_header {
    rp_slice topic;
    rp_slice lite_topic;
    rp_slice boundary; /* data NULL: absent */
    int64_t timestamp_ms;
    int32_t queue_id;
} rp_search_header;

/* What a reply's header holds in addition, for the requester. */
typedef struct rp_reply_header {
    rp_slice producer_group;
    rp_slice default_topic;
    int32_t default_topic_queues;
    int32_t unit_mode;
} rp_reply_header;

/* What a send to a retry topic holds in addition; its other fields are only checked. */
typedef struct rp_tries_header {
    rp_slice producer_group;
    rp_slice default_topic;
    int32_t default_topic_queues;
    int32_t reconsume_times_max, has_reconsume_times_max;
} rp_tries_header;

#define RP_VERSION_3_4_9 121 /* from this version on clients send the number of tries; what older ones send is ignored */

/* For messages that are sent back. */
typedef struct rp_send_back_header {
    rp_slice group;
    rp_slice origin_message_id; /* data NULL: absent */
    int64_t log_offset;
    int32_t delay_level;
    int32_t reconsume_times_max, has_reconsume_times_max;
} rp_send_back_header;

/* For pops, peeks, notifications and polling queries; each has some of the fields. */
typedef struct rp_pop_header {
    rp_slice group, topic;
    rp_slice expression, expression_type, attempt_id; /* data NULL: absent */
    int64_t invisible_ms, poll_ms;
    int32_t queue_id, max_messages, init_mode, order;
} rp_pop_header;

/* For pops of lite topics; the topic is their parent. */
typedef struct rp_lite_pop_header {
    rp_slice client, group, topic;
    rp_slice attempt_id; /* data NULL: absent */
    int64_t invisible_ms, poll_ms, born_ms;
    int32_t max_messages;
} rp_lite_pop_header;

/* For acks and changes of the invisible time. */
typedef struct rp_pop_ack_header {
    rp_slice group, topic, extra_info;
    rp_slice lite_topic; /* data NULL: absent */
    int64_t offset, invisible_ms;
    int32_t queue_id;
    int32_t suspend; /* of a lite topic: all its messages, as if they had not been popped */
    int32_t request_code;
} rp_pop_ack_header;

/* RP_OK, or RP_E_PROTOCOL with the fault: a malformed number, or an absent field without which RocketMQ fails too. */
int rp_send_header_read(const rp_command *command, rp_send_layout *layout, rp_send_header *header, rp_header_fault *fault);
int rp_reply_header_read(const rp_command *command, rp_reply_header *header, rp_header_fault *fault);
int rp_tries_header_read(const rp_command *command, rp_tries_header *header, rp_header_fault *fault);
int rp_send_back_header_read(const rp_command *command, rp_send_back_header *header, rp_header_fault *fault);
int rp_pull_header_read(const rp_command *command, rp_pull_header *header, rp_header_fault *fault);
int rp_offset_header_read(const rp_command *command, rp_offset_header *header, rp_header_fault *fault);
int rp_search_header_read(const rp_command *command, rp_search_header *header, rp_header_fault *fault);
int rp_end_transaction_header_read(const rp_command *command, rp_end_transaction *request, rp_header_fault *fault);
/* For a static topic: does the request name the local queue of that number (lo=false), as requests between brokers do? */
int rp_names_queue_here(const rp_command *command);
/* Does the field name a lite topic? Blank text does not, as in RocketMQ. */
int rp_names_lite_topic(rp_slice lite_topic);
/* Decode according to the command's code. */
int rp_pop_header_read(const rp_command *command, rp_pop_header *header, rp_header_fault *fault);
int rp_lite_pop_header_read(const rp_command *command, rp_lite_pop_header *header, rp_header_fault *fault);
int rp_pop_ack_header_read(const rp_command *command, rp_pop_ack_header *header, rp_header_fault *fault);

/* Request codes that csrc/broker handles. */
#define RP_CODE_SEND_MESSAGE 10
#define RP_CODE_PULL_MESSAGE 11
#define RP_CODE_QUERY_CONSUMER_OFFSET 14
#define RP_CODE_UPDATE_CONSUMER_OFFSET 15
#define RP_CODE_SEARCH_OFFSET_BY_TIMESTAMP 29
#define RP_CODE_GET_MAX_OFFSET 30
#define RP_CODE_GET_MIN_OFFSET 31
#define RP_CODE_CONSUMER_SEND_MSG_BACK 36
#define RP_CODE_END_TRANSACTION 37
#define RP_CODE_SEND_MESSAGE_V2 310
#define RP_CODE_SEND_BATCH_MESSAGE 320
#define RP_CODE_SEND_REPLY_MESSAGE 324
#define RP_CODE_SEND_REPLY_MESSAGE_V2 325
#define RP_CODE_PUSH_REPLY_MESSAGE 326
#define RP_CODE_LITE_PULL_MESSAGE 361
#define RP_CODE_POP_MESSAGE 200050
#define RP_CODE_ACK_MESSAGE 200051
#define RP_CODE_PEEK_MESSAGE 200052
#define RP_CODE_CHANGE_INVISIBLE_TIME 200053
#define RP_CODE_NOTIFICATION 200054
#define RP_CODE_POLLING_INFO 200055
#define RP_CODE_POP_LITE_MESSAGE 200070
#define RP_CODE_BATCH_ACK_MESSAGE 200151

#endif
