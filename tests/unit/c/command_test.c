/* command_test.c: the remoting codec: headers as RocketMQ's clients write them, hostile ones, and round trips. */
#include <string.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/remoting/command.h"
#include "check.h"

static uint8_t frame[1 << 20];
static rp_arena *arena;

static uint32_t make_frame(int serialize_type, const void *header, size_t header_size, const char *body) {
    rp_put_u32(frame, (uint32_t)(4 + header_size + strlen(body)));
    rp_put_u32(frame + 4, (uint32_t)serialize_type << 24 | (uint32_t)header_size);
    memcpy(frame + 8, header, header_size);
    memcpy(frame + 8 + header_size, body, strlen(body));
    return (uint32_t)(8 + header_size + strlen(body));
}

static int decode_json(const char *header, rp_command *command, rp_error *error) {
    return rp_command_decode(frame, make_frame(RP_SERIALIZE_JSON, header, strlen(header), "body"), arena, command, error);
}

static rp_slice text(const char *string) { return (rp_slice){(const uint8_t *)string, (uint32_t)strlen(string)}; }

static int is_text(rp_slice slice, const char *expected) {
    return slice.data != NULL && slice.size == strlen(expected) && memcmp(slice.data, expected, slice.size) == 0;
}

static void a_fastjson_header_is_read(void) {
    rp_command command;
    CHECK(decode_json(
              "{\"code\":310,\"extFields\":{\"a\":\"group\",\"b\":\"topic\",\"i\":\"KEYS\\u0001k\\u0002TAGS\\u0001t\\u0002\",\"e\":\"3\"},"
              "\"flag\":0,\"language\":\"JAVA\",\"opaque\":17,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":453}",
              &command, NULL) == RP_OK);
    CHECK(command.code == 310 && command.opaque == 17 && command.version == 453 && command.language == 0 && command.flag == 0);
    CHECK(command.field_count == 4 && command.remark.data == NULL && is_text(command.body, "body"));
    CHECK(is_text(rp_command_field(&command, "b"), "topic"));
    CHECK(is_text(rp_command_field(&command, "i"), "KEYS\001k\002TAGS\001t\002"));
    CHECK(rp_command_field(&command, "z").data == NULL);
}

static void headers_of_other_clients_are_read(void) {
    rp_command command;
    /* jsoncpp: numbers and booleans unquoted, a line feed at the end, members in any order */
    CHECK(decode_json(" { \"version\" : 63 , \"language\":\"CPP\",\n\t\"opaque\":-5,\"flag\":2,\"extFields\":{ \"sysFlag\":4,\"ok\":true,"
                      "\"gone\":null,\"deep\":{\"x\":[1,{\"y\":\"}\"}]} },\"remark\":null,\"code\":\"11\" }\n",
                      &command, NULL) == RP_OK);
    CHECK(command.code == 11 && command.opaque == -5 && command.flag == 2 && command.language == 1 && command.field_count == 3);
    CHECK(is_text(rp_command_field(&command, "sysFlag"), "4") && is_text(rp_command_field(&command, "ok"), "true"));
    CHECK(is_text(rp_command_field(&command, "deep"), "{\"x\":[1,{\"y\":\"}\"}]}"));
    CHECK(command.remark.data == NULL);
    CHECK(decode_json("{\"code\":34,\"language\":\"GO\",\"version\":317,\"opaque\":1,\"flag\":0,\"remark\":\"\",\"extFields\":null}",
                      &command, NULL) == RP_OK);
    CHECK(command.language == 9 && command.field_count == 0 && is_text(command.remark, ""));
    CHECK(decode_json("{\"language\":12,\"unknown\":[[],{\"a\":1}],\"code\":1}", &command, NULL) == RP_OK && command.language == 12);
    CHECK(decode_json("{\"language\":\"KLINGON\"}", &command, NULL) == RP_OK && command.language == 255 && command.code == 0);
    CHECK(decode_json("{}", &command, NULL) == RP_OK);
    CHECK(decode_json("{\"extFields\":{\"a\":\"1\",\"a\":\"2\"}}", &command, NULL) == RP_OK &&
          is_text(rp_command_field(&command, "a"), "2"));
}

static void escapes_become_utf8(void) {
    rp_command command;
    CHECK(decode_json(
              "{\"remark\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u4e2d\\ud83d\\ude00\\ud83d|\\udc00\\x41\\1 a long plain tail of text\"}",
              &command, NULL) == RP_OK);
    CHECK(is_text(command.remark, "\"\\/\b\f\n\r\t\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80?|?A\001 a long plain tail of text"));
    CHECK(decode_json("{\"c\\u006fde\":5}", &command, NULL) == RP_OK && command.code == 5);
}

static void bad_json_headers_are_refused_with_cause_and_offset(void) {
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "[]",
                                      "nonsense",
                                      "{\"code\"",
                                      "{\"code\":",
                                      "{\"code\":1",
                                      "{\"code\":1,}",
                                      "{\"code\":1}}",
                                      "{\"code\" 1}",
                                      "{code:1}",
                                      "{\"code\":1.5}",
                                      "{\"code\":99999999999}",
                                      "{\"code\":\"x\"}",
                                      "{\"code\":true}",
                                      "{\"code\":[1]}",
                                      "{\"remark\":\"abc",
                                      "{\"remark\":\"abc\\",
                                      "{\"remark\":\"abc\\\"",
                                      "{\"remark\":\"\\u12\"}",
                                      "{\"remark\":\"\\u12zz\"}",
                                      "{\"remark\":\"\\q\"}",
                                      "{\"remark\":\"\\x4\"}",
                                      "{\"extFields\":[]}",
                                      "{\"extFields\":{\"a\"}}",
                                      "{\"extFields\":{\"a\":\"b\"}",
                                      "{\"extFields\":{\"a\":tru}}",
                                      "{\"extFields\":{\"a\":}}",
                                      "{\"extFields\":{\"a\":\"b\" \"c\":\"d\"}}",
                                      "{\"x\":[}]}",
                                      "{\"x\":[1,2}",
                                      "{\"x\":{\"y\":[[[}",
                                      "{\"code\":1;\"flag\":0}",
                                      "{\"code\":-}",
                                      "{\"extFields\":\"text\"}"};
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        rp_command command;
        rp_error error = {0};
        if (decode_json(bad[index], &command, &error) != RP_E_PROTOCOL) {
            fprintf(stderr, "accepted: %s\n", bad[index]);
            CHECK(0);
        }
        CHECK(error.status == RP_E_PROTOCOL && error.message[0] != '\0');
        CHECK(error.offset >= 8 && error.offset <= 8 + (int64_t)strlen(bad[index]));
    }
    char deep[4000] = "{\"x\":";
    memset(deep + 5, '[', 2000);
    rp_command command;
    CHECK(decode_json(deep, &command, NULL) == RP_E_PROTOCOL);
}

static void too_many_fields_are_refused(void) {
    static char json[8000];
    size_t size = (size_t)sprintf(json, "{\"extFields\":{");
    for (int index = 0; index <= RP_COMMAND_FIELDS_MAX; index++) {
        size += (size_t)sprintf(json + size, "%s\"k%d\":\"%d\"", index ? "," : "", index, index);
    }
    strcpy(json + size, "}}");
    rp_command command;
    CHECK(decode_json(json, &command, NULL) == RP_E_PROTOCOL);
    uint8_t binary[21 + (RP_COMMAND_FIELDS_MAX + 1) * 8] = {0};
    rp_put_u32(binary + 17, (RP_COMMAND_FIELDS_MAX + 1) * 8);
    for (int index = 0; index <= RP_COMMAND_FIELDS_MAX; index++) {
        uint8_t *field = binary + 21 + index * 8;
        rp_put_u16(field, 1);
        field[2] = 'k';
        rp_put_u32(field + 3, 1);
        field[7] = 'v';
    }
    uint32_t frame_size = make_frame(RP_SERIALIZE_ROCKETMQ, binary, sizeof binary, "");
    CHECK(rp_command_decode(frame, frame_size, arena, &command, NULL) == RP_E_PROTOCOL);
}

static void an_escape_needs_an_arena_with_room(void) {
    const char *header = "{\"remark\":\"\\n\"}";
    uint32_t size = make_frame(RP_SERIALIZE_JSON, header, strlen(header), "");
    rp_command command;
    CHECK(rp_command_decode(frame, size, NULL, &command, NULL) == RP_E_NO_MEMORY);
    rp_arena *none = rp_arena_create(0, 1);
    CHECK(rp_command_decode(frame, size, none, &command, NULL) == RP_E_NO_MEMORY);
    rp_arena_destroy(none);
}

static void make_command(rp_command *command, int serialize_type) {
    rp_command_clear(command, 310, (uint8_t)serialize_type);
    command->opaque = INT32_MIN;
    command->version = -3;
    command->flag = 3;
    command->language = 9;
    command->remark = text("why \"so\"?\n\001\x1F \xE4\xB8\xAD");
    command->body = text("the body");
    CHECK(rp_command_add_field(command, text("key\\"), text("value with\002 control")) == RP_OK);
    CHECK(rp_command_add_field(command, text("absent"), (rp_slice){NULL, 0}) == RP_OK);
    CHECK(rp_command_add_field(command, text("b"), text("0123456789abcdef0123456789abcdef\"")) == RP_OK);
}

static void what_is_encoded_decodes_to_the_same(void) {
    for (int serialize_type = 0; serialize_type < 2; serialize_type++) {
        rp_command command, again;
        make_command(&command, serialize_type);
        size_t size_max = rp_command_size_max(&command);
        CHECK(size_max > 0 && size_max < sizeof frame);
        int64_t size = rp_command_encode(&command, frame, size_max);
        CHECK(size > 0 && (size_t)size <= size_max);
        for (int64_t cut = 0; cut < size; cut++) {
            CHECK(rp_command_encode(&command, frame, (size_t)cut) == RP_E_TOO_LARGE);
        }
        CHECK(rp_command_encode(&command, frame, sizeof frame) == size);
        CHECK(rp_command_decode(frame, (uint32_t)size, arena, &again, NULL) == RP_OK);
        CHECK(again.code == 310 && again.opaque == INT32_MIN && again.version == -3 && again.flag == 3 && again.language == 9);
        CHECK(again.serialize_type == serialize_type && again.field_count == 2);
        CHECK(is_text(again.remark, "why \"so\"?\n\001\x1F \xE4\xB8\xAD") && is_text(again.body, "the body"));
        CHECK(is_text(rp_command_field(&again, "key\\"), "value with\002 control"));
        CHECK(is_text(rp_command_field(&again, "b"), "0123456789abcdef0123456789abcdef\""));
        /* an announced body */
        command.body = (rp_slice){NULL, 1000};
        CHECK(rp_command_encode(&command, frame, sizeof frame) == size - 8 && rp_get_u32(frame) == (uint32_t)size - 8 + 1000 - 4);
    }
}

static void a_cut_or_bent_binary_header_is_refused_or_read_but_never_overrun(void) {
    rp_command command, again;
    make_command(&command, RP_SERIALIZE_ROCKETMQ);
    command.body = (rp_slice){NULL, 0};
    static uint8_t whole[4096];
    int64_t size = rp_command_encode(&command, whole, sizeof whole);
    CHECK(size > 0);
    for (int64_t cut = 8; cut < size; cut++) {
        uint8_t *exact = malloc((size_t)cut);
        memcpy(exact, whole, (size_t)cut);
        rp_put_u32(exact, (uint32_t)cut - 4);
        rp_put_u32(exact + 4, 1u << 24 | (uint32_t)(cut - 8));
        CHECK(rp_command_decode(exact, (uint32_t)cut, arena, &again, NULL) == RP_E_PROTOCOL);
        free(exact);
    }
    for (int64_t at = 8; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            uint8_t *exact = malloc((size_t)size);
            memcpy(exact, whole, (size_t)size);
            exact[at] ^= (uint8_t)(1 << bit);
            rp_command_decode(exact, (uint32_t)size, arena, &again, NULL);
            free(exact);
        }
    }
}

static void an_empty_binary_value_counts_as_absent(void) {
    rp_command command, again;
    rp_command_clear(&command, 1, RP_SERIALIZE_ROCKETMQ);
    rp_command_add_field(&command, text("i"), text(""));
    rp_command_add_field(&command, text("j"), text("x"));
    int64_t size = rp_command_encode(&command, frame, sizeof frame);
    CHECK(rp_command_decode(frame, (uint32_t)size, arena, &again, NULL) == RP_OK);
    CHECK(again.field_count == 1 && rp_command_field(&again, "i").data == NULL && again.body.data == NULL);
    command.code = 40000;
    CHECK(rp_command_encode(&command, frame, sizeof frame) == RP_E_INVALID);
    command.serialize_type = 2;
    CHECK(rp_command_encode(&command, frame, sizeof frame) == RP_E_INVALID && rp_command_size_max(&command) == 0);
}

static void frames_are_found_or_refused(void) {
    uint32_t size;
    uint8_t data[16] = {0, 0, 0, 8, 0, 0, 0, 2, '{', '}', 'h', 'i'};
    for (size_t have = 0; have < 12; have++) {
        CHECK(rp_frame_scan(data, have, 4096, &size) == 0 && size == (have < 4 ? 0 : 12));
    }
    CHECK(rp_frame_scan(data, 12, 4096, &size) == 1 && size == 12);
    CHECK(rp_frame_scan(data, 16, 4096, &size) == 1 && size == 12);
    CHECK(rp_frame_scan(data, 12, 12, &size) == 1 && rp_frame_scan(data, 12, 11, &size) == RP_E_TOO_LARGE);
    data[7] = 5; /* header longer than the frame */
    CHECK(rp_frame_scan(data, 8, 4096, &size) == RP_E_PROTOCOL);
    data[3] = 3; /* no room for the header's size */
    CHECK(rp_frame_scan(data, 4, 4096, &size) == RP_E_PROTOCOL);
    rp_put_u32(data, 0xFFFFFFFF);
    CHECK(rp_frame_scan(data, 4, UINT32_MAX, &size) == RP_E_TOO_LARGE);
    rp_put_u32(data, RP_FRAME_SIZE_MAX);
    CHECK(rp_frame_scan(data, 4, RP_FRAME_SIZE_MAX, &size) == RP_E_TOO_LARGE);
    rp_command command;
    uint8_t odd_type[10] = {0, 0, 0, 6, 2, 0, 0, 2, '{', '}'};
    CHECK(rp_command_decode(odd_type, 10, arena, &command, NULL) == RP_E_PROTOCOL);
    CHECK(rp_command_decode(odd_type, 9, arena, &command, NULL) == RP_E_PROTOCOL);
    CHECK(rp_command_decode(odd_type, 0, arena, &command, NULL) == RP_E_PROTOCOL);
}

static void numbers_in_slices_are_parsed_as_java_does(void) {
    int64_t wide;
    int32_t narrow;
    CHECK(rp_slice_to_i64(text("-9223372036854775808"), &wide) == RP_OK && wide == INT64_MIN);
    CHECK(rp_slice_to_i64(text("9223372036854775807"), &wide) == RP_OK && wide == INT64_MAX);
    CHECK(rp_slice_to_i64(text("+7"), &wide) == RP_OK && wide == 7);
    CHECK(rp_slice_to_i32(text("-2147483648"), &narrow) == RP_OK && narrow == INT32_MIN);
    static const char *const bad[] = {"",   "-",   "+",   "9223372036854775808", "-9223372036854775809", "1 ",
                                      " 1", "0x1", "1.0", "99999999999999999999"};
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        CHECK(rp_slice_to_i64(text(bad[index]), &wide) == RP_E_PROTOCOL);
    }
    CHECK(rp_slice_to_i32(text("2147483648"), &narrow) == RP_E_PROTOCOL && rp_slice_to_i32((rp_slice){NULL, 0}, &narrow) == RP_E_PROTOCOL);
    CHECK(rp_slice_to_bool(text("True")) && !rp_slice_to_bool(text("yes")) && !rp_slice_to_bool((rp_slice){NULL, 0}) &&
          !rp_slice_to_bool(text("TRUE ")));
}

static void every_language_has_its_number(void) {
    for (uint8_t number = 0; number < 14; number++) {
        CHECK(rp_language_number(text(rp_language_name(number))) == number);
    }
    CHECK(strcmp(rp_language_name(255), "OTHER") == 0 && rp_language_number((rp_slice){NULL, 0}) == 255);
}

int main(void) {
    arena = rp_arena_create(1 << 16, 1 << 24);
    RUN(a_fastjson_header_is_read);
    RUN(headers_of_other_clients_are_read);
    RUN(escapes_become_utf8);
    RUN(bad_json_headers_are_refused_with_cause_and_offset);
    RUN(too_many_fields_are_refused);
    RUN(an_escape_needs_an_arena_with_room);
    RUN(what_is_encoded_decodes_to_the_same);
    RUN(a_cut_or_bent_binary_header_is_refused_or_read_but_never_overrun);
    RUN(an_empty_binary_value_counts_as_absent);
    RUN(frames_are_found_or_refused);
    RUN(numbers_in_slices_are_parsed_as_java_does);
    RUN(every_language_has_its_number);
    rp_arena_destroy(arena);
    return 0;
}
