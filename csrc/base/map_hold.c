/* map_hold.c: see map_hold.h. */
#include "map_hold.h"

#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/vfs.h>

#define PAGE_SIZE 4096 /* on a kernel with larger pages each part of a page is held separately, which is also correct */

/* The stores of a thread that is in rp_map_hold or rp_map_store. The thread has touched its copy before it can fault, so the handler
 * allocates none. The compiler's own jump saves three words, libc's eight and a mask: 7 ns against 26. */
static _Thread_local struct {
    uint8_t *volatile at; /* NULL: no store is under way */
    uint8_t *start;
    size_t size; /* size of the range stored to, from `at` on */
    void *leave[5];
} hold;

bool rp_map_hold_is_needed(int fd) {
    struct statfs found;
    return fstatfs(fd, &found) != 0 || (found.f_type != EXT4_SUPER_MAGIC && found.f_type != TMPFS_MAGIC);
}

/* No local may live across the jump, so the loop has a frame of its own. */
static __attribute__((noinline)) void store_to_each(uint8_t *start, size_t size) {
    for (uint8_t *at = start; at < start + size; at += PAGE_SIZE - (uintptr_t)at % PAGE_SIZE) {
        _Atomic uint8_t *byte = (_Atomic uint8_t *)at;
        hold.at = at;
        atomic_signal_fence(memory_order_seq_cst);
        atomic_store_explicit(byte, atomic_load_explicit(byte, memory_order_relaxed), memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    }
}

/* The jump leaves the handler, and the kernel blocks its signal until it returns: while blocked, the next fault would end the process. */
static void unblock_faults(void) {
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

size_t rp_map_hold(void *address, size_t size) {
    hold.start = address;
    hold.size = 1;
    if (__builtin_setjmp(hold.leave) != 0) {
        size_t failed = (size_t)(hold.at - hold.start);
        hold.at = NULL;
        unblock_faults();
        return failed;
    }
    store_to_each(address, size);
    hold.at = NULL;
    return size;
}

static __attribute__((noinline)) void call(void (*store)(void *context), void *context) { store(context); }

bool rp_map_store(void *address, size_t size, void (*store)(void *context), void *context) {
    hold.size = size;
    if (__builtin_setjmp(hold.leave) != 0) {
        hold.at = NULL;
        unblock_faults();
        return false;
    }
    hold.at = address;
    atomic_signal_fence(memory_order_seq_cst);
    call(store, context);
    atomic_signal_fence(memory_order_seq_cst);
    hold.at = NULL;
    return true;
}

void rp_map_hold_faulted(const void *address) {
    uintptr_t at = (uintptr_t)hold.at, page = (uintptr_t)address / PAGE_SIZE;
    if (at != 0 && page >= at / PAGE_SIZE && page <= (at + hold.size - 1) / PAGE_SIZE) {
        __builtin_longjmp(hold.leave, 1);
    }
}
