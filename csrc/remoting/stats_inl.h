/* stats_inl.h: adds to a counter that one thread writes and any thread reads, without a locked instruction. C only; internal to
 * csrc/remoting. */
#ifndef RP_REMOTING_STATS_INL_H
#define RP_REMOTING_STATS_INL_H

#include <stdatomic.h>
#include <stdint.h>

static inline void rp_count(_Atomic uint64_t *figure, uint64_t more) {
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + more, memory_order_relaxed);
}

#endif
