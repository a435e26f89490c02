/* utf8_inl.h: characters of UTF-8, and what malformed bytes stand for. C only.
 *
 * Well-formed is what Unicode's table 3-7 lists: the range of second bytes is narrowed, which excludes overlong forms, surrogates and
 * values past U+10FFFF. Of the rest, one U+FFFD stands for the beginning of a character that breaks off, for the three bytes of a
 * surrogate, and for each other byte: as in Java's decoder (JDK 17, String.decodeUTF8), so that both sides hash and show the same text.
 */
#ifndef RP_BASE_UTF8_INL_H
#define RP_BASE_UTF8_INL_H

#include <stddef.h>
#include <stdint.h>

#define RP_UTF8_REPLACEMENT 0xFFFDu /* EF BF BD */

/* Returns how many of the left >= 1 bytes at p the next character has, 1 to 4. *is_whole 0: they are not a character, and stand for one
 * U+FFFD. */
static inline uint32_t rp_utf8_next(const uint8_t *p, size_t left, int *is_whole) {
    uint8_t lead = p[0];
    uint32_t size = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    *is_whole = size == 1;
    if (size < 2 || left < 2)
        return 1;
    uint8_t second_min = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80, second_max = lead == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < second_min || p[1] > second_max)
        return 1;
    for (uint32_t at = 2; at < size; at++) {
        if (at == left || (p[at] & 0xC0) != 0x80)
            return at;
    }
    *is_whole = lead != 0xED || p[1] < 0xA0; /* otherwise a surrogate */
    return size;
}

#endif
