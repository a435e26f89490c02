/* input_pool.h: keeps buffers of large frames for reuse: malloc maps memory anew for each frame of 1 MB, which costs as much in page
 * faults as copying the frame. Internal to csrc/remoting, C only.
 *
 * Threads  belongs to a reactor.
 * Bounds   at most 8 buffers and 8 MB; none is kept for longer than 10 s after the last use, or once there are no connections (both are
 *          checked at a turn's end).
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

/* Takes a buffer of at least size bytes, which then belongs to the caller, and its capacity; NULL if there is none. */
uint8_t *rp_input_pool_take(rp_input_pool *pool, uint32_t size, uint32_t *capacity, int64_t now_ns);
/* Keeps a buffer that malloc allocated, or frees it. NULL is allowed. */
void rp_input_pool_give(rp_input_pool *pool, uint8_t *bytes, uint32_t capacity, int64_t now_ns);
/* Frees the buffers that were not used for UNUSED_NS, or all. */
void rp_input_pool_trim(rp_input_pool *pool, int64_t now_ns, bool all);

#endif
