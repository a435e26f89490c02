/* sha1_test.c: SHA-1 and HMAC-SHA1 give the results of RFC 3174 and RFC 2202, in pieces of any size, both with the CPU's instructions
 * and in plain C. Exit 0 passed, 1 failed. An optional argument "bench" prints ns. */
#include "../../../csrc/base/sha1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

static void hex(const uint8_t *digest, char text[41]) {
    for (int i = 0; i < RP_SHA1_SIZE; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
}

static void check_digest(const char *repeated, int times, const char *expected) {
    rp_sha1 sha1;
    uint8_t digest[RP_SHA1_SIZE];
    char text[41];
    rp_sha1_begin(&sha1);
    for (int i = 0; i < times; i++) {
        rp_sha1_add(&sha1, repeated, strlen(repeated));
    }
    rp_sha1_end(&sha1, digest);
    hex(digest, text);
    CHECK(strcmp(text, expected) == 0);
}

static void test_rfc_3174(void) {
    check_digest("", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check_digest("abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d");
    check_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    check_digest("a", 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    check_digest("0123456701234567012345670123456701234567012345670123456701234567", 10, "dea356a2cddd90c7a7ecedc5ebb563934f460452");
}

static void check_hmac(const void *secret, size_t secret_size, const void *data, size_t size, const char *expected) {
    rp_hmac_key key;
    rp_sha1 sha1;
    uint8_t digest[RP_SHA1_SIZE];
    char text[41];
    rp_hmac_key_make(&key, secret, secret_size);
    rp_hmac_begin(&sha1, &key);
    rp_sha1_add(&sha1, data, size / 3);
    rp_sha1_add(&sha1, (const uint8_t *)data + size / 3, size - size / 3);
    rp_hmac_end(&sha1, &key, digest);
    hex(digest, text);
    CHECK(strcmp(text, expected) == 0);
}

static void test_rfc_2202(void) {
    uint8_t secret[80], data[50];
    memset(secret, 0x0b, 20);
    check_hmac(secret, 20, "Hi There", 8, "b617318655057264e28bc0b6fb378c8ef146be00");
    check_hmac("Jefe", 4, "what do ya want for nothing?", 28, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    memset(secret, 0xaa, 80);
    memset(data, 0xdd, 50);
    check_hmac(secret, 20, data, 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3");
    for (int i = 0; i < 25; i++) {
        secret[i] = (uint8_t)(i + 1);
    }
    memset(data, 0xcd, 50);
    check_hmac(secret, 25, data, 50, "4c9007f4026250c6bc8414f9bf50c86c2d7235da");
    memset(secret, 0x0c, 20);
    check_hmac(secret, 20, "Test With Truncation", 20, "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04");
    memset(secret, 0xaa, 80);
    check_hmac(secret, 80, "Test Using Larger Than Block-Size Key - Hash Key First", 54, "aa4ae5e15272d00e95705637ce8a3b55ed402112");
    check_hmac(secret, 80, "Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data", 73,
               "e8e99d0f45237d786d6bbaa7965c7808bbff1a91");
}

/* Of every size around the block's, in two pieces that meet at every byte: the same as all at once by the portable rounds. */
static void test_pieces(void) {
    uint8_t data[200];
    for (uint32_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 7 + 3);
    }
    for (uint32_t size = 0; size <= 130; size++) {
        uint8_t whole[256] = {0}, expected[RP_SHA1_SIZE], digest[RP_SHA1_SIZE];
        uint32_t state[5] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
        uint32_t blocks = (size + 8) / 64 + 1;
        memcpy(whole, data, size);
        whole[size] = 0x80;
        whole[blocks * 64 - 2] = (uint8_t)(size * 8 >> 8);
        whole[blocks * 64 - 1] = (uint8_t)(size * 8);
        rp_sha1_blocks_portable(state, whole, blocks);
        for (int i = 0; i < RP_SHA1_SIZE; i++) {
            expected[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
        }
        for (uint32_t first = 0; first <= size; first++) {
            rp_sha1 sha1;
            rp_sha1_begin(&sha1);
            rp_sha1_add(&sha1, data, first);
            rp_sha1_add(&sha1, data + first, size - first);
            rp_sha1_end(&sha1, digest);
            CHECK(memcmp(digest, expected, sizeof digest) == 0);
        }
    }
}

static void test_constant_time_equal(void) {
    uint8_t left[28] = {1, 2, 3}, right[28] = {1, 2, 3};
    CHECK(rp_equal_in_constant_time(left, right, sizeof left));
    CHECK(rp_equal_in_constant_time(left, right, 0));
    for (uint32_t i = 0; i < sizeof left; i++) {
        right[i] ^= 0x80;
        CHECK(!rp_equal_in_constant_time(left, right, sizeof left));
        right[i] ^= 0x80;
    }
    rp_wipe(left, sizeof left);
    CHECK(left[0] == 0 && left[2] == 0);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void bench(size_t size) {
    static uint8_t data[1 << 20];
    uint32_t state[5] = {0};
    int rounds = (int)((128u << 20) / size);
    double start = seconds();
    for (int i = 0; i < rounds; i++) {
        rp_sha1 sha1;
        uint8_t digest[RP_SHA1_SIZE];
        rp_sha1_begin(&sha1);
        rp_sha1_add(&sha1, data, size);
        rp_sha1_end(&sha1, digest);
        data[0] ^= digest[0];
    }
    double native = seconds() - start;
    start = seconds();
    for (int i = 0; i < rounds; i++) {
        rp_sha1_blocks_portable(state, data, size / 64);
    }
    printf("%zu bytes: %s %.0f ns, portable %.0f ns\n", size, rp_sha1_implementation(), native / rounds * 1e9,
           (seconds() - start) / rounds * 1e9);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        bench(1024);
        bench(1 << 20);
        return 0;
    }
    RUN(test_rfc_3174);
    RUN(test_rfc_2202);
    RUN(test_pieces);
    RUN(test_constant_time_equal);
    return 0;
}
