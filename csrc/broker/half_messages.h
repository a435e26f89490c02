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
 * Lock     `lock`: a queue is made under it, once.
 */
#ifndef RP_BROKER_HALF_MESSAGES_H
#define RP_BROKER_HALF_MESSAGES_H

#include <stdint.h>

#include "../remoting/command.h"
#include "broker.h"
#include "topic_table.h"

#define RP_HALF_TOPIC "RMQ_SYS_TRANS_HALF_TOPIC"
#define RP_OP_TOPIC "RMQ_SYS_TRANS_OP_HALF_TOPIC"

typedef struct rp_half_messages rp_half_messages;

/* NULL: memory is out. */
rp_half_messages *rp_half_messages_create(rp_broker *broker);
void rp_half_messages_destroy(rp_half_messages *halves);

/* The queues, NULL while there was never a message in them. */
rp_consume_queue *rp_half_queue(const rp_half_messages *halves);
rp_consume_queue *rp_op_queue(const rp_half_messages *halves);
/* With their first file. RP_OK, or RP_E_IO: disk or memory is out. */
int rp_half_open_queue(rp_half_messages *halves, rp_consume_queue **queue);
int rp_op_open_queue(rp_half_messages *halves, rp_consume_queue **queue);
/* Whose messages are counted. */
rp_topic *rp_half_topic(const rp_half_messages *halves);

struct rp_lane;
/* END_TRANSACTION. */
int rp_end_transaction_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

#endif
