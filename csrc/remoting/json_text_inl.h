/* json_text_inl.h: finds the end of a JSON string's plain part, 16 bytes a step. C only; internal to csrc/remoting. */
#ifndef RP_REMOTING_JSON_TEXT_INL_H
#define RP_REMOTING_JSON_TEXT_INL_H

#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The first '"' or '\' in cursor..end, else end. Reads nothing at or past end. */
static inline const uint8_t *rp_json_plain_end(const uint8_t *cursor, const uint8_t *end) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    while (end - cursor >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)cursor);
        int found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
        if (found != 0) {
            return cursor + __builtin_ctz((unsigned)found);
        }
        cursor += 16;
    }
#endif
    while (cursor < end && *cursor != '"' && *cursor != '\\') {
        cursor++;
    }
    return cursor;
}

/* As rp_json_plain_end, and copies what it passes, perhaps with some bytes more; target has room for end - cursor. */
static inline const uint8_t *rp_json_copy_plain(uint8_t *target, const uint8_t *cursor, const uint8_t *end) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    while (end - cursor >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)cursor);
        _mm_storeu_si128((__m128i *)(void *)target, bytes);
        int found = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
        if (found != 0) {
            return cursor + __builtin_ctz((unsigned)found);
        }
        cursor += 16;
        target += 16;
    }
#endif
    while (cursor < end && *cursor != '"' && *cursor != '\\') {
        *target++ = *cursor++;
    }
    return cursor;
}

/* Copies bytes up to the first that JSON must escape ('"', '\', below 0x20), or end; returns where it stopped. Writes 16 bytes a step,
 * all within what the escaped text will fill: target has room for end - cursor. */
static inline const uint8_t *rp_json_copy_unescaped(uint8_t *target, const uint8_t *cursor, const uint8_t *end) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i control_max = _mm_set1_epi8(0x1F);
    while (end - cursor >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)cursor);
        _mm_storeu_si128((__m128i *)(void *)target, bytes);
        __m128i special = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
        special = _mm_or_si128(special, _mm_cmpeq_epi8(_mm_min_epu8(bytes, control_max), bytes));
        int found = _mm_movemask_epi8(special);
        if (found != 0) {
            return cursor + __builtin_ctz((unsigned)found);
        }
        cursor += 16;
        target += 16;
    }
#endif
    while (cursor < end && *cursor != '"' && *cursor != '\\' && *cursor > 0x1F) {
        *target++ = *cursor++;
    }
    return cursor;
}

#endif
