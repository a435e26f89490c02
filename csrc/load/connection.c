/* connection.c: one socket of a load run: connect, buffers, frames in, frames out, and the slots of its requests.
 *
 * Registered once, edge-triggered, for reading and writing. A read that does not fill the buffer has emptied the socket, so a response
 * costs one recv instead of two.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "worker.h"

#define RETRY_NS (50 * RP_NS_PER_MS)

int rp_load_connection_begin(rp_load_connection *connection) {
    const rp_load *load = connection->worker->load;
    int fd = socket(load->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return RP_E_NETWORK;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (const struct sockaddr *)&load->address, load->address_size) != 0 && errno != EINPROGRESS) {
        close(fd);
        return RP_E_NETWORK;
    }
    connection->fd = fd;
    connection->state = RP_LOAD_CONNECTING;
    connection->input_begin = connection->input_end = 0;
    connection->output_begin = connection->output_end = 0;
    return RP_OK;
}

static int connect_result(const rp_load_connection *connection) {
    int failed = 0;
    socklen_t size = sizeof failed;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0)
        return errno;
    return failed;
}

int rp_load_connection_finish(rp_load_connection *connection, int timeout_ms) {
    struct pollfd writable = {connection->fd, POLLOUT, 0};
    int ready;
    do {
        ready = poll(&writable, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    if (ready != 1 || connect_result(connection) != 0)
        return RP_E_NETWORK;
    connection->state = RP_LOAD_OPEN;
    return RP_OK;
}

int rp_load_connection_register(rp_load_connection *connection) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    return epoll_ctl(connection->worker->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) == 0 ? RP_OK : RP_E_NETWORK;
}

void rp_load_connection_close(rp_load_connection *connection) {
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
    connection->state = RP_LOAD_BROKEN;
}

/* All requests under way are lost. The connection is tried again for reconnect_timeout_ms. */
void rp_load_connection_break(rp_load_connection *connection, int32_t code, const char *remark) {
    rp_load_worker *worker = connection->worker;
    const rp_slice text = {(const uint8_t *)remark, (uint32_t)strlen(remark)};
    if (connection->state == RP_LOAD_OPEN || connection->broken_ns == 0)
        connection->broken_ns = worker->now_ns;
    rp_load_connection_close(connection);
    worker->disconnects++;
    uint32_t lost = 0;
    for (uint32_t i = 0; i < connection->slot_count; i++) {
        rp_load_slot *slot = &connection->slots[i];
        if (slot->opaque == 0)
            continue;
        lost++;
        rp_load_worker_error(worker, code, text);
        rp_load_connection_end_request(connection, slot);
    }
    if (lost == 0)
        rp_load_worker_error(worker, code, text); /* losing an idle connection is an error too */
    int64_t give_up_ns = connection->broken_ns + worker->load->options.reconnect_timeout_ms * RP_NS_PER_MS;
    if (worker->now_ns >= give_up_ns) {
        connection->state = RP_LOAD_DEAD;
        if (worker->status == RP_OK)
            worker->status = RP_E_NETWORK;
        return;
    }
    connection->retry_ns = worker->now_ns + RETRY_NS;
    rp_load_worker_retry_at(worker, connection->retry_ns);
}

static void fill(rp_load_connection *connection) {
    if (connection->state != RP_LOAD_OPEN)
        return;
    if (connection->is_reader) {
        rp_load_reader_fill(connection);
    } else if (connection->worker->load->options.rate == 0) {
        rp_load_sender_fill(connection);
    } /* open loop: the worker's pump decides */
}

/* Returns NULL if no such request is under way. */
static rp_load_slot *find_slot(rp_load_connection *connection, int32_t opaque) {
    if (opaque < RP_LOAD_OPAQUE_MIN)
        return NULL;
    uint32_t index = (uint32_t)(opaque - RP_LOAD_OPAQUE_MIN) & ((UINT32_C(1) << connection->slot_bits) - 1);
    if (index >= connection->slot_count || connection->slots[index].opaque != opaque)
        return NULL;
    return &connection->slots[index];
}

/* Takes all complete frames out of the input. Returns 0 if the connection broke meanwhile. */
static int take_frames(rp_load_connection *connection) {
    rp_load_worker *worker = connection->worker;
    for (;;) {
        uint32_t have = connection->input_end - connection->input_begin;
        const uint8_t *frame = connection->input + connection->input_begin;
        int64_t size = rp_load_frame_size(frame, have);
        const char *cause = "the frame's size is impossible";
        if (size < 0) {
            rp_load_connection_break(connection, RP_E_PROTOCOL, cause);
            return 0;
        }
        if (size == 0 || size > have)
            return 1;
        rp_load_response response;
        if (rp_load_parse_response(frame, (uint32_t)size, &response, &cause) != RP_OK) {
            rp_load_connection_break(connection, RP_E_PROTOCOL, cause);
            return 0;
        }
        connection->input_begin += (uint32_t)size;
        worker->other_encoding += response.serialize_type != worker->load->options.serialize_type;
        if (!(response.flag & 1)) {
            worker->pushed_requests++;
            continue;
        }
        rp_load_slot *slot = find_slot(connection, response.opaque);
        if (slot == NULL) {
            worker->late_responses++;
        } else if (connection->is_reader) {
            rp_load_reader_response(connection, slot, &response);
        } else {
            rp_load_sender_response(connection, slot, &response);
        }
    }
}

/* Makes room behind the rest of a frame, growing to the frame's announced size. */
static int make_input_room(rp_load_connection *connection) {
    uint32_t have = connection->input_end - connection->input_begin;
    if (have == 0) {
        connection->input_begin = connection->input_end = 0;
        return 1;
    }
    int64_t wanted = rp_load_frame_size(connection->input + connection->input_begin, have);
    if (wanted > connection->input_capacity) {
        uint8_t *larger = realloc(connection->input, (size_t)wanted);
        if (larger == NULL)
            return 0;
        connection->input = larger;
        connection->input_capacity = (uint32_t)wanted;
    }
    if (connection->input_capacity - connection->input_begin < (wanted > have ? wanted : (int64_t)have + 4)) {
        memmove(connection->input, connection->input + connection->input_begin, have);
        connection->input_begin = 0;
        connection->input_end = have;
    }
    return 1;
}

static void read_all(rp_load_connection *connection) {
    for (;;) {
        if (!make_input_room(connection)) {
            rp_load_connection_break(connection, RP_E_NO_MEMORY, "no memory for the response");
            return;
        }
        size_t room = connection->input_capacity - connection->input_end;
        ssize_t got = recv(connection->fd, connection->input + connection->input_end, room, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got <= 0) {
            rp_load_connection_break(connection, RP_E_NETWORK, got == 0 ? "closed by the broker" : strerror(errno));
            return;
        }
        connection->input_end += (uint32_t)got;
        connection->worker->now_ns = rp_load_now_ns();
        if (!take_frames(connection))
            return;
        if ((size_t)got < room)
            return;
    }
}

void rp_load_connection_event(rp_load_connection *connection, uint32_t events) {
    if (connection->fd < 0)
        return;
    if (connection->state == RP_LOAD_CONNECTING) {
        int failed = connect_result(connection);
        if (failed != 0 || events & (EPOLLERR | EPOLLHUP)) {
            rp_load_connection_break(connection, RP_E_NETWORK, failed != 0 ? strerror(failed) : "connection refused");
            return;
        }
        if (!(events & EPOLLOUT))
            return;
        connection->state = RP_LOAD_OPEN;
        connection->broken_ns = 0;
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        read_all(connection);
    if (connection->fd >= 0 && events & EPOLLRDHUP) {
        rp_load_connection_break(connection, RP_E_NETWORK, "closed by the broker");
        return;
    }
    fill(connection);
    if (connection->state == RP_LOAD_OPEN && connection->output_end > connection->output_begin)
        rp_load_connection_flush(connection);
}

uint8_t *rp_load_connection_room(rp_load_connection *connection, uint32_t size) {
    if (connection->output_begin == connection->output_end)
        connection->output_begin = connection->output_end = 0;
    if (connection->output_capacity - connection->output_end >= size)
        return connection->output + connection->output_end;
    uint32_t have = connection->output_end - connection->output_begin;
    if (connection->output_capacity - have < size)
        return NULL;
    memmove(connection->output, connection->output + connection->output_begin, have);
    connection->output_begin = 0;
    connection->output_end = have;
    return connection->output + have;
}

/* Writes until the socket is full or the output empty; refills a drained output. */
void rp_load_connection_flush(rp_load_connection *connection) {
    while (connection->output_end > connection->output_begin) {
        ssize_t put = send(connection->fd, connection->output + connection->output_begin, connection->output_end - connection->output_begin,
                           MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (put < 0) {
            rp_load_connection_break(connection, RP_E_NETWORK, strerror(errno));
            return;
        }
        connection->output_begin += (uint32_t)put;
        if (connection->output_begin == connection->output_end)
            fill(connection);
    }
}

void rp_load_connection_arm_slot(rp_load_connection *connection, rp_load_slot *slot) {
    /* Always ten digits: 10^9 plus generation and index in 29 bits. */
    uint32_t generation_mask = (UINT32_C(1) << (29 - connection->slot_bits)) - 1;
    slot->generation = (slot->generation + 1) & generation_mask;
    slot->opaque = (int32_t)(RP_LOAD_OPAQUE_MIN + (slot->generation << connection->slot_bits | (uint32_t)(slot - connection->slots)));
}

rp_load_slot *rp_load_connection_take_slot(rp_load_connection *connection) {
    if (connection->free_count == 0)
        return NULL;
    rp_load_slot *slot = &connection->slots[connection->free_slots[--connection->free_count]];
    rp_load_connection_arm_slot(connection, slot);
    return slot;
}

void rp_load_connection_end_request(rp_load_connection *connection, rp_load_slot *slot) {
    slot->opaque = 0;
    if (connection->is_reader) /* its slots stay assigned to their queues */
        return;
    connection->free_slots[connection->free_count++] = (uint32_t)(slot - connection->slots);
    connection->worker->busy_slots--;
}
