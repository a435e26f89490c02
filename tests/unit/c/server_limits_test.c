/* server_limits_test.c: the remoting server's bounds; bad or slow peers harm only themselves. */
#include "../../../csrc/remoting/reactor.h"
#include "server_harness.h"

#include <fcntl.h>
#include <sys/wait.h>

static void bad_frames_close_the_connection_with_a_log_line(void) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *line;
    } bad[] = {
        {"\0\0\0\3abc", 7, "does not fit"},
        {"\0\0\0\0", 4, "does not fit"},
        {"\377\377\377\377", 4, "past the limit"},
        {"GET / HTTP/1.1\r\n\r\n", 18, "it begins an HTTP request"},
        {"\0\0\0\10\0\0\0\377abcd", 12, "does not fit"},
        {"\0\0\0\10\0\0\0\4abcd", 12, "does not begin with"},
        {"\0\0\0\6\0\0\0\2{\"", 10, "does not end"},
        {"\0\0\0\10\7\0\0\4abcd", 12, "serialize type 7"},
        {"\0\0\0\10\1\0\0\4abcd", 12, "shorter than its fixed part"},
        {"\0\0\0\4\0\0\0\0", 8, "does not begin with"},
    };
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    int other = dial(harness);
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        int fd = dial(harness);
        /* An answer that is due before the bad frame still leaves. */
        send_request(fd, RP_SERIALIZE_JSON, CODE_ECHO, 1, "x", (rp_slice){NULL, 0});
        write_all(fd, bad[index].bytes, bad[index].size);
        expect_response(fd, 0, 1, NULL);
        CHECK(is_closed(fd));
        CHECK(log_says(harness, bad[index].line));
        close(fd);
    }
    int fd = dial(harness);
    send_request(fd, RP_SERIALIZE_JSON, CODE_REFUSE, 1, "x", (rp_slice){NULL, 0});
    CHECK(is_closed(fd) && log_says(harness, "request code 3"));
    close(fd);
    expect_echo(other, 2);
    close(other);
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.frames_bad == sizeof bad / sizeof bad[0]);
    harness_stop(harness);
}

static void garbage_harms_nobody_else(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    int other = dial(harness);
    uint32_t seed = 12345;
    printf("seed %u\n", seed);
    for (int round = 0; round < 200; round++) {
        int fd = dial(harness);
        uint8_t bytes[2000];
        uint32_t size = make_request(bytes, sizeof bytes, round & 1, CODE_ECHO, round, "x", text_slice("a body"));
        for (int flip = 0; flip < 1 + round % 5; flip++) {
            seed = seed * 1664525 + 1013904223;
            bytes[4 + (seed >> 8) % (size - 4)] ^= (uint8_t)(1 << (seed >> 29));
        }
        write_all(fd, bytes, size);
        expect_echo(other, round);
        close(fd);
    }
    close(other);
    harness_stop(harness);
}

static int has_read_all_heads(struct harness *harness) {
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    return stats.bytes_in == 50 * 12;
}

static void a_claimed_size_allocates_nothing(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    int fds[50];
    static const uint8_t head[12] = {0, 255, 255, 0, 0, 0, 0, 2, '{', '}', 0, 0};
    for (int index = 0; index < 50; index++) {
        fds[index] = dial(harness);
        write_all(fds[index], head, sizeof head);
    }
    CHECK(becomes_true(harness, has_read_all_heads));
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    printf("50 frames of 16 MB announced: %llu bytes held\n", (unsigned long long)stats.buffer_bytes);
    CHECK(stats.buffer_bytes < 50 * 1024);
    for (int index = 0; index < 50; index++) {
        close(fds[index]);
    }
    harness_stop(harness);
}

static void the_ring_refuses_what_python_does_not_take(void) {
    rp_server_options options = small_options();
    options.ring_capacity = 10;
    struct harness *harness = harness_start(&options);
    int fd = dial(harness);
    for (int opaque = 0; opaque < 13; opaque++) {
        send_request(fd, opaque & 1, CODE_PYTHON, opaque, "x", (rp_slice){NULL, 0});
    }
    for (int opaque = 10; opaque < 13; opaque++) {
        rp_arena *arena = rp_arena_create(4096, 1 << 20);
        rp_command response;
        uint8_t *frame = read_frame(fd, arena, &response);
        static const char busy[] = "[OVERLOAD]system busy, start flow control for a while";
        CHECK(response.code == 2 && response.opaque == opaque && response.serialize_type == (opaque & 1));
        CHECK(response.remark.size == sizeof busy - 1 && memcmp(response.remark.data, busy, sizeof busy - 1) == 0);
        free(frame);
        rp_arena_destroy(arena);
    }
    /* oneway: no answer */
    rp_command oneway;
    uint8_t frame[256];
    rp_command_clear(&oneway, CODE_PYTHON, RP_SERIALIZE_JSON);
    oneway.flag = RP_COMMAND_ONEWAY;
    write_all(fd, frame, (size_t)rp_command_encode(&oneway, frame, sizeof frame));
    expect_echo(fd, 77);
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.requests_punted == 10 && stats.requests_rejected_busy == 3 && stats.oneway_dropped == 1);
    /* Connection events pass, and space that was taken is there again. */
    close(fd);
    int again = dial(harness);
    for (int opaque = 0; opaque < 10; opaque++) {
        rp_request *request = take_kind(harness, RP_REQUEST_COMMAND);
        CHECK(request->command.opaque == opaque);
        rp_request_free(request);
    }
    int kinds = 0; /* of two reactors, in either order */
    for (int event = 0; event < 2; event++) {
        rp_request *request = take_request(harness);
        CHECK(request != NULL);
        kinds |= 1 << request->kind;
        rp_request_free(request);
    }
    CHECK(kinds == (1 << RP_REQUEST_OPENED | 1 << RP_REQUEST_CLOSED));
    send_request(again, RP_SERIALIZE_JSON, CODE_PYTHON, 5, "x", (rp_slice){NULL, 0});
    rp_request_free(take_kind(harness, RP_REQUEST_COMMAND));
    close(again);
    harness_stop(harness);
}

/* Sends echoes without reading until the server takes no more; returns how many whole ones. */
static int fill_with_echoes(int fd, rp_slice body) {
    size_t room = 4096 + body.size;
    uint8_t *frame = malloc(room);
    CHECK(frame != NULL);
    int count = 0;
    for (;; count++) {
        uint32_t size = make_request(frame, room, RP_SERIALIZE_ROCKETMQ, CODE_ECHO, count, "x", body);
        uint32_t sent = 0;
        while (sent < size) {
            struct pollfd writable = {fd, POLLOUT, 0};
            if (poll(&writable, 1, 300) == 0) {
                free(frame);
                return count;
            }
            ssize_t written = send(fd, frame + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            CHECK(written > 0 || errno == EAGAIN);
            sent += written > 0 ? (uint32_t)written : 0;
        }
    }
}

static void a_slow_reader_is_not_read_and_loses_nothing(void) {
    rp_server_options options = small_options();
    options.output_bytes_max = 256 * 1024;
    options.stall_timeout_ms = 3600000;
    options.socket_receive_buffer = 65536;
    options.socket_send_buffer = 65536;
    struct harness *harness = harness_start(&options);
    int fd = dial_port(rp_server_port(harness->server), 65536);
    int other = dial(harness);
    static uint8_t body[3000];
    int count = fill_with_echoes(fd, (rp_slice){body, sizeof body});
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    /* Bounded: what the bound allows, one answer past it, and one read's worth of unhandled frames. */
    CHECK(stats.buffer_bytes < 2 * 256 * 1024 + 300 * 1024);
    CHECK((int)stats.frames_in < count + 2);
    expect_echo(other, 1);
    for (int opaque = 0; opaque < count; opaque++) {
        expect_response(fd, 0, opaque, NULL);
    }
    close(fd);
    close(other);
    harness_stop(harness);
}

static void a_client_that_never_reads_is_closed_with_a_log_line(void) {
    rp_server_options options = small_options();
    options.stall_timeout_ms = 200;
    options.output_bytes_max = 64 * 1024;
    struct harness *harness = harness_start(&options);
    int fd = dial_port(rp_server_port(harness->server), 4096);
    int other = dial(harness);
    uint8_t frames[4096];
    uint32_t size = 0;
    for (int opaque = 0; opaque < 4; opaque++) {
        size += make_request(frames + size, sizeof frames - size, RP_SERIALIZE_JSON, CODE_RANGE, opaque, "4194304", (rp_slice){NULL, 0});
    }
    write_all(fd, frames, size); /* at once: behind the first of them its time begins */
    CHECK(log_says(harness, "did not read its responses"));
    expect_echo(other, 1);
    rp_request_free(take_kind(harness, RP_REQUEST_CLOSED));
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.connections_closed_stalled == 1 && stats.connections_open == 1);
    close(fd);
    close(other);
    harness_stop(harness);
}

static int has_closed_one(struct harness *harness) { return atomic_load(&harness->closes) == 1; }

/* An echo on `used` is one turn of its reactor, the wake one of the other. */
static void pass_time(struct harness *harness, int64_t milliseconds, int used) {
    turn_hand(harness->server, milliseconds);
    expect_echo(used, 1);
}

static void an_idle_connection_is_closed_and_a_used_one_is_not(void) {
    rp_server_options options = small_options();
    options.clock = clock_by_hand();
    struct harness *harness = harness_start(&options);
    int idle = dial(harness);
    expect_echo(idle, 0);
    int used = dial(harness);
    for (int second = 0; second < 119; second += 7) {
        pass_time(harness, 7000, used);
        CHECK(atomic_load(&harness->closes) == 0);
    }
    pass_time(harness, 10000, used);
    CHECK(becomes_true(harness, has_closed_one) && is_closed(idle));
    expect_echo(used, 2);
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.connections_closed_idle == 1 && stats.connections_open == 1);
    close(idle);
    close(used);
    harness_stop(harness);
}

static void connections_past_the_bound_are_refused(void) {
    rp_server_options options = small_options();
    options.connections_max = 3;
    struct harness *harness = harness_start(&options);
    int fds[3];
    for (int index = 0; index < 3; index++) {
        fds[index] = dial(harness);
        expect_echo(fds[index], index);
    }
    int refused = dial(harness);
    CHECK(is_closed(refused));
    close(refused);
    CHECK(log_says(harness, "bound on connections"));
    close(fds[0]);
    rp_request_free(take_kind(harness, RP_REQUEST_CLOSED));
    int late = dial(harness);
    expect_echo(late, 1);
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.connections_refused == 1 && stats.connections_open == 3 && stats.connections_accepted == 4);
    close(late);
    close(fds[1]);
    close(fds[2]);
    harness_stop(harness);
}

static int next_descriptor(void) {
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(close(next) == 0);
    return next;
}

/* A limit that leaves descriptors for a client and for `accepted` sockets of the server's; more are refused. */
static void connections_end_where(int accepted, rlim_t limit, const char *said) {
    rp_server_options options = small_options();
    options.reactors = 1;
    struct harness *harness = harness_start(&options);
    int first = dial(harness);
    expect_echo(first, 1);
    struct rlimit before, tight;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    tight = before;
    tight.rlim_cur = limit != 0 ? limit : (rlim_t)next_descriptor() + 1; /* the client's socket takes the last one */
    CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
    int fds[64];
    for (int index = 0; index < accepted; index++) {
        fds[index] = dial(harness);
        expect_echo(fds[index], 2 + index);
    }
    int refused = dial(harness);
    CHECK(is_closed(refused));
    CHECK(log_says(harness, said));
    expect_echo(first, 100);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    close(refused);
    int late = dial(harness);
    expect_echo(late, 101);
    close(late);
    for (int index = 0; index < accepted; index++) {
        close(fds[index]);
    }
    close(first);
    harness_stop(harness);
}

static void a_server_without_descriptors_refuses_and_recovers(void) { connections_end_where(0, 0, "no file descriptor is left"); }

/* Of 160 an eighth is kept; each connection here takes two of the others, one on either side. */
static void the_last_descriptors_are_no_connections(void) {
    enum { LIMIT = 160, KEPT = LIMIT / 8 };
    int accepted = 0;
    rp_server_options options = small_options();
    options.reactors = 1;
    struct harness *harness = harness_start(&options);
    int first = dial(harness);
    expect_echo(first, 1);
    accepted = (LIMIT - KEPT - next_descriptor()) / 2;
    close(first);
    harness_stop(harness);
    connections_end_where(accepted, LIMIT, "kept for files");
}

static void a_server_without_descriptors_says_so(void) {
    rp_server_options options = small_options();
    options.reactors = 3;
    options.bind_address = "127.0.0.1";
    options.port = 0;
    struct rlimit before, tight;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    tight = before;
    int refusals = 0, status;
    do { /* each limit ends the start somewhere else */
        rp_server *server = NULL;
        rp_error error = {0};
        tight.rlim_cur = (rlim_t)(next + refusals);
        CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
        status = rp_server_open(&options, NULL, &server, &error);
        CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
        CHECK(status == RP_OK || strstr(error.message, "Too many open files") != NULL ||
              strstr(error.message, "no file descriptor is left") != NULL);
        if (status == RP_OK) {
            rp_server_close(server);
        }
        refusals++;
    } while (status != RP_OK && refusals < 100);
    CHECK(status == RP_OK && refusals > 6);
}

/* True when the third waits, or the second, if the first was still growing and is the one that may go on. */
static int somebody_waits(struct harness *harness) { return atomic_load(&harness->server->starved) >= 1; }

static int holds_half_of_the_bound(struct harness *harness) {
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    return stats.buffer_bytes > (1u << 20) / 2;
}

static int holds_more_than_the_bound(struct harness *harness) {
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    return stats.buffer_bytes > (1u << 20);
}

static void large_frames_wait_for_memory_and_finish_when_it_is_there(void) {
    rp_server_options options = small_options();
    options.reactors = 1;
    options.memory_bytes_max = 1 << 20;
    options.stall_timeout_ms = 60000;
    struct harness *harness = harness_start(&options);
    static uint8_t body[900 * 1024];
    static uint8_t frame[sizeof body + 4096];
    int first = dial(harness), second = dial(harness), third = dial(harness);
    uint32_t size = make_request(frame, sizeof frame, RP_SERIALIZE_JSON, CODE_PARK, 1, "x", (rp_slice){body, sizeof body});
    /* The first two hold most of the memory with half a frame each, the second beyond the bound, so that the third has to wait. */
    write_all(first, frame, 600 * 1024);
    CHECK(becomes_true(harness, holds_half_of_the_bound));
    write_all(second, frame, 600 * 1024);
    CHECK(becomes_true(harness, holds_more_than_the_bound)); /* else the third might be the one that may */
    write_all(third, frame, 300 * 1024);
    CHECK(becomes_true(harness, somebody_waits));
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    const uint64_t first_read = 2 * 128 * 1024; /* twice what it brings: room for more */
    CHECK(stats.buffer_bytes <= options.memory_bytes_max + sizeof frame + first_read);
    /* Small requests pass meanwhile. */
    int other = dial(harness);
    expect_echo(other, 1);
    /* Those who wait are served when the first has gone. */
    close(first);
    write_all(second, frame + 600 * 1024, size - 600 * 1024);
    expect_echo(second, 2);
    write_all(third, frame + 300 * 1024, size - 300 * 1024);
    expect_echo(third, 3);
    close(second);
    close(third);
    close(other);
    harness_stop(harness);
}

#define IDLE_CONNECTIONS 10000

static long own_rss_bytes(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &pages, &resident) == 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static int64_t own_cpu_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* The other end of the idle connections: a process of its own, because one has not descriptors enough for both ends. */
static void hold_connections(uint16_t port, int count, int to_parent, int from_parent) {
    char byte = 'c';
    for (int index = 0; index < count; index++) {
        dial_port(port, 0);
    }
    CHECK(write(to_parent, &byte, 1) == 1);
    CHECK(read(from_parent, &byte, 1) >= 0);
    _exit(0);
}

static int allows_descriptors(rlim_t count) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max >= count;
}

/* A process that holds the connections, for which this one may have no descriptors left. */
typedef struct connection_holder {
    pid_t process;
    int port_fd, opened_fd, leave_fd; /* told the port; has opened all; closed when it is to leave */
} connection_holder;

/* Before any thread exists. */
static connection_holder start_holder(void) {
    int port_pipe[2], to_parent[2], from_parent[2];
    CHECK(pipe(port_pipe) == 0 && pipe(to_parent) == 0 && pipe(from_parent) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint16_t port;
        CHECK(read(port_pipe[0], &port, sizeof port) == sizeof port);
        close(from_parent[1]);
        hold_connections(port, IDLE_CONNECTIONS, to_parent[1], from_parent[0]);
    }
    close(to_parent[1]); /* the child's alone: its end is seen here */
    return (connection_holder){child, port_pipe[1], to_parent[0], from_parent[1]};
}

static void open_held_connections(const connection_holder *holder, struct harness *harness) {
    uint16_t port = rp_server_port(harness->server);
    char byte;
    CHECK(write(holder->port_fd, &port, sizeof port) == sizeof port);
    CHECK(read(holder->opened_fd, &byte, 1) == 1);
    for (int opened = 0; opened < IDLE_CONNECTIONS; opened++) {
        rp_request_free(take_kind(harness, RP_REQUEST_OPENED));
    }
}

static void end_holder(const connection_holder *holder) {
    int status;
    close(holder->leave_fd);
    CHECK(waitpid(holder->process, &status, 0) == holder->process && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Percent of a core that this process takes while it has nothing to do: of some periods the least. The kernel counts to whoever runs what
 * a busy machine does meanwhile. */
static double least_idle_percent(void) {
    double least = 100;
    for (int period = 0; period < 20 && least >= 1; period++) {
        int64_t cpu_before = own_cpu_ns(), since_ms = now_ms();
        poll(NULL, 0, 500);
        double percent = (double)(own_cpu_ns() - cpu_before) / 1e4 / (double)(now_ms() - since_ms);
        least = percent < least ? percent : least;
    }
    return least;
}

static void ten_thousand_idle_connections_cost_little(void) {
    if (!allows_descriptors(IDLE_CONNECTIONS + 200)) {
        printf("skipped: 10,000 connections need a hard limit of 10,200 descriptors\n");
        return;
    }
    connection_holder holder = start_holder();
    rp_server_options options = small_options();
    options.idle_timeout_ms = 3600000; /* a slow machine takes long to open them */
    struct harness *harness = harness_start(&options);
    long rss_before = own_rss_bytes();
    open_held_connections(&holder, harness);
    int fd = dial(harness);
    for (int opaque = 0; opaque < 200; opaque++) {
        expect_echo(fd, opaque);
    }
    long rss = own_rss_bytes() - rss_before;
    double percent = least_idle_percent();
    printf("10,000 connections: %ld KB resident, %.2f %% of a core while idle\n", rss / 1024, percent);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(rss < 20 * 1024 * 1024);
    CHECK(percent < 1);
#endif
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.connections_open == IDLE_CONNECTIONS + 1);
    end_holder(&holder);
    close(fd);
    harness_stop(harness);
}

/* A sender on the reactor's own thread, between what a turn took from other threads and what it sends. */
struct late_sender {
    rp_server *server;
    rp_slice body;
    _Atomic uint64_t id;
    _Atomic int status; /* of its send behind another one; 1: not yet */
};

static int send_body(struct late_sender *sender) {
    rp_command command;
    rp_command_clear(&command, CODE_PYTHON, RP_SERIALIZE_JSON);
    command.body = sender->body;
    return rp_server_send(sender->server, atomic_load(&sender->id), &command);
}

static int tell_id(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    struct late_sender *sender = context;
    atomic_store(&sender->id, rp_connection_id(connection));
    (void)reactor, (void)command, (void)resubmitted;
    return RP_HANDLED;
}

static void send_behind_another(void *context, rp_reactor *reactor) {
    struct late_sender *sender = context;
    rp_connection *connection = rp_reactor_connection(reactor, atomic_load(&sender->id));
    if (connection != NULL && atomic_load(&sender->status) == 1 && rp_connection_unsent_bytes(connection) >= sender->body.size) {
        atomic_store(&sender->status, send_body(sender));
    }
}

static void what_a_turn_has_not_sent_yet_counts_for_the_bound(void) {
    static uint8_t body[8192];
    struct late_sender sender = {.body = {body, sizeof body}, .status = 1};
    rp_handler handler = {.context = &sender, .on_request = tell_id, .on_turn_end = send_behind_another};
    rp_server_options options = small_options();
    rp_error error = {0};
    options.bind_address = "127.0.0.1";
    options.reactors = 1;
    options.output_bytes_max = sizeof body;
    CHECK(rp_server_open(&options, &handler, &sender.server, &error) == RP_OK && rp_server_start(sender.server, &error) == RP_OK);
    int fd = dial_port(rp_server_port(sender.server), 0);
    send_request(fd, RP_SERIALIZE_JSON, CODE_PARK, 1, NULL, (rp_slice){NULL, 0});
    for (int waited = 0; atomic_load(&sender.id) == 0 && waited < WAIT_MS; waited++) {
        (void)poll(NULL, 0, 1);
    }
    CHECK(send_body(&sender) == RP_OK);
    for (int waited = 0; atomic_load(&sender.status) == 1 && waited < WAIT_MS; waited++) {
        (void)poll(NULL, 0, 1);
    }
    CHECK(atomic_load(&sender.status) == RP_E_BUSY);
    close(fd);
    rp_server_stop(sender.server, 1000);
    rp_server_close(sender.server);
}

int main(void) {
    RUN(ten_thousand_idle_connections_cost_little);
    RUN(bad_frames_close_the_connection_with_a_log_line);
    RUN(garbage_harms_nobody_else);
    RUN(a_claimed_size_allocates_nothing);
    RUN(the_ring_refuses_what_python_does_not_take);
    RUN(a_slow_reader_is_not_read_and_loses_nothing);
    RUN(what_a_turn_has_not_sent_yet_counts_for_the_bound);
    RUN(a_client_that_never_reads_is_closed_with_a_log_line);
    RUN(an_idle_connection_is_closed_and_a_used_one_is_not);
    RUN(connections_past_the_bound_are_refused);
    RUN(a_server_without_descriptors_refuses_and_recovers);
    RUN(the_last_descriptors_are_no_connections);
    RUN(a_server_without_descriptors_says_so);
    RUN(large_frames_wait_for_memory_and_finish_when_it_is_there);
    return 0;
}
