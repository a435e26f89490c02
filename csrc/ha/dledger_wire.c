/* dledger_wire.c: see dledger_wire.h. */
#include "dledger_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/error.h"
#include "../remoting/json_reader.h"

static int is_named(rp_slice name, const char *text) { return name.size == strlen(text) && memcmp(name.data, text, name.size) == 0; }

typedef struct number_field {
    const char *name;
    int64_t *number;
} number_field;

/* Reads the member if it is one of the fields; 1: it is not. */
static int read_number(rp_json *json, rp_slice name, const number_field *fields, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (is_named(name, fields[i].name)) {
            return rp_json_read_i64(json, fields[i].number);
        }
    }
    return 1;
}

static int skip(rp_json *json) {
    rp_slice unused;
    return rp_json_read(json, &unused);
}

/* Indexed by rp_push_type. */
static const char *const type_names[] = {"APPEND", "COMMIT", "COMPARE", "TRUNCATE"};
#define TYPE_COUNT ((int32_t)(sizeof type_names / sizeof *type_names))

static int fits_32(int64_t number) { return number >= INT32_MIN && number <= INT32_MAX; }

static int read_entry(rp_json *json, rp_push_entry *entry) {
    int64_t magic = 0, size = -1, channel = 0, chain_crc = 0, body_crc = 0;
    rp_ledger_entry *head = &entry->head;
    *entry = (rp_push_entry){.head = {.index = -1, .term = -1, .position = -1}};
    const number_field fields[] = {{"magic", &magic},        {"size", &size},       {"index", &head->index},  {"term", &head->term},
                                   {"pos", &head->position}, {"channel", &channel}, {"chainCrc", &chain_crc}, {"bodyCrc", &body_crc}};
    rp_slice name;
    int rc = rp_json_enter(json, '{');
    while (rc == RP_OK && (rc = rp_json_next_member(json, &name)) == 1) {
        rc = is_named(name, "body") ? rp_json_read_text(json, &entry->body)
                                    : read_number(json, name, fields, sizeof fields / sizeof *fields);
        rc = rc == 1 ? skip(json) : rc;
    }
    if (rc != RP_OK) {
        return rc == RP_E_NO_MEMORY ? rc : RP_E_PROTOCOL;
    }
    int64_t body = rp_base64_decoded_size(entry->body.data, entry->body.size);
    if (magic != RP_LEDGER_MAGIC || body <= 0 || body > INT32_MAX - RP_LEDGER_HEAD_SIZE || size != body + RP_LEDGER_HEAD_SIZE ||
        head->index < 0 || head->term < 0 || head->position < 0 || head->position > INT64_MAX / 2 || !fits_32(channel) ||
        !fits_32(chain_crc) || !fits_32(body_crc)) {
        return RP_E_PROTOCOL;
    }
    head->size = (uint32_t)size;
    head->channel = (int32_t)channel;
    head->chain_crc = (int32_t)chain_crc;
    head->body_crc = (int32_t)body_crc;
    return RP_OK;
}

static int read_one(rp_json *json, rp_arena *arena, rp_push_request *request) {
    rp_json ahead = *json;
    int rc = rp_json_enter(&ahead, '{');
    if (rc == RP_E_NOT_FOUND) { /* null */
        *json = ahead;
        return RP_OK;
    }
    rp_push_entry *entry = rp_arena_take(arena, sizeof *entry);
    rc = entry == NULL ? RP_E_NO_MEMORY : read_entry(json, entry);
    if (rc == RP_OK && request->entry_count == 0) {
        request->entries = entry;
        request->entry_count = 1;
    }
    return rc;
}

static int read_batch(rp_json *json, rp_arena *arena, rp_push_request *request) {
    int rc = rp_json_enter(json, '[');
    if (rc == RP_E_NOT_FOUND) {
        return RP_OK;
    }
    int64_t count = rc == RP_OK ? rp_json_count_elements(json, RP_PUSH_ENTRIES_MAX) : rc;
    if (count < 0) {
        return (int)count;
    }
    rp_push_entry *entries = rp_arena_take(arena, (size_t)(count + 1) * sizeof *entries);
    if (entries == NULL) {
        return RP_E_NO_MEMORY;
    }
    uint32_t read = 0;
    while ((rc = rp_json_next_element(json)) == 1 && read < count) {
        rc = read_entry(json, &entries[read]);
        if (rc != RP_OK) {
            return rc;
        }
        read++;
    }
    if (rc == RP_OK && read > 0) { /* fastjson writes an empty list beside a single entry */
        request->entries = entries;
        request->entry_count = read;
    }
    return rc == 1 ? RP_E_PROTOCOL : rc;
}

static int read_type(rp_json *json, int32_t *type) {
    rp_slice text;
    int rc = rp_json_read_text(json, &text);
    for (int32_t i = 0; rc == RP_OK && i < TYPE_COUNT; i++) {
        if (is_named(text, type_names[i])) {
            *type = i;
            return RP_OK;
        }
    }
    return rc == RP_OK ? RP_E_PROTOCOL : rc;
}

int rp_push_request_read(rp_slice text, rp_arena *arena, rp_push_request *request) {
    rp_json json = rp_json_of(text, arena);
    *request = (rp_push_request){.term = -1, .commit_index = -1};
    const number_field fields[] = {{"term", &request->term}, {"commitIndex", &request->commit_index}};
    rp_slice name;
    int rc = rp_json_enter(&json, '{');
    while (rc == RP_OK && (rc = rp_json_next_member(&json, &name)) == 1) {
        rc = is_named(name, "group")        ? rp_json_read_text(&json, &request->group)
             : is_named(name, "remoteId")   ? rp_json_read_text(&json, &request->remote_id)
             : is_named(name, "localId")    ? rp_json_read_text(&json, &request->local_id)
             : is_named(name, "leaderId")   ? rp_json_read_text(&json, &request->leader_id)
             : is_named(name, "type")       ? read_type(&json, &request->type)
             : is_named(name, "entry")      ? read_one(&json, arena, request)
             : is_named(name, "batchEntry") ? read_batch(&json, arena, request)
                                            : read_number(&json, name, fields, sizeof fields / sizeof *fields);
        rc = rc == 1 ? skip(&json) : rc;
    }
    return rc == RP_OK || rc == RP_E_NO_MEMORY || rc == RP_E_TOO_LARGE ? rc : RP_E_PROTOCOL;
}

int rp_push_entry_decode(const rp_push_entry *entry, uint8_t *target) {
    int rc = rp_base64_decode(entry->body.data, entry->body.size, target + RP_LEDGER_HEAD_SIZE);
    rp_ledger_entry_encode(&entry->head, target);
    return rc;
}

/* ---- writing ---- */

uint32_t rp_push_begin(const rp_push_envelope *envelope, int is_batch, uint32_t entry_count, uint8_t *target) {
    int size = snprintf((char *)target, RP_PUSH_ENVELOPE_MAX,
                        "{\"group\":\"%s\",\"remoteId\":\"%s\",\"localId\":\"%s\",\"leaderId\":\"%s\",\"code\":200,\"term\":%" PRId64
                        ",\"commitIndex\":%" PRId64 ",\"type\":\"%s\"%s",
                        envelope->group, envelope->remote_id, envelope->local_id, envelope->local_id, envelope->term,
                        envelope->commit_index, type_names[envelope->type],
                        entry_count == 0 ? ""
                        : is_batch       ? ",\"batchEntry\":["
                                         : ",\"entry\":");
    return (uint32_t)size;
}

uint32_t rp_push_add(const rp_ledger_entry *entry, const uint8_t *body, int is_first, uint8_t *target) {
    uint32_t body_size = entry->size - RP_LEDGER_HEAD_SIZE;
    int size = snprintf((char *)target, RP_PUSH_ENTRY_HEAD_MAX,
                        "%s{\"magic\":1,\"size\":%" PRIu32 ",\"index\":%" PRId64 ",\"term\":%" PRId64 ",\"pos\":%" PRId64
                        ",\"channel\":%" PRId32 ",\"chainCrc\":%" PRId32 ",\"bodyCrc\":%" PRId32 ",\"body\":\"",
                        is_first ? "" : ",", entry->size, entry->index, entry->term, entry->position, entry->channel, entry->chain_crc,
                        entry->body_crc);
    rp_base64_encode(body, body_size, target + size);
    uint8_t *at = target + size + RP_BASE64_SIZE(body_size);
    *at++ = '"';
    *at++ = '}';
    return (uint32_t)(at - target);
}

uint32_t rp_push_end(int is_batch, uint8_t *target) {
    const char *text = is_batch ? "]}" : "}";
    uint32_t size = (uint32_t)strlen(text);
    memcpy(target, text, size);
    return size;
}

int rp_push_response_read(rp_slice text, rp_arena *arena, rp_push_response *response) {
    rp_json json = rp_json_of(text, arena);
    int64_t code = RP_DLEDGER_SUCCESS, count = 0;
    *response = (rp_push_response){.term = -1, .index = -1, .begin_index = -1, .end_index = -1};
    const number_field fields[] = {{"code", &code},
                                   {"count", &count},
                                   {"term", &response->term},
                                   {"index", &response->index},
                                   {"beginIndex", &response->begin_index},
                                   {"endIndex", &response->end_index}};
    rp_slice name;
    int rc = rp_json_enter(&json, '{');
    while (rc == RP_OK && (rc = rp_json_next_member(&json, &name)) == 1) {
        rc = read_number(&json, name, fields, sizeof fields / sizeof *fields);
        rc = rc == 1 ? skip(&json) : rc;
    }
    if (rc != RP_OK || !fits_32(code) || !fits_32(count)) {
        return rc == RP_E_NO_MEMORY ? rc : RP_E_PROTOCOL;
    }
    response->code = (int32_t)code;
    response->count = (int32_t)count;
    return RP_OK;
}

uint32_t rp_push_response_write(const rp_push_response *response, const char *group, uint8_t *target, uint32_t target_size) {
    int size =
        snprintf((char *)target, target_size,
                 "{\"group\":\"%s\",\"code\":%" PRId32 ",\"term\":%" PRId64 ",\"index\":%" PRId64 ",\"beginIndex\":%" PRId64
                 ",\"endIndex\":%" PRId64 ",\"count\":%" PRId32 "}",
                 group, response->code, response->term, response->index, response->begin_index, response->end_index, response->count);
    return (uint32_t)size < target_size ? (uint32_t)size : target_size - 1;
}

int rp_dledger_is_plain(const char *text, uint32_t size_max) {
    size_t size = text == NULL ? 0 : strnlen(text, size_max);
    for (size_t i = 0; i < size; i++) {
        if (text[i] < 0x20 || text[i] > 0x7E || text[i] == '"' || text[i] == '\\') {
            return 0;
        }
    }
    return size > 0 && size < size_max;
}
