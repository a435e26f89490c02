/* timer_metrics.h: how many messages with a time wait for each topic. Private to csrc/broker.
 * RocketMQ: TimerMetrics (5.3.3 store/timer/).
 *
 * A count stands in its topic's entry, and there are no others: a name that no topic has is not counted. It is of messages in the wheel;
 * recalls are not. It never goes below 0, and begins at 0 with a topic that is made again, though older messages may wait for it.
 *
 * Threads  add and remove: the timer's; reads: any.
 */
#ifndef RP_BROKER_TIMER_METRICS_H
#define RP_BROKER_TIMER_METRICS_H

#include <stdint.h>

#include "../store/timer_files.h"
#include "broker.h"
#include "topic_table.h"

/* One more, or one fewer, of the topic with that name. */
void rp_timer_metrics_add(rp_broker *broker, rp_slice topic, int64_t now_ms);
void rp_timer_metrics_remove(rp_broker *broker, rp_slice topic, int64_t now_ms);
/* Counts again what waits in slots from read_time_ms on. RP_OK; RP_E_NO_MEMORY, or as of rp_timer_log_each: some counts are too low. */
int rp_timer_metrics_recount(rp_broker *broker, rp_timer_files *files, int64_t read_time_ms, int64_t now_ms, rp_error *error);

#endif
