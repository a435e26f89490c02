/* load_parts_test.c: the load generator's parts: bodies, requests, responses, records and the ledger. */
#include <errno.h>
#include <unistd.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/base/crc32.h"
#include "../../../csrc/load/ledger.h"
#include "../../../csrc/load/payload.h"
#include "../../../csrc/load/record.h"
#include "../../../csrc/load/request.h"
#include "../../../csrc/load/response.h"
#include "check.h"

#include <string.h>

static void a_body_reads_back_and_any_changed_byte_is_found(void) {
    rp_payload *payload = rp_payload_open(200);
    uint8_t body[200];
    for (uint64_t sequence = 0; sequence < 130; sequence++) {
        const rp_payload_head head = {7, 3, 11, sequence, 123456789};
        rp_payload_head back;
        rp_payload_write(payload, &head, body);
        CHECK(rp_payload_read(payload, body, sizeof body, &back) == RP_PAYLOAD_GOOD);
        CHECK(back.run == 7 && back.producer == 3 && back.queue == 11 && back.sequence == sequence && back.intended_ns == 123456789);
    }
    for (uint32_t at = 0; at < sizeof body; at++) {
        rp_payload_head back;
        body[at] ^= 0x10;
        CHECK(rp_payload_read(payload, body, sizeof body, &back) != RP_PAYLOAD_GOOD);
        body[at] ^= 0x10;
    }
    rp_payload_head back;
    CHECK(rp_payload_read(payload, body, 199, &back) == RP_PAYLOAD_CORRUPT);
    CHECK(rp_payload_read(payload, body, 10, &back) == RP_PAYLOAD_FOREIGN);
    CHECK(rp_payload_open(10) == NULL);
    rp_payload_close(payload);
}

static void a_template_changes_only_what_it_should(void) {
    for (int serialize_type = 0; serialize_type <= 1; serialize_type++) {
        rp_payload *payload = rp_payload_open(64);
        const rp_load_template_options options = {.topic = "opaque",
                                                  .producer_group = "g\"\\",
                                                  .tags = "T",
                                                  .serialize_type = serialize_type,
                                                  .send_code = 310,
                                                  .queue_id = 5,
                                                  .batch_size = 1,
                                                  .message_size = 64,
                                                  .run = 0xABCDEF01u,
                                                  .unique_key = 1};
        rp_load_template *template = NULL;
        CHECK(rp_load_template_open(&options, payload, &template) == RP_OK);
        uint32_t size = rp_load_template_size(template);
        uint8_t one[4096], two[4096];
        CHECK(size < sizeof one);
        const rp_payload_head first = {1, 0xFEDCBA98u, 5, 0x123456789A, 1}, second = {1, 0, 5, 1, 2};
        rp_load_template_write(template, 1000000000, "1700000000000", &first, one);
        rp_load_template_write(template, 1234567890, "1799999999999", &second, two);
        CHECK(rp_get_u32(one) + 4 == size);
        CHECK(memmem(one, size, "ABCDEF01FEDCBA98000000123456789A", 32) != NULL);
        CHECK(memmem(two, size, "ABCDEF01000000000000000000000001", 32) != NULL);
        CHECK(memmem(one, size, "1700000000000", 13) != NULL && memmem(two, size, "1799999999999", 13) != NULL);
        CHECK(memmem(one, size, "{{{", 3) == NULL);
        rp_load_response parsed; /* a request parses as a response does */
        const char *cause;
        CHECK(rp_load_parse_response(two, size, &parsed, &cause) == RP_OK && parsed.opaque == 1234567890 && parsed.code == 310);
        rp_payload_head back;
        CHECK(rp_payload_read(payload, parsed.body.data, parsed.body.size, &back) == RP_PAYLOAD_GOOD && back.sequence == 1);
        rp_load_template_close(template);
        rp_payload_close(payload);
    }
}

static int parse_json(const char *header, rp_load_response *response, const char **cause) {
    uint8_t frame[1024];
    uint32_t size = (uint32_t)strlen(header);
    rp_put_u32(frame, size + 4);
    rp_put_u32(frame + 4, size);
    memcpy(frame + 8, header, size);
    uint8_t *exact = malloc(size + 8); /* so that a read past the end is seen */
    memcpy(exact, frame, size + 8);
    int status = rp_load_parse_response(exact, size + 8, response, cause);
    free(exact);
    return status;
}

static void json_headers_are_read_strictly(void) {
    rp_load_response response;
    const char *cause;
    CHECK(
        parse_json(" { \"code\" : 0 , \"extFields\":{\"queueId\":\"3\",\"queueOffset\":\"9223372036854775807\",\"x\":\"\\\"}\"},\"flag\":1,"
                   "\"language\":\"JAVA\",\"opaque\":-5,\"remark\":null,\"version\":1,\"a\":[1,{\"b\":[]},\"]\"]} \n",
                   &response, &cause) == RP_OK);
    CHECK(response.code == 0 && response.queue_id == 3 && response.queue_offset == INT64_MAX && response.opaque == -5 &&
          response.flag == 1);
    CHECK(response.remark.data == NULL && response.next_begin_offset == -1);
    CHECK(parse_json("{\"code\":1,\"opaque\":2,\"extFields\":null,\"remark\":\"why\\n\"}", &response, &cause) == RP_OK &&
          response.remark.size == 5);
    static const char *const bad[] = {"",
                                      "{",
                                      "{}",
                                      "[]",
                                      "{\"code\":1}",
                                      "{\"opaque\":1}",
                                      "{\"code\":\"1\",\"opaque\":1}",
                                      "{\"code\":1,\"opaque\":1",
                                      "{\"code\":1,\"opaque\":1}x",
                                      "{\"code\":1.5,\"opaque\":1}",
                                      "{\"code\":99999999999,\"opaque\":1}",
                                      "{\"code\":1,\"opaque\":1,}",
                                      "{\"code\":1,,\"opaque\":1}",
                                      "{\"code\":1,\"opaque\":1,\"x\":[}",
                                      "{\"code\":1,\"opaque\":1,\"x\":\"",
                                      "{\"code\":1,\"opaque\":1,\"x\":\"\\",
                                      "{\"code\":1,\"opaque\":1,\"extFields\":[]}",
                                      "{\"code\":1,\"opaque\":1,\"extFields\":{\"offset\":\"\"}}",
                                      "{\"code\":1,\"opaque\":1,\"extFields\":{\"offset\":\"1x\"}}",
                                      "{\"code\":1,\"opaque\":1,\"extFields\":{\"offset\":\"9223372036854775808\"}}",
                                      "{\"code\":1 \"opaque\":1}",
                                      "{\"code\":1,\"opaque\":1,\"x\":\"\n\"}",
                                      "{\"code\":1,\"opaque\":1,\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(parse_json(bad[i], &response, &cause) == RP_E_PROTOCOL && cause != NULL);
}

static void cut_and_changed_headers_never_read_outside(void) {
    static const rp_load_field fields[] = {{"queueId", "1"}, {"queueOffset", "77"}, {"msgId", "0A"}};
    for (int serialize_type = 0; serialize_type <= 1; serialize_type++) {
        uint8_t frame[512];
        int64_t size = rp_load_encode_request(frame, sizeof frame, serialize_type, 0, 5, fields, 3, 0);
        CHECK(size > 0);
        rp_load_response response;
        const char *cause;
        CHECK(rp_load_parse_response(frame, (uint32_t)size, &response, &cause) == RP_OK && response.queue_offset == 77);
        for (int64_t cut = 0; cut < size; cut++) {
            uint8_t *exact = malloc((size_t)cut); /* so that a read past the end is seen */
            memcpy(exact, frame, (size_t)cut);
            if (cut >= 8)
                rp_put_u32(exact + 4, (uint32_t)serialize_type << 24 | (uint32_t)(cut - 8));
            CHECK(rp_load_parse_response(exact, (uint32_t)cut, &response, &cause) == RP_E_PROTOCOL);
            free(exact);
        }
        for (int64_t at = 4; at < size; at++) {
            for (int value = 0; value < 256; value += 5) {
                uint8_t *exact = malloc((size_t)size);
                memcpy(exact, frame, (size_t)size);
                exact[at] = (uint8_t)value;
                rp_load_parse_response(exact, (uint32_t)size, &response, &cause);
                free(exact);
            }
        }
        CHECK(rp_load_encode_request(frame, 40, serialize_type, 0, 5, fields, 3, 0) == RP_E_TOO_LARGE);
    }
    CHECK(rp_load_frame_size((const uint8_t *)"\0\0\0", 3) == 0);
    CHECK(rp_load_frame_size((const uint8_t *)"\0\0\0\3", 4) == RP_E_PROTOCOL);
    CHECK(rp_load_frame_size((const uint8_t *)"\377\0\0\0", 4) == RP_E_TOO_LARGE);
}

static void records_of_any_damage_are_refused_or_read_inside_their_bytes(void) {
    for (int v2 = 0; v2 <= 1; v2++) {
        uint8_t record[200];
        memset(record, 0, sizeof record);
        uint32_t body = 20, topic = 5, properties = 7, size = 91 + (uint32_t)v2 + body + topic + properties;
        rp_put_u32(record, size);
        rp_put_u32(record + 4, v2 ? 0xDAA320ABu : 0xDAA320A7u);
        rp_put_u32(record + 12, 3);
        rp_put_u64(record + 20, 44);
        rp_put_u32(record + 84, body);
        record[88 + body + (uint32_t)v2] = (uint8_t)topic;
        memcpy(record + 89 + body + v2, "bench", 5);
        record[size - properties - 1] = (uint8_t)properties;
        rp_put_u32(record + 8, rp_crc32(0, record + 88, body) & 0x7FFFFFFF);
        rp_load_record read;
        const char *cause;
        CHECK(rp_load_decode_record(record, size, 1, &read, &cause) == RP_OK && read.queue_id == 3 && read.queue_offset == 44);
        CHECK(read.body.size == body && read.topic.size == topic && memcmp(read.topic.data, "bench", 5) == 0 &&
              read.properties.size == properties);
        for (uint32_t cut = 0; cut < size; cut++)
            CHECK(rp_load_decode_record(record, cut, 1, &read, &cause) == RP_E_CORRUPT && cause != NULL);
        for (uint32_t at = 0; at < size; at++) {
            for (int bit = 0; bit < 8; bit++) {
                uint8_t *exact = malloc(size);
                memcpy(exact, record, size);
                exact[at] ^= (uint8_t)(1 << bit);
                if (rp_load_decode_record(exact, size, 1, &read, &cause) == RP_OK)
                    CHECK(read.body.data + read.body.size <= exact + size);
                free(exact);
            }
        }
    }
}

static void the_ledger_matches_both_sides_in_either_order_and_survives_a_file(void) {
    rp_ledger *ledger = rp_ledger_open(2, 99);
    rp_ledger_set_base(ledger, 1, 1000);
    CHECK(rp_ledger_acknowledge(ledger, 1, 1000, 3, 8) == RP_LEDGER_FIRST);
    CHECK(rp_ledger_deliver(ledger, 1, 1000, 3, 8) == RP_LEDGER_MATCHED);
    CHECK(rp_ledger_deliver(ledger, 1, 1001, 4, 0) == RP_LEDGER_FIRST);
    CHECK(rp_ledger_acknowledge(ledger, 1, 1001, 4, 1) == RP_LEDGER_DIFFERENT);
    CHECK(rp_ledger_acknowledge(ledger, 1, 1001, 4, 0) == RP_LEDGER_MATCHED);
    CHECK(rp_ledger_acknowledge(ledger, 1, 1001, 4, 0) == RP_LEDGER_TAKEN);
    CHECK(rp_ledger_deliver(ledger, 1, 1000, 3, 8) == RP_LEDGER_TAKEN);
    CHECK(rp_ledger_acknowledge(ledger, 1, 999, 0, 0) == RP_LEDGER_OUTSIDE &&
          rp_ledger_acknowledge(ledger, 2, 1000, 0, 0) == RP_LEDGER_OUTSIDE);
    CHECK(rp_ledger_acknowledge(ledger, 1, INT64_MAX, 0, 0) == RP_LEDGER_OUTSIDE);
    CHECK(rp_ledger_acknowledge(ledger, 0, 70000, 16383, 5) == RP_LEDGER_FIRST);
    CHECK(rp_ledger_deliver(ledger, 0, 5, 1, 5) == RP_LEDGER_FIRST);
    rp_ledger_missing missing;
    rp_ledger_missing_of(ledger, 0, &missing);
    CHECK(missing.acknowledged_only == 1 && missing.delivered_only == 1);
    CHECK(missing.first_offset == 70000 && missing.first_producer == 16383 && missing.first_sequence == 5);
    char path[] = "/tmp/rp_ledger_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    rp_error error;
    CHECK(rp_ledger_save(ledger, path, &error) == RP_OK);
    CHECK(rp_ledger_save(ledger, "/dev/full", &error) == RP_E_DISK_FULL && error.os_errno == ENOSPC);
    rp_ledger_close(ledger);
    CHECK(rp_ledger_load(path, &ledger, &error) == RP_OK);
    CHECK(rp_ledger_run_id(ledger) == 99 && rp_ledger_queue_count(ledger) == 2);
    rp_ledger_missing_of(ledger, 1, &missing);
    CHECK(missing.acknowledged_only == 2 && missing.delivered_only == 0);
    CHECK(rp_ledger_deliver(ledger, 1, 1000, 3, 8) == RP_LEDGER_MATCHED);
    rp_ledger_close(ledger);
    CHECK(truncate(path, 70) == 0 && rp_ledger_load(path, &ledger, &error) == RP_E_CORRUPT);
    CHECK(truncate(path, 3) == 0 && rp_ledger_load(path, &ledger, &error) == RP_E_CORRUPT);
    unlink(path);
    CHECK(rp_ledger_load(path, &ledger, &error) == RP_E_IO);
}

int main(void) {
    RUN(a_body_reads_back_and_any_changed_byte_is_found);
    RUN(a_template_changes_only_what_it_should);
    RUN(json_headers_are_read_strictly);
    RUN(cut_and_changed_headers_never_read_outside);
    RUN(records_of_any_damage_are_refused_or_read_inside_their_bytes);
    RUN(the_ledger_matches_both_sides_in_either_order_and_survives_a_file);
    return 0;
}
