/* read_in.c: see read_in.h. */
#include "read_in.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "../base/clock_inl.h"

#define PAGE_SIZE 4096u /* on a kernel with larger pages each is touched more than once */
#define PIECE_BYTES ((size_t)128 * 1024)
#define HOLD_NS INT64_C(500000) /* how long the thread uses a core before it yields */

static int64_t used_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * RP_NS_PER_S + used.tv_nsec;
}

static void give_way(int64_t *held_since_ns) {
    if (used_ns() - *held_since_ns >= HOLD_NS) {
        sched_yield();
        *held_since_ns = used_ns();
    }
}

static size_t piece_at(size_t at, size_t size) { return size - at < PIECE_BYTES ? size - at : PIECE_BYTES; }

/* Requests all pieces before waiting for the first, which keeps the disk's queue full. */
static void ask(const rp_file_ops *ops, uint8_t *address, size_t size, int64_t *held_since_ns) {
    for (size_t at = 0; at < size; at += PIECE_BYTES) {
        ops->read_ahead(ops->context, address + at, piece_at(at, size), RP_READ_ASK);
        give_way(held_since_ns);
    }
}

/* Touches each page: the host of a virtual machine provides memory when a processor first touches it, not when the disk fills it, which
 * would cost the thread that copies the pages later 3 to 13 µs each. Each touch is a read() of one byte, because a load from a page that
 * the disk cannot read would end the process. */
static void read_pages(const rp_file_ops *ops, size_t size, int fd, int64_t file_offset, size_t bytes, int64_t *held_since_ns) {
    uint8_t unused[PAGE_SIZE];
    for (size_t at = 0; at < size; at += PAGE_SIZE) {
        ops->read_at(ops->context, fd, unused, bytes, file_offset + (int64_t)at);
        if (at % PIECE_BYTES == 0) {
            give_way(held_since_ns);
        }
    }
}

/* Touches each page by a load, as the reactor would otherwise have to. */
static void load_pages(const uint8_t *address, size_t size) {
    for (size_t at = 0; at < size; at += PAGE_SIZE) {
        (void)*(const volatile uint8_t *)(address + at);
    }
}

void rp_read_in(const rp_file_ops *ops, const uint8_t *address, size_t size, int fd, int64_t file_offset) {
    uint8_t *start = (uint8_t *)(uintptr_t)address;
    int64_t held_since_ns = used_ns();
    ask(ops, start, size, &held_since_ns);
    errno = 0;
    int is_there = ops->read_ahead(ops->context, start, size, RP_READ_WAIT) == 0;
    if (fd >= 0) {
        read_pages(ops, size, fd, file_offset, is_there ? 1 : PAGE_SIZE, &held_since_ns);
    } else if (!is_there && errno == EINVAL) { /* before Linux 5.14; any other error is the disk's */
        load_pages(address, size);
    }
}
