/* acked_offsets.h: what the slaves in a master's slots have acknowledged, -1 where there is none. Private to csrc/ha.
 *
 * Threads  any; whoever reads while acks come sees each as it was or as it is.
 */
#ifndef RP_HA_ACKED_OFFSETS_H
#define RP_HA_ACKED_OFFSETS_H

#include <stdatomic.h>
#include <stdint.h>

/* The offset that at least `slaves` of them hold; -1 with fewer, and for 0. `slots` is at most RP_HA_SLAVES_MAX. */
int64_t rp_acked_offset(const atomic_int_fast64_t *acked, uint32_t slots, uint32_t slaves);

/* How many have acknowledged more than `offset`, but no more than `required` and no fewer than `min`. */
uint32_t rp_acked_required(const atomic_int_fast64_t *acked, uint32_t slots, uint32_t required, uint32_t min, int64_t offset);

#endif
