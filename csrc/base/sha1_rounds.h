/* sha1_rounds.h: SHA-1's rounds by the SHA instructions. Internal to csrc/base, C only.
 *
 * Threads  pure.
 */
#ifndef RP_BASE_SHA1_ROUNDS_H
#define RP_BASE_SHA1_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

/* Only on CPUs with SHA, SSSE3 and SSE4.1, or with ARMv8's SHA-1. */
void rp_sha1_blocks_by_cpu(uint32_t state[5], const uint8_t *blocks, size_t count);

#endif
