/* broker_parts_test.c: the parts of csrc/broker that need no server: properties, headers, tag filters, batches, tables. */
#include <string.h>

#include "base/arena.h"
#include "base/bytes_inl.h"
#include "base/hash.h"
#include "broker/broker.h"
#include "broker/group_table.h"
#include "broker/message_properties.h"
#include "broker/name_table.h"
#include "broker/offset_table.h"
#include "broker/request_header.h"
#include "broker/response_writer_inl.h"
#include "broker/send_batch.h"
#include "broker/set_aside.h"
#include "broker/tag_filter.h"
#include "broker/unique_id.h"
#include "store/index_key.h"
#include "check.h"

static rp_slice text(const char *chars) { return (rp_slice){(const uint8_t *)chars, (uint32_t)strlen(chars)}; }
static int is(rp_slice slice, const char *chars) {
    return slice.size == strlen(chars) && (slice.size == 0 || memcmp(slice.data, chars, slice.size) == 0);
}

static void properties_are_kept_unless_the_broker_owns_them(void) {
    enum { PLAIN = 0, SPECIAL, PREPARED, TIMED, SAYS_NO };
    static const struct {
        const char *sent, *stored;
        int kind, wait; /* SPECIAL: a delay that is not a number; SAYS_NO: a timer whose value is 0 or below */
    } cases[] = {
        {"", "", PLAIN, 1},
        {"A\1b\2", "A\1b\2", PLAIN, 1},
        {"A\1b", "A\1b", PLAIN, 1},
        {"WAIT\1true\2A\1b\2", "WAIT\1true\2A\1b\2", PLAIN, 1},
        {"WAIT\1false\2", "WAIT\1false\2", PLAIN, 0},
        {"A\1b\2CLUSTER\1x\2C\1d", "A\1b\2C\1d\2", PLAIN, 1},
        {"MSG_REGION\1x\2TRACE_ON\1true\2POP_CK\1z\2__CRC32#\0011234567890\2A\1b\2", "A\1b\2", PLAIN, 1},
        {"A\1\2B\1c\2", "B\1c\2", PLAIN, 1},          /* a pair without value */
        {"\1x\2B\1c\2", "B\1c\2", PLAIN, 1},          /* without name */
        {"abc\2B\1c\2\2\2", "B\1c\2", PLAIN, 1},      /* without separator, and empty pieces */
        {"DELAY\0013\2", "DELAY\0013\2", PLAIN, 1},
        {"DELAY\0010\2", "DELAY\0010\2", PLAIN, 1},
        {"TRAN_MSG\1true\2", "TRAN_MSG\1true\2", PREPARED, 1},
        {"TRAN_MSG\1TRUE\2", "TRAN_MSG\1TRUE\2", PREPARED, 1},
        {"TRAN_MSG\1false\2", "TRAN_MSG\1false\2", PLAIN, 1},
        {"TRAN_MSG\1False\2", "TRAN_MSG\1False\2", PLAIN, 1},
        {"TRAN_MSG\0011\2", "TRAN_MSG\0011\2", PLAIN, 1}, /* Java's parseBoolean takes only the word true */
        {"DELAY\0013\2DELAY\0010\2", "DELAY\0013\2DELAY\0010\2", PLAIN, 1},
        {"DELAY\0010\2DELAY\0013\2", "DELAY\0010\2DELAY\0013\2", PLAIN, 1},
        {"INNER_NUM\0013\2DELAY\0010\2", "DELAY\0010\2", PLAIN, 1},
        {"TRAN_MSG\1true\2TRAN_MSG\1false\2", "TRAN_MSG\1true\2TRAN_MSG\1false\2", PLAIN, 1},
        {"TIMER_DELAY_MS\0015\2TIMER_DELAY_MS\0010\2", "TIMER_DELAY_MS\0015\2TIMER_DELAY_MS\0010\2", SAYS_NO, 1},
        {"TIMER_DELAY_MS\0015\2TIMER_DELAY_SEC\0010\2", "TIMER_DELAY_MS\0015\2TIMER_DELAY_SEC\0010\2", TIMED, 1},
        {"DELAY\1-2\2", "DELAY\1-2\2", PLAIN, 1},
        {"DELAY\1false\2", "DELAY\1false\2", SPECIAL, 1},
        {"TIMER_OUT_MS\0015\2", "TIMER_OUT_MS\0015\2", PLAIN, 1},
        {"TIMER_DELIVER_MS\0015\2TIMER_OUT_MS\0015\2", "TIMER_DELIVER_MS\0015\2TIMER_OUT_MS\0015\2", PLAIN, 1},
        {"TIMER_OUT_MS\0015\2CLUSTER\1x\2TIMER_DELIVER_MS\0015", "TIMER_OUT_MS\0015\2TIMER_DELIVER_MS\0015\2", PLAIN, 1},
        {"TIMER_OUT_MS\0015\2DELAY\0013\2", "TIMER_OUT_MS\0015\2DELAY\0013\2", PLAIN, 1},
        {"TIMER_DELIVER_MS\0015\2DELAY\00112\2", "TIMER_DELIVER_MS\0015\2DELAY\00112\2", PLAIN, 1},
        {"DELAY\0013\2DELAY\1soon\2", "DELAY\0013\2DELAY\1soon\2", SPECIAL, 1},
        {"DELAY\0012147483648\2", "DELAY\0012147483648\2", SPECIAL, 1},
        {"DELAY\0013\2TRAN_MSG\1true\2", "DELAY\0013\2TRAN_MSG\1true\2", PREPARED, 1},
        {"TIMER_DELIVER_MS\0015\2", "TIMER_DELIVER_MS\0015\2", TIMED, 1},
        {"TIMER_DELAY_MS\0015\2", "TIMER_DELAY_MS\0015\2", TIMED, 1},
        {"TIMER_DELAY_SEC\0015\2", "TIMER_DELAY_SEC\0015\2", TIMED, 1},
        {"CLUSTER\1x\2INNER_NUM\0012\2A\1b\2INNER_BASE\0012\2", "A\1b\2", PLAIN, 1},
        {"__LITE_TOPIC\0010\2", "__LITE_TOPIC\0010\2", PLAIN, 1},
        {"__LITE_TOPIC\1\2A\1b\2", "A\1b\2", PLAIN, 1},
    };
    rp_arena *arena = rp_arena_create(1 << 12, 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_sent_properties properties;
        CHECK(rp_sent_properties_scan(text(cases[i].sent), arena, &properties) == RP_OK);
        CHECK(is(properties.text, cases[i].stored));
        CHECK((properties.special != 0) == (cases[i].kind == SPECIAL) && (properties.prepared != 0) == (cases[i].kind == PREPARED));
        CHECK(properties.timed == (cases[i].kind == TIMED ? 2 : cases[i].kind == SAYS_NO));
        CHECK(properties.wait == cases[i].wait);
    }
    rp_sent_properties properties;
    CHECK(rp_sent_properties_scan(text("TAGS\1TagA\2UNIQ_KEY\1ABC\2"), arena, &properties) == RP_OK);
    CHECK(properties.tags_code == 2598919 && is(properties.unique_key, "ABC"));
    rp_arena_destroy(arena);
}

static void of_delay_levels_the_last_counts(void) {
    static const struct {
        const char *sent;
        int level;
    } cases[] = {{"DELAY\0013\2", 3},
                 {"DELAY\1+12\2TAGS\1a\2", 12},
                 {"DELAY\0013\2DELAY\0010\2", 0},
                 {"DELAY\0010\2DELAY\0014", 4},
                 {"DELAY\1-1\2", 0},
                 {"DELAY\0013\2DELAY\1soon\2", 0},
                 {"DELAY\0012147483648\2", 0},
                 {"TIMER_DELAY_SEC\0015\2", 0},
                 {"DELAY\0012147483647\2", INT32_MAX}};
    rp_arena *arena = rp_arena_create(1 << 12, 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_sent_properties properties;
        CHECK(rp_sent_properties_scan(text(cases[i].sent), arena, &properties) == RP_OK);
        CHECK(properties.delay_level == cases[i].level);
    }
    rp_arena_destroy(arena);
}

/* For properties that can be stored as they are, the appender gets the message's key. The index must find the same key in the record. */
static void the_key_of_a_batchs_message_is_the_one_that_its_record_shows(void) {
    static const char *const sent[] = {
        "UNIQ_KEY\1A\2",
        "UNIQ_KEY\1A\2TAGS\1TagA\2",
        "TAGS\1TagA\2other\1x\2UNIQ_KEY\1A",
        "WAIT\1true\2UNIQ_KEY\1A\2",
    };
    static const char *const left_to_the_record[] = {
        "", "TAGS\1TagA\2", "UNIQ_KEY\1A\2KEYS\1k\2", "UNIQ_KEY\1A\2CLUSTER\1c\2KEYS\1k\2", "UNIQ_KEY\1A\2\1x\2KEYS\1k\2",
    };
    rp_sent_properties properties;
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        const rp_message message = {.topic = text("T"), .properties = text(sent[i])};
        rp_index_keys keys = rp_index_keys_of(&message);
        int32_t hash = 0;
        CHECK(rp_batch_properties_scan(message.properties, &properties) && !properties.has_keys);
        CHECK(rp_index_keys_next(&keys, &hash) && hash == rp_index_key_hash(message.topic, properties.unique_key));
        CHECK(rp_index_keys_next(&keys, &hash) == (properties.tags.data != NULL));
        CHECK(properties.tags.data == NULL || hash == rp_index_tags_hash(message.topic, properties.tags));
        CHECK(properties.tags_code == rp_message_tags_code(message.properties));
    }
    for (size_t i = 0; i < sizeof left_to_the_record / sizeof left_to_the_record[0]; i++) {
        int is_whole = rp_batch_properties_scan(text(left_to_the_record[i]), &properties);
        CHECK(!is_whole || properties.has_keys || properties.unique_key.data == NULL);
    }
}

static void tags_codes_are_those_of_the_tags_property(void) {
    static const char *const properties[] = {"",
                                             "TAGS",
                                             "TAGS\1",
                                             "TAGS\1\2",
                                             "TAGS\1a",
                                             "TAGS\1TagA\2KEYS\1G\2",
                                             "GG\1G\2TAGS\1G\2",
                                             "XTAGS\1a\2",
                                             "KEYS\1TAGS\1a\2",
                                             "TAGS\1a\2TAGS\1b\2",
                                             "TAGS\1a\2TAGS\1\2",
                                             "TAGS\1\1\2",
                                             "TAGSS\1a\2TAG\1b\2\2TAGS\1TAGS\1c"};
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        rp_slice tags = rp_message_property(text(properties[i]), "TAGS");
        CHECK(rp_message_tags_code(text(properties[i])) == (tags.data == NULL ? 0 : rp_hash_java(tags.data, tags.size)));
    }
    CHECK(rp_message_tags_code(text("KEYS\1G\2TAGS\1TagA\2")) == 2598919);
}

static void tag_expressions_are_cut_as_filter_api_cuts_them(void) {
    static const struct {
        const char *expression;
        int status;
        uint32_t count;
        int all;
    } cases[] = {
        {"*", RP_OK, 0, 1},   {"", RP_OK, 0, 1},    {"a", RP_OK, 1, 0},          {"a||b", RP_OK, 2, 0},         {" a || b ", RP_OK, 2, 0},
        {"a||", RP_OK, 1, 0}, {"||a", RP_OK, 1, 0}, {"||", RP_E_PROTOCOL, 0, 0}, {"||||", RP_E_PROTOCOL, 0, 0}, {" || ", RP_OK, 0, 0},
        {"a|b", RP_OK, 1, 0}, {"|||", RP_OK, 1, 0}, {"a || * ", RP_OK, 2, 0},
    };
    rp_arena *arena = rp_arena_create(1 << 12, 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_message_filter filter;
        CHECK(rp_tag_filter_parse(text(cases[i].expression), arena, &filter) == cases[i].status);
        if (cases[i].status == RP_OK)
            CHECK(filter.count == cases[i].count && (filter.kind == RP_FILTER_ALL) == cases[i].all);
    }
    char many[256] = "t0";
    for (int i = 1; i < 20; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "||t%d", i);
    rp_message_filter filter;
    CHECK(rp_tag_filter_parse(text(many), arena, &filter) == RP_OK && filter.count == 20);
    CHECK(rp_tag_filter_matches(&filter, rp_hash_java((const uint8_t *)"t13", 3)));
    CHECK(!rp_tag_filter_matches(&filter, rp_hash_java((const uint8_t *)"t20", 3)));
    CHECK(!rp_tag_filter_matches(&filter, 0) && !rp_tag_filter_matches(&filter, INT32_MIN));
    CHECK(rp_tag_filter_matches(&filter, INT64_C(-1) + INT32_MIN) && rp_tag_filter_matches(&filter, INT64_MIN));
    rp_arena_destroy(arena);
}

static void a_send_header_is_read_in_both_spellings(void) {
    rp_command command = {.code = 310, .field_count = 7};
    const char *pairs[][2] = {{"b", "T"}, {"e", "-1"}, {"f", "1"}, {"g", "1700000000000"}, {"h", "2147483647"}, {"i", "P"}, {"m", "TRUE"}};
    for (int i = 0; i < 7; i++)
        command.fields[i] = (rp_field){text(pairs[i][0]), text(pairs[i][1])};
    rp_send_header header;
    rp_send_layout layout = {{0}};
    rp_header_fault fault;
    CHECK(rp_send_header_read(&command, &layout, &header, &fault) == RP_OK);
    CHECK(is(header.topic, "T") && header.queue_id == -1 && header.sys_flag == 1 && header.born_timestamp_ms == 1700000000000);
    CHECK(header.flag == 2147483647 && is(header.properties, "P") && header.batch == 1 && header.reconsume_times == 0);
    command.fields[4].value = text("2147483648");
    CHECK(rp_send_header_read(&command, &layout, &header, &fault) == RP_E_PROTOCOL && strcmp(fault.field, "h") == 0 &&
          fault.value.size == 10);
    command.fields[4] = (rp_field){text("zz"), text("1")};
    CHECK(rp_send_header_read(&command, &layout, &header, &fault) == RP_E_PROTOCOL && strcmp(fault.field, "h") == 0 &&
          fault.value.data == NULL);
    const char *names[] = {"topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties", "batch"};
    const char *values[] = {"T", "3", "0", "5", "0", "P", "false"};
    for (int i = 0; i < 7; i++)
        command.fields[i] = (rp_field){text(names[i]), text(values[i])};
    command.code = 10;
    CHECK(rp_send_header_read(&command, &layout, &header, &fault) == RP_OK && header.queue_id == 3 && header.batch == 0);
    command.fields[1].value = text("");
    CHECK(rp_send_header_read(&command, &layout, &header, &fault) == RP_E_PROTOCOL && strcmp(fault.field, "queueId") == 0);
}

static void batches_with_wrong_sizes_are_refused(void) {
    uint8_t bytes[64] = {0};
    rp_put_u32(bytes + 12, 9);
    rp_put_u32(bytes + 16, 3);
    memcpy(bytes + 20, "abc", 3);
    rp_put_u16(bytes + 23, 4);
    memcpy(bytes + 25, "A\1b\2", 4);
    rp_batch_message message;
    uint32_t position = 0;
    rp_slice body = {bytes, 29};
    CHECK(rp_batch_next(body, &position, &message) == 1 && message.flag == 9 && is(message.body, "abc") &&
          is(message.properties, "A\1b\2"));
    CHECK(rp_batch_next(body, &position, &message) == 0);
    for (uint32_t size = 1; size < 29; size++) {
        position = 0;
        CHECK(rp_batch_count((rp_slice){bytes, size}, &position) == RP_E_PROTOCOL);
    }
    rp_put_u32(bytes + 16, 0xFFFFFFFF);
    position = 0;
    CHECK(rp_batch_count(body, &position) == RP_E_PROTOCOL);
}

static void a_table_finds_every_name_it_was_given(void) {
    rp_name_table *table = rp_name_table_create(sizeof(rp_name_entry), NULL, NULL);
    char name[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "topic-%d", i);
        CHECK(rp_name_table_find(table, text(name)) == NULL);
        rp_name_entry *entry = rp_name_table_put(table, text(name));
        CHECK(entry != NULL && rp_name_table_put(table, text(name)) == entry);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "topic-%d", i);
        CHECK(is(rp_name_table_find(table, text(name))->name, name));
    }
    rp_name_table_destroy(table, NULL);
}

/* A table that put all these names at one place would have to search through them there. */
static void no_two_tables_hash_alike(void) {
    rp_name_table *table = rp_name_table_create(sizeof(rp_name_entry), NULL, NULL);
    rp_name_table *other = rp_name_table_create(sizeof(rp_name_entry), NULL, NULL);
    CHECK(rp_name_table_put(table, text("T"))->hash != rp_name_table_put(other, text("T"))->hash);
    rp_name_table_destroy(other, NULL);
    rp_name_table_destroy(table, NULL);
}

static void offsets_stand_in_cells_that_never_move(void) {
    rp_offset_cells cells = {0};
    CHECK(rp_offset_cells_find(&cells, 0) == NULL && rp_offset_cells_open(&cells, -1) == NULL);
    CHECK(rp_offset_cells_open(&cells, RP_TOPIC_QUEUES_MAX) == NULL);
    rp_offset_cell *first = rp_offset_cells_open(&cells, 0);
    rp_offset_cell *last = rp_offset_cells_open(&cells, RP_TOPIC_QUEUES_MAX - 1);
    CHECK(rp_offset_cell_commit(first, 5) && !rp_offset_cell_commit(first, 5) && rp_offset_cell_commit(last, 6));
    CHECK(rp_offset_cells_find(&cells, 0) == first && rp_offset_cells_find(&cells, RP_TOPIC_QUEUES_MAX - 1) == last);
    CHECK(rp_offset_cell_clear(first) == 1 && rp_offset_cell_clear(first) == 0 && rp_offset_cell_clear(last) == 1);
    rp_offset_cells_free(&cells);
}

static void a_subscription_reads_as_it_was_written(void) {
    rp_subscription_reader reader = {0};
    rp_group_table *groups = rp_group_table_create();
    rp_topic topic = {0};
    rp_consumption *consumption = rp_group_table_consumption_entry(groups, rp_group_table_entry(groups, text("G")), &topic);
    rp_subscription_view view;
    CHECK(rp_consumption_read_subscription(consumption, &reader, &view) == RP_OK && !view.present);
    int32_t codes[100];
    for (int i = 0; i < 100; i++)
        codes[i] = 901 + i;
    for (uint32_t count = 0; count <= 100; count += 25) {
        rp_message_filter filter = {.words = codes + 100 - count, .count = count, .kind = count > 0 ? RP_FILTER_TAGS : RP_FILTER_ALL};
        CHECK(rp_consumption_subscribe(groups, consumption, &filter, count, 0, 1) == RP_OK);
        for (int twice = 0; twice < 2; twice++)
            CHECK(rp_consumption_read_subscription(consumption, &reader, &view) == RP_OK && view.present && view.version == (int64_t)count);
        CHECK(view.filter.count == count && (view.filter.kind == RP_FILTER_ALL) == (count == 0));
        CHECK(rp_tag_filter_matches(&view.filter, 1000) && rp_tag_filter_matches(&view.filter, 5) == (count == 0));
    }
    CHECK(consumption->group->subscriptions == 1);
    rp_consumption_unsubscribe(groups, consumption);
    CHECK(rp_consumption_read_subscription(consumption, &reader, &view) == RP_OK && !view.present &&
          consumption->group->subscriptions == 0);
    rp_subscription_reader_free(&reader);
    rp_group_table_destroy(groups);
}

/* So many that the bound would be exceeded if each kept its own words for ever. */
static void words_of_subscriptions_that_are_gone_are_used_again(void) {
    rp_group_table *groups = rp_group_table_create();
    rp_topic topics[2] = {{.permission = 0}};
    static int32_t words[1 << 18];
    rp_message_filter filter = {.words = words, .count = 1 << 18, .kind = RP_FILTER_SQL};
    for (uint64_t i = 0; i < 2 * RP_SUBSCRIPTION_WORDS_MAX / filter.count; i++) {
        rp_consumption *consumption = rp_group_table_consumption_entry(groups, rp_group_table_entry(groups, text("G")), &topics[i % 2]);
        CHECK(rp_consumption_subscribe(groups, consumption, &filter, (int64_t)i, 0, 1) == RP_OK);
        if (i % 3 == 0)
            rp_consumption_unsubscribe(groups, consumption);
    }
    rp_group_table_destroy(groups);
}

static void unique_ids_hold_their_time_and_differ(void) {
    rp_unique_id id;
    uint8_t one[RP_UNIQUE_ID_SIZE], two[RP_UNIQUE_ID_SIZE];
    rp_unique_id_init(&id, (const uint8_t[]){127, 0, 0, 1}, 99);
    rp_unique_id_next(&id, 1700000000000, one);
    rp_unique_id_next(&id, 1700000000000, two);
    CHECK(memcmp(one, "7F000001", 8) == 0 && memcmp(one, two, 28) == 0 && memcmp(one + 28, "0000", 4) == 0 &&
          memcmp(two + 28, "0001", 4) == 0);
}

static void written_responses_decode_to_what_was_written(void) {
    for (int type = 0; type < 2; type++) {
        uint8_t frame[RP_RESPONSE_SIZE_BASE];
        rp_response_writer writer;
        rp_response_begin(&writer, frame, (uint8_t)type, 12, -7, text("a\"b\\c\n"));
        RP_RESPONSE_NUMBER(&writer, "low", INT64_MIN);
        RP_RESPONSE_NUMBER(&writer, "zero", 0);
        RP_RESPONSE_TEXT(&writer, "text", text("x\ty\"z"));
        uint32_t size = rp_response_end(&writer, 0);
        rp_arena *arena = rp_arena_create(1 << 12, 1 << 16);
        rp_command command;
        CHECK(rp_command_decode(frame, size, arena, &command, NULL) == RP_OK);
        CHECK(command.code == 12 && command.opaque == -7 && command.flag == RP_COMMAND_RESPONSE && is(command.remark, "a\"b\\c\n"));
        CHECK(is(rp_command_field(&command, "low"), "-9223372036854775808") && is(rp_command_field(&command, "zero"), "0"));
        CHECK(is(rp_command_field(&command, "text"), "x\ty\"z") && command.serialize_type == type);
        rp_arena_destroy(arena);
    }
}

/* With one digit and two, with a remark and without. No blanks in JSON: fastjson 1.2.3 takes none behind a number. */
static void an_outcome_takes_the_place_of_success(void) {
    for (int kind = 0; kind < 8; kind++) {
        int type = kind & 1, code = kind & 2 ? 12 : 1;
        rp_slice remark = kind & 4 ? text("late") : (rp_slice){NULL, 0};
        uint8_t frame[RP_RESPONSE_SIZE_BASE];
        rp_response_writer writer;
        rp_response_begin(&writer, frame, (uint8_t)type, 0, 7, (rp_slice){NULL, 0});
        RP_RESPONSE_NUMBER(&writer, "queueId", 3);
        uint32_t size = rp_response_end(&writer, 0), larger = rp_response_set_outcome(frame, size, code, remark);
        rp_arena *arena = rp_arena_create(1 << 12, 1 << 16);
        rp_command command;
        CHECK(larger <= size + RP_RESPONSE_OUTCOME_SIZE(remark.size) && rp_command_decode(frame, larger, arena, &command, NULL) == RP_OK);
        CHECK(command.code == code && command.opaque == 7 && command.flag == RP_COMMAND_RESPONSE &&
              is(command.remark, kind & 4 ? "late" : ""));
        CHECK(is(rp_command_field(&command, "queueId"), "3") && command.serialize_type == type && command.body.size == 0);
        CHECK(type != RP_SERIALIZE_JSON || memchr(frame + 8, ' ', larger - 8) == NULL);
        rp_arena_destroy(arena);
    }
}

/* By a clock that is turned, and set back. */
static void what_is_set_aside_is_tried_less_and_less(void) {
    rp_set_aside aside = {0};
    int64_t now = 1000000, due[4];
    CHECK(rp_set_aside_next_ms(&aside) == RP_SET_ASIDE_NEVER && rp_set_aside_due(&aside, INT64_MAX, due, 4) == 0);
    for (int64_t offset = 5; offset > 0; offset -= 2) /* 5, 3, 1 */
        CHECK(rp_set_aside_add(&aside, offset, now) == RP_OK && rp_set_aside_add(&aside, offset, now) == RP_OK);
    CHECK(aside.count == 3 && rp_set_aside_due(&aside, now, due, 4) == 0);
    CHECK(rp_set_aside_due(&aside, now + 1000, due, 2) == 2 && due[0] == 1 && due[1] == 3);
    CHECK(rp_set_aside_due(&aside, now - 86400000, due, 4) == 3); /* the clock was set back a day */
    rp_set_aside_remove(&aside, 1);
    rp_set_aside_remove(&aside, 2);
    rp_set_aside_end_at(&aside, 5);
    CHECK(aside.count == 1 && aside.entries[0].offset == 3);
    int64_t wait = 1000;
    for (int i = 0; i < 20; i++) {
        rp_set_aside_postpone(&aside, 3, now);
        int64_t next = rp_set_aside_next_ms(&aside) - now;
        CHECK(next == wait * 2 || (next == wait && wait == 1024000));
        wait = next;
    }
    for (int64_t offset = 10; offset < RP_SET_ASIDE_MAX + 9; offset++)
        CHECK(rp_set_aside_add(&aside, offset, now) == RP_OK);
    CHECK(rp_set_aside_add(&aside, 9, now) == RP_E_BUSY && rp_set_aside_add(&aside, 3, now) == RP_OK);
    rp_set_aside_clear(&aside);
    CHECK(aside.count == 0 && aside.entries == NULL);
}

int main(void) {
    RUN(properties_are_kept_unless_the_broker_owns_them);
    RUN(of_delay_levels_the_last_counts);
    RUN(the_key_of_a_batchs_message_is_the_one_that_its_record_shows);
    RUN(tags_codes_are_those_of_the_tags_property);
    RUN(tag_expressions_are_cut_as_filter_api_cuts_them);
    RUN(a_send_header_is_read_in_both_spellings);
    RUN(batches_with_wrong_sizes_are_refused);
    RUN(a_table_finds_every_name_it_was_given);
    RUN(no_two_tables_hash_alike);
    RUN(offsets_stand_in_cells_that_never_move);
    RUN(a_subscription_reads_as_it_was_written);
    RUN(words_of_subscriptions_that_are_gone_are_used_again);
    RUN(unique_ids_hold_their_time_and_differ);
    RUN(written_responses_decode_to_what_was_written);
    RUN(an_outcome_takes_the_place_of_success);
    RUN(what_is_set_aside_is_tried_less_and_less);
    return 0;
}
