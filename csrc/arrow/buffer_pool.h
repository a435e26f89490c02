/* buffer_pool.h: keeps the buffers of exported columns for the next ones, also for later batches of the same process.
 *
 * Why      the kernel zeroes and maps the pages of a fresh buffer one by one: for a batch of 12 MB that costs as much as filling it.
 * Sizes    powers of two from 4 KiB.
 * Threads  any: an exported array is released by whoever held it last.
 * Owns     spare buffers of up to 64 MiB together; further ones that are given back are freed. The last reference frees the pool.
 */
#ifndef RP_ARROW_BUFFER_POOL_H
#define RP_ARROW_BUFFER_POOL_H

#include <stdint.h>

typedef struct rp_buffer_pool rp_buffer_pool;

/* Creates a pool with one reference; NULL: out of memory. */
rp_buffer_pool *rp_buffer_pool_create(void);
void rp_buffer_pool_hold(rp_buffer_pool *pool); /* adds a reference */
void rp_buffer_pool_drop(rp_buffer_pool *pool); /* removes one; NULL is allowed */

/* Returns a buffer of at least *capacity bytes, and sets *capacity to its size; NULL: out of memory. Its bytes are undefined. */
void *rp_buffer_pool_take(rp_buffer_pool *pool, uint64_t *capacity);
/* Gives a buffer back. capacity: as take set it. NULL is allowed. */
void rp_buffer_pool_give(rp_buffer_pool *pool, void *buffer, uint64_t capacity);

#endif
