/* bytes_inl.h: big-endian reads and writes at any alignment, and sums that say when they overflow. C only. */
#ifndef RP_BASE_BYTES_INL_H
#define RP_BASE_BYTES_INL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t rp_get_u16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap16(v);
}
static inline uint32_t rp_get_u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}
static inline uint64_t rp_get_u64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}
static inline void rp_put_u16(uint8_t *p, uint16_t v) {
    v = __builtin_bswap16(v);
    memcpy(p, &v, sizeof v);
}
static inline void rp_put_u32(uint8_t *p, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}
static inline void rp_put_u64(uint8_t *p, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}
/* *sum = a + b; false when that does not fit. */
static inline bool rp_add_u32(uint32_t a, uint32_t b, uint32_t *sum) { return !__builtin_add_overflow(a, b, sum); }
static inline bool rp_add_u64(uint64_t a, uint64_t b, uint64_t *sum) { return !__builtin_add_overflow(a, b, sum); }

#endif
