/* pop_log.h: the revive topic, which records what was popped and what was acked. Private to csrc/broker.
 * RocketMQ: PopAckConstants.buildClusterReviveTopic, EscapeBridge.putMessageToSpecificQueue (5.3.3 broker/).
 *
 * Threads  any.
 * Bounds   reviveQueueNum queues: those of the topic, which Python creates at the start.
 */
#ifndef RP_BROKER_POP_LOG_H
#define RP_BROKER_POP_LOG_H

#include <stdint.h>

#include "broker.h"
#include "pop_records.h"
#include "topic_table.h"

#define RP_POP_REVIVE_TOPIC "rmq_sys_REVIVE_LOG_" /* followed by the cluster's name */
#define RP_POP_REVIVE_GROUP "CID_RMQ_SYS_REVIVE_GROUP"
#define RP_POP_ORDER_QUEUE 999 /* in place of a revive queue's number: the handle belongs to an orderly consumer */

/* NULL until Python has created it. */
rp_topic *rp_pop_log_topic(const rp_broker *broker);
/* Opens a revive queue. RP_OK; RP_E_NOT_FOUND: no such queue; RP_E_IO: it cannot be opened. */
int rp_pop_log_open_queue(rp_broker *broker, int32_t revive_queue_id, rp_consume_queue **queue);

/* For an acting slave, whose records go to another master: only the queue's name and number are needed, and it gets no file. */
int rp_pop_log_find_queue(rp_broker *broker, int32_t revive_queue_id, rp_consume_queue **queue);
/* Fills in the item for a record that is appended or sent. */
void rp_pop_log_fill_item(const rp_broker *broker, rp_consume_queue *queue, const rp_pop_record *record, rp_append_item *item);

/* Append one record; replace appends a new checkpoint and then the ack of the one it replaces. Nobody waits for disk or slaves. RP_OK, or
 * the status of the append or of rp_pop_log_open_queue. When only the ack of a replace failed, the message comes twice, which is logged. */
int rp_pop_log_put_checkpoint(rp_broker *broker, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint);
int rp_pop_log_put_ack(rp_broker *broker, int32_t revive_queue_id, const rp_pop_ack *ack);
int rp_pop_log_replace(rp_broker *broker, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint, const rp_pop_ack *ack);

/* Writes %RETRY%GROUP_TOPIC, or %RETRY%GROUP+TOPIC for version 2, into name[RP_POP_RETRY_NAME_MAX]. Returns its size, 0 if it is too
 * long. */
#define RP_POP_RETRY_NAME_MAX 256
uint32_t rp_pop_retry_topic_name(rp_slice topic, rp_slice group, int version, uint8_t *name);
/* Returns how many queues a retry topic for this topic needs at least: one, or as many as the topic can be sent to
 * (useSeparateRetryQueue). */
int32_t rp_pop_retry_queues(const rp_broker *broker, const rp_topic *topic);
/* Returns how many of its queues are both written and read. */
int32_t rp_pop_retry_width(const rp_topic *retry);

#endif
