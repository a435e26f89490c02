/* crc32_armv8.h: CRC-32 by the CRC instructions of ARMv8; private to crc32.c, which asks the CPU first.
 *
 * Continues `crc` over size bytes and, when target is not NULL, copies them there in the same pass.
 * Only on aarch64. Threads: any; pure.
 */
#ifndef RP_BASE_CRC32_ARMV8_H
#define RP_BASE_CRC32_ARMV8_H

#include <stddef.h>
#include <stdint.h>

uint32_t rp_crc32_armv8(uint32_t crc, uint8_t *target, const uint8_t *source, size_t size);

#endif
