/* crc32_test.c: every CRC-32 version equals a bit-by-bit one, at each alignment and at sizes around every block boundary.
 * Exit 0 passed, 1 failed. An optional argument "bench" prints GB/s. */
#include "../../../csrc/base/crc32.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../csrc/base/crc32_folded.h"

static uint32_t bitwise(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
    }
    return ~crc;
}

static int check(const char *version, uint32_t got, uint32_t expected, size_t alignment, size_t size) {
    if (got != expected) {
        fprintf(stderr, "%s: alignment %zu size %zu: got %08x, expected %08x\n", version, alignment, size, got, expected);
        return 1;
    }
    return 0;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void bench(const char *name, size_t size, int kind, uint8_t *source, uint8_t *target) {
    size_t rounds = ((size_t)1 << 30) / size;
    uint32_t sum = 0;
    double start = seconds();
    for (size_t i = 0; i < rounds; i++) {
        switch (kind) {
        case 0:
            sum += rp_crc32(sum, source, size);
            break;
        case 1:
            sum += rp_crc32_copy(sum, target, source, size);
            break;
        case 2:
            sum += rp_crc32_portable(sum, source, size);
            break;
        case 3:
            sum += rp_crc32_folded(sum, target, source, size);
            break;
        default:
            memcpy(target, source, size);
            __asm__ volatile("" ::: "memory");
            break;
        }
    }
    double elapsed = seconds() - start;
    printf("%-24s %7zu B  %6.2f GB/s  %7.1f ns  (%08x)\n", name, size, (double)(rounds * size) / elapsed / 1e9,
           elapsed / (double)rounds * 1e9, sum);
}

int main(int argc, char **argv) {
    enum { ROOM = 1 << 16 };
    uint8_t *source = malloc(ROOM + 64), *target = malloc(ROOM + 64);
    int failures = 0;
    if (source == NULL || target == NULL) {
        return 1;
    }
    uint32_t seed = 20240607;
    for (size_t i = 0; i < ROOM + 64; i++) {
        seed = seed * 1664525u + 1013904223u;
        source[i] = (uint8_t)(seed >> 24);
    }
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        size_t sizes[] = {64, 200, 1024, 4096, 65536};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            bench("rp_crc32", sizes[i], 0, source, target);
            bench("rp_crc32_copy", sizes[i], 1, source, target);
            bench("rp_crc32_portable", sizes[i], 2, source, target);
            bench("folded 128-bit copy", sizes[i], 3, source, target);
            bench("memcpy", sizes[i], 4, source, target);
        }
    }
    failures += check("empty", rp_crc32(0, source, 0), 0, 0, 0);
    failures += check("check value", rp_crc32(0, "123456789", 9), 0xCBF43926u, 0, 9);
    for (size_t alignment = 0; alignment < 33; alignment++) {
        for (size_t size = 0; size < 700; size++) {
            const uint8_t *data = source + alignment;
            uint32_t start = (uint32_t)(size * 2654435761u), expected = bitwise(start, data, size);
            failures += check("rp_crc32", rp_crc32(start, data, size), expected, alignment, size);
            failures += check("rp_crc32_portable", rp_crc32_portable(start, data, size), expected, alignment, size);
            if (size >= RP_CRC32_FOLDED_MIN && strstr(rp_crc32_implementation(), "pclmulqdq") != NULL) {
                failures += check("rp_crc32_folded", rp_crc32_folded(start, NULL, data, size), expected, alignment, size);
            }
            uint8_t *copy = target + 16 + (size & 15);
            memset(target, 0xA5, size + 64);
            failures += check("rp_crc32_copy", rp_crc32_copy(start, copy, data, size), expected, alignment, size);
            if (memcmp(copy, data, size) != 0 || copy[-1] != 0xA5 || copy[size] != 0xA5) {
                fprintf(stderr, "rp_crc32_copy: alignment %zu size %zu: wrong bytes\n", alignment, size);
                failures++;
            }
        }
    }
    free(source);
    free(target);
    return failures != 0;
}
