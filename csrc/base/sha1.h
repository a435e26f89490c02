/* sha1.h: SHA-1 (RFC 3174) and HMAC-SHA1 (RFC 2104) over pieces.
 *
 * The SHA instructions where the CPU has them, plain C elsewhere; CPUID is asked once, at load.
 * Threads  any; pure but for the caller's structs.
 * Secrets  an rp_hmac_key is as good as the secret it was made of: whoever frees one wipes it first (rp_wipe). An rp_sha1 that began with
 *          one is wiped by rp_hmac_end.
 */
#ifndef RP_BASE_SHA1_H
#define RP_BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define RP_SHA1_SIZE 20

typedef struct rp_sha1 {
    uint64_t size; /* bytes added */
    uint32_t state[5];
    uint8_t block[64]; /* the last size % 64 bytes, which make no whole block yet */
} rp_sha1;

void rp_sha1_begin(rp_sha1 *sha1);
void rp_sha1_add(rp_sha1 *sha1, const void *data, size_t size);
/* The digest; afterwards sha1 begins again. */
void rp_sha1_end(rp_sha1 *sha1, uint8_t digest[RP_SHA1_SIZE]);

/* A secret, as far as it can be computed ahead: the states behind the inner and the outer pad. */
typedef struct rp_hmac_key {
    uint32_t inner[5];
    uint32_t outer[5];
} rp_hmac_key;

void rp_hmac_key_make(rp_hmac_key *key, const void *secret, size_t size);
/* Begin, rp_sha1_add what is signed, end. */
void rp_hmac_begin(rp_sha1 *sha1, const rp_hmac_key *key);
void rp_hmac_end(rp_sha1 *sha1, const rp_hmac_key *key, uint8_t digest[RP_SHA1_SIZE]);

/* 1 when both are of the same size bytes; takes as long wherever they differ. */
int rp_equal_in_constant_time(const void *left, const void *right, size_t size);
/* Zeroes, and no compiler leaves it out. */
void rp_wipe(void *data, size_t size);

/* Whole blocks of 64 bytes into state, in plain C: for tests, and for CPUs without the instructions. */
void rp_sha1_blocks_portable(uint32_t state[5], const uint8_t *blocks, size_t count);

/* "sha_ni", "armv8" or "portable". Static storage. */
const char *rp_sha1_implementation(void);

#endif
