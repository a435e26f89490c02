/* sha1.c: SHA-1 over pieces, HMAC on top of it, the choice of rounds and the portable ones. RFC 3174, RFC 2104. */
#include "sha1.h"

#include <string.h>

#include "bytes_inl.h"
#include "sha1_rounds.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define BLOCK 64u

static inline uint32_t rotate(uint32_t word, int bits) { return word << bits | word >> (32 - bits); }

/* Twenty rounds on words[first]…, with the function and the constant of these. */
#define TWENTY_ROUNDS(first, function, constant)                                                                                           \
    for (uint32_t i = first; i < first + 20; i++) {                                                                                        \
        uint32_t next = rotate(a, 5) + (function) + e + words[i] + constant;                                                               \
        e = d;                                                                                                                             \
        d = c;                                                                                                                             \
        c = rotate(b, 30);                                                                                                                 \
        b = a;                                                                                                                             \
        a = next;                                                                                                                          \
    }

static void add_block(uint32_t state[5], const uint8_t *block) {
    uint32_t words[80];
    for (uint32_t i = 0; i < 16; i++) {
        words[i] = rp_get_u32(block + 4 * i);
    }
    for (uint32_t i = 16; i < 80; i++) {
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    TWENTY_ROUNDS(0, d ^ (b & (c ^ d)), 0x5A827999u)
    TWENTY_ROUNDS(20, b ^ c ^ d, 0x6ED9EBA1u)
    TWENTY_ROUNDS(40, (b & c) | (d & (b | c)), 0x8F1BBCDCu)
    TWENTY_ROUNDS(60, b ^ c ^ d, 0xCA62C1D6u)
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void rp_sha1_blocks_portable(uint32_t state[5], const uint8_t *blocks, size_t count) {
    for (; count > 0; count--, blocks += BLOCK) {
        add_block(state, blocks);
    }
}

/* GCC before 11 and many a Clang cannot ask for SHA. */
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 11
#define INSTRUCTIONS "sha_ni"
static int cpu_has_sha(void) { return __builtin_cpu_supports("sha") && __builtin_cpu_supports("sse4.1"); }
#elif defined(__aarch64__) && defined(__AARCH64EL__)
#define INSTRUCTIONS "armv8"
static int cpu_has_sha(void) { return (getauxval(AT_HWCAP) & HWCAP_SHA1) != 0; }
#else
#define INSTRUCTIONS "portable"
static int cpu_has_sha(void) { return 0; }
#endif

static void add_blocks(uint32_t state[5], const uint8_t *blocks, size_t count) {
    if (cpu_has_sha()) {
        rp_sha1_blocks_by_cpu(state, blocks, count);
    } else {
        rp_sha1_blocks_portable(state, blocks, count);
    }
}

const char *rp_sha1_implementation(void) { return cpu_has_sha() ? INSTRUCTIONS : "portable"; }

static const uint32_t beginning[5] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};

void rp_sha1_begin(rp_sha1 *sha1) {
    sha1->size = 0;
    memcpy(sha1->state, beginning, sizeof beginning);
}

void rp_sha1_add(rp_sha1 *sha1, const void *data, size_t size) {
    const uint8_t *bytes = data;
    size_t held = sha1->size % BLOCK;
    sha1->size += size;
    if (held + size < BLOCK) {
        if (size > 0) {
            memcpy(sha1->block + held, bytes, size);
        }
        return;
    }
    if (held > 0) {
        memcpy(sha1->block + held, bytes, BLOCK - held);
        add_blocks(sha1->state, sha1->block, 1);
        bytes += BLOCK - held;
        size -= BLOCK - held;
    }
    add_blocks(sha1->state, bytes, size / BLOCK);
    memcpy(sha1->block, bytes + size / BLOCK * BLOCK, size % BLOCK);
}

void rp_sha1_end(rp_sha1 *sha1, uint8_t digest[RP_SHA1_SIZE]) {
    uint64_t bits = sha1->size * 8;
    size_t held = sha1->size % BLOCK;
    uint8_t *block = sha1->block;
    block[held++] = 0x80;
    if (held > BLOCK - 8) {
        memset(block + held, 0, BLOCK - held);
        add_blocks(sha1->state, block, 1);
        held = 0;
    }
    memset(block + held, 0, BLOCK - 8 - held);
    rp_put_u64(block + BLOCK - 8, bits);
    add_blocks(sha1->state, block, 1);
    for (uint32_t i = 0; i < 5; i++) {
        rp_put_u32(digest + 4 * i, sha1->state[i]);
    }
    rp_sha1_begin(sha1);
}

static void pad(uint32_t state[5], const uint8_t secret[BLOCK], uint8_t byte) {
    uint8_t block[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++) {
        block[i] = secret[i] ^ byte;
    }
    memcpy(state, beginning, sizeof beginning);
    add_blocks(state, block, 1);
    rp_wipe(block, sizeof block);
}

void rp_hmac_key_make(rp_hmac_key *key, const void *secret, size_t size) {
    uint8_t block[BLOCK] = {0};
    if (size > BLOCK) {
        rp_sha1 sha1;
        rp_sha1_begin(&sha1);
        rp_sha1_add(&sha1, secret, size);
        rp_sha1_end(&sha1, block);
        rp_wipe(&sha1, sizeof sha1);
    } else if (size > 0) {
        memcpy(block, secret, size);
    }
    pad(key->inner, block, 0x36);
    pad(key->outer, block, 0x5C);
    rp_wipe(block, sizeof block);
}

void rp_hmac_begin(rp_sha1 *sha1, const rp_hmac_key *key) {
    sha1->size = BLOCK;
    memcpy(sha1->state, key->inner, sizeof key->inner);
}

void rp_hmac_end(rp_sha1 *sha1, const rp_hmac_key *key, uint8_t digest[RP_SHA1_SIZE]) {
    uint8_t inner[RP_SHA1_SIZE];
    rp_sha1_end(sha1, inner);
    sha1->size = BLOCK;
    memcpy(sha1->state, key->outer, sizeof key->outer);
    rp_sha1_add(sha1, inner, sizeof inner);
    rp_sha1_end(sha1, digest);
    rp_wipe(sha1, sizeof *sha1);
}

int rp_equal_in_constant_time(const void *left, const void *right, size_t size) {
    const volatile uint8_t *a = left, *b = right;
    uint8_t difference = 0;
    for (size_t i = 0; i < size; i++) {
        difference |= a[i] ^ b[i];
    }
    return difference == 0;
}

void rp_wipe(void *data, size_t size) {
    memset(data, 0, size);
    __asm__ volatile("" : : "r"(data) : "memory");
}
