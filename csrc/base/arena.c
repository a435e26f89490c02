/* arena.c: a list of blocks, filled front to back.
 *
 * The first block is large enough for a common turn, so that a take is an addition and a comparison. A turn that needs more adds blocks;
 * reset frees what exceeds keep_bytes, so that one large turn does not hold its memory for ever.
 */
#include "arena.h"

#include <stdalign.h>
#include <stdlib.h>

#define ALIGNMENT 16u
#define BLOCK_BYTES_MIN ((size_t)64 * 1024)

struct block {
    struct block *next;
    size_t size; /* bytes behind this header */
    alignas(ALIGNMENT) uint8_t bytes[];
};

/* Every field belongs to the one owner's thread. */
struct rp_arena {
    struct block *first;   /* blocks in order of use */
    struct block *current; /* the block being filled; NULL before the first take */
    uint8_t *cursor;
    uint8_t *limit;
    size_t keep_bytes; /* fixed after create */
    size_t bytes_max;  /* fixed after create */
    size_t turn_bytes; /* sum of block sizes entered in this turn, at most bytes_max */
};

rp_arena *rp_arena_create(size_t keep_bytes, size_t bytes_max) {
    rp_arena *arena = calloc(1, sizeof *arena);
    if (arena != NULL) {
        arena->keep_bytes = keep_bytes;
        arena->bytes_max = bytes_max;
    }
    return arena;
}

static void free_blocks(struct block *block) {
    while (block != NULL) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
}

void rp_arena_destroy(rp_arena *arena) {
    if (arena != NULL) {
        free_blocks(arena->first);
        free(arena);
    }
}

static void enter_block(rp_arena *arena, struct block *block) {
    arena->current = block;
    arena->cursor = block->bytes;
    arena->limit = block->bytes + block->size;
    arena->turn_bytes += block->size;
}

/* Makes room for size bytes in a kept or new block; NULL past the bound or if memory is out. */
static void *take_from_next_block(rp_arena *arena, size_t size) {
    size_t left = arena->bytes_max - arena->turn_bytes;
    if (size > left) {
        return NULL;
    }
    struct block **link = arena->current != NULL ? &arena->current->next : &arena->first;
    struct block *block = *link;
    if (block == NULL || block->size < size || block->size > left) {
        size_t wanted = size > BLOCK_BYTES_MIN ? size : BLOCK_BYTES_MIN;
        if (wanted < arena->keep_bytes && arena->first == NULL) {
            wanted = arena->keep_bytes;
        }
        wanted = wanted > left ? left & ~(size_t)(ALIGNMENT - 1) : wanted;
        if (wanted < size) {
            return NULL;
        }
        struct block *fresh = malloc(sizeof *fresh + wanted);
        if (fresh == NULL) {
            return NULL;
        }
        fresh->size = wanted;
        fresh->next = block;
        *link = fresh;
        block = fresh;
    }
    enter_block(arena, block);
    void *taken = arena->cursor;
    arena->cursor += size;
    return taken;
}

void *rp_arena_take(rp_arena *arena, size_t size) {
    if (size > arena->bytes_max || size > SIZE_MAX - ALIGNMENT) {
        return NULL;
    }
    size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (size <= (size_t)(arena->limit - arena->cursor) && arena->current != NULL) {
        void *taken = arena->cursor;
        arena->cursor += size;
        return taken;
    }
    return take_from_next_block(arena, size);
}

void rp_arena_give_back(rp_arena *arena, void *end) {
    uint8_t *bytes = arena->current->bytes;
    size_t used = ((size_t)((uint8_t *)end - bytes) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    arena->cursor = bytes + used;
}

void rp_arena_reset(rp_arena *arena) {
    if (arena->current == NULL) {
        return;
    }
    size_t kept = 0, kept_max = arena->keep_bytes > BLOCK_BYTES_MIN ? arena->keep_bytes : BLOCK_BYTES_MIN;
    struct block **link = &arena->first;
    while (*link != NULL && (kept += (*link)->size) <= kept_max) {
        link = &(*link)->next;
    }
    free_blocks(*link);
    *link = NULL;
    arena->turn_bytes = 0;
    if (arena->first != NULL) {
        enter_block(arena, arena->first);
    } else { /* the first block alone was too large */
        arena->current = NULL;
        arena->cursor = arena->limit = NULL;
    }
}
