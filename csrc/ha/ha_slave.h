/* ha_slave.h: follows one master: receives its commit log straight into ours and reports how far it got.
 * RocketMQ: DefaultHAClient (5.3.3 store/ha/). Frames: ha_master.h.
 *
 * States   READY (no address, waiting to reconnect, or the master's log not proved to be ours yet) → TRANSFER → READY on any error,
 *          after reconnect_ms; → SHUTDOWN.
 * Data     a frame's bytes are received into the mapped file and published as they come; the ack follows every burst of reads. A frame
 *          whose offset is not our max offset (unless we are empty) ends the connection: the stores have diverged or the master jumped;
 *          the log line gives both offsets. A connection begins with our last bytes (overlap.h): if the master's differ, it ends, and
 *          nothing behind them is stored or acknowledged.
 *
 * Signals  transfer_fd, an eventfd, is written each time a connection enters TRANSFER (the master has our log, so what is copied beside
 *          it may be copied), and when the first message of a queue has arrived, perhaps of a topic created since that was last copied.
 *
 * Switched behind a controller (options.epochs) the protocol is that of switch_wire.h: READY → HANDSHAKE → TRANSFER. The master's epochs
 * say up to where its log and ours are the same. What we have behind that and have not dispatched is cut off, cleared and synced, before
 * our first report. If some of it was dispatched, the state is TRUNCATE, and rp_message_store_cut_at_open has it cut at the next start,
 * with everything derived from it.
 *
 * Threads  one ("ha-slave") owns the socket and is the log's only writer while it runs. set_master and reads: any thread.
 * Owns     its thread and socket. Borrows the store's commit log.
 */
#ifndef RP_HA_HA_SLAVE_H
#define RP_HA_HA_SLAVE_H

#include <stdint.h>

#include "../base/address.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../store/commit_log.h"
#include "epoch_cache.h"

typedef struct rp_ha_slave rp_ha_slave;

enum rp_ha_slave_state {
    RP_HA_SLAVE_READY = 0,
    RP_HA_SLAVE_TRANSFER = 1,
    RP_HA_SLAVE_SHUTDOWN = 2,
    RP_HA_SLAVE_HANDSHAKE = 3, /* this and the next only behind a controller */
    RP_HA_SLAVE_TRUNCATE = 4   /* lasts, without connections, until another master is set */
};

typedef struct rp_ha_slave_options {
    rp_commit_log *commit_log;
    uint32_t report_interval_ms;       /* haSendHeartbeatInterval 5,000: our offset is reported at least this often */
    uint32_t housekeeping_interval_ms; /* haHousekeepingInterval 20,000: a connection without bytes for this long is dropped */
    /* Default 1,000; up to 16 times longer while a master refuses us or has another log than ours; a new address is tried at once. */
    uint32_t reconnect_ms;
    uint32_t connect_timeout_ms;       /* default 3,000 */
    const rp_clock *clock;
    rp_log *log;
    rp_epoch_cache *epochs; /* behind a controller; borrowed, closed after the slave. NULL, the default: no controller */
    int64_t broker_id;      /* as the controller gave it */
    int32_t from_last_file; /* syncFromLastFile: an empty slave begins with its master's last file instead of its first */
    int32_t is_learner;     /* asyncLearner */
} rp_ha_slave_options;

void rp_ha_slave_options_default(rp_ha_slave_options *options);
int rp_ha_slave_open(const rp_ha_slave_options *options, rp_ha_slave **slave, rp_error *error);
void rp_ha_slave_close(rp_ha_slave *slave); /* joins the thread */
/* Sets the "host:port" of the master's HA listener; NULL or "" for none. A change closes the old connection, and the state is READY when
 * this returns. RP_OK, RP_E_INVALID. */
int rp_ha_slave_set_master(rp_ha_slave *slave, const char *address);
/* As rp_ha_slave_set_master with none; in addition, when this returns nothing of the old master will be stored any more. Waits for what is
 * under way: at most for a connect (connect_timeout_ms). */
void rp_ha_slave_let_go(rp_ha_slave *slave);
/* Changes report_interval_ms and housekeeping_interval_ms from now on. RP_OK, RP_E_INVALID. Any thread. */
int rp_ha_slave_set_intervals(rp_ha_slave *slave, uint32_t report_interval_ms, uint32_t housekeeping_interval_ms);
/* An eventfd that becomes readable when a transfer or a queue begins, until the caller reads it. Non-blocking; the slave owns it until
 * close. Any thread. */
int rp_ha_slave_transfer_fd(const rp_ha_slave *slave);

typedef struct rp_ha_slave_stats {
    int32_t state;               /* rp_ha_slave_state */
    char master_address[RP_ENDPOINT_TEXT_MAX];
    uint64_t connects, disconnects, frames_received, bytes_received, bytes_per_second;
    int64_t max_offset;          /* where our log ends: what we report */
    int64_t master_offset;       /* end of the last frame announced: the master's max as far as we know; -1 before the first */
    int64_t last_read_ms;        /* wall clock; 0 before the first read */
    int64_t last_write_ms;       /* likewise, of our reports */
    int64_t confirm_offset;      /* behind a controller: as the master last said, at most our end; -1 before */
    int64_t truncate_to;         /* where the log has to be cut; -1 unless the state is TRUNCATE */
    char last_error[160];        /* why the last connection ended; "" if none did */
} rp_ha_slave_stats;
void rp_ha_slave_read_stats(rp_ha_slave *slave, rp_ha_slave_stats *stats);

#endif
