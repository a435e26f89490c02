/* tag_filter.h: which tags a consumer wants: "*", or "A || B". RocketMQ: FilterAPI (5.3.3 common/filter/).
 *
 * As tags_of of rocketpy/proxy/validation.py reads it, of ASCII's visible letters and blanks.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_TAG_FILTER_H
#define RP_PROXY_TAG_FILTER_H

#include "../base/slice.h"

/* Whether there is a tag in it. */
int rp_tag_filter_is_one(rp_slice filter);
/* Whether it lets a message with this tag through: each is compared, as brokers compare hashes alone. */
int rp_tag_filter_takes(rp_slice filter, rp_slice tag);

#endif
