/* buffer_pool.h: buffers of finished columns, used again for the next ones, also by later batches of the same process.
 *
 * Why      the kernel zeroes and maps the pages of a fresh buffer one by one: for an Arrow batch of 12 MB that costs as much as filling it.
 * Sizes    powers of two from 4 KiB.
 * Threads  any: an exported array is released by whoever held it last.
 * Owns     spare buffers of up to 64 MiB together; what is given back beyond that is freed. The last reference frees the pool.
 */
#ifndef RP_ARROW_BUFFER_POOL_H
#define RP_ARROW_BUFFER_POOL_H

#include <stdint.h>

typedef struct rp_buffer_pool rp_buffer_pool;

/* A pool with one reference; NULL without memory. */
rp_buffer_pool *rp_buffer_pool_create(void);
void rp_buffer_pool_hold(rp_buffer_pool *pool); /* one reference more */
void rp_buffer_pool_drop(rp_buffer_pool *pool); /* one fewer; NULL is fine */

/* A buffer of at least *capacity bytes, whose capacity is stored there; NULL without memory. Its bytes are anything. */
void *rp_buffer_pool_take(rp_buffer_pool *pool, uint64_t *capacity);
/* capacity: what take said. NULL is fine. */
void rp_buffer_pool_give(rp_buffer_pool *pool, void *buffer, uint64_t capacity);

#endif
