/* crc32.h: the CRC-32 of zlib (polynomial 0xEDB88320), as java.util.zip.CRC32 computes it.
 *
 * VPCLMULQDQ or PCLMULQDQ where the CPU has them, the CRC instructions of ARMv8, slicing-by-8 elsewhere and, on x86-64, for a few bytes;
 * the CPU is asked once, at load.
 * Threads  any; pure.
 */
#ifndef RP_BASE_CRC32_H
#define RP_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to start) over size bytes. Equal to zlib's crc32(crc, data, size). */
uint32_t rp_crc32(uint32_t crc, const void *data, size_t size);

/* Copies size bytes from source to target (no overlap) and returns the CRC continued over them: one pass. */
uint32_t rp_crc32_copy(uint32_t crc, void *target, const void *source, size_t size);

/* The portable version, for tests and for CPUs without either. */
uint32_t rp_crc32_portable(uint32_t crc, const void *data, size_t size);

/* "vpclmulqdq", "pclmulqdq", "armv8" or "portable": the fastest this CPU has, in use for all but a few bytes. Static storage. */
const char *rp_crc32_implementation(void);

#endif
