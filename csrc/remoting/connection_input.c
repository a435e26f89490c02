/* connection_input.c: reads a socket into whole frames, in any fragmentation. RocketMQ: NettyDecoder.
 *
 * All connections of a reactor read into one arena, side by side, so frames stay in place until the turn's end, and an idle connection
 * owns no buffer. Bytes behind a connection's last whole frame are kept in a buffer of its own and put in front of the next read. Once
 * LARGE_REST_MIN bytes of a frame have arrived, the buffer collects that frame in place (readv: the rest of the frame, then the arena).
 * A spare buffer that holds the whole frame is used (input_pool.h); otherwise the buffer grows with what has arrived, to at most twice
 * that, whatever size the frame claims.
 *
 * A connection that is paused in the middle of its bytes keeps the unhandled frames in the same buffer ("held back").
 */
#include "reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../base/log_inl.h"
#include "stats_inl.h"

#define READ_BYTES_MIN 4096u         /* with less room the connection waits for the next turn */
#define LARGE_REST_MIN (16u * 1024)

void rp_connection_account_input(rp_reactor *reactor, uint32_t taken, uint32_t given_back) {
    reactor->input_bytes += taken;
    reactor->input_bytes -= given_back;
    atomic_store_explicit(&reactor->stats.buffer_bytes, reactor->input_bytes + reactor->pool.buffer_bytes, memory_order_relaxed);
}

/* Notes that the connection holds no bytes any more. */
static void forget_input(rp_connection *connection) {
    connection->input = NULL;
    connection->input_size = connection->input_capacity = connection->large_frame_size = 0;
    if (connection->reactor->overdrawn == connection) {
        connection->reactor->overdrawn = NULL;
    }
}

void rp_connection_drop_input(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    if (connection->input != NULL) {
        rp_connection_account_input(reactor, 0, connection->input_capacity);
        rp_input_pool_give(&reactor->spares, connection->input, connection->input_capacity, reactor->now_ns);
    }
    forget_input(connection);
}

/* Keeps the unhandled end of what was read. frame_size: of the frame it begins with, 0 if that is unknown or the frame is whole. */
static void keep_rest(rp_connection *connection, const uint8_t *rest, uint32_t size, uint32_t frame_size) {
    rp_reactor *reactor = connection->reactor;
    if (size == 0) {
        return;
    }
    uint32_t capacity = size;
    if (size >= LARGE_REST_MIN && frame_size > size) {
        capacity = frame_size - size < size ? frame_size : 2 * size;
        connection->large_frame_size = frame_size;
        if (!rp_server_memory_is_over(reactor->server, frame_size)) {
            connection->input = rp_input_pool_take(&reactor->spares, frame_size, &capacity, reactor->now_ns);
        }
    }
    if (connection->input == NULL) {
        connection->input = malloc(capacity);
    }
    if (connection->input == NULL) {
        connection->large_frame_size = 0;
        rp_connection_close(connection, "memory is out");
        return;
    }
    memcpy(connection->input, rest, size);
    connection->input_size = size;
    connection->input_capacity = capacity;
    rp_connection_account_input(reactor, capacity, 0);
    if (frame_size > size) {
        rp_connection_may_grow(connection, 0);
    }
}

/* Names the protocol that the peer seems to speak if its first four bytes are no length. */
static const char *other_protocol(const uint8_t *data) {
    if (memcmp(data, "GET ", 4) == 0 || memcmp(data, "POST", 4) == 0 || memcmp(data, "HEAD", 4) == 0 || memcmp(data, "PRI ", 4) == 0)
        return ": it begins an HTTP request";
    return "";
}

static void refuse_frame(rp_connection *connection, const uint8_t *data, int status) {
    rp_reactor *reactor = connection->reactor;
    const rp_server_options *options = &reactor->server->options;
    char address[RP_ADDRESS_TEXT_MAX];
    uint32_t size = (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
    rp_address_text(&connection->address, address);
    rp_count(&reactor->stats.frames_bad, 1);
    if (status == RP_E_TOO_LARGE) {
        rp_log_write(options->log, RP_LOG_WARNING, "connection %s closed: a frame of %u bytes is past the limit of %u%s", address, size,
                     options->frame_size_max, other_protocol(data));
    } else {
        rp_log_write(options->log, RP_LOG_WARNING, "connection %s closed: a frame of %u bytes with a header that does not fit into it",
                     address, size);
    }
    rp_connection_close(connection, "bad frame");
}

/* Handles the whole frames in data and keeps the rest. data must stay readable until the turn's end. */
static void handle_bytes(rp_connection *connection, const uint8_t *data, uint32_t size) {
    const rp_server_options *options = &connection->reactor->server->options;
    uint32_t frame_size = 0;
    while (size > 0 && !connection->is_closing) {
        if (connection->pauses != 0) {
            frame_size = 0;
            break;
        }
        if (connection->opening != RP_OPENING_DONE) {
            if (!rp_connection_begin(connection, &data, &size)) {
                break;
            }
            continue;
        }
        if (connection->is_undecided && rp_connection_decide(connection, data, size) == 0) {
            break;
        }
        if (connection->protocol != NULL) {
            rp_connection_speak(connection, data, size);
            return;
        }
        int status = rp_frame_scan(data, size, options->frame_size_max, &frame_size);
        if (status == 0) {
            break;
        }
        if (status < 0) {
            refuse_frame(connection, data, status);
            return;
        }
        rp_dispatch_frame(connection, data, frame_size);
        data += frame_size;
        size -= frame_size;
        if (connection->output.unsent_bytes >= options->output_bytes_max) {
            rp_connection_pause(connection, RP_PAUSE_OUTPUT);
        }
    }
    if (!connection->is_closing) {
        keep_rest(connection, data, size, frame_size);
    }
}

/* 1: bytes were read; 0: there were none; otherwise the connection is closed. */
static int judge_read(rp_connection *connection, ssize_t count) {
    rp_reactor *reactor = connection->reactor;
    if (count > 0) {
        rp_count(&reactor->stats.bytes_in, (uint64_t)count);
        connection->last_active_ns = reactor->now_ns;
        return 1;
    }
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return 0;
    }
    rp_connection_close(connection, count == 0 ? "closed by the other side" : "the other side is gone");
    return -1;
}

/* Takes bytes that lie in the arena, behind room for the rest. */
static void take_behind_rest(rp_connection *connection, uint32_t rest, uint32_t count) {
    rp_reactor *reactor = connection->reactor;
    uint8_t *start = reactor->read_arena + reactor->read_cursor;
    if (rest > 0) {
        memcpy(start, connection->input, rest);
        rp_connection_drop_input(connection);
    }
    reactor->read_cursor += rest + count;
    handle_bytes(connection, start, rest + count);
}

static void read_behind_rest(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    uint32_t rest = connection->input_size;
    uint32_t room = RP_READ_ARENA_BYTES - reactor->read_cursor;
    if (room < rest + READ_BYTES_MIN) {
        return; /* epoll reports it again */
    }
    uint8_t *start = reactor->read_arena + reactor->read_cursor;
    room -= rest;
    ssize_t count = recv(connection->fd, start + rest, room < RP_READ_BYTES_MAX ? room : RP_READ_BYTES_MAX, MSG_DONTWAIT);
    if (judge_read(connection, count) == 1) {
        take_behind_rest(connection, rest, (uint32_t)count);
    }
}

static int set_capacity(rp_connection *connection, uint32_t capacity) {
    uint8_t *grown = realloc(connection->input, capacity);
    if (grown == NULL) {
        rp_connection_close(connection, "memory is out");
        return RP_E_NO_MEMORY;
    }
    rp_connection_account_input(connection->reactor, capacity, connection->input_capacity);
    connection->input = grown;
    connection->input_capacity = capacity;
    return RP_OK;
}

/* Grows the buffer of a large frame: to twice what has arrived, at most to the frame's size. */
static int grow_input(rp_connection *connection) {
    uint32_t size = connection->input_size;
    uint32_t missing = connection->large_frame_size - size;
    uint32_t capacity = missing < size ? connection->large_frame_size : 2 * size;
    if (!rp_connection_may_grow(connection, capacity - connection->input_capacity)) {
        return RP_E_BUSY;
    }
    return set_capacity(connection, capacity);
}

/* Handles a complete large frame; its buffer is kept until the turn's end. */
static void handle_large_frame(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    rp_turn_buffer *kept = rp_arena_take(reactor->arena, sizeof *kept);
    if (kept == NULL) {
        rp_connection_close(connection, "memory is out");
        return;
    }
    *kept = (rp_turn_buffer){reactor->turn_buffers, connection->input, connection->input_capacity};
    reactor->turn_buffers = kept;
    uint32_t size = connection->large_frame_size;
    forget_input(connection);
    rp_dispatch_frame(connection, kept->bytes, size);
    if (connection->output.unsent_bytes >= reactor->server->options.output_bytes_max) {
        rp_connection_pause(connection, RP_PAUSE_OUTPUT);
    }
}

static void read_large_frame(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    if (connection->input_size == connection->input_capacity && grow_input(connection) != RP_OK) {
        return;
    }
    uint32_t frame_size = connection->large_frame_size, capacity = connection->input_capacity;
    uint32_t missing = (capacity < frame_size ? capacity : frame_size) - connection->input_size;
    uint32_t room = RP_READ_ARENA_BYTES - reactor->read_cursor;
    uint8_t *behind = reactor->read_arena + reactor->read_cursor;
    struct iovec parts[2] = {{connection->input + connection->input_size, missing},
                             {behind, room < RP_READ_BYTES_MAX ? room : RP_READ_BYTES_MAX}};
    int has_frame_end = capacity >= frame_size;
    ssize_t count = readv(connection->fd, parts, has_frame_end && room >= READ_BYTES_MIN ? 2 : 1);
    if (judge_read(connection, count) != 1) {
        return;
    }
    connection->progress_ns = reactor->now_ns;
    uint32_t in_frame = (uint32_t)count < missing ? (uint32_t)count : missing;
    uint32_t size_behind = (uint32_t)count - in_frame;
    connection->input_size += in_frame;
    if (connection->input_size == connection->large_frame_size) {
        reactor->read_cursor += size_behind;
        handle_large_frame(connection);
        handle_bytes(connection, behind, size_behind);
    }
}

/* Copies decrypted bytes to the large frame, and continues behind it. TLS decrypts a record as a whole, so it may reach beyond the
 * buffer. */
static void take_into_large_frame(rp_connection *connection, uint32_t count) {
    rp_reactor *reactor = connection->reactor;
    const uint8_t *bytes = reactor->read_arena + reactor->read_cursor;
    uint32_t missing = connection->large_frame_size - connection->input_size;
    uint32_t in_frame = count < missing ? count : missing;
    uint32_t size = connection->input_size + in_frame;
    if (size > connection->input_capacity && set_capacity(connection, size) != RP_OK) {
        return;
    }
    memcpy(connection->input + connection->input_size, bytes, in_frame);
    connection->input_size = size;
    connection->progress_ns = reactor->now_ns;
    if (in_frame == missing) {
        reactor->read_cursor += count;
        handle_large_frame(connection);
        handle_bytes(connection, bytes + in_frame, count - in_frame);
    }
}

void rp_connection_take_opened(rp_connection *connection, uint32_t size) {
    if (connection->large_frame_size > 0) {
        take_into_large_frame(connection, size);
    } else {
        take_behind_rest(connection, connection->input_size, size);
    }
}

/* Reads for a connection that speaks TLS: everything that the socket has is decrypted at once. */
static void read_sealed(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    bool is_large = connection->large_frame_size > 0;
    uint32_t rest = is_large ? 0 : connection->input_size;
    if (is_large && connection->input_size == connection->input_capacity && grow_input(connection) != RP_OK) {
        return;
    }
    uint32_t room = RP_READ_ARENA_BYTES - reactor->read_cursor;
    if (room < rest + RP_TLS_RECORD_MAX + READ_BYTES_MIN) {
        return; /* epoll reports it again */
    }
    room -= rest + RP_TLS_RECORD_MAX;
    uint32_t most = room < RP_READ_BYTES_MAX ? room : RP_READ_BYTES_MAX;
    uint32_t missing = connection->input_capacity - connection->input_size;
    if (is_large && connection->input_capacity < connection->large_frame_size && missing < most) {
        most = missing;
    }
    ssize_t count = recv(connection->fd, reactor->sealed, most, MSG_DONTWAIT);
    if (judge_read(connection, count) == 1) {
        rp_connection_open_sealed(connection, reactor->sealed, (uint32_t)count, rest);
    }
}

void rp_connection_read(rp_connection *connection) {
    if (connection->is_closing || connection->pauses != 0 || connection->is_held_back) {
        return;
    }
    if (connection->opening != RP_OPENING_DONE && connection->reactor->handshakes == RP_HANDSHAKES_PER_TURN) {
        return; /* epoll reports it again */
    }
    if (connection->tls != NULL) {
        read_sealed(connection);
    } else if (connection->large_frame_size > 0) {
        read_large_frame(connection);
    } else {
        read_behind_rest(connection);
    }
}

void rp_connection_handle_held_back(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    uint32_t size = connection->input_size;
    if (connection->is_closing || connection->pauses != 0 || size == 0) {
        return;
    }
    if (RP_READ_ARENA_BYTES - reactor->read_cursor < size) {
        connection->is_held_back = true;
        connection->next_held_back = reactor->held_back;
        reactor->held_back = connection;
        return;
    }
    uint8_t *start = reactor->read_arena + reactor->read_cursor;
    memcpy(start, connection->input, size);
    reactor->read_cursor += size;
    rp_connection_drop_input(connection);
    handle_bytes(connection, start, size);
}
