/* slice_inl.h: makes, compares and copies slices. C only. */
#ifndef RP_BASE_SLICE_INL_H
#define RP_BASE_SLICE_INL_H

#include <string.h>

#include "slice.h"

/* 1 if both have the same bytes; an empty slice may have no data. */
static inline int rp_slice_equals(rp_slice left, rp_slice right) {
    return left.size == right.size && (left.size == 0 || memcmp(left.data, right.data, left.size) == 0);
}

static inline rp_slice rp_slice_of(const char *text) { return (rp_slice){(const uint8_t *)text, (uint32_t)strlen(text)}; }

static inline int rp_slice_is(rp_slice slice, const char *text) { return rp_slice_equals(slice, rp_slice_of(text)); }

/* Copies the bytes to *at, moves *at behind them, and returns the copy. */
static inline rp_slice rp_slice_copy(uint8_t **at, rp_slice slice) {
    rp_slice copy = {*at, slice.size};
    if (slice.size > 0)
        memcpy(*at, slice.data, slice.size);
    *at += slice.size;
    return copy;
}

#endif
