/* pop_log.h: the revive topic: what was popped, and what was acked. Private to csrc/broker.
 * RocketMQ: PopAckConstants.buildClusterReviveTopic, EscapeBridge.putMessageToSpecificQueue (5.3.3 broker/).
 *
 * Threads  any.
 * Bounds   reviveQueueNum queues: the topic's, which Python makes at the start.
 */
#ifndef RP_BROKER_POP_LOG_H
#define RP_BROKER_POP_LOG_H

#include <stdint.h>

#include "broker.h"
#include "pop_records.h"
#include "topic_table.h"

#define RP_POP_REVIVE_TOPIC "rmq_sys_REVIVE_LOG_" /* and the cluster's name */
#define RP_POP_REVIVE_GROUP "CID_RMQ_SYS_REVIVE_GROUP"
#define RP_POP_ORDER_QUEUE 999 /* in place of a revive queue: the handle is an order consumer's */

/* NULL until Python has made it. */
rp_topic *rp_pop_log_topic(const rp_broker *broker);
/* RP_OK; RP_E_NOT_FOUND: no such queue; RP_E_IO: it cannot be opened. */
int rp_pop_log_open_queue(rp_broker *broker, int32_t revive_queue_id, rp_consume_queue **queue);

/* Of an acting slave, whose records go to another master: only its name and number are asked for, and it gets no file. */
int rp_pop_log_find_queue(rp_broker *broker, int32_t revive_queue_id, rp_consume_queue **queue);
/* The record as it is appended, or sent. */
void rp_pop_log_fill_item(const rp_broker *broker, rp_consume_queue *queue, const rp_pop_record *record, rp_append_item *item);

/* Append one record; replace appends a new checkpoint and then the ack of the one it replaces. Nobody waits for disk or slaves. RP_OK, or
 * the status of the append or of rp_pop_log_open_queue. When only the ack of a replace failed, the message comes twice, which is logged. */
int rp_pop_log_put_checkpoint(rp_broker *broker, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint);
int rp_pop_log_put_ack(rp_broker *broker, int32_t revive_queue_id, const rp_pop_ack *ack);
int rp_pop_log_replace(rp_broker *broker, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint, const rp_pop_ack *ack);

/* %RETRY%GROUP_TOPIC, or %RETRY%GROUP+TOPIC for version 2, into name[RP_POP_RETRY_NAME_MAX]; its size, 0 when it is too long. */
#define RP_POP_RETRY_NAME_MAX 256
uint32_t rp_pop_retry_topic_name(rp_slice topic, rp_slice group, int version, uint8_t *name);
/* How many queues a retry topic of this topic's is to have at least: one, or as many as are sent to (useSeparateRetryQueue). */
int32_t rp_pop_retry_queues(const rp_broker *broker, const rp_topic *topic);
/* How many of its queues are both written and read. */
int32_t rp_pop_retry_width(const rp_topic *retry);

#endif
