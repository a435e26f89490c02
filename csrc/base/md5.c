/* md5.c: see md5.h. Four rounds of sixteen steps; what differs between steps is constant, so a macro writes out each. */
#include "md5.h"

#include <string.h>

#define BLOCK 64u

static inline uint32_t rotate(uint32_t word, int bits) { return word << bits | word >> (32 - bits); }

static inline uint32_t get_u32_le(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void put_u32_le(uint8_t *p, uint32_t value) {
    for (uint32_t i = 0; i < 4; i++) {
        p[i] = (uint8_t)(value >> 8 * i);
    }
}

#define CHOOSE(x, y, z) (z ^ (x & (y ^ z)))
#define CHOOSE_BY_LAST(x, y, z) (y ^ (z & (x ^ y)))
#define PARITY(x, y, z) (x ^ y ^ z)
#define LOPSIDED(x, y, z) (y ^ (x | ~z))

#define STEP(function, a, b, c, d, place, bits, constant) a = b + rotate(a + function(b, c, d) + words[place] + constant, bits);

/* Four steps, after which the variables are back in their places. */
#define STEPS(function, p0, p1, p2, p3, b0, b1, b2, b3, k0, k1, k2, k3)                                                                    \
    STEP(function, a, b, c, d, p0, b0, k0)                                                                                                 \
    STEP(function, d, a, b, c, p1, b1, k1)                                                                                                 \
    STEP(function, c, d, a, b, p2, b2, k2)                                                                                                 \
    STEP(function, b, c, d, a, p3, b3, k3)

static void add_block(uint32_t state[4], const uint8_t *block) {
    uint32_t words[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (uint32_t i = 0; i < 16; i++) {
        words[i] = get_u32_le(block + 4 * i);
    }
    STEPS(CHOOSE, 0, 1, 2, 3, 7, 12, 17, 22, 0xD76AA478u, 0xE8C7B756u, 0x242070DBu, 0xC1BDCEEEu)
    STEPS(CHOOSE, 4, 5, 6, 7, 7, 12, 17, 22, 0xF57C0FAFu, 0x4787C62Au, 0xA8304613u, 0xFD469501u)
    STEPS(CHOOSE, 8, 9, 10, 11, 7, 12, 17, 22, 0x698098D8u, 0x8B44F7AFu, 0xFFFF5BB1u, 0x895CD7BEu)
    STEPS(CHOOSE, 12, 13, 14, 15, 7, 12, 17, 22, 0x6B901122u, 0xFD987193u, 0xA679438Eu, 0x49B40821u)
    STEPS(CHOOSE_BY_LAST, 1, 6, 11, 0, 5, 9, 14, 20, 0xF61E2562u, 0xC040B340u, 0x265E5A51u, 0xE9B6C7AAu)
    STEPS(CHOOSE_BY_LAST, 5, 10, 15, 4, 5, 9, 14, 20, 0xD62F105Du, 0x02441453u, 0xD8A1E681u, 0xE7D3FBC8u)
    STEPS(CHOOSE_BY_LAST, 9, 14, 3, 8, 5, 9, 14, 20, 0x21E1CDE6u, 0xC33707D6u, 0xF4D50D87u, 0x455A14EDu)
    STEPS(CHOOSE_BY_LAST, 13, 2, 7, 12, 5, 9, 14, 20, 0xA9E3E905u, 0xFCEFA3F8u, 0x676F02D9u, 0x8D2A4C8Au)
    STEPS(PARITY, 5, 8, 11, 14, 4, 11, 16, 23, 0xFFFA3942u, 0x8771F681u, 0x6D9D6122u, 0xFDE5380Cu)
    STEPS(PARITY, 1, 4, 7, 10, 4, 11, 16, 23, 0xA4BEEA44u, 0x4BDECFA9u, 0xF6BB4B60u, 0xBEBFBC70u)
    STEPS(PARITY, 13, 0, 3, 6, 4, 11, 16, 23, 0x289B7EC6u, 0xEAA127FAu, 0xD4EF3085u, 0x04881D05u)
    STEPS(PARITY, 9, 12, 15, 2, 4, 11, 16, 23, 0xD9D4D039u, 0xE6DB99E5u, 0x1FA27CF8u, 0xC4AC5665u)
    STEPS(LOPSIDED, 0, 7, 14, 5, 6, 10, 15, 21, 0xF4292244u, 0x432AFF97u, 0xAB9423A7u, 0xFC93A039u)
    STEPS(LOPSIDED, 12, 3, 10, 1, 6, 10, 15, 21, 0x655B59C3u, 0x8F0CCC92u, 0xFFEFF47Du, 0x85845DD1u)
    STEPS(LOPSIDED, 8, 15, 6, 13, 6, 10, 15, 21, 0x6FA87E4Fu, 0xFE2CE6E0u, 0xA3014314u, 0x4E0811A1u)
    STEPS(LOPSIDED, 4, 11, 2, 9, 6, 10, 15, 21, 0xF7537E82u, 0xBD3AF235u, 0x2AD7D2BBu, 0xEB86D391u)
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void rp_md5(const void *data, size_t size, uint8_t digest[RP_MD5_SIZE]) {
    uint32_t state[4] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u};
    const uint8_t *bytes = data;
    size_t whole = size / BLOCK, rest = size % BLOCK;
    for (size_t i = 0; i < whole; i++) {
        add_block(state, bytes + i * BLOCK);
    }
    uint8_t tail[2 * BLOCK] = {0};
    size_t tail_size = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    if (rest > 0) {
        memcpy(tail, bytes + whole * BLOCK, rest);
    }
    tail[rest] = 0x80;
    put_u32_le(tail + tail_size - 8, (uint32_t)((uint64_t)size << 3));
    put_u32_le(tail + tail_size - 4, (uint32_t)((uint64_t)size >> 29));
    for (size_t at = 0; at < tail_size; at += BLOCK) {
        add_block(state, tail + at);
    }
    for (uint32_t i = 0; i < 4; i++) {
        put_u32_le(digest + 4 * i, state[i]);
    }
}
