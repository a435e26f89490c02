/* hash.h: Java's String.hashCode, and a fast hash for our own tables. Threads: any; pure. */
#ifndef RP_BASE_HASH_H
#define RP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Java's String.hashCode of UTF-8 text (over UTF-16 units, surrogates included). Malformed UTF-8 counts as the U+FFFD that Java's
 * decoder makes of it (utf8_inl.h). */
int32_t rp_hash_java(const uint8_t *utf8, size_t size);

/* A 64-bit hash for in-memory tables; it differs in each process, so that no client can know which names collide. */
uint64_t rp_hash_bytes(const void *data, size_t size, uint64_t seed);

#endif
