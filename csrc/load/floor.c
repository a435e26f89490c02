/* floor.c: the bare send server: epoll, recv, one copy with CRC into a file, 160 bytes back, and as little else as possible.
 *
 * All frames of the load generator look alike: opaque and queue id are searched for in a connection's first frame, and expected at the
 * same place in later ones. It trusts that client where a broker must not, but stays inside its buffers whatever it receives.
 */
#include "floor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/thread.h"
#include "floor_log.h"

#define ANSWER_SIZE 160u
#define FRAME_MAX 16777216u
#define INPUT_BYTES 262144u
#define REUSED_SIZE_DEFAULT (UINT64_C(1) << 30)
#define GROWING_SIZE_DEFAULT (UINT64_C(32) << 30)
#define EVENTS_MAX 256
#define DIGITS_MAX 10u
#define ANSWERS_MAX 256u

typedef struct floor_connection {
    int fd;
    uint32_t have, capacity;
    uint32_t opaque_at, queue_at; /* offsets in its frames; 0: not known yet */
    uint8_t *input;
    uint8_t *answers; /* ANSWERS_MAX: owned if they wait for the disk; else the server's, and sent at once */
    uint32_t owed; /* number of answers */
    struct floor_connection *next; /* list of all connections */
    struct floor_connection *next_owed; /* list of connections whose answers wait for the disk */
} floor_connection;

struct rp_floor {
    int listen_fd, epoll_fd, wake_fd; /* fixed */
    uint16_t port; /* fixed */
    uint32_t spin_us; /* fixed */
    bool is_synced; /* fixed: answers wait for the disk */
    rp_floor_log *log; /* the thread's */
    floor_connection *owed; /* the thread's */
    floor_connection *connections; /* the thread's */
    uint32_t connection_count;
    uint8_t answers[ANSWERS_MAX * ANSWER_SIZE];
    _Atomic uint64_t frames; /* written by the thread, read by anyone */
    _Atomic int stop;
    rp_thread *thread;
};

/* Returns the offset behind the first occurrence of either text in the header, 0 if there is none. */
static uint32_t behind(const uint8_t *frame, uint32_t end, const char *text, uint32_t size, const char *other, uint32_t other_size) {
    const uint8_t *found = memmem(frame + 8, end - 8, text, size);
    if (found != NULL)
        return (uint32_t)(found - frame) + size;
    found = memmem(frame + 8, end - 8, other, other_size);
    return found == NULL ? 0 : (uint32_t)(found - frame) + other_size;
}

/* Finds opaque and queue id, unless they are where they were in the last frame. */
static void locate(floor_connection *connection, const uint8_t *frame, uint32_t size) {
    uint32_t header = rp_get_u32(frame + 4) & 0xFFFFFFu;
    uint32_t end = header > size - 8 ? size : header + 8;
    if (frame[4] != 0) { /* ROCKETMQ encoding: the key, four bytes of size, the value */
        connection->opaque_at = end >= 17 ? 13 : 0;
        if (connection->queue_at + DIGITS_MAX <= end && connection->queue_at > 12 &&
            memcmp(frame + connection->queue_at - 7, "\0\1e\0\0\0", 6) == 0)
            return;
        uint32_t at = behind(frame, end, "\0\1e\0\0\0", 6, "\0\7queueId\0\0\0", 12);
        connection->queue_at = at == 0 || at + 1 + DIGITS_MAX > end ? 0 : at + 1;
        return;
    }
    if (connection->opaque_at + DIGITS_MAX > end || connection->opaque_at < 17 ||
        memcmp(frame + connection->opaque_at - 9, "\"opaque\":", 9) != 0) {
        uint32_t at = behind(frame, end, "\"opaque\":", 9, "\"opaque\":", 9);
        connection->opaque_at = at + DIGITS_MAX > end ? 0 : at;
    }
    if (connection->queue_at + DIGITS_MAX > end || connection->queue_at < 13 ||
        memcmp(frame + connection->queue_at - 5, "\"e\":\"", 5) != 0) {
        uint32_t at = behind(frame, end, "\"e\":\"", 5, "\"queueId\":\"", 11);
        connection->queue_at = at + DIGITS_MAX > end ? 0 : at;
    }
}

static uint32_t copy_digits(uint8_t *target, const uint8_t *source) {
    uint32_t count = 0;
    while (count < DIGITS_MAX && source[count] >= '0' && source[count] <= '9') {
        target[count] = source[count];
        count++;
    }
    return count;
}

static void put_answer_json(uint8_t *target, const uint8_t *opaque, const uint8_t *queue) {
    static const char head[] = "{\"code\":0,\"flag\":1,\"opaque\":", fields[] = ",\"extFields\":{\"queueOffset\":\"0\",\"queueId\":\"";
    memset(target, ' ', ANSWER_SIZE - 8);
    memcpy(target, head, sizeof head - 1);
    target += sizeof head - 1;
    target += copy_digits(target, opaque);
    memcpy(target, fields, sizeof fields - 1);
    target += sizeof fields - 1;
    target += copy_digits(target, queue);
    memcpy(target, "\"}}", 3);
}

static void put_answer_binary(uint8_t *target, const uint8_t *opaque, const uint8_t *queue) {
    static const char fields[] = "\0\13queueOffset\0\0\0\0010\0\7queueId";
    uint8_t *end = target + ANSWER_SIZE - 8;
    memset(target, 0, ANSWER_SIZE - 8);
    memcpy(target + 5, opaque, 4);
    target[12] = 1; /* flag: response */
    target += 21;
    rp_put_u32(target - 4, (uint32_t)(end - target));
    memcpy(target, fields, sizeof fields - 1);
    target += sizeof fields - 1;
    uint32_t digits = copy_digits(target + 4, queue);
    rp_put_u32(target, digits);
    target += 4 + digits;
    memcpy(target, "\0\1p", 3); /* a field that fills the rest */
    rp_put_u32(target + 3, (uint32_t)(end - target) - 7);
}

static void put_answer(floor_connection *connection, const uint8_t *frame, uint32_t size, uint8_t *target) {
    static const uint8_t none[] = "1000000000";
    locate(connection, frame, size);
    const uint8_t *opaque = connection->opaque_at == 0 ? none : frame + connection->opaque_at;
    const uint8_t *queue = connection->queue_at == 0 ? none : frame + connection->queue_at;
    rp_put_u32(target, ANSWER_SIZE - 4);
    rp_put_u32(target + 4, (uint32_t)frame[4] << 24 | (ANSWER_SIZE - 8));
    (frame[4] == 0 ? put_answer_json : put_answer_binary)(target + 8, opaque, queue);
}

/* Writes all answers. If the socket is full it waits: the reader is the generator, which always reads. */
static int send_answers(rp_floor *server, floor_connection *connection) {
    size_t at = 0, size = (size_t)connection->owed * ANSWER_SIZE;
    atomic_fetch_add_explicit(&server->frames, connection->owed, memory_order_relaxed);
    connection->owed = 0;
    while (at < size) {
        ssize_t put = send(connection->fd, connection->answers + at, size - at, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return 0;
        at += (size_t)put;
    }
    return 1;
}

/* Syncs, then sends the answers that wait for it. A connection that cannot be written to is closed at its next event. */
static void settle(rp_floor *server) {
    int is_synced = server->owed != NULL && rp_floor_log_sync(server->log);
    for (floor_connection *connection = server->owed; connection != NULL; connection = connection->next_owed) {
        if (!is_synced || !send_answers(server, connection))
            shutdown(connection->fd, SHUT_RDWR);
        connection->owed = 0;
    }
    server->owed = NULL;
}

static int answer(rp_floor *server, floor_connection *connection) {
    if (!server->is_synced)
        return send_answers(server, connection);
    settle(server);
    return 1;
}

static void owe(rp_floor *server, floor_connection *connection) {
    if (connection->owed++ == 0 && server->is_synced) {
        connection->next_owed = server->owed;
        server->owed = connection;
    }
}

/* Returns 0 if the connection is to be closed. */
static int take_frames(rp_floor *server, floor_connection *connection) {
    uint32_t at = 0;
    while (connection->have - at >= 4) {
        const uint8_t *frame = connection->input + at;
        uint32_t rest = rp_get_u32(frame);
        if (rest < 13 || rest > FRAME_MAX)
            return 0;
        if (connection->have - at < rest + 4) {
            if (rest + 4 <= connection->capacity)
                break;
            uint8_t *larger = realloc(connection->input, rest + 4);
            if (larger == NULL)
                return 0;
            connection->input = larger;
            connection->capacity = rest + 4;
            break;
        }
        if (!rp_floor_log_put(server->log, frame, rest + 4))
            return 0;
        put_answer(connection, frame, rest + 4, connection->answers + connection->owed * ANSWER_SIZE);
        owe(server, connection);
        at += rest + 4;
        if (connection->owed == ANSWERS_MAX && !answer(server, connection))
            return 0;
    }
    connection->have -= at;
    if (connection->have > 0 && at > 0)
        memmove(connection->input, connection->input + at, connection->have);
    return server->is_synced || connection->owed == 0 || send_answers(server, connection);
}

static void accept_one(rp_floor *server) {
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    floor_connection *connection = calloc(1, sizeof *connection);
    uint8_t *input = malloc(INPUT_BYTES), *answers = server->is_synced ? malloc(sizeof server->answers) : server->answers;
    if (connection == NULL || input == NULL || answers == NULL || server->connection_count == RP_FLOOR_CONNECTIONS_MAX) {
        free(connection);
        free(input);
        if (server->is_synced)
            free(answers);
        close(fd);
        return;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *connection = (floor_connection){.fd = fd, .capacity = INPUT_BYTES, .input = input, .answers = answers, .next = server->connections};
    server->connections = connection;
    server->connection_count++;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void drop(rp_floor *server, floor_connection *connection) {
    settle(server); /* it may be in the owed list */
    floor_connection **link = &server->connections;
    while (*link != connection)
        link = &(*link)->next;
    *link = connection->next;
    server->connection_count--;
    close(connection->fd);
    free(connection->input);
    if (server->is_synced)
        free(connection->answers);
    free(connection);
}

static void handle(rp_floor *server, floor_connection *connection) {
    ssize_t got = recv(connection->fd, connection->input + connection->have, connection->capacity - connection->have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        connection->have += (uint32_t)got;
    if (got <= 0 || !take_frames(server, connection))
        drop(server, connection);
}

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void run(void *context) {
    rp_floor *server = context;
    struct epoll_event events[EVENTS_MAX];
    int64_t last_us = 0;
    while (!atomic_load_explicit(&server->stop, memory_order_relaxed)) {
        int spin = server->spin_us > 0 && now_us() - last_us < server->spin_us;
        int count = epoll_wait(server->epoll_fd, events, EVENTS_MAX, spin ? 0 : -1);
        if (count > 0 && server->spin_us > 0)
            last_us = now_us();
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &server->listen_fd) {
                accept_one(server);
            } else if (events[i].data.ptr != &server->wake_fd) {
                handle(server, events[i].data.ptr);
            }
        }
        settle(server);
        rp_floor_log_step_ahead(server->log);
    }
}

static int open_sockets(rp_floor *server, uint16_t port) {
    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int on = 1;
    if (server->listen_fd < 0 || server->epoll_fd < 0 || server->wake_fd < 0)
        return RP_E_NETWORK;
    setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(server->listen_fd, (struct sockaddr *)&address, size) != 0 || listen(server->listen_fd, 1024) != 0)
        return RP_E_NETWORK;
    if (getsockname(server->listen_fd, (struct sockaddr *)&address, &size) != 0)
        return RP_E_NETWORK;
    server->port = ntohs(address.sin_port);
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = &server->listen_fd},
                       waking = {.events = EPOLLIN, .data.ptr = &server->wake_fd};
    int failed = epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->listen_fd, &listening) |
                 epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->wake_fd, &waking);
    return failed == 0 ? RP_OK : RP_E_NETWORK;
}

int rp_floor_start(const char *path, rp_floor_kind kind, uint64_t file_size, uint16_t port, uint32_t spin_us, rp_floor **result,
                   rp_error *error) {
    if (file_size != 0 && file_size < FRAME_MAX + 4)
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "file_size must hold a frame: at least 16 MB");
    rp_floor *server = calloc(1, sizeof *server);
    if (server == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the floor server");
    server->listen_fd = server->epoll_fd = server->wake_fd = -1;
    server->spin_us = spin_us;
    server->is_synced = kind == RP_FLOOR_SYNCED;
    if (file_size == 0)
        file_size = kind == RP_FLOOR_REUSED ? REUSED_SIZE_DEFAULT : GROWING_SIZE_DEFAULT;
    int status = rp_floor_log_open(path, kind, (int64_t)file_size, &server->log, error);
    if (status == RP_OK && open_sockets(server, port) != RP_OK)
        status = rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "cannot listen on 127.0.0.1:%u: %s", port, strerror(errno));
    if (status == RP_OK && rp_thread_start(&server->thread, "rp-floor", run, server) != RP_OK)
        status = rp_error_set(error, RP_E_BUSY, 0, NULL, -1, "the floor server's thread cannot be started");
    if (status != RP_OK) {
        rp_floor_stop(server);
        return status;
    }
    *result = server;
    return RP_OK;
}

uint16_t rp_floor_port(const rp_floor *server) { return server->port; }

uint64_t rp_floor_frames(const rp_floor *server) { return atomic_load_explicit(&server->frames, memory_order_relaxed); }

void rp_floor_stop(rp_floor *server) {
    if (server == NULL)
        return;
    atomic_store_explicit(&server->stop, 1, memory_order_relaxed);
    const uint64_t one = 1;
    if (server->thread != NULL && write(server->wake_fd, &one, sizeof one) == sizeof one)
        rp_thread_join(server->thread);
    while (server->connections != NULL)
        drop(server, server->connections);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->wake_fd >= 0)
        close(server->wake_fd);
    rp_floor_log_close(server->log);
    free(server);
}
