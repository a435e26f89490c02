/* popped_message.c: see popped_message.h. */
#include "popped_message.h"

#include <stdbool.h>
#include <string.h>

#include "../base/decimal_inl.h"
#include "../base/hex_inl.h"
#include "../base/slice_inl.h"
#include "../base/utf8_inl.h"
#include "../store/topic_prefix_inl.h"
#include "protobuf.h"

#define QUEUE_MARK_SIZE (2u + 2 * RP_DECIMAL_SIZE_MAX + 1) /* "qo" QUEUE "%" OFFSET */
#define MENDED_TIMES 3u                                    /* growth at most: U+FFFD has three bytes, and may replace a single one */

static bool read_i64(const rp_command *response, const char *name, int64_t *value) {
    rp_slice text = rp_command_field(response, name);
    return text.data != NULL && rp_slice_to_i64(text, value) == RP_OK;
}

static rp_slice info_of(const rp_command *response, const char *name) {
    rp_slice text = rp_command_field(response, name);
    return text.data != NULL ? text : (rp_slice){(const uint8_t *)"", 0};
}

/* Removes the text before the first mark, or all of it, from the front of *text and returns it. */
static rp_slice take_until(rp_slice *text, uint8_t mark) {
    const uint8_t *found = text->size > 0 ? memchr(text->data, mark, text->size) : NULL;
    uint32_t size = found != NULL ? (uint32_t)(found - text->data) : text->size, taken = found != NULL ? size + 1 : size;
    rp_slice part = {text->data, size};
    *text = (rp_slice){text->data + taken, text->size - taken};
    return part;
}

/* Returns the value of the last row "KIND MARK VALUE;" with this kind and mark; data NULL: none. */
static rp_slice value_of(rp_slice rows, uint8_t kind, rp_slice mark) {
    rp_slice found = {NULL, 0};
    while (rows.size > 0) {
        rp_slice row = take_until(&rows, ';'), its_kind = take_until(&row, ' '), its_mark = take_until(&row, ' ');
        bool is_whole = row.size > 0 && memchr(row.data, ' ', row.size) == NULL;
        if (is_whole && its_kind.size == 1 && its_kind.data[0] == kind && rp_slice_equals(its_mark, mark))
            found = row;
    }
    return found;
}

/* Whether every value is a number that fits. */
static bool are_numbers(rp_slice rows) {
    while (rows.size > 0) {
        rp_slice row = take_until(&rows, ';'), first = row;
        int64_t value;
        take_until(&first, ' ');
        take_until(&first, ' ');
        if (first.size > 0 && memchr(first.data, ' ', first.size) == NULL && rp_slice_to_i64(first, &value) != RP_OK)
            return false;
    }
    return true;
}

/* Counts the messages; false: some cannot be read, or there are too many. */
static bool count_records(rp_pop_answer *answer) {
    rp_message message;
    rp_slice rest = answer->records;
    while (rest.size > 0) {
        if (rp_message_decode(rest.data, rest.size, RP_CHECK_NO_CRC, &message, NULL) != RP_RECORD_MESSAGE ||
            ++answer->count > RP_POPPED_MAX)
            return false;
        rest = (rp_slice){rest.data + message.size, rest.size - message.size};
    }
    return true;
}

int rp_pop_answer_read(rp_pop_answer *answer, const rp_command *response, rp_slice broker) {
    int64_t revive;
    *answer = (rp_pop_answer){.records = response->body,
                              .broker = broker,
                              .starts = info_of(response, "startOffsetInfo"),
                              .counts = info_of(response, "orderCountInfo")};
    if (!read_i64(response, "popTime", &answer->pop_ms) || !read_i64(response, "invisibleTime", &answer->invisible_ms) ||
        !read_i64(response, "reviveQid", &revive) || revive < INT32_MIN || revive > INT32_MAX)
        return 0;
    answer->revive_queue = (int32_t)revive;
    return answer->starts.size <= RP_POP_INFO_MAX && answer->counts.size <= RP_POP_INFO_MAX && are_numbers(answer->starts) &&
           are_numbers(answer->counts) && count_records(answer);
}

/* ---- one message ---- */

/* Replaces bytes that are not UTF-8 by U+FFFD, as Java's decoder does. */
static bool mend(rp_slice *text, rp_arena *arena) {
    uint8_t *mended = rp_arena_take(arena, (size_t)MENDED_TIMES * text->size), *at = mended;
    if (mended == NULL)
        return false;
    for (uint32_t from = 0; from < text->size;) {
        int is_whole;
        uint32_t size = rp_utf8_next(text->data + from, text->size - from, &is_whole);
        memcpy(at, is_whole ? text->data + from : (const uint8_t *)"\xEF\xBF\xBD", is_whole ? size : 3);
        at += is_whole ? size : 3;
        from += size;
    }
    *text = (rp_slice){mended, (uint32_t)(at - mended)};
    return true;
}

static uint8_t kind_of(rp_slice topic) {
    if (!rp_is_retry_topic(topic))
        return '0';
    return memchr(topic.data, '+', topic.size) != NULL ? '2' : '1';
}

static uint8_t *put(uint8_t *at, rp_slice text) {
    memcpy(at, text.data, text.size);
    return at + text.size;
}

static uint8_t *put_number(uint8_t *at, int64_t number) {
    *at++ = ' ';
    return rp_decimal(at, number);
}

static int64_t number_of(rp_slice text, int64_t otherwise) {
    int64_t number;
    return text.data != NULL && rp_slice_to_i64(text, &number) == RP_OK ? number : otherwise;
}

/* Makes the handle of a message that carries none, from what the answer says about its queue. */
static uint8_t *write_own_handle(const rp_pop_answer *answer, const rp_message *stored, uint8_t *at) {
    uint8_t kind = kind_of(stored->topic), queue[RP_DECIMAL_SIZE_MAX];
    rp_slice mark = {queue, (uint32_t)(rp_decimal(queue, stored->queue_id) - queue)};
    at = rp_decimal(at, number_of(value_of(answer->starts, kind, mark), stored->queue_offset));
    at = put_number(put_number(put_number(at, answer->pop_ms), answer->invisible_ms), answer->revive_queue);
    *at++ = ' ';
    *at++ = kind;
    *at++ = ' ';
    at = put(at, answer->broker);
    return put_number(put_number(at, stored->queue_id), stored->queue_offset);
}

static void write_handle(const rp_pop_answer *answer, rp_popped_message *popped) {
    rp_receipt_handle given;
    rp_slice text = popped->shown.handle;
    uint8_t *at = popped->handle;
    bool is_given =
        text.data != NULL && text.size <= RP_RECEIPT_HANDLE_MAX - RP_DECIMAL_SIZE_MAX - 1 && rp_receipt_handle_read(text, &given);
    if (is_given)
        at = put(at, (rp_slice){text.data, (uint32_t)(given.offset.data + given.offset.size - text.data)});
    else
        at = write_own_handle(answer, &popped->stored, at);
    if (popped->stored.physical_offset >= 0)
        at = put_number(at, popped->stored.physical_offset);
    popped->handle_size = (uint32_t)(at - popped->handle);
}

static bool is_blank(rp_slice text) {
    uint32_t at = 0;
    while (at < text.size &&
           (text.data[at] == ' ' || (text.data[at] >= '\t' && text.data[at] <= '\r') || (text.data[at] >= 0x1C && text.data[at] <= 0x1F)))
        at++;
    return at == text.size;
}

static void write_place_id(rp_popped_message *popped) {
    rp_slice host = popped->stored.store_host;
    uint8_t *end = rp_put_hex_bytes(popped->place_id, host.data, host.size);
    end = rp_put_hex_u64(end, (uint64_t)popped->stored.physical_offset);
    popped->shown.message_id = (rp_slice){popped->place_id, (uint32_t)(end - popped->place_id)};
}

/* How often the message was delivered before: the answer's count for it, else the one for its queue, else what is stored with it. */
static int32_t attempts_of(const rp_pop_answer *answer, const rp_message *stored) {
    uint8_t kind = kind_of(stored->topic), text[QUEUE_MARK_SIZE] = "qo";
    uint8_t *queue_end = rp_decimal(text + 2, stored->queue_id), *end = queue_end;
    *end++ = '%';
    end = rp_decimal(end, stored->queue_offset);
    rp_slice count = value_of(answer->counts, kind, (rp_slice){text, (uint32_t)(end - text)});
    if (count.data == NULL)
        count = value_of(answer->counts, kind, (rp_slice){text + 2, (uint32_t)(queue_end - text) - 2});
    int64_t times = number_of(count, 0);
    if (times == 0)
        return stored->reconsume_times;
    return times > INT32_MAX ? INT32_MAX : times < INT32_MIN ? INT32_MIN : (int32_t)times;
}

int rp_pop_answer_next(rp_pop_answer *answer, rp_arena *arena, rp_popped_message *popped) {
    rp_message *stored = &popped->stored;
    if (answer->records.size == 0 ||
        rp_message_decode(answer->records.data, answer->records.size, RP_CHECK_NO_CRC, stored, NULL) != RP_RECORD_MESSAGE)
        return 0;
    if (!rp_protobuf_is_text(stored->properties) && !mend(&stored->properties, arena))
        return 0;
    answer->records = (rp_slice){answer->records.data + stored->size, answer->records.size - stored->size};
    rp_shown_properties_read(stored->properties, &popped->shown);
    if (is_blank(popped->shown.message_id))
        write_place_id(popped);
    popped->attempts = attempts_of(answer, stored);
    write_handle(answer, popped);
    return 1;
}
