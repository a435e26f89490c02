/* grpc.h: the server's side of gRPC, on the connections of a remoting server (HTTP/2 by libnghttp2).
 * RocketMQ: GrpcServer (5.3.3 proxy/grpc/), which is grpc-java with netty.
 *
 *   client ── HTTP/2 ── session ── call ─┬─ handler.on_call, on the reactor ─ rp_grpc_call_*
 *                                        └─ rp_request → ring → eventfd → Python ─ rp_grpc_send, rp_grpc_end
 *
 * A call is one request and one answer (unary), one request and a stream of answers, or streams both ways; the table of methods
 * distinguishes the last from the first two. Wrong content types, unknown methods, messages that are too large or badly framed, and
 * calls whose deadline has passed are answered here.
 *
 * Threads  a call belongs to its connection's reactor. rp_grpc_send, rp_grpc_end, rp_grpc_took and rp_grpc_ask_room: any thread.
 * Owns     its calls. Borrows the handler until the server has stopped; outlives the server.
 * Bounds   calls_max of a connection at once (then the client waits); message_bytes_max a message, RP_GRPC_METADATA_BYTES of metadata
 *          (then RESOURCE_EXHAUSTED); RP_GRPC_UNTAKEN messages of a streaming call that nobody has taken (then its client's window
 *          closes); the server's output_bytes_max of answers a connection (then RP_E_BUSY), its memory_bytes_max (then
 *          RESOURCE_EXHAUSTED), its ring (the same), its idle_timeout_ms without a call (GOAWAY), its stall_timeout_ms with answers that
 *          are not taken (closed).
 */
#ifndef RP_GRPC_GRPC_H
#define RP_GRPC_GRPC_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"
#include "../remoting/server.h"

#define RP_GRPC_METHODS_MAX 64
#define RP_GRPC_METADATA_MAX 32 /* entries kept for a call */
#define RP_GRPC_METADATA_BYTES 16384u /* all of a call's headers */
#define RP_GRPC_UNTAKEN 16u

/* The gRPC status codes that are used here. */
enum rp_grpc_status {
    RP_GRPC_OK = 0,
    RP_GRPC_CANCELLED = 1,
    RP_GRPC_INVALID_ARGUMENT = 3,
    RP_GRPC_DEADLINE_EXCEEDED = 4,
    RP_GRPC_RESOURCE_EXHAUSTED = 8,
    RP_GRPC_UNIMPLEMENTED = 12,
    RP_GRPC_INTERNAL = 13,
    RP_GRPC_UNAVAILABLE = 14
};

typedef struct rp_grpc rp_grpc;
typedef struct rp_grpc_call rp_grpc_call;

typedef struct rp_grpc_method {
    const char *path; /* "/package.Service/Method" */
    int32_t has_stream; /* its client may send more than one message */
} rp_grpc_method;

/* The native plane; NULL functions are skipped. All run on a reactor's thread. */
typedef struct rp_grpc_handler {
    void *context;
    /* A complete, uncompressed request of a method without a client's stream. RP_HANDLED: it is answered, or kept and answered later on
     * this reactor's thread; RP_PUNT: it goes to Python. A negative status ends the call with INTERNAL and is logged. */
    int (*on_call)(void *context, rp_reactor *reactor, rp_grpc_call *call);
    /* A kept call ends: its client has cancelled it or is gone, or its deadline has passed. It must not be used any more. */
    void (*on_cancelled)(void *context, rp_reactor *reactor, rp_grpc_call *call);
    /* Called once for a watched answer, after its end: everything was sent, except for the last untaken_bytes of its messages with their
     * prefixes, which the client did not accept, or it is gone. */
    void (*on_delivered)(void *context, rp_reactor *reactor, void *watched, uint64_t untaken_bytes);
} rp_grpc_handler;

typedef struct rp_grpc_options {
    const rp_grpc_method *methods; /* copied */
    uint32_t method_count;
    uint32_t message_bytes_max; /* default 130 MiB */
    uint32_t calls_max; /* of a connection, default 1,024 */
    const rp_grpc_handler *handler; /* NULL: none; copied */
} rp_grpc_options;

void rp_grpc_options_default(rp_grpc_options *options);
/* RP_OK; RP_E_UNSUPPORTED without libnghttp2 (error names the package); RP_E_INVALID; RP_E_NO_MEMORY. */
int rp_grpc_create(const rp_grpc_options *options, rp_grpc **grpc, rp_error *error);
void rp_grpc_destroy(rp_grpc *grpc); /* after the servers that use it; NULL is allowed */
const rp_protocol *rp_grpc_protocol(const rp_grpc *grpc); /* for rp_server_set_protocol */

/* ---- for Python ----
 *
 * The events of a call arrive as an rp_request of kind RP_REQUEST_CALL to RP_REQUEST_ROOM (server.h), whose command holds: code: the
 * method's place in the table; opaque: the call, of this connection; flag: rp_grpc_event bits; body: the message. RP_REQUEST_CALL also
 * has the metadata in fields, and the request's deadline_ns. For a call without a client's stream the message is in RP_REQUEST_CALL, for
 * others it is not. Nothing follows RP_REQUEST_CANCELLED, or the end of an answer. */
enum rp_grpc_event {
    RP_GRPC_EVENT_COMPRESSED = 1, /* the message is compressed by gzip */
    RP_GRPC_EVENT_STREAM = 2 /* of a call: messages follow, each to be acknowledged by rp_grpc_took; then RP_REQUEST_HALF_CLOSED */
};

/* Sends a message of an answer; is_last: OK follows it. RP_OK means queued; RP_E_CLOSED: the connection is gone; RP_E_BUSY: it holds as
 * much as it may, see rp_grpc_ask_room; RP_E_TOO_LARGE, RP_E_NO_MEMORY. Ignored for a call that has ended. */
int rp_grpc_send(rp_server *server, uint64_t connection_id, int32_t call, rp_slice message, int is_last);
/* Ends an answer with a status; text may be empty. Never RP_E_BUSY because of the connection's bound. */
int rp_grpc_end(rp_server *server, uint64_t connection_id, int32_t call, int32_t status, rp_slice text);
/* Python has finished with a message of the client's stream. Errors as rp_grpc_end. */
int rp_grpc_took(rp_server *server, uint64_t connection_id, int32_t call);
/* Asks for one RP_REQUEST_ROOM as soon as the connection accepts messages again; for a call (not 0), when its answer so far has been
 * sent as far as the client permits. Nothing follows for a call that has ended. Errors as rp_grpc_end. */
int rp_grpc_ask_room(rp_server *server, uint64_t connection_id, int32_t call);

/* ---- for the handler, on the reactor's thread ---- */

int32_t rp_grpc_call_method(const rp_grpc_call *call); /* its place in the table */
rp_slice rp_grpc_call_message(const rp_grpc_call *call); /* valid until the call is answered, punted or cancelled */
/* Returns metadata by its lower-case name; data NULL if it is absent; the last one of several. Valid as long as the message. */
rp_slice rp_grpc_call_metadata(const rp_grpc_call *call, const char *name);
int64_t rp_grpc_call_deadline_ns(const rp_grpc_call *call); /* monotonic; INT64_MAX: none */
int64_t rp_grpc_call_began_ns(const rp_grpc_call *call); /* monotonic, of the turn in which its head arrived */
rp_connection *rp_grpc_call_connection(const rp_grpc_call *call);
void rp_grpc_call_keep(rp_grpc_call *call, void *kept); /* owned by the handler */
void *rp_grpc_call_kept(const rp_grpc_call *call);
/* Reserves room for a message of the answer, of at most size bytes; NULL: no memory. Commit follows, with the actual size. */
uint8_t *rp_grpc_call_reserve(rp_grpc_call *call, uint32_t size);
void rp_grpc_call_commit(rp_grpc_call *call, uint32_t size);
/* May that many more bytes of answers wait for the client? Limited by the connection's output_bytes_max, unless nothing waits there, and
 * by what all connections together may hold. */
int rp_grpc_call_may_hold(const rp_grpc_call *call, uint64_t more_bytes);
/* Has on_delivered called with this pointer, which must not be NULL. To be called before the answer's end. */
void rp_grpc_call_watch(rp_grpc_call *call, void *watched);
/* Ends the answer: the call must not be used any more. */
void rp_grpc_call_end(rp_grpc_call *call, int32_t status, rp_slice text);
/* Passes a kept call to Python after all: it must not be used any more. */
void rp_grpc_call_punt(rp_grpc_call *call);

#endif
