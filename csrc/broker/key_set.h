/* key_set.h: a set of message keys: those that were recalled in one slot, or those that have a later copy. Private to csrc/broker.
 * RocketMQ: TimerRequest.deleteList (5.3.3 store/timer/).
 *
 * Of a key the set has two hashes of 64 bits, whose seeds change with each set: keys of any length take 16 bytes, and none can be made to
 * look like another.
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
/* Empty, and without memory. */
void rp_key_set_clear(rp_key_set *set);
/* RP_OK, RP_E_NO_MEMORY: it is not in the set, the others are. */
int rp_key_set_add(rp_key_set *set, rp_slice key);
int rp_key_set_has(const rp_key_set *set, rp_slice key);
/* The same for messages of a topic: what a recall that was sent to the topic names, with the topic before the key or without; whether the
 * message with that key is recalled. An empty topic or key is never in it. */
int rp_key_set_add_recalled(rp_key_set *set, rp_slice topic, rp_slice named);
int rp_key_set_has_recalled(const rp_key_set *set, rp_slice topic, rp_slice unique_key);

#endif
