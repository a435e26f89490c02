/* output.c: gathers pieces into one sendmsg, and sends large file ranges by sendfile.
 *
 * A turn of a busy connection is: reserve and commit into one standard buffer, one send, and the buffer returns to the pool. Ranges of
 * at least SENDFILE_BYTES_MIN leave by sendfile, without a copy; smaller ones are cheaper in the same sendmsg as their neighbours.
 * MSG_MORE holds back a header until the range behind it follows.
 */
#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Not a power of two, so that the buffers of many connections do not all map to the same cache sets. */
#define STANDARD_CAPACITY 4000u
#define POOL_BUFFERS_MAX 512u
#define POOL_RANGES_MAX 1024u
#define COPY_BYTES_MAX 1024u /* below this size a copy is cheaper than another piece */
#define PIECES_PER_SEND 64 /* well below IOV_MAX */
#define SENDFILE_BYTES_MIN 131072u /* from this size on it halves the sender's cost: bench/sweeps/sendfile_threshold.c */

rp_output_piece *rp_output_piece_create(size_t capacity) {
    if (capacity > UINT32_MAX) {
        return NULL;
    }
    rp_output_piece *piece = malloc(sizeof *piece + capacity);
    if (piece != NULL) {
        piece->next = NULL;
        piece->unsent = piece->bytes;
        piece->unsent_size = 0;
        piece->capacity = (uint32_t)capacity;
        piece->fd = -1;
        piece->file_offset = 0;
        piece->release = NULL;
        piece->owner = NULL;
    }
    return piece;
}

static rp_output_piece *pop(rp_output_spares *spares) {
    rp_output_piece *piece = spares->first;
    if (piece != NULL) {
        spares->first = piece->next;
        spares->count--;
    }
    return piece;
}

static void push(rp_output_spares *spares, rp_output_piece *piece) {
    piece->next = spares->first;
    spares->first = piece;
    spares->count++;
}

static void chain(rp_output *output, rp_output_piece *piece) {
    piece->next = NULL;
    if (output->last != NULL) {
        output->last->next = piece;
    } else {
        output->first = piece;
    }
    output->last = piece;
}

static rp_output_piece *take_buffer(rp_output_pool *pool) {
    rp_output_piece *piece = pop(&pool->buffers);
    if (piece == NULL) {
        return rp_output_piece_create(STANDARD_CAPACITY);
    }
    piece->unsent = piece->bytes;
    piece->unsent_size = 0;
    return piece;
}

static void free_piece(rp_output_pool *pool, rp_output_piece *piece) {
    pool->buffer_bytes -= piece->capacity;
    if (piece->release != NULL) {
        piece->release(piece->owner);
    }
    if (piece->capacity == 0 && pool->ranges.count < POOL_RANGES_MAX) {
        push(&pool->ranges, piece);
    } else if (piece->capacity == STANDARD_CAPACITY && pool->buffers.count < POOL_BUFFERS_MAX) {
        push(&pool->buffers, piece);
    } else {
        free(piece);
    }
}

/* Returns how many bytes can still be written behind the unsent ones of a buffer. */
static uint32_t room_of(const rp_output_piece *piece) {
    return piece->capacity == 0 ? 0 : piece->capacity - (uint32_t)(piece->unsent - piece->bytes) - piece->unsent_size;
}

uint8_t *rp_output_reserve(rp_output *output, rp_output_pool *pool, uint32_t size) {
    rp_output_piece *last = output->last;
    if (last == NULL || room_of(last) < size) {
        last = size <= STANDARD_CAPACITY ? take_buffer(pool) : rp_output_piece_create(size);
        if (last == NULL) {
            return NULL;
        }
        pool->buffer_bytes += last->capacity;
        chain(output, last);
    }
    return last->bytes + (last->unsent - last->bytes) + last->unsent_size;
}

void rp_output_commit(rp_output *output, uint32_t size) {
    output->last->unsent_size += size;
    output->unsent_bytes += size;
}

void rp_output_append(rp_output *output, rp_output_pool *pool, rp_output_piece *piece) {
    if (piece->unsent_size <= COPY_BYTES_MAX) {
        uint8_t *room = rp_output_reserve(output, pool, piece->unsent_size);
        if (room != NULL) {
            memcpy(room, piece->unsent, piece->unsent_size);
            rp_output_commit(output, piece->unsent_size);
            free(piece);
            return;
        }
    }
    pool->buffer_bytes += piece->capacity;
    output->unsent_bytes += piece->unsent_size;
    chain(output, piece);
}

/* Fills the pool, so that the rest cannot fail. */
static int make_ranges(rp_output_pool *pool, uint32_t count) {
    while (pool->ranges.count < count) {
        rp_output_piece *piece = rp_output_piece_create(0);
        if (piece == NULL) {
            return RP_E_NO_MEMORY;
        }
        push(&pool->ranges, piece);
    }
    return RP_OK;
}

int rp_output_append_ranges(rp_output *output, rp_output_pool *pool, const rp_file_range *ranges, uint32_t range_count) {
    int rc = make_ranges(pool, range_count);
    for (uint32_t index = 0; rc == RP_OK && index < range_count; index++) {
        const rp_file_range *range = &ranges[index];
        rp_output_piece *piece = pop(&pool->ranges);
        piece->unsent = range->address;
        piece->unsent_size = range->size;
        piece->fd = range->fd;
        piece->file_offset = range->file_offset;
        piece->release = range->release;
        piece->owner = range->owner;
        output->unsent_bytes += range->size;
        chain(output, piece);
    }
    return rc;
}

static void free_first(rp_output *output, rp_output_pool *pool) {
    rp_output_piece *piece = output->first;
    output->first = piece->next;
    if (output->first == NULL) {
        output->last = NULL;
    }
    free_piece(pool, piece);
}

void rp_output_consume(rp_output *output, rp_output_pool *pool, uint64_t sent) {
    output->unsent_bytes -= sent;
    while (output->first != NULL) {
        rp_output_piece *piece = output->first;
        if (sent < piece->unsent_size) {
            piece->unsent += sent;
            piece->unsent_size -= (uint32_t)sent;
            piece->file_offset += (int64_t)sent;
            return;
        }
        sent -= piece->unsent_size;
        free_first(output, pool);
    }
}

static int goes_by_sendfile(const rp_output_piece *piece) { return piece->fd >= 0 && piece->unsent_size >= SENDFILE_BYTES_MIN; }

static uint64_t lesser(uint64_t left, uint64_t right) { return left < right ? left : right; }

/* Sends at most limit (not 0) bytes, up to the next sendfile range; *asked is how many were offered. */
static ssize_t send_gathered(const rp_output *output, int socket_fd, uint64_t limit, uint64_t *asked) {
    struct iovec parts[PIECES_PER_SEND];
    size_t count = 0;
    rp_output_piece *piece = output->first;
    *asked = 0;
    for (; piece != NULL && count < PIECES_PER_SEND && *asked < limit && !goes_by_sendfile(piece); piece = piece->next) {
        parts[count].iov_base = (void *)(uintptr_t)piece->unsent;
        parts[count].iov_len = lesser(piece->unsent_size, limit - *asked);
        *asked += parts[count].iov_len;
        count += piece->unsent_size > 0;
    }
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (piece != NULL ? MSG_MORE : 0);
    if (count <= 1) {
        return count == 0 ? 0 : send(socket_fd, parts[0].iov_base, parts[0].iov_len, flags);
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    return sendmsg(socket_fd, &message, flags);
}

enum rp_flush_result rp_output_flush(rp_output *output, rp_output_pool *pool, int socket_fd, uint64_t limit, uint64_t *sent,
                                     int *os_errno) {
    *sent = 0;
    while (output->first != NULL) {
        ssize_t written;
        uint64_t asked;
        if (goes_by_sendfile(output->first)) {
            off_t offset = output->first->file_offset;
            asked = lesser(output->first->unsent_size, limit - *sent);
            written = sendfile(socket_fd, output->first->fd, &offset, asked);
            if (written == 0) {
                *os_errno = 0;
                return RP_FLUSH_BROKEN;
            }
        } else {
            written = send_gathered(output, socket_fd, limit - *sent, &asked);
        }
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            *os_errno = errno;
            return errno == EAGAIN || errno == EWOULDBLOCK ? RP_FLUSH_BLOCKED : RP_FLUSH_BROKEN;
        }
        *sent += (uint64_t)written;
        rp_output_consume(output, pool, (uint64_t)written);
        if ((uint64_t)written < asked) {
            return RP_FLUSH_BLOCKED;
        }
        if (*sent >= limit && output->first != NULL) {
            return RP_FLUSH_YIELDED;
        }
    }
    return RP_FLUSH_DONE;
}

void rp_output_drop(rp_output *output, rp_output_pool *pool) {
    while (output->first != NULL) {
        free_first(output, pool);
    }
    output->unsent_bytes = 0;
}

void rp_output_pool_free(rp_output_pool *pool) {
    rp_output_spares *const spares[] = {&pool->buffers, &pool->ranges};
    for (size_t i = 0; i < sizeof spares / sizeof spares[0]; i++) {
        for (rp_output_piece *piece = pop(spares[i]); piece != NULL; piece = pop(spares[i])) {
            free(piece);
        }
    }
}
