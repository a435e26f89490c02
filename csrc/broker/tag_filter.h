/* tag_filter.h: filters by tags codes. Private to csrc/broker.
 * RocketMQ: FilterAPI.buildSubscriptionData, ExpressionMessageFilter.isMatchedByConsumeQueue (5.3.3 remoting/, broker/filter/).
 *
 * Threads  pure.
 */
#ifndef RP_BROKER_TAG_FILTER_H
#define RP_BROKER_TAG_FILTER_H

#include <stdint.h>

#include "../base/arena.h"
#include "../base/slice.h"
#include "message_filter.h"

/* Parses "*", "" or "a || b": pieces between "||", trimmed, empty ones dropped. The codes are put into the arena. RP_OK; RP_E_PROTOCOL
 * if there are only separators (SUBSCRIPTION_PARSE_FAILED); RP_E_NO_MEMORY; RP_E_TOO_LARGE past RP_SUBSCRIPTION_CODES_MAX pieces. */
int rp_tag_filter_parse(rp_slice expression, rp_arena *arena, rp_message_filter *filter);

/* Sorts codes, as a filter needs them. */
void rp_tag_codes_sort(int32_t *codes, uint32_t count);

/* 1 if a queue entry with this tags code passes; every entry does unless the filter is by tags. Only the low 32 bits are compared, as in
 * RocketMQ. A value below INT32_MIN is no code but an address in consumequeue_ext/ (RocketMQ's enableConsumeQueueExt): such an entry
 * passes, and the client checks the tag itself. */
int rp_tag_filter_matches(const rp_message_filter *filter, int64_t tags_code);

#endif
