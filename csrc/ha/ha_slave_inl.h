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
#define RP_HA_HEARD_MAX 16

struct rp_ha_slave {
    /* fixed after open */
    rp_ha_slave_options options;
    rp_thread *thread;
    int wake_fd, transfer_fd;
    /* guarded by lock (leaf) */
    pthread_mutex_t lock;
    char wanted_address[RP_ENDPOINT_TEXT_MAX];
    uint64_t wanted_changes;
    pthread_cond_t left;           /* signalled when the thread has taken over an address */
    uint64_t left_changes;         /* the change up to which nothing of older masters is stored any more */
    rp_ha_slave_stats stats;
    /* Owned by the slave thread. */
    int fd; /* -1: not connected */
    rp_look_ups look_ups;
    char address[RP_ENDPOINT_TEXT_MAX];
    uint64_t followed_changes;     /* wanted_changes when the address was taken over */
    uint8_t input[RP_HA_INPUT_BYTES];    /* read, but not handled: [input_at, input_end) */
    uint32_t input_at, input_end;
    rp_backlog_pipe pipe;
    rp_overlap overlap;
    int64_t body_offset;  /* log offset of the next body byte */
    uint32_t body_left;
    rp_switch_frame frame; /* behind a controller: the last one */
    rp_epoch_entry heard[RP_HA_HEARD_MAX]; /* of this connection's frames, and not believed yet: the last ones */
    uint32_t heard_count;
    uint8_t ack[RP_SWITCH_HELLO_SIZE]; /* an ack, or a hello */
    uint32_t ack_size, ack_left; /* ack_left: bytes that the socket has not taken yet */
    uint32_t header_size; /* fixed: size of a frame's header */
    int is_shaking;       /* behind a controller: our epochs have not been compared with the master's yet */
    int is_diverged;      /* the log has to be cut first, at stats.truncate_to; until another address is set */
    int is_behind;     /* the last frame belonged to a backlog */
    int is_asked;      /* a heartbeat came: report our offset, moved or not */
    int is_answered;   /* this connection has brought a frame */
    uint32_t waits;    /* heartbeats in a row while bytes are compared: the master has no more of them */
    uint32_t refusals; /* connections in a row that brought nothing new: each doubles the pause before the next */
    int64_t acked_offset;
    uint64_t queues_begun; /* of the log, as last reported */
    int64_t last_read_ns, last_write_ns, window_start_ns, retry_ns;
    int64_t told_ns; /* when it was last logged why a connection ended */
    uint64_t window_bytes;
    /* Atomics, relaxed: each independent. */
    atomic_int_fast64_t last_write_ms; /* written by the slave thread, for stats */
    atomic_uint report_interval_ms, housekeeping_interval_ms; /* as in the options at first */
    atomic_int stopping;
    atomic_int moves_on; /* written under the lock: the master being connected to is no longer wanted */
};

static inline int64_t rp_ha_slave_now_ns(const rp_ha_slave *slave) { return rp_clock_monotonic_ns(slave->options.clock); }

static inline void rp_ha_signal_fd(int fd) {
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one); /* fails only if it is readable already */
}

static inline int rp_ha_slave_is_comparing(const rp_ha_slave *slave) { return slave->overlap.at < slave->overlap.end; }

/* Returns where the master's next byte belongs, and what we confirm: while the overlap is compared, only what was the same. */
static inline int64_t rp_ha_slave_held_offset(const rp_ha_slave *slave) {
    int64_t damaged_at = rp_commit_log_damaged_at(slave->options.commit_log, NULL);
    if (damaged_at >= 0)
        return damaged_at;
    return rp_ha_slave_is_comparing(slave) ? slave->overlap.at : rp_commit_log_max_offset(slave->options.commit_log);
}

/* ha_slave_receive.c */
/* Makes one read. 1 if the socket may hold more, 0 if it is empty; negative: end the connection. */
int rp_ha_slave_receive_some(rp_ha_slave *slave, rp_error *error);
/* From now on what the master sends is stored. */
void rp_ha_slave_begin_transfer(rp_ha_slave *slave);

/* ha_slave_switch.c: behind a controller */
/* Sets the state while epochs are compared. */
void rp_ha_slave_begin_handshake(rp_ha_slave *slave);
/* Writes the first message into slave->ack. */
void rp_ha_slave_put_hello(rp_ha_slave *slave);
/* Handles the master's epochs in the input. 1: they are compared and the log is cut, so that our offset can be reported; 0: they are
 * incomplete; RP_E_RANGE: the log has to be cut at the next start; any other: end the connection. */
int rp_ha_slave_take_handshake(rp_ha_slave *slave, rp_error *error);
/* Decodes a frame's header of header_size bytes: offset and size. RP_OK, or why the connection has to end. What the frame says is not
 * believed yet. */
int rp_ha_slave_take_frame(rp_ha_slave *slave, const uint8_t *header, int64_t *offset, uint32_t *size, rp_error *error);
/* Takes over what the frames say of the master's log: their epochs, and how far it is confirmed. Only once our log is known to be the
 * beginning of that: with a foreign master's epoch in our list, the next handshake would find that the two logs are the same. */
int rp_ha_slave_believe_frame(rp_ha_slave *slave, rp_error *error);

#endif
