/* connection.c: the life of a connection on its reactor: opened, paused and resumed, written, closed.
 * RocketMQ: Channel of netty with IdleStateHandler (NettyRemotingServer).
 *
 * Closing is deferred: rp_connection_close only marks the connection; descriptor and struct are released at the end of the turn, so a
 * handler may use any connection of this turn until then.
 *
 * One timer serves all limits of a connection. Traffic does not move it: when it fires, the limits are checked, and it is set again for
 * the time that is left.
 */
#include "reactor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../base/clock_inl.h"
#include "../base/log_inl.h"
#include "stats_inl.h"

#define SLOT_BITS 24
#define GENERATION_BITS 32
#define NEVER INT64_MAX

static int make_block(rp_reactor *reactor) {
    uint32_t block = reactor->slots_made / RP_CONNECTION_BLOCK;
    if (block == reactor->blocks_max) {
        return RP_E_BUSY;
    }
    uint32_t slots = reactor->slots_made + RP_CONNECTION_BLOCK;
    uint32_t *free_slots = realloc(reactor->free_slots, slots * sizeof *free_slots);
    if (free_slots == NULL) {
        return RP_E_NO_MEMORY;
    }
    reactor->free_slots = free_slots;
    rp_connection **starved = realloc(reactor->starved, slots * sizeof *starved);
    if (starved == NULL) {
        return RP_E_NO_MEMORY;
    }
    reactor->starved = starved;
    rp_connection *connections = calloc(RP_CONNECTION_BLOCK, sizeof *connections);
    if (connections == NULL) {
        return RP_E_NO_MEMORY;
    }
    for (uint32_t index = RP_CONNECTION_BLOCK; index-- > 0;) {
        connections[index].reactor = reactor;
        connections[index].slot = reactor->slots_made + index;
        free_slots[reactor->free_slot_count++] = connections[index].slot;
    }
    atomic_store_explicit(&reactor->blocks[block], connections, memory_order_release);
    reactor->slots_made = slots;
    return RP_OK;
}

static rp_connection *connection_at(rp_reactor *reactor, uint32_t slot) {
    if (slot / RP_CONNECTION_BLOCK >= reactor->blocks_max) {
        return NULL;
    }
    rp_connection *block = atomic_load_explicit(&reactor->blocks[slot / RP_CONNECTION_BLOCK], memory_order_acquire);
    return block != NULL ? &block[slot % RP_CONNECTION_BLOCK] : NULL;
}

static uint32_t slot_of(uint64_t id) { return (uint32_t)id & ((1u << SLOT_BITS) - 1); }

rp_connection *rp_connection_find(rp_reactor *reactor, uint64_t id) {
    rp_connection *connection = connection_at(reactor, slot_of(id));
    if (connection == NULL || id == 0 || atomic_load_explicit(&connection->id, memory_order_acquire) != id) {
        return NULL;
    }
    return connection;
}

/* What leaves the inbox is in output_bytes first, and we read in the opposite order: so it is counted at least once. */
int rp_connection_admit_inbox(rp_connection *connection, uint64_t size) {
    uint64_t inbox = atomic_fetch_add_explicit(&connection->inbox_bytes, size, memory_order_acquire);
    uint64_t output = atomic_load_explicit(&connection->output_bytes, memory_order_relaxed);
    if (output + inbox < connection->reactor->server->options.output_bytes_max) {
        return 1;
    }
    atomic_fetch_sub_explicit(&connection->inbox_bytes, size, memory_order_relaxed);
    return 0;
}

void rp_connection_settle_inbox(rp_reactor *reactor, uint64_t id, uint64_t size) {
    /* The bytes were counted for the slot, whichever connection has it now. */
    rp_connection *connection = connection_at(reactor, slot_of(id));
    atomic_fetch_sub_explicit(&connection->inbox_bytes, size, memory_order_release);
}

static void set_interest(rp_connection *connection) {
    uint32_t events = (connection->pauses == 0 ? EPOLLIN : 0u) | (connection->is_blocked ? EPOLLOUT : 0u);
    if (events != connection->events) {
        struct epoll_event event = {.events = events, .data.ptr = connection};
        epoll_ctl(connection->reactor->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
        connection->events = events;
    }
}

/* Returns when to check the connection again, and which limit is exceeded if that is past. */
static int64_t next_limit(const rp_connection *connection, bool *is_stall) {
    const rp_server_options *options = &connection->reactor->server->options;
    int64_t idle = options->idle_timeout_ms > 0 ? connection->last_active_ns + (int64_t)options->idle_timeout_ms * RP_NS_PER_MS : NEVER;
    if (connection->protocol != NULL) {
        idle = rp_connection_next_look(connection);
    }
    if (connection->is_dialed) { /* the other server closes connections that it no longer wants */
        idle = NEVER;
    }
    if (connection->opening == RP_OPENING_DIALED) {
        *is_stall = true;
        return connection->progress_ns + RP_DIAL_PATIENCE_MS * RP_NS_PER_MS;
    }
    bool is_stuck = connection->is_blocked || (connection->pauses & RP_PAUSE_MEMORY) != 0 || connection->opening == RP_OPENING_HANDSHAKE;
    int64_t stall =
        is_stuck && options->stall_timeout_ms > 0 ? connection->progress_ns + (int64_t)options->stall_timeout_ms * RP_NS_PER_MS : NEVER;
    *is_stall = stall < idle;
    return stall < idle ? stall : idle;
}

void rp_connection_look_again(rp_connection *connection) {
    bool is_stall;
    int64_t limit = next_limit(connection, &is_stall);
    if (limit != NEVER) {
        rp_timer_wheel_hasten(&connection->reactor->wheel, &connection->timer, limit);
    }
}

/* Returns a free connection that epoll watches; NULL if memory or the kernel's room for watches is exhausted. */
static rp_connection *take_slot(rp_reactor *reactor, int fd) {
    if (reactor->free_slot_count == 0 && make_block(reactor) != RP_OK) {
        return NULL;
    }
    rp_connection *connection = connection_at(reactor, reactor->free_slots[reactor->free_slot_count - 1]);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(reactor->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return NULL;
    }
    reactor->free_slot_count--;
    connection->fd = fd;
    connection->events = EPOLLIN;
    return connection;
}

static uint64_t make_id(rp_reactor *reactor, uint32_t slot) {
    if (++reactor->next_generation == 0) {
        reactor->next_generation = 1;
    }
    return (uint64_t)reactor->index << (SLOT_BITS + GENERATION_BITS) | (uint64_t)reactor->next_generation << SLOT_BITS | slot;
}

static void give_back_counts(rp_reactor *reactor) {
    atomic_fetch_sub_explicit(&reactor->connection_count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&reactor->server->connections, 1, memory_order_relaxed);
}

rp_connection *rp_connection_enter(rp_reactor *reactor, int fd, const rp_address *address) {
    rp_connection *connection = take_slot(reactor, fd);
    if (connection == NULL) {
        close(fd);
        give_back_counts(reactor);
        return NULL;
    }
    connection->pauses = 0;
    connection->is_closing = connection->is_dirty = connection->is_held_back = connection->is_blocked = false;
    connection->opening = RP_OPENING_FIRST;
    connection->protocol = reactor->server->protocol;
    connection->spoken = NULL;
    connection->has_more = false;
    connection->queued_bytes = 0;
    connection->look_ns = NEVER;
    connection->tls = NULL;
    connection->peer = connection->address = *address;
    connection->output = (rp_output){0};
    connection->last_active_ns = connection->progress_ns = reactor->now_ns;
    connection->close_reason = NULL;
    connection->closed_event = NULL;
    connection->is_dialed = false;
    connection->is_spared = false;
    connection->is_undecided = reactor->server->has_passage;
    connection->dial_fault = 0;
    atomic_store_explicit(&connection->output_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->id, make_id(reactor, connection->slot), memory_order_release);
    return connection;
}

void rp_connection_adopt(rp_reactor *reactor, int fd, const rp_address *address) {
    rp_connection *connection = rp_connection_enter(reactor, fd, address);
    if (connection == NULL) {
        return;
    }
    if (rp_dispatch_opened(connection) != RP_OK) {
        atomic_store_explicit(&connection->id, 0, memory_order_release);
        reactor->free_slot_count++;
        connection->fd = -1;
        close(fd);
        give_back_counts(reactor);
        return;
    }
    rp_connection_look_again(connection);
}

void rp_connection_close(rp_connection *connection, const char *reason) {
    if (!connection->is_closing) {
        connection->is_closing = true;
        connection->close_reason = reason;
        connection->next_closing = connection->reactor->closing;
        connection->reactor->closing = connection;
    }
}

static void leave_held_back(rp_connection *connection) {
    rp_connection **link = &connection->reactor->held_back;
    while (connection->is_held_back && *link != connection) {
        link = &(*link)->next_held_back;
    }
    if (connection->is_held_back) {
        *link = connection->next_held_back;
        connection->is_held_back = false;
    }
}

static void remove_starved(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    uint32_t index = 0;
    while (reactor->starved[index] != connection) {
        index++;
    }
    reactor->starved_count--;
    memmove(&reactor->starved[index], &reactor->starved[index + 1], (reactor->starved_count - index) * sizeof *reactor->starved);
    atomic_fetch_sub_explicit(&reactor->server->starved, 1, memory_order_relaxed);
}

static void resume(rp_connection *connection, enum rp_pause cause) {
    if ((connection->pauses & cause) == 0) {
        return;
    }
    connection->pauses &= (uint8_t)~cause;
    if (cause == RP_PAUSE_MEMORY) {
        remove_starved(connection);
    }
    if (connection->fd < 0) {
        return;
    }
    set_interest(connection);
    if (connection->pauses == 0 && connection->input_size > 0 && connection->large_frame_size == 0 && !connection->is_held_back) {
        connection->is_held_back = true;
        connection->next_held_back = connection->reactor->held_back;
        connection->reactor->held_back = connection;
    }
}

void rp_connection_reap(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    const rp_handler *handler = &reactor->server->handler;
    if (handler->on_close != NULL) {
        handler->on_close(handler->context, reactor, connection);
    }
    rp_connection_end_spoken(connection);
    rp_dispatch_closed(connection);
    atomic_store_explicit(&connection->id, 0, memory_order_release);
    if (connection->tls != NULL) {
        rp_connection_end_tls(connection);
    }
    close(connection->fd);
    connection->fd = -1;
    rp_output_drop(&connection->output, &reactor->pool);
    rp_connection_drop_input(connection);
    leave_held_back(connection);
    rp_timer_wheel_cancel(&reactor->wheel, &connection->timer);
    resume(connection, RP_PAUSE_MEMORY);
    reactor->free_slots[reactor->free_slot_count++] = connection->slot;
    give_back_counts(reactor);
}

void rp_connection_pause(rp_connection *connection, enum rp_pause cause) {
    if ((connection->pauses & cause) == 0) {
        connection->pauses |= (uint8_t)cause;
        if (cause == RP_PAUSE_MEMORY) {
            rp_reactor *reactor = connection->reactor;
            reactor->starved[reactor->starved_count++] = connection;
            connection->progress_ns = reactor->now_ns;
            atomic_fetch_add_explicit(&reactor->server->starved, 1, memory_order_relaxed);
            atomic_thread_fence(memory_order_seq_cst); /* pairs with rp_server_feed_starved */
            rp_connection_look_again(connection);
        }
        set_interest(connection);
    }
}

bool rp_connection_may_grow(rp_connection *connection, uint32_t more_bytes) {
    rp_reactor *reactor = connection->reactor;
    if (!rp_server_memory_is_over(reactor->server, more_bytes)) {
        return true;
    }
    if (reactor->overdrawn == NULL || reactor->overdrawn == connection) {
        reactor->overdrawn = connection;
        return true;
    }
    connection->wanted_bytes = more_bytes;
    rp_connection_pause(connection, RP_PAUSE_MEMORY);
    return false;
}

void rp_reactor_resume_starved(rp_reactor *reactor) {
    while (reactor->starved_count > 0) {
        rp_connection *oldest = reactor->starved[0];
        if (rp_server_memory_is_over(reactor->server, oldest->wanted_bytes)) {
            if (reactor->overdrawn != NULL) {
                return;
            }
            reactor->overdrawn = oldest;
        }
        resume(oldest, RP_PAUSE_MEMORY);
    }
}

void rp_connection_mark_dirty(rp_connection *connection) {
    if (!connection->is_dirty) {
        connection->is_dirty = true;
        connection->next_dirty = connection->reactor->dirty;
        connection->reactor->dirty = connection;
    }
}

static void write_broke(rp_connection *connection, int os_errno) {
    rp_reactor *reactor = connection->reactor;
    if (os_errno == 0) {
        rp_log_write(reactor->server->options.log, RP_LOG_ERROR,
                     "a file ended before the range that was to be sent from it; connection closed");
    }
    rp_output_drop(&connection->output, &reactor->pool);
    rp_connection_close(connection, os_errno == 0        ? "a file range could not be sent"
                                    : os_errno == ENOMEM ? "memory is out"
                                                         : "the other side is gone");
}

/* Writes what the socket takes, and decides by that amount what follows. */
uint64_t rp_connection_flush(rp_connection *connection, uint64_t limit) {
    rp_reactor *reactor = connection->reactor;
    const rp_server_options *options = &reactor->server->options;
    uint64_t sent;
    int os_errno = 0;
    connection->is_dirty = false;
    if (connection->opening == RP_OPENING_DIALED) {
        connection->is_blocked = true;
        set_interest(connection);
        return 0;
    }
    enum rp_flush_result result = connection->tls == NULL
                                      ? rp_output_flush(&connection->output, &reactor->pool, connection->fd, limit, &sent, &os_errno)
                                      : rp_tls_flush(connection->tls, &connection->output, connection->fd, limit, &sent, &os_errno);
    if (sent > 0) {
        rp_count(&reactor->stats.bytes_out, sent);
        connection->last_active_ns = connection->progress_ns = reactor->now_ns;
    }
    if (result == RP_FLUSH_BROKEN) {
        write_broke(connection, os_errno);
    }
    bool is_blocked = result == RP_FLUSH_BLOCKED;
    if (is_blocked && !connection->is_blocked) {
        connection->progress_ns = reactor->now_ns;
        connection->is_blocked = true;
        rp_connection_look_again(connection);
    }
    connection->is_blocked = is_blocked;
    uint64_t unsent = rp_connection_unsent_bytes(connection);
    rp_connection_show_unsent(connection);
    if (connection->is_closing) {
        return sent;
    }
    if (result == RP_FLUSH_YIELDED || (result == RP_FLUSH_DONE && connection->has_more)) {
        rp_connection_mark_dirty(connection);
    }
    set_interest(connection);
    /* While all connections together hold too much, one that does not read its answers may not send further requests. */
    uint64_t unsent_max = unsent > 0 && rp_server_memory_is_over(reactor->server, 0) ? 1 : options->output_bytes_max;
    if (unsent >= unsent_max || !rp_connection_may_read(connection)) {
        rp_connection_pause(connection, RP_PAUSE_OUTPUT);
    } else if (unsent <= unsent_max / 2) {
        resume(connection, RP_PAUSE_OUTPUT);
    }
    return sent;
}

/* Whether the socket has what ends the silence or the stall, and no turn has come to it yet. A process that was stopped goes on with a
 * turn without events (epoll_wait is interrupted), or with 512 of its connections. What a protocol looks at, such as a call whose answer is
 * not taken, may wait for either side of the socket; but what it is to look at in time, such as the deadline of a call, for neither. */
static bool is_unheard(const rp_connection *connection, int64_t limit, bool is_stall) {
    const rp_reactor *reactor = connection->reactor;
    bool is_look = connection->spoken != NULL && !is_stall, is_in_time = reactor->now_ns - limit <= reactor->wheel.tick_ns;
    uint32_t stalled_by = is_stall && connection->opening != RP_OPENING_HANDSHAKE ? EPOLLOUT : EPOLLIN;
    uint32_t wanted = connection->events & (is_look ? EPOLLIN | EPOLLOUT : stalled_by);
    struct pollfd socket = {connection->fd, (short)(((wanted & EPOLLIN) != 0 ? POLLIN : 0) | ((wanted & EPOLLOUT) != 0 ? POLLOUT : 0)), 0};
    return !(is_look && is_in_time) && wanted != 0 && poll(&socket, 1, 0) == 1;
}

void rp_connection_on_timer(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    const rp_server_options *options = &reactor->server->options;
    bool is_stall;
    int64_t limit = next_limit(connection, &is_stall);
    if (limit <= reactor->now_ns && !connection->is_spared && is_unheard(connection, limit, is_stall)) {
        connection->is_spared = true;
        rp_timer_wheel_schedule(&reactor->wheel, &connection->timer, reactor->now_ns + reactor->wheel.tick_ns);
        return;
    }
    connection->is_spared = false;
    if (limit > reactor->now_ns) {
        if (limit != NEVER) {
            rp_timer_wheel_schedule(&reactor->wheel, &connection->timer, limit);
        }
        return;
    }
    if (connection->opening == RP_OPENING_DIALED) {
        connection->dial_fault = ETIMEDOUT;
        rp_connection_close(connection, "not connected");
        return;
    }
    if (!is_stall && connection->spoken != NULL) {
        rp_connection_look(connection);
        return;
    }
    if (!is_stall) {
        rp_count(&reactor->stats.closed_idle, 1);
        rp_connection_close(connection, "idle");
        return;
    }
    char address[RP_ADDRESS_TEXT_MAX];
    rp_address_text(&connection->address, address);
    bool is_starved = (connection->pauses & RP_PAUSE_MEMORY) != 0, is_handshake = connection->opening == RP_OPENING_HANDSHAKE;
    const char *cause = is_starved     ? "no memory for its frame"
                        : is_handshake ? "its TLS handshake did not go on"
                                       : "it did not read its responses";
    rp_log_write(options->log, RP_LOG_WARNING, "connection %s closed: %s for %u ms, %llu bytes unsent", address, cause,
                 options->stall_timeout_ms, (unsigned long long)rp_connection_unsent_bytes(connection));
    rp_count(&reactor->stats.closed_stalled, 1);
    rp_connection_close(connection, is_starved || is_handshake ? cause : "stalled");
}

uint64_t rp_connection_id(const rp_connection *connection) { return atomic_load_explicit(&connection->id, memory_order_relaxed); }

int rp_connection_peer(const rp_connection *connection, uint8_t address[16], uint16_t *port) {
    memcpy(address, connection->peer.bytes, connection->peer.size);
    *port = connection->peer.port;
    return connection->peer.size;
}

uint64_t rp_connection_unsent_bytes(const rp_connection *connection) {
    return connection->output.unsent_bytes + (connection->tls != NULL ? connection->tls->sealed.unsent_bytes : 0);
}

void rp_connection_show_unsent(rp_connection *connection) {
    uint64_t bytes = rp_connection_unsent_bytes(connection) + connection->queued_bytes;
    atomic_store_explicit(&connection->output_bytes, bytes, memory_order_relaxed);
}

uint8_t *rp_connection_reserve(rp_connection *connection, uint32_t size) {
    return rp_output_reserve(&connection->output, &connection->reactor->pool, size);
}

void rp_connection_commit(rp_connection *connection, uint32_t size) {
    rp_output_commit(&connection->output, size);
    rp_count(&connection->reactor->stats.frames_out, 1);
    rp_connection_mark_dirty(connection);
}

int rp_connection_write(rp_connection *connection, const rp_command *command) {
    size_t size_max = rp_command_size_max(command);
    if (size_max == 0) {
        return RP_E_TOO_LARGE;
    }
    uint8_t *target = rp_connection_reserve(connection, (uint32_t)size_max);
    if (target == NULL) {
        return RP_E_NO_MEMORY;
    }
    int64_t size = rp_command_encode(command, target, size_max);
    if (size < 0) {
        return (int)size;
    }
    rp_connection_commit(connection, (uint32_t)size);
    return RP_OK;
}

int rp_connection_send_ranges(rp_connection *connection, const rp_file_range *ranges, uint32_t range_count) {
    int status = rp_output_append_ranges(&connection->output, &connection->reactor->pool, ranges, range_count);
    if (status == RP_OK) {
        rp_connection_mark_dirty(connection);
    }
    return status;
}
