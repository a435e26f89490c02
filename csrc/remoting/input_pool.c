/* input_pool.c: see input_pool.h. */
#include "input_pool.h"

#include <stddef.h>
#include <stdlib.h>

#define SPARE_MIN (128u * 1024) /* for smaller buffers malloc itself keeps the pages */
#define SPARE_BYTES_MAX (8u * 1024 * 1024)
#define UNUSED_NS INT64_C(10000000000)

uint8_t *rp_input_pool_take(rp_input_pool *pool, uint32_t size, uint32_t *capacity, int64_t now_ns) {
    rp_input_spare *found = NULL;
    for (uint32_t i = 0; i < pool->count; i++) {
        rp_input_spare *spare = &pool->spares[i];
        if (spare->capacity >= size && (found == NULL || spare->capacity < found->capacity)) {
            found = spare;
        }
    }
    if (found == NULL || size < SPARE_MIN) {
        return NULL;
    }
    uint8_t *bytes = found->bytes;
    *capacity = found->capacity;
    pool->bytes -= found->capacity;
    pool->taken_ns = now_ns;
    *found = pool->spares[--pool->count];
    return bytes;
}

void rp_input_pool_give(rp_input_pool *pool, uint8_t *bytes, uint32_t capacity, int64_t now_ns) {
    if (bytes == NULL || capacity < SPARE_MIN || pool->count == RP_INPUT_SPARES_MAX || pool->bytes + capacity > SPARE_BYTES_MAX) {
        free(bytes);
        return;
    }
    pool->taken_ns = pool->count == 0 ? now_ns : pool->taken_ns;
    pool->spares[pool->count++] = (rp_input_spare){bytes, capacity};
    pool->bytes += capacity;
}

void rp_input_pool_trim(rp_input_pool *pool, int64_t now_ns, bool all) {
    if (pool->count == 0 || (!all && now_ns - pool->taken_ns < UNUSED_NS)) {
        return;
    }
    for (uint32_t i = 0; i < pool->count; i++) {
        free(pool->spares[i].bytes);
    }
    pool->count = 0;
    pool->bytes = 0;
}
