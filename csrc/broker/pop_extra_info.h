/* pop_extra_info.h: the handle of a popped message. Private to csrc/broker.
 *
 *   "start popTime invisibleTime reviveQid retry broker queueId [offset]"
 *
 * RocketMQ: ExtraInfoUtil (5.3.3 remoting/protocol/header/).
 *
 * Threads  pure.
 */
#ifndef RP_BROKER_POP_EXTRA_INFO_H
#define RP_BROKER_POP_EXTRA_INFO_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_pop_extra_info {
    int64_t start_offset, pop_time_ms, invisible_ms;
    int32_t revive_queue_id;
    rp_slice retry, broker_name; /* slices of the text */
} rp_pop_extra_info;

/* RP_OK; RP_E_PROTOCOL: fewer than six parts, or a malformed number. */
int rp_pop_extra_info_read(rp_slice text, rp_pop_extra_info *info);
/* Returns '0'; '1' for a retry topic; '2' for one of version 2. */
char rp_pop_retry_kind(rp_slice topic);

#endif
