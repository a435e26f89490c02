/* server_turns_test.c: who runs a reactor's turns: other threads while it sleeps (rp_reactor_serve), a stand-in while its thread is away
 * (rp_reactor_leave); and in which order, and how many of, a turn's answers are sent. */
#include "../../../csrc/base/thread.h"
#include "server_harness.h"

#define SERVERS 3
#define ROUNDS 300
#define LONE_REQUESTS 9 /* RP_LONE_REQUESTS behind the first */

static rp_server_options one_reactor(void) {
    rp_server_options options;
    rp_server_options_default(&options);
    options.reactors = 1;
    return options;
}

static void ask(int fd, int code, int opaque) { send_request(fd, RP_SERIALIZE_JSON, code, opaque, NULL, (rp_slice){NULL, 0}); }

static void another_thread_answers_while_the_reactor_sleeps(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    rp_reactor *reactor = rp_server_reactor(harness->server, 0);
    int fd = dial(harness);
    for (int opaque = 1; opaque <= ROUNDS; opaque++) {
        ask(fd, CODE_LATER, opaque);
        struct pollfd answered = {fd, POLLIN, 0};
        int64_t until = now_ms() + WAIT_MS;
        do { /* the request may not have arrived yet: asked again, as the flusher asks after each sync */
            CHECK(now_ms() < until);
            rp_reactor_serve(reactor);
        } while (poll(&answered, 1, 0) == 0);
        expect_response(fd, 0, opaque, NULL);
    }
    CHECK(atomic_load(&harness->wakes) >= ROUNDS);
    close(fd);
    harness_stop(harness);
}

struct server {
    struct harness *harness;
    _Atomic int *is_over;
    rp_thread *thread;
};

static void serve_until_over(void *context) {
    struct server *server = context;
    const struct timespec gap = {.tv_nsec = 20000}; /* the lock goes to whoever asks next, and that would be one of these again */
    while (!atomic_load(server->is_over)) {
        rp_reactor_serve(rp_server_reactor(server->harness->server, 0));
        nanosleep(&gap, NULL);
    }
}

/* The connections come and go, so that what epoll has handed out may end meanwhile. */
static void many_threads_serve_beside_the_reactor(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    _Atomic int is_over = 0;
    struct server servers[SERVERS];
    for (int index = 0; index < SERVERS; index++) {
        servers[index] = (struct server){harness, &is_over, NULL};
        CHECK(rp_thread_start(&servers[index].thread, "server", serve_until_over, &servers[index]) == RP_OK);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int fd = dial(harness);
        expect_echo(fd, 2 * round + 1);
        ask(fd, CODE_LATER, 2 * round + 2);
        expect_response(fd, 0, 2 * round + 2, NULL);
        close(fd);
    }
    atomic_store(&is_over, 1);
    for (int index = 0; index < SERVERS; index++) {
        rp_thread_join(servers[index].thread);
    }
    harness_stop(harness);
}

static int has_released_both(struct harness *harness) { return atomic_load(&harness->ranges_released) == 2; }

static void small_answers_leave_before_large_ones(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    int small = dial(harness), large = dial(harness);
    ask(small, CODE_LATER, 1);
    expect_echo(small, 2);
    atomic_store(&harness->watched_fd, small);
    send_request(large, RP_SERIALIZE_JSON, CODE_BOTH, 3, "65536", (rp_slice){NULL, 0});
    expect_response(large, 0, 3, NULL);
    CHECK(becomes_true(harness, has_released_both));
    CHECK(atomic_load(&harness->released_late) == 2);
    expect_response(small, 0, 1, NULL);
    close(small);
    close(large);
    harness_stop(harness);
}

/* Has JOINED_MAX connections wait for CODE_ALL: their answers then are of one turn. */
static void join(struct harness *harness, int *fds) {
    for (int index = 0; index < JOINED_MAX; index++) {
        fds[index] = dial(harness);
        ask(fds[index], CODE_JOIN, index + 1);
        expect_echo(fds[index], JOINED_MAX + index + 1);
    }
}

static void answer_all(int fd, int opaque, const char *size) {
    send_request(fd, RP_SERIALIZE_JSON, CODE_ALL, opaque, size, (rp_slice){NULL, 0});
}

/* Of those who have joined and not left. */
static void take_answers(const int *fds) {
    for (int index = 0; index < JOINED_MAX; index++) {
        if (fds[index] >= 0) {
            expect_response(fds[index], 0, index + 1, NULL);
            close(fds[index]);
        }
    }
}

/* 32 answers of 32 KB, two ranges each. */
static void a_turn_sends_only_some_of_its_large_answers(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    int fds[JOINED_MAX], asker = dial(harness);
    join(harness, fds);
    answer_all(asker, 1, "32768");
    take_answers(fds);
    CHECK(atomic_load(&harness->released_at_once) <= 2 * 9);
    close(asker);
    harness_stop(harness);
}

/* Every third connection is closed by the handler that has answered it, and most answers go out in later turns. */
static void who_is_closed_while_large_answers_wait_has_his_first(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    int fds[JOINED_MAX], asker = dial(harness);
    for (int round = 0; round < ROUNDS / 10; round++) {
        join(harness, fds);
        send_request(asker, RP_SERIALIZE_JSON, CODE_ALL_AND_CLOSE, round, "32768", (rp_slice){NULL, 0});
        for (int index = 0; index < JOINED_MAX; index++) {
            char byte;
            expect_response(fds[index], 0, index + 1, NULL);
            CHECK(index % CLOSED_EVERY != 0 || recv(fds[index], &byte, 1, 0) == 0);
            close(fds[index]);
        }
    }
    expect_echo(asker, ROUNDS);
    close(asker);
    harness_stop(harness); /* which looks whether all ranges were given back */
}

static void who_leaves_while_large_answers_wait_takes_his_along(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    int fds[JOINED_MAX], asker = dial(harness);
    for (int round = 0; round < ROUNDS / 10; round++) {
        join(harness, fds);
        answer_all(asker, round, "262144");
        for (int index = round % 3; index < JOINED_MAX; index += 3) {
            close(fds[index]);
            fds[index] = -1;
        }
        take_answers(fds);
    }
    expect_echo(asker, ROUNDS);
    close(asker);
    harness_stop(harness); /* which looks whether all ranges were given back */
}

/* Of the thread that handled the last request: whether it sleeps, and its CPU time in the kernel's ticks. */
static int look_at_turner(struct harness *harness, long *ticks) {
    char path[64], state = 0;
    long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&harness->turned_by));
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fscanf(file, "%*d (%*[^)]) %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &state, &user, &kernel) == 3);
    fclose(file);
    *ticks = user + kernel;
    return state == 'S';
}

static int is_asleep(struct harness *harness) {
    long ticks;
    return look_at_turner(harness, &ticks);
}

/* Whether the reactor, which has nothing to do, takes processor time instead of going to sleep. */
static int polls(struct harness *harness) {
    int64_t until = now_ms() + WAIT_MS;
    long begin, now;
    int sleeps = look_at_turner(harness, &begin);
    for (now = begin; !sleeps && now < begin + 3; sleeps = look_at_turner(harness, &now)) {
        CHECK(now_ms() < until);
        poll(NULL, 0, 1);
    }
    return !sleeps;
}

/* Each in turn, one request at a time. More than once: a reactor that was kept from its core finds the next request there at once, and
 * trusts in polling less. */
static void ask_until_it_polls(struct harness *harness, const int *fds, int count) {
    int64_t until = now_ms() + WAIT_MS;
    do {
        CHECK(now_ms() < until);
        for (int index = 0; index < count; index++) {
            expect_echo(fds[index], 1);
        }
    } while (!polls(harness));
}

/* In one piece, so that both come in one turn. */
static void ask_two_at_once(int fd, int opaque) {
    uint8_t frames[1024];
    size_t size = 0;
    for (int which = 0; which < 2; which++) {
        size += make_request(frames + size, sizeof frames - size, RP_SERIALIZE_JSON, CODE_ECHO, opaque + which, NULL, (rp_slice){NULL, 0});
    }
    write_all(fd, frames, size);
    expect_response(fd, 0, opaque, NULL);
    expect_response(fd, 0, opaque + 1, NULL);
}

static void a_reactor_polls_for_who_asks_one_request_at_a_time(void) {
    rp_server_options options = one_reactor();
    options.spin_us = 1000000u * 3600;
    options.idle_timeout_ms = 0; /* a timer would end the polling */
    for (int askers = 1; askers <= 2; askers++) {
        struct harness *harness = harness_start(&options);
        int fds[2] = {dial(harness), dial(harness)};
        ask_until_it_polls(harness, fds, askers);
        ask_two_at_once(fds[0], 101);
        CHECK(becomes_true(harness, is_asleep));
        ask_until_it_polls(harness, fds, askers);
        ask(fds[0], CODE_PARK, 103); /* no answer */
        CHECK(becomes_true(harness, is_asleep));
        close(fds[0]);
        close(fds[1]);
        harness_stop(harness);
    }
}

static int has_left_for_ten(struct harness *harness) { return atomic_load(&harness->left_for) == 10; }
static int came_back_from_ten(struct harness *harness) { return atomic_load(&harness->came_back) == 10; }
static int has_left_for_thirty(struct harness *harness) { return atomic_load(&harness->left_for) == 30; }

/* Starts a server and sends its reactor's thread away with the argument 10. *fd: the connection that did. */
static struct harness *start_and_leave(int *fd) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    *fd = dial(harness);
    ask(*fd, CODE_LEAVE, 10);
    expect_response(*fd, 0, 10, NULL);
    CHECK(becomes_true(harness, has_left_for_ten));
    return harness;
}

static void a_stand_in_turns_the_reactor_while_its_thread_is_away(void) {
    int fd;
    struct harness *harness = start_and_leave(&fd);
    int newcomer = dial(harness); /* the stand-in also accepts connections */
    expect_echo(newcomer, 11);
    expect_echo(fd, 12);
    ask(fd, CODE_LEAVE, 13); /* refused: there is no second stand-in */
    expect_response(fd, -RP_E_BUSY, 13, NULL);
    atomic_store(&harness->may_return, 1);
    CHECK(becomes_true(harness, came_back_from_ten));
    int64_t until = now_ms() + WAIT_MS;
    int status;
    do { /* the thread is back, but the reactor may not know yet */
        CHECK(now_ms() < until);
        rp_arena *arena = rp_arena_create(4096, 1 << 20);
        rp_command response;
        ask(fd, CODE_LEAVE, 20);
        free(read_frame(fd, arena, &response));
        status = response.code;
        rp_arena_destroy(arena);
    } while (status == -RP_E_BUSY);
    CHECK(status == 0);
    CHECK(becomes_true(harness, has_left_for_thirty));
    expect_echo(newcomer, 21);
    close(fd);
    close(newcomer);
    harness_stop(harness);
}

static void become_lone(int fd) {
    for (int opaque = 1; opaque <= LONE_REQUESTS; opaque++) {
        expect_echo(fd, opaque);
    }
}

/* A lone connection asks the thread to leave. Returns who turned the reactor until then. */
static int ask_alone(struct harness *harness, int fd) {
    become_lone(fd);
    ask(fd, CODE_LEAVE, 10);
    expect_response(fd, 0, 10, NULL);
    return atomic_load(&harness->turned_by);
}

static void a_lone_asker_needs_no_stand_in_for_a_thread_that_is_back_soon(void) {
    rp_server_options options = one_reactor();
    options.stand_in_after_us = UINT32_MAX;
    struct harness *harness = harness_start(&options);
    atomic_store(&harness->may_return, 1);
    int fd = dial(harness);
    int turner = ask_alone(harness, fd);
    expect_echo(fd, 11);
    CHECK(came_back_from_ten(harness) && atomic_load(&harness->turned_by) == turner);
    close(fd);
    harness_stop(harness);
}

static void a_thread_that_a_lone_asker_sent_away_is_relieved_in_time(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    int fd = dial(harness);
    int turner = ask_alone(harness, fd);
    CHECK(becomes_true(harness, has_left_for_ten));
    expect_echo(fd, 11);
    CHECK(!came_back_from_ten(harness) && atomic_load(&harness->turned_by) != turner);
    atomic_store(&harness->may_return, 1);
    CHECK(becomes_true(harness, came_back_from_ten));
    close(fd);
    harness_stop(harness);
}

/* Its thread is sent away by fd, which is answered until then; the server's stand_in_after_us is for ever. */
static void expect_stand_in_at_once(struct harness *harness, int fd) {
    ask(fd, CODE_LEAVE, 10);
    expect_response(fd, 0, 10, NULL);
    expect_echo(fd, 11);
    CHECK(!came_back_from_ten(harness));
    atomic_store(&harness->may_return, 1);
    CHECK(becomes_true(harness, came_back_from_ten));
}

static void a_second_asker_has_the_stand_in_called_at_once(void) {
    rp_server_options options = one_reactor();
    options.stand_in_after_us = UINT32_MAX;
    struct harness *harness = harness_start(&options);
    int fd = dial(harness), other = dial(harness);
    become_lone(fd);
    expect_echo(other, 101);
    expect_stand_in_at_once(harness, fd);
    close(fd);
    close(other);
    harness_stop(harness);
}

static void large_answers_that_wait_have_the_stand_in_called_at_once(void) {
    rp_server_options options = one_reactor();
    options.stand_in_after_us = UINT32_MAX;
    struct harness *harness = harness_start(&options);
    int fds[JOINED_MAX], fd = dial(harness);
    join(harness, fds);
    become_lone(fd);
    send_request(fd, RP_SERIALIZE_JSON, CODE_ALL_AND_LEAVE, 10, "32768", (rp_slice){NULL, 0});
    take_answers(fds);
    CHECK(!came_back_from_ten(harness));
    atomic_store(&harness->may_return, 1);
    CHECK(becomes_true(harness, came_back_from_ten));
    close(fd);
    harness_stop(harness);
}

static void requests_that_come_together_have_the_stand_in_called_at_once(void) {
    rp_server_options options = one_reactor();
    options.stand_in_after_us = UINT32_MAX;
    struct harness *harness = harness_start(&options);
    int fd = dial(harness), together = 1, apart = 0;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &together, sizeof together) == 0);
    for (int opaque = 1; opaque <= LONE_REQUESTS + 1; opaque++) {
        ask(fd, CODE_ECHO, opaque);
    }
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &apart, sizeof apart) == 0);
    for (int opaque = 1; opaque <= LONE_REQUESTS + 1; opaque++) {
        expect_response(fd, 0, opaque, NULL);
    }
    expect_stand_in_at_once(harness, fd);
    close(fd);
    harness_stop(harness);
}

static void let_it_return(void *context) {
    struct harness *harness = context;
    int fd = dial(harness);
    CHECK(is_closed(fd)); /* the stand-in has closed everything: the server stops */
    close(fd);
    atomic_store(&harness->may_return, 1);
}

/* fd's request has sent it away. */
static void stop_while_it_is_away(struct harness *harness, int fd) {
    rp_thread *releaser;
    CHECK(rp_thread_start(&releaser, "releaser", let_it_return, harness) == RP_OK);
    expect_echo(fd, 11);
    rp_request_free(take_kind(harness, RP_REQUEST_OPENED)); /* fd's */
    rp_request_free(take_kind(harness, RP_REQUEST_OPENED)); /* the releaser's */
    rp_server_stop(harness->server, 1000);
    CHECK(came_back_from_ten(harness));
    rp_thread_join(releaser);
    CHECK(is_closed(fd));
    close(fd);
    harness_stop(harness);
}

static void a_server_stops_while_a_thread_is_away(void) {
    int fd;
    struct harness *harness = start_and_leave(&fd);
    stop_while_it_is_away(harness, fd);
}

static void a_server_stops_while_a_thread_that_a_lone_asker_sent_is_away(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    int fd = dial(harness);
    ask_alone(harness, fd);
    CHECK(becomes_true(harness, has_left_for_ten));
    stop_while_it_is_away(harness, fd);
}

int main(void) {
    RUN(another_thread_answers_while_the_reactor_sleeps);
    RUN(many_threads_serve_beside_the_reactor);
    RUN(small_answers_leave_before_large_ones);
    RUN(a_turn_sends_only_some_of_its_large_answers);
    RUN(who_is_closed_while_large_answers_wait_has_his_first);
    RUN(who_leaves_while_large_answers_wait_takes_his_along);
    RUN(a_reactor_polls_for_who_asks_one_request_at_a_time);
    RUN(a_stand_in_turns_the_reactor_while_its_thread_is_away);
    RUN(a_lone_asker_needs_no_stand_in_for_a_thread_that_is_back_soon);
    RUN(a_thread_that_a_lone_asker_sent_away_is_relieved_in_time);
    RUN(a_second_asker_has_the_stand_in_called_at_once);
    RUN(large_answers_that_wait_have_the_stand_in_called_at_once);
    RUN(requests_that_come_together_have_the_stand_in_called_at_once);
    RUN(a_server_stops_while_a_thread_is_away);
    RUN(a_server_stops_while_a_thread_that_a_lone_asker_sent_is_away);
    return 0;
}
