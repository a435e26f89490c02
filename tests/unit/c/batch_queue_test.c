/* batch_queue_test.c: a record of a batch queue has as many offsets as messages, one entry that covers them, and is found at each of them,
 * however it got there: appended, held back and confirmed, replicated, or found by a recovery. */
#include "../../../csrc/store/batch_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/store/batch_topics.h"
#include "../../../csrc/store/inner_batch.h"
#include "../../../csrc/store/light_targets.h"
#include "../../../csrc/store/store_verify.h"
#include "check.h"
#include "store_fixture.h"

enum { APPENDS = 130, A_FILE = 10 };

static void batch_options(rp_message_store_options *options, const char *path, int flush_mode) {
    fixture_options(options, path);
    options->flush_mode = flush_mode;
    options->batch_queue_file_size = A_FILE * RP_BATCH_ENTRY_SIZE;
    options->batch_topics = "Batches\nOther\n";
}

/* Every third is one message; the others are batches of 1 to 12. */
static int32_t inner_of(int64_t number) { return number % 3 == 0 ? 0 : (int32_t)(1 + number % 12); }
static int32_t messages_of(int64_t number) { return inner_of(number) == 0 ? 1 : inner_of(number); }
static int64_t offset_of(int64_t number) {
    int64_t offset = 0;
    for (int64_t i = 0; i < number; i++) {
        offset += messages_of(i);
    }
    return offset;
}

static rp_append_item batch_item(rp_consume_queue *queue, int64_t number) {
    rp_append_item item = fixture_item(queue, "whatever is in the batch", 24);
    item.inner_messages = inner_of(number);
    item.tags_code = rp_message_tags_code(item.properties[0]);
    if (number % 2 == 0) {
        item.properties[1] = fixture_slice("CLUSTER\1x"); /* no separator after the last property */
    }
    return item;
}

/* Up to two queues in turn, four items an append. */
static void append_all(rp_message_store *store, const char *topic) {
    for (int64_t number = 0; number < APPENDS; number += 2) {
        rp_append_item items[4];
        for (int i = 0; i < 4; i++) {
            items[i] = batch_item(fixture_queue(store, topic, i % 2), number + i / 2);
        }
        CHECK(rp_commit_log_append(rp_message_store_commit_log(store), items, 4) == 4);
        for (int i = 0; i < 4; i++) {
            CHECK(items[i].queue_offset == offset_of(number + i / 2));
        }
    }
}

static void check_record(rp_message_store *store, const rp_queue_entry *entry, int64_t number) {
    rp_log_range range;
    rp_message message;
    rp_queue_entry told;
    CHECK(rp_commit_log_read(rp_message_store_commit_log(store), entry->commit_log_offset, (uint32_t)entry->size, &range) == RP_OK);
    CHECK(rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE);
    CHECK(rp_inner_batch_read(&message, &told) && told.messages == entry->messages && told.queue_offset == entry->queue_offset);
    CHECK(((message.sys_flag & RP_SYSFLAG_NEED_UNWRAP) != 0) == (inner_of(number) > 0));
    CHECK(message.queue_offset == entry->queue_offset && message.store_timestamp_ms == entry->store_timestamp_ms);
    CHECK(entry->tags_code == rp_message_tags_code(message.properties) && rp_message_property(message.properties, "TAGS").size == 4);
    CHECK(rp_message_property(message.properties, number % 2 == 0 ? "CLUSTER" : "UNIQ_KEY").size == (number % 2 == 0 ? 1 : 3));
    rp_log_range_release(range.pin);
}

/* All entries by one walk, and each entry from each of its offsets. */
static void check_queue(rp_message_store *store, rp_consume_queue *queue, int64_t from) {
    CHECK(rp_consume_queue_is_batch(queue));
    CHECK(rp_consume_queue_min_offset(queue) == offset_of(from) && rp_consume_queue_max_offset(queue) == offset_of(APPENDS));
    int64_t number = from, at = offset_of(from), got;
    rp_queue_entry entries[7];
    while ((got = rp_consume_queue_read(queue, at, entries, 7)) > 0) {
        for (int64_t i = 0; i < got; i++, number++) {
            CHECK(entries[i].queue_offset == at && entries[i].messages == messages_of(number));
            check_record(store, &entries[i], number);
            at += entries[i].messages;
        }
    }
    CHECK(got == 0 && number == APPENDS);
    number = from;
    for (at = offset_of(from); at < offset_of(APPENDS); at++) {
        number += at >= offset_of(number + 1);
        CHECK(rp_consume_queue_read(queue, at, entries, 1) == 1 && entries[0].queue_offset == offset_of(number));
        CHECK(rp_consume_queue_in_memory(queue, at, at + 1) == 1);
    }
    CHECK(rp_consume_queue_read_before(queue, at, entries) == 1 && entries[0].queue_offset == offset_of(APPENDS - 1));
    CHECK(rp_consume_queue_read(queue, at + 1, entries, 1) == RP_E_RANGE && rp_consume_queue_read(queue, -1, entries, 1) == RP_E_RANGE);
}

static void check_queues(rp_message_store *store, const char *topic) {
    check_queue(store, fixture_queue(store, topic, 0), 0);
    check_queue(store, fixture_queue(store, topic, 1), 0);
}

static void remove_below(const char *path, const char *name) {
    char directory[600];
    snprintf(directory, sizeof directory, "%s/%s", path, name);
    fixture_remove(directory);
}

static int is_there(const char *path, const char *name) {
    char file[600];
    snprintf(file, sizeof file, "%s/%s", path, name);
    return access(file, F_OK) == 0;
}

/* How many damages there are. */
static uint64_t verify(const char *path, uint64_t *entries) {
    rp_message_store_options options;
    rp_verify_options verify;
    rp_verify_counts counts;
    fixture_options(&options, path);
    rp_verify_options_default(&verify);
    verify.root_path = path;
    verify.index_shape = (rp_index_shape){options.index_slot_count, options.index_entry_count_max};
    CHECK(rp_store_verify(&verify, &counts, NULL) == RP_OK);
    *entries = counts.queue_entries;
    return counts.damages;
}

static void batches_are_found_whatever_happens_to_their_queues(int flush_mode, int property_crc) {
    char path[512];
    uint64_t entries;
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, flush_mode);
    options.append_property_crc = property_crc;
    rp_message_store *store = fixture_open(&options);
    append_all(store, "Batches");
    check_queues(store, "Batches");
    fixture_close(store);
    CHECK(verify(path, &entries) == 0 && entries == 2 * APPENDS);
    for (int run = 0; run < 4; run++) {
        if (run == 1 || run == 3) {
            fixture_forget_synced(path);
        }
        if (run == 2) {
            remove_below(path, "batchconsumequeue/Batches/1");
        }
        options.batch_topics = run == 3 ? NULL : options.batch_topics; /* then only the records say that their topic has batch queues */
        options.rebuild_queues = run == 3;
        store = fixture_open(&options);
        check_queues(store, "Batches");
        fixture_close(store);
        CHECK(verify(path, &entries) == 0 && entries == 2 * APPENDS);
    }
    CHECK(!is_there(path, "consumequeue/Batches"));
    fixture_remove(path);
}

/* Byte for byte as RocketMQ writes it. */
static void an_entry_lies_as_in_rocketmq(void) {
    char path[512], name[600];
    uint8_t bytes[2 * RP_BATCH_ENTRY_SIZE];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    rp_append_item item = batch_item(fixture_queue(store, "Batches", 3), 5);
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1);
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1);
    fixture_close(store);
    snprintf(name, sizeof name, "%s/batchconsumequeue/Batches/3/%020d", path, 0);
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0 && pread(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes && lseek(fd, 0, SEEK_END) == A_FILE * RP_BATCH_ENTRY_SIZE);
    close(fd);
    const uint8_t *second = bytes + RP_BATCH_ENTRY_SIZE;
    CHECK((int64_t)rp_get_u64(second) == item.commit_log_offset && rp_get_u32(second + 8) == item.size);
    CHECK((int64_t)rp_get_u64(second + 12) == item.tags_code && (int64_t)rp_get_u64(second + 20) == item.store_timestamp_ms);
    CHECK(rp_get_u64(bytes + 28) == 0 && rp_get_u64(second + 28) == 6 && rp_get_u16(second + 36) == 6);
    CHECK(rp_get_u32(second + 38) == UINT32_MAX && rp_get_u32(second + 42) == 0);
    fixture_remove(path);
}

/* Behind a controller, as the next master. */
static void lead(rp_commit_log *log) {
    rp_commit_log_set_following(log, 1);
    CHECK(rp_commit_log_settle(log, 1, NULL) == RP_OK);
    rp_commit_log_set_following(log, 0);
}

static void held_ones_have_their_offsets_and_come_later(int flush_mode) {
    char path[512];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, flush_mode);
    options.holds_back = 1;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    lead(log);
    for (int64_t number = 0; number < APPENDS; number++) {
        rp_append_item items[2] = {batch_item(fixture_queue(store, "Batches", 0), number),
                                   batch_item(fixture_queue(store, "Batches", 1), number)};
        CHECK(rp_commit_log_append(log, items, 2) == 2 && items[1].queue_offset == offset_of(number));
        if (number == APPENDS / 2) { /* a new lead: messages that are not confirmed get their places from the log */
            lead(log);
        }
    }
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Batches", 0)) == 0);
    CHECK(rp_consume_queue_next_offset(fixture_queue(store, "Batches", 0)) == offset_of(APPENDS));
    while (rp_commit_log_confirm(log, rp_commit_log_max_offset(log))) {
    }
    check_queues(store, "Batches");
    fixture_close(store);
    fixture_remove(path);
}

/* The log as a slave gets it, that does not know the topic yet. */
static void a_slave_enters_what_its_master_sends(void) {
    char path[512], slave_path[512];
    rp_message_store_options options;
    rp_log_range range;
    fixture_memory_directory(path, sizeof path);
    fixture_memory_directory(slave_path, sizeof slave_path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *master = fixture_open(&options);
    append_all(master, "Batches");
    batch_options(&options, slave_path, RP_FLUSH_ASYNC);
    options.batch_topics = NULL;
    rp_message_store *slave = fixture_open(&options);
    rp_commit_log *from = rp_message_store_commit_log(master), *to = rp_message_store_commit_log(slave);
    rp_commit_log_set_following(to, 1);
    for (int64_t at = 0; at < rp_commit_log_max_offset(from);) {
        uint8_t *address;
        uint32_t room, wanted = 777;
        CHECK(rp_commit_log_reserve_replicated(to, at, wanted, &address, &room, NULL) == RP_OK);
        int64_t left = rp_commit_log_max_offset(from) - at;
        wanted = left < wanted ? (uint32_t)left : wanted;
        wanted = room < wanted ? room : wanted;
        CHECK(rp_commit_log_read(from, at, wanted, &range) == RP_OK);
        memcpy(address, range.address, wanted);
        rp_log_range_release(range.pin);
        CHECK(rp_commit_log_commit_replicated(to, at, wanted, NULL) == RP_OK);
        at += wanted;
    }
    check_queues(slave, "Batches");
    fixture_close(slave);
    fixture_close(master);
    fixture_remove(path);
    fixture_remove(slave_path);
}

static int64_t delete_topic(rp_message_store *store, const char *topic) {
    return rp_message_store_delete_topic(store, fixture_slice(topic), NULL);
}

/* The kind that a topic had last counts, also when queues are rebuilt. The files of the other kind are removed. */
static void a_topic_is_made_again_with_queues_of_the_other_kind(void) {
    char path[512];
    uint64_t entries;
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *plain = fixture_queue(store, "Changing", 0), *batch;
    CHECK(!rp_consume_queue_is_batch(plain));
    CHECK(fixture_append(store, plain, 0) == RP_OK);
    CHECK(rp_message_store_set_batch_topic(store, fixture_slice("Changing"), 1) == RP_OK);
    CHECK(fixture_queue(store, "Changing", 0) == plain); /* a queue with messages stays what it is */
    CHECK(delete_topic(store, "Changing") == 0);
    batch = fixture_queue(store, "Changing", 0);
    CHECK(batch != plain && rp_consume_queue_is_batch(batch));
    rp_append_item item = batch_item(batch, 5);
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1 && rp_consume_queue_max_offset(batch) == 6);
    CHECK(rp_message_store_set_batch_topic(store, fixture_slice("Changing"), 0) == RP_OK);
    CHECK(delete_topic(store, "Changing") == 0 && fixture_queue(store, "Changing", 0) == plain);
    CHECK(!is_there(path, "batchconsumequeue/Changing"));
    CHECK(fixture_append(store, plain, 0) == RP_OK && fixture_append(store, plain, 1) == RP_OK);
    fixture_close(store);
    CHECK(is_there(path, "consumequeue/Changing") && !is_there(path, "batchconsumequeue/Changing"));
    options.rebuild_queues = 1;
    store = fixture_open(&options);
    plain = fixture_queue(store, "Changing", 0);
    CHECK(!rp_consume_queue_is_batch(plain) && rp_consume_queue_max_offset(plain) == 2 && fixture_check(store, plain, 1) == 0);
    fixture_close(store);
    CHECK(!is_there(path, "batchconsumequeue/Changing") && verify(path, &entries) == 0 && entries == 2);
    fixture_remove(path);
}

/* RocketMQ takes messages for such a topic one by one, and enters them nowhere. It would not start beside a plain queue of the topic. */
static void what_does_not_say_its_place_is_in_no_queue(void) {
    char path[512];
    uint64_t entries;
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    options.batch_topics = NULL;
    rp_message_store *store = fixture_open(&options);
    CHECK(fixture_append(store, fixture_queue(store, "Batches", 0), 0) == RP_OK); /* as RocketMQ leaves such messages in its log */
    fixture_close(store);
    remove_below(path, "consumequeue");
    fixture_forget_synced(path);
    options.batch_topics = "Batches\n";
    store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Batches", 0);
    CHECK(rp_consume_queue_is_batch(queue) && rp_consume_queue_max_offset(queue) == 0);
    rp_append_item item = batch_item(queue, 4);
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1 && item.queue_offset == 0);
    fixture_close(store);
    store = fixture_open(&options);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Batches", 0)) == 5);
    fixture_close(store);
    CHECK(!is_there(path, "consumequeue/Batches") && verify(path, &entries) == 0 && entries == 1);
    fixture_remove(path);
}

static void moments_are_found_by_the_entries(void) {
    char path[512];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Batches", 0);
    CHECK(rp_consume_queue_offset_by_time(queue, 5, 0) == 0);
    append_all(store, "Batches");
    rp_queue_entry entry;
    int64_t last = offset_of(APPENDS - 1);
    CHECK(rp_consume_queue_read(queue, last, &entry, 1) == 1);
    CHECK(rp_consume_queue_offset_by_time(queue, 0, 0) == 0 && rp_consume_queue_offset_by_time(queue, 0, 1) == 0);
    CHECK(rp_consume_queue_offset_by_time(queue, entry.store_timestamp_ms + 1, 0) == last); /* as RocketMQ: not the end */
    CHECK(rp_consume_queue_offset_by_time(queue, INT64_MAX, 0) == last && rp_consume_queue_offset_by_time(queue, INT64_MAX, 1) == last);
    CHECK(rp_consume_queue_offset_by_time_in_memory(queue, 0, 0) == RP_E_BUSY);
    int64_t found = rp_consume_queue_offset_by_time(queue, entry.store_timestamp_ms, 0);
    CHECK(found <= last && rp_consume_queue_read(queue, found, &entry, 1) == 1 && entry.queue_offset == found);
    CHECK(rp_consume_queue_earliest_time(queue) <= rp_consume_queue_time_at(queue, last));
    fixture_close(store);
    fixture_remove(path);
}

static void expired_ones_raise_the_min_offset(void) {
    char path[512];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    options.commit_log_file_size = 4096;
    rp_message_store *store = fixture_open(&options);
    append_all(store, "Batches");
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(rp_message_store_commit_log(store)), 60000) == RP_OK);
    fixture_close(store); /* and its checkpoint covers them */
    store = fixture_open(&options);
    for (int i = 0; i < 5; i++) {
        CHECK(rp_message_store_expire_file(store, NULL) == RP_OK);
    }
    rp_consume_queue *queue = fixture_queue(store, "Batches", 0);
    int64_t min = rp_consume_queue_min_offset(queue), from = 0;
    while (offset_of(from) < min) {
        from++;
    }
    CHECK(from > A_FILE && from < APPENDS);
    check_queue(store, queue, from);
    CHECK(!is_there(path, "batchconsumequeue/Batches/0/00000000000000000000"));
    fixture_close(store);
    for (int run = 0; run < 2; run++) {
        options.rebuild_queues = run;
        store = fixture_open(&options);
        check_queue(store, fixture_queue(store, "Batches", 0), from);
        fixture_close(store);
    }
    fixture_remove(path);
}

static _Atomic int allocations_left;

static int allocate_or_full(void *context, int fd, int64_t offset, int64_t size) {
    if (atomic_fetch_sub(&allocations_left, 1) <= 0) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

/* At the n-th allocation: nothing of the batch is there, or all of it. */
static void a_full_disk_refuses_the_batch(int flush_mode) {
    char path[512];
    rp_file_ops ops = *rp_file_ops_system();
    rp_message_store_options options;
    ops.allocate = allocate_or_full;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, flush_mode);
    options.file_ops = &ops;
    atomic_store(&allocations_left, INT_MAX);
    rp_message_store *store = fixture_open(&options);
    int64_t end = 0, refused = 0;
    for (int64_t number = 0; number < 300; number++) {
        atomic_store(&allocations_left, number % 2 == 0 ? 0 : INT_MAX);
        rp_append_item item = batch_item(fixture_queue(store, "Batches", 0), number);
        rp_commit_log_append(rp_message_store_commit_log(store), &item, 1);
        CHECK(item.status == RP_OK || item.status == RP_E_DISK_FULL);
        CHECK(item.status != RP_OK || item.queue_offset == end);
        end += item.status == RP_OK ? messages_of(number) : 0;
        refused += item.status != RP_OK;
        CHECK(rp_consume_queue_max_offset(item.queue) == end);
    }
    CHECK(refused > 0 && end > 1000);
    atomic_store(&allocations_left, INT_MAX);
    fixture_close(store);
    fixture_remove(path);
}

static void an_entry_that_is_lost_or_wrong_is_named_and_built_again(void) {
    char path[512], name[600];
    uint64_t entries;
    uint8_t offset[8];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    append_all(store, "Batches");
    fixture_close(store);
    snprintf(name, sizeof name, "%s/batchconsumequeue/Batches/1/%020d", path, 2 * A_FILE * RP_BATCH_ENTRY_SIZE);
    rp_put_u64(offset, (uint64_t)offset_of(2 * A_FILE) + 1);
    int fd = open(name, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, offset, sizeof offset, 28) == 8 && close(fd) == 0);
    CHECK(verify(path, &entries) > 0);
    options.rebuild_queues = 1;
    store = fixture_open(&options);
    check_queues(store, "Batches");
    fixture_close(store);
    CHECK(verify(path, &entries) == 0);
    fixture_remove(path);
}

/* The next message gets its offset from the queue's last entry, so that must be whole. */
static void an_offset_that_no_queue_has_ends_none(void) {
    char path[512], name[600];
    uint64_t entries;
    uint8_t offset[8];
    rp_message_store_options options;
    static const int64_t offsets[] = {INT64_MAX - 3, INT64_MAX / 2, INT64_C(1) << 40, -1};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        fixture_memory_directory(path, sizeof path);
        batch_options(&options, path, RP_FLUSH_ASYNC);
        rp_message_store *store = fixture_open(&options);
        append_all(store, "Batches");
        fixture_close(store);
        snprintf(name, sizeof name, "%s/batchconsumequeue/Batches/1/%020d", path, (APPENDS - 1) / A_FILE * A_FILE * RP_BATCH_ENTRY_SIZE);
        rp_put_u64(offset, (uint64_t)offsets[i]);
        int fd = open(name, O_RDWR);
        CHECK(fd >= 0 && pwrite(fd, offset, sizeof offset, (APPENDS - 1) % A_FILE * RP_BATCH_ENTRY_SIZE + 28) == 8 && close(fd) == 0);
        CHECK(verify(path, &entries) > 0);
        store = fixture_open(&options);
        check_queues(store, "Batches");
        fixture_close(store);
        CHECK(verify(path, &entries) == 0);
        fixture_remove(path);
    }
}

static void a_light_queue_of_a_topic_with_batch_queues_is_sound(void) {
    char path[512];
    uint64_t entries, room[64];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    options.light_queues_max = 10;
    rp_message_store *store = fixture_open(&options);
    rp_append_item item = fixture_item(fixture_queue(store, "Batches", 0), "one", 3);
    item.properties[0] = fixture_slice("INNER_MULTI_DISPATCH\1%LMQ%a\2");
    item.tags_code = 0;
    CHECK(rp_light_targets_size(fixture_slice("%LMQ%a"), item.properties[2]) <= sizeof room);
    CHECK(rp_light_targets_open(store, fixture_slice("%LMQ%a"), room, &item) == RP_OK);
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "%LMQ%a", 0)) == 1);
    fixture_close(store);
    CHECK(verify(path, &entries) == 0 && entries == 2);
    fixture_remove(path);
}

static void too_much_for_a_record_is_refused(void) {
    char path[512];
    static char properties[RP_PROPERTIES_SIZE_MAX];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    batch_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    rp_append_item item = batch_item(fixture_queue(store, "Batches", 0), 1);
    item.inner_messages = RP_INNER_MESSAGES_MAX + 1;
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 0 && item.status == RP_E_TOO_LARGE);
    memset(properties, 'x', sizeof properties);
    properties[1] = 1;
    item.inner_messages = RP_INNER_MESSAGES_MAX;
    item.properties[0] = item.properties[1] = (rp_slice){NULL, 0};
    for (uint32_t size = RP_PROPERTIES_SIZE_MAX; size > RP_PROPERTIES_SIZE_MAX - 60; size--) {
        item.properties[2] = (rp_slice){(const uint8_t *)properties, size};
        rp_commit_log_append(rp_message_store_commit_log(store), &item, 1);
        CHECK(item.status == (size + 48 > RP_PROPERTIES_SIZE_MAX ? RP_E_TOO_LARGE : RP_OK)); /* the pairs, and a separator before them */
    }
    fixture_close(store);
    fixture_remove(path);
}

static void names_of_topics_come_and_go(void) {
    rp_batch_topics topics = {0};
    char name[16];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            snprintf(name, sizeof name, "T%d", i);
            CHECK(rp_batch_topics_add(&topics, fixture_slice(name)) == RP_OK && rp_batch_topics_has(&topics, fixture_slice(name)));
        }
        for (int i = 0; i < 100; i += 2) {
            snprintf(name, sizeof name, "T%d", i);
            rp_batch_topics_remove(&topics, fixture_slice(name));
        }
        for (int i = 0; i < 100; i++) {
            snprintf(name, sizeof name, "T%d", i);
            CHECK(rp_batch_topics_has(&topics, fixture_slice(name)) == (i % 2 == 1));
        }
    }
    CHECK(topics.count == 50);
    rp_batch_topics_free(&topics);
}

int main(void) {
    names_of_topics_come_and_go();
    an_entry_lies_as_in_rocketmq();
    a_light_queue_of_a_topic_with_batch_queues_is_sound();
    for (int flush_mode = RP_FLUSH_ASYNC; flush_mode <= RP_FLUSH_SYNC; flush_mode++) {
        batches_are_found_whatever_happens_to_their_queues(flush_mode, flush_mode == RP_FLUSH_SYNC);
        held_ones_have_their_offsets_and_come_later(flush_mode);
        a_full_disk_refuses_the_batch(flush_mode);
    }
    a_slave_enters_what_its_master_sends();
    a_topic_is_made_again_with_queues_of_the_other_kind();
    what_does_not_say_its_place_is_in_no_queue();
    moments_are_found_by_the_entries();
    expired_ones_raise_the_min_offset();
    an_entry_that_is_lost_or_wrong_is_named_and_built_again();
    an_offset_that_no_queue_has_ends_none();
    too_much_for_a_record_is_refused();
    return 0;
}
