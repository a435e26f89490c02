/* crc32_folded.c: CRC-32 by folding with carry-less multiplication.
 *
 * The message is a polynomial over GF(2). An accumulator of 128 bits that lies n bits before the next block can be
 * replaced by (high half * x^(n+32) mod P) xor (low half * x^(n-32) mod P), which is congruent to it and lies in that block.
 * Four accumulators keep the multiplier busy; then they are folded into one, the odd bytes at the end are shifted in, and
 * a Barrett reduction leaves 32 bits. Everything is bit-reflected, as the CRC of zlib is, hence the constants' extra shift.
 *
 * Source   V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel 2009. The constants
 *          are x^n mod P, reflected and shifted by one; tests/unit/c/crc32_test.c checks the whole against zlib.
 * Why copy here: a message body must be read for its CRC and copied into the log; loading it once serves both.
 */
#include "crc32_folded.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define SSE_TARGET __attribute__((target("pclmul,sse4.1,ssse3")))
#define AVX_TARGET __attribute__((target("pclmul,sse4.1,ssse3,avx2,vpclmulqdq")))
#define SSE_INLINE static inline __attribute__((always_inline, target("pclmul,sse4.1,ssse3")))
#define AVX_INLINE static inline __attribute__((always_inline, target("pclmul,sse4.1,ssse3,avx2,vpclmulqdq")))

/* Distance in bits between an accumulator and the block it is folded into: {x^(n+32), x^(n-32)} mod P. */
#define FOLD_128_LOW 0x1751997d0
#define FOLD_128_HIGH 0x0ccaa009e
#define FOLD_512_LOW 0x154442bd4
#define FOLD_512_HIGH 0x1c6e41596
#define FOLD_256_LOW 0x0f1da05aa
#define FOLD_256_HIGH 0x15a546366
#define FOLD_1024_LOW 0x1e88ef372
#define FOLD_1024_HIGH 0x14a7fe880
#define FOLD_64 0x163cd6124
#define BARRETT_MU 0x1f7011641
#define BARRETT_POLYNOMIAL 0x1db710641

/* Bytes 0..15 move a vector left or right by whole bytes when read at an offset; indexes of 0x80 and up make zeros. */
static const uint8_t shift_table[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

SSE_INLINE __m128i fold(__m128i accumulator, __m128i constant, __m128i block) {
    __m128i low = _mm_clmulepi64_si128(accumulator, constant, 0x00);
    __m128i high = _mm_clmulepi64_si128(accumulator, constant, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), block);
}

SSE_INLINE __m128i load_and_copy(uint8_t *target, const uint8_t *source, size_t at) {
    __m128i block = _mm_loadu_si128((const __m128i *)(source + at));
    if (target != NULL) {
        _mm_storeu_si128((__m128i *)(target + at), block);
    }
    return block;
}

/* 128 bits to the CRC: 128 -> 96 -> 64 by folding, 64 -> 32 by Barrett. */
SSE_INLINE uint32_t reduce(__m128i x) {
    const __m128i fold_128 = _mm_set_epi64x(FOLD_128_HIGH, FOLD_128_LOW);
    const __m128i fold_64 = _mm_set_epi64x(0, FOLD_64);
    const __m128i barrett = _mm_set_epi64x(BARRETT_MU, BARRETT_POLYNOMIAL);
    const __m128i low_32 = _mm_setr_epi32(-1, 0, 0, 0);
    x = _mm_xor_si128(_mm_clmulepi64_si128(x, fold_128, 0x10), _mm_srli_si128(x, 8));
    x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low_32), fold_64, 0x00), _mm_srli_si128(x, 4));
    __m128i t = _mm_clmulepi64_si128(_mm_and_si128(x, low_32), barrett, 0x10);
    t = _mm_clmulepi64_si128(_mm_and_si128(t, low_32), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}

/* Folds the rest behind `at` (any number of bytes; at >= 16 if it is not a multiple of 16) and reduces. */
SSE_INLINE uint32_t finish(__m128i x, uint8_t *target, const uint8_t *source, size_t at, size_t size) {
    const __m128i fold_128 = _mm_set_epi64x(FOLD_128_HIGH, FOLD_128_LOW);
    for (; size - at >= 16; at += 16) {
        x = fold(x, fold_128, load_and_copy(target, source, at));
    }
    size_t rest = size - at;
    if (rest != 0) {
        /* The accumulator's first `rest` bytes move up against the end of an earlier block, the others make room for the tail,
         * which is read as the last 16 bytes so that nothing past the end is touched. */
        __m128i tail = load_and_copy(target, source, size - 16);
        __m128i up = _mm_loadu_si128((const __m128i *)(shift_table + rest));
        __m128i down = _mm_loadu_si128((const __m128i *)(shift_table + 16 + rest));
        __m128i keep_tail = _mm_cmplt_epi8(down, _mm_setzero_si128());
        __m128i block = _mm_or_si128(_mm_shuffle_epi8(x, down), _mm_and_si128(tail, keep_tail));
        x = fold(_mm_shuffle_epi8(x, up), fold_128, block);
    }
    return ~reduce(x);
}

SSE_TARGET uint32_t rp_crc32_folded(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size) {
    __m128i initial = _mm_cvtsi32_si128((int)~crc);
    size_t at = 16;
    __m128i x0 = _mm_xor_si128(load_and_copy(target, source, 0), initial);
    if (size >= 64) {
        const __m128i fold_512 = _mm_set_epi64x(FOLD_512_HIGH, FOLD_512_LOW);
        const __m128i fold_128 = _mm_set_epi64x(FOLD_128_HIGH, FOLD_128_LOW);
        __m128i x1 = load_and_copy(target, source, 16);
        __m128i x2 = load_and_copy(target, source, 32);
        __m128i x3 = load_and_copy(target, source, 48);
        for (at = 64; size - at >= 64; at += 64) {
            x0 = fold(x0, fold_512, load_and_copy(target, source, at));
            x1 = fold(x1, fold_512, load_and_copy(target, source, at + 16));
            x2 = fold(x2, fold_512, load_and_copy(target, source, at + 32));
            x3 = fold(x3, fold_512, load_and_copy(target, source, at + 48));
        }
        x0 = fold(fold(fold(x0, fold_128, x1), fold_128, x2), fold_128, x3);
    }
    return finish(x0, target, source, at, size);
}

AVX_INLINE __m256i fold_wide(__m256i accumulator, __m256i constant, __m256i block) {
    __m256i low = _mm256_clmulepi64_epi128(accumulator, constant, 0x00);
    __m256i high = _mm256_clmulepi64_epi128(accumulator, constant, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), block);
}

AVX_INLINE __m256i load_and_copy_wide(uint8_t *target, const uint8_t *source, size_t at) {
    __m256i block = _mm256_loadu_si256((const __m256i *)(source + at));
    if (target != NULL) {
        _mm256_storeu_si256((__m256i *)(target + at), block);
    }
    return block;
}

AVX_TARGET uint32_t rp_crc32_folded_wide(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size) {
    const __m256i fold_1024 = _mm256_set_epi64x(FOLD_1024_HIGH, FOLD_1024_LOW, FOLD_1024_HIGH, FOLD_1024_LOW);
    const __m256i fold_256 = _mm256_set_epi64x(FOLD_256_HIGH, FOLD_256_LOW, FOLD_256_HIGH, FOLD_256_LOW);
    const __m128i fold_128 = _mm_set_epi64x(FOLD_128_HIGH, FOLD_128_LOW);
    __m256i initial = _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)~crc);
    __m256i x0 = _mm256_xor_si256(load_and_copy_wide(target, source, 0), initial);
    __m256i x1 = load_and_copy_wide(target, source, 32);
    __m256i x2 = load_and_copy_wide(target, source, 64);
    __m256i x3 = load_and_copy_wide(target, source, 96);
    size_t at = 128;
    for (; size - at >= 128; at += 128) {
        x0 = fold_wide(x0, fold_1024, load_and_copy_wide(target, source, at));
        x1 = fold_wide(x1, fold_1024, load_and_copy_wide(target, source, at + 32));
        x2 = fold_wide(x2, fold_1024, load_and_copy_wide(target, source, at + 64));
        x3 = fold_wide(x3, fold_1024, load_and_copy_wide(target, source, at + 96));
    }
    x0 = fold_wide(fold_wide(fold_wide(x0, fold_256, x1), fold_256, x2), fold_256, x3);
    for (; size - at >= 32; at += 32) {
        x0 = fold_wide(x0, fold_256, load_and_copy_wide(target, source, at));
    }
    __m128i x = fold(_mm256_castsi256_si128(x0), fold_128, _mm256_extracti128_si256(x0, 1));
    uint32_t result = finish(x, target, source, at, size);
    _mm256_zeroupper();
    return result;
}

#else

/* Never called: crc32.c asks the CPU first. */
uint32_t rp_crc32_folded(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size) {
    (void)target, (void)source, (void)size;
    return crc;
}

uint32_t rp_crc32_folded_wide(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size) {
    (void)target, (void)source, (void)size;
    return crc;
}

#endif
