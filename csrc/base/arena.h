/* arena.h: memory for one reactor turn: allocated forward, reset at the turn's end.
 *
 * Threads  one owner. Bounds: bytes_max per turn, then NULL. Between turns blocks are kept up to keep_bytes, or 64 KiB if that is more.
 */
#ifndef RP_BASE_ARENA_H
#define RP_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct rp_arena rp_arena;

rp_arena *rp_arena_create(size_t keep_bytes, size_t bytes_max); /* NULL: no memory */
void rp_arena_destroy(rp_arena *arena);
void *rp_arena_take(rp_arena *arena, size_t size); /* 16-byte aligned, until the next reset; NULL past bytes_max */
/* Gives back the bytes of the latest take from `end` on; they may be taken again. */
void rp_arena_give_back(rp_arena *arena, void *end);
void rp_arena_reset(rp_arena *arena);

#endif
