/* ring.c: a bounded queue in the manner of Dmitry Vyukov, with one consumer and an eventfd to wake it.
 *
 * Each slot carries a sequence number that says whose turn it is: position = free for the producer of that position,
 * position + 1 = filled, for the consumer. Producers claim a position by compare-and-swap on `tail`.
 *
 * Waking is Dekker's handshake: the consumer writes `sleeping` and then reads the slot, the producer writes the slot and then
 * reads `sleeping`; both in sequentially consistent order, so at least one of them sees the other.
 */
#include "ring.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "error.h"

#define CAPACITY_MAX (1u << 24)
#define CACHE_LINE 64

struct slot {
    _Atomic uint64_t sequence; /* seq_cst on filling: half of the handshake with `sleeping` */
    void *item;                /* guarded by sequence */
};

struct rp_ring {
    alignas(CACHE_LINE) _Atomic uint64_t tail;   /* next position to fill; claimed by producers */
    alignas(CACHE_LINE) _Atomic uint64_t head;   /* next position to take; written by the consumer, read by rp_ring_count */
    alignas(CACHE_LINE) _Atomic uint32_t sleeping; /* 1: a producer must write the eventfd; seq_cst, see above */
    _Atomic uint64_t signals;                    /* writes to the eventfd, each counted before it is made */
    uint64_t signals_read;                       /* consumer's: how many of them it has read; equal to signals: nothing to read */
    uint64_t mask;                               /* fixed after create */
    int event_fd;                                /* fixed after create */
    struct slot *slots;                          /* fixed after create */
};

int rp_ring_create(uint32_t capacity, rp_ring **ring_out) {
    if (capacity == 0 || capacity > CAPACITY_MAX) {
        return RP_E_INVALID;
    }
    uint64_t rounded = 2;
    while (rounded < capacity) {
        rounded *= 2;
    }
    rp_ring *ring = aligned_alloc(CACHE_LINE, sizeof *ring);
    struct slot *slots = calloc(rounded, sizeof *slots);
    if (ring == NULL || slots == NULL) {
        free(slots);
        free(ring);
        return RP_E_NO_MEMORY;
    }
    int event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (event_fd < 0) {
        free(slots);
        free(ring);
        return RP_E_IO;
    }
    for (uint64_t position = 0; position < rounded; position++) {
        atomic_init(&slots[position].sequence, position);
    }
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->head, 0);
    /* A consumer that has not run yet counts as asleep, so that the first put signals. */
    atomic_init(&ring->sleeping, 1);
    atomic_init(&ring->signals, 0);
    ring->signals_read = 0;
    ring->mask = rounded - 1;
    ring->event_fd = event_fd;
    ring->slots = slots;
    *ring_out = ring;
    return RP_OK;
}

void rp_ring_destroy(rp_ring *ring) {
    if (ring != NULL) {
        close(ring->event_fd);
        free(ring->slots);
        free(ring);
    }
}

void rp_ring_wake(rp_ring *ring) {
    const uint64_t one = 1;
    ssize_t written;
    /* Counted first: the write may wake the consumer on this very core, in our place. If the count came later, it would leave the
     * consumer with a readable eventfd that it does not read, turning without rest until we run again. */
    atomic_fetch_add_explicit(&ring->signals, 1, memory_order_release);
    do {
        written = write(ring->event_fd, &one, sizeof one);
    } while (written < 0 && errno == EINTR); /* EAGAIN: the counter is at its maximum, so the fd is readable already */
}

int rp_ring_put(rp_ring *ring, void *item) {
    uint64_t position = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    struct slot *slot;
    for (;;) {
        slot = &ring->slots[position & ring->mask];
        uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
        if (sequence == position) {
            if (atomic_compare_exchange_weak_explicit(&ring->tail, &position, position + 1, memory_order_relaxed, memory_order_relaxed)) {
                break;
            }
        } else if ((int64_t)(sequence - position) < 0) {
            return RP_E_BUSY;
        } else {
            position = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        }
    }
    slot->item = item;
    atomic_store_explicit(&slot->sequence, position + 1, memory_order_seq_cst);
    if (atomic_load_explicit(&ring->sleeping, memory_order_seq_cst) != 0 &&
        atomic_exchange_explicit(&ring->sleeping, 0, memory_order_seq_cst) != 0) {
        rp_ring_wake(ring);
    }
    return RP_OK;
}

uint32_t rp_ring_take(rp_ring *ring, void **items, uint32_t items_max) {
    uint64_t position = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t taken = 0;
    while (taken < items_max) {
        struct slot *slot = &ring->slots[position & ring->mask];
        if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != position + 1) {
            break;
        }
        items[taken++] = slot->item;
        atomic_store_explicit(&slot->sequence, position + ring->mask + 1, memory_order_release);
        position++;
    }
    if (taken > 0) {
        atomic_store_explicit(&ring->head, position, memory_order_relaxed);
    }
    return taken;
}

int rp_ring_prepare_sleep(rp_ring *ring) {
    if (atomic_load_explicit(&ring->signals, memory_order_acquire) != ring->signals_read) {
        uint64_t count;
        ssize_t got;
        do {
            got = read(ring->event_fd, &count, sizeof count);
        } while (got < 0 && errno == EINTR);
        if (got == (ssize_t)sizeof count) { /* otherwise the write is still to come, and will be read then */
            ring->signals_read += count;
        }
    }
    atomic_store_explicit(&ring->sleeping, 1, memory_order_seq_cst);
    uint64_t position = atomic_load_explicit(&ring->head, memory_order_relaxed);
    struct slot *slot = &ring->slots[position & ring->mask];
    if (atomic_load_explicit(&slot->sequence, memory_order_seq_cst) == position + 1) {
        atomic_store_explicit(&ring->sleeping, 0, memory_order_relaxed);
        return 0;
    }
    return 1;
}

void rp_ring_finish_sleep(rp_ring *ring) { atomic_store_explicit(&ring->sleeping, 0, memory_order_relaxed); }

int rp_ring_event_fd(const rp_ring *ring) { return ring->event_fd; }

uint32_t rp_ring_count(const rp_ring *ring) {
    /* head first: tail never falls behind it, so the difference is not negative. */
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    uint64_t count = tail - head;
    return count > ring->mask + 1 ? (uint32_t)(ring->mask + 1) : (uint32_t)count;
}
