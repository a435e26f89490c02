/* base64.c: see base64.h. */
#include "base64.h"

#include "error.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Returns the six bits of a character, 0xFF for one outside of the alphabet. */
static uint32_t bits_of(uint8_t character) {
    static const uint8_t table[256] = {
        ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,  ['I'] = 9,  ['J'] = 10, ['K'] = 11,
        ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22,
        ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33,
        ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44,
        ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55,
        ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64};
    return (uint32_t)table[character] - 1u;
}

void rp_base64_encode(const uint8_t *bytes, uint32_t size, uint8_t *text) {
    const uint8_t *end = bytes + size;
    for (; end - bytes >= 3; bytes += 3, text += 4) {
        uint32_t word = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
        text[0] = (uint8_t)alphabet[word >> 18];
        text[1] = (uint8_t)alphabet[word >> 12 & 63];
        text[2] = (uint8_t)alphabet[word >> 6 & 63];
        text[3] = (uint8_t)alphabet[word & 63];
    }
    if (end != bytes) {
        uint32_t word = (uint32_t)bytes[0] << 16 | (end - bytes == 2 ? (uint32_t)bytes[1] << 8 : 0);
        text[0] = (uint8_t)alphabet[word >> 18];
        text[1] = (uint8_t)alphabet[word >> 12 & 63];
        text[2] = end - bytes == 2 ? (uint8_t)alphabet[word >> 6 & 63] : '=';
        text[3] = '=';
    }
}

int64_t rp_base64_decoded_size(const uint8_t *text, uint32_t size) {
    if (size % 4 != 0) {
        return -1;
    }
    int64_t padding = size == 0 ? 0 : (text[size - 1] == '=') + (text[size - 1] == '=' && text[size - 2] == '=');
    return (int64_t)size / 4 * 3 - padding;
}

int rp_base64_decode(const uint8_t *text, uint32_t size, uint8_t *bytes) {
    int64_t left = rp_base64_decoded_size(text, size);
    if (left < 0) {
        return RP_E_PROTOCOL;
    }
    uint32_t wrong = 0;
    for (; left >= 3; left -= 3, text += 4, bytes += 3) {
        uint32_t a = bits_of(text[0]), b = bits_of(text[1]), c = bits_of(text[2]), d = bits_of(text[3]);
        uint32_t word = a << 18 | b << 12 | c << 6 | d;
        wrong |= a | b | c | d; /* valid characters have no bit above the sixth */
        bytes[0] = (uint8_t)(word >> 16);
        bytes[1] = (uint8_t)(word >> 8);
        bytes[2] = (uint8_t)word;
    }
    if (left > 0) {
        uint32_t a = bits_of(text[0]), b = bits_of(text[1]), c = left == 2 ? bits_of(text[2]) : 0;
        uint32_t word = a << 18 | b << 12 | c << 6;
        wrong |= a | b | c | ((word & (left == 2 ? 0xFFu : 0xFFFFu)) != 0 ? 64u : 0);
        bytes[0] = (uint8_t)(word >> 16);
        if (left == 2) {
            bytes[1] = (uint8_t)(word >> 8);
        }
    }
    return wrong < 64 ? RP_OK : RP_E_PROTOCOL;
}
