/* slice_inl.h: comparing and copying slices. C only. */
#ifndef RP_BASE_SLICE_INL_H
#define RP_BASE_SLICE_INL_H

#include <string.h>

#include "slice.h"

/* Of the same bytes; a slice without any may have no data. */
static inline int rp_slice_equals(rp_slice left, rp_slice right) {
    return left.size == right.size && (left.size == 0 || memcmp(left.data, right.data, left.size) == 0);
}

static inline int rp_slice_is(rp_slice slice, const char *text) {
    return rp_slice_equals(slice, (rp_slice){(const uint8_t *)text, (uint32_t)strlen(text)});
}

/* Copies the bytes to *at, where there has to be room, and moves that behind them: what a block has behind it. */
static inline rp_slice rp_slice_put(uint8_t **at, rp_slice slice) {
    rp_slice copy = {*at, slice.size};
    if (slice.size > 0)
        memcpy(*at, slice.data, slice.size);
    *at += slice.size;
    return copy;
}

#endif
