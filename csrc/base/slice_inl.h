/* slice_inl.h: comparing slices. C only. */
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

#endif
