/* auth_swap_test.c: tables that change under their readers, and a server with a gate.
 * An optional argument "bench" prints what a signed send of 1 KB costs at the gate. */
#include <pthread.h>

#include "auth_fixture.h"

#define READERS 3
#define SWAPS 2000

/* ---- readers and a writer ---- */

struct swap {
    rp_auth_table *table;
    _Atomic int is_over;
    _Atomic uint64_t judged, refused;
};

static int32_t judge_here(rp_auth_table *table, rp_auth_reader *reader, rp_arena *own, const struct request *request) {
    rp_slice remark;
    rp_arena_reset(own);
    return rp_auth_judge(table, reader, 0, own, &localhost, &request->command, &remark);
}

/* alice always has her rights. bob and carol's rights come and go, but always in the same publication: no reader may see one alone. */
static void *read_on(void *argument) {
    struct swap *swap = argument;
    rp_auth_reader reader = {0};
    rp_arena *own = rp_arena_create(4096, 65536);
    struct request alice, bob, carol, carol_too;
    CHECK(own != NULL);
    begin_send(&alice, "topic");
    sign_as(&alice, "alice", "12345678");
    begin_send(&bob, "free");
    sign_as(&bob, "bob", "secret of bob");
    begin_send(&carol, "even");
    sign_as(&carol, "carol", "1");
    begin_send(&carol_too, "odd");
    sign_as(&carol_too, "carol", "1");
    while (!atomic_load(&swap->is_over)) {
        CHECK(judge_here(swap->table, &reader, own, &alice) == 0);
        int32_t code = judge_here(swap->table, &reader, own, &bob);
        CHECK(code == 0 || code == 16);
        uint64_t version = reader.version;
        int32_t even = judge_here(swap->table, &reader, own, &carol);
        if (version == reader.version) {
            CHECK((code == 0) == (even == 0));
        }
        version = reader.version;
        int32_t odd = judge_here(swap->table, &reader, own, &carol_too);
        CHECK(version != reader.version || (even == 0) != (odd == 0));
        atomic_fetch_add(&swap->judged, 4);
        atomic_fetch_add(&swap->refused, (uint64_t)(code != 0));
    }
    rp_auth_snapshot_release(reader.snapshot);
    rp_arena_destroy(own);
    return NULL;
}

static void change(rp_auth_table *table, uint32_t round) {
    int is_even = round % 2 == 0;
    put_user(table, "carol", "1", 0, 1);
    put_acl(table, "carol", is_even ? "even" : "odd", 0);
    if (is_even) {
        put_user(table, "bob", "secret of bob", 0, 1);
        put_acl(table, "bob", "free", 0);
    } else if (round % 4 == 1) {
        CHECK(rp_auth_table_delete_user(table, text_slice("bob")) == RP_OK);
        CHECK(rp_auth_table_delete_user(table, text_slice("bob")) == RP_E_NOT_FOUND);
    } else {
        CHECK(rp_auth_table_delete_acl(table, text_slice("bob")) == RP_OK);
        CHECK(rp_auth_table_delete_acl(table, text_slice("bob")) == RP_E_NOT_FOUND);
    }
    CHECK(rp_auth_table_publish(table) == RP_OK);
}

static void readers_see_one_table_or_the_next(void) {
    rp_log *log;
    CHECK(rp_log_create(&log) == RP_OK);
    struct swap swap = {.table = open_table(log)};
    rp_auth_reader reader = {0};
    pthread_t threads[READERS];
    struct request bob;
    begin_send(&bob, "free");
    sign_as(&bob, "bob", "secret of bob");
    change(swap.table, 0);
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, read_on, &swap) == 0);
    }
    for (uint32_t round = 1; round <= SWAPS || atomic_load(&swap.judged) < 200 || atomic_load(&swap.refused) == 0; round++) {
        change(swap.table, round);
        /* A publication applies to every request that is judged after it. */
        CHECK((judge(swap.table, &reader, 0, &bob) == 0) == (round % 2 == 0));
    }
    atomic_store(&swap.is_over, 1);
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    close_table(swap.table, &reader);
    rp_log_destroy(log);
}

static void many_users_come_and_go(void) {
    rp_auth_table *table;
    rp_auth_stats stats;
    CHECK(rp_auth_table_open(NULL, &table) == RP_OK);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            char name[16];
            snprintf(name, sizeof name, "user-%u", i * 7919 % 5000);
            if (round != 1) {
                put_user(table, name, name, 0, 1);
            } else if (i % 2 == 0) {
                CHECK(rp_auth_table_delete_user(table, text_slice(name)) == RP_OK);
            }
        }
        CHECK(rp_auth_table_publish(table) == RP_OK);
        rp_auth_table_read_stats(table, &stats);
        CHECK(stats.users == (round == 1 ? 2500 : 5000) && table->subjects.count == stats.users && stats.acls == 0);
    }
    CHECK(rp_auth_table_put_user(table, (rp_slice){NULL, 0}, text_slice("x"), 0, 1) == RP_E_INVALID);
    CHECK(rp_auth_table_put_user(table, (rp_slice){(const uint8_t *)"", RP_AUTH_NAME_MAX + 1}, text_slice("x"), 0, 1) == RP_E_TOO_LARGE);
    rp_auth_table_close(table);
}

/* The gate's second question: an admitted request has turned out to be about a certain message. */
static void a_sender_is_judged_by_the_topic_that_was_found(void) {
    static const struct {
        const char *topic;
        int32_t code;
    } found[] = {{"topic", 0}, {"secret", 16}, {"", 16}, {"%RETRY%topic", 16}, {"%RETRY%", 16}};
    rp_auth_table *table = open_table(NULL);
    rp_auth_reader reader = {0};
    struct request request;
    rp_slice remark;
    begin(&request, 37);
    sign_as(&request, "alice", "12345678");
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        rp_arena_reset(arena);
        CHECK(rp_auth_judge_sender(table, &reader, 0, arena, &localhost, &request.command, text_slice(found[i].topic), &remark) ==
              found[i].code);
    }
    const rp_slice none = {NULL, 0}; /* the message names no topic */
    CHECK(rp_auth_judge_sender(table, &reader, 0, arena, &localhost, &request.command, none, &remark) == 16);
    static const int32_t listed[] = {37};
    rp_auth_options options = {.authorize = 1, .authorization_whitelist = listed, .authorization_whitelist_count = 1};
    CHECK(rp_auth_table_set_options(table, &options) == RP_OK && rp_auth_table_publish(table) == RP_OK);
    CHECK(rp_auth_judge_sender(table, &reader, 0, arena, &localhost, &request.command, none, &remark) == 0);
    options = (rp_auth_options){.authenticate = 1};
    CHECK(rp_auth_table_set_options(table, &options) == RP_OK && rp_auth_table_publish(table) == RP_OK);
    CHECK(rp_auth_judge_sender(table, &reader, 0, arena, &localhost, &request.command, none, &remark) == 0);
    rp_auth_snapshot_release(reader.snapshot);
    rp_auth_table_close(table);
}

/* ---- a server ---- */

static void send_signed(int fd, struct request *request, int serialize_type, int flag, const char *user, const char *secret) {
    static uint8_t frame[8192];
    request->command.serialize_type = (uint8_t)serialize_type;
    request->command.flag = flag;
    sign_as(request, user, secret);
    int64_t size = rp_command_encode(&request->command, frame, sizeof frame);
    CHECK(size > 0);
    write_all(fd, frame, (size_t)size);
}

static void check_answer(int fd, int32_t code, const char *remark) {
    rp_command response;
    uint8_t *frame = read_frame(fd, arena, &response);
    if (response.code != code ||
        (remark != NULL && !(response.remark.size == strlen(remark) && memcmp(response.remark.data, remark, response.remark.size) == 0))) {
        fprintf(stderr, "answered %d \"%.*s\"\n", response.code, (int)response.remark.size, (const char *)response.remark.data);
        exit(1);
    }
    free(frame);
}

static void a_server_asks_its_gate_once_for_every_request(void) {
    rp_log *log;
    const rp_gate *gate;
    rp_server_options options;
    rp_auth_stats stats;
    rp_server_stats figures;
    CHECK(rp_log_create(&log) == RP_OK);
    rp_auth_table *table = open_table(log);
    CHECK(rp_auth_table_gate(table, 2, &gate) == RP_OK);
    rp_server_options_default(&options);
    options.reactors = 2;
    struct harness *harness = harness_start_gated(&options, gate);
    CHECK(rp_server_set_gate(harness->server, NULL) == RP_E_BUSY);
    int fd = dial(harness);
    uint64_t admitted = 0;
    for (int type = RP_SERIALIZE_JSON; type <= RP_SERIALIZE_ROCKETMQ; type++) {
        struct request request;
        begin(&request, CODE_ECHO);
        send_signed(fd, &request, type, 0, "alice", "12345678");
        check_answer(fd, 0, NULL);
        begin(&request, CODE_ECHO);
        send_signed(fd, &request, type, 0, "alice", "wrong");
        check_answer(fd, 16, "check signature failed.");
        begin(&request, CODE_ECHO);
        send_signed(fd, &request, type, RP_COMMAND_ONEWAY, "nobody", "wrong");
        begin_send(&request, "x"); /* the handler would punt it to Python */
        send_signed(fd, &request, type, 0, "alice", "12345678");
        check_answer(fd, 16, "User:alice has no permission to access Topic:x from 127.0.0.1, no matched policies.");
        begin(&request, CODE_TWICE);
        send_signed(fd, &request, type, 0, "bob", "secret of bob");
        rp_request *taken = take_kind(harness, RP_REQUEST_COMMAND);
        CHECK(taken->command.code == CODE_TWICE);
        CHECK(rp_auth_table_delete_user(table, text_slice("bob")) == RP_OK && rp_auth_table_publish(table) == RP_OK);
        CHECK(rp_server_resubmit(harness->server, taken, 1) == RP_OK); /* the gate has let it in before, and is not asked again */
        check_answer(fd, 0, NULL);
        put_user(table, "bob", "secret of bob", 0, 1);
        CHECK(rp_auth_table_publish(table) == RP_OK);
        admitted += 3;
    }
    rp_auth_table_read_stats(table, &stats);
    CHECK(stats.authenticated == admitted && stats.authorized == admitted - 2 && stats.unauthenticated == 4);
    CHECK(stats.unauthorized == 2);
    rp_server_read_stats(harness->server, &figures);
    CHECK(figures.requests_refused == 6 && figures.frames_in == 10);
    close(fd);
    harness_stop(harness);
    rp_auth_table_close(table);
    rp_log_destroy(log);
}

/* ---- cost ---- */

static void bench_one(const char *what, rp_auth_table *table, const struct request *request) {
    rp_auth_reader reader = {0};
    const int rounds = 200000;
    double best = 1e9;
    for (int run = 0; run < 8; run++) {
        struct timespec begin_at, end_at;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin_at);
        for (int i = 0; i < rounds; i++) {
            CHECK(judge_here(table, &reader, arena, request) == 0);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end_at);
        double ns = ((double)(end_at.tv_sec - begin_at.tv_sec) * 1e9 + (double)(end_at.tv_nsec - begin_at.tv_nsec)) / rounds;
        best = ns < best ? ns : best;
    }
    printf("%-60s %6.0f ns (%s)\n", what, best, rp_sha1_implementation());
    rp_auth_snapshot_release(reader.snapshot);
}

static void bench(void) {
    static uint8_t body[1024];
    static const char *const fields[][2] = {
        {"a", "benchmark_producer"},
        {"c", "TBW102"},
        {"d", "8"},
        {"e", "7"},
        {"f", "0"},
        {"g", "1764111111111"},
        {"h", "0"},
        {"j", "0"},
        {"k", "false"},
        {"l", "0"},
        {"m", "false"},
        {"n", "broker-a"},
        {"i", "UNIQ_KEY\0017F0000010001\002WAIT\001true\002TAGS\001TagA\002"},
    };
    struct request request;
    rp_auth_table *table = open_table(NULL);
    begin(&request, 310);
    put(&request, "b", "topic-of-the-benchmark");
    for (uint32_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        put(&request, fields[i][0], fields[i][1]);
    }
    request.command.body = (rp_slice){body, sizeof body};
    sign_as(&request, "alice", "12345678");
    bench_one("both checks, a send of 1 KB", table, &request);
    set_options(table, 1, 0, NULL, 0);
    CHECK(rp_auth_table_publish(table) == RP_OK);
    bench_one("authentication alone", table, &request);
    set_options(table, 0, 1, NULL, 0);
    CHECK(rp_auth_table_publish(table) == RP_OK);
    bench_one("authorization alone", table, &request);
    rp_auth_table_close(table);
}

int main(int argc, char **argv) {
    arena = rp_arena_create(65536, 1 << 20);
    CHECK(arena != NULL);
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        bench();
        return 0;
    }
    RUN(readers_see_one_table_or_the_next);
    RUN(many_users_come_and_go);
    RUN(a_sender_is_judged_by_the_topic_that_was_found);
    RUN(a_server_asks_its_gate_once_for_every_request);
    rp_arena_destroy(arena);
    return 0;
}
