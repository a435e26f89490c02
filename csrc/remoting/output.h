/* output.h: bytes waiting for a socket: a chain of pieces, each either a buffer of its own or a range of a mapped file. Internal to
 * csrc/remoting, C only.
 *
 * Threads  a chain belongs to its connection's reactor; a piece made by rp_output_piece_create belongs to its creator until it is
 *          appended.
 * Bounds   the pool keeps POOL_BUFFERS_MAX buffers of standard size and POOL_RANGES_MAX ranges; a chain's bound is its connection's
 *          (server.h).
 */
#ifndef RP_REMOTING_OUTPUT_H
#define RP_REMOTING_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "inbox.h"

typedef struct rp_output_piece {
    rp_inbox_item inbox; /* used while the piece travels from another thread */
    struct rp_output_piece *next;
    const uint8_t *unsent; /* in bytes[], or in the mapped file */
    uint32_t unsent_size;
    uint32_t capacity; /* of bytes[]; 0 for a file range */
    int32_t fd;        /* of a range, -1: send from memory */
    int64_t file_offset;
    void (*release)(void *owner); /* of a range */
    void *owner;
    uint8_t bytes[];
} rp_output_piece;

typedef struct rp_output {
    rp_output_piece *first, *last;
    uint64_t unsent_bytes; /* of all pieces */
} rp_output;

typedef struct rp_output_spares {
    rp_output_piece *first;
    uint32_t count;
} rp_output_spares;

/* Pieces kept for reuse. */
typedef struct rp_output_pool {
    rp_output_spares buffers; /* of standard size */
    rp_output_spares ranges;  /* a pull uses one for each message */
    uint64_t buffer_bytes; /* capacity of the pieces in chains */
} rp_output_pool;

enum rp_flush_result {
    RP_FLUSH_DONE = 0,    /* the chain is empty */
    RP_FLUSH_BLOCKED = 1, /* the socket takes no more now */
    RP_FLUSH_YIELDED = 2, /* the socket would take more, but others shall have their turn */
    RP_FLUSH_BROKEN = 3   /* the connection is gone; *os_errno says why, 0 when a file ended before its range */
};

/* Creates a buffer that belongs to no pool, for other threads. NULL if memory is exhausted. */
rp_output_piece *rp_output_piece_create(size_t capacity);
uint8_t *rp_output_reserve(rp_output *output, rp_output_pool *pool, uint32_t size); /* NULL: no memory */
void rp_output_commit(rp_output *output, uint32_t size);
/* Takes ownership of piece: copies it into the last buffer if it is small and fits, else appends it to the chain. */
void rp_output_append(rp_output *output, rp_output_pool *pool, rp_output_piece *piece);
/* RP_OK, RP_E_NO_MEMORY: nothing queued. */
int rp_output_append_ranges(rp_output *output, rp_output_pool *pool, const rp_file_range *ranges, uint32_t range_count);
/* Writes as much as the socket takes, at most limit (not 0) bytes; *sent: how many were written. */
enum rp_flush_result rp_output_flush(rp_output *output, rp_output_pool *pool, int socket_fd, uint64_t limit, uint64_t *sent, int *os_errno);
/* Removes `sent` bytes from the front and frees the pieces that are used up, empty ones too. */
void rp_output_consume(rp_output *output, rp_output_pool *pool, uint64_t sent);
/* Drops everything unsent, releasing ranges. */
void rp_output_drop(rp_output *output, rp_output_pool *pool);
void rp_output_pool_free(rp_output_pool *pool);

#endif
