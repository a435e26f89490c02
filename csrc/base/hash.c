/* hash.c: Java's String.hashCode over UTF-8 bytes, and the hash for our in-memory tables. */
#include "hash.h"

#include <string.h>

#include "utf8_inl.h"

/* Decodes the next character, which has *size bytes. */
static uint32_t decode_utf8(const uint8_t *p, size_t left, uint32_t *size) {
    int is_whole;
    *size = rp_utf8_next(p, left, &is_whole);
    if (!is_whole) {
        return RP_UTF8_REPLACEMENT;
    }
    uint32_t point = *size == 1 ? p[0] : p[0] & (0xFFu >> (*size + 1));
    for (uint32_t i = 1; i < *size; i++) {
        point = point << 6 | (p[i] & 0x3F);
    }
    return point;
}

#define POWER_2 961u
#define POWER_3 29791u
#define POWER_4 923521u
#define POWER_5 28629151u
#define POWER_6 887503681u
#define POWER_7 1742810335u /* modulo 2^32 from here on */
#define POWER_8 2487512833u /* 852891037441 modulo 2^32 */

int32_t rp_hash_java(const uint8_t *utf8, size_t size) {
    uint32_t hash = 0;
    size_t at = 0;
    while (at < size) {
        uint64_t word;
        for (; size - at >= 8; at += 8) { /* eight ASCII characters at a time: independent products */
            memcpy(&word, utf8 + at, 8);
            if ((word & UINT64_C(0x8080808080808080)) != 0) {
                break;
            }
            const uint8_t *c = utf8 + at;
            hash = hash * POWER_8 + c[0] * POWER_7 + c[1] * POWER_6 + c[2] * POWER_5 + c[3] * POWER_4 + c[4] * POWER_3 + c[5] * POWER_2 +
                   c[6] * 31u + c[7];
        }
        if (at == size) {
            break;
        }
        uint32_t used, point = decode_utf8(utf8 + at, size - at, &used);
        at += used;
        if (point >= 0x10000) {
            hash = hash * 31 + (0xD800 + ((point - 0x10000) >> 10));
            point = 0xDC00 + ((point - 0x10000) & 0x3FF);
        }
        hash = hash * 31 + point;
    }
    return (int32_t)hash;
}

static uint64_t read_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Folds both halves of the 128-bit product: one multiplication mixes every bit of a into every bit of the result. */
static uint64_t mix(uint64_t a, uint64_t b) {
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Its address differs in each process. */
static const uint8_t place = 1;

/* Whoever knew k1 could construct any number of texts that collide whatever the seed, using a word equal to it, which makes the product
 * 0; whoever knew everything, those of a table with a fixed seed. The address of `place` is unknown to strangers. */
uint64_t rp_hash_bytes(const void *data, size_t size, uint64_t seed) {
    const uint64_t own = (uint64_t)(uintptr_t)&place * 0x9FB21C651E98DF25u;
    const uint64_t k0 = 0x9E3779B97F4A7C15u ^ own, k1 = 0xD6E8FEB86659FD93u ^ own, k2 = 0xA0761D6478BD642Fu;
    const uint8_t *p = data;
    uint64_t hash = seed ^ mix(seed ^ k0, (uint64_t)size ^ k1), a = 0, b = 0;
    size_t rest = size;
    for (; rest > 16; rest -= 16, p += 16) {
        hash = mix(read_word(p) ^ k1, read_word(p + 8) ^ hash);
    }
    if (rest >= 8) {
        a = read_word(p);
        b = read_word(p + rest - 8);
    } else {
        for (size_t i = 0; i < rest; i++) {
            a |= (uint64_t)p[i] << (8 * i);
        }
    }
    return mix(k2 ^ size, mix(a ^ k1, b ^ hash));
}
