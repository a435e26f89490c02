/* half_messages.h: prepared messages of transactions, and the decisions about them. Private to csrc/broker.
 * RocketMQ: TransactionalMessageBridge, TransactionalMessageServiceImpl, EndTransactionProcessor (5.3.3 broker/).
 *
 *   send with TRAN_MSG ─► RMQ_SYS_TRANS_HALF_TOPIC ─┬─ commit ─► REAL_TOPIC, queue REAL_QID, or a delay level ─┐
 *                                ▲                  ├─ roll back ──────────────────────────────────────────────┤
 *                                └─ checked again ──┴─ given up ─► TRANS_CHECK_MAX_TIME_TOPIC                  ▼
 *                                                                RMQ_SYS_TRANS_OP_HALF_TOPIC: the queue offset it has in the first
 *
 * Each topic has one queue, 0. A committed message is appended before the operation that records the decision: after a crash in between,
 * the producer is asked again and the message comes twice, as with RocketMQ; it is never lost.
 * RocketMQ 5 gathers up to three seconds of operations in one message; here each is written at once, as in 4.x. Both read both.
 *
 * Threads  any.
 */
#ifndef RP_BROKER_HALF_MESSAGES_H
#define RP_BROKER_HALF_MESSAGES_H

#include <stdint.h>

#include "../remoting/command.h"
#include "../store/message.h"
#include "broker.h"
#include "topic_table.h"

#define RP_HALF_TOPIC "RMQ_SYS_TRANS_HALF_TOPIC"
#define RP_OP_TOPIC "RMQ_SYS_TRANS_OP_HALF_TOPIC"
#define RP_FIRST_OFFSET "TRAN_PREPARED_QUEUE_OFFSET"

/* Opens the queue of either topic for an append, and finds the topic, which counts the messages. RP_OK; RP_E_IO: disk or memory is out,
 * or somebody deleted the topic. */
int rp_half_open_queue(rp_broker *broker, rp_topic **topic, rp_consume_queue **queue);
int rp_op_open_queue(rp_broker *broker, rp_topic **topic, rp_consume_queue **queue);
/* For reading; NULL if there was never a message in it. */
rp_consume_queue *rp_half_queue(const rp_broker *broker);
rp_consume_queue *rp_op_queue(const rp_broker *broker);
/* For a copy made while the message was immune: the queue offset that the original had, as the properties say. -1: they name none. A
 * producer may have set it. */
int64_t rp_half_said_first_offset(rp_slice properties);
/* 1 if that is true, as far as can be told: both have the same body, key, birth time and connection, or the original is gone; 0: it is
 * not. RP_E_IO, RP_E_NO_MEMORY. */
int rp_half_is_copy_of(rp_broker *broker, const rp_message *half, int64_t first_offset);

struct rp_lane;
/* Answers END_TRANSACTION, or punts it. */
int rp_end_transaction_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

#endif
