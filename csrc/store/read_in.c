/* read_in.c: see read_in.h. */
#include "read_in.h"

#include <sched.h>

#define PAGE_SIZE 4096u
#define PIECE_BYTES ((size_t)128 * 1024)

static size_t piece_at(size_t at, size_t size) { return size - at < PIECE_BYTES ? size - at : PIECE_BYTES; }

/* All pieces are asked for before the first is waited for: the disk's queue is full. */
static void ask(const rp_file_ops *ops, uint8_t *address, size_t size) {
    for (size_t at = 0; at < size; at += PIECE_BYTES) {
        ops->read_ahead(ops->context, address + at, piece_at(at, size), RP_READ_ASK);
        sched_yield();
    }
}

/* Reads `bytes` of every `step`. */
static void read_steps(const rp_file_ops *ops, size_t size, int fd, int64_t file_offset, size_t step, size_t bytes) {
    uint8_t unused[PAGE_SIZE];
    for (size_t at = 0; at < size; at += step) {
        ops->read_at(ops->context, fd, unused, bytes, file_offset + (int64_t)at);
        if (at % PIECE_BYTES == 0) {
            sched_yield();
        }
    }
}

void rp_read_in(const rp_file_ops *ops, const uint8_t *address, size_t size, int fd, int64_t file_offset) {
    uint8_t *start = (uint8_t *)(uintptr_t)address;
    ask(ops, start, size);
    int is_there = ops->read_ahead(ops->context, start, size, RP_READ_WAIT) == 0;
    if (fd >= 0) {
        /* A virtual machine's host gives a page when a processor first touches it, not when the disk has filled it: 3 to 13 us each for
         * whoever copies them. When waiting failed (before Linux 5.14, or the disk does) they are read. */
        read_steps(ops, size, fd, file_offset, PAGE_SIZE, is_there ? 1 : PAGE_SIZE);
    }
}
