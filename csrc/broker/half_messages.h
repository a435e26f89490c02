/* half_messages.h: prepared messages of transactions, and what became of them. Private to csrc/broker.
 * RocketMQ: TransactionalMessageBridge, TransactionalMessageServiceImpl, EndTransactionProcessor (5.3.3 broker/).
 *
 *   send with TRAN_MSG ─► RMQ_SYS_TRANS_HALF_TOPIC ─┬─ commit ─► REAL_TOPIC, queue REAL_QID, or a delay level ─┐
 *                                ▲                  ├─ roll back ──────────────────────────────────────────────┤
 *                                └─ checked again ──┴─ given up ─► TRANS_CHECK_MAX_TIME_TOPIC                  ▼
 *                                                                RMQ_SYS_TRANS_OP_HALF_TOPIC: the queue offset it has in the first
 *
 * Each topic has one queue, 0. What is committed is appended before the operation that says so: a crash in between has its producer asked
 * again, and the message comes twice, as with RocketMQ; it is never lost.
 * RocketMQ 5 gathers up to three seconds of operations in one message; here each has its own at once, as in 4.x. Both read both.
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

/* The queue of either topic for whoever appends to it, and the topic, whose messages are counted. RP_OK; RP_E_IO: disk or memory is out, or
 * somebody deleted the topic. */
int rp_half_open_queue(rp_broker *broker, rp_topic **topic, rp_consume_queue **queue);
int rp_op_open_queue(rp_broker *broker, rp_topic **topic, rp_consume_queue **queue);
/* For whoever reads: NULL while there was never a message in it. */
rp_consume_queue *rp_half_queue(const rp_broker *broker);
rp_consume_queue *rp_op_queue(const rp_broker *broker);
/* Of a copy that was made while the message was immune: the queue offset that had first. -1: it says none. A producer may have said it. */
int64_t rp_half_said_first_offset(rp_slice properties);
/* 1: that is true, as far as can be told: the two have one body and key, and were born at one moment on one connection, or the first is
 * gone; 0: it is not. RP_E_IO, RP_E_NO_MEMORY. */
int rp_half_is_copy_of(rp_broker *broker, const rp_message *half, int64_t first_offset);

struct rp_lane;
/* END_TRANSACTION. */
int rp_end_transaction_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

#endif
