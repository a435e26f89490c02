/* growing_inl.h: finds element i of a growing array of chunks. C only.
 *
 * Chunk c holds RP_GROWING_FIRST << c elements. Chunks are allocated when first needed and never move, so readers need no lock and
 * nothing is retired. 14 chunks hold 131,064 elements, more than a topic may have queues.
 */
#ifndef RP_BROKER_GROWING_INL_H
#define RP_BROKER_GROWING_INL_H

#include <stdint.h>

#define RP_GROWING_FIRST 8u
#define RP_GROWING_CHUNKS 14u

static inline uint32_t rp_growing_chunk(uint32_t index) { return 28u - (uint32_t)__builtin_clz(index + RP_GROWING_FIRST); }
static inline uint32_t rp_growing_size(uint32_t chunk) { return RP_GROWING_FIRST << chunk; }
static inline uint32_t rp_growing_place(uint32_t index, uint32_t chunk) { return index + RP_GROWING_FIRST - rp_growing_size(chunk); }

#endif
