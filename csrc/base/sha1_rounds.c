/* sha1_rounds.c: SHA-1's rounds by the SHA instructions, four of them at a time.
 *
 * Of the five words, abcd are one vector (a in the highest lane on x86-64, in the lowest on ARMv8); e is carried as the word a of four
 * rounds ago: SHA1NEXTE turns it into e and adds the next four words of the schedule, SHA1H only turns it into e. The schedule W is a
 * window of four vectors: SHA1MSG1, an xor and SHA1MSG2, or SHA1SU0 and SHA1SU1, compute the vector that is 16 words ahead, in place of
 * the one just used.
 *
 * Source   Intel, "Intel SHA Extensions", 2013; Arm, "Arm Architecture Reference Manual for A-profile"; RFC 3174.
 *          tests/unit/c/sha1_test.c compares it with the portable rounds.
 */
#include "sha1_rounds.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("sha,ssse3,sse4.1")))

/* Four rounds on four words of the schedule, with the function and the constant of part 0 to 3 of all rounds. */
#define FOUR_ROUNDS(part, words)                                                                                                           \
    do {                                                                                                                                   \
        __m128i next_e = abcd;                                                                                                             \
        abcd = _mm_sha1rnds4_epu32(abcd, _mm_sha1nexte_epu32(e, words), part);                                                             \
        e = next_e;                                                                                                                        \
    } while (0)
#define EXPAND(w0, w1, w2, w3) w0 = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(w0, w1), w2), w3)
#define SIXTEEN_WORDS_AHEAD()                                                                                                              \
    do {                                                                                                                                   \
        EXPAND(w0, w1, w2, w3);                                                                                                            \
        EXPAND(w1, w2, w3, w0);                                                                                                            \
        EXPAND(w2, w3, w0, w1);                                                                                                            \
        EXPAND(w3, w0, w1, w2);                                                                                                            \
    } while (0)

TARGET void rp_sha1_blocks_by_cpu(uint32_t state[5], const uint8_t *blocks, size_t count) {
    const __m128i big_endian = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
    __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0x1B);
    __m128i e_before = _mm_set_epi32((int)state[4], 0, 0, 0);
    for (; count > 0; count--, blocks += 64) {
        const __m128i *block = (const __m128i *)(const void *)blocks;
        __m128i w0 = _mm_shuffle_epi8(_mm_loadu_si128(block), big_endian);
        __m128i w1 = _mm_shuffle_epi8(_mm_loadu_si128(block + 1), big_endian);
        __m128i w2 = _mm_shuffle_epi8(_mm_loadu_si128(block + 2), big_endian);
        __m128i w3 = _mm_shuffle_epi8(_mm_loadu_si128(block + 3), big_endian);
        __m128i abcd_before = abcd, e = abcd;
        abcd = _mm_sha1rnds4_epu32(abcd, _mm_add_epi32(e_before, w0), 0); /* the first e is a word itself */
        FOUR_ROUNDS(0, w1);
        FOUR_ROUNDS(0, w2);
        FOUR_ROUNDS(0, w3);
        SIXTEEN_WORDS_AHEAD();
        FOUR_ROUNDS(0, w0);
        FOUR_ROUNDS(1, w1);
        FOUR_ROUNDS(1, w2);
        FOUR_ROUNDS(1, w3);
        SIXTEEN_WORDS_AHEAD();
        FOUR_ROUNDS(1, w0);
        FOUR_ROUNDS(1, w1);
        FOUR_ROUNDS(2, w2);
        FOUR_ROUNDS(2, w3);
        SIXTEEN_WORDS_AHEAD();
        FOUR_ROUNDS(2, w0);
        FOUR_ROUNDS(2, w1);
        FOUR_ROUNDS(2, w2);
        FOUR_ROUNDS(3, w3);
        SIXTEEN_WORDS_AHEAD();
        FOUR_ROUNDS(3, w0);
        FOUR_ROUNDS(3, w1);
        FOUR_ROUNDS(3, w2);
        FOUR_ROUNDS(3, w3);
        e_before = _mm_sha1nexte_epu32(e, e_before);
        abcd = _mm_add_epi32(abcd, abcd_before);
    }
    _mm_storeu_si128((__m128i *)(void *)state, _mm_shuffle_epi32(abcd, 0x1B));
    state[4] = (uint32_t)_mm_extract_epi32(e_before, 3);
}

#elif defined(__aarch64__) && defined(__AARCH64EL__)

#include <arm_neon.h>

#define TARGET __attribute__((target("+crypto")))

/* Four rounds on four words of the schedule; of is c, p or m, as the function of these rounds chooses, is the parity, or the majority. */
#define FOUR_ROUNDS(of, constant, words)                                                                                                   \
    do {                                                                                                                                   \
        uint32_t next_e = vsha1h_u32(vgetq_lane_u32(abcd, 0));                                                                             \
        abcd = vsha1##of##q_u32(abcd, e, vaddq_u32(words, vdupq_n_u32(constant)));                                                         \
        e = next_e;                                                                                                                        \
    } while (0)
#define EXPAND(w0, w1, w2, w3) w0 = vsha1su1q_u32(vsha1su0q_u32(w0, w1, w2), w3)
#define SIXTEEN_WORDS_AHEAD()                                                                                                              \
    do {                                                                                                                                   \
        EXPAND(w0, w1, w2, w3);                                                                                                            \
        EXPAND(w1, w2, w3, w0);                                                                                                            \
        EXPAND(w2, w3, w0, w1);                                                                                                            \
        EXPAND(w3, w0, w1, w2);                                                                                                            \
    } while (0)
#define WORDS(at) vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + (at))))

TARGET void rp_sha1_blocks_by_cpu(uint32_t state[5], const uint8_t *blocks, size_t count) {
    uint32x4_t abcd = vld1q_u32(state);
    uint32_t e = state[4];
    for (; count > 0; count--, blocks += 64) {
        uint32x4_t w0 = WORDS(0), w1 = WORDS(16), w2 = WORDS(32), w3 = WORDS(48), abcd_before = abcd;
        uint32_t e_before = e;
        FOUR_ROUNDS(c, 0x5A827999u, w0);
        FOUR_ROUNDS(c, 0x5A827999u, w1);
        FOUR_ROUNDS(c, 0x5A827999u, w2);
        FOUR_ROUNDS(c, 0x5A827999u, w3);
        SIXTEEN_WORDS_AHEAD();
        FOUR_ROUNDS(c, 0x5A827999u, w0);
        FOUR_ROUNDS(p, 0x6ED9EBA1u, w1);
        FOUR_ROUNDS(p, 0x6ED9EBA1u, w2);
        FOUR_ROUNDS(p, 0x6ED9EBA1u, w3);
        SIXTEEN_WORDS_AHEAD();
        FOUR_ROUNDS(p, 0x6ED9EBA1u, w0);
        FOUR_ROUNDS(p, 0x6ED9EBA1u, w1);
        FOUR_ROUNDS(m, 0x8F1BBCDCu, w2);
        FOUR_ROUNDS(m, 0x8F1BBCDCu, w3);
        SIXTEEN_WORDS_AHEAD();
        FOUR_ROUNDS(m, 0x8F1BBCDCu, w0);
        FOUR_ROUNDS(m, 0x8F1BBCDCu, w1);
        FOUR_ROUNDS(m, 0x8F1BBCDCu, w2);
        FOUR_ROUNDS(p, 0xCA62C1D6u, w3);
        SIXTEEN_WORDS_AHEAD();
        FOUR_ROUNDS(p, 0xCA62C1D6u, w0);
        FOUR_ROUNDS(p, 0xCA62C1D6u, w1);
        FOUR_ROUNDS(p, 0xCA62C1D6u, w2);
        FOUR_ROUNDS(p, 0xCA62C1D6u, w3);
        e += e_before;
        abcd = vaddq_u32(abcd, abcd_before);
    }
    vst1q_u32(state, abcd);
    state[4] = e;
}

#else

#include "sha1.h"

void rp_sha1_blocks_by_cpu(uint32_t state[5], const uint8_t *blocks, size_t count) { rp_sha1_blocks_portable(state, blocks, count); }

#endif
