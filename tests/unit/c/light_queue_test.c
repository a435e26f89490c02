/* light_queue_test.c: a message that names light queues is in them too, at the offsets given in its record, however it got there: appended,
 * held back and confirmed, replicated, or found by a recovery. */
#include "../../../csrc/store/light_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../../csrc/store/commit_log.h"
#include "../../../csrc/store/light_targets.h"
#include "../../../csrc/store/store_verify.h"
#include "../../../csrc/store/message_store_inl.h"
#include "check.h"
#include "memory_out.h"
#include "store_fixture.h"

enum { MESSAGES = 300, ROOM = 4096 };

static void light_options(rp_message_store_options *options, const char *path, int flush_mode) {
    fixture_options(options, path);
    options->flush_mode = flush_mode;
    options->light_queues_max = 10;
}

/* Message `number` goes to %LMQ%a always, and now and then to others; some say %LMQ%a twice. */
static const char *const LISTS[] = {"%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%c,%LMQ%a,%LMQ%c,%LMQ%a,,"};
enum { LIST_COUNT = sizeof LISTS / sizeof LISTS[0] };

static int open_light(rp_message_store *store, const char *names, void *room, rp_append_item *item) {
    size_t size = rp_light_targets_size(fixture_slice(names), item->properties[2]);
    CHECK(size > 0 && size <= ROOM);
    return rp_light_targets_open(store, fixture_slice(names), room, item);
}

/* Three messages a batch: of one topic, with and without a separator at the end of their properties. */
static void append_batch(rp_message_store *store, int64_t first) {
    rp_append_item items[3];
    char texts[3][200];
    static _Alignas(16) uint8_t rooms[3][ROOM];
    for (int i = 0; i < 3; i++) {
        const char *names = LISTS[(first + i) % LIST_COUNT];
        items[i] = fixture_item(fixture_queue(store, "Parent", (int32_t)((first + i) % 2)), "light body", 10);
        snprintf(texts[i], sizeof texts[i], "TAGS\1TagA\2INNER_MULTI_DISPATCH\1%s%s", names, i == 0 ? "\2" : "");
        items[i].properties[0] = fixture_slice(texts[i]);
        items[i].tags_code = rp_message_tags_code(items[i].properties[0]);
        items[i].properties[1] = (rp_slice){NULL, 0};
        items[i].properties[2] = i == 2 ? fixture_slice("UNIQ_KEY\1ABC\2") : (rp_slice){NULL, 0};
        CHECK(open_light(store, names, rooms[i], &items[i]) == RP_OK);
    }
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), items, 3) == 3);
}

/* Each entry of the queue points at a record that has the queue, with that offset, in its properties. */
static int64_t check_queue(rp_message_store *store, const char *name, int64_t wanted) {
    rp_consume_queue *queue = rp_message_store_queue(store, fixture_slice(name), 0, 0, NULL);
    CHECK(queue != NULL);
    int64_t end = rp_consume_queue_max_offset(queue);
    CHECK(end == wanted);
    for (int64_t at = rp_consume_queue_min_offset(queue); at < end; at++) {
        rp_queue_entry entry;
        rp_log_range range;
        rp_message message;
        CHECK(rp_consume_queue_read(queue, at, &entry, 1) == 1);
        CHECK(rp_commit_log_read(rp_message_store_commit_log(store), entry.commit_log_offset, (uint32_t)entry.size, &range) == RP_OK);
        CHECK(rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE);
        CHECK(rp_light_queue_holds(fixture_slice(name), message.properties, at));
        CHECK(entry.tags_code == rp_message_tags_code(message.properties));
        CHECK(rp_message_property(message.properties, "TAGS").size == 4);
        rp_log_range_release(range.pin);
    }
    return end;
}

static void check_queues(rp_message_store *store) {
    check_queue(store, "%LMQ%a", MESSAGES);
    check_queue(store, "%LMQ%b", MESSAGES / LIST_COUNT);
    check_queue(store, "%LMQ%c", MESSAGES / LIST_COUNT);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Parent", 0)) == MESSAGES / 2);
}

static void remove_queues(const char *path) {
    char directory[600];
    snprintf(directory, sizeof directory, "%s/consumequeue", path);
    fixture_remove(directory);
}

/* How many damages there are. */
static uint64_t verify(const char *path) {
    rp_message_store_options options;
    rp_verify_options verify;
    rp_verify_counts counts;
    fixture_options(&options, path);
    rp_verify_options_default(&verify);
    verify.root_path = path;
    verify.index_shape = (rp_index_shape){options.index_slot_count, options.index_entry_count_max};
    CHECK(rp_store_verify(&verify, &counts, NULL) == RP_OK);
    return counts.damages;
}

/* The last entry of a queue's last file is lost. */
static void lose_an_entry(const char *path, const char *name, int64_t entry) {
    static const uint8_t nothing[RP_CONSUME_QUEUE_ENTRY_SIZE];
    char file[600];
    int64_t base = entry - entry % FIXTURE_QUEUE_FILE_ENTRIES, size = RP_CONSUME_QUEUE_ENTRY_SIZE;
    snprintf(file, sizeof file, "%s/consumequeue/%s/0/%020lld", path, name, (long long)(base * size));
    int fd = open(file, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, nothing, sizeof nothing, (entry - base) * size) == size && close(fd) == 0);
}

static void messages_are_in_their_light_queues(int flush_mode) {
    char path[512];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    light_options(&options, path, flush_mode);
    rp_message_store *store = fixture_open(&options);
    for (int64_t first = 0; first < MESSAGES; first += 3) {
        append_batch(store, first);
    }
    for (int round = 0; round < 4; round++) {
        check_queues(store);
        fixture_close(store);
        CHECK(verify(path) == 0);
        if (round == 0) {
            lose_an_entry(path, "%LMQ%b", MESSAGES / LIST_COUNT - 1);
            CHECK(verify(path) == 1);
        } else if (round == 1) {
            fixture_forget_synced(path);
        } else if (round == 2) {
            remove_queues(path);
        }
        store = fixture_open(&options);
    }
    rp_message_store_expire_file(store, NULL);
    rp_consume_queue *queue = rp_message_store_queue(store, fixture_slice("%LMQ%a"), 0, 0, NULL);
    CHECK(rp_consume_queue_max_offset(queue) == MESSAGES);
    fixture_close(store);
    fixture_remove(path);
}

static void names_and_counts_are_bounded(void) {
    char path[512], long_list[RP_LIGHT_TARGETS_MAX * 7 + 20] = "";
    static _Alignas(16) uint8_t room[65536];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    light_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    const char *const bad[] = {"x",        "%LMQ%a,x", "%LMQ%a,,%LMQ%b", ",%LMQ%a",   "%LMQ%",
                               "%LMQ%a/b", "%LMQ%own", "%LMQ%ok,%lmq%a", "%LMQ%\xff", "%LMQ%\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rp_append_item item = fixture_item(fixture_queue(store, "%LMQ%own", 0), "b", 1);
        CHECK(open_light(store, bad[i], room, &item) == RP_E_INVALID && item.light == NULL);
    }
    CHECK(rp_light_names_count(fixture_slice(",,,")) == 0 && rp_light_names_count(fixture_slice("")) == 0);
    for (int i = 0; i <= RP_LIGHT_TARGETS_MAX; i++) {
        snprintf(long_list + strlen(long_list), 8, "%s%%LMQ%%x", i == 0 ? "" : ",");
    }
    rp_append_item item = fixture_item(fixture_queue(store, "Parent", 0), "b", 1);
    CHECK(rp_light_targets_size(fixture_slice(long_list), item.properties[2]) == 0);
    int status = RP_OK, made = 0;
    for (; status == RP_OK && made < 100; made++) {
        char name[40];
        snprintf(name, sizeof name, "%%LMQ%%n%d", made);
        item = fixture_item(fixture_queue(store, "Parent", 0), "b", 1);
        status = open_light(store, name, room, &item);
    }
    CHECK(status == RP_E_BUSY && made == 11);
    CHECK(rp_message_store_delete_topic(store, fixture_slice("%LMQ%n0"), NULL) >= 0);
    item = fixture_item(fixture_queue(store, "Parent", 0), "b", 1);
    CHECK(open_light(store, "%LMQ%another", room, &item) == RP_OK);
    CHECK(rp_light_names_of(store, fixture_slice("Parent"), fixture_slice("INNER_MULTI_DISPATCH\1%LMQ%a\2")).size == 6);
    const char *const without[] = {"%RETRY%g", "%DLQ%g", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        CHECK(rp_light_names_of(store, fixture_slice(without[i]), fixture_slice("INNER_MULTI_DISPATCH\1%LMQ%a\2")).size == 0);
    }
    fixture_close(store);
    fixture_remove(path);
}

/* The offsets that a record lists may get longer while it waits for the lock. Past the format's limit it is refused. */
static void properties_have_room_for_the_offsets(void) {
    char path[512];
    static char properties[RP_PROPERTIES_SIZE_MAX + 1];
    static _Alignas(16) uint8_t room[ROOM];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    light_options(&options, path, RP_FLUSH_ASYNC);
    options.commit_log_file_size = 256 * 1024;
    rp_message_store *store = fixture_open(&options);
    for (int longer = 0; longer < 2; longer++) {
        uint32_t pair = (uint32_t)sizeof RP_LIGHT_OFFSETS + 2, size = RP_PROPERTIES_SIZE_MAX - pair + (uint32_t)longer;
        memset(properties, 'p', size);
        properties[size - 1] = 2;
        rp_append_item item = fixture_item(fixture_queue(store, "Parent", 0), "b", 1);
        item.properties[0] = (rp_slice){(const uint8_t *)properties, size};
        item.properties[1] = (rp_slice){NULL, 0};
        CHECK(open_light(store, "%LMQ%a", room, &item) == RP_OK);
        CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == !longer);
        CHECK(item.status == (longer ? RP_E_TOO_LARGE : RP_OK));
    }
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "%LMQ%a", 0)) == 1);
    fixture_close(store);
    fixture_remove(path);
}

static void arrived(void *context, rp_consume_queue *queue, uint64_t waiting) {
    rp_slice name = rp_consume_queue_topic(queue);
    CHECK(waiting == 2 && name.size == 6 && memcmp(name.data, "%LMQ%b", 6) == 0);
    atomic_fetch_add((_Atomic int *)context, 1);
}

static void copy_log(rp_message_store *from, rp_message_store *to) {
    rp_commit_log *source = rp_message_store_commit_log(from), *target = rp_message_store_commit_log(to);
    int64_t end = rp_commit_log_max_offset(source);
    for (int64_t at = 0; at < end;) {
        rp_log_range range;
        uint8_t *address;
        uint32_t room, size = end - at < 777 ? (uint32_t)(end - at) : 777;
        CHECK(rp_commit_log_reserve_replicated(target, at, size, &address, &room, NULL) == RP_OK);
        size = size < room ? size : room;
        CHECK(rp_commit_log_read(source, at, size, &range) == RP_OK);
        memcpy(address, range.address, size);
        rp_log_range_release(range.pin);
        CHECK(rp_commit_log_commit_replicated(target, at, size, NULL) == RP_OK);
        at += size;
    }
}

static void a_slave_has_them_and_wakes_who_waits(void) {
    char path[512], slave_path[512];
    rp_message_store_options options;
    _Atomic int wakes = 0;
    fixture_memory_directory(path, sizeof path);
    fixture_memory_directory(slave_path, sizeof slave_path);
    light_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    options.root_path = slave_path;
    rp_message_store *slave = fixture_open(&options);
    rp_message_store_on_arrival(store, arrived, (void *)&wakes);
    rp_message_store_on_arrival(slave, arrived, (void *)&wakes);
    rp_consume_queue_set_waiting(fixture_queue(store, "%LMQ%b", 0), 1);
    rp_consume_queue_set_waiting(fixture_queue(slave, "%LMQ%b", 0), 1);
    for (int64_t first = 0; first < MESSAGES; first += 3) {
        append_batch(store, first);
    }
    CHECK(atomic_exchange(&wakes, 0) > 0);
    copy_log(store, slave);
    CHECK(atomic_load(&wakes) > 0);
    check_queues(store);
    check_queues(slave);
    fixture_close(slave);
    fixture_close(store);
    fixture_remove(slave_path);
    fixture_remove(path);
}

/* If a slave has no memory for a record's light queue, the record is tried again. It must never count as done without its entry. */
static void no_entry_is_lost_for_want_of_memory(void) {
    char path[512];
    rp_message_store_options options;
    rp_error error;
    rp_log_range range;
    rp_message message;
    fixture_memory_directory(path, sizeof path);
    light_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    rp_append_item item = fixture_item(fixture_queue(store, "Parent", 0), "copied", 6);
    item.properties[0] = fixture_slice("TAGS\1TagA\2INNER_MULTI_DISPATCH\1%LMQ%new\2INNER_MULTI_QUEUE_OFFSET\0010\2");
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1);
    CHECK(rp_commit_log_read(rp_message_store_commit_log(store), 0, item.size, &range) == RP_OK);
    CHECK(rp_message_decode(range.address, range.size, 0, &message, &error) == RP_RECORD_MESSAGE);
    int status = RP_E_NO_MEMORY;
    for (int64_t from = 1; status != RP_OK; from++) {
        CHECK(from < 1000);
        atomic_store(&allocations, 0);
        atomic_store(&fail_from, from);
        atomic_store(&fail_behind, from + 1);
        counts_here = 1;
        status = rp_dispatcher_apply(&store->dispatcher, &message, &error);
        counts_here = 0;
    }
    check_queue(store, "%LMQ%new", 1);
    rp_log_range_release(range.pin);
    fixture_close(store);
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
    light_options(&options, path, flush_mode);
    options.holds_back = 1;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    lead(log);
    for (int64_t first = 0; first < MESSAGES; first += 3) {
        append_batch(store, first);
        if (first == MESSAGES / 2) { /* a new lead: messages that are not confirmed get their places from the log */
            check_queue(store, "%LMQ%a", 0);
            lead(log);
        }
    }
    check_queue(store, "%LMQ%a", 0);
    while (rp_commit_log_confirm(log, rp_commit_log_max_offset(log))) {
    }
    check_queues(store);
    fixture_close(store);
    fixture_remove(path);
}

/* RocketMQ's copies of a message, retries among them, have its properties: another topic's, and offsets that are given out already. */
static void copies_of_rocketmq_cut_nothing(void) {
    char path[512], text[100];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    light_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    for (int64_t first = 0; first < MESSAGES; first += 3) {
        append_batch(store, first);
    }
    const char *const topics[] = {"%RETRY%g", "%DLQ%g", "Copies"};
    for (int i = 0; i < 6; i++) {
        rp_append_item item = fixture_item(fixture_queue(store, topics[i % 3], 0), "copy", 4);
        snprintf(text, sizeof text, "INNER_MULTI_DISPATCH\1%%LMQ%%a\2INNER_MULTI_QUEUE_OFFSET\1%d\2", i % 3 == 2 ? 7 : i);
        item.properties[2] = fixture_slice(text);
        CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1);
    }
    fixture_close(store);
    remove_queues(path);
    store = fixture_open(&options);
    check_queues(store);
    fixture_close(store);
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

/* At the n-th allocation: nothing of the message is there, or all of it. */
static void a_full_disk_refuses_the_message_and_its_entries(int flush_mode) {
    char path[512];
    static _Alignas(16) uint8_t room[ROOM];
    rp_file_ops ops = *rp_file_ops_system();
    rp_message_store_options options;
    ops.allocate = allocate_or_full;
    fixture_memory_directory(path, sizeof path);
    light_options(&options, path, flush_mode);
    options.file_ops = &ops;
    options.light_queues_max = 1000;
    atomic_store(&allocations_left, INT_MAX);
    rp_message_store *store = fixture_open(&options);
    int64_t ends[3] = {0}, refused = 0;
    for (int number = 0; number < 400; number++) {
        char own[20], names[60], text[120];
        snprintf(own, sizeof own, "%%LMQ%%n%d", number / 100);
        snprintf(names, sizeof names, "%%LMQ%%all,%s", own);
        atomic_store(&allocations_left, number % 7 == 0 ? number / 7 % 4 : INT_MAX);
        rp_append_item item = fixture_item(fixture_queue(store, "Parent", 0), "body", 4);
        snprintf(text, sizeof text, "TAGS\1TagA\2INNER_MULTI_DISPATCH\1%s\2", names);
        item.properties[0] = fixture_slice(text);
        item.tags_code = rp_message_tags_code(item.properties[0]);
        int status = open_light(store, names, room, &item);
        if (status == RP_OK) {
            rp_commit_log_append(rp_message_store_commit_log(store), &item, 1);
            status = item.status;
        }
        CHECK(status == RP_OK || status == RP_E_DISK_FULL);
        refused += status != RP_OK;
        ends[0] += status == RP_OK;
        ends[1] = rp_consume_queue_max_offset(fixture_queue(store, "%LMQ%all", 0));
        ends[2] = rp_consume_queue_max_offset(fixture_queue(store, "Parent", 0));
        CHECK(ends[1] == ends[0] && ends[2] == ends[0]);
    }
    CHECK(refused > 0 && ends[0] > 300);
    atomic_store(&allocations_left, INT_MAX);
    check_queue(store, "%LMQ%all", ends[0]);
    fixture_close(store);
    fixture_remove(path);
}

static void a_deleted_one_begins_anew(void) {
    char path[512];
    rp_message_store_options options;
    fixture_memory_directory(path, sizeof path);
    light_options(&options, path, RP_FLUSH_ASYNC);
    rp_message_store *store = fixture_open(&options);
    for (int64_t first = 0; first < MESSAGES; first += 3) {
        append_batch(store, first);
    }
    CHECK(rp_message_store_delete_topic(store, fixture_slice("%LMQ%a"), NULL) == 0);
    append_batch(store, 0);
    check_queue(store, "%LMQ%a", 3);
    for (int round = 0; round < 2; round++) {
        fixture_close(store);
        if (round == 1) {
            remove_queues(path); /* the log alone tells of both histories: the later one counts */
        }
        store = fixture_open(&options);
        check_queue(store, "%LMQ%a", 3);
        check_queue(store, "%LMQ%b", MESSAGES / LIST_COUNT + 1);
    }
    fixture_close(store);
    fixture_remove(path);
}

int main(void) {
    messages_are_in_their_light_queues(RP_FLUSH_ASYNC);
    messages_are_in_their_light_queues(RP_FLUSH_SYNC);
    names_and_counts_are_bounded();
    properties_have_room_for_the_offsets();
    a_slave_has_them_and_wakes_who_waits();
    no_entry_is_lost_for_want_of_memory();
    held_ones_have_their_offsets_and_come_later(RP_FLUSH_ASYNC);
    held_ones_have_their_offsets_and_come_later(RP_FLUSH_SYNC);
    a_full_disk_refuses_the_message_and_its_entries(RP_FLUSH_ASYNC);
    a_full_disk_refuses_the_message_and_its_entries(RP_FLUSH_SYNC);
    copies_of_rocketmq_cut_nothing();
    a_deleted_one_begins_anew();
    return 0;
}
