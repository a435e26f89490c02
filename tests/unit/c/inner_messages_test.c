/* inner_messages_test.c: splitting batches: whole, in part, from the middle, and malformed ones. */
#include <string.h>

#include "base/bytes_inl.h"
#include "base/error.h"
#include "broker/inner_messages.h"
#include "check.h"
#include "store/inner_batch.h"
#include "store/message_encode.h"

#define BASE 17
#define MOST 32

static uint8_t record_bytes[4096], out[8192], body[2048];
static int64_t offsets[MOST];
static rp_inner_places places;

static rp_slice text(const char *chars) { return (rp_slice){(const uint8_t *)chars, (uint32_t)strlen(chars)}; }

/* Messages "0", "1", … as a client writes them, each with its number as property N and as flag. */
static rp_slice batch_of(uint32_t count) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t digits = (uint32_t)snprintf((char *)body + at + 20, 8, "%u", i), pair = digits + 3;
        rp_put_u32(body + at, 22 + digits + pair);
        rp_put_u32(body + at + 12, i);
        rp_put_u32(body + at + 16, digits);
        rp_put_u16(body + at + 20 + digits, (uint16_t)pair);
        snprintf((char *)body + at + 22 + digits, 16, "N\1%u\2", i);
        at += 22 + digits + pair;
    }
    return (rp_slice){body, at};
}

/* The record of a batch queue at BASE that says it stands for so many messages. */
static rp_message record_of(rp_slice of, int32_t sys_flag, int32_t messages) {
    static const uint8_t host[8] = {127, 0, 0, 1, 0, 0, 42, 1};
    uint8_t pairs[RP_INNER_PAIRS_MAX];
    rp_slice properties = {pairs, rp_inner_pairs_write(pairs, messages, BASE)};
    rp_encode_source source = {.queue_id = 3,
                               .sys_flag = sys_flag,
                               .born_timestamp_ms = 5,
                               .store_timestamp_ms = 6,
                               .queue_offset = BASE,
                               .physical_offset = 700,
                               .born_host = host,
                               .store_host = host,
                               .topic = text("T"),
                               .body = of,
                               .properties = {properties}};
    rp_message record;
    rp_message_encode(&source, record_bytes, (uint32_t)rp_message_encoded_size(&source));
    CHECK(rp_message_decode(record_bytes, sizeof record_bytes, RP_CHECK_BODY_CRC, &record, NULL) == RP_RECORD_MESSAGE);
    return record;
}

/* Measured and written alike: messages first, first + 1, … of the batch. */
static void comes(const rp_message *record, int64_t from, uint32_t most, uint32_t first, uint32_t count) {
    uint64_t size, written;
    CHECK(rp_inner_messages(&places, record, from, most, offsets, &size, NULL) == count && size <= sizeof out);
    CHECK(rp_inner_messages(&places, record, from, most, offsets, &written, out) == count && written == size);
    rp_message message;
    uint64_t at = 0;
    for (uint32_t i = first; i < first + count; i++, at += message.size) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, "%u", i);
        CHECK(rp_message_decode(out + at, size - at, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE);
        CHECK(message.queue_offset == BASE + i && offsets[i - first] == BASE + i && message.flag == (int32_t)i);
        CHECK(message.body.size == strlen(wanted) && memcmp(message.body.data, wanted, message.body.size) == 0);
        CHECK(rp_message_property(message.properties, "N").size == message.body.size);
        CHECK(rp_message_property(message.properties, "INNER_NUM").data == NULL);
        CHECK((message.sys_flag & RP_SYSFLAG_BATCH_MASK) == 0 && message.queue_id == 3 && message.physical_offset == 700);
        CHECK(message.born_timestamp_ms == 5 && message.store_timestamp_ms == 6 && message.topic.size == 1);
    }
    CHECK(at == size);
}

static void each_message_has_its_own_record(void) {
    rp_message record = record_of(batch_of(40), RP_SYSFLAG_BATCH_MASK, 40);
    comes(&record, 0, MOST, 0, MOST);
    comes(&record, BASE + 32, MOST, 32, 8);
    comes(&record, BASE + 39, 1, 39, 1);
    comes(&record, BASE + 7, 3, 7, 3);
    comes(&record, BASE + 40, MOST, 0, 0);
    comes(&record, BASE, 0, 0, 0);
}

/* Checks that the record comes as one message, without the flags by which a client takes a batch apart. */
static void is_one_message(const rp_message *record, int64_t behind) {
    uint64_t size;
    rp_message message;
    CHECK(rp_inner_messages(&places, record, behind - 1, MOST, offsets, &size, out) == 1 && offsets[0] == behind - 1);
    CHECK(rp_message_decode(out, size, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE && message.size == size);
    CHECK(message.queue_offset == behind - 1 && message.body.size == record->body.size && (message.sys_flag & RP_SYSFLAG_BATCH_MASK) == 0);
    CHECK(rp_inner_messages(&places, record, behind, MOST, offsets, &size, out) == 0 && size == 0);
}

static void what_is_no_batch_or_a_damaged_one_is_one_message(void) {
    rp_slice whole = batch_of(3);
    rp_message record = record_of(text("alone"), RP_SYSFLAG_INNER_BATCH, 1);
    is_one_message(&record, BASE + 1);
    record = record_of(whole, RP_SYSFLAG_BATCH_MASK, 4); /* it says four */
    is_one_message(&record, BASE + 4);
    record = record_of((rp_slice){whole.data, whole.size - 1}, RP_SYSFLAG_BATCH_MASK, 3);
    is_one_message(&record, BASE + 3);
    record = record_of(whole, RP_SYSFLAG_BATCH_MASK | RP_SYSFLAG_COMPRESSED, 3);
    is_one_message(&record, BASE + 3);
    record = record_of(text("plain"), 0, 9); /* RocketMQ stores a message that is sent alone like this */
    is_one_message(&record, BASE + 1);
}

/* A reader that goes on where it left off does not walk over the earlier messages again: the first one is spoilt here, and nobody
 * notices. */
static void a_batch_in_parts_is_walked_once(void) {
    places = (rp_inner_places){0};
    rp_message record = record_of(batch_of(40), RP_SYSFLAG_BATCH_MASK, 40);
    comes(&record, BASE, 10, 0, 10);
    uint8_t *first_size = (uint8_t *)record.body.data + 16;
    rp_put_u32(first_size, UINT32_MAX);
    comes(&record, BASE + 10, 10, 10, 10);
    comes(&record, BASE + 20, MOST, 20, 20);
    comes(&record, BASE + 10, 5, 10, 5); /* an orderly consumer whose time is over gets them once more */
    uint64_t size;
    CHECK(rp_inner_messages(&places, &record, BASE + 16, 1, offsets, &size, NULL) == 1 &&
          offsets[0] == BASE + 39); /* no reader was there */
    record.body_crc++; /* another record in its place */
    CHECK(rp_inner_messages(&places, &record, BASE + 10, 1, offsets, &size, NULL) == 1 && offsets[0] == BASE + 39);
}

static void a_place_in_front_of_a_batch_is_its_begin(void) {
    places = (rp_inner_places){0};
    rp_message record = record_of(batch_of(5), RP_SYSFLAG_BATCH_MASK, 5);
    for (int i = 0; i < 2; i++)
        comes(&record, BASE - 3, 2, 0, 2);
    comes(&record, BASE + 2, MOST, 2, 3);
    comes(&record, BASE + 5, MOST, 0, 0);
}

int main(void) {
    each_message_has_its_own_record();
    a_batch_in_parts_is_walked_once();
    a_place_in_front_of_a_batch_is_its_begin();
    what_is_no_batch_or_a_damaged_one_is_one_message();
    return 0;
}
