/* record_text.c: see record_text.h. */
#include "record_text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../base/hex_inl.h"

int rp_properties_next(rp_slice *properties, rp_slice *name, rp_slice *value) {
    while (properties->size > 0) {
        const uint8_t *end = memchr(properties->data, 2, properties->size);
        uint32_t size = end == NULL ? properties->size : (uint32_t)(end - properties->data);
        const uint8_t *start = properties->data;
        uint32_t used = end == NULL ? size : size + 1;
        properties->data += used;
        properties->size -= used;
        const uint8_t *split = memchr(start, 1, size);
        if (split == NULL)
            continue;
        *name = (rp_slice){start, (uint32_t)(split - start)};
        *value = (rp_slice){split + 1, size - name->size - 1};
        return 1;
    }
    return 0;
}

/* Length of the well-formed UTF-8 sequence at data, 0 when it is malformed. */
static uint32_t utf8_size(const uint8_t *data, uint32_t left) {
    uint8_t lead = data[0];
    uint32_t size = lead < 0x80                   ? 1
                    : lead >= 0xC2 && lead < 0xE0 ? 2
                    : lead >= 0xE0 && lead < 0xF0 ? 3
                    : lead >= 0xF0 && lead < 0xF5 ? 4
                                                  : 0;
    if (size == 0 || size > left)
        return 0;
    for (uint32_t i = 1; i < size; i++)
        if ((data[i] & 0xC0) != 0x80)
            return 0;
    if (lead == 0xE0 && data[1] < 0xA0)
        return 0;
    if (lead == 0xED && data[1] > 0x9F)
        return 0; /* a lone surrogate */
    if (lead == 0xF0 && data[1] < 0x90)
        return 0;
    if (lead == 0xF4 && data[1] > 0x8F)
        return 0;
    return size;
}

/* Bytes that stand in a JSON string as they are, and are whole characters. */
static int is_plain(uint8_t c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

/* The character at data, escaped or as it is; bytes that are none become U+FFFD. *used says how many bytes it has. */
static uint8_t *put_json_character(uint8_t *out, const uint8_t *data, uint32_t left, uint32_t *used) {
    static const char HEX[] = "0123456789abcdef";
    uint8_t c = data[0];
    uint32_t size = utf8_size(data, left);
    *used = size == 0 ? 1 : size;
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
    if (size == 0) {
        memcpy(out, "\xEF\xBF\xBD", 3);
        return out + 3;
    }
    memcpy(out, data, size);
    return out + size;
}

/* Whether all of eight bytes are plain. Each test leaves the top bit of a byte that fails it, or of one behind such a byte. */
static int are_plain(uint64_t x) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t quote = x ^ ones * '"', backslash = x ^ ones * '\\';
    return ((x | (x - ones * 0x20) | (quote - ones) | (backslash - ones)) & tops) == 0;
}

static uint8_t *put_json_string(uint8_t *out, rp_slice text) {
    *out++ = '"';
    for (uint32_t i = 0; i < text.size;) {
        uint32_t used = 0;
        uint64_t word;
        while (text.size - i >= sizeof word && (memcpy(&word, text.data + i, sizeof word), are_plain(word))) {
            memcpy(out, &word, sizeof word);
            out += sizeof word;
            i += sizeof word;
        }
        while (i < text.size && is_plain(text.data[i]))
            *out++ = text.data[i++];
        if (i < text.size)
            out = put_json_character(out, text.data + i, text.size - i, &used);
        i += used;
    }
    *out++ = '"';
    return out;
}

uint32_t rp_properties_to_json(rp_slice properties, uint8_t *json) {
    uint8_t *out = json;
    rp_slice name, value;
    *out++ = '{';
    while (rp_properties_next(&properties, &name, &value)) {
        if (out[-1] != '{')
            *out++ = ',';
        out = put_json_string(out, name);
        *out++ = ':';
        out = put_json_string(out, value);
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
