/* reactor.c: the event loop: one thread, its connections, turns as drawn in reactor.h. RocketMQ: netty's NioEventLoop.
 *
 * Between turns it waits (reactor_wait.c).
 */
#include "reactor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../base/clock_inl.h"
#include "../base/log_inl.h"
#include "stats_inl.h"

#define EVENTS_PER_TURN 512
#define INBOX_CAPACITY 16384u
#define INBOX_PER_TURN 1024
#define SMALL_OUTPUT_BYTES 16384 /* answers to sends, not messages of pulls */
#define LARGE_BYTES_PER_TURN (256u * 1024) /* of pulls' messages: 0.15 ms of a core */
#define ARENA_KEEP_BYTES ((size_t)256 * 1024)
#define ARENA_BYTES_MAX ((size_t)256 * 1024 * 1024)
#define TICKS_PER_TIMEOUT 16
#define TICK_NS_MIN (10 * RP_NS_PER_MS)
#define TICK_NS_MAX RP_NS_PER_S

static int64_t tick_ns(const rp_server_options *options) {
    int64_t shortest = options->idle_timeout_ms < options->stall_timeout_ms ? options->idle_timeout_ms : options->stall_timeout_ms;
    int64_t tick = shortest * RP_NS_PER_MS / TICKS_PER_TIMEOUT;
    return tick < TICK_NS_MIN ? TICK_NS_MIN : tick > TICK_NS_MAX ? TICK_NS_MAX : tick;
}

static int open_reactor(rp_reactor *reactor) {
    const rp_server_options *options = &reactor->server->options;
    reactor->blocks_max = (options->connections_max + RP_CONNECTION_BLOCK - 1) / RP_CONNECTION_BLOCK + 1;
    reactor->blocks = calloc(reactor->blocks_max, sizeof *reactor->blocks);
    reactor->arena = rp_arena_create(ARENA_KEEP_BYTES, ARENA_BYTES_MAX);
    reactor->read_arena = malloc(RP_READ_ARENA_BYTES);
    reactor->forms = rp_header_forms_create();
    if (reactor->blocks == NULL || reactor->arena == NULL || reactor->read_arena == NULL || reactor->forms == NULL) {
        return RP_E_NO_MEMORY;
    }
    reactor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (reactor->epoll_fd < 0) {
        return RP_E_NETWORK;
    }
    int status = rp_ring_create(INBOX_CAPACITY, &reactor->inbox);
    if (status != RP_OK) {
        return status;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    return epoll_ctl(reactor->epoll_fd, EPOLL_CTL_ADD, rp_ring_event_fd(reactor->inbox), &event) == 0 ? RP_OK : RP_E_NETWORK;
}

int rp_reactor_create(rp_server *server, uint16_t index, rp_reactor **reactor_out) {
    rp_reactor *reactor = calloc(1, sizeof *reactor);
    if (reactor == NULL) {
        return RP_E_NO_MEMORY;
    }
    reactor->server = server;
    reactor->index = index;
    reactor->epoll_fd = reactor->stand_in_fd = -1;
    reactor->wake_item.kind = RP_INBOX_WAKE;
    reactor->large_end = &reactor->large;
    reactor->now_ns = rp_clock_monotonic_ns(server->options.clock);
    reactor->deadline_ns = reactor->listener_resume_ns = reactor->drain_until_ns = INT64_MAX;
    rp_timer_wheel_init(&reactor->wheel, tick_ns(&server->options), reactor->now_ns);
    pthread_mutex_init(&reactor->turn_lock, NULL);
    reactor->turners[0].reactor = reactor->turners[1].reactor = reactor;
    reactor->turner = &reactor->turners[0];
    int status = open_reactor(reactor);
    if (status != RP_OK) {
        rp_reactor_destroy(reactor);
        return status;
    }
    *reactor_out = reactor;
    return RP_OK;
}

static void drop_inbox_item(rp_reactor *reactor, rp_inbox_item *item) {
    switch (item->kind) {
    case RP_INBOX_WAKE:
        break;
    case RP_INBOX_ACCEPTED:
        close(((rp_accepted *)(void *)item)->fd);
        atomic_fetch_sub_explicit(&reactor->connection_count, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&reactor->server->connections, 1, memory_order_relaxed);
        free(item);
        break;
    case RP_INBOX_RESUBMIT:
        rp_held_request_free((rp_held_request *)(void *)item);
        break;
    case RP_INBOX_OUTPUT:
    case RP_INBOX_CLOSE:
    case RP_INBOX_POSTED:
        free(item);
        break;
    }
}

void rp_reactor_destroy(rp_reactor *reactor) {
    if (reactor == NULL) {
        return;
    }
    void *item;
    while (reactor->inbox != NULL && rp_ring_take(reactor->inbox, &item, 1) == 1) {
        drop_inbox_item(reactor, item);
    }
    rp_ring_destroy(reactor->inbox);
    if (reactor->epoll_fd >= 0) {
        close(reactor->epoll_fd);
    }
    if (reactor->stand_in_fd >= 0) {
        close(reactor->stand_in_fd);
    }
    for (uint32_t block = 0; reactor->blocks != NULL && block < reactor->blocks_max; block++) {
        free(atomic_load_explicit(&reactor->blocks[block], memory_order_relaxed));
    }
    rp_output_pool_free(&reactor->pool);
    rp_input_pool_trim(&reactor->spares, 0, true);
    rp_arena_destroy(reactor->arena);
    rp_header_forms_destroy(reactor->forms);
    free(reactor->blocks);
    free(reactor->read_arena);
    free(reactor->sealed);
    free(reactor->free_slots);
    free(reactor->starved);
    pthread_mutex_destroy(&reactor->turn_lock);
    free(reactor);
}

/* ---- other threads ---- */

/* A full inbox needs no wake item: its contents keep the reactor from sleeping, and the flags are read in every turn. */
void rp_reactor_wake(rp_reactor *reactor) {
    if (atomic_exchange_explicit(&reactor->wake_pending, 1, memory_order_acq_rel) == 0) {
        rp_ring_put(reactor->inbox, &reactor->wake_item);
    }
}

void rp_reactor_nudge(rp_reactor *reactor) {
    if (atomic_exchange_explicit(&reactor->nudge_pending, 1, memory_order_acq_rel) == 0) {
        rp_ring_put(reactor->inbox, &reactor->wake_item);
    }
}

/* ---- a turn ---- */

static void append_output(rp_reactor *reactor, rp_output_piece *piece) {
    uint64_t id = piece->inbox.connection_id;
    uint32_t capacity = piece->capacity;
    rp_connection *connection = rp_connection_find(reactor, id);
    if (connection == NULL || connection->is_closing) {
        free(piece);
    } else {
        rp_output_append(&connection->output, &reactor->pool, piece);
        rp_connection_show_unsent(connection); /* its flush may be a while */
        rp_count(&reactor->stats.frames_out, 1);
        rp_connection_mark_dirty(connection);
    }
    rp_connection_settle_inbox(reactor, id, capacity);
}

static void handle_inbox_item(rp_reactor *reactor, rp_inbox_item *item) {
    switch (item->kind) {
    case RP_INBOX_WAKE:
        break;
    case RP_INBOX_ACCEPTED: {
        rp_accepted *accepted = (rp_accepted *)(void *)item;
        rp_connection_adopt(reactor, accepted->fd, &accepted->address);
        free(accepted);
        break;
    }
    case RP_INBOX_OUTPUT:
        append_output(reactor, (rp_output_piece *)(void *)item);
        break;
    case RP_INBOX_RESUBMIT:
        rp_dispatch_resubmitted(reactor, (rp_held_request *)(void *)item);
        break;
    case RP_INBOX_CLOSE: {
        rp_connection *connection = rp_connection_find(reactor, item->connection_id);
        if (connection != NULL) {
            rp_connection_close(connection, "closed by this side");
        }
        free(item);
        break;
    }
    case RP_INBOX_POSTED:
        rp_connection_take_posted(reactor, (rp_posted *)(void *)item);
        break;
    }
}

static void take_inbox(rp_reactor *reactor) {
    void *items[64];
    uint32_t count;
    uint32_t total = 0;
    while (total < INBOX_PER_TURN && (count = rp_ring_take(reactor->inbox, items, sizeof items / sizeof items[0])) > 0) {
        for (uint32_t index = 0; index < count; index++) {
            handle_inbox_item(reactor, items[index]);
        }
        total += count;
    }
}

static void handle_held_back(rp_reactor *reactor) {
    rp_connection *connection = reactor->held_back;
    reactor->held_back = NULL;
    while (connection != NULL) {
        rp_connection *next = connection->next_held_back;
        connection->is_held_back = false;
        rp_connection_handle_held_back(connection);
        connection = next;
    }
}

static void handle_socket_event(rp_reactor *reactor, const struct epoll_event *event) {
    if (event->data.ptr == NULL) {
        return; /* the inbox, which is read in every turn */
    }
    if (event->data.ptr == reactor->server) {
        rp_listener_accept(reactor);
        return;
    }
    rp_connection *connection = event->data.ptr;
    if (connection->opening == RP_OPENING_DIALED && (connection->is_closing || !rp_connection_finish_dial(connection))) {
        return;
    }
    if ((event->events & EPOLLOUT) != 0) {
        rp_connection_mark_dirty(connection);
    }
    if ((event->events & (EPOLLERR | EPOLLHUP)) != 0 && connection->pauses != 0) {
        rp_connection_close(connection, "the other side is gone");
    } else if ((event->events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
        rp_connection_read(connection);
    }
}

static void begin_drain(rp_reactor *reactor, int64_t stop_at_ns) {
    reactor->drain_until_ns = stop_at_ns;
    if (reactor->index == 0) {
        rp_listener_close(reactor->server);
        reactor->listener_resume_ns = INT64_MAX;
    }
    for (uint32_t slot = 0; slot < reactor->slots_made; slot++) {
        rp_connection *block = atomic_load_explicit(&reactor->blocks[slot / RP_CONNECTION_BLOCK], memory_order_relaxed);
        rp_connection *connection = &block[slot % RP_CONNECTION_BLOCK];
        if (rp_connection_id(connection) == 0) {
            continue;
        }
        if (connection->protocol != NULL) {
            rp_connection_drain(connection);
        } else if (!connection->is_dialed) { /* requests on it may still wait for an answer */
            rp_connection_pause(connection, RP_PAUSE_STOP);
        }
    }
}

static void run_timers(rp_reactor *reactor) {
    rp_server *server = reactor->server;
    const rp_handler *handler = &server->handler;
    rp_timer_node *node;
    while ((node = rp_timer_wheel_take(&reactor->wheel, reactor->now_ns)) != NULL) {
        rp_connection_on_timer((rp_connection *)(void *)((uint8_t *)node - offsetof(rp_connection, timer)));
    }
    if (reactor->listener_resume_ns <= reactor->now_ns && rp_listener_arm(reactor) != RP_OK) {
        reactor->listener_resume_ns = reactor->now_ns + TICK_NS_MAX;
    }
    if (atomic_load_explicit(&reactor->nudge_pending, memory_order_relaxed) != 0) {
        atomic_exchange_explicit(&reactor->nudge_pending, 0, memory_order_acq_rel);
        int64_t stop_at_ns = atomic_load_explicit(&server->stop_at_ns, memory_order_acquire);
        if (stop_at_ns != INT64_MAX && reactor->drain_until_ns == INT64_MAX) {
            begin_drain(reactor, stop_at_ns);
        }
    }
    if (atomic_load_explicit(&reactor->wake_pending, memory_order_relaxed) != 0) {
        atomic_exchange_explicit(&reactor->wake_pending, 0, memory_order_acq_rel);
        if (handler->on_wake != NULL) {
            handler->on_wake(handler->context, reactor);
        }
    }
    if (reactor->deadline_ns <= reactor->now_ns) {
        reactor->deadline_ns = handler->on_deadline != NULL ? handler->on_deadline(handler->context, reactor, reactor->now_ns) : INT64_MAX;
    }
}

static bool has_output(const rp_reactor *reactor) { return reactor->dirty != NULL || reactor->large != NULL; }

/* Returns the connection that has waited longest to be sent its messages; NULL: none waits. */
static rp_connection *take_large(rp_reactor *reactor) {
    rp_connection *connection = reactor->large;
    if (connection != NULL && (reactor->large = connection->next_dirty) == NULL) {
        reactor->large_end = &reactor->large;
    }
    return connection;
}

static void queue_large(rp_reactor *reactor, rp_connection *connection) {
    connection->next_dirty = NULL;
    *reactor->large_end = connection;
    reactor->large_end = &connection->next_dirty;
}

/* A closing connection does not wait for its share: this turn is its last. */
static void flush_closing(rp_reactor *reactor) {
    rp_connection *waiting = reactor->large, *next;
    reactor->large = NULL;
    reactor->large_end = &reactor->large;
    for (; waiting != NULL; waiting = next) {
        next = waiting->next_dirty;
        if (waiting->is_closing) {
            rp_connection_flush(waiting, UINT64_MAX);
        } else {
            queue_large(reactor, waiting);
        }
    }
}

/* Small answers first: a producer does not wait until consumers have been sent their messages. And no turn sends more than
 * LARGE_BYTES_PER_TURN of those, so that requests of producers are answered in between. */
static void flush_dirty(rp_reactor *reactor) {
    while (reactor->dirty != NULL) {
        rp_connection *connection = reactor->dirty;
        reactor->dirty = connection->next_dirty;
        rp_connection_fill(connection);
        if (connection->output.unsent_bytes <= SMALL_OUTPUT_BYTES) {
            rp_connection_flush(connection, UINT64_MAX);
        } else {
            queue_large(reactor, connection);
        }
    }
    if (reactor->closing != NULL) {
        flush_closing(reactor);
    }
    uint64_t room = LARGE_BYTES_PER_TURN;
    for (rp_connection *connection; room > 0 && (connection = take_large(reactor)) != NULL;) {
        uint64_t sent = rp_connection_flush(connection, room);
        room -= sent < room ? sent : room;
    }
}

static void reap_closed(rp_reactor *reactor) {
    rp_connection *connection = reactor->closing;
    reactor->closing = NULL;
    /* The end of one may make a handler write to another that ends too: none of them is put into the dirty list any more. */
    for (rp_connection *each = connection; each != NULL; each = each->next_closing) {
        each->is_dirty = true;
    }
    while (connection != NULL) {
        rp_connection *next = connection->next_closing;
        rp_connection_reap(connection);
        connection = next;
    }
}

static void forget_turn(rp_reactor *reactor) {
    for (rp_turn_buffer *kept = reactor->turn_buffers; kept != NULL; kept = kept->next) {
        reactor->input_bytes -= kept->capacity;
        rp_input_pool_give(&reactor->spares, kept->bytes, kept->capacity, reactor->now_ns);
    }
    reactor->turn_buffers = NULL;
    rp_input_pool_trim(&reactor->spares, reactor->now_ns, atomic_load_explicit(&reactor->connection_count, memory_order_relaxed) == 0);
    while (reactor->turn_requests != NULL) {
        rp_held_request *held = reactor->turn_requests;
        reactor->turn_requests = held->next;
        rp_held_request_free(held);
    }
    rp_arena_reset(reactor->arena);
    reactor->read_cursor = 0;
    reactor->handshakes = 0;
    uint64_t held = reactor->input_bytes + reactor->pool.buffer_bytes;
    atomic_store_explicit(&reactor->stats.buffer_bytes, held, memory_order_relaxed);
    rp_count(&reactor->stats.turns, 1);
    if (held < reactor->held_bytes_before) {
        rp_server_feed_starved(reactor->server);
    }
    reactor->held_bytes_before = held;
    rp_reactor_resume_starved(reactor);
}

static void end_turn(rp_reactor *reactor) {
    rp_server *server = reactor->server;
    const rp_handler *handler = &server->handler;
    /* Python may start on its requests while the handler commits its turn. */
    rp_request_queue_put(&server->requests, &reactor->batch);
    if (handler->on_turn_end != NULL) {
        handler->on_turn_end(handler->context, reactor);
    }
    flush_dirty(reactor);
    reap_closed(reactor);
    rp_request_queue_put(&server->requests, &reactor->batch);
    forget_turn(reactor);
}

static bool is_drained(const rp_reactor *reactor) {
    if (reactor->now_ns >= reactor->drain_until_ns) {
        return true;
    }
    for (uint32_t slot = 0; slot < reactor->slots_made; slot++) {
        rp_connection *block = atomic_load_explicit(&reactor->blocks[slot / RP_CONNECTION_BLOCK], memory_order_relaxed);
        const rp_connection *connection = &block[slot % RP_CONNECTION_BLOCK];
        if (rp_connection_id(connection) != 0 && (rp_connection_unsent_bytes(connection) > 0 || rp_connection_is_busy(connection))) {
            return false;
        }
    }
    return rp_ring_count(reactor->inbox) == 0;
}

static void turn(rp_reactor *reactor, struct epoll_event *events) {
    int count = rp_reactor_wait(reactor, events, EVENTS_PER_TURN);
    uint64_t number = atomic_load_explicit(&reactor->stats.turns, memory_order_relaxed);
    uint64_t answers_before = atomic_load_explicit(&reactor->stats.frames_out, memory_order_relaxed);
    reactor->now_ns = rp_clock_monotonic_ns(reactor->server->options.clock);
    take_inbox(reactor);
    if (reactor->held_back != NULL) {
        handle_held_back(reactor);
    }
    /* Each turn begins with another event: if the read arena is full before the last, epoll reports them in the same order again. */
    int first = count > 0 ? (int)(number % (uint64_t)count) : 0;
    for (int index = 0; index < count; index++) {
        handle_socket_event(reactor, &events[(first + index) % count]);
    }
    run_timers(reactor);
    end_turn(reactor);
    rp_reactor_expect_asker(reactor, number, answers_before);
}

static void close_all(rp_reactor *reactor) {
    for (uint32_t slot = 0; slot < reactor->slots_made; slot++) {
        rp_connection *block = atomic_load_explicit(&reactor->blocks[slot / RP_CONNECTION_BLOCK], memory_order_relaxed);
        rp_connection *connection = &block[slot % RP_CONNECTION_BLOCK];
        if (rp_connection_id(connection) != 0) {
            rp_connection_close(connection, "the server stops");
        }
    }
    end_turn(reactor);
}

/* Wakes the stand-in thread in that many microseconds. */
static void call_stand_in(rp_reactor *reactor, uint32_t in_us) {
    /* 0 would disarm the timer */
    struct itimerspec once = {.it_value = {.tv_sec = in_us / 1000000, .tv_nsec = in_us % 1000000 * 1000L + 1}};
    timerfd_settime(reactor->stand_in_fd, 0, &once, NULL);
}

/* The other thread turns the reactor. When it is away and this one is called, this one does. A call may come from an earlier absence:
 * then the other one is relieved sooner than necessary. */
static void stand_by(rp_reactor *reactor, rp_turner *self) {
    uint64_t calls;
    pthread_mutex_unlock(&reactor->turn_lock);
    (void)!read(reactor->stand_in_fd, &calls, sizeof calls);
    pthread_mutex_lock(&reactor->turn_lock);
    if (reactor->is_away) {
        reactor->turner = self;
    }
}

/* Called after a turn. While a single connection asks, one request at a time, nobody has to wait for the thread, and waking another
 * costs more than a disk's sync may take: so the stand-in is called only if the thread stays away. A thread that was relieved stands by
 * when it returns. */
static void leave(rp_reactor *reactor) {
    int64_t leave_for = reactor->leave_for;
    bool is_lone = reactor->lone_requests == RP_LONE_REQUESTS;
    reactor->is_leaving = false;
    reactor->is_away = true;
    call_stand_in(reactor, is_lone && !has_output(reactor) ? reactor->server->options.stand_in_after_us : 0);
    pthread_mutex_unlock(&reactor->turn_lock);
    reactor->server->handler.on_leave(reactor->server->handler.context, leave_for);
    pthread_mutex_lock(&reactor->turn_lock);
    reactor->is_away = false;
}

static void run(void *context) {
    rp_turner *self = context;
    rp_reactor *reactor = self->reactor;
    struct epoll_event events[EVENTS_PER_TURN];
    pthread_mutex_lock(&reactor->turn_lock);
    if (reactor->index == 0 && self == &reactor->turners[0] && rp_listener_arm(reactor) != RP_OK) {
        rp_log_write(reactor->server->options.log, RP_LOG_ERROR, "the listener cannot be watched: %s", strerror(errno));
    }
    while (!reactor->is_done) {
        if (reactor->turner != self) {
            stand_by(reactor, self);
        } else if (reactor->drain_until_ns != INT64_MAX && is_drained(reactor)) {
            close_all(reactor);
            reactor->is_done = true;
            call_stand_in(reactor, 0);
        } else {
            turn(reactor, events);
            if (reactor->is_leaving) {
                leave(reactor);
            }
        }
    }
    pthread_mutex_unlock(&reactor->turn_lock);
}

int rp_reactor_start_turner(rp_turner *turner) {
    const rp_reactor *reactor = turner->reactor;
    char name[RP_THREAD_NAME_MAX + 4];
    snprintf(name, sizeof name, "%s-%u%s", reactor->server->thread_name, reactor->index, turner == &reactor->turners[0] ? "" : "'");
    return rp_thread_start(&turner->thread, name, run, turner);
}

/* For a reactor that sleeps, or whose thread is away: runs a turn with on_wake only, in its place. Two things are left to the reactor,
 * which is nudged for them: connections that end in this turn, because events that epoll has already returned may point to them; and a
 * deadline that is now earlier than the one it sleeps for. */
void rp_reactor_serve(rp_reactor *reactor) {
    if (pthread_mutex_trylock(&reactor->turn_lock) != 0) {
        rp_reactor_wake(reactor);
        return;
    }
    const rp_handler *handler = &reactor->server->handler;
    int64_t slept_for_ns = rp_reactor_next_deadline(reactor);
    reactor->now_ns = rp_clock_monotonic_ns(reactor->server->options.clock);
    if (handler->on_wake != NULL) {
        handler->on_wake(handler->context, reactor);
    }
    flush_dirty(reactor);
    rp_request_queue_put(&reactor->server->requests, &reactor->batch);
    forget_turn(reactor);
    if (reactor->closing != NULL || reactor->held_back != NULL || has_output(reactor) || rp_reactor_next_deadline(reactor) < slept_for_ns) {
        rp_reactor_nudge(reactor);
    }
    pthread_mutex_unlock(&reactor->turn_lock);
}

/* ---- for handlers ---- */

uint16_t rp_reactor_index(const rp_reactor *reactor) { return reactor->index; }

rp_arena *rp_reactor_arena(rp_reactor *reactor) { return reactor->arena; }

int64_t rp_reactor_now_ns(const rp_reactor *reactor) { return reactor->now_ns; }

void rp_reactor_set_deadline(rp_reactor *reactor, int64_t monotonic_ns) { reactor->deadline_ns = monotonic_ns; }

int rp_reactor_leave(rp_reactor *reactor, int64_t leave_for) {
    rp_turner *stand_in = &reactor->turners[1];
    if (reactor->drain_until_ns != INT64_MAX) {
        return RP_E_CLOSED;
    }
    if (reactor->is_away) {
        return RP_E_BUSY;
    }
    if (reactor->stand_in_fd < 0 && (reactor->stand_in_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) < 0) {
        return RP_E_BUSY;
    }
    int status = stand_in->thread == NULL ? rp_reactor_start_turner(stand_in) : RP_OK;
    if (status != RP_OK) {
        return status;
    }
    reactor->is_leaving = true;
    reactor->leave_for = leave_for;
    return RP_OK;
}

rp_connection *rp_reactor_connection(rp_reactor *reactor, uint64_t connection_id) {
    rp_connection *connection = rp_connection_find(reactor, connection_id);
    return connection != NULL && !connection->is_closing ? connection : NULL;
}
