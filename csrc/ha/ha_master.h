/* ha_master.h: sends the commit log to slaves and counts what they have.
 * RocketMQ: DefaultHAService, DefaultHAConnection, FlowMonitor (5.3.3 store/ha/).
 *
 * master → slave  [8 offset][4 size][size bytes of the log], size 0: heartbeat after 5 s without data
 * slave → master  [8 max offset it holds]; the first one says where to start: 0 means "I am empty", answered from the start of
 *                 the master's last file; anything else must lie in min..max
 *
 *   appender ─ rp_ha_master_notify ─► ha thread ─ header (MSG_MORE) + sendfile of the mapped file ─► slave
 *                                        ▲                                                           │
 *        parked responses ◄─ on_acked ───┴────────────────────── acks ◄──────────────────────────────┘
 *
 * The transfer never stops to wait for an ack: the socket buffer is the window. A frame holds what is there, up to the
 * connection's frame bound, which doubles while a slave takes whole frames at once and halves when the socket fills; it stays
 * below the 4 MB read buffer of a Java slave, and no frame crosses a file end.
 *
 * Threads  one ("ha-master") owns listener and connections; with appenders_send, notifying threads send too. notify from any thread.
 *          Reads of acked offsets: any thread.
 * Owns     its thread and sockets. Borrows the commit log, which must be closed after it.
 * Bounds   slaves_max connections: then a newcomer takes the place of whoever has said nothing for longest, or is refused; lines about
 *          them 20 a second; no queue: what is not sent yet is in the log.
 * Rules    an acked offset above the master's own max, or above what the connection was sent, drops that connection, is counted, and
 *          completes nothing. A connection's first word asks where to start: until its next it counts only for what was settled by then.
 *          So does one whose host has connected again since, until it speaks: a half-open one is no second replica.
 * Switched behind a controller (options.epochs) the words are those of switch_wire.h, slaves have ids, and they are served only between
 *          rp_ha_master_lead and rp_ha_master_step_down (ha_switch.h).
 */
#ifndef RP_HA_HA_MASTER_H
#define RP_HA_HA_MASTER_H

#include <stdint.h>

#include "../base/address.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../store/commit_log.h"
#include "epoch_cache.h"

typedef struct rp_ha_master rp_ha_master;

#define RP_HA_HEADER_SIZE 12
#define RP_HA_SLAVES_MAX 64
#define RP_HA_FRAME_BYTES_MAX 4194292 /* 4 MiB less the header: a Java slave's buffer */

typedef struct rp_ha_master_options {
    rp_commit_log *commit_log;
    uint64_t commit_log_file_size;     /* where an empty slave starts: the last multiple of it */
    const char *bind_address;
    uint16_t port;                     /* haListenPort; 0: any free one */
    uint16_t slaves_max;               /* default 16, at most RP_HA_SLAVES_MAX */
    uint32_t transfer_bytes;           /* haTransferBatchSize 32,768: the frame bound a connection starts with */
    uint32_t transfer_bytes_max;       /* what it may grow to, default 1 MiB, at most RP_HA_FRAME_BYTES_MAX */
    uint32_t heartbeat_interval_ms;    /* haSendHeartbeatInterval 5,000 */
    uint32_t housekeeping_interval_ms; /* haHousekeepingInterval 20,000: a silent slave is dropped */
    int64_t flow_bytes_per_second;     /* maxHaTransferByteInSecond when haFlowControlEnable, else 0: no limit */
    /* 1: appenders send the bytes to slaves that have kept up, which is fastest when answers wait for acks (SYNC_MASTER); 0, the
     * default: the ha thread sends everything, and appenders never wait for a socket's system call */
    int32_t appenders_send;
    const rp_clock *clock;
    rp_log *log;
    uint32_t slaves_required; /* the number of slaves whose acks on_acked reports, default 1; rp_ha_master_require changes it */
    /* Called on the ha thread (or the caller's of rp_ha_master_require) whenever the offset may have moved that slaves_required slaves
     * hold; -1 with fewer slaves. One call at a time; the last one counts. May be NULL. */
    void (*on_acked)(void *context, int64_t acked_offset);
    uint32_t slaves_min; /* as slaves_required, for on_in_sync; 0, the default: not reported */
    void (*on_in_sync)(void *context, int64_t acked_offset);
    /* If not 0, a slave that is this many bytes behind or more is not in sync. With fewer in sync than slaves_required, the acks of those
     * that are suffice, down to slaves_min; with none required on_acked is told INT64_MAX. Checked whenever a slave reports, connects or
     * leaves. 0, the default: always slaves_required. */
    int64_t fewer_gap_bytes;
    void *context; /* of both callbacks */
    /* Used behind a controller; borrowed, closed after the master. NULL, the default: no controller. */
    rp_epoch_cache *epochs;
    int64_t broker_id; /* this broker's id from the controller */
    int32_t all_in_sync_state_set; /* 1: on_acked reports what all of the SyncStateSet hold; 0: what slaves_required slaves do */
} rp_ha_master_options;

void rp_ha_master_options_default(rp_ha_master_options *options);
/* Binds, listens and starts the thread. RP_OK, RP_E_INVALID, RP_E_NETWORK, RP_E_NO_MEMORY. */
int rp_ha_master_open(const rp_ha_master_options *options, rp_ha_master **master, rp_error *error);
/* Drops all slaves and joins the thread. NULL is allowed. */
void rp_ha_master_close(rp_ha_master *master);
uint16_t rp_ha_master_port(const rp_ha_master *master);

/* Tells the master that the log has grown. Without appenders_send: one atomic read while the thread is awake, an eventfd write while it
 * sleeps. With it: a sendmsg to each slave that has kept up, unless another appender is about to send. Never waits for a lock. */
void rp_ha_master_notify(rp_ha_master *master);

/* Changes slaves_required (1..slaves_max), slaves_min (0..slaves_max) and fewer_gap_bytes (0 or more), then calls on_acked and on_in_sync.
 * RP_OK, RP_E_INVALID. */
int rp_ha_master_require(rp_ha_master *master, uint32_t slaves_required, uint32_t slaves_min, int64_t fewer_gap_bytes);

/* Changes flow_bytes_per_second, also for connected slaves; 0: no limit. Any thread; waits for a turn of the transfer to end. */
void rp_ha_master_limit_flow(rp_ha_master *master, int64_t bytes_per_second);

/* Changes transfer_bytes for slaves that connect from now on, and the intervals for connected ones, too. RP_OK, RP_E_INVALID. Any thread;
 * waits for a turn of the transfer to end. */
int rp_ha_master_set_pace(rp_ha_master *master, uint32_t transfer_bytes, uint32_t heartbeat_interval_ms, uint32_t housekeeping_interval_ms,
                          rp_error *error);

/* The offset that at least `slaves` (1..slaves_max) connected slaves hold; -1 with fewer slaves. */
int64_t rp_ha_master_acked_offset(const rp_ha_master *master, uint32_t slaves);

typedef struct rp_ha_slave_row {
    char address[RP_ADDRESS_TEXT_MAX]; /* "ip:port" of the slave's end */
    int64_t request_offset; /* where it asked to start; -1 before it did */
    int64_t acked_offset; /* -1 before the first ack */
    int64_t next_offset; /* where the next frame starts; -1 before the first */
    uint64_t bytes_sent;
    uint64_t bytes_per_second; /* over the last full second */
    int64_t connected_ms; /* wall clock */
    /* behind a controller */
    int64_t broker_id; /* -1 before it was sent, and without a controller */
    int32_t is_learner; /* asks not to be in the SyncStateSet */
    int32_t is_in_set; /* in the set that the controller last reported */
    /* Since the last change of the sets it has held everything confirmed, and bytes of this epoch: it may be proposed. */
    int32_t has_caught_up;
    int64_t caught_up_ms; /* monotonic clock: when it last held everything; 0: never */
} rp_ha_slave_row;
/* Fills up to rows_max rows and returns how many slaves there are. Any thread. */
uint32_t rp_ha_master_read_slaves(rp_ha_master *master, rp_ha_slave_row *rows, uint32_t rows_max);

typedef struct rp_ha_master_stats {
    uint64_t accepted, refused, dropped_bad_ack, dropped_silent, dropped_other, frames_sent, heartbeats_sent, bytes_sent, acks;
    char last_drop[160]; /* why the last connection ended that had said anything or was silent too long; "" if none did */
} rp_ha_master_stats;
void rp_ha_master_read_stats(rp_ha_master *master, rp_ha_master_stats *stats);

#endif
