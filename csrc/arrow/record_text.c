/* record_text.c: see record_text.h. */
#include "record_text.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../base/hex_inl.h"
#include "../base/utf8_inl.h"

#define NAME_END 1
#define PAIR_END 2

int rp_properties_next(rp_slice *properties, rp_slice *name, rp_slice *value) {
    while (properties->size > 0) {
        const uint8_t *end = memchr(properties->data, PAIR_END, properties->size);
        uint32_t size = end == NULL ? properties->size : (uint32_t)(end - properties->data);
        const uint8_t *start = properties->data;
        uint32_t used = end == NULL ? size : size + 1;
        properties->data += used;
        properties->size -= used;
        const uint8_t *split = memchr(start, NAME_END, size);
        if (split == NULL)
            continue;
        *name = (rp_slice){start, (uint32_t)(split - start)};
        *value = (rp_slice){split + 1, size - name->size - 1};
        return 1;
    }
    return 0;
}

static int is_name(rp_slice name, const char *wanted, uint32_t size) { return name.size == size && memcmp(name.data, wanted, size) == 0; }

static void note_name(rp_record_names *names, rp_slice name, rp_slice value) {
    if (value.size == 0)
        return;
    if (is_name(name, "TAGS", 4))
        names->tags = value;
    else if (is_name(name, "KEYS", 4))
        names->keys = value;
    else if (is_name(name, "UNIQ_KEY", 8))
        names->unique_key = value;
}

void rp_record_names_find(rp_record_names *names, rp_slice properties) {
    rp_slice name, value;
    *names = (rp_record_names){.tags = {NULL, 0}};
    while (rp_properties_next(&properties, &name, &value))
        note_name(names, name, value);
}

static int is_ascii(const uint8_t *data, uint32_t size) {
    uint64_t seen = 0, word;
    for (; size >= sizeof word; data += sizeof word, size -= sizeof word) {
        memcpy(&word, data, sizeof word);
        seen |= word;
    }
    while (size-- > 0)
        seen |= *data++;
    return (seen & UINT64_C(0x8080808080808080)) == 0;
}

int rp_text_is_utf8(rp_slice text) {
    if (is_ascii(text.data, text.size))
        return 1;
    int is_whole = 1;
    for (uint32_t at = 0; at < text.size && is_whole;)
        at += rp_utf8_next(text.data + at, text.size - at, &is_whole);
    return is_whole;
}

/* Copies the character at data, or writes U+FFFD for bytes that are not one. *used: how many bytes it took. */
static uint8_t *put_character(uint8_t *out, const uint8_t *data, uint32_t left, uint32_t *used) {
    int is_whole;
    *used = rp_utf8_next(data, left, &is_whole);
    uint32_t size = is_whole ? *used : 3;
    memcpy(out, is_whole ? data : (const uint8_t *)"\xEF\xBF\xBD", size);
    return out + size;
}

uint32_t rp_text_mend(rp_slice text, uint8_t *mended) {
    uint8_t *out = mended;
    for (uint32_t at = 0, used; at < text.size; at += used)
        out = put_character(out, text.data + at, text.size - at, &used);
    return (uint32_t)(out - mended);
}

/* Bytes that may stand unescaped in a JSON string, and are whole characters. */
static int is_plain(uint8_t c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

/* As put_character, but escaped where JSON requires it. */
static uint8_t *put_json_character(uint8_t *out, const uint8_t *data, uint32_t left, uint32_t *used) {
    static const char HEX[] = "0123456789abcdef";
    uint8_t c = data[0];
    *used = 1;
    if (c == '"' || c == '\\') {
        *out++ = '\\';
        *out++ = c;
        return out;
    }
    if (c < 0x20) {
        memcpy(out, "\\u00", 4);
        out[4] = (uint8_t)HEX[c >> 4];
        out[5] = (uint8_t)HEX[c & 15];
        return out + 6;
    }
    return put_character(out, data, left, used);
}

/* Marks those of eight bytes that are not plain, by their top bits. Above the lowest of them, other bytes may be marked wrongly. */
static uint64_t mark_special(uint64_t x) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t quote = x ^ ones * '"', backslash = x ^ ones * '\\';
    return (x | (x - ones * 0x20) | (quote - ones) | (backslash - ones)) & tops;
}

/* Copies up to the first byte that is not plain, or to the end. May write up to eight bytes more than it reports, as long as eight bytes
 * are left to read. */
static uint8_t *copy_plain(uint8_t *out, const uint8_t **data, const uint8_t *end) {
    const uint8_t *at = *data;
    uint64_t special = 0;
    while (special == 0 && end - at >= (ptrdiff_t)sizeof special) {
        memcpy(out, at, sizeof special);
        uint64_t word;
        memcpy(&word, at, sizeof word);
        special = mark_special(le64toh(word));
        int plain = special == 0 ? 8 : __builtin_ctzll(special) / 8;
        out += plain;
        at += plain;
    }
    while (special == 0 && at < end && is_plain(*at))
        *out++ = *at++;
    *data = at;
    return out;
}

uint32_t rp_properties_to_json(rp_slice properties, uint8_t *json, rp_record_names *names) {
    const uint8_t *at = properties.data, *end = at + properties.size;
    uint8_t *out = json;
    *names = (rp_record_names){.tags = {NULL, 0}};
    *out++ = '{';
    while (at < end) {
        uint8_t *before = out;
        const uint8_t *start = at, *split = NULL;
        if (out[-1] != '{')
            *out++ = ',';
        *out++ = '"';
        while ((out = copy_plain(out, &at, end)), at < end && *at != PAIR_END) {
            if (*at == NAME_END && split == NULL) {
                split = at++;
                memcpy(out, "\":\"", 3);
                out += 3;
                continue;
            }
            uint32_t used;
            out = put_json_character(out, at, (uint32_t)(end - at), &used);
            at += used;
        }
        *out++ = '"';
        if (split == NULL)
            out = before; /* not a pair: it has no name */
        else
            note_name(names, (rp_slice){start, (uint32_t)(split - start)}, (rp_slice){split + 1, (uint32_t)(at - split - 1)});
        at += at < end;
    }
    *out++ = '}';
    return (uint32_t)(out - json);
}

uint32_t rp_host_to_text(rp_slice host, char text[RP_HOST_TEXT_MAX]) {
    char address[INET6_ADDRSTRLEN];
    if (host.size != 8 && host.size != 20)
        return 0;
    int is_v6 = host.size == 20;
    inet_ntop(is_v6 ? AF_INET6 : AF_INET, host.data, address, sizeof address);
    uint32_t port = rp_get_u32(host.data + host.size - 4);
    return (uint32_t)snprintf(text, RP_HOST_TEXT_MAX, is_v6 ? "[%s]:%u" : "%s:%u", address, port);
}

uint32_t rp_offset_msg_id(rp_slice store_host, int64_t commit_log_offset, uint8_t id[RP_OFFSET_MSG_ID_MAX]) {
    static const uint8_t nowhere[8] = {0};
    rp_slice host = store_host.size == 8 || store_host.size == 20 ? store_host : (rp_slice){nowhere, sizeof nowhere};
    uint8_t *end = id;
    for (uint32_t at = 0; at < host.size; at += 4)
        end = rp_put_hex_u32(end, rp_get_u32(host.data + at));
    return (uint32_t)(rp_put_hex_u64(end, (uint64_t)commit_log_offset) - id);
}
