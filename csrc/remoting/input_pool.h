/* input_pool.h: buffers of large frames, kept to be used again: memory that malloc maps again for each frame of 1 MB costs as much in page
 * faults as the frame's copies. Internal to csrc/remoting, C only.
 *
 * Threads  belongs to a reactor.
 * Bounds   at most 8 buffers and 8 MB, none for longer than 10 s after the last was taken, or than there are connections (both looked at
 *          when a turn ends).
 */
#ifndef RP_REMOTING_INPUT_POOL_H
#define RP_REMOTING_INPUT_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define RP_INPUT_SPARES_MAX 8

typedef struct rp_input_spare {
    uint8_t *bytes;
    uint32_t capacity;
} rp_input_spare;

typedef struct rp_input_pool {
    rp_input_spare spares[RP_INPUT_SPARES_MAX];
    uint32_t count;
    uint64_t bytes;   /* capacities of the spares */
    int64_t taken_ns; /* when the last was taken, or the first came */
} rp_input_pool;

/* A buffer that holds size bytes, its caller's from now on, and its capacity; NULL when there is none. */
uint8_t *rp_input_pool_take(rp_input_pool *pool, uint32_t size, uint32_t *capacity, int64_t now_ns);
/* Keeps the buffer, which malloc made, or frees it; NULL is nothing. */
void rp_input_pool_give(rp_input_pool *pool, uint8_t *bytes, uint32_t capacity, int64_t now_ns);
/* Frees what nobody has taken for UNUSED_NS, or all. */
void rp_input_pool_trim(rp_input_pool *pool, int64_t now_ns, bool all);

#endif
