/* ha_connection.h: the master's end of one slave's connection: reads acks, sends log bytes. Private to csrc/ha.
 * RocketMQ: DefaultHAConnection (5.3.3 store/ha/).
 *
 * States   WAITING (no request offset yet) → TRANSFER; the caller closes it on any negative status. Behind a controller the slave first
 *          identifies itself and is told our epochs.
 * Threads  the holder of the master's transfer lock, except for the atomics that rp_ha_connection_read_row reads.
 * Owns     the socket and, while a frame is under way, one pin on a commit log file.
 */
#ifndef RP_HA_HA_CONNECTION_H
#define RP_HA_HA_CONNECTION_H

#include <stdatomic.h>
#include <stdint.h>

#include "ha_master.h"

typedef struct rp_ha_connection rp_ha_connection;

/* Takes over fd (non-blocking, connected). NULL: no memory; then fd still belongs to the caller. */
rp_ha_connection *rp_ha_connection_create(const rp_ha_master_options *options, int fd, const rp_address *address, int64_t now_ns,
                                          int64_t now_ms);
void rp_ha_connection_destroy(rp_ha_connection *connection);
/* Behind a controller, before the first use: sets where to read the confirmed offset that frames carry. */
void rp_ha_connection_tell_confirmed(rp_ha_connection *connection, const atomic_int_fast64_t *confirmed);
/* Returns the slave's broker id; -1 before it has said so. */
int64_t rp_ha_connection_broker_id(const rp_ha_connection *connection);
int rp_ha_connection_fd(const rp_ha_connection *connection);
const char *rp_ha_connection_address(const rp_ha_connection *connection);
int rp_ha_connection_shares_host(const rp_ha_connection *connection, const rp_ha_connection *other);

/* Reads what the socket holds. 1 if the acked offset moved, 0 if not; RP_E_NETWORK if the slave left; RP_E_RANGE for an offset we cannot
 * serve or never wrote (error says which). heard_ns: the earliest time at which it may have arrived; a slave behind a controller counts
 * as caught up from then. */
int rp_ha_connection_receive(rp_ha_connection *connection, int64_t now_ns, int64_t heard_ns, rp_error *error);

/* Sends until the log's end, until the socket is full, or up to turn_bytes. RP_OK, or a negative status that ends the connection. */
int rp_ha_connection_pump(rp_ha_connection *connection, int64_t now_ns, uint64_t turn_bytes, rp_error *error);

/* Makes the next rp_ha_connection_pump send a heartbeat if it has no bytes to send: our slaves answer it with their offset at once. */
void rp_ha_connection_ask(rp_ha_connection *connection);

int rp_ha_connection_wants_write(const rp_ha_connection *connection); /* the socket is full: wait for EPOLLOUT */
int rp_ha_connection_has_work(const rp_ha_connection *connection);    /* bytes wait and the socket takes them */
/* Returns the bytes behind what was sent, including those of a frame under way; INT64_MAX if the socket or flow control holds them back,
 * or the slave has not said where to start. */
int64_t rp_ha_connection_backlog(const rp_ha_connection *connection);
/* Returns when to act next without any event, in monotonic ns: for flow control, heartbeat, housekeeping. */
int64_t rp_ha_connection_deadline(const rp_ha_connection *connection);
/* 1 if it has been silent for longer than the housekeeping interval */
int rp_ha_connection_is_silent(const rp_ha_connection *connection, int64_t now_ns);

int64_t rp_ha_connection_acked(const rp_ha_connection *connection); /* any thread; -1 before the first */
void rp_ha_connection_read_row(const rp_ha_connection *connection, rp_ha_slave_row *row); /* any thread */
uint64_t rp_ha_connection_take_frames(rp_ha_connection *connection);     /* frames sent since the last call */
uint64_t rp_ha_connection_take_heartbeats(rp_ha_connection *connection); /* likewise */
uint64_t rp_ha_connection_take_bytes(rp_ha_connection *connection);      /* likewise, header bytes not counted */

#endif
