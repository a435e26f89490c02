/* load_test.c: the load generator counts what happens, and detects every kind of lie that a broker can tell. */
#include <errno.h>
#include <time.h>

#include "../../../csrc/load/floor.h"
#include "../../../csrc/load/load.h"
#include "forbid_call.h"
#include "load_broker.h"

#define WAIT_MS 60000 /* for what must happen: a busy machine may pause */

static rp_load_options options_for(const test_broker *broker, int mode) {
    return (rp_load_options){.address = broker->address,
                             .topic = "bench",
                             .mode = mode,
                             .queue_count = BROKER_QUEUES,
                             .message_size = 128,
                             .connect_timeout_ms = WAIT_MS,
                             .request_timeout_ms = WAIT_MS,
                             .drain_timeout_ms = WAIT_MS,
                             .suspend_ms = 100};
}

static rp_load_result run_with_ledger(const rp_load_options *options, const char *ledger_path) {
    rp_load *load = NULL;
    rp_error error = {0};
    rp_load_result result;
    if (rp_load_open(options, &load, &error) != RP_OK || rp_load_start(load, &error) != RP_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    CHECK(rp_load_wait(load, 3 * WAIT_MS) == RP_OK);
    CHECK(rp_load_read_result(load, &result) == RP_OK);
    if (ledger_path != NULL)
        CHECK(rp_load_save_ledger(load, ledger_path, &error) == RP_OK);
    rp_load_close(load);
    return result;
}

static rp_load_result run(const rp_load_options *options) { return run_with_ledger(options, NULL); }

/* Stops the run once it has received and failed that often; then its status is RP_E_CLOSED. */
static rp_load_result run_until(const rp_load_options *options, uint64_t received, uint64_t errors) {
    rp_load *load = NULL;
    rp_error error = {0};
    rp_load_result result;
    rp_load_progress progress = {0};
    CHECK(rp_load_open(options, &load, &error) == RP_OK && rp_load_start(load, &error) == RP_OK);
    while (progress.received < received || progress.errors < errors) {
        CHECK(rp_load_wait(load, 1) == RP_E_TIMEOUT);
        rp_load_read_progress(load, &progress);
        CHECK(progress.elapsed_ns < WAIT_MS * UINT64_C(1000000));
    }
    rp_load_stop(load);
    CHECK(rp_load_wait(load, WAIT_MS) == RP_OK && rp_load_read_result(load, &result) == RP_OK && result.status == RP_E_CLOSED);
    rp_load_close(load);
    return result;
}

static void check_clean(const rp_load_result *result) {
    if (result->status != RP_OK || result->totals.failures != 0 || result->totals.errors != 0)
        fprintf(stderr, "status %d errors %llu failures %llu: %s\n", result->status, (unsigned long long)result->totals.errors,
                (unsigned long long)result->totals.failures, result->first_offender);
    CHECK(result->status == RP_OK && result->totals.errors == 0 && result->totals.failures == 0);
    CHECK(result->missing == 0 && result->duplicated == 0 && result->corrupted == 0 && result->out_of_order == 0 &&
          result->unverified == 0);
}

static void every_message_sent_is_acknowledged_once(int serialize_type, int send_code, uint32_t in_flight, uint32_t batch,
                                                    uint32_t threads) {
    test_broker *broker = broker_open();
    rp_load_options options = options_for(broker, RP_LOAD_SEND);
    options.serialize_type = serialize_type;
    options.send_code = send_code;
    options.in_flight = in_flight;
    options.batch_size = batch;
    options.threads = threads;
    options.connections = 6;
    options.count = 1200;
    options.tags = "TagA";
    rp_load_result result = run(&options);
    check_clean(&result);
    CHECK(result.totals.sent == 1200 && result.totals.acknowledged == 1200 && result.measured_sent == 1200);
    CHECK(result.totals.bytes_sent == 1200 * 128);
    CHECK(result.latency[RP_LOAD_PUBLISH].count == 1200 && result.latency[RP_LOAD_PUBLISH].p50_ns > 0);
    int stored = 0;
    for (int queue = 0; queue < BROKER_QUEUES; queue++)
        stored += broker->counts[queue];
    CHECK(stored == 1200);
    broker_close(broker);
}

static void sends_are_counted_in_both_encodings_and_all_forms(void) {
    for (int serialize_type = 0; serialize_type <= 1; serialize_type++) {
        every_message_sent_is_acknowledged_once(serialize_type, 310, 1, 1, 1);
        every_message_sent_is_acknowledged_once(serialize_type, 10, 4, 1, 2);
        every_message_sent_is_acknowledged_once(serialize_type, 320, 2, 10, 3);
    }
}

static void what_is_sent_is_read_back_whole_and_in_order(void) {
    for (int serialize_type = 0; serialize_type <= 1; serialize_type++) {
        test_broker *broker = broker_open();
        rp_load_options options = options_for(broker, RP_LOAD_BOTH);
        options.serialize_type = serialize_type;
        options.connections = 4;
        options.pull_connections = 3;
        options.in_flight = 4;
        options.threads = 2;
        options.count = 3000;
        options.check_order = 1;
        rp_load_result result = run(&options);
        check_clean(&result);
        CHECK(result.totals.acknowledged == 3000 && result.totals.received == 3000 && result.unacknowledged == 0);
        CHECK(result.latency[RP_LOAD_END_TO_END].count == 3000 && result.latency[RP_LOAD_FETCH].count == result.pull_responses);
        options.mode = RP_LOAD_PULL;
        options.count = 0;
        result = run(&options);
        check_clean(&result);
        CHECK(result.totals.received == 3000);
        options.repeat = 1;
        options.count = 7000; /* more than twice over */
        result = run(&options);
        check_clean(&result);
        CHECK(result.totals.received >= 7000);
        broker_close(broker);
    }
}

static void a_refused_send_is_an_error_under_its_code_with_its_remark(void) {
    test_broker *broker = broker_open();
    broker->refuse_every = 10;
    rp_load_options options = options_for(broker, RP_LOAD_BOTH);
    options.count = 500;
    rp_load_result result = run(&options);
    CHECK(result.status == RP_OK && result.totals.acknowledged == 450 && result.totals.received == 450 && result.totals.errors == 50);
    CHECK(result.error_code_count == 1 && result.error_codes[0].code == 2 && result.error_codes[0].count == 50);
    CHECK(strcmp(result.error_codes[0].remark, "a \\\"remark\\\"") == 0);
    CHECK(result.totals.failures == 0);
    broker_close(broker);
}

static void a_run_of_which_the_server_takes_nothing_ends_by_itself(void) {
    test_broker *broker = broker_open();
    broker->refuse_every = 1;
    for (int open_loop = 0; open_loop <= 1; open_loop++) {
        rp_load_options options = options_for(broker, RP_LOAD_SEND);
        options.count = 0;
        options.duration_ms = 3600 * 1000; /* else no test would see its end */
        options.rate = open_loop ? 100 : 0;
        rp_load_result result = run(&options);
        CHECK(result.status == RP_E_CLOSED && result.totals.acknowledged == 0 && result.totals.errors >= 10);
        CHECK(result.error_code_count == 1 && result.error_codes[0].code == 2);
    }
    broker_close(broker);
}

static void a_send_without_answer_times_out_and_its_message_may_still_arrive(void) {
    test_broker *broker = broker_open();
    broker->silent_every = 50;
    rp_load_options options = options_for(broker, RP_LOAD_BOTH);
    options.count = 200;
    options.connections = 4;
    options.request_timeout_ms = 500;
    rp_load_result result = run(&options);
    /* At least four: on a slow machine an answer may be late as well, also that of a pull. */
    CHECK(result.error_codes[0].code == RP_E_TIMEOUT && result.totals.acknowledged <= 200 - 4 &&
          result.totals.acknowledged + result.totals.errors >= 200);
    CHECK(result.totals.failures == 0 && result.totals.received >= result.totals.acknowledged);
    CHECK(result.unacknowledged == result.totals.received - result.totals.acknowledged);
    broker_close(broker);
}

static void a_broken_connection_is_an_error_and_comes_back_when_allowed(void) {
    test_broker *broker = broker_open();
    broker->close_every = 100;
    rp_load_options options = options_for(broker, RP_LOAD_SEND);
    options.count = 250;
    options.reconnect_timeout_ms = WAIT_MS;
    rp_load_result result = run(&options);
    CHECK(result.status == RP_OK && result.disconnects == 2 && result.totals.errors == 2 && result.totals.acknowledged == 248);
    CHECK(result.error_codes[0].code == RP_E_NETWORK);
    options.reconnect_timeout_ms = 0;
    result = run(&options);
    CHECK(result.status == RP_E_NETWORK && result.disconnects == 1 && result.totals.sent < 250);
    broker_close(broker);
}

static void answers_in_the_other_encoding_are_read_and_counted(void) {
    test_broker *broker = broker_open();
    broker->other_encoding = 1;
    rp_load_options options = options_for(broker, RP_LOAD_SEND);
    options.count = 10;
    rp_load_result result = run(&options);
    check_clean(&result);
    CHECK(result.totals.acknowledged == 10 && result.other_encoding == 10);
    broker_close(broker);
}

enum { LEDGER_MESSAGES = 800 };

/* Sends honestly with a ledger, then pulls from a broker that lies about one message. */
static rp_load_result pull_with_lie(int lie) {
    char path[] = "/tmp/rp_ledger_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    test_broker *broker = broker_open();
    rp_load_options options = options_for(broker, RP_LOAD_SEND);
    options.count = LEDGER_MESSAGES;
    options.keep_ledger = 1;
    rp_load_result result = run_with_ledger(&options, path);
    check_clean(&result);
    pthread_mutex_lock(&broker->lock);
    broker->lie = lie;
    broker->lie_queue = 3;
    broker->lie_offset = 40;
    pthread_mutex_unlock(&broker->lock);
    options.mode = RP_LOAD_PULL;
    options.count = 0;
    options.ledger_path = path;
    options.check_order = 1;
    result = lie == LOSE ? run_until(&options, LEDGER_MESSAGES - 1, 0) : run(&options); /* a lost message leaves its queue short for ever */
    unlink(path);
    broker_close(broker);
    return result;
}

static void every_lie_about_a_message_is_found(void) {
    rp_load_result truth = pull_with_lie(TRUTH);
    check_clean(&truth);
    CHECK(truth.totals.received == LEDGER_MESSAGES);
    rp_load_result lost = pull_with_lie(LOSE);
    CHECK(lost.missing > 0 && lost.corrupted == 59 && strstr(lost.first_offender, "queue 3 offset 40") != NULL);
    rp_load_result twice = pull_with_lie(TWICE);
    CHECK(twice.duplicated > 0 && strstr(twice.first_offender, "queue 3: offset 40") != NULL);
    rp_load_result swapped = pull_with_lie(SWAP);
    CHECK(swapped.corrupted == 2 && swapped.out_of_order == 1);
    rp_load_result body = pull_with_lie(CORRUPT_BODY);
    CHECK(body.corrupted == 1 && strstr(body.first_offender, "the body is not what") != NULL);
    rp_load_result crc = pull_with_lie(CORRUPT_CRC);
    CHECK(crc.corrupted >= 1 && strstr(crc.first_offender, "CRC") != NULL);
    rp_load_result queue = pull_with_lie(WRONG_QUEUE);
    CHECK(queue.corrupted >= 1 && strstr(queue.first_offender, "record of queue 4") != NULL);
    rp_load_result skipped = pull_with_lie(SKIP_OFFSET);
    CHECK(skipped.missing >= 1 && strstr(skipped.first_offender, "offset 41 comes behind offset 39") != NULL);
}

static void an_open_loop_is_never_early_and_charges_a_stall_to_every_late_message(void) {
    test_broker *broker = broker_open();
    rp_load_options options = options_for(broker, RP_LOAD_SEND);
    options.connections = 2;
    options.rate = 2000;
    options.count = 800;
    options.warm_up_ms = 100; /* 200 messages */
    rp_load_result result = run(&options);
    check_clean(&result);
    CHECK(result.totals.acknowledged >= 800 && result.totals.elapsed_ns >= (result.totals.acknowledged - 1) * 500000);
    CHECK(result.latency[RP_LOAD_PUBLISH_DELAY].count >= 800);
    broker->silent_every = 700; /* then a connection of two is out for 300 ms */
    options.connections = 1;
    options.request_timeout_ms = 300;
    options.warm_up_ms = 0;
    options.count = 2000;
    result = run(&options);
    CHECK(result.latency[RP_LOAD_PUBLISH].max_ns > 250000000 && result.latency[RP_LOAD_PUBLISH].p99_ns > 100000000);
    broker_close(broker);
}

static void a_paced_reader_is_never_ahead_of_its_rate(void) {
    test_broker *broker = broker_open();
    rp_load_options options = options_for(broker, RP_LOAD_SEND);
    options.count = 800;
    rp_load_result result = run(&options);
    check_clean(&result);
    options.mode = RP_LOAD_PULL;
    options.count = 0;
    options.rate = 4000; /* 500 a queue */
    options.pull_batch = 10;
    result = run(&options);
    CHECK(result.status == RP_OK && result.totals.received == 800 && result.totals.failures == 0);
    CHECK(result.totals.elapsed_ns >= 180000000); /* the last ten of each queue's hundred are due at 180 ms */
    broker_close(broker);
}

static void a_reader_that_is_sent_back_asks_again_with_pauses_only(void) {
    static const int64_t starts[BROKER_QUEUES] = {100, 100, 100, 100, 100, 100, 100, 100};
    test_broker *broker = broker_open();
    broker->has_lost_all = 1;
    rp_load_options options = options_for(broker, RP_LOAD_PULL);
    options.pull_start = RP_LOAD_FROM_GIVEN;
    options.start_offsets = starts;
    options.count = 1;
    rp_load_result result = run_until(&options, 0, 2 * BROKER_QUEUES);
    CHECK(result.totals.received == 0 && result.pull_empty == 0);
    CHECK(result.totals.errors <= BROKER_QUEUES * (result.totals.elapsed_ns / (options.suspend_ms * UINT64_C(1000000)) + 1));
    CHECK(result.error_code_count == 1 && result.error_codes[0].code == 21);
    broker_close(broker);
}

static void a_stopped_run_ends_soon_and_says_so(void) {
    test_broker *broker = broker_open();
    rp_load_options options = options_for(broker, RP_LOAD_BOTH);
    options.duration_ms = 10 * WAIT_MS;
    options.message_size = 64;
    options.rate = 500;
    rp_load *load = NULL;
    rp_error error;
    rp_load_result result;
    CHECK(rp_load_open(&options, &load, &error) == RP_OK && rp_load_start(load, &error) == RP_OK);
    CHECK(rp_load_start(load, &error) == RP_E_INVALID);
    CHECK(rp_load_read_result(load, &result) == RP_E_BUSY);
    rp_load_progress progress = {0};
    while (progress.received < 5) {
        CHECK(rp_load_wait(load, 1) == RP_E_TIMEOUT);
        rp_load_read_progress(load, &progress);
    }
    CHECK(progress.running == 1 && progress.measuring == 1);
    rp_load_stop(load);
    CHECK(rp_load_wait(load, WAIT_MS) == RP_OK);
    CHECK(rp_load_read_result(load, &result) == RP_OK && result.status == RP_E_CLOSED);
    rp_load_queue queue;
    uint64_t received = 0; /* of which queues the first few messages come is not fixed */
    for (uint32_t i = 0; i < BROKER_QUEUES; i++) {
        CHECK(rp_load_read_queue(load, i, &queue) == RP_OK);
        received += queue.received;
    }
    CHECK(received >= 5 && received == result.totals.received);
    CHECK(rp_load_read_queue(load, BROKER_QUEUES, &queue) == RP_E_NOT_FOUND);
    rp_load_close(load);
    broker_close(broker);
}

static void bad_options_are_refused_by_name(void) {
    test_broker *broker = broker_open();
    rp_load_options good = options_for(broker, RP_LOAD_SEND);
    good.count = 1;
    struct {
        const char *name;
        rp_load_options options;
    } bad[13];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        bad[i].options = good;
    bad[0].name = "address", bad[0].options.address = "127.0.0.1";
    bad[1].name = "topic", bad[1].options.topic = NULL;
    bad[2].name = "mode", bad[2].options.mode = 0;
    bad[3].name = "message_size", bad[3].options.message_size = 10;
    bad[4].name = "batch_size", bad[4].options.batch_size = 2;
    bad[5].name = "count", bad[5].options.count = 0;
    bad[6].name = "rate", bad[6].options.rate = -1;
    bad[7].name = "connections", bad[7].options.connections = 1 << 20;
    bad[8].name = "start_offsets", bad[8].options.pull_start = RP_LOAD_FROM_GIVEN;
    bad[9].name = "send_code", bad[9].options.send_code = 11;
    bad[10].name = "serialize_type", bad[10].options.serialize_type = 2;
    bad[11].name = "topic", bad[11].options.topic = "a{b";
    bad[12].name = "connections", bad[12].options.mode = RP_LOAD_BOTH, bad[12].options.pull_connections = UINT32_MAX;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_load *load = NULL;
        rp_error error = {0};
        CHECK(rp_load_open(&bad[i].options, &load, &error) == RP_E_INVALID && load == NULL);
        CHECK(strstr(error.message, bad[i].name) != NULL);
    }
    broker_close(broker);
}

/* A port that is taken, so that nobody else gets it meanwhile, and not listened on. */
static void nobody_listening_is_a_network_error(void) {
    test_broker *broker = broker_open();
    rp_load_options options = options_for(broker, RP_LOAD_SEND);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char text[32];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, size) == 0 && getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(address.sin_port));
    options.address = text;
    options.count = 1;
    rp_load *load = NULL;
    rp_error error;
    CHECK(rp_load_open(&options, &load, &error) == RP_OK && rp_load_start(load, &error) == RP_E_NETWORK);
    rp_load_close(load);
    options.mode = RP_LOAD_PULL;
    CHECK(rp_load_open(&options, &load, &error) == RP_E_NETWORK);
    close(fd);
    broker_close(broker);
}

static void the_floor_server_answers_every_form_of_send(rp_floor_kind kind) {
    char path[] = "/tmp/rp_floor_XXXXXX", address[32];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    rp_floor *server = NULL;
    rp_error error;
    CHECK(rp_floor_start(path, kind, 17 << 20, 0, 0, &server, &error) == RP_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", rp_floor_port(server));
    uint64_t frames = 0;
    for (int serialize_type = 0; serialize_type <= 1; serialize_type++) {
        for (int send_code = 10; send_code <= 310; send_code += 300) {
            rp_load_options options = {.address = address,
                                       .topic = "bench",
                                       .mode = RP_LOAD_SEND,
                                       .queue_count = 16,
                                       .connections = 3,
                                       .in_flight = 8,
                                       .count = 3000,
                                       .connect_timeout_ms = WAIT_MS,
                                       .request_timeout_ms = WAIT_MS,
                                       .serialize_type = serialize_type,
                                       .send_code = send_code};
            rp_load_result result = run(&options);
            check_clean(&result);
            CHECK(result.totals.acknowledged == 3000);
            frames += 3000;
        }
    }
    CHECK(rp_floor_frames(server) == frames);
    rp_floor_stop(server);
    if (kind != RP_FLOOR_REUSED) {
        CHECK(unlink(path) == 0);
        return;
    }
    rp_floor_rate rate;
    CHECK(rp_floor_sendfile(path, 65536, 0, &rate, &error) == RP_OK && rate.bytes == 17 << 20 && rate.rounds == 272);
    CHECK(rp_floor_sync(path, 1024, 20, &rate, &error) == RP_OK && rate.rounds > 0 && rate.bytes == rate.rounds * 1024);
    CHECK(rp_floor_sendfile(path, 65536, 0, &rate, &error) != RP_OK); /* the sync loop has removed it */
}

static void the_bare_floor_answers(void) { the_floor_server_answers_every_form_of_send(RP_FLOOR_REUSED); }
static void the_synced_floor_answers(void) { the_floor_server_answers_every_form_of_send(RP_FLOOR_SYNCED); }
static void the_growing_floor_answers(void) { the_floor_server_answers_every_form_of_send(RP_FLOOR_GROWING); }

/* As container runtimes whose filter is older than the call. For the rest of the process: last in main. */
static void a_container_that_refuses_epoll_pwait2_costs_only_precision(void) {
    if (forbid_call(SYS_epoll_pwait2) != 0) {
        printf("no seccomp here: not tried\n");
        return;
    }
    every_message_sent_is_acknowledged_once(1, 310, 4, 1, 2);
}

int main(void) {
    RUN(sends_are_counted_in_both_encodings_and_all_forms);
    RUN(what_is_sent_is_read_back_whole_and_in_order);
    RUN(a_refused_send_is_an_error_under_its_code_with_its_remark);
    RUN(a_run_of_which_the_server_takes_nothing_ends_by_itself);
    RUN(a_send_without_answer_times_out_and_its_message_may_still_arrive);
    RUN(a_broken_connection_is_an_error_and_comes_back_when_allowed);
    RUN(answers_in_the_other_encoding_are_read_and_counted);
    RUN(every_lie_about_a_message_is_found);
    RUN(an_open_loop_is_never_early_and_charges_a_stall_to_every_late_message);
    RUN(a_paced_reader_is_never_ahead_of_its_rate);
    RUN(a_reader_that_is_sent_back_asks_again_with_pauses_only);
    RUN(a_stopped_run_ends_soon_and_says_so);
    RUN(bad_options_are_refused_by_name);
    RUN(nobody_listening_is_a_network_error);
    RUN(the_bare_floor_answers);
    RUN(the_synced_floor_answers);
    RUN(the_growing_floor_answers);
    RUN(a_container_that_refuses_epoll_pwait2_costs_only_precision);
    return 0;
}
