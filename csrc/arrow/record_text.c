/* record_text.c: see record_text.h. */
#include "record_text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../base/bytes_inl.h"

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

static uint8_t *put_json_string(uint8_t *out, rp_slice text) {
    static const char HEX[] = "0123456789abcdef";
    *out++ = '"';
    for (uint32_t i = 0; i < text.size;) {
        uint8_t c = text.data[i];
        uint32_t size = utf8_size(text.data + i, text.size - i);
        if (c == '"' || c == '\\') {
            *out++ = '\\';
            *out++ = c;
        } else if (c < 0x20) {
            memcpy(out, "\\u00", 4);
            out[4] = (uint8_t)HEX[c >> 4];
            out[5] = (uint8_t)HEX[c & 15];
            out += 6;
        } else if (size == 0) {
            memcpy(out, "\xEF\xBF\xBD", 3);
            out += 3;
            size = 1;
            i += size;
            continue;
        } else {
            memcpy(out, text.data + i, size);
            out += size;
            i += size;
            continue;
        }
        i++;
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

uint32_t rp_offset_msg_id(rp_slice store_host, int64_t commit_log_offset, char id[RP_OFFSET_MSG_ID_MAX]) {
    static const char HEX[] = "0123456789ABCDEF";
    uint8_t raw[28];
    uint32_t host_size = store_host.size <= 20 ? store_host.size : 20;
    memcpy(raw, store_host.data, host_size);
    rp_put_u64(raw + host_size, (uint64_t)commit_log_offset);
    for (uint32_t i = 0; i < host_size + 8; i++) {
        id[2 * i] = HEX[raw[i] >> 4];
        id[2 * i + 1] = HEX[raw[i] & 15];
    }
    return 2 * (host_size + 8);
}
