/* key_offsets.h: the last queue offset of each key, for one compaction. Private to csrc/store.
 * RocketMQ: CompactionLog.OffsetMap (5.5.0 store/kv/), by MD5; here keys are told apart by 16 bytes of their SHA-1.
 *
 * Threads  the compaction's.
 * Bounds   the memory that it is made with: it takes keys until three quarters of its rows are used.
 */
#ifndef RP_STORE_KEY_OFFSETS_H
#define RP_STORE_KEY_OFFSETS_H

#include <stddef.h>
#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_key_offsets rp_key_offsets;

/* Room for `keys` of them, but no more than memory_bytes hold. NULL: no memory. */
rp_key_offsets *rp_key_offsets_create(size_t memory_bytes, uint64_t keys);
void rp_key_offsets_destroy(rp_key_offsets *map);

/* Offsets of later calls are larger. RP_OK; RP_E_BUSY: the key is new, and the map is full. */
int rp_key_offsets_put(rp_key_offsets *map, rp_slice key, int64_t offset);
/* -1: it was never put. */
int64_t rp_key_offsets_get(const rp_key_offsets *map, rp_slice key);

#endif
