/* server_harness.h: a server with a simple handler, and blocking clients for it; for the server_*_test.c programs.
 *
 * The handler answers request code
 *   1  ECHO    at once: the request's fields and body
 *   2  RANGE   the first `size` bytes of a mapped file of 4 MB, as a file range
 *   3  REFUSE  with an error status, which closes the connection
 *   4  PARK    never
 *   5  TWICE   with a punt the first time, like ECHO when it is resubmitted
 *   6  LEAVE   with the status of rp_reactor_leave; on_leave returns when `may_return` is set
 *   7  LATER   in the next on_wake
 *   8  BOTH    like LATER, followed by RANGE
 * and punts all others. */
#ifndef RP_TESTS_SERVER_HARNESS_H
#define RP_TESTS_SERVER_HARNESS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/remoting/server.h"
#include "check.h"

enum {
    CODE_ECHO = 1,
    CODE_RANGE = 2,
    CODE_REFUSE = 3,
    CODE_PARK = 4,
    CODE_TWICE = 5,
    CODE_LEAVE = 6,
    CODE_LATER = 7,
    CODE_BOTH = 8,
    CODE_JOIN = 9,
    CODE_ALL = 10,
    CODE_ALL_AND_LEAVE = 11,
    CODE_ALL_AND_CLOSE = 12,
    CODE_PYTHON = 100
};
#define RANGE_FILE_BYTES (4u << 20)
#define JOINED_MAX 32
#define CLOSED_EVERY 3
#define WAIT_MS 60000 /* for what must happen: a busy machine may pause */

struct harness {
    rp_server *server;
    rp_log *log;
    int file_fd;
    uint8_t *file;
    _Atomic uint64_t ranges_sent, ranges_released, closes, turn_ends, wakes, deadlines, resubmitted;
    _Atomic int64_t deadline_ns; /* set by on_wake; 0: none */
    _Atomic int64_t left_for, came_back; /* arguments of on_leave, summed: at its start, at its end */
    _Atomic int may_return;
    _Atomic int turned_by; /* the thread that handled the last request */
    _Atomic int watched_fd; /* a client's; 0: none */
    _Atomic uint64_t released_late; /* ranges released after watched_fd had something to read */
    uint64_t later_id; /* guarded by the turns of reactor 0 */
    int32_t later_opaque;
    /* The connections that CODE_ALL answers; guarded by the turns of reactor 0, like their opaques and number. */
    uint64_t joined_ids[JOINED_MAX];
    int32_t joined_opaques[JOINED_MAX];
    uint32_t joined;
    uint64_t released_turn, released_in_turn; /* ranges; guarded likewise */
    _Atomic uint64_t released_at_once; /* the most in one turn */
};

static inline rp_slice text_slice(const char *text) { return (rp_slice){(const uint8_t *)text, (uint32_t)strlen(text)}; }

static inline void harness_release(void *owner) {
    struct harness *harness = owner;
    struct pollfd watched = {atomic_load(&harness->watched_fd), POLLIN, 0};
    /* What was sent before has arrived, unless a busy kernel leaves its network to another thread for a moment. */
    atomic_fetch_add(&harness->released_late, watched.fd != 0 && poll(&watched, 1, 10000) == 1);
    uint64_t turn = atomic_load(&harness->turn_ends);
    harness->released_in_turn = turn == harness->released_turn ? harness->released_in_turn + 1 : 1;
    harness->released_turn = turn;
    if (harness->released_in_turn > atomic_load(&harness->released_at_once)) {
        atomic_store(&harness->released_at_once, harness->released_in_turn);
    }
    atomic_fetch_add(&harness->ranges_released, 1);
}

static inline void harness_echo(rp_connection *connection, const rp_command *command) {
    rp_command response;
    rp_command_clear_response(&response, command, 0);
    for (uint16_t index = 0; index < command->field_count; index++) {
        CHECK(rp_command_add_field(&response, command->fields[index].key, command->fields[index].value) == RP_OK);
    }
    response.body = command->body;
    CHECK(rp_connection_write(connection, &response) == RP_OK);
}

static inline void harness_send_range(struct harness *harness, rp_connection *connection, const rp_command *command, int32_t opaque) {
    int32_t size;
    CHECK(rp_slice_to_i32(rp_command_field(command, "size"), &size) == RP_OK && size > 0 && size <= (int32_t)RANGE_FILE_BYTES);
    rp_command response;
    rp_command_clear_response(&response, command, 0);
    response.opaque = opaque;
    response.body = (rp_slice){NULL, (uint32_t)size};
    CHECK(rp_connection_write(connection, &response) == RP_OK);
    uint32_t half = (uint32_t)size / 2;
    rp_file_range ranges[2] = {{harness->file, half, -1, 0, harness_release, harness},
                               {harness->file + half, (uint32_t)size - half, harness->file_fd, half, harness_release, harness}};
    CHECK(rp_connection_send_ranges(connection, ranges, 2) == RP_OK);
    atomic_fetch_add(&harness->ranges_sent, 2);
}

/* Sends to all connections that have joined and still exist. */
static inline void harness_send_ranges(struct harness *harness, rp_reactor *reactor, const rp_command *command) {
    for (uint32_t index = 0; index < harness->joined; index++) {
        rp_connection *connection = rp_reactor_connection(reactor, harness->joined_ids[index]);
        if (connection != NULL) {
            harness_send_range(harness, connection, command, harness->joined_opaques[index]);
            if (command->code == CODE_ALL_AND_CLOSE && index % CLOSED_EVERY == 0) {
                rp_server_close_connection(harness->server, harness->joined_ids[index]);
            }
        }
    }
    harness->joined = 0;
}

static inline void harness_answer(rp_connection *connection, int32_t opaque, int32_t code) {
    rp_command response;
    rp_command_clear(&response, code, RP_SERIALIZE_JSON);
    response.flag = RP_COMMAND_RESPONSE;
    response.opaque = opaque;
    CHECK(rp_connection_write(connection, &response) == RP_OK);
}

static inline int harness_on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command,
                                     int resubmitted) {
    struct harness *harness = context;
    CHECK(rp_reactor_connection(reactor, rp_connection_id(connection)) == connection);
    CHECK(rp_reactor_now_ns(reactor) > 0 && rp_reactor_index(reactor) == rp_connection_id(connection) >> 56);
    atomic_fetch_add(&harness->resubmitted, (uint64_t)resubmitted);
    atomic_store(&harness->turned_by, gettid());
    switch (command->code) {
    case CODE_ECHO:
        harness_echo(connection, command);
        return RP_HANDLED;
    case CODE_RANGE:
        harness_send_range(harness, connection, command, command->opaque);
        return RP_HANDLED;
    case CODE_REFUSE:
        return RP_E_PROTOCOL;
    case CODE_PARK:
        return RP_HANDLED;
    case CODE_TWICE:
        if (!resubmitted) {
            return RP_PUNT;
        }
        harness_echo(connection, command);
        return RP_HANDLED;
    case CODE_LEAVE:
        harness_answer(connection, command->opaque, -rp_reactor_leave(reactor, command->opaque));
        return RP_HANDLED;
    case CODE_LATER:
        harness->later_id = rp_connection_id(connection);
        harness->later_opaque = command->opaque;
        return RP_HANDLED;
    case CODE_BOTH:
        harness_answer(rp_reactor_connection(reactor, harness->later_id), harness->later_opaque, 0);
        harness->later_id = 0;
        harness_send_range(harness, connection, command, command->opaque);
        return RP_HANDLED;
    case CODE_JOIN:
        CHECK(harness->joined < JOINED_MAX);
        harness->joined_ids[harness->joined] = rp_connection_id(connection);
        harness->joined_opaques[harness->joined++] = command->opaque;
        return RP_HANDLED;
    case CODE_ALL_AND_LEAVE:
        CHECK(rp_reactor_leave(reactor, command->opaque) == RP_OK);
        harness_send_ranges(harness, reactor, command);
        return RP_HANDLED;
    case CODE_ALL:
    case CODE_ALL_AND_CLOSE:
        harness_send_ranges(harness, reactor, command);
        return RP_HANDLED;
    default:
        return RP_PUNT;
    }
}

static inline void harness_on_turn_end(void *context, rp_reactor *reactor) {
    (void)reactor;
    atomic_fetch_add(&((struct harness *)context)->turn_ends, 1);
}

static inline void harness_on_wake(void *context, rp_reactor *reactor) {
    struct harness *harness = context;
    atomic_fetch_add(&harness->wakes, 1);
    rp_connection *waiting = harness->later_id != 0 ? rp_reactor_connection(reactor, harness->later_id) : NULL;
    if (waiting != NULL) {
        harness_answer(waiting, harness->later_opaque, 0);
        harness->later_id = 0;
    }
    if (atomic_load(&harness->deadline_ns) != 0) {
        rp_reactor_set_deadline(reactor, atomic_load(&harness->deadline_ns));
    }
}

static inline int64_t harness_on_deadline(void *context, rp_reactor *reactor, int64_t now_ns) {
    (void)reactor;
    struct harness *harness = context;
    CHECK(now_ns >= atomic_load(&harness->deadline_ns));
    atomic_fetch_add(&harness->deadlines, 1);
    return INT64_MAX;
}

static inline void harness_on_close(void *context, rp_reactor *reactor, rp_connection *connection) {
    (void)reactor;
    CHECK(rp_connection_id(connection) != 0);
    atomic_fetch_add(&((struct harness *)context)->closes, 1);
}

static inline void harness_on_leave(void *context, int64_t leave_for) {
    struct harness *harness = context;
    atomic_fetch_add(&harness->left_for, leave_for);
    while (!atomic_load(&harness->may_return)) {
        poll(NULL, 0, 1);
    }
    atomic_fetch_add(&harness->came_back, leave_for);
}

/* The defaults, except for two reactors. */
static inline rp_server_options small_options(void) {
    rp_server_options options;
    rp_server_options_default(&options);
    options.reactors = 2;
    return options;
}

/* options->bind_address and port are set here; gate may be NULL. */
static inline struct harness *harness_start_gated(rp_server_options *options, const rp_gate *gate) {
    struct harness *harness = calloc(1, sizeof *harness);
    rp_error error = {0};
    CHECK(harness != NULL && rp_log_create(&harness->log) == RP_OK);
    harness->file_fd = memfd_create("range", MFD_CLOEXEC);
    CHECK(harness->file_fd >= 0 && ftruncate(harness->file_fd, RANGE_FILE_BYTES) == 0);
    harness->file = mmap(NULL, RANGE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, harness->file_fd, 0);
    CHECK(harness->file != MAP_FAILED);
    for (uint32_t index = 0; index < RANGE_FILE_BYTES; index++) {
        harness->file[index] = (uint8_t)(index * 2654435761u >> 24);
    }
    options->bind_address = "127.0.0.1";
    options->port = 0;
    options->log = harness->log;
    rp_handler handler = {.context = harness,
                          .on_request = harness_on_request,
                          .on_turn_end = harness_on_turn_end,
                          .on_wake = harness_on_wake,
                          .on_deadline = harness_on_deadline,
                          .on_close = harness_on_close,
                          .on_leave = harness_on_leave};
    int status = rp_server_open(options, &handler, &harness->server, &error);
    if (status != RP_OK) {
        fprintf(stderr, "open: %s\n", error.message);
        exit(1);
    }
    CHECK(rp_server_port(harness->server) != 0);
    CHECK(rp_server_set_gate(harness->server, gate) == RP_OK);
    CHECK(rp_server_start(harness->server, &error) == RP_OK);
    return harness;
}

static inline struct harness *harness_start(rp_server_options *options) { return harness_start_gated(options, NULL); }

/* Stops the server, and checks that nothing is left behind. */
static inline void harness_stop(struct harness *harness) {
    rp_request *requests[64];
    uint32_t count;
    rp_server_stats stats;
    rp_server_stop(harness->server, 1000);
    rp_server_stop(harness->server, 1000);
    while ((count = rp_server_take(harness->server, requests, 64)) > 0) {
        for (uint32_t index = 0; index < count; index++) {
            rp_request_free(requests[index]);
        }
    }
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.connections_open == 0 && stats.buffer_bytes == 0);
    CHECK(atomic_load(&harness->ranges_sent) == atomic_load(&harness->ranges_released));
    rp_server_close(harness->server);
    munmap(harness->file, RANGE_FILE_BYTES);
    close(harness->file_fd);
    rp_log_destroy(harness->log);
    free(harness);
}

static inline int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns 1 once the log has a line that contains text; takes lines meanwhile. */
static inline int log_says(struct harness *harness, const char *text) {
    int64_t until = now_ms() + WAIT_MS;
    while (now_ms() < until) {
        struct pollfd waiting = {rp_log_event_fd(harness->log), POLLIN, 0};
        poll(&waiting, 1, 100);
        rp_log_line line;
        while (rp_log_take(harness->log, &line, 1) == 1) {
            if (strstr(line.text, text) != NULL) {
                return 1;
            }
        }
    }
    return 0;
}

/* Returns the next request for Python; NULL after WAIT_MS. */
static inline rp_request *take_request(struct harness *harness) {
    int64_t until = now_ms() + WAIT_MS;
    rp_request *request;
    while (now_ms() < until) {
        if (rp_server_take(harness->server, &request, 1) == 1) {
            return request;
        }
        struct pollfd waiting = {rp_server_event_fd(harness->server), POLLIN, 0};
        poll(&waiting, 1, 100);
    }
    return NULL;
}

static inline rp_request *take_kind(struct harness *harness, int kind) {
    for (;;) {
        rp_request *request = take_request(harness);
        CHECK(request != NULL);
        if (request->kind == kind) {
            return request;
        }
        rp_request_free(request);
    }
}

/* ---- clients ---- */

/* Makes calls that wait for the other side fail after WAIT_MS. */
static inline void limit_waits(int fd) {
    struct timeval limit = {WAIT_MS / 1000, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static inline int dial_port(uint16_t port, int receive_buffer) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    int one = 1;
    if (receive_buffer > 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    limit_waits(fd);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static inline int dial(struct harness *harness) { return dial_port(rp_server_port(harness->server), 0); }

static inline void write_all(int fd, const void *data, size_t size) {
    const uint8_t *cursor = data;
    while (size > 0) {
        ssize_t written = send(fd, cursor, size, MSG_NOSIGNAL);
        CHECK(written > 0 || (written < 0 && errno == EINTR));
        cursor += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
}

static inline void read_all(int fd, void *target, size_t size) {
    uint8_t *cursor = target;
    while (size > 0) {
        ssize_t count = recv(fd, cursor, size, 0);
        CHECK(count > 0);
        cursor += count;
        size -= (size_t)count;
    }
}

/* Returns 1 if the other side closes (end of stream or reset) within WAIT_MS; skips what comes before. */
static inline int is_closed(int fd) {
    uint8_t bytes[4096];
    ssize_t count;
    while ((count = recv(fd, bytes, sizeof bytes, 0)) > 0) {
    }
    return count == 0 || errno == ECONNRESET;
}

/* Encodes a request with a field and a body; returns its size. */
static inline uint32_t make_request(uint8_t *target, size_t room, int serialize_type, int code, int opaque, const char *field,
                                    rp_slice body) {
    rp_command command;
    rp_command_clear(&command, code, (uint8_t)serialize_type);
    command.opaque = opaque;
    command.body = body;
    if (field != NULL) {
        CHECK(rp_command_add_field(&command, text_slice("size"), text_slice(field)) == RP_OK);
    }
    int64_t size = rp_command_encode(&command, target, room);
    CHECK(size > 0);
    return (uint32_t)size;
}

static inline void send_request(int fd, int serialize_type, int code, int opaque, const char *field, rp_slice body) {
    size_t room = 4096 + body.size;
    uint8_t *frame = malloc(room);
    CHECK(frame != NULL);
    write_all(fd, frame, make_request(frame, room, serialize_type, code, opaque, field, body));
    free(frame);
}

/* Reads one frame; the caller frees its bytes. */
static inline uint8_t *read_frame(int fd, rp_arena *arena, rp_command *command) {
    uint8_t head[4];
    read_all(fd, head, sizeof head);
    uint32_t size = rp_get_u32(head) + 4;
    CHECK(size <= RP_FRAME_SIZE_MAX);
    uint8_t *frame = malloc(size);
    CHECK(frame != NULL);
    memcpy(frame, head, sizeof head);
    read_all(fd, frame + 4, size - 4);
    rp_error error = {0};
    if (rp_command_decode(frame, size, arena, command, &error) != RP_OK) {
        fprintf(stderr, "response does not decode: %s\n", error.message);
        exit(1);
    }
    return frame;
}

/* Reads one frame, and checks the answer in it. */
static inline void expect_response(int fd, int code, int opaque, const char *remark) {
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    rp_command response;
    uint8_t *frame = read_frame(fd, arena, &response);
    CHECK((response.flag & RP_COMMAND_RESPONSE) != 0);
    CHECK(response.opaque == opaque);
    CHECK(response.code == code);
    if (remark != NULL) {
        CHECK(response.remark.size == strlen(remark) && memcmp(response.remark.data, remark, response.remark.size) == 0);
    }
    free(frame);
    rp_arena_destroy(arena);
}

static inline void expect_echo(int fd, int opaque) {
    send_request(fd, RP_SERIALIZE_JSON, CODE_ECHO, opaque, "still here", (rp_slice){NULL, 0});
    expect_response(fd, 0, opaque, NULL);
}

/* Waits until claim(harness) holds. */
static inline int becomes_true(struct harness *harness, int (*claim)(struct harness *harness)) {
    int64_t until = now_ms() + WAIT_MS;
    while (!claim(harness)) {
        if (now_ms() > until) {
            return 0;
        }
        poll(NULL, 0, 1);
    }
    return 1;
}

/* A clock that only the test advances, so that a pause of the machine makes nobody late. */
static inline _Atomic int64_t *hand(void) {
    static _Atomic int64_t nanoseconds = 1000000000;
    return &nanoseconds;
}
static inline int64_t hand_time(void *context) {
    (void)context;
    return atomic_load(hand());
}
static inline const rp_clock *clock_by_hand(void) {
    static const rp_clock clock = {hand_time, hand_time, NULL};
    return &clock;
}

/* Advances it, and lets every reactor see it. */
static inline void turn_hand(rp_server *server, int64_t milliseconds) {
    atomic_fetch_add(hand(), milliseconds * 1000000);
    for (uint16_t index = 0; index < rp_server_reactor_count(server); index++) {
        rp_reactor_wake(rp_server_reactor(server, index));
    }
}

#endif
