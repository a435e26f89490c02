/* unreadable_files_test.c: a file of the store cannot be opened or mapped for a while, because descriptors or maps are out. Nothing is
 * lost by that: no consumer is sent past its messages, no search by time ends in the wrong place, no queue is cut in part, the index
 * catches up. What was removed from outside is gone for good, and skipped like what retention deletes. */
#include <fcntl.h>
#include <stdatomic.h>

#include "broker_fixture.h"
#include "store/consume_queue_writer.h"

enum { SUCCESS = 0, SYSTEM_ERROR = 1, RETRY = 20, MESSAGES = 2400, PROPERTIES = 900 };

static const char *_Atomic hidden; /* paths with this text in them cannot be opened; NULL: all can */
static _Atomic int is_read_only;
static _Atomic int no_maps;

static int open_or_not(void *context, const char *path, int flags, uint32_t mode) {
    const char *text_in_path = atomic_load(&hidden);
    if (text_in_path != NULL && strstr(path, text_in_path) != NULL) {
        errno = EMFILE;
        return -1;
    }
    if (atomic_load(&is_read_only) && (flags & O_ACCMODE) != O_RDONLY) {
        errno = EROFS;
        return -1;
    }
    return rp_file_ops_system()->open(context, path, flags, mode);
}

static void *map_or_not(void *context, int fd, size_t size, int writable) {
    if (atomic_load(&no_maps)) {
        errno = ENOMEM;
        return NULL;
    }
    return rp_file_ops_system()->map(context, fd, size, writable);
}

static rp_file_ops ops;

/* Three files of the log and eight of the queue, filled and opened again: not all of them are mapped. */
static void open_filled(fixture *fx) {
    char properties[PROPERTIES];
    memset(properties, 'p', sizeof properties);
    memcpy(properties, "PAD\1", 4);
    memcpy(properties + sizeof properties - 2, "\2", 2);
    ops = *rp_file_ops_system();
    ops.open = open_or_not;
    ops.map = map_or_not;
    fixture_init(fx);
    fx->store_options.file_ops = &ops;
    fx->store_options.consume_queue_file_size = 20 * 300;
    fx->store_options.index_enable = 0; /* its thread may map the files that it has yet to read */
    fixture_open(fx);
    rp_error error = {0};
    rp_append_item item = {.queue = rp_message_store_queue(fx->store, text("T"), 0, 1, &error), .body = text("body")};
    item.properties[0] = (rp_slice){(const uint8_t *)properties, sizeof properties - 1};
    for (int i = 0; i < MESSAGES; i++) /* directly: each by a client would take a round trip */
        CHECK(rp_commit_log_append(rp_message_store_commit_log(fx->store), &item, 1) == 1 && item.queue_offset == i);
    rp_server_stop(fx->server, 0);
    rp_broker_close(fx->broker);
    rp_server_close(fx->server);
    must(rp_message_store_close(fx->store, &error), &error, "close store");
    fixture_open(fx);
}

static rp_consume_queue *queue_of(fixture *fx) {
    rp_error error = {0};
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text("T"), 0, 0, &error);
    CHECK(queue != NULL && rp_consume_queue_max_offset(queue) == MESSAGES);
    return queue;
}

/* Pulls from the queue's begin on while answers say to go on; where that ends. */
static int64_t pull_all(client *c, int64_t *messages, rp_command *last) {
    int64_t offset = 0;
    *messages = 0;
    for (;;) {
        pull_request pull = pull_of(0, offset);
        *last = client_pull(c, &pull);
        if (last->code != SUCCESS && last->code != RETRY)
            return offset;
        for (uint32_t at = 0; at < last->body.size; at += rp_get_u32(last->body.data + at))
            ++*messages;
        CHECK(field_number(last, "nextBeginOffset") > offset);
        offset = field_number(last, "nextBeginOffset");
    }
}

static void a_consumer_waits_for_what_cannot_be_read(const char *path_text, int64_t first_unread) {
    fixture fx;
    open_filled(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command last;
    int64_t messages;
    atomic_store(&hidden, path_text);
    for (int i = 0; i < 2; i++) {
        int64_t end = pull_all(&c, &messages, &last);
        CHECK(messages == end);
        CHECK(last.code == SYSTEM_ERROR && slice_contains(last.remark, "not lost") && field_number(&last, "nextBeginOffset") == end);
        CHECK(first_unread >= 0 ? end == first_unread : end > 0 && end < MESSAGES);
    }
    atomic_store(&hidden, NULL);
    CHECK(pull_all(&c, &messages, &last) == MESSAGES && messages == MESSAGES);
    client_close(&c);
    fixture_close(&fx);
}

static void no_message_is_passed_over(void) {
    a_consumer_waits_for_what_cannot_be_read("commitlog", 0);
    a_consumer_waits_for_what_cannot_be_read("commitlog/00000000000001048576", -1);
    a_consumer_waits_for_what_cannot_be_read("consumequeue/T/0/00000000000000018000", 900);
}

/* As ext4 makes itself after an error: what is not mapped yet is read all the same. */
static void a_disk_that_has_become_read_only_is_read(void) {
    fixture fx;
    open_filled(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command last;
    int64_t messages;
    atomic_store(&is_read_only, 1);
    CHECK(pull_all(&c, &messages, &last) == MESSAGES && messages == MESSAGES);
    rp_error error = {0};
    rp_consume_queue *queue = queue_of(&fx);
    CHECK(rp_consume_queue_truncate(queue, 950, &error) == RP_E_READ_ONLY); /* a store to such a map would end the process */
    CHECK(error.os_errno == EROFS && slice_contains(text(error.message), "restart the broker"));
    CHECK(rp_consume_queue_max_offset(queue) == MESSAGES);
    atomic_store(&is_read_only, 0);
    CHECK(rp_consume_queue_truncate(queue, 950, &error) == RP_E_READ_ONLY);
    client_close(&c);
    fixture_close(&fx);
}

static void a_file_that_was_taken_away_is_passed_over(void) {
    fixture fx;
    open_filled(&fx);
    char path[sizeof fx.path + 64];
    snprintf(path, sizeof path, "%s/commitlog/%020d", fx.path, 0);
    CHECK(unlink(path) == 0);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command last;
    int64_t messages;
    CHECK(pull_all(&c, &messages, &last) == MESSAGES && messages > 0 && messages < MESSAGES);
    client_close(&c);
    fixture_close(&fx);
}

static void a_search_by_time_ends_in_no_wrong_place(void) {
    fixture fx;
    open_filled(&fx);
    rp_consume_queue *queue = queue_of(&fx);
    atomic_store(&no_maps, 1);
    CHECK(rp_consume_queue_offset_by_time(queue, 1, 0) == RP_E_NO_MEMORY && rp_consume_queue_offset_by_time(queue, 1, 1) == RP_E_NO_MEMORY);
    atomic_store(&no_maps, 0);
    CHECK(rp_consume_queue_offset_by_time(queue, 1, 0) == 0 && rp_consume_queue_offset_by_time(queue, INT64_MAX, 0) == MESSAGES);
    fixture_close(&fx);
}

static void a_queue_that_cannot_be_mapped_is_not_cut(void) {
    fixture fx;
    open_filled(&fx);
    rp_consume_queue *queue = queue_of(&fx);
    rp_error error = {0};
    atomic_store(&no_maps, 1);
    CHECK(rp_consume_queue_truncate(queue, 950, &error) == RP_E_NO_MEMORY && error.message[0] != 0);
    CHECK(rp_consume_queue_truncate(queue, 950, NULL) == RP_E_NO_MEMORY && rp_consume_queue_max_offset(queue) == MESSAGES);
    atomic_store(&no_maps, 0);
    CHECK(rp_consume_queue_truncate(queue, 950, &error) == RP_OK && rp_consume_queue_max_offset(queue) == 950);
    fixture_close(&fx);
}

static int is_indexed(const fixture *fx) {
    rp_message_store_stats stats;
    rp_message_store_read_stats(fx->store, &stats);
    return stats.indexed_offset >= stats.commit_log_max_offset;
}

static void the_index_says_what_it_waits_for(void) {
    fixture fx;
    open_filled(&fx);
    rp_error error = {0};
    rp_server_stop(fx.server, 0);
    rp_broker_close(fx.broker);
    rp_server_close(fx.server);
    must(rp_message_store_close(fx.store, &error), &error, "close store");
    fx.store_options.index_enable = 1; /* all of it is built */
    CHECK(rp_log_create(&fx.store_options.log) == RP_OK);
    atomic_store(&hidden, "commitlog/00000000000000000000");
    fixture_open(&fx);
    rp_log_line line;
    int64_t until = now_ms() + WAIT_MS;
    do {
        CHECK(now_ms() < until);
        line.text[0] = 0;
        rp_log_take(fx.store_options.log, &line, 1);
    } while (strstr(line.text, "index: cannot grow") == NULL);
    CHECK(strstr(line.text, "cannot be read") != NULL);
    atomic_store(&hidden, NULL);
    CHECK_AT_LAST(is_indexed(&fx));
    fixture_close(&fx);
    rp_log_destroy(fx.store_options.log);
}

int main(void) {
    RUN(no_message_is_passed_over);
    RUN(a_disk_that_has_become_read_only_is_read);
    RUN(a_file_that_was_taken_away_is_passed_over);
    RUN(a_search_by_time_ends_in_no_wrong_place);
    RUN(a_queue_that_cannot_be_mapped_is_not_cut);
    RUN(the_index_says_what_it_waits_for);
    return 0;
}
