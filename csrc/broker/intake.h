/* intake.h: counts what a topic took in, by the type of its messages and their sizes. Private to csrc/broker.
 * RocketMQ: BrokerMetricsManager.getMessageType and its histogram of message sizes (5.3.3 broker/metrics/).
 *
 * Threads  add from any thread (relaxed); a concurrent read gives a slightly stale picture.
 */
#ifndef RP_BROKER_INTAKE_H
#define RP_BROKER_INTAKE_H

#include <stdatomic.h>
#include <stdint.h>

#include "broker_stats.h"
#include "message_properties.h"

typedef struct rp_intake {
    _Atomic uint64_t bytes;
    _Atomic uint64_t sizes[RP_INTAKE_SIZES];
} rp_intake;

/* Returns the type of a message that its producer sent with these properties. */
static inline enum rp_message_type rp_message_type_of(const rp_sent_properties *properties) {
    if (properties->prepared)
        return RP_MESSAGE_TRANSACTION;
    if (properties->sharded)
        return RP_MESSAGE_FIFO;
    return properties->delay_level > 0 || properties->timed ? RP_MESSAGE_DELAY : RP_MESSAGE_NORMAL;
}

/* Counts a record of `size` bytes. */
void rp_intake_count(rp_intake_counts *counts, uint32_t size);
void rp_intake_add(rp_intake *intake, const rp_intake_counts *counts);
/* Adds one record of `size` bytes. */
void rp_intake_add_one(rp_intake *intake, uint32_t size);
void rp_intake_read(const rp_intake *intake, rp_intake_counts *counts);
void rp_intake_reset(rp_intake *intake);

#endif
