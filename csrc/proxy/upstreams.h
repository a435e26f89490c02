/* upstreams.h: one reactor's connections to brokers, and the calls that wait for an answer on them. C only.
 * RocketMQ: NettyRemotingClient, as its proxy uses it (5.3.3 remoting/netty/).
 *
 *   ask ── request ──► connection of the reactor, dialed by the first ──► broker ── response ──► on_answer
 *
 * A broker has one connection. When that is lost, so are the calls that wait on it, and the next request dials another. A broker that is
 * going away (GO_AWAY) gets no more requests on its connection, which ends after the last answer.
 *
 * Threads  the reactor's.
 * Owns     the waiting calls. Connections belong to the reactor.
 * Bounds   calls_max waiting calls; RP_UPSTREAMS_MAX brokers; RP_UPSTREAM_UNSENT_MAX bytes that a broker has not taken. At each of them
 *          rp_upstreams_ask returns NULL.
 */
#ifndef RP_PROXY_UPSTREAMS_H
#define RP_PROXY_UPSTREAMS_H

#include "../remoting/server.h"
#include "../remoting/timer_wheel.h"

#define RP_UPSTREAMS_MAX 1024u
#define RP_UPSTREAM_UNSENT_MAX (4u * 1024 * 1024)

typedef struct rp_upstreams rp_upstreams;
typedef struct rp_upstream rp_upstream;

/* A waiting call. The first four fields belong to the asker, the others to this file. */
typedef struct rp_waiting_call {
    void *asker;
    void *taken;
    rp_slice noted;
    int32_t method;
    rp_upstream *upstream;
    struct rp_waiting_call *previous, *next; /* of the upstream; free calls use only next */
    rp_timer_node timer;
    int64_t deadline_ns;
    int64_t timeout_ms; /* from when it was asked to its deadline */
    uint32_t place;      /* fixed */
    uint32_t generation; /* together with the place it makes the opaque */
} rp_waiting_call;

/* Why there is no answer. */
enum rp_upstream_fault {
    RP_UPSTREAM_REFUSED = 1, /* no connection; os_errno says why, 0: it was not open in time */
    RP_UPSTREAM_LOST = 2,    /* the connection ended before the answer */
    RP_UPSTREAM_LATE = 3,    /* the deadline passed */
    RP_UPSTREAM_LEAVES = 4   /* the broker is going away and has not handled the request */
};

typedef struct rp_upstream_failure {
    enum rp_upstream_fault fault;
    int os_errno;
    rp_address address;
} rp_upstream_failure;

/* How a call ends: one of the two functions is called, once. The call is free when that returns; the function may ask again. */
typedef struct rp_upstream_events {
    void *context;
    void (*on_answer)(void *context, rp_waiting_call *call, const rp_command *answer);
    void (*on_failure)(void *context, rp_waiting_call *call, const rp_upstream_failure *failure);
} rp_upstream_events;

rp_upstreams *rp_upstreams_create(uint32_t calls_max, const rp_upstream_events *events); /* NULL: out of memory */
void rp_upstreams_destroy(rp_upstreams *upstreams); /* after the reactor has ended; waiting calls are dropped silently */

/* Sends a request, whose opaque is set here. Returns NULL if nothing was sent: a bound is reached, memory is out, or no connection could
 * be started. */
rp_waiting_call *rp_upstreams_ask(rp_upstreams *upstreams, rp_reactor *reactor, const rp_address *address, rp_command *command,
                                  int64_t deadline_ns);
/* Returns 1 if there is room for this many more waiting calls, else 0. */
int rp_upstreams_have_room(const rp_upstreams *upstreams, uint32_t calls);
/* Frees a call whose answer is no longer wanted. */
void rp_upstreams_forget(rp_upstreams *upstreams, rp_waiting_call *call);

/* The reactor's hooks (rp_handler) for connections made here; they ignore all others. */
void rp_upstreams_take_response(rp_upstreams *upstreams, rp_connection *connection, const rp_command *response);
void rp_upstreams_end_connection(rp_upstreams *upstreams, rp_connection *connection);
int64_t rp_upstreams_look(rp_upstreams *upstreams, int64_t now_ns); /* at deadlines; returns when to call it again */

uint32_t rp_upstreams_waiting(const rp_upstreams *upstreams);  /* calls; any thread */
uint32_t rp_upstreams_connected(const rp_upstreams *upstreams); /* brokers; any thread */

#endif
