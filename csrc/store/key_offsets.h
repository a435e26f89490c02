/* key_offsets.h: a map from each key to its last queue offset, for one compaction. Private to csrc/store.
 * RocketMQ: CompactionLog.OffsetMap (5.5.0 store/kv/), by MD5; here keys are distinguished by 16 bytes of their SHA-1.
 *
 * Threads  the compaction's.
 * Bounds   the memory it is created with: it accepts keys until three quarters of its rows are used.
 */
#ifndef RP_STORE_KEY_OFFSETS_H
#define RP_STORE_KEY_OFFSETS_H

#include <stddef.h>
#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_key_offsets rp_key_offsets;

/* Creates a map with room for `keys` keys, but no more than fit into memory_bytes. NULL: no memory. */
rp_key_offsets *rp_key_offsets_create(size_t memory_bytes, uint64_t keys);
void rp_key_offsets_destroy(rp_key_offsets *map);

/* Puts the key's offset; later calls have larger offsets. RP_OK; RP_E_BUSY: the key is new and the map is full. */
int rp_key_offsets_put(rp_key_offsets *map, rp_slice key, int64_t offset);
/* Returns the key's offset; -1: it was never put. */
int64_t rp_key_offsets_get(const rp_key_offsets *map, rp_slice key);

#endif
