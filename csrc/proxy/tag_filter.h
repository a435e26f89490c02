/* tag_filter.h: which tags a consumer wants: "*", or "A || B". RocketMQ: FilterAPI (5.3.3 common/filter/).
 *
 * Does the same as tags_of of rocketpy/proxy/validation.py, for filters of visible ASCII characters and blanks.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_TAG_FILTER_H
#define RP_PROXY_TAG_FILTER_H

#include "../base/slice.h"

/* Whether the filter has a tag at all. */
int rp_tag_filter_is_one(rp_slice filter);
/* Whether the filter lets a message with this tag through. Compares the tags themselves; brokers compare only their hashes. */
int rp_tag_filter_takes(rp_slice filter, rp_slice tag);

#endif
