/* dialed.c: connections that a handler opens to other servers, on the same reactor: it writes requests to them, and answers arrive at
 * its on_response. They speak frames, whatever the server's own connections speak. RocketMQ: NettyRemotingClient.createChannel.
 *
 *   rp_reactor_dial ─ connect without waiting ─ writable: connected ─ frames
 *                                             └ an error, or RP_DIAL_PATIENCE_MS: closed, rp_connection_dial_fault says why
 */
#include "reactor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNACKNOWLEDGED_MS 10000 /* a host that has not acknowledged data for this long is considered gone */

static int connect_to(int fd, const rp_address *address) {
    struct sockaddr_in six_less = {.sin_family = AF_INET, .sin_port = htons(address->port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
    if (address->size == 4) {
        memcpy(&six_less.sin_addr, address->bytes, 4);
        return connect(fd, (struct sockaddr *)&six_less, sizeof six_less);
    }
    memcpy(&six.sin6_addr, address->bytes, 16);
    return connect(fd, (struct sockaddr *)&six, sizeof six);
}

/* Returns a socket whose connect is under way or done; -1 if it failed. */
static int open_socket(const rp_address *address) {
    int fd = socket(address->size == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1, unacknowledged_ms = UNACKNOWLEDGED_MS;
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
    if (connect_to(fd, address) != 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

int rp_reactor_dial(rp_reactor *reactor, const rp_address *address, rp_connection **connection_out) {
    int fd = reactor->drain_until_ns == INT64_MAX ? open_socket(address) : -1;
    if (fd < 0) {
        return RP_E_NETWORK;
    }
    atomic_fetch_add_explicit(&reactor->server->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&reactor->connection_count, 1, memory_order_relaxed);
    rp_connection *connection = rp_connection_enter(reactor, fd, address);
    if (connection == NULL) {
        return RP_E_NO_MEMORY;
    }
    connection->protocol = NULL;
    connection->is_dialed = true;
    connection->is_undecided = false;
    connection->opening = RP_OPENING_DIALED;
    rp_connection_mark_dirty(connection); /* what it waits for is set after the turn */
    rp_connection_look_again(connection);
    *connection_out = connection;
    return RP_OK;
}

bool rp_connection_finish_dial(rp_connection *connection) {
    int fault = 0;
    socklen_t size = sizeof fault;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &fault, &size) != 0) {
        fault = errno;
    }
    if (fault != 0) {
        connection->dial_fault = fault;
        rp_connection_close(connection, "not connected");
        return false;
    }
    connection->opening = RP_OPENING_DONE;
    rp_connection_mark_dirty(connection);
    return true;
}

int rp_connection_dial_fault(const rp_connection *connection) { return connection->dial_fault; }
