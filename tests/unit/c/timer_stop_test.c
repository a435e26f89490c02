/* timer_stop_test.c: timed messages at a stop, on a disk that takes only some of them, and where a queue cannot be created. */
#include <errno.h>

#include "timer_fixture.h"

#define MINUTE INT64_C(60000)
#define SENDS 300
#define MANY 10000

/* ---- a disk without room for the queue of "New" ---- */

static _Atomic bool is_full;
static _Atomic int refusals;

static bool is_of_new(int fd) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    return strstr(path, "/consumequeue/New/") != NULL;
}

static int allocate_or_full(void *context, int fd, int64_t offset, int64_t size) {
    if (atomic_load(&is_full) && is_of_new(fd)) {
        atomic_fetch_add(&refusals, 1);
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

/* A queue of NEXT_ENTRIES in a file, whose next one cannot be made. */
#define NEXT_ENTRIES 4

static _Atomic bool is_blocked;

static int open_or_refuse(void *context, const char *path, int flags, uint32_t mode) {
    if (atomic_load(&is_blocked) && strstr(path, "/consumequeue/T/3/00000000000000000080") != NULL) {
        atomic_fetch_add(&refusals, 1);
        errno = EISDIR;
        return -1;
    }
    return rp_file_ops_system()->open(context, path, flags, mode);
}

static rp_file_ops full_ops(void) {
    rp_file_ops ops = *rp_file_ops_system();
    ops.allocate = allocate_or_full;
    return ops;
}

static void wait_refusals(int count) {
    int from = atomic_load(&refusals);
    for (int64_t until = now_ms() + WAIT_MS; atomic_load(&refusals) < from + count;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
}

/* In one batch "T" can be appended to and "New" cannot. Nothing may come twice, whether the slot goes on or is left to a restart. */
static void what_a_full_disk_refuses_is_tried_again_and_the_rest_comes_once(void) {
    rp_file_ops full = full_ops();
    for (int restarts = 0; restarts < 2; restarts++) {
        fixture fx;
        timer_fixture_init(&fx);
        fx.store_options.file_ops = &full;
        atomic_store(&is_full, false);
        fixture_open(&fx);
        CHECK(rp_broker_put_topic(fx.broker, text("New"), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND) == RP_OK);
        rp_timer_options options = timer_options(&fx);
        timers_start(&fx, &options);
        client c = client_open(&fx, RP_SERIALIZE_JSON);
        send_later(&c, "T", 0, NULL, "makes the queue's file");
        char properties[64], body[16];
        snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", turned_wall_ms(NULL) + MINUTE);
        for (int i = 0; i < 100; i++) {
            snprintf(body, sizeof body, "%d", i);
            send_later(&c, i % 10 == 3 ? "New" : "T", 0, properties, body);
        }
        wait_entered(&fx);
        atomic_store(&is_full, true);
        atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
        wait_refusals(3);
        CHECK(end_of(&fx, "New", 0) == 0 && end_of(&fx, "T", 0) > 1);
        client_close(&c);
        if (restarts) {
            timers_stop(&fx);
            atomic_store(&is_full, false);
            timer_fixture_reopen(&fx);
            options = timer_options(&fx);
            timers_start(&fx, &options);
        }
        atomic_store(&is_full, false);
        wait_end(&fx, "New", 0, 10);
        wait_end(&fx, "T", 0, 91);
        turn_clock(&fx, MINUTE);
        CHECK(end_of(&fx, "New", 0) == 10 && end_of(&fx, "T", 0) == 91 && stats_of(&fx).messages_waiting == 0);
        drop_events(&fx);
        fixture_close(&fx);
    }
}

/* One slot has more messages than a step reads. Its first one recalls its last, and those in the middle are refused. */
static void a_stop_within_a_slot_leaves_its_rest_to_the_next_start(void) {
    rp_file_ops full = full_ops();
    fixture fx;
    timer_fixture_init(&fx);
    fx.store_options.file_ops = &full;
    fx.store_options.consume_queue_file_size = 20 * 4 * MANY;
    fx.store_options.commit_log_file_size = 8 << 20;
    atomic_store(&is_full, false);
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    put_strange(&fx, "TIMER_OUT_MS\0010\2REAL_TOPIC\1T\2REAL_QID\0010\2", "makes the queue's file");
    wait_end(&fx, "T", 0, 1);
    char properties[128], body[16];
    int64_t deliver_ms = (turned_wall_ms(NULL) + 5 * MINUTE) / PRECISION_MS * PRECISION_MS;
    CHECK(put_recall(&fx, "T", "last", deliver_ms + 1) == RP_OK);
    for (int i = 0; i <= MANY; i++) {
        snprintf(properties, sizeof properties, "UNIQ_KEY\1%s\2TIMER_OUT_MS\1%" PRId64 "\2REAL_TOPIC\1%s\2REAL_QID\0010\2",
                 i == MANY ? "last" : "K", deliver_ms, i == MANY / 2 ? "New" : "T");
        snprintf(body, sizeof body, "%d", i);
        put_strange(&fx, properties, body);
    }
    wait_entered(&fx);
    atomic_store(&is_full, true);
    atomic_fetch_add(&clock_ahead_ms, 6 * MINUTE);
    wait_end(&fx, "T", 0, 1 + MANY / 2);
    wait_refusals(2);
    timers_stop(&fx);
    int64_t end = end_of(&fx, "T", 0);
    CHECK(end > MANY / 2 && end < MANY && end_of(&fx, "New", 0) == 0);
    atomic_store(&is_full, false);
    timer_fixture_reopen(&fx);
    options = timer_options(&fx);
    timers_start(&fx, &options);
    CHECK(count_of(&fx, "T") <= MANY - (end - 1));
    wait_end(&fx, "T", 0, MANY);
    wait_end(&fx, "New", 0, 1);
    turn_clock(&fx, 1000);
    CHECK(end_of(&fx, "T", 0) == MANY && end_of(&fx, "New", 0) == 1 && stats_of(&fx).messages_waiting == 0 && count_of(&fx, "T") == 0);
    for (int i = 1; i < MANY; i += 97) {
        snprintf(body, sizeof body, "%d", i <= MANY / 2 ? i - 1 : i);
        CHECK(body_is(&fx, "T", 0, i, body));
    }
    drop_events(&fx);
    fixture_close(&fx);
}

/* At the stop everything in the slot is delivered except for the refused messages. A restart that rebuilds wheel and log from the queue
 * must not take these for delivered. */
static void what_was_refused_at_a_stop_comes_though_the_log_is_lost(void) {
    rp_file_ops full = full_ops();
    fixture fx;
    timer_fixture_init(&fx);
    fx.store_options.file_ops = &full;
    atomic_store(&is_full, false);
    fixture_open(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("New"), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND) == RP_OK);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_later(&c, "T", 0, NULL, "makes the queue's file");
    char properties[64], command[600];
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", turned_wall_ms(NULL) + MINUTE);
    send_later(&c, "New", 0, properties, "refused");
    send_later(&c, "T", 0, properties, "delivered");
    client_close(&c);
    wait_entered(&fx);
    atomic_store(&is_full, true);
    atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
    wait_refusals(2);
    CHECK(end_of(&fx, "New", 0) == 0 && end_of(&fx, "T", 0) == 2);
    timers_stop(&fx);
    atomic_store(&is_full, false);
    snprintf(command, sizeof command, "rm -r '%s/timerlog'", fx.path);
    CHECK(system(command) == 0);
    timer_fixture_reopen(&fx);
    options = timer_options(&fx);
    timers_start(&fx, &options);
    wait_end(&fx, "New", 0, 1);
    drop_events(&fx);
    fixture_close(&fx);
}

/* RocketMQ may start on these files, and would lose stored messages that were not entered and are late. The thread sleeps until its slot
 * is over, so the stop has to enter what is sent meanwhile. */
static void a_stop_enters_what_was_sent_before_it(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fx.settings.timer_precision_ms = 1000;
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    options.precision_ms = 1000;
    timers_start(&fx, &options);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < SENDS; i++)
        send_later(&c, "T", 0, "TIMER_DELAY_SEC\00160\2", "waits");
    timers_stop(&fx);
    CHECK(stats_of(&fx).queue_offset == SENDS && stats_of(&fx).messages_waiting == SENDS && count_of(&fx, "T") == SENDS);

    send_later(&c, "T", 0, "TIMER_DELAY_SEC\0012\2", "late"); /* its slot had been read when the service stopped */
    timers_start(&fx, &options);
    atomic_fetch_add(&clock_ahead_ms, MINUTE / 2);
    timers_stop(&fx);
    CHECK(stats_of(&fx).queue_offset == SENDS + 1 && stats_of(&fx).messages_waiting + end_of(&fx, "T", 0) == SENDS + 1);

    fx.settings.timer_stop_enqueue = 1; /* the operator's setting counts here too */
    rp_broker_set_settings(fx.broker, &fx.settings);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00160\2", "not entered");
    timers_start(&fx, &options);
    timers_stop(&fx);
    CHECK(stats_of(&fx).queue_offset == SENDS + 1 && stats_of(&fx).queue_max_offset == SENDS + 2);
    fx.settings.timer_stop_enqueue = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    timers_start(&fx, &options);
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, 3 * MINUTE);
    wait_end(&fx, "T", 0, SENDS + 2);
    timers_stop(&fx);
    CHECK(end_of(&fx, "T", 0) == SENDS + 2 && stats_of(&fx).messages_waiting == 0);
    ended(&fx, &c);
}

static void block(const fixture *fx, const char *topic, char path[512]) {
    snprintf(path, 512, "%s/consumequeue/%s", fx->path, topic);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
}

/* A plain file stands where the directory of "New" has to be; or the store has as many files of queues as it may. */
static void set_aside_and_come(bool has_all_files) {
    fixture fx;
    char path[512], properties[64];
    timer_fixture_init(&fx);
    fx.store_options.queue_files_max = has_all_files ? 2 : 0;
    fixture_open(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("New"), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND) == RP_OK);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    int64_t due_ms = turned_wall_ms(NULL) + MINUTE;
    send_later(&c, "T", 0, NULL, "its queue has a file");
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", due_ms);
    send_later(&c, "New", 0, properties, "in its slot");
    send_later(&c, "T", 0, properties, "beside it");
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", due_ms + MINUTE / 4);
    send_later(&c, "T", 0, properties, "behind it");
    wait_entered(&fx);
    if (!has_all_files)
        block(&fx, "New", path);
    atomic_fetch_add(&clock_ahead_ms, MINUTE + MINUTE / 2);
    wait_end(&fx, "T", 0, 2); /* by now "New" has been tried */
    CHECK(end_of(&fx, "T", 0) == 2 && stats_of(&fx).rolled == 0);
    atomic_fetch_add(&clock_ahead_ms, MINUTE / 5);
    wait_end(&fx, "T", 0, 3);
    put_strange(&fx, "TIMER_OUT_MS\00110\2REAL_TOPIC\1New\2REAL_QID\0010\2", "late");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\0011\2", "stored behind it");
    wait_end(&fx, "T", 0, 4); /* its sender's clock was not advanced, so this message is late too */
    wait_entered(&fx);
    CHECK(stats_of(&fx).rolled == 2 && stats_of(&fx).messages_waiting == 2 && stats_of(&fx).passed_over == 0);
    timers_stop(&fx);
    CHECK(has_all_files || unlink(path) == 0);
    fx.store_options.queue_files_max = 0;
    timer_fixture_reopen(&fx);
    options = timer_options(&fx);
    timers_start(&fx, &options);
    atomic_fetch_add(&clock_ahead_ms, MINUTE + MINUTE / 5);
    wait_end(&fx, "New", 0, 2);
    turn_clock(&fx, 5 * MINUTE);
    CHECK(end_of(&fx, "New", 0) == 2 && end_of(&fx, "T", 0) == 4 && stats_of(&fx).messages_waiting == 0);
    CHECK(body_is(&fx, "New", 0, 0, "in its slot") && body_is(&fx, "New", 0, 1, "late"));
    rp_message message;
    void *pin = read_message(&fx, "New", 0, 0, &message, NULL);
    CHECK(property_is(&message, "TIMER_ROLL_TIMES", "1"));
    rp_log_range_release(pin);
    ended(&fx, &c);
}

static void what_has_no_queue_is_set_aside_and_comes_once_there_is_one(void) { set_aside_and_come(false); }

static void what_would_be_one_file_too_many_is_set_aside_as_well(void) { set_aside_and_come(true); }

/* The same for a light queue: other messages do not wait for it. */
static void what_has_no_light_queue_is_set_aside_too(void) {
    fixture fx;
    char path[512], properties[96];
    timer_fixture_init(&fx);
    fx.store_options.light_queues_max = 10;
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    int64_t due_ms = turned_wall_ms(NULL) + MINUTE;
    snprintf(properties, sizeof properties, "INNER_MULTI_DISPATCH\1%%LMQ%%new\2TIMER_DELIVER_MS\1%" PRId64 "\2", due_ms);
    send_later(&c, "T", 1, properties, "in its slot");
    send_later(&c, "T", 0, properties + strlen("INNER_MULTI_DISPATCH_%LMQ%new_"), "beside it");
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", due_ms + MINUTE / 4);
    send_later(&c, "T", 0, properties, "behind it");
    wait_entered(&fx);
    block(&fx, "%LMQ%new", path);
    atomic_fetch_add(&clock_ahead_ms, MINUTE + MINUTE / 2);
    wait_end(&fx, "T", 0, 1);
    CHECK(end_of(&fx, "T", 1) == 0 && stats_of(&fx).rolled == 0);
    atomic_fetch_add(&clock_ahead_ms, MINUTE / 5);
    wait_end(&fx, "T", 0, 2);
    wait_entered(&fx);
    CHECK(stats_of(&fx).rolled == 1 && stats_of(&fx).messages_waiting == 1 && stats_of(&fx).passed_over == 0);
    CHECK(unlink(path) == 0);
    turn_clock(&fx, 2 * MINUTE);
    CHECK(end_of(&fx, "T", 1) == 1 && end_of(&fx, "%LMQ%new", 0) == 1 && stats_of(&fx).messages_waiting == 0);
    ended(&fx, &c);
}

/* The same for a light queue that has a file and needs the next one. */
static void what_finds_no_room_in_its_queue_is_set_aside_as_well(void) {
    fixture fx;
    char properties[64];
    rp_file_ops ops = *rp_file_ops_system();
    ops.open = open_or_refuse;
    timer_fixture_init(&fx);
    fx.store_options.file_ops = &ops;
    fx.store_options.consume_queue_file_size = NEXT_ENTRIES * 20;
    atomic_store(&is_blocked, true);
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < NEXT_ENTRIES; i++)
        send_later(&c, "T", 3, NULL, "fills the file");
    int64_t due_ms = turned_wall_ms(NULL) + MINUTE;
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", due_ms);
    send_later(&c, "T", 3, properties, "in its slot");
    send_later(&c, "T", 0, properties, "beside it");
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", due_ms + MINUTE / 4);
    send_later(&c, "T", 0, properties, "behind it");
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, MINUTE + MINUTE / 2);
    wait_end(&fx, "T", 0, 1);
    wait_refusals(2); /* by now the service knows since when it is refused */
    CHECK(end_of(&fx, "T", 0) == 1 && stats_of(&fx).rolled == 0);
    atomic_fetch_add(&clock_ahead_ms, MINUTE / 5);
    wait_end(&fx, "T", 0, 2);
    wait_entered(&fx);
    CHECK(stats_of(&fx).rolled == 1 && stats_of(&fx).messages_waiting == 1 && stats_of(&fx).passed_over == 0);
    atomic_store(&is_blocked, false);
    turn_clock(&fx, 2 * MINUTE);
    CHECK(end_of(&fx, "T", 3) == NEXT_ENTRIES + 1 && body_is(&fx, "T", 3, NEXT_ENTRIES, "in its slot"));
    CHECK(end_of(&fx, "T", 0) == 2 && stats_of(&fx).messages_waiting == 0);
    ended(&fx, &c);
}

int main(void) {
    RUN(what_a_full_disk_refuses_is_tried_again_and_the_rest_comes_once);
    RUN(a_stop_within_a_slot_leaves_its_rest_to_the_next_start);
    RUN(what_was_refused_at_a_stop_comes_though_the_log_is_lost);
    RUN(what_has_no_queue_is_set_aside_and_comes_once_there_is_one);
    RUN(what_would_be_one_file_too_many_is_set_aside_as_well);
    RUN(what_has_no_light_queue_is_set_aside_too);
    RUN(what_finds_no_room_in_its_queue_is_set_aside_as_well);
    RUN(a_stop_enters_what_was_sent_before_it);
    return 0;
}
