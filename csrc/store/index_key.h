/* index_key.h: the keys under which a message is entered into the index, and their hashes.
 * RocketMQ: IndexService.buildIndex, IndexFile.indexKeyHashMethod (5.5.0 store/index/).
 *
 * Threads  any; pure.
 */
#ifndef RP_STORE_INDEX_KEY_H
#define RP_STORE_INDEX_KEY_H

#include <stdint.h>

#include "message.h"

/* An iteration over a message's keys: what is left to visit. */
typedef struct rp_index_keys {
    rp_slice topic;
    rp_slice unique; /* data NULL: visited or absent */
    rp_slice words;
    rp_slice tags; /* data NULL: visited or absent */
} rp_index_keys;

/* Begins the iteration: the unique key, the words of KEYS, then TAGS as a whole. A rolled-back transaction has no keys. */
rp_index_keys rp_index_keys_of(const rp_message *message);
/* Returns 1 with the hash of the next key, 0 if there is none left. */
int rp_index_keys_next(rp_index_keys *keys, int32_t *hash);
/* abs(hashCode("TOPIC#KEY")) as Java computes it, 0 where abs overflows. -1 for a key no message can carry (past 32 KB). */
int32_t rp_index_key_hash(rp_slice topic, rp_slice key);
/* The same for TAGS, which are entered as the key "T#TAGS". */
int32_t rp_index_tags_hash(rp_slice topic, rp_slice tags);

#endif
