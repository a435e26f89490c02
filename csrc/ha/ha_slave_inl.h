/* ha_slave_inl.h: the slave's fields, for its files. C only. Private to csrc/ha. */
#ifndef RP_HA_HA_SLAVE_INL_H
#define RP_HA_HA_SLAVE_INL_H

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../base/address.h"
#include "../base/clock_inl.h"
#include "../base/thread.h"
#include "backlog_pipe.h"
#include "dial.h"
#include "ha_slave.h"
#include "overlap.h"
#include "switch_wire.h"

#define RP_HA_OFFSET_SIZE 8
#define RP_HA_INPUT_BYTES 16384

struct rp_ha_slave {
    /* fixed after open */
    rp_ha_slave_options options;
    rp_thread *thread;
    int wake_fd, transfer_fd;
    /* guarded by lock (leaf) */
    pthread_mutex_t lock;
    char wanted_address[RP_ENDPOINT_TEXT_MAX];
    uint64_t wanted_changes;
    pthread_cond_t left;           /* the thread has taken over an address */
    uint64_t left_changes;         /* up to which of the changes nothing of older masters is stored any more */
    rp_ha_slave_stats stats;
    /* slave thread */
    int fd; /* -1: not connected */
    rp_look_ups look_ups;
    char address[RP_ENDPOINT_TEXT_MAX];
    uint64_t followed_changes;     /* wanted_changes, as of the address */
    uint8_t input[RP_HA_INPUT_BYTES];    /* read, but not looked at: [input_at, input_end) */
    uint32_t input_at, input_end;
    rp_backlog_pipe pipe;
    rp_overlap overlap;
    int64_t body_offset;  /* where the next body byte belongs */
    uint32_t body_left;
    uint8_t ack[RP_SWITCH_HELLO_SIZE]; /* or a hello */
    uint32_t ack_size, ack_left; /* of it; bytes that the socket did not take yet */
    uint32_t header_size; /* fixed: of a frame */
    int is_shaking;       /* behind a controller: our epochs have not been compared with the master's */
    int is_diverged;      /* the log has to be cut first, as stats.truncate_to says: until another address is wanted */
    int is_behind;     /* the last frame was a backlog's */
    int is_asked;      /* a heartbeat came: say our offset, moved or not */
    int is_answered;   /* this connection has brought a frame */
    uint32_t waits;    /* heartbeats in a row while bytes are compared: the master has no more of them */
    uint32_t refusals; /* connections in a row that brought nothing new: each doubles the pause before the next */
    int64_t acked_offset;
    uint64_t queues_begun; /* of the log, as told last */
    int64_t last_read_ns, last_write_ns, window_start_ns, retry_ns;
    int64_t told_ns; /* when the log was last told why a connection ended */
    uint64_t window_bytes;
    /* atomics, relaxed: each stands alone */
    atomic_int_fast64_t last_write_ms; /* of the slave thread, for stats */
    atomic_uint report_interval_ms, housekeeping_interval_ms; /* as in the options at first */
    atomic_int stopping;
    atomic_int moves_on; /* written under the lock: who is dialed is wanted no more, or nobody is */
};

static inline int64_t rp_ha_slave_now_ns(const rp_ha_slave *slave) { return rp_clock_monotonic_ns(slave->options.clock); }

static inline void rp_ha_signal_fd(int fd) {
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one); /* fails only when it is readable already */
}

static inline int rp_ha_slave_is_comparing(const rp_ha_slave *slave) { return slave->overlap.at < slave->overlap.end; }

/* Where the master's next byte belongs, and what we vouch for: while the overlap is compared, only what was the same. */
static inline int64_t rp_ha_slave_held_offset(const rp_ha_slave *slave) {
    int64_t damaged_at = rp_commit_log_damaged_at(slave->options.commit_log, NULL);
    if (damaged_at >= 0)
        return damaged_at;
    return rp_ha_slave_is_comparing(slave) ? slave->overlap.at : rp_commit_log_max_offset(slave->options.commit_log);
}

/* ha_slave_receive.c */
/* One read. 1 when the socket may hold more, 0 when it is empty, negative ends the connection. */
int rp_ha_slave_receive_some(rp_ha_slave *slave, rp_error *error);
/* From now on what the master sends is stored. */
void rp_ha_slave_begin_transfer(rp_ha_slave *slave);

/* ha_slave_switch.c: behind a controller */
/* The state while epochs are compared. */
void rp_ha_slave_begin_handshake(rp_ha_slave *slave);
/* The first word, into slave->ack. */
void rp_ha_slave_put_hello(rp_ha_slave *slave);
/* The master's epochs out of the input: 1 when they are compared and the log is cut, so that our offset can be said; 0 when they are not
 * whole yet; RP_E_RANGE when the log has to be cut otherwise; what else ends the connection. */
int rp_ha_slave_take_handshake(rp_ha_slave *slave, rp_error *error);
/* A frame's header of header_size bytes: its offset and size. RP_OK, or what ends the connection. */
int rp_ha_slave_take_frame(rp_ha_slave *slave, const uint8_t *header, int64_t *offset, uint32_t *size, rp_error *error);

#endif
