/* listener.c: binds, accepts, and distributes new connections to the reactors.
 *
 * Reactor 0 accepts; a connection goes to the reactor that has the fewest. The process's last descriptors are reserved for files: a
 * broker that has none for its log's next file would refuse every send. If files have used those too, a descriptor kept in reserve is
 * given up to accept and close the newcomer, which then sees a closed connection instead of a hanging one. If even that fails, the
 * listener pauses.
 */
#include "reactor.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../base/bound_socket.h"
#include "../base/clock_inl.h"
#include "../base/log_inl.h"

#define BACKLOG 4096
#define ACCEPTS_PER_TURN 64
#define REST_NS (100 * RP_NS_PER_MS)          /* after an accept that failed for want of resources */
#define LOG_INTERVAL_NS RP_NS_PER_S /* of refusals */
#define KEPT_SHARE 8                /* the share of the descriptors, one in so many, that is kept for files, */
#define KEPT_MAX 1024               /* but at most this many */

static int fail(rp_server *server, rp_error *error, int os_errno) {
    const char *address = server->options.bind_address;
    unsigned port = server->options.port;
    if (server->listener_fd >= 0) {
        close(server->listener_fd);
        server->listener_fd = -1;
    }
    if (os_errno == EADDRINUSE) {
        return rp_error_set(error, RP_E_NETWORK, os_errno, NULL, -1,
                            "%s:%u is in use: another process listens there; `ss -ltnp 'sport = :%u'` shows which, or choose another port",
                            address, port, port);
    }
    if (os_errno == EADDRNOTAVAIL) {
        return rp_error_set(error, RP_E_NETWORK, os_errno, NULL, -1, "%s is not an address of this machine; `ip address` lists them",
                            address);
    }
    return rp_error_set(error, RP_E_NETWORK, os_errno, NULL, -1, "cannot listen on %s:%u: %s", address, port, strerror(os_errno));
}

int rp_listener_open(rp_server *server, rp_error *error) {
    const rp_server_options *options = &server->options;
    int without_ipv6;
    int status = rp_bound_socket(options->bind_address, options->port, &server->listener_fd, &without_ipv6);
    if (status == RP_E_INVALID) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "'%s' is not a numeric IPv4 or IPv6 address", options->bind_address);
    }
    if (status != RP_OK) {
        return fail(server, error, errno);
    }
    if (without_ipv6 != 0) {
        rp_log_write(options->log, RP_LOG_WARNING, "clients that use IPv6 cannot connect to port %u: %s%s", options->port,
                     strerror(without_ipv6), without_ipv6 == EADDRINUSE ? "; another process has it there (ss -ltnp6 shows which)" : "");
    }
    /* Before listen: accepted sockets inherit the sizes, and the window scale is settled in the handshake. */
    if (options->socket_receive_buffer > 0) {
        setsockopt(server->listener_fd, SOL_SOCKET, SO_RCVBUF, &options->socket_receive_buffer, sizeof options->socket_receive_buffer);
    }
    if (options->socket_send_buffer > 0) {
        setsockopt(server->listener_fd, SOL_SOCKET, SO_SNDBUF, &options->socket_send_buffer, sizeof options->socket_send_buffer);
    }
    if (listen(server->listener_fd, BACKLOG) != 0) {
        return fail(server, error, errno);
    }
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getsockname(server->listener_fd, (struct sockaddr *)&address, &size) != 0) {
        return fail(server, error, errno);
    }
    rp_address bound;
    rp_address_from_socket(&bound, &address);
    server->port = bound.port;
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return RP_OK;
}

void rp_listener_close(rp_server *server) {
    if (server->listener_fd >= 0) {
        close(server->listener_fd);
        server->listener_fd = -1;
    }
    if (server->reserve_fd >= 0) {
        close(server->reserve_fd);
        server->reserve_fd = -1;
    }
}

int rp_listener_arm(rp_reactor *reactor) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = reactor->server};
    reactor->listener_resume_ns = INT64_MAX;
    return epoll_ctl(reactor->epoll_fd, EPOLL_CTL_ADD, reactor->server->listener_fd, &event) == 0 ? RP_OK : RP_E_NETWORK;
}

static void rest(rp_reactor *reactor) {
    epoll_ctl(reactor->epoll_fd, EPOLL_CTL_DEL, reactor->server->listener_fd, NULL);
    reactor->listener_resume_ns = reactor->now_ns + REST_NS;
}

/* Counts the refusal, and logs at most once a second. */
static void refused(rp_reactor *reactor, const rp_address *address, const char *cause) {
    rp_server *server = reactor->server;
    uint64_t count = atomic_fetch_add_explicit(&server->refused, 1, memory_order_relaxed) + 1;
    if (reactor->now_ns - server->refusal_logged_ns >= LOG_INTERVAL_NS) {
        char text[RP_ADDRESS_TEXT_MAX] = "unknown";
        if (address != NULL) {
            rp_address_text(address, text);
        }
        server->refusal_logged_ns = reactor->now_ns;
        rp_log_write(server->options.log, RP_LOG_WARNING, "connection %s refused: %s; %llu refused so far", text, cause,
                     (unsigned long long)count);
    }
}

/* Descriptors are out: accepts and closes one connection by giving up the reserved one. False if that did not help. */
static bool refuse_on_reserve(rp_reactor *reactor) {
    rp_server *server = reactor->server;
    bool has_refused = false;
    if (server->reserve_fd >= 0) {
        close(server->reserve_fd);
        int fd = accept4(server->listener_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            close(fd);
            has_refused = true;
            refused(reactor, NULL, "no file descriptor is left; raise the limit (ulimit -n, LimitNOFILE)");
        }
        server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    return has_refused;
}

/* The system assigns the lowest free number, which therefore tells how many are in use. An operator may have changed the limit
 * meanwhile. */
static bool is_kept_for_files(int fd) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return false;
    }
    rlim_t kept = limit.rlim_cur / KEPT_SHARE < KEPT_MAX ? limit.rlim_cur / KEPT_SHARE : KEPT_MAX;
    return (rlim_t)fd >= limit.rlim_cur - kept;
}

static rp_reactor *least_loaded(rp_server *server) {
    rp_reactor *best = server->reactors[0];
    uint32_t best_count = atomic_load_explicit(&best->connection_count, memory_order_relaxed);
    for (uint16_t index = 1; index < server->options.reactors; index++) {
        uint32_t count = atomic_load_explicit(&server->reactors[index]->connection_count, memory_order_relaxed);
        if (count < best_count) {
            best = server->reactors[index];
            best_count = count;
        }
    }
    return best;
}

/* Gives the socket to a reactor; the connection is already counted in the server's bound. */
static void deal(rp_reactor *reactor, int fd, const rp_address *address) {
    rp_server *server = reactor->server;
    rp_reactor *target = least_loaded(server);
    rp_accepted *accepted = target != reactor ? malloc(sizeof *accepted) : NULL;
    if (accepted != NULL) {
        *accepted = (rp_accepted){{RP_INBOX_ACCEPTED, 0}, fd, *address};
        /* Counted here, so that a burst of accepts is spread before the target has run. */
        atomic_fetch_add_explicit(&target->connection_count, 1, memory_order_relaxed);
        if (rp_ring_put(target->inbox, accepted) == RP_OK) {
            return;
        }
        atomic_fetch_sub_explicit(&target->connection_count, 1, memory_order_relaxed);
        free(accepted);
    }
    atomic_fetch_add_explicit(&reactor->connection_count, 1, memory_order_relaxed);
    rp_connection_adopt(reactor, fd, address);
}

void rp_listener_accept(rp_reactor *reactor) {
    rp_server *server = reactor->server;
    for (int count = 0; count < ACCEPTS_PER_TURN; count++) {
        struct sockaddr_storage socket_address;
        socklen_t size = sizeof socket_address;
        int fd = accept4(server->listener_fd, (struct sockaddr *)&socket_address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == EPERM) {
                continue;
            }
            if (errno == EMFILE || errno == ENFILE) {
                if (refuse_on_reserve(reactor)) {
                    continue;
                }
                rest(reactor);
            } else if (errno == ENOBUFS || errno == ENOMEM) {
                rest(reactor);
            }
            return;
        }
        rp_address address;
        rp_address_from_socket(&address, &socket_address);
        if (is_kept_for_files(fd)) {
            close(fd);
            refused(reactor, &address, "the file descriptors that are left are kept for files; raise the limit (ulimit -n, LimitNOFILE)");
            continue;
        }
        uint32_t open_count = atomic_fetch_add_explicit(&server->connections, 1, memory_order_relaxed);
        if (open_count >= server->options.connections_max) {
            atomic_fetch_sub_explicit(&server->connections, 1, memory_order_relaxed);
            close(fd);
            refused(reactor, &address, "the bound on connections is reached");
            continue;
        }
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
        atomic_fetch_add_explicit(&server->accepted, 1, memory_order_relaxed);
        deal(reactor, fd, &address);
    }
}
