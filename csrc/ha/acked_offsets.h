/* acked_offsets.h: computes over what the slaves in a master's slots have acknowledged; -1: no slave, or no ack. Private to csrc/ha.
 *
 * Threads  any; a reader during an ack sees each offset either before or after it.
 */
#ifndef RP_HA_ACKED_OFFSETS_H
#define RP_HA_ACKED_OFFSETS_H

#include <stdatomic.h>
#include <stdint.h>

/* Returns the offset that at least `slaves` of them hold; -1 if there are fewer, and for 0. `slots` is at most RP_HA_SLAVES_MAX. */
int64_t rp_acked_offset(const atomic_int_fast64_t *acked, uint32_t slots, uint32_t slaves);

/* Returns how many have acknowledged more than `offset`, clipped to min..required. */
uint32_t rp_acked_required(const atomic_int_fast64_t *acked, uint32_t slots, uint32_t required, uint32_t min, int64_t offset);

#endif
