/* pop_records_test.c: checkpoints and acks as fastjson 1.2.83 writes the classes of RocketMQ 5.3.3, and anything else in their place. */
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "broker/pop_records.h"
#include "check.h"
#include "store/message.h"

static rp_arena *arena;

static rp_slice text(const char *chars) { return (rp_slice){(const uint8_t *)chars, (uint32_t)strlen(chars)}; }

static int is(rp_slice slice, const char *chars) {
    int same = slice.data != NULL && slice.size == strlen(chars) && memcmp(slice.data, chars, slice.size) == 0;
    if (!same)
        fprintf(stderr, "%.*s\n", (int)slice.size, (const char *)slice.data);
    return same;
}

static int read_checkpoint(const char *body, rp_pop_checkpoint *checkpoint) {
    return rp_pop_checkpoint_read(text(body), arena, checkpoint);
}

static int read_ack(const char *body, int is_batch, rp_pop_ack *ack) { return rp_pop_ack_read(text(body), is_batch, arena, ack); }

static rp_pop_checkpoint two_messages(void) {
    return (rp_pop_checkpoint){.topic = text("TOPIC"),
                               .group = text("GROUP"),
                               .broker_name = text("broker-a"),
                               .start_offset = 1000,
                               .pop_time_ms = 1700000000123,
                               .invisible_ms = 60000,
                               .queue_id = 3,
                               .count = 2,
                               .diff_count = 2,
                               .diffs = {0, 1}};
}

static void a_checkpoint_is_written_as_fastjson_writes_it(void) {
    rp_pop_checkpoint checkpoint = two_messages();
    uint8_t room[2048];
    rp_pop_record record;
    CHECK(rp_pop_checkpoint_room(&checkpoint) <= sizeof room);
    rp_pop_checkpoint_write(&checkpoint, 1700000000124, room, &record);
    CHECK(is(record.body, "{\"bm\":0,\"bn\":\"broker-a\",\"c\":\"GROUP\",\"d\":[0,1],\"it\":60000,\"n\":2,\"pt\":1700000000123,\"q\":3,"
                          "\"reviveTime\":1700000060123,\"ro\":0,\"so\":1000,\"t\":\"TOPIC\"}"));
    CHECK(is(record.properties, "TAGS\1ck\2TIMER_DELIVER_MS\0011700000000124\2UNIQ_KEY\1TOPIC@3@1000@GROUP@1700000000123@broker-a@ck\2"));
    CHECK(record.tags_code == rp_hash_java((const uint8_t *)"ck", 2) && record.tags_code == rp_message_tags_code(record.properties));
    checkpoint.broker_name = (rp_slice){NULL, 0};
    checkpoint.diff_count = 0;
    checkpoint.revive_offset = 7;
    checkpoint.re_puts = 3;
    rp_pop_checkpoint_write(&checkpoint, 5, room, &record);
    CHECK(is(record.body, "{\"bm\":0,\"c\":\"GROUP\",\"it\":60000,\"n\":2,\"pt\":1700000000123,\"q\":3,\"reviveTime\":1700000060123,"
                          "\"ro\":7,\"rp\":\"3\",\"so\":1000,\"t\":\"TOPIC\"}"));
    CHECK(is(rp_message_property(record.properties, "UNIQ_KEY"), "TOPIC@3@1000@GROUP@1700000000123@null@ck"));
}

static void acks_are_written_as_fastjson_writes_them(void) {
    int64_t offsets[] = {1000, 1001};
    rp_pop_ack ack = {.topic = text("T\"\\/\1\x7f<>'\t\n\r\b\f\x0b\x1b"),
                      .group = text("GROUP"),
                      .broker_name = text("b\2TAGS\1ck"),
                      .start_offset = 1000,
                      .pop_time_ms = 17,
                      .queue_id = 3,
                      .offset_count = 1,
                      .offsets = offsets + 1};
    uint8_t room[2048];
    rp_pop_record record;
    CHECK(rp_pop_ack_room(&ack) <= sizeof room);
    rp_pop_ack_write(&ack, 18, room, &record);
    CHECK(is(record.body, "{\"ao\":1001,\"bn\":\"b\\u0002TAGS\\u0001ck\",\"c\":\"GROUP\",\"pt\":17,\"q\":3,\"so\":1000,"
                          "\"t\":\"T\\\"\\\\/\\u0001\\u007F<>'\\t\\n\\r\\b\\f\\u000B\\u001B\"}"));
    CHECK(is(rp_message_property(record.properties, "TAGS"), "ack") &&
          is(rp_message_property(record.properties, "TIMER_DELIVER_MS"), "18"));
    CHECK(memmem(record.properties.data, record.properties.size, "@b?TAGS?ck@ack", 14) != NULL); /* no property of a stranger's */
    rp_pop_ack back;
    CHECK(rp_pop_ack_read(record.body, 0, arena, &back) == RP_OK && back.offset_count == 1 && back.offsets[0] == 1001);
    CHECK(back.topic.size == ack.topic.size && memcmp(back.topic.data, ack.topic.data, ack.topic.size) == 0);
    ack = (rp_pop_ack){.topic = text("T"),
                       .group = text("G"),
                       .broker_name = text("b"),
                       .start_offset = 1000,
                       .pop_time_ms = 17,
                       .queue_id = 3,
                       .is_batch = 1,
                       .offset_count = 2,
                       .offsets = offsets};
    rp_pop_ack_write(&ack, 18, room, &record);
    CHECK(is(record.body, "{\"ao\":-1,\"aol\":[1000,1001],\"bn\":\"b\",\"c\":\"G\",\"pt\":17,\"q\":3,\"so\":1000,\"t\":\"T\"}"));
    CHECK(is(record.properties, "TAGS\1bAck\2TIMER_DELIVER_MS\00118\2UNIQ_KEY\1T@3@-1@G@17@b@ack\2"));
}

static void the_largest_record_has_its_room(void) {
    int64_t offsets[RP_POP_ACKS_MAX];
    char odd[255];
    memset(odd, 1, sizeof odd);
    rp_slice name = {(const uint8_t *)odd, sizeof odd};
    rp_pop_checkpoint checkpoint = {.topic = name,
                                    .group = name,
                                    .broker_name = name,
                                    .start_offset = INT64_MIN,
                                    .pop_time_ms = INT64_MIN,
                                    .invisible_ms = INT64_MIN,
                                    .revive_offset = INT64_MIN,
                                    .queue_id = INT32_MIN,
                                    .bits = INT32_MIN,
                                    .re_puts = INT32_MAX,
                                    .count = 32,
                                    .diff_count = 32};
    rp_pop_ack ack = {.topic = name,
                      .group = name,
                      .broker_name = name,
                      .start_offset = INT64_MIN,
                      .pop_time_ms = INT64_MIN,
                      .queue_id = INT32_MIN,
                      .is_batch = 1,
                      .offset_count = RP_POP_ACKS_MAX,
                      .offsets = offsets};
    rp_pop_record record;
    for (uint32_t i = 0; i < RP_POP_ACKS_MAX; i++)
        offsets[i] = INT64_MIN;
    for (uint32_t i = 0; i < 32; i++)
        checkpoint.diffs[i] = INT32_MIN;
    uint8_t *room = malloc(rp_pop_checkpoint_room(&checkpoint));
    rp_pop_checkpoint_write(&checkpoint, INT64_MIN, room, &record); /* AddressSanitizer looks */
    CHECK(record.properties.data + record.properties.size <= room + rp_pop_checkpoint_room(&checkpoint));
    free(room);
    room = malloc(rp_pop_ack_room(&ack));
    rp_pop_ack_write(&ack, INT64_MIN, room, &record);
    CHECK(record.properties.data + record.properties.size <= room + rp_pop_ack_room(&ack));
    rp_pop_ack back;
    CHECK(rp_pop_ack_read(record.body, 1, arena, &back) == RP_OK && back.offset_count == RP_POP_ACKS_MAX);
    free(room);
}

static void what_is_written_is_read(void) {
    rp_pop_checkpoint checkpoint = two_messages(), back;
    uint8_t room[2048];
    rp_pop_record record;
    checkpoint.diffs[1] = 5;
    checkpoint.bits = -2;
    checkpoint.re_puts = 16;
    rp_pop_checkpoint_write(&checkpoint, 1, room, &record);
    CHECK(rp_pop_checkpoint_read(record.body, arena, &back) == RP_OK);
    CHECK(is(back.topic, "TOPIC") && is(back.group, "GROUP") && is(back.broker_name, "broker-a"));
    CHECK(back.start_offset == 1000 && back.pop_time_ms == 1700000000123 && back.invisible_ms == 60000 && back.queue_id == 3);
    CHECK(back.bits == -2 && back.re_puts == 16 && back.count == 2 && back.diff_count == 2 && back.diffs[1] == 5);
    CHECK(rp_pop_checkpoint_offset(&back, 1) == 1005 && rp_pop_checkpoint_index(&back, 1005) == 1);
    CHECK(rp_pop_checkpoint_index(&back, 1001) == -1 && rp_pop_checkpoint_index(&back, 999) == -1);
    CHECK(rp_pop_checkpoint_index(&back, INT64_MIN) == -1 && rp_pop_checkpoint_index(&back, INT64_MAX) == -1);
}

static void records_of_other_versions_are_read(void) {
    rp_pop_checkpoint checkpoint;
    /* 4.9: no broker's name, messages side by side */
    CHECK(read_checkpoint("{\"bm\":1,\"c\":\"G\",\"it\":10,\"n\":3,\"pt\":5,\"q\":0,\"ro\":0,\"so\":7,\"t\":\"T\"}", &checkpoint) == RP_OK);
    CHECK(checkpoint.diff_count == 0 && checkpoint.broker_name.data == NULL && checkpoint.bits == 1);
    CHECK(rp_pop_checkpoint_index(&checkpoint, 9) == 2 && rp_pop_checkpoint_index(&checkpoint, 10) == -1);
    /* 5.5.0, by fastjson 2 */
    CHECK(read_checkpoint("{\"bm\":0,\"c\":\"G\",\"d\":null,\"reviveTime\":3,\"rp\":\"3\",\"sp\":false,\"t\":\"T\\u0001\"}", &checkpoint) ==
          RP_OK);
    CHECK(checkpoint.re_puts == 3 && is(checkpoint.topic, "T\1"));
    CHECK(read_checkpoint(
              " { \"t\" : \"a\" , \"c\":\"b\",\n\"n\":\"2\",\"d\":[\"1\", 2 ],\"rp\":\"x\",\"other\":{\"d\":[{}]},\"t\":\"last\"} ",
              &checkpoint) == RP_OK);
    CHECK(is(checkpoint.topic, "last") && checkpoint.count == 2 && checkpoint.diffs[0] == 1 && checkpoint.re_puts == RP_POP_RE_PUTS_MAX);
    rp_pop_ack ack;
    CHECK(read_ack(
              "{\"ackOffset\":100,\"brokerName\":\"b\",\"consumerGroup\":\"g\",\"popTime\":1670212915531,\"queueId\":3,\"startOffset\":200,"
              "\"topic\":\"t\"}",
              0, &ack) == RP_OK);
    CHECK(ack.offsets[0] == 100 && ack.start_offset == 200 && ack.pop_time_ms == 1670212915531 && ack.queue_id == 3 && is(ack.group, "g"));
    CHECK(read_ack("{\"ackOffsetList\":[100, 101],\"consumerGroup\":\"g\",\"topic\":\"t\"}", 1, &ack) == RP_OK);
    CHECK(ack.offset_count == 2 && ack.offsets[1] == 101 && ack.broker_name.data == NULL);
}

static void what_is_no_record_is_refused(void) {
    static const char *const checkpoints[] = {"",
                                              "null",
                                              "[]",
                                              "7",
                                              "\"ck\"",
                                              "{",
                                              "{\"t\"",
                                              "{\"t\":",
                                              "{\"t\":\"a\",\"c\":\"b\"",
                                              "{\"t\":\"a\"}",
                                              "{\"c\":\"b\"}",
                                              "{\"t\":null,\"c\":\"b\"}",
                                              "{\"t\":\"\",\"c\":\"b\"}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"so\":1.5}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"so\":[1]}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"so\":9223372036854775808}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"q\":2147483648}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"n\":-1}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"n\":2,\"d\":[1]}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"d\":[1",
                                              "{\"t\":\"a\",\"c\":\"b\",\"d\":[}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"d\":{}}",
                                              "{\"t\":\"a\",\"c\":\"b\\",
                                              "{\"t\":\"a\",\"c\":\"b\\q\"}",
                                              "{\"t\":\"a\",\"c\":\"b\",\"x\":[[[[}",
                                              "{t:\"a\",c:\"b\"}",
                                              "{\"x\":!}"};
    rp_pop_checkpoint checkpoint;
    for (uint32_t i = 0; i < sizeof checkpoints / sizeof checkpoints[0]; i++)
        CHECK(read_checkpoint(checkpoints[i], &checkpoint) == RP_E_PROTOCOL);
    CHECK(read_checkpoint("{\"t\":\"a\",\"c\":\"b\",\"n\":33}", &checkpoint) == RP_E_TOO_LARGE);
    rp_pop_ack ack;
    CHECK(read_ack("{\"c\":\"g\",\"t\":\"t\"}", 0, &ack) == RP_E_PROTOCOL &&
          read_ack("{\"ao\":1,\"c\":\"g\",\"t\":\"t\"}", 1, &ack) == RP_E_PROTOCOL);
    CHECK(read_ack("{\"aol\":[],\"c\":\"g\",\"t\":\"t\"}", 1, &ack) == RP_E_PROTOCOL);
    CHECK(read_ack("{\"aol\":[1,{}],\"c\":\"g\",\"t\":\"t\"}", 1, &ack) == RP_E_PROTOCOL);
    char *many = malloc(4 * RP_POP_ACKS_MAX + 64);
    size_t size = (size_t)sprintf(many, "{\"c\":\"g\",\"t\":\"t\",\"aol\":[1");
    for (uint32_t i = 0; i < RP_POP_ACKS_MAX; i++)
        size += (size_t)sprintf(many + size, ",1");
    sprintf(many + size, "]}");
    CHECK(read_ack(many, 1, &ack) == RP_E_TOO_LARGE);
    free(many);
}

static void extreme_numbers_overflow_nothing(void) {
    rp_pop_checkpoint checkpoint;
    CHECK(read_checkpoint(
              "{\"t\":\"a\",\"c\":\"b\",\"n\":2,\"d\":[2147483647,-2147483648],\"so\":9223372036854775807,\"pt\":-9223372036854775808,"
              "\"it\":9223372036854775807}",
              &checkpoint) == RP_OK);
    CHECK(rp_pop_checkpoint_offset(&checkpoint, 0) == -1 && rp_pop_checkpoint_index(&checkpoint, -1) == -1);
    uint8_t room[2048];
    rp_pop_record record;
    rp_pop_checkpoint_write(&checkpoint, 0, room, &record);
    CHECK(memmem(record.body.data, record.body.size, "\"reviveTime\":-1,", 16) != NULL); /* as Java adds */
}

static void batch_acks_are_read(void) {
    rp_batch_acks acks;
    CHECK(rp_batch_acks_read(
              text("{\"acks\":[{\"b\":\"AQI=\",\"c\":\"G\",\"it\":60000,\"pt\":17,\"q\":2,\"r\":\"0\",\"rq\":6,\"so\":5,\"t\":\"T\"},"
                   "{\"bitSet\":\"Aw\",\"consumerGroup\":\"G2\",\"retry\":\"2\",\"startOffset\":9,\"topic\":\"T2\",\"reviveQueueId\":1,"
                   "\"queueId\":\"4\",\"popTime\":8,\"invisibleTime\":3}],\"brokerName\":\"b\"}"),
              arena, &acks) == RP_OK);
    CHECK(acks.count == 2 && is(acks.broker_name, "b"));
    const rp_batch_ack *ack = &acks.acks[0];
    CHECK(is(ack->group, "G") && is(ack->topic, "T") && is(ack->retry, "0") && ack->start_offset == 5 && ack->pop_time_ms == 17);
    CHECK(ack->invisible_ms == 60000 && ack->queue_id == 2 && ack->revive_queue_id == 6);
    CHECK(ack->offset_count == 2 && ack->offsets[0] == 5 && ack->offsets[1] == 14);
    ack = &acks.acks[1];
    CHECK(is(ack->retry, "2") && ack->queue_id == 4 && ack->offset_count == 2 && ack->offsets[0] == 9 && ack->offsets[1] == 10);
    CHECK(rp_batch_acks_read(text("{}"), arena, &acks) == RP_OK && acks.count == 0);
    CHECK(rp_batch_acks_read(text("{\"acks\":null}"), arena, &acks) == RP_OK && acks.count == 0);
    CHECK(rp_batch_acks_read(text("{\"acks\":[]}"), arena, &acks) == RP_OK && acks.count == 0);
    CHECK(rp_batch_acks_read(text("{\"acks\":[{\"b\":\"\",\"c\":\"G\",\"r\":\"0\",\"t\":\"T\",\"so\":9223372036854775807}]}"), arena,
                             &acks) == RP_OK);
    CHECK(acks.count == 1 && acks.acks[0].offset_count == 0);
    static const char *const refused[] = {"",
                                          "[]",
                                          "{\"acks\":7}",
                                          "{\"acks\":[7]}",
                                          "{\"acks\":[{}]}",
                                          "{\"acks\":[{\"b\":\"A\",\"c\":\"G\",\"r\":\"0\",\"t\":\"T\"}]}",
                                          "{\"acks\":[{\"b\":\"A*Q=\",\"c\":\"G\",\"r\":\"0\",\"t\":\"T\"}]}",
                                          "{\"acks\":[{\"b\":\"AQ\",\"c\":\"G\",\"t\":\"T\"}]}",
                                          "{\"acks\":[{\"b\":\"AQ\",\"c\":\"G\",\"r\":\"0\"}]}",
                                          "{\"acks\":[{\"b\":\"AQ\",\"r\":\"0\",\"t\":\"T\"}]}",
                                          "{\"acks\":[{\"a\":[}]}]}",
                                          "{\"acks\":[{\"a\":1]}]}"};
    for (uint32_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK(rp_batch_acks_read(text(refused[i]), arena, &acks) == RP_E_PROTOCOL);
    char bits[1200] = "{\"acks\":[{\"c\":\"G\",\"r\":\"0\",\"t\":\"T\",\"b\":\"";
    size_t size = strlen(bits);
    memset(bits + size, '/', 700); /* 4,200 bits, all set */
    strcpy(bits + size + 700, "\"}]}");
    CHECK(rp_batch_acks_read(text(bits), arena, &acks) == RP_E_TOO_LARGE);
}

static void memory_that_is_out_is_said(void) {
    rp_arena *small = rp_arena_create(0, 16);
    rp_pop_checkpoint checkpoint;
    rp_pop_ack ack;
    rp_batch_acks acks;
    CHECK(rp_pop_checkpoint_read(text("{\"t\":\"aaaaaaaaaaaaaaaaaaaaaa\\u0041\",\"c\":\"b\"}"), small, &checkpoint) == RP_E_NO_MEMORY);
    CHECK(rp_pop_ack_read(text("{\"t\":\"a\",\"c\":\"b\",\"aol\":[1,2,3]}"), 1, small, &ack) == RP_E_NO_MEMORY);
    CHECK(rp_batch_acks_read(text("{\"acks\":[{\"b\":\"AQ\",\"c\":\"G\",\"r\":\"0\",\"t\":\"T\"}]}"), small, &acks) == RP_E_NO_MEMORY);
    rp_arena_destroy(small);
}

/* Each byte of three texts changed to a few others, each text cut at each place: nothing is read outside. */
static void damaged_texts_do_no_harm(void) {
    static const char *const texts[] = {
        "{\"bm\":0,\"bn\":\"b\",\"c\":\"G\",\"d\":[0,1],\"it\":6,\"n\":2,\"pt\":17,\"q\":3,\"rp\":\"1\",\"so\":1000,\"t\":\"T\\u0041\"}",
        "{\"ao\":-1,\"aol\":[1000,\"1001\"],\"bn\":\"b\",\"c\":\"G\",\"pt\":17,\"q\":3,\"so\":1000,\"t\":\"T\"}",
        "{\"acks\":[{\"b\":\"AQI=\",\"c\":\"G\",\"it\":0,\"pt\":0,\"q\":0,\"r\":\"0\",\"rq\":0,\"so\":5,\"t\":\"T\"}],\"brokerName\":"
        "\"b\"}"};
    static const char others[] = "\"\\{}[],:0n\0";
    rp_pop_checkpoint checkpoint;
    rp_pop_ack ack;
    rp_batch_acks acks;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t size = (uint32_t)strlen(texts[i]);
        for (uint32_t at = 0; at < size; at++) {
            for (uint32_t other = 0; other < sizeof others; other++) {
                uint32_t used = other == 0 ? at : size; /* the first time it is cut */
                uint8_t *copy = malloc(used + 1);
                memcpy(copy, texts[i], used);
                if (other > 0)
                    copy[at] = (uint8_t)others[other - 1];
                uint8_t *exact = realloc(copy, used > 0 ? used : 1);
                rp_slice body = {exact, used};
                (void)rp_pop_checkpoint_read(body, arena, &checkpoint);
                (void)rp_pop_ack_read(body, 0, arena, &ack);
                (void)rp_pop_ack_read(body, 1, arena, &ack);
                (void)rp_batch_acks_read(body, arena, &acks);
                free(exact);
                rp_arena_reset(arena);
            }
        }
    }
}

int main(void) {
    arena = rp_arena_create(1 << 16, 1 << 24);
    CHECK(arena != NULL);
    RUN(a_checkpoint_is_written_as_fastjson_writes_it);
    RUN(acks_are_written_as_fastjson_writes_them);
    RUN(the_largest_record_has_its_room);
    RUN(what_is_written_is_read);
    RUN(records_of_other_versions_are_read);
    RUN(what_is_no_record_is_refused);
    RUN(extreme_numbers_overflow_nothing);
    RUN(batch_acks_are_read);
    RUN(memory_that_is_out_is_said);
    RUN(damaged_texts_do_no_harm);
    rp_arena_destroy(arena);
    return 0;
}
