/* offset_requests.h: answers the small requests that consumers send all the time. Private to csrc/broker.
 * RocketMQ: ConsumerManageProcessor (14 QUERY_CONSUMER_OFFSET, 15 UPDATE_CONSUMER_OFFSET), AdminBrokerProcessor (29
 * SEARCH_OFFSET_BY_TIMESTAMP, 30 GET_MAX_OFFSET, 31 GET_MIN_OFFSET).
 *
 * Punts    unknown or not native topics and unknown groups, whose error texts Python knows; queues beyond a topic's number, because it
 *          may have had more, and a query must not create them; searches that would have to wait for the disk.
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_OFFSET_REQUESTS_H
#define RP_BROKER_OFFSET_REQUESTS_H

#include "../remoting/server.h"
#include "../store/consume_queue.h"
#include "broker.h"

#define RP_OFFSET_QUEUES_ANYWAY 256 /* offsets of this many queues are kept for any topic: it may have had more queues than it has now */

struct rp_lane;

/* RP_HANDLED, or RP_PUNT (see above); RP_E_NO_MEMORY: the connection must be closed. */
int rp_offset_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

/* As rp_offset_request. A search reads one record per halving of the queue, and runs only while all of them are in memory. */
int rp_search_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

/* 1 if a group without an offset begins with the queue's first message: the queue is empty, or that message is near enough to the log's
 * end to be in memory. */
int rp_queue_begins_at_zero(const rp_broker *broker, rp_consume_queue *queue);

#endif
