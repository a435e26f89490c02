/* crc32_armv8.c: CRC-32 by ARMv8's CRC instructions, whose polynomial is zlib's, eight bytes at a time. See crc32_armv8.h.
 *
 * The instructions form a chain: each needs the previous result, which takes two or three cycles, so 8 to 12 GB/s; a copy from memory is
 * no faster. Parallel chains, as in crc32_folded.c, would need a multiplication for each join.
 */
#include "crc32_armv8.h"

#if defined(__aarch64__) && defined(__AARCH64EL__)

#include <arm_acle.h>
#include <string.h>

#define TARGET __attribute__((target("+crc")))
#define INLINE static inline __attribute__((always_inline, target("+crc")))

/* Loads the eight bytes at `at`, and copies them if there is a target. */
INLINE uint64_t take_word(uint8_t *target, const uint8_t *source, size_t at) {
    uint64_t word;
    memcpy(&word, source + at, sizeof word);
    if (target != NULL) {
        memcpy(target + at, &word, sizeof word);
    }
    return word;
}

/* Where target is the constant NULL, the compiler makes a separate loop. */
INLINE uint32_t pass(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size) {
    size_t at = 0;
    crc = ~crc;
    for (; size - at >= 32; at += 32) {
        crc = __crc32d(crc, take_word(target, source, at));
        crc = __crc32d(crc, take_word(target, source, at + 8));
        crc = __crc32d(crc, take_word(target, source, at + 16));
        crc = __crc32d(crc, take_word(target, source, at + 24));
    }
    for (; size - at >= 8; at += 8) {
        crc = __crc32d(crc, take_word(target, source, at));
    }
    for (; at < size; at++) {
        crc = __crc32b(crc, source[at]);
        if (target != NULL) {
            target[at] = source[at];
        }
    }
    return ~crc;
}

TARGET uint32_t rp_crc32_armv8(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size) {
    return target != NULL ? pass(crc, target, source, size) : pass(crc, NULL, source, size);
}

#else

/* Never called: crc32.c asks the CPU first. */
uint32_t rp_crc32_armv8(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size) {
    (void)target, (void)source, (void)size;
    return crc;
}

#endif
