/* crc32.c: chooses between the CRC-32 of this CPU and the portable one (slicing by 8), which is here.
 *
 * The CPU's features are read once, at load, by the compiler's runtime or the C library; the test here is one load and a branch that
 * never changes.
 *
 * Slicing   table[k][b] is the CRC of byte b followed by k zero bytes, so eight look-ups advance eight bytes at once. A CRC without
 *           inversion is linear: table[k][b] is the xor of the entries of b's bits, so eight constants per table suffice and the
 *           compiler computes the rest.
 */
#include "crc32.h"

#include <string.h>

#include "crc32_armv8.h"
#include "crc32_folded.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define BIT(i, n, c) (((i) >> (n)) & 1 ? (c) : 0)
#define ENTRY(i, a, b, c, d, e, f, g, h)                                                                                                   \
    (BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d) ^ BIT(i, 4, e) ^ BIT(i, 5, f) ^ BIT(i, 6, g) ^ BIT(i, 7, h))
#define ROW_4(i, ...) ENTRY(i, __VA_ARGS__), ENTRY((i) + 1, __VA_ARGS__), ENTRY((i) + 2, __VA_ARGS__), ENTRY((i) + 3, __VA_ARGS__)
#define ROW_16(i, ...) ROW_4(i, __VA_ARGS__), ROW_4((i) + 4, __VA_ARGS__), ROW_4((i) + 8, __VA_ARGS__), ROW_4((i) + 12, __VA_ARGS__)
#define ROW_64(i, ...) ROW_16(i, __VA_ARGS__), ROW_16((i) + 16, __VA_ARGS__), ROW_16((i) + 32, __VA_ARGS__), ROW_16((i) + 48, __VA_ARGS__)
#define TABLE(...) {ROW_64(0, __VA_ARGS__), ROW_64(64, __VA_ARGS__), ROW_64(128, __VA_ARGS__), ROW_64(192, __VA_ARGS__)}

static const uint32_t table[8][256] = {
    TABLE(0x77073096u, 0xEE0E612Cu, 0x076DC419u, 0x0EDB8832u, 0x1DB71064u, 0x3B6E20C8u, 0x76DC4190u, 0xEDB88320u),
    TABLE(0x191B3141u, 0x32366282u, 0x646CC504u, 0xC8D98A08u, 0x4AC21251u, 0x958424A2u, 0xF0794F05u, 0x3B83984Bu),
    TABLE(0x01C26A37u, 0x0384D46Eu, 0x0709A8DCu, 0x0E1351B8u, 0x1C26A370u, 0x384D46E0u, 0x709A8DC0u, 0xE1351B80u),
    TABLE(0xB8BC6765u, 0xAA09C88Bu, 0x8F629757u, 0xC5B428EFu, 0x5019579Fu, 0xA032AF3Eu, 0x9B14583Du, 0xED59B63Bu),
    TABLE(0x3D6029B0u, 0x7AC05360u, 0xF580A6C0u, 0x30704BC1u, 0x60E09782u, 0xC1C12F04u, 0x58F35849u, 0xB1E6B092u),
    TABLE(0xCB5CD3A5u, 0x4DC8A10Bu, 0x9B914216u, 0xEC53826Du, 0x03D6029Bu, 0x07AC0536u, 0x0F580A6Cu, 0x1EB014D8u),
    TABLE(0xA6770BB4u, 0x979F1129u, 0xF44F2413u, 0x33EF4E67u, 0x67DE9CCEu, 0xCFBD399Cu, 0x440B7579u, 0x8816EAF2u),
    TABLE(0xCCAA009Eu, 0x4225077Du, 0x844A0EFAu, 0xD3E51BB5u, 0x7CBB312Bu, 0xF9766256u, 0x299DC2EDu, 0x533B85DAu),
};

uint32_t rp_crc32_portable(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = table[7][a & 0xFF] ^ table[6][a >> 8 & 0xFF] ^ table[5][a >> 16 & 0xFF] ^ table[4][a >> 24] ^ table[3][p[4]] ^
              table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; size != 0; size--, p++) {
        crc = table[0][(crc ^ *p) & 0xFF] ^ crc >> 8;
    }
    return ~crc;
}

#if defined(__x86_64__)
static int cpu_folds(void) { return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"); }
static int cpu_folds_wide(void) { return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2"); }
#else
static int cpu_folds(void) { return 0; }
static int cpu_folds_wide(void) { return 0; }
#endif

#if defined(__aarch64__) && defined(__AARCH64EL__)
static int cpu_has_crc(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
static int cpu_has_crc(void) { return 0; }
#endif

uint32_t rp_crc32(uint32_t crc, const void *data, size_t size) {
    if (size >= RP_CRC32_WIDE_MIN && cpu_folds_wide()) {
        return rp_crc32_folded_wide(crc, NULL, data, size);
    }
    if (size >= RP_CRC32_FOLDED_MIN && cpu_folds()) {
        return rp_crc32_folded(crc, NULL, data, size);
    }
    if (cpu_has_crc()) {
        return rp_crc32_armv8(crc, NULL, data, size);
    }
    return rp_crc32_portable(crc, data, size);
}

uint32_t rp_crc32_copy(uint32_t crc, void *target, const void *source, size_t size) {
    if (size >= RP_CRC32_WIDE_MIN && cpu_folds_wide()) {
        return rp_crc32_folded_wide(crc, target, source, size);
    }
    if (size >= RP_CRC32_FOLDED_MIN && cpu_folds()) {
        return rp_crc32_folded(crc, target, source, size);
    }
    if (cpu_has_crc()) {
        return rp_crc32_armv8(crc, target, source, size);
    }
    if (size != 0) {
        memcpy(target, source, size);
    }
    return rp_crc32_portable(crc, source, size);
}

const char *rp_crc32_implementation(void) {
    if (cpu_folds_wide()) {
        return "vpclmulqdq";
    }
    if (cpu_folds()) {
        return "pclmulqdq";
    }
    return cpu_has_crc() ? "armv8" : "portable";
}
