/* crc32_folded.h: CRC-32 by carry-less multiplication; private to crc32.c, which asks the CPU first.
 *
 * Both continue `crc` over size bytes and, when target is not NULL, copy them there in the same pass.
 * Only on x86-64, only for size >= RP_CRC32_FOLDED_MIN. Threads: any; pure.
 */
#ifndef RP_BASE_CRC32_FOLDED_H
#define RP_BASE_CRC32_FOLDED_H

#include <stddef.h>
#include <stdint.h>

#define RP_CRC32_FOLDED_MIN 16
#define RP_CRC32_WIDE_MIN 256

uint32_t rp_crc32_folded(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size);      /* needs PCLMULQDQ, SSE4.1 */
uint32_t rp_crc32_folded_wide(uint32_t crc, uint8_t *target, const uint8_t *source,
                              size_t size); /* needs VPCLMULQDQ, AVX2; size >= RP_CRC32_WIDE_MIN */

#endif
