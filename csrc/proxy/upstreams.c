/* upstreams.c: see upstreams.h. An opaque is a waiting call's place and how often the place was taken, so an answer that comes too late
 * finds another number there. Free places form a queue of at least BLOCK_CALLS, so an opaque comes again only after millions of calls. */
#include "upstreams.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../remoting/protocol.h"

#define BLOCK_CALLS 256u
#define PLACE_BITS 16u
#define GENERATION_MASK 0x7FFFu
#define CALLS_MAX (1u << PLACE_BITS)
#define BUCKETS 64u
#define TICK_NS (20 * RP_NS_PER_MS)
#define CODE_GO_AWAY 1500

struct rp_upstream {
    rp_upstream *next; /* in its bucket, or in the list of the retired */
    rp_address address;
    uint64_t connection_id;
    rp_waiting_call *first, *last;
    bool is_retired; /* it gets no more requests */
};

struct rp_upstreams {
    rp_upstream_events events; /* fixed */
    uint32_t calls_max;        /* fixed */
    rp_upstream *buckets[BUCKETS];
    rp_upstream *retired;
    rp_waiting_call *blocks[CALLS_MAX / BLOCK_CALLS];
    uint32_t calls_made;
    rp_waiting_call *free_first, *free_last; /* a queue: a place is reused as late as possible */
    rp_timer_wheel wheel;
    bool has_wheel;
    int64_t armed_ns; /* the reactor's deadline; INT64_MAX: none */
    _Atomic uint32_t waiting, connected; /* written by the reactor; statistics, so relaxed */
};

static void add(_Atomic uint32_t *figure, uint32_t more) {
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + more, memory_order_relaxed);
}

rp_upstreams *rp_upstreams_create(uint32_t calls_max, const rp_upstream_events *events) {
    rp_upstreams *upstreams = calloc(1, sizeof *upstreams);
    if (upstreams == NULL)
        return NULL;
    upstreams->events = *events;
    upstreams->calls_max = calls_max < CALLS_MAX ? calls_max : CALLS_MAX;
    upstreams->armed_ns = INT64_MAX;
    return upstreams;
}

static void free_all(rp_upstream *upstream) {
    while (upstream != NULL) {
        rp_upstream *next = upstream->next;
        free(upstream);
        upstream = next;
    }
}

void rp_upstreams_destroy(rp_upstreams *upstreams) {
    if (upstreams == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++)
        free_all(upstreams->buckets[i]);
    free_all(upstreams->retired);
    for (uint32_t i = 0; i < upstreams->calls_made / BLOCK_CALLS; i++)
        free(upstreams->blocks[i]);
    free(upstreams);
}

/* ---- waiting calls ---- */

static void put_free(rp_upstreams *upstreams, rp_waiting_call *call) {
    call->next = NULL;
    *(upstreams->free_first != NULL ? &upstreams->free_last->next : &upstreams->free_first) = call;
    upstreams->free_last = call;
}

static bool make_calls(rp_upstreams *upstreams) {
    if (upstreams->calls_made == CALLS_MAX)
        return false;
    rp_waiting_call *block = calloc(BLOCK_CALLS, sizeof *block);
    if (block == NULL)
        return false;
    upstreams->blocks[upstreams->calls_made / BLOCK_CALLS] = block;
    for (uint32_t i = 0; i < BLOCK_CALLS; i++) {
        block[i].place = upstreams->calls_made + i;
        put_free(upstreams, &block[i]);
    }
    upstreams->calls_made += BLOCK_CALLS;
    return true;
}

static int32_t opaque_of(const rp_waiting_call *call) { return (int32_t)(call->generation << PLACE_BITS | call->place); }

/* Returns NULL if nobody waits for that answer. */
static rp_waiting_call *call_of(rp_upstreams *upstreams, int32_t opaque) {
    uint32_t place = (uint32_t)opaque & (CALLS_MAX - 1);
    if (opaque < 0 || place >= upstreams->calls_made)
        return NULL;
    rp_waiting_call *call = &upstreams->blocks[place / BLOCK_CALLS][place % BLOCK_CALLS];
    return call->upstream != NULL && opaque_of(call) == opaque ? call : NULL;
}

static void enter(rp_upstreams *upstreams, rp_upstream *upstream, rp_waiting_call *call) {
    call->upstream = upstream;
    call->next = NULL;
    call->previous = upstream->last;
    *(upstream->last != NULL ? &upstream->last->next : &upstream->first) = call;
    upstream->last = call;
    add(&upstreams->waiting, 1);
}

/* The call no longer waits, but its place is not free yet. */
static void leave(rp_upstreams *upstreams, rp_waiting_call *call) {
    rp_upstream *upstream = call->upstream;
    *(call->previous != NULL ? &call->previous->next : &upstream->first) = call->next;
    *(call->next != NULL ? &call->next->previous : &upstream->last) = call->previous;
    call->upstream = NULL;
    rp_timer_wheel_cancel(&upstreams->wheel, &call->timer);
    add(&upstreams->waiting, (uint32_t)-1);
}

static void give_back(rp_upstreams *upstreams, rp_waiting_call *call) {
    call->generation = (call->generation + 1) & GENERATION_MASK;
    put_free(upstreams, call);
}

static void fail(rp_upstreams *upstreams, rp_waiting_call *call, enum rp_upstream_fault fault, int os_errno) {
    rp_upstream_failure failure = {fault, os_errno, call->upstream->address};
    leave(upstreams, call);
    upstreams->events.on_failure(upstreams->events.context, call, &failure);
    give_back(upstreams, call);
}

/* ---- brokers ---- */

static rp_upstream **bucket_of(rp_upstreams *upstreams, const rp_address *address) {
    return &upstreams->buckets[(address->bytes[address->size - 1] + address->bytes[address->size - 2] * 7u + address->port) % BUCKETS];
}

static bool is_at(const rp_upstream *upstream, const rp_address *address) {
    return upstream->address.port == address->port && upstream->address.size == address->size &&
           memcmp(upstream->address.bytes, address->bytes, address->size) == 0;
}

/* Nothing more is sent to the broker; it stays known until its connection ends. */
static void retire(rp_upstreams *upstreams, rp_upstream *upstream) {
    rp_upstream **link = bucket_of(upstreams, &upstream->address);
    while (*link != upstream)
        link = &(*link)->next;
    *link = upstream->next;
    upstream->is_retired = true;
    upstream->next = upstreams->retired;
    upstreams->retired = upstream;
}

static rp_upstream *dial(rp_upstreams *upstreams, rp_reactor *reactor, const rp_address *address, rp_connection **connection) {
    rp_upstream *upstream =
        atomic_load_explicit(&upstreams->connected, memory_order_relaxed) < RP_UPSTREAMS_MAX ? calloc(1, sizeof *upstream) : NULL;
    if (upstream == NULL || rp_reactor_dial(reactor, address, connection) != RP_OK) {
        free(upstream);
        return NULL;
    }
    rp_upstream **bucket = bucket_of(upstreams, address);
    upstream->address = *address;
    upstream->connection_id = rp_connection_id(*connection);
    upstream->next = *bucket;
    *bucket = upstream;
    add(&upstreams->connected, 1);
    return upstream;
}

/* Returns the broker's upstream with an open connection, which is dialed if there is none; NULL: no connection. */
static rp_upstream *find(rp_upstreams *upstreams, rp_reactor *reactor, const rp_address *address, rp_connection **connection) {
    rp_upstream *upstream = *bucket_of(upstreams, address);
    while (upstream != NULL && !is_at(upstream, address))
        upstream = upstream->next;
    if (upstream != NULL && (*connection = rp_reactor_connection(reactor, upstream->connection_id)) != NULL)
        return upstream;
    if (upstream != NULL)
        retire(upstreams, upstream); /* it ends with this turn of the reactor */
    return dial(upstreams, reactor, address, connection);
}

/* ---- asking ---- */

static void arm(rp_upstreams *upstreams, rp_reactor *reactor, rp_waiting_call *call, int64_t now_ns, int64_t deadline_ns) {
    if (!upstreams->has_wheel) {
        rp_timer_wheel_init(&upstreams->wheel, TICK_NS, now_ns);
        upstreams->has_wheel = true;
    }
    call->deadline_ns = deadline_ns;
    call->timeout_ms = (deadline_ns - now_ns) / RP_NS_PER_MS;
    rp_timer_wheel_schedule(&upstreams->wheel, &call->timer, deadline_ns);
    int64_t next_ns = rp_timer_wheel_next_ns(&upstreams->wheel);
    if (next_ns < upstreams->armed_ns) {
        upstreams->armed_ns = next_ns;
        rp_reactor_set_deadline(reactor, next_ns);
    }
}

int rp_upstreams_have_room(const rp_upstreams *upstreams, uint32_t calls) {
    return (uint64_t)rp_upstreams_waiting(upstreams) + calls <= upstreams->calls_max;
}

rp_waiting_call *rp_upstreams_ask(rp_upstreams *upstreams, rp_reactor *reactor, const rp_address *address, rp_command *command,
                                  int64_t deadline_ns) {
    rp_connection *connection;
    if (!rp_upstreams_have_room(upstreams, 1) || (upstreams->free_first == NULL && !make_calls(upstreams)))
        return NULL;
    /* Its broker would close the connection, and all other calls on it would be lost. */
    if (rp_command_size_max(command) > RP_FRAME_SIZE_MAX)
        return NULL;
    rp_upstream *upstream = find(upstreams, reactor, address, &connection);
    if (upstream == NULL || rp_connection_unsent_bytes(connection) >= RP_UPSTREAM_UNSENT_MAX)
        return NULL;
    rp_waiting_call *call = upstreams->free_first;
    command->opaque = opaque_of(call);
    if (rp_connection_write(connection, command) != RP_OK)
        return NULL;
    upstreams->free_first = call->next;
    enter(upstreams, upstream, call);
    arm(upstreams, reactor, call, rp_reactor_now_ns(reactor), deadline_ns);
    return call;
}

void rp_upstreams_forget(rp_upstreams *upstreams, rp_waiting_call *call) {
    leave(upstreams, call);
    give_back(upstreams, call);
}

/* ---- the reactor's hooks ---- */

void rp_upstreams_take_response(rp_upstreams *upstreams, rp_connection *connection, const rp_command *response) {
    rp_waiting_call *call = call_of(upstreams, response->opaque);
    if (call == NULL || call->upstream->connection_id != rp_connection_id(connection))
        return;
    rp_upstream *upstream = call->upstream;
    if (response->code == CODE_GO_AWAY) {
        if (!upstream->is_retired)
            retire(upstreams, upstream);
        fail(upstreams, call, RP_UPSTREAM_LEAVES, 0);
    } else {
        leave(upstreams, call);
        upstreams->events.on_answer(upstreams->events.context, call, response);
        give_back(upstreams, call);
    }
    if (upstream->is_retired && upstream->first == NULL)
        rp_connection_end(connection, "its broker goes away");
}

static rp_upstream **link_of(rp_upstreams *upstreams, uint64_t connection_id) {
    for (uint32_t i = 0; i <= BUCKETS; i++) {
        rp_upstream **link = i < BUCKETS ? &upstreams->buckets[i] : &upstreams->retired;
        while (*link != NULL && (*link)->connection_id != connection_id)
            link = &(*link)->next;
        if (*link != NULL)
            return link;
    }
    return NULL;
}

void rp_upstreams_end_connection(rp_upstreams *upstreams, rp_connection *connection) {
    rp_upstream **link = link_of(upstreams, rp_connection_id(connection));
    if (link == NULL)
        return;
    rp_upstream *upstream = *link;
    int fault = rp_connection_dial_fault(connection);
    *link = upstream->next; /* before its calls fail, so that whoever asks again dials again */
    while (upstream->first != NULL)
        fail(upstreams, upstream->first, fault != 0 ? RP_UPSTREAM_REFUSED : RP_UPSTREAM_LOST, fault);
    free(upstream);
    add(&upstreams->connected, (uint32_t)-1);
}

int64_t rp_upstreams_look(rp_upstreams *upstreams, int64_t now_ns) {
    rp_timer_node *node;
    while (upstreams->has_wheel && (node = rp_timer_wheel_take(&upstreams->wheel, now_ns)) != NULL) {
        rp_waiting_call *call = (rp_waiting_call *)(void *)((uint8_t *)node - offsetof(rp_waiting_call, timer));
        if (call->deadline_ns > now_ns)
            rp_timer_wheel_schedule(&upstreams->wheel, &call->timer, call->deadline_ns);
        else
            fail(upstreams, call, RP_UPSTREAM_LATE, 0);
    }
    upstreams->armed_ns = upstreams->has_wheel ? rp_timer_wheel_next_ns(&upstreams->wheel) : INT64_MAX;
    return upstreams->armed_ns;
}

uint32_t rp_upstreams_waiting(const rp_upstreams *upstreams) { return atomic_load_explicit(&upstreams->waiting, memory_order_relaxed); }

uint32_t rp_upstreams_connected(const rp_upstreams *upstreams) { return atomic_load_explicit(&upstreams->connected, memory_order_relaxed); }
