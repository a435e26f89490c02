/* ha_master_inl.h: the master's fields, for its files. C only. Private to csrc/ha. */
#ifndef RP_HA_HA_MASTER_INL_H
#define RP_HA_HA_MASTER_INL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "../base/thread.h"
#include "ha_connection.h"
#include "ha_switch.h"

#define RP_HA_REST_NS (1000 * RP_NS_PER_MS)
#define RP_HA_LATE_NS (1000 * RP_NS_PER_MS) /* how late a wait may return on a busy machine */

struct rp_ha_master {
    /* Fixed after open, except what limit_flow and set_pace change, which transfer_lock guards. */
    rp_ha_master_options options;
    char bind_address[RP_ADDRESS_TEXT_MAX];
    int epoll_fd, listen_fd, wake_fd;
    uint16_t port;
    rp_thread *thread;
    pthread_mutex_t transfer_lock; /* everything that connections send and receive */
    pthread_mutex_t table_lock;
    /* Held from counting acks until their callback has returned: otherwise a later report could carry an older offset. */
    pthread_mutex_t tell_lock;
    pthread_mutex_t set_lock; /* leaf: guards who is in sync */
    int64_t settled; /* the largest offset that was reported as acknowledged, -1 at first; guarded by tell_lock */
    char last_drop[sizeof((rp_ha_master_stats *)0)->last_drop]; /* guarded by table_lock */
    /* Written by the ha thread under both locks, so a reader needs either. */
    rp_ha_connection *slots[RP_HA_SLAVES_MAX];
    /* Owned by the ha thread. */
    uint32_t slot_events[RP_HA_SLAVES_MAX]; /* what epoll watches for the slot */
    int64_t listen_again_ns;                /* the listener pauses until then; INT64_MAX: it does not */
    int64_t told_since_ns;                  /* log lines about connections are counted for a second from then on */
    uint32_t told, untold;                  /* lines written, and lines suppressed */
    /* Atomics: acked is stored with release after the ack was read, -1 if the slot is free; read by reactors. */
    atomic_int_fast64_t acked[RP_HA_SLAVES_MAX];
    atomic_uint slaves_required, slaves_min;
    atomic_int_fast64_t fewer_gap_bytes;
    /* Used behind a controller; without one, the master always leads. */
    int set_fd;                 /* fixed after open; -1: no controller */
    rp_sync_state_set set;      /* guarded by set_lock */
    int is_told[RP_HA_SLAVES_MAX]; /* guarded by set_lock: set_fd was signalled for the slot since the last change of the set */
    /* Owned by the thread that calls lead: the epoch that this process led last. If it leads the same epoch again, the epoch keeps its
     * begin. An epoch of an earlier run begins anew, because the end of its log may have been lost. */
    int64_t led_epoch;
    int64_t lead_from; /* guarded by set_lock: where the epoch begins */
    atomic_int is_leading; /* written under transfer_lock */
    atomic_int_fast64_t ids[RP_HA_SLAVES_MAX]; /* of the slaves, -1: none, or not known yet; stored with release before acked */
    atomic_int_fast64_t confirmed; /* INT64_MAX: the log's end, wherever that is; released under set_lock */
    atomic_int has_slaves, sleeping, pending; /* sequentially consistent: see the head of ha_master.c */
    atomic_int stopping;
    struct {
        atomic_uint_fast64_t accepted, refused, dropped_bad_ack, dropped_silent, dropped_other, frames, heartbeats, bytes, acks;
    } counters; /* relaxed: statistics only */
};

static inline void rp_ha_count(atomic_uint_fast64_t *counter, uint64_t more) {
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}
static inline uint64_t rp_ha_figure(const atomic_uint_fast64_t *counter) { return atomic_load_explicit(counter, memory_order_relaxed); }

static inline int rp_ha_watch(rp_ha_master *master, int operation, int fd, uint32_t events, uint64_t tag) {
    struct epoll_event event = {.events = events, .data.u64 = tag};
    return epoll_ctl(master->epoll_fd, operation, fd, &event);
}

/* ha_master_slaves.c, ha thread: connecting slaves, their reports, and their leaving. */
void rp_ha_accept_slaves(rp_ha_master *master, int64_t now_ns);
void rp_ha_receive_from_slave(rp_ha_master *master, uint32_t slot, int64_t now_ns, int64_t heard_ns);
void rp_ha_drop_slave(rp_ha_master *master, uint32_t slot, int level, const char *why);
/* Drops the slave for an error of its connection, which decides about the log level and the counter. */
void rp_ha_drop_for(rp_ha_master *master, uint32_t slot, const rp_error *error);
/* Tells the callbacks how far the log is acknowledged and in sync. Called by the ha thread, by open and require, and by ha_switch.c. */
void rp_ha_tell_acked(rp_ha_master *master);

/* ha_switch.c: the SyncStateSet; these do nothing without a controller. */
int rp_ha_switch_open(rp_ha_master *master, rp_error *error);
void rp_ha_switch_close(rp_ha_master *master);
/* Under tell_lock. Behind a controller, replaces both offsets by what on_acked and on_in_sync are to be told. Enters what is confirmed now
 * into the queues, as much as one round takes; 1: there is more. */
int rp_ha_switch_judge(rp_ha_master *master, int64_t *acked, int64_t *in_sync);
/* Called by the ha thread after an ack: checks whether the slave has caught up. */
void rp_ha_switch_look(rp_ha_master *master, uint32_t slot);
/* Marks in the rows which slaves are in the set, and which may be proposed for it. Any thread. */
void rp_ha_switch_mark(rp_ha_master *master, rp_ha_slave_row *rows, uint32_t count);
/* For the ha thread after a slave's connection has ended. */
void rp_ha_switch_miss(rp_ha_master *master, int64_t broker_id);

#endif
