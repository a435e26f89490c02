/* server.h: the remoting server: a listener, reactor threads, and the ring that carries rare requests up to Python.
 * RocketMQ: NettyRemotingServer (5.3.3 remoting/netty/).
 *
 *   socket → reactor → rp_handler.on_request ─ handled: response written into the connection
 *                                            └ punted: copied into an rp_request → ring → eventfd → Python
 *   Python → rp_server_send / rp_server_resubmit → reactor's inbox → connection
 *
 * Threads  `reactors` threads, each owns its connections. Functions of this header: any thread, unless said otherwise.
 * Owns     threads, sockets, requests in the ring. Borrows the handler's context until rp_server_stop returns.
 * Bounds   connections_max (then accept and close, counted); output_bytes_max per connection (then its socket is not read,
 *          closed after stall_timeout_ms without progress); ring_capacity requests in flight to Python (then SYSTEM_BUSY,
 *          RocketMQ's code 2; oneway dropped and counted). Open and close events are never dropped. memory_bytes_max for what is being
 *          received and sent, and for the state of connections that speak TLS (tls.h); beside it 8 MB a reactor of buffers that were
 *          used in the last seconds (input_pool.h).
 */
#ifndef RP_REMOTING_SERVER_H
#define RP_REMOTING_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "../base/address.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "command.h"

typedef struct rp_server rp_server;
typedef struct rp_reactor rp_reactor;
typedef struct rp_connection rp_connection;
typedef struct rp_protocol rp_protocol; /* what connections speak instead of frames: protocol.h */

enum rp_handled {
    RP_HANDLED = 1, /* answered, parked by the handler, or oneway */
    RP_PUNT = 2     /* not for the fast path: hand it to Python */
};

/* The data plane's hooks; NULL functions are skipped (a NULL on_request punts everything). All run on a reactor's thread. */
typedef struct rp_handler {
    void *context;
    /* A request. The slices of `command` are valid until on_turn_end of this turn has returned, but the struct itself only until
     * on_request returns: the next frame is decoded into it, so copy the slices you need. `connection` is valid until on_turn_end has
     * returned, even if it was closed meanwhile; keep its id for later. Returns rp_handled, or a negative status, which closes the
     * connection with a log line. `resubmitted` is 0, or of rp_server_resubmit: then RP_PUNT is answered with SYSTEM_ERROR. */
    int (*on_request)(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted);
    /* Once in every turn, after all frames of it were handled; responses written now still leave in this turn. */
    void (*on_turn_end)(void *context, rp_reactor *reactor);
    /* Called after any thread's rp_reactor_wake, at most once per turn, before on_turn_end; during rp_reactor_serve on the caller's thread.
     * */
    void (*on_wake)(void *context, rp_reactor *reactor);
    /* The handler's deadline passed; returns the next one in monotonic ns (INT64_MAX: none). Set again by rp_reactor_set_deadline. */
    int64_t (*on_deadline)(void *context, rp_reactor *reactor, int64_t now_ns);
    /* A connection ends; after this turn its id and pointer are invalid. Called after on_turn_end. Write nothing to the connection. */
    void (*on_close)(void *context, rp_reactor *reactor, rp_connection *connection);
    /* After a turn that asked for it by rp_reactor_leave: may block, as another thread turns the reactor meanwhile, or soon. Touches
     * nothing of the reactor's; rp_reactor_serve is allowed. */
    void (*on_leave)(void *context, int64_t leave_for);
    /* A response to a request that the handler wrote; slices and connection as for on_request. RP_HANDLED, or RP_PUNT: it is Python's. */
    int (*on_response)(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command);
} rp_handler;

/* Decides who may ask: sees every request of a client once, before the handler or Python does; responses are not checked. */
typedef struct rp_gate {
    void *context;
    /* Called on the reactor's thread. 0 lets the request through. Otherwise the response code of the refusal, with the reason in *remark,
     * which lives in the reactor's arena or in static storage; oneway requests are dropped. Slices are valid as for on_request. */
    int32_t (*admit)(void *context, rp_reactor *reactor, const rp_address *remote, const rp_command *command, rp_slice *remark);
    /* The same for a request that was admitted, and turns out to be about a message to this topic: whether its user may send there. */
    int32_t (*admit_sender)(void *context, rp_reactor *reactor, const rp_address *remote, const rp_command *command, rp_slice topic,
                            rp_slice *remark);
} rp_gate;

enum rp_tls_mode {
    RP_TLS_DISABLED = 0,   /* whoever begins a TLS handshake is closed */
    RP_TLS_PERMISSIVE = 1, /* the first byte of a connection says whether it speaks TLS */
    RP_TLS_ENFORCING = 2   /* whoever does not is closed */
};

typedef struct rp_server_options {
    const char *bind_address;     /* "0.0.0.0", "127.0.0.1", "::" */
    uint16_t port;                /* 0: any free one, see rp_server_port */
    uint16_t reactors;            /* threads, 1..64 */
    uint32_t frame_size_max;      /* bytes, default RP_FRAME_SIZE_MAX */
    uint32_t connections_max;     /* default 65,536 */
    uint32_t idle_timeout_ms;     /* default 120,000: close a connection without traffic in either direction; 0: never */
    uint32_t stall_timeout_ms;    /* default 30,000: close a connection that does not read its answers; 0: never */
    uint32_t output_bytes_max;    /* per connection, default 8 MiB */
    /* Buffers of all connections together, default 1 GiB; at the bound large frames wait (their sockets are not read). Beyond it one
     * frame per reactor continues, a connection keeps what a first read brought, 128 KiB, and requests for Python are accepted up to
     * frame_size_max of bodies in total */
    uint64_t memory_bytes_max;
    uint32_t ring_capacity;       /* requests waiting for Python, default 10,000 */
    uint32_t spin_us; /* busy poll after answering a client that asks one request at a time, while that pays; default 0 = off */
    uint32_t stand_in_after_us; /* default 500: a thread that has left its reactor for longer is relieved, see rp_reactor_leave */
    uint32_t socket_send_buffer; /* bytes, 0: the kernel's */
    uint32_t socket_receive_buffer;
    uint32_t tls_mode; /* rp_tls_mode, default RP_TLS_DISABLED; see rp_server_load_tls */
    const char *thread_name; /* up to 10 characters, "reactor" */
    const rp_clock *clock; /* NULL: system */
    rp_log *log; /* may be NULL */
} rp_server_options;

void rp_server_options_default(rp_server_options *options);

/* Binds and listens; no thread runs yet. RP_OK; RP_E_INVALID; RP_E_NETWORK (address in use: error says who to look for). */
int rp_server_open(const rp_server_options *options, const rp_handler *handler, rp_server **server, rp_error *error);
/* Sets the gate; NULL lets everybody in. The gate is borrowed until rp_server_stop has returned. RP_OK; RP_E_BUSY after rp_server_start. */
int rp_server_set_gate(rp_server *server, const rp_gate *gate);
/* Sets the protocol that accepted connections speak, borrowed until rp_server_close. RP_OK; RP_E_BUSY after rp_server_start. */
int rp_server_set_protocol(rp_server *server, const rp_protocol *protocol);
/* Connections that begin with HTTP/2 are not refused as bad frames but forwarded to the server at target, and its answers back; a PROXY
 * header tells it who the client is. To be called before rp_server_start and rp_server_load_tls. RP_OK; RP_E_BUSY afterwards, or if a
 * protocol is set. */
int rp_server_pass_http2_on(rp_server *server, const rp_address *target);
int rp_server_start(rp_server *server, rp_error *error);

enum rp_tls_client_auth {
    RP_TLS_CLIENT_NONE = 0, /* clients are not asked for a certificate */
    RP_TLS_CLIENT_OPTIONAL = 1, /* they are asked, and may have none */
    RP_TLS_CLIENT_REQUIRE = 2
};

typedef struct rp_tls_options {
    /* PEM: the server's certificate, then the intermediate ones. NULL: a self-signed one is made, trusted by nobody. */
    const char *certificate_path;
    const char *key_path; /* PEM; NULL with the certificate's */
    const char *key_password; /* NULL: the key has none */
    const char *trust_path; /* PEM: the authorities that sign clients' certificates; NULL: those that the system trusts */
    uint32_t client_auth; /* rp_tls_client_auth */
    uint32_t verifies_clients; /* 0: any client certificate is accepted */
} rp_tls_options;

/* Reads the files. Handshakes that begin from now on use them; existing connections continue. Until the first successful call, clients that
 * begin a handshake are disconnected. Any thread; blocks on files. RP_OK. On an error what was loaded before stays: RP_E_UNSUPPORTED
 * without OpenSSL; RP_E_NOT_FOUND, RP_E_IO for a file that cannot be read; RP_E_INVALID for one with other contents; RP_E_NO_MEMORY. */
int rp_server_load_tls(rp_server *server, const rp_tls_options *options, rp_error *error);
/* Stops accepting and reading, lets output drain for at most drain_ms, closes everything, joins the threads. Idempotent. The CLOSED events
 * of all connections can still be taken afterwards. */
void rp_server_stop(rp_server *server, uint32_t drain_ms);
/* Frees the server, and stops it first if needed. Every rp_request that was taken must have been freed. */
void rp_server_close(rp_server *server);
uint16_t rp_server_port(const rp_server *server);
uint16_t rp_server_reactor_count(const rp_server *server);

/* ---- requests for Python ---- */

enum rp_request_kind {
    RP_REQUEST_COMMAND = 0, /* a request from a client */
    RP_REQUEST_RESPONSE = 1, /* a response to something we sent by rp_server_send */
    RP_REQUEST_OPENED = 2, /* a connection was accepted */
    RP_REQUEST_CLOSED = 3, /* a connection ended; reason in command.remark */
    /* gRPC calls (../grpc/grpc.h): */
    RP_REQUEST_CALL = 4, /* a call begins */
    RP_REQUEST_MESSAGE = 5, /* a message of a client's stream */
    RP_REQUEST_HALF_CLOSED = 6, /* a client's stream has ended */
    RP_REQUEST_CANCELLED = 7, /* the client no longer waits */
    RP_REQUEST_ROOM = 8 /* the connection, or a call of it, accepts messages again */
};

typedef struct rp_request {
    int32_t kind;
    uint64_t connection_id;
    int64_t deadline_ns; /* for RP_REQUEST_CALL: monotonic, INT64_MAX: none */
    char remote_address[RP_ADDRESS_TEXT_MAX];
    /* The last member, because it is cut short: only field_count of its fields are allocated. Use the request by pointer, never copy the
     * struct. Slices point into the request's own memory. */
    rp_command command;
} rp_request;

int rp_server_event_fd(const rp_server *server); /* readable when requests wait; for asyncio's add_reader */
/* Takes up to requests_max requests and returns how many. The eventfd is cleared only when that is 0: call until then, or wait for the
 * eventfd again. One consumer thread. */
uint32_t rp_server_take(rp_server *server, rp_request **requests, uint32_t requests_max);
void rp_request_free(rp_request *request);

/* Sends command (its slices are copied) on a connection. RP_OK means queued, not delivered; RP_E_CLOSED; RP_E_NO_MEMORY;
 * RP_E_BUSY when that connection's output bound or the reactor's inbox is full; RP_E_TOO_LARGE, RP_E_INVALID from the encoding. */
int rp_server_send(rp_server *server, uint64_t connection_id, const rp_command *command);
/* Gives a punted request to the handler again on its reactor (after Python created the topic), with what was found out about it: a number
 * above 0 that the handler knows. Takes ownership of request in any case. RP_OK, RP_E_CLOSED, RP_E_BUSY: then the client gets no answer
 * from here. */
int rp_server_resubmit(rp_server *server, rp_request *request, int resubmitted);
/* Closes it at its reactor's next turn, after what was queued by then had one chance to leave. RP_OK, RP_E_CLOSED, RP_E_BUSY,
 * RP_E_NO_MEMORY. */
int rp_server_close_connection(rp_server *server, uint64_t connection_id);

/* ---- for handlers, on the reactor's own thread ---- */

uint16_t rp_reactor_index(const rp_reactor *reactor); /* 0..reactors-1 */
rp_arena *rp_reactor_arena(rp_reactor *reactor); /* reset after on_turn_end */
int64_t rp_reactor_now_ns(const rp_reactor *reactor); /* monotonic, read once a turn */
void rp_reactor_set_deadline(rp_reactor *reactor, int64_t monotonic_ns);
/* Lets the thread go to on_leave(context, leave_for) when this turn is over, while the reactor's stand-in turns it: at once or, while a
 * single connection asks one request at a time, after stand_in_after_us. RP_OK; RP_E_BUSY: one of the two is away already; RP_E_CLOSED
 * while the server stops; RP_E_NO_MEMORY, RP_E_BUSY: there is no thread for a stand-in, or no descriptor for its timer. */
int rp_reactor_leave(rp_reactor *reactor, int64_t leave_for);
void rp_reactor_wake(rp_reactor *reactor); /* any thread; coalesced */
/* As rp_reactor_wake, from a thread that does not turn the reactor: while that sleeps or is away, on_wake runs here and its output is
 * sent from here, which saves waking the reactor on the way to a client. Does not wait. */
void rp_reactor_serve(rp_reactor *reactor);
rp_reactor *rp_server_reactor(rp_server *server, uint16_t index); /* any thread, until stop */
/* The connection with this id if it is still open on this reactor, else NULL. */
rp_connection *rp_reactor_connection(rp_reactor *reactor, uint64_t connection_id);

#define RP_DIAL_PATIENCE_MS 3000
/* Opens a connection to another server, which speaks frames: output waits until it is connected, RP_DIAL_PATIENCE_MS at most; answers
 * come to on_response, its end to on_close. It has no idle limit, and Python is told nothing of it. RP_OK: it is under way;
 * RP_E_NETWORK: it is impossible, or the server is stopping; RP_E_NO_MEMORY, also at a bound. */
int rp_reactor_dial(rp_reactor *reactor, const rp_address *address, rp_connection **connection);
/* Returns 0 if it was connected, or may still be; otherwise the errno of the failure, ETIMEDOUT if nobody answered. */
int rp_connection_dial_fault(const rp_connection *connection);

#define RP_CONNECTION_REACTOR_SHIFT 56 /* bit position of the reactor's index in a connection id */
uint64_t rp_connection_id(const rp_connection *connection); /* never reused; reactor index in the top bits */
int rp_connection_has_gate(const rp_connection *connection);   /* 1: of a server with one */
/* rp_gate.admit_sender of the server's gate, for a request of this connection that is being handled; 0 without a gate. */
int32_t rp_connection_admit_sender(rp_connection *connection, const rp_command *command, rp_slice topic, rp_slice *remark);
/* The socket's other end, a client or its balancer: writes 4 or 16 bytes in network order into address and the port into *port; returns
 * 4 or 16. */
int rp_connection_peer(const rp_connection *connection, uint8_t address[16], uint16_t *port);
/* Bytes queued that the socket has not taken yet. */
uint64_t rp_connection_unsent_bytes(const rp_connection *connection);
/* Reserves room for size more output bytes; NULL: no memory. Valid until the next call on this connection. Each commit counts as one
 * frame in rp_server_stats. Without a commit nothing is sent. */
uint8_t *rp_connection_reserve(rp_connection *connection, uint32_t size);
void rp_connection_commit(rp_connection *connection, uint32_t size);
/* Encodes and queues a command; with an announced body (body.data NULL) the caller sends the body next, by rp_connection_send_ranges.
 * RP_OK, RP_E_NO_MEMORY, RP_E_TOO_LARGE or RP_E_INVALID. */
int rp_connection_write(rp_connection *connection, const rp_command *command);

/* A piece of a mapped file. release(owner) is called once, on the reactor's thread, when the bytes are sent or the connection is gone. */
typedef struct rp_file_range {
    const uint8_t *address; /* mapped bytes */
    uint32_t size;
    int32_t fd; /* -1: no file, send from address */
    int64_t file_offset;
    void (*release)(void *owner);
    void *owner;
} rp_file_range;

/* Queues ranges behind what was committed; they are sent by writev, or by sendfile when large. RP_OK; RP_E_NO_MEMORY, and nothing was
 * queued or released. */
int rp_connection_send_ranges(rp_connection *connection, const rp_file_range *ranges, uint32_t range_count);

/* ---- figures ---- */

typedef struct rp_server_stats {
    uint64_t connections_open, connections_accepted, connections_refused, connections_closed_idle, connections_closed_stalled;
    uint64_t frames_in, frames_out, bytes_in, bytes_out, frames_bad, requests_punted, requests_rejected_busy, requests_refused,
        oneway_dropped;
    uint64_t turns, buffer_bytes; /* buffer_bytes: held now, for input, output and requests of Python */
} rp_server_stats;
void rp_server_read_stats(const rp_server *server, rp_server_stats *stats);

#endif
