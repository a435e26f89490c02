/* sha1.h: SHA-1 (RFC 3174) and HMAC-SHA1 (RFC 2104) over pieces.
 *
 * Uses the SHA instructions where the CPU has them, plain C elsewhere; the CPU is queried once, at load.
 * Threads  any; pure except for the caller's structs.
 * Secrets  an rp_hmac_key is as sensitive as the secret it was made from: wipe it (rp_wipe) before freeing it. rp_hmac_end wipes an
 *          rp_sha1 that was begun with one.
 */
#ifndef RP_BASE_SHA1_H
#define RP_BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define RP_SHA1_SIZE 20

typedef struct rp_sha1 {
    uint64_t size; /* bytes added */
    uint32_t state[5];
    uint8_t block[64]; /* the last size % 64 bytes, which do not fill a block yet */
} rp_sha1;

void rp_sha1_begin(rp_sha1 *sha1);
void rp_sha1_add(rp_sha1 *sha1, const void *data, size_t size);
/* Writes the digest; sha1 then begins anew. */
void rp_sha1_end(rp_sha1 *sha1, uint8_t digest[RP_SHA1_SIZE]);

/* A secret in precomputed form: the states behind the inner and the outer pad. */
typedef struct rp_hmac_key {
    uint32_t inner[5];
    uint32_t outer[5];
} rp_hmac_key;

void rp_hmac_key_make(rp_hmac_key *key, const void *secret, size_t size);
/* Begin, rp_sha1_add for what is signed, end. */
void rp_hmac_begin(rp_sha1 *sha1, const rp_hmac_key *key);
void rp_hmac_end(rp_sha1 *sha1, const rp_hmac_key *key, uint8_t digest[RP_SHA1_SIZE]);

/* 1 if both have the same `size` bytes; the time does not depend on where they differ. */
int rp_equal_in_constant_time(const void *left, const void *right, size_t size);
/* Zeroes the bytes, in a way that no compiler optimizes away. */
void rp_wipe(void *data, size_t size);

/* Adds whole blocks of 64 bytes to state, in plain C: for tests, and for CPUs without the instructions. */
void rp_sha1_blocks_portable(uint32_t state[5], const uint8_t *blocks, size_t count);

/* "sha_ni", "armv8" or "portable". Static storage. */
const char *rp_sha1_implementation(void);

#endif
