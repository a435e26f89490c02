/* property_pair_inl.h: properties pair by pair: name \1 value \2, one after the other. C only. Private to csrc/broker. */
#ifndef RP_BROKER_PROPERTY_PAIR_INL_H
#define RP_BROKER_PROPERTY_PAIR_INL_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "../base/slice.h"

#define RP_PROPERTY_NAME_END 1
#define RP_PROPERTY_VALUE_END 2

/* The first byte equal to `wanted`, or `end`. Eight bytes a step: texts are too short for memchr to pay. */
static inline const uint8_t *rp_find_byte(const uint8_t *at, const uint8_t *end, uint8_t wanted) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (; end - at >= 8; at += 8) {
        uint64_t bytes;
        memcpy(&bytes, at, sizeof bytes);
        bytes = le64toh(bytes) ^ (ones * wanted);
        uint64_t zeros = (bytes - ones) & ~bytes & (ones << 7); /* the lowest bit set is exact */
        if (zeros != 0)
            return at + (__builtin_ctzll(zeros) >> 3);
    }
    while (at < end && *at != wanted)
        at++;
    return at;
}

/* A pair counts when it has a name and a value, as in RocketMQ's parser. */
static inline int rp_split_pair(rp_slice pair, rp_slice *name, rp_slice *value) {
    const uint8_t *last = pair.data + pair.size;
    const uint8_t *end = rp_find_byte(pair.data, last, RP_PROPERTY_NAME_END);
    if (pair.size < 3 || end == pair.data || last - end < 2)
        return 0;
    *name = (rp_slice){pair.data, (uint32_t)(end - pair.data)};
    *value = (rp_slice){end + 1, (uint32_t)(last - end - 1)};
    return 1;
}

/* The pair at *at, without its end, and *at behind it; *at is below text.size. */
static inline rp_slice rp_next_pair(rp_slice text, uint32_t *at) {
    const uint8_t *start = text.data + *at;
    rp_slice pair = {start, (uint32_t)(rp_find_byte(start, text.data + text.size, RP_PROPERTY_VALUE_END) - start)};
    *at += pair.size + 1;
    return pair;
}

#endif
