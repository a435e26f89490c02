/* request_fuzz.c: libFuzzer target for what this room parses itself: request headers, properties, tag and SQL92 expressions, batch bodies,
 * and the writer of responses. Built by clang -fsanitize=fuzzer,address,undefined; not in the library.
 *
 * Input   one byte that chooses the parser, then its text.
 * Claims  nothing is read outside of the text (it is copied to a block of its exact size); slices that come out lie inside it or in
 *         the arena; a batch's messages add up to its size; a response with any text decodes to that text again.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/fuzz_inl.h"
#include "message_properties.h"
#include "request_header.h"
#include "response_writer_inl.h"
#include "send_batch.h"
#include "sql_filter.h"
#include "tag_filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(rp_slice slice) {
    volatile uint8_t sum = 0;
    for (uint32_t i = 0; i < slice.size; i++)
        sum = (uint8_t)(sum + slice.data[i]);
}

static void try_properties(rp_slice text, rp_arena *arena) {
    rp_sent_properties properties, again;
    demand(rp_sent_properties_scan(text, arena, &properties) == RP_OK);
    demand(properties.text.size <= text.size + 1);
    read_all(properties.text);
    read_all(properties.unique_key);
    demand(rp_sent_properties_scan(properties.text, arena, &again) == RP_OK);
    demand(again.text.size == properties.text.size && again.tags_code == properties.tags_code && again.wait == properties.wait);
}

static void try_tags(rp_slice text, rp_arena *arena) {
    rp_message_filter filter;
    if (rp_tag_filter_parse(text, arena, &filter) != RP_OK)
        return;
    for (uint32_t i = 0; i < filter.count; i++) {
        demand(rp_tag_filter_matches(&filter, filter.words[i]));
        demand(i == 0 || filter.words[i - 1] <= filter.words[i]);
    }
}

/* Expression, zero byte, and the properties of a message: tries both, and then a copy of the filter in other memory. */
static void try_sql(rp_slice text, rp_arena *arena) {
    const uint8_t *zero = text.size > 0 ? memchr(text.data, 0, text.size) : NULL;
    rp_slice expression = {text.data, zero != NULL ? (uint32_t)(zero - text.data) : text.size}, properties = {NULL, 0};
    if (zero != NULL)
        properties = (rp_slice){zero + 1, text.size - expression.size - 1};
    rp_message_filter filter;
    rp_sql_fault fault;
    uint32_t end = 0;
    int status = rp_sql_filter_compile(expression, arena, &filter, &end, &fault);
    demand(status == RP_OK || (status == RP_E_INVALID && fault.at <= expression.size && fault.what[0] != 0));
    if (status != RP_OK)
        return;
    demand(end <= expression.size && filter.kind == RP_FILTER_SQL);
    int32_t *copy = malloc(filter.count * sizeof *copy);
    demand(copy != NULL);
    memcpy(copy, filter.words, filter.count * sizeof *copy);
    rp_message_filter copied = {.words = copy, .count = filter.count, .kind = RP_FILTER_SQL};
    demand(rp_sql_filter_matches(&filter, properties) == rp_sql_filter_matches(&copied, properties));
    free(copy);
}

static void try_batch(rp_slice text) {
    uint32_t position = 0;
    int64_t count = rp_batch_count(text, &position);
    demand(position <= text.size && (count < 0 || position == text.size));
    rp_batch_message message;
    position = 0;
    while (rp_batch_next(text, &position, &message) == 1) {
        read_all(message.body);
        read_all(message.properties);
    }
}

/* Cuts the text at zero bytes into fields: name, value, name, value, … */
static void try_headers(rp_slice text) {
    rp_command command = {.code = RP_CODE_SEND_MESSAGE_V2};
    rp_slice parts[2] = {{text.data, 0}, {NULL, 0}};
    int part = 0;
    for (uint32_t i = 0; i <= text.size && command.field_count < RP_COMMAND_FIELDS_MAX; i++) {
        if (i < text.size && text.data[i] != 0) {
            parts[part].size++;
            continue;
        }
        if (part == 1)
            command.fields[command.field_count++] = (rp_field){parts[0], parts[1]};
        part ^= 1;
        parts[part] = (rp_slice){text.data + i + (i < text.size), 0};
    }
    rp_header_fault fault;
    rp_send_header send;
    rp_send_layout layout = {{200, 3, 2, 1, 0, 9, 5, 128}};
    if (rp_send_header_read(&command, &layout, &send, &fault) == RP_OK)
        read_all(send.properties);
    command.code = RP_CODE_SEND_MESSAGE;
    if (rp_send_header_read(&command, &layout, &send, &fault) != RP_OK)
        read_all(fault.value);
    rp_reply_header reply;
    for (int32_t code = RP_CODE_SEND_REPLY_MESSAGE; code <= RP_CODE_SEND_REPLY_MESSAGE_V2; code++) {
        command.code = code;
        if (rp_reply_header_read(&command, &reply, &fault) != RP_OK)
            read_all(fault.value);
        else
            read_all(reply.producer_group);
    }
    rp_tries_header tries;
    for (int32_t code = RP_CODE_SEND_MESSAGE; code <= RP_CODE_SEND_MESSAGE_V2; code += RP_CODE_SEND_MESSAGE_V2 - RP_CODE_SEND_MESSAGE) {
        command.code = code;
        if (rp_tries_header_read(&command, &tries, &fault) != RP_OK)
            read_all(fault.value);
        else
            read_all(tries.default_topic);
    }
    rp_send_back_header back;
    if (rp_send_back_header_read(&command, &back, &fault) == RP_OK)
        read_all(back.group);
    rp_pull_header pull;
    if (rp_pull_header_read(&command, &pull, &fault) == RP_OK)
        read_all(pull.group);
    rp_offset_header offset;
    if (rp_offset_header_read(&command, &offset, &fault) == RP_OK)
        read_all(offset.topic);
}

static void try_writer(rp_slice text, rp_arena *arena, uint8_t serialize_type) {
    uint8_t *frame = malloc(RP_RESPONSE_SIZE_BASE + RP_RESPONSE_TEXT_FACTOR * 2 * (size_t)text.size);
    demand(frame != NULL);
    rp_response_writer writer;
    rp_response_begin(&writer, frame, serialize_type, RP_OK, -1, text);
    RP_RESPONSE_TEXT(&writer, "text", text);
    RP_RESPONSE_NUMBER(&writer, "number", (int64_t)text.size);
    uint32_t size = rp_response_end(&writer, 0);
    rp_command command;
    demand(rp_command_decode(frame, size, arena, &command, NULL) == RP_OK);
    rp_slice value = rp_command_field(&command, "text");
    demand(value.size == text.size && (text.size == 0 || memcmp(value.data, text.data, text.size) == 0));
    demand(command.remark.size == text.size);
    free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > 1 << 16)
        return 0;
    rp_arena *arena = rp_arena_create(1 << 12, 1 << 26);
    uint8_t *exact = malloc(size - 1);
    demand(arena != NULL && exact != NULL);
    memcpy(exact, data + 1, size - 1);
    rp_slice text = {exact, (uint32_t)size - 1};
    switch (data[0] % 7) {
    case 0:
        try_properties(text, arena);
        break;
    case 1:
        try_tags(text, arena);
        break;
    case 2:
        try_batch(text);
        break;
    case 3:
        try_headers(text);
        break;
    case 6:
        try_sql(text, arena);
        break;
    default:
        try_writer(text, arena, data[0] % 7 == 4 ? RP_SERIALIZE_JSON : RP_SERIALIZE_ROCKETMQ);
        break;
    }
    free(exact);
    rp_arena_destroy(arena);
    return 0;
}
