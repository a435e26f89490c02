/* slice.h: bytes that somebody else owns. A slice is valid for as long as that owner says. */
#ifndef RP_BASE_SLICE_H
#define RP_BASE_SLICE_H

#include <stdint.h>

typedef struct rp_slice {
    const uint8_t *data;
    uint32_t size; /* bytes */
} rp_slice;

#endif
