/* protocol.h: a protocol that a server's connections speak instead of RocketMQ's frames: a table of functions that a reactor calls. What
 * comes before its first byte (a balancer's header, TLS) and how output leaves are the same for all.
 *
 *   socket → connection_opening ─ take → protocol ...  fill → output → socket
 *   other threads → rp_server_post → reactor's inbox → on_item
 *
 * Threads  everything here belongs to the reactor's thread, except rp_server_post: any thread.
 * Owns     what `begin` made belongs to the connection, as rp_connection.spoken, until `end` frees it.
 * Bounds   a connection has at most RP_PROTOCOL_AHEAD_BYTES of output ahead of its socket; the protocol holds the rest and reports it by
 *          rp_connection_set_queued: other threads' senders are refused at the connection's bound (output_bytes_max).
 * Internal to csrc/, C only.
 */
#ifndef RP_REMOTING_PROTOCOL_H
#define RP_REMOTING_PROTOCOL_H

#include <stdbool.h>

#include "inbox.h"
#include "server.h"

#define RP_PROTOCOL_AHEAD_BYTES 65536u

enum rp_fill {
    RP_FILL_ALL = 0, /* nothing more is to be sent now */
    RP_FILL_MORE = 1 /* there is more, once the socket has taken this */
};

/* The head of an item that other threads send by rp_server_post and allocate with malloc. */
typedef struct rp_posted {
    rp_inbox_item inbox;
    uint32_t bytes; /* counted against the connection's output bound while it is in the inbox; 0: always admitted */
} rp_posted;

struct rp_protocol {
    void *context;
    const char *alpn; /* what TLS negotiates, such as "h2"; NULL: nothing */
    /* The protocol's first byte has arrived. RP_OK, or the connection is closed. */
    int (*begin)(void *context, rp_connection *connection);
    /* Takes all the bytes, which are valid until the turn ends. RP_OK, or the reason to close the connection; what was written in answer
     * then gets one chance to be sent. */
    int (*take)(void *context, rp_connection *connection, const uint8_t *data, uint32_t size);
    /* Calls rp_connection_put with what is to be sent, until RP_PROTOCOL_AHEAD_BYTES are unsent. */
    enum rp_fill (*fill)(void *context, rp_connection *connection);
    /* Whether more may be read now. Not while too many answers to earlier input cannot be sent. */
    bool (*may_read)(void *context, const rp_connection *connection);
    /* The time that the protocol asked for has come (rp_connection_look_at), or the connection may have been idle for too long. Returns
     * when to look next; INT64_MAX: never. */
    int64_t (*look)(void *context, rp_connection *connection, int64_t now_ns);
    /* connection is NULL when it has ended meanwhile. Frees the item. */
    void (*on_item)(void *context, rp_reactor *reactor, rp_connection *connection, rp_posted *item);
    /* The server stops: what is under way may finish, nothing new begins. */
    void (*drain)(void *context, rp_connection *connection);
    /* Whether something is under way that a stopping server waits for. */
    bool (*is_busy)(void *context, const rp_connection *connection);
    /* The connection ends. Called after on_turn_end, when as much output as possible was sent; frees what `begin` made. */
    void (*end)(void *context, rp_connection *connection);
};

/* Any thread: passes item to the connection's protocol. RP_OK. Otherwise the item stays the caller's: RP_E_CLOSED, or RP_E_BUSY if the
 * connection's bound is reached or the inbox full. */
int rp_server_post(rp_server *server, uint64_t connection_id, rp_posted *item);

/* ---- for protocols, on the reactor's thread ---- */

void *rp_connection_spoken(const rp_connection *connection); /* as set by `begin` */
void rp_connection_set_spoken(rp_connection *connection, void *spoken);
const rp_server_options *rp_connection_options(const rp_connection *connection);
rp_reactor *rp_connection_reactor(const rp_connection *connection);
/* The client's address: that of the socket's other end, or the one that a load balancer there has reported. */
const rp_address *rp_connection_address(const rp_connection *connection);
/* There is something to send: fill is called before the turn ends. */
void rp_connection_want_fill(rp_connection *connection);
uint32_t rp_connection_room(const rp_connection *connection); /* how much more output it may have ahead of its socket */
/* Adds output behind what was put before; only while fill runs. RP_OK, RP_E_NO_MEMORY. */
int rp_connection_put(rp_connection *connection, const uint8_t *bytes, uint32_t size);
/* How many bytes the protocol holds for the other side and has not put yet. */
void rp_connection_set_queued(rp_connection *connection, uint64_t bytes);
/* Has look called at or soon after due_ns, if not earlier. */
void rp_connection_look_at(rp_connection *connection, int64_t due_ns);
/* Accounts memory that the protocol holds for the connection, with the server's buffers (memory_bytes_max); may_hold: may it hold more? */
void rp_connection_account(rp_connection *connection, uint64_t taken, uint64_t given_back);
bool rp_connection_may_hold(const rp_connection *connection, uint64_t more_bytes);
/* Sends a copy of the command to Python. RP_OK; RP_E_BUSY for a call or a message if too many wait or memory is short; RP_E_NO_MEMORY. */
int rp_connection_tell(rp_connection *connection, enum rp_request_kind kind, const rp_command *command, int64_t deadline_ns);
bool rp_connection_is_ending(const rp_connection *connection);
/* Closes it when the turn ends; reason is of static storage. */
void rp_connection_end(rp_connection *connection, const char *reason);

#endif
