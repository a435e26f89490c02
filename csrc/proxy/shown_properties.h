/* shown_properties.h: the properties of a stored message that gRPC consumers see as fields of their own instead.
 * RocketMQ: GrpcConverter.buildSystemProperties (5.3.3 proxy/grpc/v2/common/).
 *
 * Threads  pure functions. Slices point into the properties; data NULL: there is no such property. If a name occurs twice, the last
 *          counts.
 */
#ifndef RP_PROXY_SHOWN_PROPERTIES_H
#define RP_PROXY_SHOWN_PROPERTIES_H

#include "../base/slice.h"

typedef struct rp_shown_properties {
    rp_slice tag, keys, message_id, transaction, delay_level, deliver_ms, delay_s, delay_ms, born_host, message_group, trace_context;
    rp_slice dead_topic, dead_id, lite_topic, priority, handle;
} rp_shown_properties;

void rp_shown_properties_read(rp_slice properties, rp_shown_properties *shown);
/* Removes the next property, whatever its name and value, from the front of *properties. Returns 1; 0: none is left. */
int rp_stored_property_next(rp_slice *properties, rp_slice *name, rp_slice *value);

#endif
