/* timer_lost_test.c: wheel, timer log and checkpoint that are missing, damaged, or as a kill left them: what waits is still delivered, and
 * nothing twice where that can be known. */
#include <dirent.h>
#include <fcntl.h>

#include "timer_fixture.h"

#define MINUTE INT64_C(60000)

static const rp_file_ops *timer_ops; /* NULL: the kernel's */
static const char *_Atomic unreadable; /* paths with this text in them, until one of them is deleted; NULL: none */

static int64_t read_or_not(void *context, int fd, void *target, size_t size, int64_t offset) {
    char link[64], name[512] = "";
    const char *text_in_path = atomic_load(&unreadable);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (text_in_path != NULL && readlink(link, name, sizeof name - 1) > 0 && strstr(name, text_in_path) != NULL) {
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->read_at(context, fd, target, size, offset);
}

static int unlink_unreadable(void *context, const char *path) {
    const char *text_in_path = atomic_load(&unreadable);
    if (text_in_path != NULL && strstr(path, text_in_path) != NULL)
        atomic_store(&unreadable, NULL);
    return rp_file_ops_system()->unlink(context, path);
}

static void path_of(const fixture *fx, const char *name, char path[512]) { snprintf(path, 512, "%s/%s", fx->path, name); }

static void remove_all(const fixture *fx, const char *name) {
    char path[512];
    path_of(fx, name, path);
    CHECK(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

static void close_all(fixture *fx) {
    rp_error error = {.message = ""};
    rp_server_stop(fx->server, 0);
    rp_broker_close(fx->broker);
    rp_server_close(fx->server);
    must(rp_message_store_close(fx->store, &error), &error, "close store");
}

static void start(fixture *fx, int32_t precision_ms, int32_t window_slots) {
    fx->settings.timer_precision_ms = precision_ms;
    fixture_open(fx);
    rp_timer_options options = timer_options(fx);
    options.precision_ms = precision_ms;
    options.roll_window_slots = window_slots;
    options.file_ops = timer_ops;
    timers_start(fx, &options);
}

static void recall(const fixture *fx, const char *key, int64_t deliver_ms) {
    rp_recall wanted = {.topic = text("T"), .unique_key = text(key), .deliver_ms = deliver_ms};
    int64_t end;
    CHECK(rp_broker_put_recall(fx->broker, &wanted, &end) == RP_OK);
}

/* Four messages: delivered, recalled, and two that wait for longer than the wheel is used for. */
static void fill(fixture *fx) {
    timer_fixture_init(fx);
    start(fx, PRECISION_MS, 500);
    client c = client_open(fx, RP_SERIALIZE_JSON);
    char properties[96];
    int64_t recalled_ms = turned_wall_ms(NULL) + 40000;
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\0012\2", "delivered");
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2UNIQ_KEY\1K\2", recalled_ms);
    send_later(&c, "T", 1, properties, "recalled");
    recall(fx, "K", recalled_ms);
    send_later(&c, "T", 2, "TIMER_DELAY_SEC\00150\2UNIQ_KEY\1R\2", "rolled");
    send_later(&c, "T", 3, "TIMER_DELAY_SEC\00150\2", "waits");
    wait_entered(fx);
    for (int i = 0; i < 3; i++)
        turn_clock(fx, 9000);
    wait_entered(fx);
    CHECK(end_of(fx, "T", 0) == 1 && end_of(fx, "T", 3) == 0 && stats_of(fx).rolled >= 1);
    client_close(&c);
}

/* Checks that all waiting messages were delivered, and only once where the broker can know that. */
static void check_rest(fixture *fx, bool may_be_again) {
    for (int i = 0; i < 8; i++)
        turn_clock(fx, 5000);
    CHECK(end_of(fx, "T", 0) >= 1 && end_of(fx, "T", 1) == 0);
    CHECK(end_of(fx, "T", 2) >= 1 && body_is(fx, "T", 2, 0, "rolled"));
    CHECK(end_of(fx, "T", 3) >= 1 && body_is(fx, "T", 3, 0, "waits"));
    CHECK(may_be_again || (end_of(fx, "T", 0) == 1 && end_of(fx, "T", 2) == 1 && end_of(fx, "T", 3) == 1));
    CHECK(stats_of(fx).messages_waiting == 0);
    drop_events(fx);
    fixture_close(fx);
}

static void files_that_are_gone_are_made_again(void) {
    static const struct {
        const char *gone[3];
        bool may_be_again;
    } cases[] = {
        {{NULL}, false},
        {{"timerwheel", NULL}, false},
        {{"timerlog", NULL}, false},
        {{"timerwheel", "timerlog", NULL}, false},
        {{"config/timercheck", NULL}, true},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture fx;
        fill(&fx);
        close_all(&fx);
        for (int j = 0; j < 3 && cases[i].gone[j] != NULL; j++)
            remove_all(&fx, cases[i].gone[j]);
        start(&fx, PRECISION_MS, 500);
        check_rest(&fx, cases[i].may_be_again);
    }
}

/* If it were believed, waiting messages would count as delivered. */
static void a_checkpoint_of_noise_is_none(void) {
    fixture fx;
    char path[512];
    uint8_t noise[4096];
    timer_fixture_init(&fx);
    start(&fx, PRECISION_MS, 86400);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "waits");
    wait_entered(&fx);
    client_close(&c);
    close_all(&fx);
    for (uint32_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(i * 37 + 91);
    path_of(&fx, "config/timercheck", path);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fwrite(noise, 1, sizeof noise, file) == sizeof noise && fclose(file) == 0);
    atomic_fetch_add(&clock_ahead_ms, MINUTE); /* the message is due now */
    start(&fx, PRECISION_MS, 86400);
    wait_end(&fx, "T", 0, 1);
    CHECK(body_is(&fx, "T", 0, 0, "waits"));
    drop_events(&fx);
    fixture_close(&fx);
}

/* Only the queue is left, and the recalled message is past its time. */
static void what_was_recalled_stays_so_though_nothing_is_known(void) {
    fixture fx;
    fill(&fx);
    close_all(&fx);
    remove_all(&fx, "timerwheel");
    remove_all(&fx, "timerlog");
    remove_all(&fx, "config/timercheck");
    atomic_fetch_add(&clock_ahead_ms, 20000);
    start(&fx, PRECISION_MS, 500);
    check_rest(&fx, true);
}

/* The old slots are read once more. A message that is rolled out of one slot has its recall in another slot, which is due as well. */
static void what_was_recalled_stays_so_without_a_checkpoint(void) {
    fixture fx;
    timer_fixture_init(&fx);
    start(&fx, PRECISION_MS, 500);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    char properties[96];
    int64_t recalled_ms = turned_wall_ms(NULL) + 25000;
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2UNIQ_KEY\1K\2", recalled_ms);
    send_later(&c, "T", 0, properties, "recalled");
    send_later(&c, "T", 1, "TIMER_DELAY_SEC\00125\2", "comes");
    recall(&fx, "K", recalled_ms);
    client_close(&c);
    for (int i = 0; i < 4; i++)
        turn_clock(&fx, 8000);
    wait_entered(&fx);
    CHECK(end_of(&fx, "T", 0) == 0 && end_of(&fx, "T", 1) == 1 && stats_of(&fx).rolled >= 3);
    close_all(&fx);
    remove_all(&fx, "config/timercheck");
    start(&fx, PRECISION_MS, 500);
    wait_end(&fx, "T", 1, 2); /* delivered once more, because nothing says that it was delivered */
    turn_clock(&fx, 60000);
    wait_entered(&fx);
    CHECK(end_of(&fx, "T", 0) == 0);
    drop_events(&fx);
    fixture_close(&fx);
}

static void set_queue_offset(const fixture *fx, uint64_t offset) {
    char path[512];
    uint8_t bytes[8];
    rp_put_u64(bytes, offset);
    path_of(fx, "config/timercheck", path);
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, bytes, sizeof bytes, 16) == sizeof bytes && close(fd) == 0);
}

/* If it were believed, messages sent since would be left out. */
static void a_checkpoint_beyond_the_queue_is_not_believed(void) {
    static const uint64_t claims[] = {4, 1000, UINT64_C(1) << 40};
    for (uint32_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        fixture fx;
        timer_fixture_init(&fx);
        start(&fx, PRECISION_MS, 86400);
        client c = client_open(&fx, RP_SERIALIZE_JSON);
        send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "entered");
        wait_entered(&fx);
        timers_stop(&fx);
        send_later(&c, "T", 1, "TIMER_DELAY_SEC\00130\2", "not entered");
        send_later(&c, "T", 1, "TIMER_DELAY_SEC\00130\2", "not entered, either");
        client_close(&c);
        close_all(&fx);
        set_queue_offset(&fx, claims[i]);
        start(&fx, PRECISION_MS, 86400);
        turn_clock(&fx, MINUTE);
        CHECK(end_of(&fx, "T", 0) == 1 && end_of(&fx, "T", 1) == 2);
        drop_events(&fx);
        fixture_close(&fx);
    }
}

static void another_precision_loses_nothing(void) {
    fixture fx;
    fill(&fx);
    close_all(&fx);
    start(&fx, 200, 50);
    check_rest(&fx, false);
}

/* The chain of a slot is broken while the service runs. */
static void a_damaged_timer_log_is_made_again_while_it_runs(void) {
    fixture fx;
    fill(&fx);
    timers_stop(&fx); /* all of it is in the file */
    char directory[512], path[1024];
    static const uint8_t garbage[64] = {0x7F, 0xFF};
    path_of(&fx, "timerlog", directory);
    DIR *files = opendir(directory);
    CHECK(files != NULL);
    for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        int fd = open(path, O_WRONLY);
        CHECK(fd >= 0);
        for (int64_t at = 0; at < 1 << 12; at += 26)
            CHECK(pwrite(fd, garbage, sizeof garbage, at) == (ssize_t)sizeof garbage);
        close(fd);
    }
    closedir(files);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    check_rest(&fx, false);
}

/* A block is lost. */
static void what_the_disk_cannot_read_is_made_again(void) {
    static const struct {
        const char *text_in_path;
        bool at_start, is_log;
    } cases[] = {{"/timerlog/", false, true}, {"/timerlog/", true, true}, {"/timerwheel", true, false}};
    rp_file_ops ops = *rp_file_ops_system();
    ops.read_at = read_or_not;
    ops.unlink = unlink_unreadable;
    timer_ops = &ops;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture fx;
        fill(&fx);
        if (cases[i].at_start)
            close_all(&fx);
        else
            timers_stop(&fx); /* all of it is in the file */
        if (cases[i].at_start && cases[i].is_log)
            remove_all(&fx, "timerwheel"); /* else nobody reads the log at a start */
        atomic_store(&unreadable, cases[i].text_in_path);
        rp_timer_options options = timer_options(&fx);
        if (cases[i].at_start)
            start(&fx, PRECISION_MS, 500);
        else
            timers_start(&fx, &options);
        check_rest(&fx, false);
        CHECK(!cases[i].is_log || atomic_load(&unreadable) == NULL);
    }
    atomic_store(&unreadable, NULL);
    timer_ops = NULL;
}

/* A copy of the directory, made while the service runs, is like what a kill leaves. Files that depend on another one are copied before
 * it, because a slow machine may roll a message in between. */
static void what_a_kill_leaves_loses_nothing(void) {
    static const char copy[] = "mkdir '%s' && cd '%s' && for file in config timerwheel timerlog *; do"
                               " test -e '%s'/$file || cp -r $file '%s' || exit 1; done";
    fixture fx;
    fill(&fx);
    char command[1600], killed[300];
    snprintf(killed, sizeof killed, "%s-killed", fx.path);
    snprintf(command, sizeof command, copy, killed, fx.path, killed, killed);
    CHECK(system(command) == 0);
    int64_t ahead_ms = atomic_load(&clock_ahead_ms);
    drop_events(&fx);
    fixture_close(&fx);
    snprintf(fx.path, sizeof fx.path, "%.*s", (int)sizeof fx.path - 1, killed);
    atomic_store(&clock_ahead_ms, ahead_ms);
    start(&fx, PRECISION_MS, 500);
    check_rest(&fx, true);
}

/* A slave that joins later finds both the message that its master rolled and the rolled copy in the queue, with the same time. */
static void what_a_slave_entered_besides_its_copy_comes_once(void) {
    fixture fx;
    fill(&fx);
    close_all(&fx);
    remove_all(&fx, "timerwheel");
    remove_all(&fx, "timerlog");
    remove_all(&fx, "config/timercheck");
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    options.delivers = 0;
    options.roll_window_slots = 2000;
    timers_start(&fx, &options);
    uint8_t master[RP_TIMER_CHECKPOINT_BYTES] = {0};
    rp_put_u64(master, (uint64_t)(turned_wall_ms(NULL) / PRECISION_MS * PRECISION_MS));
    rp_put_u64(master + 24, (uint64_t)end_of(&fx, RP_TIMER_TOPIC, 0));
    CHECK(rp_broker_follow_timer_checkpoint(fx.broker, master, sizeof master) == RP_OK);
    wait_entered(&fx);
    timers_stop(&fx);
    options.delivers = 1;
    timers_start(&fx, &options);
    check_rest(&fx, false);
}

int main(void) {
    RUN(what_a_slave_entered_besides_its_copy_comes_once);
    RUN(files_that_are_gone_are_made_again);
    RUN(what_was_recalled_stays_so_though_nothing_is_known);
    RUN(what_was_recalled_stays_so_without_a_checkpoint);
    RUN(a_checkpoint_of_noise_is_none);
    RUN(a_checkpoint_beyond_the_queue_is_not_believed);
    RUN(another_precision_loses_nothing);
    RUN(a_damaged_timer_log_is_made_again_while_it_runs);
    RUN(what_the_disk_cannot_read_is_made_again);
    RUN(what_a_kill_leaves_loses_nothing);
    return 0;
}
