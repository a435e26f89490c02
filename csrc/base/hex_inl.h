/* hex_inl.h: formats bytes and numbers as upper-case hexadecimal digits. Each function returns the end of what it wrote. C only. */
#ifndef RP_BASE_HEX_INL_H
#define RP_BASE_HEX_INL_H

#include "bytes_inl.h"

/* Eight digits at once in one register: the nibbles are spread over bytes, '0' is added, and 'A' - '0' - 10 to those above nine. */
static inline uint8_t *rp_put_hex_u32(uint8_t *p, uint32_t value) {
    uint64_t x = value;
    x = (x | x << 16) & UINT64_C(0x0000FFFF0000FFFF);
    x = (x | x << 8) & UINT64_C(0x00FF00FF00FF00FF);
    x = (x | x << 4) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    uint64_t is_letter = (x + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    rp_put_u64(p, x + UINT64_C(0x3030303030303030) + is_letter * ('A' - '0' - 10));
    return p + 8;
}

static inline uint8_t *rp_put_hex_u64(uint8_t *p, uint64_t value) {
    return rp_put_hex_u32(rp_put_hex_u32(p, (uint32_t)(value >> 32)), (uint32_t)value);
}

static inline uint8_t *rp_put_hex_bytes(uint8_t *p, const uint8_t *bytes, uint32_t size) {
    static const char digits[] = "0123456789ABCDEF";
    for (uint32_t i = 0; i < size; i++) {
        *p++ = (uint8_t)digits[bytes[i] >> 4];
        *p++ = (uint8_t)digits[bytes[i] & 15];
    }
    return p;
}

#endif
