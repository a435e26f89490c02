/* pop_records.h: encodes and decodes checkpoints and acks in the revive topic, and batch acks in requests. Private to csrc/broker.
 * RocketMQ: PopCheckPoint, AckMsg, BatchAckMsg (5.3.3 store/pop/), PopMessageProcessor.genCkUniqueId and its like, BatchAck (remoting/).
 *
 *   tag ck    {"bm":0,"bn":"broker-a","c":"GROUP","d":[0,1],"it":60000,"n":2,"pt":…,"q":3,"reviveTime":…,"ro":0,"so":1000,"t":"TOPIC"}
 *   tag ack   {"ao":1001,"bn":…,"c":…,"pt":…,"q":3,"so":1000,"t":…}
 *   tag bAck  the same with "ao":-1,"aol":[1000,1001]
 *   properties  TAGS, TIMER_DELIVER_MS, UNIQ_KEY (topic@queue@start@group@popTime@broker@ck; topic@queue@ao@group@popTime@broker@ack)
 *
 * as fastjson 1 writes them. In RocketMQ, TIMER_DELIVER_MS is the time when the timer moves the record to the topic, shortly before it
 * is due. Here it is the time when the record was put, which is earlier. A RocketMQ that takes over such a topic believes that it has
 * seen everything up to the latest TIMER_DELIVER_MS, and without any it revives nothing.
 *
 * What is read is hostile: any JSON, any number. A record without topic, group or offsets is RP_E_PROTOCOL.
 *
 * Threads  pure functions. Decoded texts point into the body, or into the arena if they had escapes.
 */
#ifndef RP_BROKER_POP_RECORDS_H
#define RP_BROKER_POP_RECORDS_H

#include <stdint.h>

#include "../base/arena.h"
#include "../base/slice.h"

#define RP_POP_MESSAGES_MAX 32
#define RP_POP_ACKS_MAX 4096 /* offsets of one ack; RocketMQ's clients send 32 at most */
#define RP_POP_RE_PUTS_MAX 127 /* RocketMQ reads any text that is not a number as this */
#define RP_POP_CK_TAG "ck"
#define RP_POP_ACK_TAG "ack"
#define RP_POP_BATCH_ACK_TAG "bAck"

typedef struct rp_pop_checkpoint {
    rp_slice topic, group, broker_name; /* the topic that was popped; for messages from a retry topic, that one */
    int64_t start_offset;
    int64_t pop_time_ms, invisible_ms;
    int64_t revive_offset; /* "ro": only preserved; 0 in new records */
    int32_t queue_id;
    int32_t bits;          /* "bm" */
    int32_t re_puts;       /* "rp", a text there: how often it was written again; 0: absent. 0..RP_POP_RE_PUTS_MAX */
    uint32_t count;        /* "n": messages, 0..RP_POP_MESSAGES_MAX */
    uint32_t diff_count;   /* "d": 0 in records of old versions, whose messages are consecutive; otherwise count */
    int32_t diffs[RP_POP_MESSAGES_MAX]; /* offset of each, from start_offset */
} rp_pop_checkpoint;

typedef struct rp_pop_ack {
    rp_slice topic, group, broker_name;
    int64_t start_offset, pop_time_ms;
    int32_t queue_id;
    int32_t is_batch;      /* 1: a bAck */
    uint32_t offset_count; /* 1 for an ack */
    const int64_t *offsets; /* offsets of messages; supplied by the caller, or in the arena when decoded */
} rp_pop_ack;

/* A record ready for rp_append_item; both texts lie in the caller's buffer. */
typedef struct rp_pop_record {
    rp_slice body, properties;
    int64_t tags_code; /* Java's hash of the tag */
} rp_pop_record;

/* Upper bound of the record's size, escapes included. */
uint32_t rp_pop_checkpoint_room(const rp_pop_checkpoint *checkpoint);
uint32_t rp_pop_ack_room(const rp_pop_ack *ack);
/* Encode into a buffer of that size. */
void rp_pop_checkpoint_write(const rp_pop_checkpoint *checkpoint, int64_t now_ms, uint8_t *room, rp_pop_record *record);
void rp_pop_ack_write(const rp_pop_ack *ack, int64_t now_ms, uint8_t *room, rp_pop_record *record);

/* Decode. RP_OK; RP_E_PROTOCOL; RP_E_TOO_LARGE: more messages or offsets than the bounds; RP_E_NO_MEMORY. */
int rp_pop_checkpoint_read(rp_slice body, rp_arena *arena, rp_pop_checkpoint *checkpoint);
int rp_pop_ack_read(rp_slice body, int is_batch, rp_arena *arena, rp_pop_ack *ack);

/* Returns the index of the message with that offset, -1 if there is none; and the offset of the message with that index. */
int32_t rp_pop_checkpoint_index(const rp_pop_checkpoint *checkpoint, int64_t offset);
int64_t rp_pop_checkpoint_offset(const rp_pop_checkpoint *checkpoint, uint32_t index);

/* Body of BATCH_ACK_MESSAGE: {"brokerName":…,"acks":[{"c":…,"t":…,"r":"0","so":…,"q":…,"rq":…,"pt":…,"it":…,"b":"base64 of a BitSet"}]},
 * in any order; the long names that Java also accepts (consumerGroup, topic, retry, …) are accepted too. */
typedef struct rp_batch_ack {
    /* The requested topic; retry says which one was popped: "0" that one, "1" (V1) or "2" (V2) a retry topic. */
    rp_slice group, topic, retry;
    int64_t start_offset, pop_time_ms, invisible_ms;
    int32_t queue_id, revive_queue_id;
    uint32_t offset_count;
    int64_t *offsets; /* start_offset + each set bit; in the arena */
} rp_batch_ack;

typedef struct rp_batch_acks {
    rp_slice broker_name;
    uint32_t count;
    rp_batch_ack *acks; /* in the arena */
} rp_batch_acks;

/* As above; RP_E_TOO_LARGE past RP_POP_ACKS_MAX acks, or bits of one ack. */
int rp_batch_acks_read(rp_slice body, rp_arena *arena, rp_batch_acks *acks);

#endif
