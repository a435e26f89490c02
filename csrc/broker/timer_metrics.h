/* timer_metrics.h: counts the timed messages that wait for each topic. Private to csrc/broker.
 * RocketMQ: TimerMetrics (5.3.3 store/timer/).
 *
 * A count is kept in its topic's entry; names of no topic are not counted. It counts messages in the wheel, recalls excluded. It never
 * goes below 0, and begins at 0 with a topic that is created again, although older messages may wait for it.
 *
 * Threads  add and remove: the timer's; reads: any.
 */
#ifndef RP_BROKER_TIMER_METRICS_H
#define RP_BROKER_TIMER_METRICS_H

#include <stdint.h>

#include "../store/timer_files.h"
#include "broker.h"
#include "topic_table.h"

/* Add or subtract one for the topic with that name. */
void rp_timer_metrics_add(rp_broker *broker, rp_slice topic, int64_t now_ms);
void rp_timer_metrics_remove(rp_broker *broker, rp_slice topic, int64_t now_ms);
/* Counts again what waits in slots from read_time_ms on. RP_OK; RP_E_NO_MEMORY, or as rp_timer_log_each: some counts are too low. */
int rp_timer_metrics_recount(rp_broker *broker, rp_timer_files *files, int64_t read_time_ms, int64_t now_ms, rp_error *error);

#endif
