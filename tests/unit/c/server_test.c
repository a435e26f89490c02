/* server_test.c: the remoting server's dialogue: frames in any fragmentation, answers in the request's encoding, the way up to Python and
 * back. For limits and hostile input see server_limits_test.c. */
#include "server_harness.h"

#include "../../../csrc/base/thread.h"

static void frames_arrive_in_single_bytes_and_answers_keep_the_encoding(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    for (int serialize_type = 0; serialize_type < 2; serialize_type++) {
        int fd = dial(harness);
        uint8_t frames[2][1024];
        uint32_t sizes[2];
        for (int number = 0; number < 2; number++) {
            sizes[number] =
                make_request(frames[number], sizeof frames[number], serialize_type, CODE_ECHO, 7 + number, "v\n", text_slice("some body"));
            for (uint32_t index = 0; index < sizes[number]; index++) {
                write_all(fd, &frames[number][index], 1);
            }
        }
        for (int number = 0; number < 2; number++) {
            rp_command response;
            uint8_t *frame = read_frame(fd, arena, &response);
            CHECK(response.serialize_type == serialize_type && response.opaque == 7 + number && response.code == 0);
            CHECK(response.body.size == 9 && memcmp(response.body.data, "some body", 9) == 0);
            rp_slice value = rp_command_field(&response, "size");
            CHECK(value.size == 2 && memcmp(value.data, "v\n", 2) == 0);
            free(frame);
        }
        close(fd);
    }
    rp_arena_destroy(arena);
    harness_stop(harness);
}

static void pipelined_requests_are_answered_in_order_in_few_turns(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    int fd = dial(harness);
    static uint8_t frames[1 << 20];
    uint32_t size = 0;
    int total = 2000;
    uint8_t body[300] = {0};
    for (int opaque = 0; opaque < total; opaque++) {
        /* Odd sizes, so that the cuts of recv fall everywhere. */
        rp_slice part = {body, (uint32_t)(opaque * 37 % 300)};
        size += make_request(frames + size, sizeof frames - size, opaque & 1, CODE_ECHO, opaque, "x", part);
    }
    write_all(fd, frames, size);
    for (int opaque = 0; opaque < total; opaque++) {
        expect_response(fd, 0, opaque, NULL);
    }
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.frames_in == (uint64_t)total && stats.frames_out == (uint64_t)total && stats.bytes_in == size);
    CHECK(stats.turns < (uint64_t)total / 4);
    close(fd);
    harness_stop(harness);
}

static void frames_of_every_size_come_back_whole(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    int fd = dial(harness);
    static uint8_t body[12 << 20];
    for (uint32_t index = 0; index < sizeof body; index++) {
        body[index] = (uint8_t)(index * 2654435761u >> 23);
    }
    static const uint32_t sizes[] = {1, 4095, 16000, 16384, 40000, 131000, 140000, 1 << 20, 3 << 20, 12 << 20, 1 << 20, 200000, 3 << 20, 5};
    for (uint32_t round = 0; round < sizeof sizes / sizeof sizes[0]; round++) {
        /* A large frame, and small ones on both sides of it in the same stream. */
        send_request(fd, RP_SERIALIZE_ROCKETMQ, CODE_ECHO, 1, "a", text_slice("small"));
        send_request(fd, RP_SERIALIZE_ROCKETMQ, CODE_ECHO, 2, "b", (rp_slice){body, sizes[round]});
        send_request(fd, RP_SERIALIZE_ROCKETMQ, CODE_ECHO, 3, "c", text_slice("small"));
        for (int opaque = 1; opaque <= 3; opaque++) {
            rp_command response;
            uint8_t *frame = read_frame(fd, arena, &response);
            CHECK(response.opaque == opaque);
            CHECK(opaque != 2 || (response.body.size == sizes[round] && memcmp(response.body.data, body, sizes[round]) == 0));
            free(frame);
        }
    }
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    rp_arena_destroy(arena);
    close(fd);
    harness_stop(harness);
}

static void file_ranges_are_sent_and_released_also_when_the_reader_goes_away(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    int fd = dial(harness);
    static const char *const sizes[] = {"1", "1000", "70000", "200000", "4194304"};
    for (uint32_t round = 0; round < 5; round++) {
        send_request(fd, round & 1, CODE_RANGE, (int)round, sizes[round], (rp_slice){NULL, 0});
        rp_command response;
        uint8_t *frame = read_frame(fd, arena, &response);
        CHECK(response.body.size == (uint32_t)atoi(sizes[round]) && memcmp(response.body.data, harness->file, response.body.size) == 0);
        free(frame);
    }
    int gone = dial(harness);
    for (int count = 0; count < 5; count++) {
        send_request(gone, RP_SERIALIZE_JSON, CODE_RANGE, count, "4194304", (rp_slice){NULL, 0});
    }
    uint8_t one;
    read_all(gone, &one, 1);
    close(gone);
    close(fd);
    rp_arena_destroy(arena);
    harness_stop(harness);
}

static void python_sees_opened_requests_and_closed_in_order(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    int fd = dial(harness);
    send_request(fd, RP_SERIALIZE_JSON, CODE_PYTHON, 11, "esc\"aped", text_slice("to python"));
    rp_request *opened = take_request(harness);
    CHECK(opened != NULL && opened->kind == RP_REQUEST_OPENED && strncmp(opened->remote_address, "127.0.0.1:", 10) == 0);
    rp_request *request = take_request(harness);
    CHECK(request != NULL && request->kind == RP_REQUEST_COMMAND && request->connection_id == opened->connection_id);
    CHECK(request->command.code == CODE_PYTHON && request->command.opaque == 11);
    CHECK(request->command.body.size == 9 && memcmp(request->command.body.data, "to python", 9) == 0);
    rp_slice value = rp_command_field(&request->command, "size");
    CHECK(value.size == 8 && memcmp(value.data, "esc\"aped", 8) == 0);
    CHECK(strcmp(request->remote_address, opened->remote_address) == 0);

    rp_command response;
    rp_command_clear_response(&response, &request->command, 17);
    response.remark = text_slice("no such topic");
    CHECK(rp_server_send(harness->server, request->connection_id, &response) == RP_OK);
    expect_response(fd, 17, 11, "no such topic");

    /* a request of ours, and the client's response to it */
    rp_command_clear(&response, 40, RP_SERIALIZE_ROCKETMQ);
    response.opaque = 99;
    CHECK(rp_server_send(harness->server, request->connection_id, &response) == RP_OK);
    rp_command asked;
    free(read_frame(fd, arena, &asked));
    CHECK(asked.code == 40 && asked.opaque == 99 && asked.flag == 0);
    rp_command reply;
    rp_command_clear_response(&reply, &asked, 0);
    uint8_t frame[256];
    write_all(fd, frame, (size_t)rp_command_encode(&reply, frame, sizeof frame));
    rp_request *up = take_request(harness);
    CHECK(up != NULL && up->kind == RP_REQUEST_RESPONSE && up->command.opaque == 99 && up->command.serialize_type == RP_SERIALIZE_ROCKETMQ);
    close(fd);
    rp_request *closed = take_request(harness);
    CHECK(closed != NULL && closed->kind == RP_REQUEST_CLOSED && closed->connection_id == opened->connection_id &&
          closed->command.remark.size > 0);
    CHECK(rp_server_send(harness->server, opened->connection_id, &response) == RP_E_CLOSED);
    CHECK(rp_server_close_connection(harness->server, opened->connection_id) == RP_E_CLOSED);
    CHECK(rp_server_send(harness->server, 0, &response) == RP_E_CLOSED &&
          rp_server_send(harness->server, UINT64_MAX, &response) == RP_E_CLOSED);
    rp_request_free(opened);
    rp_request_free(request);
    rp_request_free(up);
    rp_request_free(closed);
    rp_arena_destroy(arena);
    harness_stop(harness);
}

static void a_resubmitted_request_reaches_the_handler_again(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    int fd = dial(harness);
    send_request(fd, RP_SERIALIZE_ROCKETMQ, CODE_TWICE, 5, "x", text_slice("again"));
    CHECK(rp_server_resubmit(harness->server, take_kind(harness, RP_REQUEST_COMMAND), 1) == RP_OK);
    expect_response(fd, 0, 5, NULL);
    CHECK(atomic_load(&harness->resubmitted) == 1);
    /* one that the handler never takes */
    send_request(fd, RP_SERIALIZE_JSON, CODE_PYTHON, 6, "x", text_slice("again"));
    CHECK(rp_server_resubmit(harness->server, take_kind(harness, RP_REQUEST_COMMAND), 1) == RP_OK);
    expect_response(fd, 1, 6, NULL);
    /* one whose client is gone */
    send_request(fd, RP_SERIALIZE_JSON, CODE_PYTHON, 7, "x", text_slice("again"));
    rp_request *late = take_kind(harness, RP_REQUEST_COMMAND);
    close(fd);
    rp_request_free(take_kind(harness, RP_REQUEST_CLOSED));
    CHECK(rp_server_resubmit(harness->server, late, 1) == RP_E_CLOSED);
    harness_stop(harness);
}

#define SENDERS 4
#define SENDS_EACH 500

struct sender {
    struct harness *harness;
    uint64_t connection_id;
    int number;
    rp_thread *thread;
};

static void send_many(void *context) {
    struct sender *sender = context;
    for (int index = 0; index < SENDS_EACH; index++) {
        rp_command command;
        rp_command_clear(&command, sender->number, (uint8_t)(index & 1));
        command.opaque = index;
        command.body = text_slice(index % 10 == 0 ? "a longer body, so that pieces of both kinds are chained" : "b");
        int status;
        while ((status = rp_server_send(sender->harness->server, sender->connection_id, &command)) == RP_E_BUSY) {
            poll(NULL, 0, 1);
        }
        CHECK(status == RP_OK);
        rp_reactor_wake(rp_server_reactor(sender->harness->server, (uint16_t)(index & 1)));
    }
}

static void many_threads_send_on_one_connection(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    int fd = dial(harness);
    rp_request *opened = take_kind(harness, RP_REQUEST_OPENED);
    struct sender senders[SENDERS];
    for (int number = 0; number < SENDERS; number++) {
        senders[number] = (struct sender){harness, opened->connection_id, number, NULL};
        CHECK(rp_thread_start(&senders[number].thread, "sender", send_many, &senders[number]) == RP_OK);
    }
    int next[SENDERS] = {0};
    for (int count = 0; count < SENDERS * SENDS_EACH; count++) {
        rp_command command;
        free(read_frame(fd, arena, &command));
        CHECK(command.code < SENDERS && command.opaque == next[command.code]);
        next[command.code]++;
        rp_arena_reset(arena);
    }
    for (int number = 0; number < SENDERS; number++) {
        rp_thread_join(senders[number].thread);
    }
    CHECK(atomic_load(&harness->wakes) > 0);
    rp_request_free(opened);
    rp_arena_destroy(arena);
    close(fd);
    harness_stop(harness);
}

static int has_deadlines(struct harness *harness) { return atomic_load(&harness->deadlines) >= 1; }

static void wakes_and_deadlines_reach_the_handler(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    atomic_store(&harness->deadline_ns, rp_clock_monotonic_ns(NULL) + 20000000);
    rp_reactor_wake(rp_server_reactor(harness->server, 1));
    CHECK(becomes_true(harness, has_deadlines));
    CHECK(rp_server_reactor(harness->server, 2) == NULL && rp_server_reactor_count(harness->server) == 2);
    /* nothing to do now: no turn is made */
    uint64_t before = atomic_load(&harness->turn_ends);
    poll(NULL, 0, 300);
    CHECK(atomic_load(&harness->turn_ends) - before <= 2);
    harness_stop(harness);
}

static void two_servers_live_in_one_process(void) {
    rp_server_options options = small_options();
    struct harness *left = harness_start(&options);
    rp_server_options other = small_options();
    other.reactors = 1;
    other.spin_us = 100;
    struct harness *right = harness_start(&other);
    int left_fd = dial(left), right_fd = dial(right);
    for (int opaque = 0; opaque < 50; opaque++) {
        expect_echo(left_fd, opaque);
        expect_echo(right_fd, opaque);
    }
    harness_stop(left);
    expect_echo(right_fd, 50);
    CHECK(is_closed(left_fd));
    close(left_fd);
    close(right_fd);
    harness_stop(right);
}

static void stop_slowly(void *context) { rp_server_stop(context, WAIT_MS); }

static void stopping_lets_answers_leave(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    int fd = dial_port(rp_server_port(harness->server), 4096);
    /* More than the sockets hold: what is left is drained by stop while this side reads. */
    send_request(fd, RP_SERIALIZE_JSON, CODE_RANGE, 1, "4194304", (rp_slice){NULL, 0});
    uint8_t head[4];
    read_all(fd, head, sizeof head);
    rp_thread *stopper;
    CHECK(rp_thread_start(&stopper, "stopper", stop_slowly, harness->server) == RP_OK);
    uint32_t size = rp_get_u32(head);
    uint8_t *rest = malloc(size);
    CHECK(rest != NULL);
    read_all(fd, rest, size);
    CHECK(memcmp(rest + size - 1000, harness->file + RANGE_FILE_BYTES - 1000, 1000) == 0);
    free(rest);
    rp_thread_join(stopper);
    CHECK(is_closed(fd));
    close(fd);
    harness_stop(harness);
}

static void what_cannot_be_opened_says_why(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    rp_server *second;
    rp_error error = {0};
    options.port = rp_server_port(harness->server);
    CHECK(rp_server_open(&options, NULL, &second, &error) == RP_E_NETWORK && strstr(error.message, "in use") != NULL);
    options.bind_address = "no.such.host";
    CHECK(rp_server_open(&options, NULL, &second, &error) == RP_E_INVALID && strstr(error.message, "no.such.host") != NULL);
    options.bind_address = "203.0.113.7";
    CHECK(rp_server_open(&options, NULL, &second, &error) == RP_E_NETWORK);
    options.reactors = 0;
    CHECK(rp_server_open(&options, NULL, &second, &error) == RP_E_INVALID);
    CHECK(rp_server_start(harness->server, &error) == RP_E_CLOSED);
    harness_stop(harness);
    /* a server that never started, without a handler */
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    CHECK(rp_server_open(&options, NULL, &second, &error) == RP_OK);
    rp_server_close(second);
}

int main(void) {
    RUN(frames_arrive_in_single_bytes_and_answers_keep_the_encoding);
    RUN(pipelined_requests_are_answered_in_order_in_few_turns);
    RUN(frames_of_every_size_come_back_whole);
    RUN(file_ranges_are_sent_and_released_also_when_the_reader_goes_away);
    RUN(python_sees_opened_requests_and_closed_in_order);
    RUN(a_resubmitted_request_reaches_the_handler_again);
    RUN(many_threads_send_on_one_connection);
    RUN(wakes_and_deadlines_reach_the_handler);
    RUN(two_servers_live_in_one_process);
    RUN(stopping_lets_answers_leave);
    RUN(what_cannot_be_opened_says_why);
    return 0;
}
