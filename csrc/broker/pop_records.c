/* pop_records.c: see pop_records.h; batch acks are read in pop_batch_acks.c. */
#include "pop_records.h"

#include <stdbool.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/java_number.h"
#include "../base/slice_inl.h"
#include "../remoting/json_reader.h"
#include "property_text.h"
#include "response_writer_inl.h"

#define NUMBER_ROOM 21u      /* digits, sign, comma */
#define RECORD_ROOM 512u     /* names of members and properties, and all single numbers */
#define NAME_ROOM_FACTOR 7u  /* for each byte of a name: six in JSON, one in the key */

/* ---- written ---- */

typedef struct record_writer {
    uint8_t *at;
    bool is_first;
} record_writer;

static uint8_t *put_text(uint8_t *at, const char *text) {
    size_t size = strlen(text);
    memcpy(at, text, size);
    return at + size;
}

/* Escapes as fastjson 1 does: the short forms, else upper-case digits. */
static uint8_t *put_escaped(uint8_t *at, rp_slice text) {
    static const char hex[] = "0123456789ABCDEF";
    static const char short_forms[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    for (uint32_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (byte == '"' || byte == '\\' || (byte < 0x20 && short_forms[byte] != 0)) {
            *at++ = '\\';
            *at++ = byte < 0x20 ? (uint8_t)short_forms[byte] : byte;
        } else if (byte < 0x20 || byte == 0x7F) {
            at = put_text(at, "\\u00");
            *at++ = (uint8_t)hex[byte >> 4];
            *at++ = (uint8_t)hex[byte & 15];
        } else {
            *at++ = byte;
        }
    }
    return at;
}

static void put_member(record_writer *writer, const char *name) {
    *writer->at++ = writer->is_first ? '{' : ',';
    writer->is_first = false;
    *writer->at++ = '"';
    writer->at = put_text(writer->at, name);
    writer->at = put_text(writer->at, "\":");
}

static void put_number(record_writer *writer, const char *name, int64_t number) {
    put_member(writer, name);
    writer->at = rp_decimal(writer->at, number);
}

/* Leaves a null out, as Java does. */
static void put_name(record_writer *writer, const char *name, rp_slice value) {
    if (value.data == NULL)
        return;
    put_member(writer, name);
    *writer->at++ = '"';
    writer->at = put_escaped(writer->at, value);
    *writer->at++ = '"';
}

/* Writes a part of the key. The broker's name comes from a client, so it must not be able to begin a property. */
static uint8_t *put_key_part(uint8_t *at, rp_slice part) {
    if (part.data == NULL)
        return put_text(at, "null@");
    for (uint32_t i = 0; i < part.size; i++)
        *at++ = part.data[i] <= RP_PROPERTY_VALUE_END ? '?' : part.data[i];
    *at++ = '@';
    return at;
}

static uint8_t *put_key_number(uint8_t *at, int64_t number) {
    at = rp_decimal(at, number);
    *at++ = '@';
    return at;
}

typedef struct record_key {
    rp_slice topic, group, broker_name;
    int64_t queue_id, offset, pop_time_ms;
    const char *kind;
} record_key;

static void put_properties(uint8_t *at, const char *tag, const record_key *key, int64_t now_ms, rp_pop_record *record) {
    uint8_t *start = at;
    rp_slice tags = {(const uint8_t *)tag, (uint32_t)strlen(tag)};
    at = rp_put_pair(at, "TAGS", tags);
    at = rp_put_number_pair(at, "TIMER_DELIVER_MS", now_ms);
    at = put_text(at, "UNIQ_KEY\1");
    at = put_key_part(at, key->topic);
    at = put_key_number(at, key->queue_id);
    at = put_key_number(at, key->offset);
    at = put_key_part(at, key->group);
    at = put_key_number(at, key->pop_time_ms);
    at = put_key_part(at, key->broker_name);
    at = put_text(at, key->kind);
    *at++ = RP_PROPERTY_VALUE_END;
    record->properties = (rp_slice){start, (uint32_t)(at - start)};
    record->tags_code = rp_hash_java(tags.data, tags.size);
}

static void end_body(record_writer *writer, uint8_t *room, rp_pop_record *record) {
    *writer->at++ = '}';
    record->body = (rp_slice){room, (uint32_t)(writer->at - room)};
}

uint32_t rp_pop_checkpoint_room(const rp_pop_checkpoint *checkpoint) {
    uint32_t names = checkpoint->topic.size + checkpoint->group.size + checkpoint->broker_name.size;
    return RECORD_ROOM + names * NAME_ROOM_FACTOR + checkpoint->diff_count * NUMBER_ROOM;
}

/* popTime + invisibleTime, with Java's wrap-around. */
static int64_t revive_time(const rp_pop_checkpoint *checkpoint) {
    return (int64_t)((uint64_t)checkpoint->pop_time_ms + (uint64_t)checkpoint->invisible_ms);
}

static void put_list(record_writer *writer, const char *name) {
    put_member(writer, name);
    *writer->at++ = '[';
}

static void put_element(record_writer *writer, uint32_t index, int64_t number) {
    if (index > 0)
        *writer->at++ = ',';
    writer->at = rp_decimal(writer->at, number);
}

void rp_pop_checkpoint_write(const rp_pop_checkpoint *checkpoint, int64_t now_ms, uint8_t *room, rp_pop_record *record) {
    record_writer writer = {room, true};
    record_key key = {checkpoint->topic,       checkpoint->group, checkpoint->broker_name, checkpoint->queue_id, checkpoint->start_offset,
                      checkpoint->pop_time_ms, RP_POP_CK_TAG};
    put_number(&writer, "bm", checkpoint->bits);
    put_name(&writer, "bn", checkpoint->broker_name);
    put_name(&writer, "c", checkpoint->group);
    if (checkpoint->diff_count > 0) {
        put_list(&writer, "d");
        for (uint32_t i = 0; i < checkpoint->diff_count; i++)
            put_element(&writer, i, checkpoint->diffs[i]);
        *writer.at++ = ']';
    }
    put_number(&writer, "it", checkpoint->invisible_ms);
    put_number(&writer, "n", checkpoint->count);
    put_number(&writer, "pt", checkpoint->pop_time_ms);
    put_number(&writer, "q", checkpoint->queue_id);
    put_number(&writer, "reviveTime", revive_time(checkpoint));
    put_number(&writer, "ro", checkpoint->revive_offset);
    if (checkpoint->re_puts > 0) {
        put_member(&writer, "rp");
        *writer.at++ = '"';
        writer.at = rp_decimal(writer.at, checkpoint->re_puts);
        *writer.at++ = '"';
    }
    put_number(&writer, "so", checkpoint->start_offset);
    put_name(&writer, "t", checkpoint->topic);
    end_body(&writer, room, record);
    put_properties(writer.at, RP_POP_CK_TAG, &key, now_ms, record);
}

uint32_t rp_pop_ack_room(const rp_pop_ack *ack) {
    uint32_t names = ack->topic.size + ack->group.size + ack->broker_name.size;
    return RECORD_ROOM + names * NAME_ROOM_FACTOR + ack->offset_count * NUMBER_ROOM;
}

void rp_pop_ack_write(const rp_pop_ack *ack, int64_t now_ms, uint8_t *room, rp_pop_record *record) {
    record_writer writer = {room, true};
    int64_t offset = ack->is_batch ? -1 : ack->offsets[0];
    record_key key = {ack->topic, ack->group, ack->broker_name, ack->queue_id, offset, ack->pop_time_ms, RP_POP_ACK_TAG};
    put_number(&writer, "ao", offset);
    if (ack->is_batch) {
        put_list(&writer, "aol");
        for (uint32_t i = 0; i < ack->offset_count; i++)
            put_element(&writer, i, ack->offsets[i]);
        *writer.at++ = ']';
    }
    put_name(&writer, "bn", ack->broker_name);
    put_name(&writer, "c", ack->group);
    put_number(&writer, "pt", ack->pop_time_ms);
    put_number(&writer, "q", ack->queue_id);
    put_number(&writer, "so", ack->start_offset);
    put_name(&writer, "t", ack->topic);
    end_body(&writer, room, record);
    put_properties(writer.at, ack->is_batch ? RP_POP_BATCH_ACK_TAG : RP_POP_ACK_TAG, &key, now_ms, record);
}

/* ---- read ---- */

static int pass(rp_json *json) {
    rp_slice text;
    return rp_json_read(json, &text);
}

static int read_count(rp_json *json, uint32_t *count) {
    int64_t number;
    int status = rp_json_read_i64(json, &number);
    if (status != RP_OK || number < 0)
        return RP_E_PROTOCOL;
    *count = (uint32_t)(number < RP_POP_MESSAGES_MAX ? number : RP_POP_MESSAGES_MAX);
    return number <= RP_POP_MESSAGES_MAX ? RP_OK : RP_E_TOO_LARGE;
}

static int read_re_puts(rp_json *json, int32_t *re_puts) {
    rp_slice text;
    int64_t number;
    int status = rp_json_read(json, &text);
    if (status != RP_OK)
        return status;
    bool is_known = text.data == NULL || rp_java_integer(text, 0, RP_POP_RE_PUTS_MAX, &number);
    *re_puts = text.data == NULL ? 0 : is_known ? (int32_t)number : RP_POP_RE_PUTS_MAX;
    return RP_OK;
}

static int read_diffs(rp_json *json, rp_pop_checkpoint *checkpoint) {
    checkpoint->diff_count = 0;
    int more = rp_json_enter(json, '[');
    if (more != RP_OK)
        return more == RP_E_NOT_FOUND ? RP_OK : more;
    while ((more = rp_json_next_element(json)) > 0) {
        if (checkpoint->diff_count == RP_POP_MESSAGES_MAX)
            return RP_E_TOO_LARGE;
        int status = rp_json_read_i32(json, &checkpoint->diffs[checkpoint->diff_count++]);
        if (status != RP_OK)
            return status;
    }
    return more;
}

static int read_checkpoint_member(rp_json *json, rp_slice name, rp_pop_checkpoint *checkpoint) {
    return rp_slice_is(name, "so")   ? rp_json_read_i64(json, &checkpoint->start_offset)
           : rp_slice_is(name, "pt") ? rp_json_read_i64(json, &checkpoint->pop_time_ms)
           : rp_slice_is(name, "it") ? rp_json_read_i64(json, &checkpoint->invisible_ms)
           : rp_slice_is(name, "bm") ? rp_json_read_i32(json, &checkpoint->bits)
           : rp_slice_is(name, "n")  ? read_count(json, &checkpoint->count)
           : rp_slice_is(name, "q")  ? rp_json_read_i32(json, &checkpoint->queue_id)
           : rp_slice_is(name, "t")  ? rp_json_read(json, &checkpoint->topic)
           : rp_slice_is(name, "c")  ? rp_json_read(json, &checkpoint->group)
           : rp_slice_is(name, "ro") ? rp_json_read_i64(json, &checkpoint->revive_offset)
           : rp_slice_is(name, "d")  ? read_diffs(json, checkpoint)
           : rp_slice_is(name, "bn") ? rp_json_read(json, &checkpoint->broker_name)
           : rp_slice_is(name, "rp") ? read_re_puts(json, &checkpoint->re_puts)
                                     : pass(json);
}

int rp_pop_checkpoint_read(rp_slice body, rp_arena *arena, rp_pop_checkpoint *checkpoint) {
    rp_json json = rp_json_of(body, arena);
    rp_slice name;
    *checkpoint = (rp_pop_checkpoint){0};
    if (rp_json_enter(&json, '{') != RP_OK)
        return RP_E_PROTOCOL;
    int more;
    while ((more = rp_json_next_member(&json, &name)) > 0) {
        int status = read_checkpoint_member(&json, name, checkpoint);
        if (status != RP_OK)
            return status;
    }
    if (more < 0)
        return more;
    bool is_whole = checkpoint->topic.size > 0 && checkpoint->group.size > 0 &&
                    (checkpoint->diff_count == 0 || checkpoint->diff_count >= checkpoint->count);
    return is_whole ? RP_OK : RP_E_PROTOCOL;
}

static int read_offsets(rp_json *json, rp_arena *arena, rp_pop_ack *ack) {
    ack->offset_count = 0;
    int status = rp_json_enter(json, '[');
    if (status != RP_OK)
        return status == RP_E_NOT_FOUND ? RP_OK : status;
    int64_t count = rp_json_count_elements(json, RP_POP_ACKS_MAX);
    if (count < 0)
        return (int)count;
    int64_t *offsets = rp_arena_take(arena, (size_t)count * sizeof *offsets + 1);
    if (offsets == NULL)
        return RP_E_NO_MEMORY;
    ack->offsets = offsets;
    for (; status == RP_OK && ack->offset_count < (uint32_t)count; ack->offset_count++)
        status = rp_json_next_element(json) > 0 ? rp_json_read_i64(json, &offsets[ack->offset_count]) : RP_E_PROTOCOL;
    return status == RP_OK && rp_json_next_element(json) != 0 ? RP_E_PROTOCOL : status;
}

static int read_offset(rp_json *json, rp_arena *arena, rp_pop_ack *ack) {
    int64_t *offset = rp_arena_take(arena, sizeof *offset);
    if (offset == NULL)
        return RP_E_NO_MEMORY;
    ack->offsets = offset;
    ack->offset_count = 1;
    return rp_json_read_i64(json, offset);
}

static int read_ack_member(rp_json *json, rp_slice name, rp_arena *arena, rp_pop_ack *ack) {
    return rp_json_is_either(name, "so", "startOffset")                       ? rp_json_read_i64(json, &ack->start_offset)
           : rp_json_is_either(name, "pt", "popTime")                         ? rp_json_read_i64(json, &ack->pop_time_ms)
           : rp_json_is_either(name, "q", "queueId")                          ? rp_json_read_i32(json, &ack->queue_id)
           : rp_json_is_either(name, "t", "topic")                            ? rp_json_read(json, &ack->topic)
           : rp_json_is_either(name, "c", "consumerGroup")                    ? rp_json_read(json, &ack->group)
           : rp_json_is_either(name, "bn", "brokerName")                      ? rp_json_read(json, &ack->broker_name)
           : !ack->is_batch && rp_json_is_either(name, "ao", "ackOffset")     ? read_offset(json, arena, ack)
           : ack->is_batch && rp_json_is_either(name, "aol", "ackOffsetList") ? read_offsets(json, arena, ack)
                                                                              : pass(json);
}

int rp_pop_ack_read(rp_slice body, int is_batch, rp_arena *arena, rp_pop_ack *ack) {
    rp_json json = rp_json_of(body, arena);
    rp_slice name;
    *ack = (rp_pop_ack){.is_batch = is_batch};
    if (rp_json_enter(&json, '{') != RP_OK)
        return RP_E_PROTOCOL;
    int more;
    while ((more = rp_json_next_member(&json, &name)) > 0) {
        int status = read_ack_member(&json, name, arena, ack);
        if (status != RP_OK)
            return status;
    }
    if (more < 0)
        return more;
    return ack->topic.size > 0 && ack->group.size > 0 && ack->offset_count > 0 ? RP_OK : RP_E_PROTOCOL;
}

/* ---- messages of a checkpoint ---- */

int64_t rp_pop_checkpoint_offset(const rp_pop_checkpoint *checkpoint, uint32_t index) {
    int64_t diff = checkpoint->diff_count > 0 ? checkpoint->diffs[index] : (int64_t)index, offset;
    return __builtin_add_overflow(checkpoint->start_offset, diff, &offset) ? -1 : offset;
}

int32_t rp_pop_checkpoint_index(const rp_pop_checkpoint *checkpoint, int64_t offset) {
    for (uint32_t i = 0; i < checkpoint->count; i++) {
        if (rp_pop_checkpoint_offset(checkpoint, i) == offset)
            return offset >= 0 ? (int32_t)i : -1;
    }
    return -1;
}
