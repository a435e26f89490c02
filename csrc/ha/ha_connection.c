/* ha_connection.c: see ha_connection.h. One frame at a time; small ones in one sendmsg, large ones header + sendfile. */
#include "ha_connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/clock_inl.h"
#include "ha_connection_inl.h"

/* Below this size a copy into the socket costs less than a second system call. Lower than a pull's (SENDFILE_BYTES_MIN of
 * remoting/output.c): these bytes are contiguous, and a slave splices what arrives so. */
#define SENDFILE_BYTES_MIN (32u * 1024u)
#define FRAME_MS_MAX 50 /* a frame that took longer makes the next one smaller */
#define FLOW_MAX (INT64_C(1) << 50) /* bytes a second: no link has more, and sums of it stay in range */
#define READS_MAX 16    /* in one turn: epoll is level-triggered, so the rest follows in the next */

/* 0 or less: no limit. */
static int64_t flow_rate(const rp_ha_master_options *options) {
    return options->flow_bytes_per_second < FLOW_MAX ? options->flow_bytes_per_second : FLOW_MAX;
}

rp_ha_connection *rp_ha_connection_create(const rp_ha_master_options *options, int fd, const rp_address *address, int64_t now_ns,
                                          int64_t now_ms) {
    rp_ha_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return NULL;
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* only affects latency */
    connection->options = options;
    connection->fd = fd;
    connection->address = *address;
    rp_address_text(address, connection->address_text);
    connection->connected_ms = now_ms;
    connection->frame_bytes = options->transfer_bytes;
    connection->last_read_ns = now_ns;
    connection->last_write_ns = now_ns;
    connection->flow_filled_ns = now_ns;
    connection->flow_tokens = flow_rate(options);
    connection->window_start_ns = now_ns;
    atomic_init(&connection->request_offset, -1);
    atomic_init(&connection->next_offset, -1);
    atomic_init(&connection->acked_offset, -1);
    atomic_init(&connection->switched.broker_id, -1);
    return connection;
}

void rp_ha_connection_destroy(rp_ha_connection *connection) {
    if (connection->body_left > 0)
        rp_log_range_release(connection->range.pin);
    close(connection->fd);
    free(connection->switched.handshake);
    free(connection);
}

int rp_ha_connection_fd(const rp_ha_connection *connection) { return connection->fd; }
const char *rp_ha_connection_address(const rp_ha_connection *connection) { return connection->address_text; }

int rp_ha_connection_shares_host(const rp_ha_connection *connection, const rp_ha_connection *other) {
    return connection->address.size == other->address.size &&
           memcmp(connection->address.bytes, other->address.bytes, connection->address.size) == 0;
}

/* The first offset that a slave reports decides where its transfer starts. */
int rp_ha_connection_start(rp_ha_connection *connection, int64_t requested, rp_error *error) {
    const rp_commit_log *log = connection->options->commit_log;
    int64_t min = rp_commit_log_min_offset(log), max = rp_commit_log_max_offset(log);
    int64_t start = requested;
    if (requested == 0) {
        int is_first = connection->options->epochs != NULL && !connection->switched.from_last_file;
        start = is_first ? min : max - max % (int64_t)connection->options->commit_log_file_size;
        if (start < min)
            start = min;
    } else if (requested < min) {
        return rp_error_set(error, RP_E_RANGE, 0, NULL, requested,
                            "slave %s asks for offset %lld, older than our first %lld: empty its store and let it start again",
                            connection->address_text, (long long)requested, (long long)min);
    }
    atomic_store_explicit(&connection->request_offset, requested, memory_order_relaxed);
    atomic_store_explicit(&connection->next_offset, start, memory_order_relaxed);
    return RP_OK;
}

int rp_ha_connection_take_ack(rp_ha_connection *connection, int64_t offset, rp_error *error) {
    int64_t max = rp_commit_log_max_offset(connection->options->commit_log);
    if (offset < 0 || offset > max)
        return rp_error_set(
            error, RP_E_RANGE, 0, NULL, offset,
            "slave %s says it holds offset %lld but this master ends at %lld: not a slave of ours, or its store has diverged",
            connection->address_text, (long long)offset, (long long)max);
    if (atomic_load_explicit(&connection->request_offset, memory_order_relaxed) < 0) {
        int status = rp_ha_connection_start(connection, offset, error);
        if (status < 0)
            return status;
    } else if (offset > rp_ha_connection_next_offset(connection) &&
               offset > atomic_load_explicit(&connection->request_offset, memory_order_relaxed)) {
        return rp_error_set(error, RP_E_RANGE, 0, NULL, offset,
                            "slave %s acknowledges offset %lld but was sent no further than %lld: its store has diverged",
                            connection->address_text, (long long)offset, (long long)rp_ha_connection_next_offset(connection));
    }
    if (offset == atomic_load_explicit(&connection->acked_offset, memory_order_relaxed))
        return 0;
    atomic_store_explicit(&connection->acked_offset, offset, memory_order_relaxed);
    return 1;
}

/* Of several acks only the last one counts. But a first report, which alone says where to start, may have others right behind it. */
static int take_acks(rp_ha_connection *connection, rp_error *error) {
    int moved = 0;
    uint32_t whole = connection->input_size - connection->input_size % RP_HA_ACK_SIZE;
    if (whole == 0)
        return 0;
    if (atomic_load_explicit(&connection->request_offset, memory_order_relaxed) < 0) {
        moved = rp_ha_connection_take_ack(connection, (int64_t)rp_get_u64(connection->input), error);
        if (moved < 0)
            return moved;
    }
    int status = rp_ha_connection_take_ack(connection, (int64_t)rp_get_u64(connection->input + whole - RP_HA_ACK_SIZE), error);
    memmove(connection->input, connection->input + whole, connection->input_size - whole);
    connection->input_size -= whole;
    return status < 0 ? status : status | moved;
}

int rp_ha_connection_receive(rp_ha_connection *connection, int64_t now_ns, int64_t heard_ns, rp_error *error) {
    int moved = 0;
    for (int round = 0; round < READS_MAX; round++) {
        size_t room = sizeof connection->input - connection->input_size;
        ssize_t got = recv(connection->fd, connection->input + connection->input_size, room, 0);
        if (got == 0)
            return rp_error_set(error, RP_E_NETWORK, 0, NULL, -1, "slave %s closed the connection", connection->address_text);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                break;
            return rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "reading from slave %s failed: %s", connection->address_text,
                                strerror(errno));
        }
        connection->last_read_ns = now_ns;
        connection->input_size += (uint32_t)got;
        int taken =
            connection->options->epochs != NULL ? rp_ha_connection_take_words(connection, heard_ns, error) : take_acks(connection, error);
        if (taken < 0)
            return taken;
        moved |= taken;
        if ((size_t)got < room)
            break;
    }
    return moved;
}

/* Writes the header of the next frame. Returns how many of the `size` bytes at offset the frame takes, or a negative status. */
static int64_t put_header(rp_ha_connection *connection, int64_t offset, int64_t size, rp_error *error) {
    if (connection->options->epochs != NULL)
        return rp_ha_connection_put_frame(connection, offset, size, error);
    rp_put_u64(connection->header, (uint64_t)offset);
    rp_put_u32(connection->header + 8, (uint32_t)size);
    connection->head = connection->header;
    connection->header_size = connection->header_left = RP_HA_HEADER_SIZE;
    return size;
}

/* Returns how many bytes flow control admits now. */
static int64_t flow_allowance(rp_ha_connection *connection, int64_t now_ns) {
    int64_t rate = flow_rate(connection->options);
    if (rate <= 0)
        return INT64_MAX;
    int64_t elapsed = now_ns - connection->flow_filled_ns;
    if (elapsed > RP_NS_PER_S)
        elapsed = RP_NS_PER_S; /* at most one second's worth is saved up; also keeps the product in range */
    int64_t earned = (int64_t)((double)rate * (double)elapsed / (double)RP_NS_PER_S);
    if (earned > 0) {
        connection->flow_tokens += earned;
        connection->flow_filled_ns = now_ns;
    }
    if (connection->flow_tokens > rate) /* it may have been lowered since */
        connection->flow_tokens = rate;
    return connection->flow_tokens;
}

/* Prepares the next frame if there is one. 1: prepared; 0: nothing to send; negative: end the connection. */
static int begin_frame(rp_ha_connection *connection, int64_t now_ns, rp_error *error) {
    const rp_ha_master_options *options = connection->options;
    int64_t offset = rp_ha_connection_next_offset(connection);
    if (offset < 0)
        return 0;
    int64_t available = rp_commit_log_max_offset(options->commit_log) - offset;
    int64_t heartbeat_ns = (int64_t)options->heartbeat_interval_ms * RP_NS_PER_MS;
    int64_t allowance = available > 0 ? flow_allowance(connection, now_ns) : 0;
    if (available <= 0 || allowance <= 0) {
        if (now_ns - connection->last_write_ns < heartbeat_ns)
            return 0;
        if (put_header(connection, offset, 0, error) < 0)
            return error->status;
        connection->new_heartbeats++;
        return 1;
    }
    int64_t size = available < connection->frame_bytes ? available : connection->frame_bytes;
    if (size > allowance)
        size = allowance;
    int64_t file_left = (int64_t)options->commit_log_file_size - offset % (int64_t)options->commit_log_file_size;
    if (size > file_left)
        size = file_left;
    size = put_header(connection, offset, size, error);
    if (size < 0)
        return (int)size;
    int status = rp_commit_log_read(options->commit_log, offset, (uint32_t)size, &connection->range);
    connection->header_left = status < 0 ? 0 : connection->header_left;
    if (rp_status_is_passing(status))
        return rp_error_set(error, status, 0, NULL, offset, "log bytes for slave %s cannot be read just now, it connects again",
                            connection->address_text);
    if (status < 0)
        return rp_error_set(error, status, 0, NULL, offset,
                            "log bytes for slave %s are gone (retention overtook it?): empty its store and let it start again",
                            connection->address_text);
    connection->frame_begun_ns = now_ns;
    connection->body_left = (uint32_t)size;
    connection->new_frames++;
    return 1;
}

/* Makes one system call for the frame under way. Returns the bytes sent, 0 if the socket is full, negative on error. */
static int64_t send_some(rp_ha_connection *connection, rp_error *error) {
    uint32_t done = connection->range.size - connection->body_left;
    ssize_t sent;
    if (connection->header_left > 0) {
        int split = connection->body_left >= SENDFILE_BYTES_MIN;
        struct iovec parts[2] = {
            {(void *)(uintptr_t)(connection->head + connection->header_size - connection->header_left), connection->header_left},
            {NULL, 0},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};
        if (connection->body_left > 0 && !split) {
            parts[1].iov_base = (void *)(uintptr_t)(connection->range.address + done);
            parts[1].iov_len = connection->body_left;
            message.msg_iovlen = 2;
        }
        sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL | (split ? MSG_MORE : 0));
    } else {
        off_t position = (off_t)(connection->range.file_offset + done);
        sent = sendfile(connection->fd, connection->range.fd, &position, connection->body_left);
        if (sent == 0)
            return rp_error_set(error, RP_E_CORRUPT, 0, NULL, position, "commit log file is shorter than its published bytes");
    }
    if (sent >= 0)
        return sent;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    return rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "sending to slave %s failed: %s", connection->address_text, strerror(errno));
}

static void count_sent(rp_ha_connection *connection, uint32_t body_sent, int64_t now_ns) {
    connection->new_bytes += body_sent;
    connection->window_bytes += body_sent;
    if (connection->options->flow_bytes_per_second > 0)
        connection->flow_tokens -= body_sent;
    atomic_fetch_add_explicit(&connection->bytes_sent, body_sent, memory_order_relaxed);
    int64_t span = now_ns - connection->window_start_ns;
    if (span >= RP_NS_PER_S) {
        uint64_t rate = (uint64_t)((double)connection->window_bytes * (double)RP_NS_PER_S / (double)span);
        atomic_store_explicit(&connection->bytes_per_second, rate, memory_order_relaxed);
        connection->window_start_ns = now_ns;
        connection->window_bytes = 0;
    }
}

/* Accounts sent bytes; when the frame is complete, releases its pin. */
static void advance(rp_ha_connection *connection, uint32_t sent, int64_t now_ns) {
    uint32_t of_header = sent < connection->header_left ? sent : connection->header_left;
    connection->header_left -= of_header;
    uint32_t of_body = sent - of_header;
    connection->last_write_ns = now_ns;
    if (of_body > 0) {
        connection->body_left -= of_body;
        count_sent(connection, of_body, now_ns);
        atomic_store_explicit(&connection->next_offset, rp_ha_connection_next_offset(connection) + of_body, memory_order_relaxed);
        if (connection->body_left == 0)
            rp_log_range_release(connection->range.pin);
    } else if (connection->header_left == 0 && connection->body_left == 0) { /* a heartbeat: nothing was sent for its interval */
        atomic_store_explicit(&connection->bytes_per_second, 0, memory_order_relaxed);
    }
}

/* Chooses the size of the next frame. Large ones are cheap for both ends (our slave splices them), but RocketMQ's slave acknowledges
 * whole frames only, so on a slow link they must not take long. */
static void adapt_frame_bytes(rp_ha_connection *connection, int64_t now_ns) {
    uint32_t floor = connection->options->transfer_bytes, ceiling = connection->options->transfer_bytes_max;
    if (now_ns - connection->frame_begun_ns > FRAME_MS_MAX * RP_NS_PER_MS)
        connection->frame_bytes = connection->frame_bytes / 2 > floor ? connection->frame_bytes / 2 : floor;
    else if (connection->range.size >= connection->frame_bytes) /* it had full size, so more waits behind it */
        connection->frame_bytes = connection->frame_bytes <= ceiling / 2 ? connection->frame_bytes * 2 : ceiling;
}

int rp_ha_connection_pump(rp_ha_connection *connection, int64_t now_ns, uint64_t turn_bytes, rp_error *error) {
    uint64_t sent_bytes = 0;
    connection->socket_is_full = 0;
    while (sent_bytes < turn_bytes) {
        if (connection->header_left == 0 && connection->body_left == 0) {
            connection->range.size = 0;
            int status = begin_frame(connection, now_ns, error);
            if (status <= 0)
                return status;
        }
        int64_t sent = send_some(connection, error);
        if (sent < 0)
            return (int)sent;
        if (sent == 0) {
            connection->socket_is_full = 1;
            return RP_OK;
        }
        advance(connection, (uint32_t)sent, now_ns);
        sent_bytes += (uint64_t)sent;
        if (connection->header_left == 0 && connection->body_left == 0 && connection->range.size > 0)
            adapt_frame_bytes(connection, now_ns);
    }
    return RP_OK;
}

void rp_ha_connection_ask(rp_ha_connection *connection) {
    connection->last_write_ns -= (int64_t)connection->options->heartbeat_interval_ms * RP_NS_PER_MS;
}

int rp_ha_connection_wants_write(const rp_ha_connection *connection) { return connection->socket_is_full; }

/* True if bytes wait and the socket takes them: only flow control may hold them back. */
static int has_backlog(const rp_ha_connection *connection) {
    int64_t offset = rp_ha_connection_next_offset(connection);
    return !connection->socket_is_full && offset >= 0 && offset < rp_commit_log_max_offset(connection->options->commit_log);
}

int rp_ha_connection_has_work(const rp_ha_connection *connection) {
    if (!connection->socket_is_full && (connection->header_left > 0 || connection->body_left > 0))
        return 1;
    return has_backlog(connection) && (connection->options->flow_bytes_per_second <= 0 || connection->flow_tokens > 0);
}

int64_t rp_ha_connection_backlog(const rp_ha_connection *connection) {
    int64_t offset = rp_ha_connection_next_offset(connection);
    if (offset < 0 || connection->socket_is_full || connection->options->flow_bytes_per_second > 0)
        return INT64_MAX;
    return rp_commit_log_max_offset(connection->options->commit_log) - offset;
}

int64_t rp_ha_connection_deadline(const rp_ha_connection *connection) {
    int64_t silent = connection->last_read_ns + (int64_t)connection->options->housekeeping_interval_ms * RP_NS_PER_MS;
    int64_t heartbeat = connection->last_write_ns + (int64_t)connection->options->heartbeat_interval_ms * RP_NS_PER_MS;
    int64_t first = silent;
    if (rp_ha_connection_next_offset(connection) >= 0 && !connection->socket_is_full && heartbeat < first)
        first = heartbeat;
    int64_t rate = flow_rate(connection->options);
    if (rate > 0 && connection->flow_tokens <= 0 && has_backlog(connection)) {
        /* 1 % of a second's bytes at a time, but at least one byte */
        int64_t pause = 10 * RP_NS_PER_MS, byte = (RP_NS_PER_S + rate - 1) / rate;
        int64_t refill = connection->flow_filled_ns + (pause > byte ? pause : byte);
        if (refill < first)
            first = refill;
    }
    return first;
}

int rp_ha_connection_is_silent(const rp_ha_connection *connection, int64_t now_ns) {
    return now_ns - connection->last_read_ns > (int64_t)connection->options->housekeeping_interval_ms * RP_NS_PER_MS;
}

int64_t rp_ha_connection_acked(const rp_ha_connection *connection) {
    return atomic_load_explicit(&connection->acked_offset, memory_order_relaxed);
}

void rp_ha_connection_read_row(const rp_ha_connection *connection, rp_ha_slave_row *row) {
    memcpy(row->address, connection->address_text, sizeof row->address);
    row->request_offset = atomic_load_explicit(&connection->request_offset, memory_order_relaxed);
    row->acked_offset = rp_ha_connection_acked(connection);
    row->next_offset = rp_ha_connection_next_offset(connection);
    row->bytes_sent = atomic_load_explicit(&connection->bytes_sent, memory_order_relaxed);
    row->bytes_per_second = atomic_load_explicit(&connection->bytes_per_second, memory_order_relaxed);
    row->connected_ms = connection->connected_ms;
    row->broker_id = atomic_load_explicit(&connection->switched.broker_id, memory_order_relaxed);
    row->is_learner = atomic_load_explicit(&connection->switched.is_learner, memory_order_relaxed);
    row->caught_up_ms = atomic_load_explicit(&connection->switched.caught_up_ms, memory_order_relaxed);
    row->is_in_set = row->has_caught_up = 0;
}

static uint64_t take(uint64_t *counter) {
    uint64_t value = *counter;
    *counter = 0;
    return value;
}
uint64_t rp_ha_connection_take_frames(rp_ha_connection *connection) { return take(&connection->new_frames); }
uint64_t rp_ha_connection_take_heartbeats(rp_ha_connection *connection) { return take(&connection->new_heartbeats); }
uint64_t rp_ha_connection_take_bytes(rp_ha_connection *connection) { return take(&connection->new_bytes); }
