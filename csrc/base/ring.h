/* ring.h: bounded queue of pointers, many producers, one consumer, woken through an eventfd.
 *
 * The eventfd is written only when the consumer has said it is about to sleep, so a busy consumer costs no system call.
 *
 * Threads  put from any thread; take, prepare_sleep and destroy from the consumer's thread only.
 * Owns     the slots and the eventfd. Does not own what the pointers point to.
 * Bounds   capacity (rounded up to a power of two); put past it returns RP_E_BUSY and changes nothing.
 */
#ifndef RP_BASE_RING_H
#define RP_BASE_RING_H

#include <stdint.h>

typedef struct rp_ring rp_ring;

int rp_ring_create(uint32_t capacity, rp_ring **ring); /* RP_OK, RP_E_NO_MEMORY, RP_E_IO (eventfd) */
void rp_ring_destroy(rp_ring *ring);
int rp_ring_put(rp_ring *ring, void *item);                        /* RP_OK, RP_E_BUSY */
uint32_t rp_ring_take(rp_ring *ring, void **items, uint32_t items_max); /* how many were taken, 0 when empty */
/* Called before waiting on rp_ring_event_fd: returns 1 if the ring is empty and producers will signal from now on, 0 if something is
 * there already (take again before sleeping). Clears the eventfd. */
int rp_ring_prepare_sleep(rp_ring *ring);
/* Called when the consumer is awake again: producers need not signal until the next prepare_sleep. Optional; saves them system calls. */
void rp_ring_finish_sleep(rp_ring *ring);
int rp_ring_event_fd(const rp_ring *ring);
/* Makes the eventfd readable without putting anything; any thread. */
void rp_ring_wake(rp_ring *ring);
uint32_t rp_ring_count(const rp_ring *ring); /* a snapshot */

#endif
