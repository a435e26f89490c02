/* key_set.h: a set of message keys: those recalled in one slot, or those that have a later copy. Private to csrc/broker.
 * RocketMQ: TimerRequest.deleteList (5.3.3 store/timer/).
 *
 * The set stores two hashes of 64 bits for each key, with seeds that change with each set: keys of any length take 16 bytes, and nobody
 * can construct a key that looks like another.
 *
 * Threads  one owner.
 */
#ifndef RP_BROKER_KEY_SET_H
#define RP_BROKER_KEY_SET_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_key_hash {
    uint64_t first, second; /* not both 0 */
} rp_key_hash;

typedef struct rp_key_set {
    rp_key_hash *slots; /* owned: open addressing, at most half full */
    uint32_t room, count;
    uint64_t seeds[2];
} rp_key_set;

void rp_key_set_init(rp_key_set *set, uint64_t random);
/* Empties the set and frees its memory. */
void rp_key_set_clear(rp_key_set *set);
/* RP_OK; RP_E_NO_MEMORY: the key is not in the set, the others are. */
int rp_key_set_add(rp_key_set *set, rp_slice key);
int rp_key_set_has(const rp_key_set *set, rp_slice key);
/* The same for recalls. add_recalled: what a recall sent to the topic names, with or without the topic before the key. has_recalled: is
 * the message with that key recalled? An empty topic or key is never in the set. */
int rp_key_set_add_recalled(rp_key_set *set, rp_slice topic, rp_slice named);
int rp_key_set_has_recalled(const rp_key_set *set, rp_slice topic, rp_slice unique_key);

#endif
