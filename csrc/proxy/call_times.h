/* call_times.h: how long calls took, by the code of their answers. C only. RocketMQ: RemotingMetricsManager (5.3.3 remoting/metrics/).
 *
 * Threads  one writer; any reader.
 */
#ifndef RP_PROXY_CALL_TIMES_H
#define RP_PROXY_CALL_TIMES_H

#include <stdatomic.h>

#include "proxy.h"

typedef struct rp_call_times {
    _Atomic uint64_t total_ns[RP_PROXY_CODES], classes[RP_PROXY_CODES][RP_PROXY_CLASSES]; /* statistics, so relaxed */
} rp_call_times;

void rp_call_times_add(rp_call_times *times, int32_t code, int64_t took_ns);
/* Adds the times of the code at this place to *sum, and sets its code. */
void rp_call_times_sum(const rp_call_times *times, uint32_t place, rp_proxy_times *sum);

#endif
