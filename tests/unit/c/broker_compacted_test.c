/* broker_compacted_test.c: sends to and pulls from a compacted topic through a real server: keys, gaps, filters, offsets, long polling. */
#include "broker/lane.h"
#include "broker/pop_revive.h"
#include "cold_disk.h"
#include "pop_fixture.h"
#include "store/compaction_log.h"
#include "store/compaction_segment.h"

enum { AGAIN = 20, MOVED = 21 };
#define COMPACTED (RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL | RP_TOPIC_COMPACTED)
#define OFTEN_MS 20u
#define NEVER_MS 3600000u

/* Segments of 20 entries. */
static void open_prepared(fixture *fx, uint32_t interval_ms) {
    rp_error error = {0};
    fx->store_options.index_enable = 0;
    fx->store_options.compaction_queue_file_size = 21 * RP_COMPACTION_ENTRY_SIZE;
    fx->store_options.compaction_file_size = 8 * 1024;
    fx->store_options.compaction_interval_ms = interval_ms;
    fx->settings.property_filter_enable = 1;
    fixture_open(fx);
    must(rp_broker_compact_topic(fx->broker, text("T"), 4, &error), &error, "compact");
    CHECK(rp_broker_put_topic(fx->broker, text("T"), 4, 4, 6, 0, COMPACTED) == RP_OK);
}

static void open_compacted(fixture *fx, uint32_t interval_ms) {
    fixture_init(fx);
    open_prepared(fx, interval_ms);
}

/* Message i of key i % keys; tag A or B in turn of ten. */
static void send_keyed(client *c, int from, int to, int keys) {
    for (int i = from; i < to; i++) {
        char properties[128], body[64];
        snprintf(properties, sizeof properties, "KEYS\1k%d\2TAGS\1%c\2n\1%d\2UNIQ_KEY\1K\2", i % keys, i / 10 % 2 ? 'B' : 'A', i);
        snprintf(body, sizeof body, "%d", i);
        CHECK(send_message(c, "T", 0, properties, body) == i);
    }
}

static rp_consume_queue *queue_of(const fixture *fx) {
    rp_error error = {0};
    return rp_message_store_queue(fx->store, text("T"), 0, 1, &error);
}

static int is_copied(void *context) {
    rp_consume_queue *queue = context;
    return rp_compaction_log_end(rp_consume_queue_compacted(queue)) == rp_consume_queue_max_offset(queue);
}

typedef struct pulled {
    int64_t offsets[1000];
    int count, pulls;
} pulled;

/* Pulls all messages from an offset on, as a consumer does: each pull begins where the last answer said. */
static void pull_all(client *c, int64_t from, int64_t to, const char *subscription, const char *type, pulled *all) {
    all->count = all->pulls = 0;
    while (from < to) {
        pull_request pull = pull_of(0, from);
        pull.subscription = subscription;
        pull.expression_type = type;
        rp_command response = client_pull(c, &pull);
        CHECK(response.code == SUCCESS || response.code == AGAIN);
        CHECK(field_number(&response, "nextBeginOffset") > from && field_number(&response, "maxOffset") == to && ++all->pulls < 1000);
        from = field_number(&response, "nextBeginOffset");
        for (uint32_t at = 0; at < response.body.size && response.code == SUCCESS;) {
            rp_message message;
            rp_error error = {0};
            must(rp_message_decode(response.body.data + at, response.body.size - at, 1, &message, &error), &error, "pulled record");
            all->offsets[all->count++] = message.queue_offset;
            at += message.size;
        }
    }
}

static int is_compacted(void *context) {
    rp_consume_queue *queue = context;
    int64_t count = 0, at = 0;
    for (rp_compaction_segment *segment; (segment = rp_compaction_log_find(rp_consume_queue_compacted(queue), at)) != NULL; count++) {
        rp_compaction_entry entry;
        rp_compaction_segment_entry(segment, rp_compaction_segment_find(segment, at), &entry);
        at = entry.queue_offset + 1;
        rp_compaction_segment_release(segment);
    }
    return count <= 10 + 20;
}

static int64_t ask_offset(client *c, int32_t code) {
    rp_command command = request_of(c, code);
    with_text(&command, "topic", "T");
    with_text(&command, "queueId", "0");
    rp_command response = client_call(c, &command);
    CHECK(response.code == SUCCESS);
    return field_number(&response, "offset");
}

static void pulls_get_what_is_kept_and_then_what_is_new(void) {
    fixture fx;
    static pulled all;
    open_compacted(&fx, OFTEN_MS);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    send_keyed(&c, 0, 200, 10);
    wait_until(is_copied, queue_of(&fx));
    wait_until(is_compacted, queue_of(&fx));
    pull_all(&c, 0, 200, "*", NULL, &all);
    CHECK(all.count >= 10 && all.count <= 30 && all.offsets[0] > 100 && all.offsets[all.count - 1] == 199);
    for (int i = 1; i < all.count; i++)
        CHECK(all.offsets[i] > all.offsets[i - 1]);
    int kept = all.count;
    int64_t first = all.offsets[0], min = ask_offset(&c, RP_CODE_GET_MIN_OFFSET); /* it may have been compacted once more */
    CHECK(min >= first && min <= 190 && ask_offset(&c, RP_CODE_GET_MAX_OFFSET) == 200);
    pull_all(&c, all.offsets[kept - 2], 200, "*", NULL, &all);
    CHECK(all.count == 2 && all.offsets[0] == 198);
    pull_request pull = pull_of(0, 200);
    CHECK(client_pull(&c, &pull).code == NOT_FOUND);
    pull.offset = -1;
    rp_command moved = client_pull(&c, &pull);
    CHECK(moved.code == MOVED && field_number(&moved, "nextBeginOffset") >= min && field_number(&moved, "nextBeginOffset") <= 190);
    pull.offset = 205;
    CHECK(client_pull(&c, &pull).code == MOVED);
    send_keyed(&c, 200, 201, 10);
    pull_all(&c, 200, 201, "*", NULL, &all); /* whether they have been copied already or not */
    CHECK(all.count == 1 && all.offsets[0] == 200);
    client_close(&c);
    fixture_close(&fx);
}

static void filters_hold(void) {
    fixture fx;
    static pulled all;
    open_compacted(&fx, NEVER_MS);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    send_keyed(&c, 0, 100, 100);
    wait_until(is_copied, queue_of(&fx));
    pull_all(&c, 0, 100, "B", NULL, &all);
    CHECK(all.count == 50 && all.offsets[0] == 10);
    pull_all(&c, 0, 100, "n > 94", "SQL92", &all);
    CHECK(all.count == 5 && all.offsets[0] == 95);
    pull_all(&c, 0, 100, "nobody", NULL, &all);
    CHECK(all.count == 0 && all.pulls <= 6); /* a segment each */
    client_close(&c);
    fixture_close(&fx);
}

static int32_t try_send(client *c, int32_t code, const char *properties, rp_slice body) {
    number_text queue_text;
    rp_command command = send_request_v2(c, code, "T", 0, properties, body, &queue_text);
    if (code == RP_CODE_SEND_BATCH_MESSAGE)
        with_text(&command, "m", "true");
    rp_command response = client_call(c, &command);
    CHECK(response.code != ILLEGAL || slice_is(response.remark, "Required message key is missing"));
    return response.code;
}

/* One message of a batch. */
static uint32_t put_inner(uint8_t *to, const char *properties) {
    uint16_t size = (uint16_t)strlen(properties);
    memset(to, 0, 21);
    rp_put_u32(to, 23u + size);
    rp_put_u32(to + 16, 1);
    to[20] = 'b';
    rp_put_u16(to + 21, size);
    memcpy(to + 23, properties, size);
    return 23u + size;
}

static void every_message_needs_a_key(void) {
    fixture fx;
    open_compacted(&fx, NEVER_MS);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    uint8_t batch[256];
    CHECK(try_send(&c, RP_CODE_SEND_MESSAGE_V2, "TAGS\1A\2", text("x")) == ILLEGAL);
    CHECK(try_send(&c, RP_CODE_SEND_MESSAGE_V2, "KEYS\1 \t\2", text("x")) == ILLEGAL);
    CHECK(try_send(&c, RP_CODE_SEND_MESSAGE_V2, "KEYS\1k\2", text("x")) == SUCCESS);
    CHECK(try_send(&c, RP_CODE_SEND_MESSAGE_V2, "KEYS\1k\2", text("")) == SUCCESS); /* deletes k */
    uint32_t size = put_inner(batch, "KEYS\1a\2");
    CHECK(try_send(&c, RP_CODE_SEND_BATCH_MESSAGE, "", (rp_slice){batch, size}) == SUCCESS);
    size += put_inner(batch + size, "TAGS\1a\2");
    CHECK(try_send(&c, RP_CODE_SEND_BATCH_MESSAGE, "", (rp_slice){batch, size}) == ILLEGAL);
    client_close(&c);
    fixture_close(&fx);
}

static void a_pull_waits_for_the_next_message(void) {
    fixture fx;
    open_compacted(&fx, NEVER_MS);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ), waiting = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    send_keyed(&c, 0, 3, 3);
    wait_until(is_copied, queue_of(&fx));
    pull_request pull = pull_of(0, 3);
    pull.sys_flag = RP_PULL_SUSPEND | RP_PULL_SUBSCRIPTION;
    client_send_pull(&waiting, &pull);
    send_keyed(&c, 3, 4, 4);
    rp_command response;
    CHECK(client_receive(&waiting, &response, WAIT_MS) == 1);
    CHECK(response.code == SUCCESS && field_number(&response, "nextBeginOffset") == 4);
    client_close(&waiting);
    client_close(&c);
    fixture_close(&fx);
}

static void a_pop_takes_what_is_kept(void) {
    fixture fx;
    static pulled all;
    open_compacted(&fx, OFTEN_MS);
    put_pop_topics(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_keyed(&c, 0, 200, 10);
    wait_until(is_copied, queue_of(&fx));
    wait_until(is_compacted, queue_of(&fx));
    pull_all(&c, 0, 200, "*", NULL, &all);
    pop_request pop = pop_of(0);
    int count = 0, pops = 0;
    for (rp_command response; (response = client_pop(&c, &pop)).code == SUCCESS; pops++) {
        for (uint32_t at = 0; at < response.body.size; count++) {
            rp_message message;
            rp_error error = {0};
            must(rp_message_decode(response.body.data + at, response.body.size - at, 1, &message, &error), &error, "popped record");
            CHECK(count < all.count && message.queue_offset == all.offsets[count]);
            at += message.size;
        }
        CHECK(pops < 100);
    }
    CHECK(count == all.count);
    client_close(&c);
    fixture_close(&fx);
}

static int is_expired(void *context) {
    const fixture *fx = context;
    rp_message_store_expire_file(fx->store, NULL); /* works only after the copies are synced */
    return rp_consume_queue_min_offset(queue_of(fx)) > 0;
}

/* The commit log and the queue no longer have the messages; only the compacted copy does. */
static void what_was_popped_of_the_copy_alone_is_acked_changed_and_comes_again(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.commit_log_file_size = 64 * 1024;
    open_prepared(&fx, NEVER_MS);
    put_pop_topics(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    char handle[128];
    send_keyed(&c, 0, 400, 400);
    wait_until(is_copied, queue_of(&fx));
    wait_until(is_expired, &fx);
    rp_consume_queue *queue = queue_of(&fx);
    CHECK(rp_message_store_first_offset(queue) == 0 && rp_message_store_offset_by_time(queue, 0, 0) == 0);
    CHECK(rp_consume_queue_offset_by_time_in_memory(queue, 0, 0) == RP_E_BUSY);
    CHECK(rp_message_store_offset_by_time(queue, 0, 1) == 0 && rp_message_store_offset_by_time(queue, INT64_MAX, 0) == 400);
    CHECK(rp_message_store_offset_by_time(queue, rp_clock_wall_ms(rp_clock_system()), 1) == 399);
    pop_request pop = pop_of(0);
    pop.max_messages = 1;
    rp_command response = client_pop(&c, &pop); /* a new group begins with what is kept */
    CHECK(response.code == SUCCESS && rp_get_u64(response.body.data + 20) == 0);
    handle_of(&response, 0, 0, handle);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, handle, 0).code == SUCCESS);
    response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && rp_get_u64(response.body.data + 20) == 1);
    handle_of(&response, 0, 1, handle);
    CHECK(client_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, 0, 1, handle, 1000).code == SUCCESS);
    int64_t later_ms = rp_clock_wall_ms(rp_clock_system()) + 100000; /* one message was acked; the other one comes again */
    for (int i = 0; i < 2; i++)
        rp_pop_revive_round(fx.broker->revive, later_ms);
    rp_consume_queue *retries = rp_message_store_queue(fx.store, text(RETRY), 0, 0, NULL);
    CHECK(retries != NULL && rp_consume_queue_max_offset(retries) == 1);
    close_pop(&fx, &c);
}

static void what_is_on_disk_only_is_read_by_another_thread(void) {
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    open_prepared(&fx, NEVER_MS);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ), waiting = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    send_keyed(&c, 0, 30, 30);
    wait_until(is_copied, queue_of(&fx));
    hold_reads(&disk, 1);
    pull_request pull = pull_of(0, 0);
    client_send_pull(&waiting, &pull);
    CHECK(wait_for_reads(&disk, 1) == 1);
    pull = pull_of(1, 0); /* the reactor answers others meanwhile */
    CHECK(client_pull(&c, &pull).code == NOT_FOUND);
    hold_reads(&disk, 0);
    rp_command response;
    CHECK(client_receive(&waiting, &response, WAIT_MS) == 1);
    CHECK(response.code == SUCCESS && field_number(&response, "nextBeginOffset") == 20); /* a segment */
    client_close(&waiting);
    client_close(&c);
    fixture_close(&fx);
}

static void one_made_again_with_batch_queues_is_not_compacted(void) {
    fixture fx;
    open_compacted(&fx, NEVER_MS);
    rp_consume_queue *plain = queue_of(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 6, 0, RP_TOPIC_NATIVE_PULL | RP_TOPIC_BATCH) == RP_OK);
    CHECK(rp_consume_queue_compacted(plain) == NULL && queue_of(&fx) != plain && rp_consume_queue_is_batch(queue_of(&fx)));
    CHECK(rp_consume_queue_compacted(queue_of(&fx)) == NULL);
    must(rp_broker_compact_topic(fx.broker, text("T"), 4, &(rp_error){0}), &(rp_error){0}, "compact"); /* and back */
    CHECK(queue_of(&fx) == plain && rp_consume_queue_compacted(plain) != NULL);
    fixture_close(&fx);
}

static void a_topic_made_again_without_the_policy_is_plain(void) {
    fixture fx;
    open_compacted(&fx, NEVER_MS);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    send_keyed(&c, 0, 30, 3);
    wait_until(is_copied, queue_of(&fx));
    rp_broker_delete_topic(fx.broker, text("T"));
    CHECK(rp_message_store_delete_topic(fx.store, text("T"), NULL) == 0);
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_consume_queue_compacted(queue_of(&fx)) == NULL);
    CHECK(send_message(&c, "T", 0, "TAGS\1x\2", "no key") == 0);
    static pulled all;
    pull_all(&c, 0, 1, "*", NULL, &all);
    CHECK(all.count == 1);
    client_close(&c);
    fixture_close(&fx);
}

int main(void) {
    RUN(pulls_get_what_is_kept_and_then_what_is_new);
    RUN(filters_hold);
    RUN(every_message_needs_a_key);
    RUN(a_pull_waits_for_the_next_message);
    RUN(a_pop_takes_what_is_kept);
    RUN(what_was_popped_of_the_copy_alone_is_acked_changed_and_comes_again);
    RUN(what_is_on_disk_only_is_read_by_another_thread);
    RUN(one_made_again_with_batch_queues_is_not_compacted);
    RUN(a_topic_made_again_without_the_policy_is_plain);
    return 0;
}
