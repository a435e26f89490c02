/* property_text.h: the properties of a message that goes somewhere else: to a delay level, back to a retry topic, to the dead letters.
 * Private to csrc/broker.
 * RocketMQ: HookUtils.transformDelayLevelMessage, AbstractSendMessageProcessor.consumerSendMsgBack (5.3.3 broker/), which change a map.
 *
 * Pairs that are replaced go, the new ones stand last; readers go by name.
 *
 * Threads  pure functions.
 */
#ifndef RP_BROKER_PROPERTY_TEXT_H
#define RP_BROKER_PROPERTY_TEXT_H

#include <stdint.h>

#include "property_pair_inl.h"

/* Room for one rp_put_number_pair and one rp_put_real_place, besides the topic's name. */
#define RP_PROPERTY_TEXT_ROOM 96u

/* Copies the pairs whose names are not among `names` (NULL behind the last) to `at`, and returns the end. Takes text.size + 1 bytes. */
uint8_t *rp_copy_pairs_without(uint8_t *at, rp_slice text, const char *const *names);
/* Writes one pair and returns its end. */
uint8_t *rp_put_pair(uint8_t *at, const char *name, rp_slice value);
uint8_t *rp_put_number_pair(uint8_t *at, const char *name, int64_t number);
/* Where a message goes when it is due: REAL_TOPIC, REAL_QID. */
uint8_t *rp_put_real_place(uint8_t *at, rp_slice topic, int32_t queue_id);

/* The pairs that a message loses when it is delayed; it gets DELAY, REAL_TOPIC and REAL_QID anew. */
extern const char *const rp_pairs_before_delay[];

#endif
