/* broker_fixture.h: a store in a temporary directory, a broker over it, a server on a free port, and a client that speaks both encodings.
 * Every function ends the program with a message if it fails, so that tests contain only their claims. */
#ifndef RP_TESTS_BROKER_FIXTURE_H
#define RP_TESTS_BROKER_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes_inl.h"
#include "broker/broker.h"
#include "broker/broker_stats.h"
#include "broker/pull_path.h"
#include "broker/request_header.h"
#include "check.h"
#include "store/message.h"

#define WAIT_MS 60000 /* for what must happen: no passing test waits this long, but a busy machine may pause */

typedef struct fixture {
    char path[256];
    rp_message_store *store;
    rp_broker *broker;
    rp_server *server;
    rp_message_store_options store_options;
    rp_broker_options broker_options;
    rp_broker_settings settings;
    rp_server_options server_options;
} fixture;

static inline rp_slice text(const char *chars) { return (rp_slice){(const uint8_t *)chars, (uint32_t)strlen(chars)}; }

static inline void must(int status, const rp_error *error, const char *what) {
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, rp_status_name(status), error->message);
    exit(1);
}

/* Returns /dev/shm if it is large enough: containers get one of 64 MB. */
static inline const char *fixture_base(void) {
    struct statvfs shm;
    const char *given = getenv("TMPDIR");
    if (statvfs("/dev/shm", &shm) == 0 && shm.f_bavail * shm.f_frsize >= (512u << 20) && access("/dev/shm", W_OK) == 0)
        return "/dev/shm";
    return given != NULL ? given : "/tmp";
}

/* Options may be changed between fixture_init and fixture_open. */
static inline void fixture_init(fixture *fx) {
    memset(fx, 0, sizeof *fx);
    snprintf(fx->path, sizeof fx->path, "%s/rocketpy-test-XXXXXX", fixture_base());
    CHECK(mkdtemp(fx->path) != NULL);
    rp_message_store_options_default(&fx->store_options);
    fx->store_options.root_path = fx->path;
    /* On a busy machine a slow append is no sign of a stuck disk. */
    fx->store_options.append_wait_timeout_ms = fx->store_options.append_busy_timeout_ms = 30000;
    fx->store_options.commit_log_file_size = 1 << 20;
    fx->store_options.consume_queue_file_size = 20 * 1000;
    fx->store_options.populate_ahead_bytes = 1 << 16;
    rp_broker_options_default(&fx->broker_options);
    rp_broker_settings_default(&fx->settings);
    fx->settings.sync_flush_timeout_ms = fx->settings.slave_timeout_ms = WAIT_MS;
    rp_server_options_default(&fx->server_options);
    /* Nor is a client that asks, answers or reads late: what ends before is not ended by these. */
    fx->broker_options.push_timeout_ms = fx->server_options.idle_timeout_ms = fx->server_options.stall_timeout_ms = 10 * WAIT_MS;
    fx->server_options.bind_address = "127.0.0.1";
    fx->server_options.port = 0;
    fx->server_options.reactors = 1;
}

static inline void fixture_open(fixture *fx) {
    rp_error error = {0};
    must(rp_message_store_open(&fx->store_options, &fx->store, &error), &error, "open store");
    fx->broker_options.store = fx->store;
    must(rp_broker_open(&fx->broker_options, &fx->broker, &error), &error, "open broker");
    rp_broker_set_settings(fx->broker, &fx->settings);
    must(rp_server_open(&fx->server_options, rp_broker_handler(fx->broker), &fx->server, &error), &error, "open server");
    CHECK(rp_broker_attach(fx->broker, fx->server) == RP_OK);
    must(rp_server_start(fx->server, &error), &error, "start server");
    CHECK(rp_broker_put_topic(fx->broker, text("T"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_group(fx->broker, text("G"), 1, 1, 0, 1, 0) == RP_OK);
}

static inline int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static inline int fixture_close_anyway(fixture *fx, rp_error *error) {
    rp_server_stop(fx->server, 0);
    rp_broker_close(fx->broker);
    rp_server_close(fx->server);
    int rc = rp_message_store_close(fx->store, error);
    nftw(fx->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return rc;
}

static inline void fixture_close(fixture *fx) {
    rp_error error = {0};
    must(fixture_close_anyway(fx, &error), &error, "close store");
}

static inline int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- a client ---- */

typedef struct client {
    int fd;
    uint8_t serialize_type;
    int32_t opaque;
    uint8_t *data;
    size_t size, room, taken;
    rp_arena *arena;
} client;

static inline client client_open(const fixture *fx, uint8_t serialize_type) {
    client made = {.serialize_type = serialize_type, .room = 1 << 16};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(rp_server_port(fx->server))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    made.fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(made.fd >= 0 && connect(made.fd, (struct sockaddr *)&address, sizeof address) == 0);
    made.data = malloc(made.room);
    made.arena = rp_arena_create(1 << 16, 1 << 24);
    CHECK(made.data != NULL && made.arena != NULL);
    return made;
}

static inline void client_close(client *c) {
    if (c->fd >= 0)
        close(c->fd);
    free(c->data);
    rp_arena_destroy(c->arena);
    c->fd = -1;
    c->data = NULL;
    c->arena = NULL;
}

static inline void client_write(client *c, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t sent = send(c->fd, bytes, size, MSG_NOSIGNAL);
        CHECK(sent > 0);
        bytes += sent;
        size -= (size_t)sent;
    }
}

/* Starts a request. Add fields by with_text and with_number; their texts must live until it is sent. */
static inline rp_command request_of(client *c, int32_t code) {
    rp_command command = {.code = code, .version = 479, .opaque = ++c->opaque, .serialize_type = c->serialize_type};
    return command;
}
static inline void with_slice(rp_command *command, const char *key, rp_slice value) {
    command->fields[command->field_count++] = (rp_field){text(key), value};
}
static inline void with_text(rp_command *command, const char *key, const char *value) { with_slice(command, key, text(value)); }

typedef struct number_text {
    char chars[24];
} number_text;
#define with_number(command, key, number) with_text(command, key, number_of(&(number_text){{0}}, number))
static inline const char *number_of(number_text *room, int64_t number) {
    snprintf(room->chars, sizeof room->chars, "%" PRId64, number);
    return room->chars;
}

static inline void client_send(client *c, const rp_command *command) {
    size_t room = rp_command_size_max(command);
    uint8_t *frame = malloc(room);
    CHECK(frame != NULL);
    int64_t size = rp_command_encode(command, frame, room);
    CHECK(size > 0);
    client_write(c, frame, (size_t)size);
    free(frame);
}

/* Returns 1: *response is valid until the next receive; 0: nothing arrived within timeout_ms; -1: the connection has ended. */
static inline int client_receive(client *c, rp_command *response, int timeout_ms) {
    int64_t until = now_ms() + timeout_ms;
    if (c->taken > 0) {
        memmove(c->data, c->data + c->taken, c->size - c->taken);
        c->size -= c->taken;
        c->taken = 0;
    }
    for (;;) {
        uint32_t frame_size = 0;
        int found = rp_frame_scan(c->data, c->size, RP_FRAME_SIZE_MAX, &frame_size);
        CHECK(found >= 0);
        if (found == 1) {
            rp_error error;
            rp_arena_reset(c->arena);
            must(rp_command_decode(c->data, frame_size, c->arena, response, &error), &error, "decode response");
            c->taken = frame_size;
            return 1;
        }
        if (c->size == c->room)
            CHECK((c->data = realloc(c->data, c->room *= 2)) != NULL);
        struct pollfd waiter = {.fd = c->fd, .events = POLLIN};
        int64_t left = until - now_ms();
        if (left < 0 || poll(&waiter, 1, (int)left) == 0)
            return 0;
        ssize_t got = recv(c->fd, c->data + c->size, c->room - c->size, 0);
        if (got <= 0)
            return -1;
        c->size += (size_t)got;
    }
}

static inline rp_command client_call(client *c, const rp_command *command) {
    rp_command response;
    client_send(c, command);
    CHECK(client_receive(c, &response, WAIT_MS) == 1);
    CHECK(response.opaque == command->opaque);
    CHECK(response.flag & RP_COMMAND_RESPONSE);
    CHECK(response.serialize_type == command->serialize_type);
    return response;
}

static inline int slice_contains(rp_slice slice, const char *chars) {
    return slice.data != NULL && memmem(slice.data, slice.size, chars, strlen(chars)) != NULL;
}
static inline int slice_is(rp_slice slice, const char *chars) {
    return slice.data != NULL && slice.size == strlen(chars) && memcmp(slice.data, chars, slice.size) == 0;
}
static inline int slice_starts(rp_slice slice, const char *chars) {
    return slice.data != NULL && slice.size >= strlen(chars) && memcmp(slice.data, chars, strlen(chars)) == 0;
}
static inline int64_t field_number(const rp_command *response, const char *name) {
    int64_t number = INT64_MIN;
    rp_slice value = rp_command_field(response, name);
    CHECK(value.data != NULL && rp_slice_to_i64(value, &number) == RP_OK);
    return number;
}

/* ---- requests of csrc/broker ---- */

static inline rp_command send_request_v2(client *c, int32_t code, const char *topic, int32_t queue_id, const char *properties,
                                         rp_slice body, number_text *queue_text) {
    rp_command command = request_of(c, code);
    with_text(&command, "a", "PG");
    with_text(&command, "b", topic);
    with_text(&command, "c", "TBW102");
    with_text(&command, "d", "4");
    with_text(&command, "e", number_of(queue_text, queue_id));
    with_text(&command, "f", "0");
    with_text(&command, "g", "1700000000123");
    with_text(&command, "h", "7");
    if (properties != NULL)
        with_text(&command, "i", properties);
    with_text(&command, "j", "0");
    with_text(&command, "k", "false");
    command.body = body;
    return command;
}

/* Sends one message and returns its queue offset. */
static inline int64_t send_message(client *c, const char *topic, int32_t queue_id, const char *properties, const char *body) {
    number_text queue_text;
    rp_command command = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, topic, queue_id, properties, text(body), &queue_text);
    rp_command response = client_call(c, &command);
    if (response.code != 0) {
        fprintf(stderr, "send answered %d: %.*s\n", response.code, (int)response.remark.size, (const char *)response.remark.data);
        exit(1);
    }
    return field_number(&response, "queueOffset");
}

typedef struct pull_request {
    const char *group, *topic, *subscription; /* subscription NULL: the one of the heartbeat */
    const char *expression_type;
    int32_t code, queue_id, max_messages, max_bytes, sys_flag;
    int64_t offset, commit_offset, suspend_ms, sub_version;
} pull_request;

static inline pull_request pull_of(int32_t queue_id, int64_t offset) {
    return (pull_request){.group = "G",
                          .topic = "T",
                          .subscription = "*",
                          .code = RP_CODE_PULL_MESSAGE,
                          .queue_id = queue_id,
                          .max_messages = 32,
                          .offset = offset,
                          .sys_flag = RP_PULL_SUBSCRIPTION,
                          .suspend_ms = 15000};
}

static inline int32_t client_send_pull(client *c, const pull_request *pull) {
    number_text numbers[8];
    rp_command command = request_of(c, pull->code);
    with_text(&command, "consumerGroup", pull->group);
    with_text(&command, "topic", pull->topic);
    with_text(&command, "queueId", number_of(&numbers[0], pull->queue_id));
    with_text(&command, "queueOffset", number_of(&numbers[1], pull->offset));
    with_text(&command, "maxMsgNums", number_of(&numbers[2], pull->max_messages));
    with_text(&command, "sysFlag", number_of(&numbers[3], pull->sys_flag));
    with_text(&command, "commitOffset", number_of(&numbers[4], pull->commit_offset));
    with_text(&command, "suspendTimeoutMillis", number_of(&numbers[5], pull->suspend_ms));
    with_text(&command, "subVersion", number_of(&numbers[6], pull->sub_version));
    if (pull->subscription != NULL)
        with_text(&command, "subscription", pull->subscription);
    if (pull->expression_type != NULL)
        with_text(&command, "expressionType", pull->expression_type);
    if (pull->max_bytes > 0)
        with_text(&command, "maxMsgBytes", number_of(&numbers[7], pull->max_bytes));
    client_send(c, &command);
    return command.opaque;
}

static inline rp_command client_pull(client *c, const pull_request *pull) {
    rp_command response;
    int32_t opaque = client_send_pull(c, pull);
    CHECK(client_receive(c, &response, WAIT_MS) == 1);
    CHECK(response.opaque == opaque);
    return response;
}

/* Takes the next punted request within WAIT_MS, skipping connection events; the caller frees it. */
static inline rp_request *take_punted(fixture *fx) {
    int64_t until = now_ms() + WAIT_MS;
    for (;;) {
        rp_request *request;
        while (rp_server_take(fx->server, &request, 1) == 1) {
            if (request->kind == RP_REQUEST_COMMAND)
                return request;
            rp_request_free(request);
        }
        struct pollfd waiter = {.fd = rp_server_event_fd(fx->server), .events = POLLIN};
        int64_t left = until - now_ms();
        CHECK(left > 0);
        poll(&waiter, 1, (int)left);
    }
}

static inline int was_punted(fixture *fx, int32_t code) {
    rp_request *request = take_punted(fx);
    int is_it = request->command.code == code;
    rp_request_free(request);
    return is_it;
}

/* Frees what is left in the ring, so that the server can close. */
static inline void drop_events(fixture *fx) {
    rp_request *requests[64];
    uint32_t count;
    while ((count = rp_server_take(fx->server, requests, 64)) > 0) {
        for (uint32_t i = 0; i < count; i++)
            rp_request_free(requests[i]);
    }
}

/* Waits until claim(context) holds. */
static inline void wait_until(int (*claim)(void *context), void *context) {
    int64_t until = now_ms() + WAIT_MS;
    while (!claim(context)) {
        CHECK(now_ms() < until);
        sched_yield();
    }
}

typedef struct parked_claim {
    const fixture *fx;
    uint64_t count;
} parked_claim;

static inline int are_parked(void *context) {
    const parked_claim *claim = context;
    rp_broker_stats stats;
    rp_broker_read_stats(claim->fx->broker, &stats);
    return stats.responses_parked_now == claim->count;
}

/* Returns when this many responses wait for the disk, for slaves or for a commit. */
static inline void wait_parked(const fixture *fx, uint64_t count) { wait_until(are_parked, &(parked_claim){fx, count}); }

#endif
