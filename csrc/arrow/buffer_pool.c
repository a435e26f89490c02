/* buffer_pool.c: see buffer_pool.h. One list of spares for each power of two, linked through the spare buffers themselves. */
#include "buffer_pool.h"

#include <pthread.h>
#include <stdlib.h>

#define CLASS_MIN 12 /* 4 KiB */
#define CLASSES 64
#define SPARE_BYTES_MAX (UINT64_C(64) << 20)

typedef struct spare {
    struct spare *next;
} spare;

struct rp_buffer_pool {
    pthread_mutex_t lock;
    uint64_t references;    /* guarded by lock */
    uint64_t spare_bytes;   /* guarded by lock */
    spare *spares[CLASSES]; /* guarded by lock; list i holds buffers of 2^i bytes */
};

static int class_of(uint64_t capacity) {
    int class = CLASS_MIN;
    while (class < CLASSES - 1 && UINT64_C(1) << class < capacity)
        class++;
    return class;
}

rp_buffer_pool *rp_buffer_pool_create(void) {
    rp_buffer_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        free(pool);
        return NULL;
    }
    pool->references = 1;
    return pool;
}

void rp_buffer_pool_hold(rp_buffer_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->references++;
    pthread_mutex_unlock(&pool->lock);
}

void rp_buffer_pool_drop(rp_buffer_pool *pool) {
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    uint64_t left = --pool->references;
    pthread_mutex_unlock(&pool->lock);
    if (left > 0)
        return;
    for (int class = 0; class < CLASSES; class++) {
        for (spare *each = pool->spares[class], *next; each != NULL; each = next) {
            next = each->next;
            free(each);
        }
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void *rp_buffer_pool_take(rp_buffer_pool *pool, uint64_t *capacity) {
    int class = class_of(*capacity);
    uint64_t size = UINT64_C(1) << class;
    if (size < *capacity)
        return NULL;
    pthread_mutex_lock(&pool->lock);
    spare *found = pool->spares[class];
    if (found != NULL) {
        pool->spares[class] = found->next;
        pool->spare_bytes -= size;
    }
    pthread_mutex_unlock(&pool->lock);
    *capacity = size;
    return found != NULL ? (void *)found : malloc(size);
}

void rp_buffer_pool_give(rp_buffer_pool *pool, void *buffer, uint64_t capacity) {
    if (buffer == NULL)
        return;
    int class = class_of(capacity);
    pthread_mutex_lock(&pool->lock);
    int is_kept = pool->spare_bytes + capacity <= SPARE_BYTES_MAX;
    if (is_kept) {
        spare *each = buffer;
        each->next = pool->spares[class];
        pool->spares[class] = each;
        pool->spare_bytes += capacity;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!is_kept)
        free(buffer);
}
