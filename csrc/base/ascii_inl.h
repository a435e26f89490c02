/* ascii_inl.h: compares words of protocols and languages independently of the locale: in a Turkish one strcasecmp does not match i with
 * I. C only. */
#ifndef RP_BASE_ASCII_INL_H
#define RP_BASE_ASCII_INL_H

#include <stdint.h>

/* 1 if the `size` bytes are `word`, which is in capital letters, in any case. */
static inline int rp_is_ascii_word(const uint8_t *text, const char *word, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        uint8_t c = text[i];
        if ((c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c) != (uint8_t)word[i])
            return 0;
    }
    return 1;
}

#endif
