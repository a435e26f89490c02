/* metadata.c: see metadata.h. */
#include "metadata.h"

#include <string.h>

#include "../base/clock_inl.h"

#define TIMEOUT_DIGITS 8u
#define CONTENT_TYPE "application/grpc"

static bool begins_with(rp_slice text, const char *head) {
    size_t size = strlen(head);
    return text.size >= size && memcmp(text.data, head, size) == 0;
}

static bool equals(rp_slice text, const char *other) { return text.size == strlen(other) && begins_with(text, other); }

static int64_t unit_ns(uint8_t unit) {
    switch (unit) {
    case 'H':
        return 3600 * RP_NS_PER_S;
    case 'M':
        return 60 * RP_NS_PER_S;
    case 'S':
        return RP_NS_PER_S;
    case 'm':
        return RP_NS_PER_MS;
    case 'u':
        return 1000;
    case 'n':
        return 1;
    default:
        return -1;
    }
}

/* 99,999,999 hours exceed 64 bits of ns. */
int64_t rp_grpc_timeout_ns(rp_slice text) {
    if (text.size < 2 || text.size > TIMEOUT_DIGITS + 1) {
        return -1;
    }
    int64_t count = 0, unit = unit_ns(text.data[text.size - 1]);
    for (uint32_t i = 0; i + 1 < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return -1;
        }
        count = count * 10 + (text.data[i] - '0');
    }
    if (unit < 0) {
        return -1;
    }
    return count > INT64_MAX / 4 / unit ? INT64_MAX / 4 : count * unit;
}

bool rp_grpc_is_content_type(rp_slice text) {
    size_t size = strlen(CONTENT_TYPE);
    return begins_with(text, CONTENT_TYPE) && (text.size == size || text.data[size] == '+' || text.data[size] == ';');
}

bool rp_grpc_is_kept(rp_slice name) {
    static const char *const others[] = {"te", "user-agent", "content-type", "content-length"};
    if (name.size == 0 || name.data[0] == ':' || begins_with(name, "grpc-") || begins_with(name, "accept")) {
        return false;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (equals(name, others[i])) {
            return false;
        }
    }
    return name.size < 4 || memcmp(name.data + name.size - 4, "-bin", 4) != 0;
}

uint32_t rp_grpc_encode_text(rp_slice text, uint8_t target[3 * RP_GRPC_TEXT_MAX]) {
    static const char digits[] = "0123456789ABCDEF";
    uint32_t size = 0, end = text.size < RP_GRPC_TEXT_MAX ? text.size : RP_GRPC_TEXT_MAX;
    while (end < text.size && end > 0 && (text.data[end] & 0xC0) == 0x80) {
        end--; /* do not cut within a character */
    }
    for (uint32_t i = 0; i < end; i++) {
        uint8_t byte = text.data[i];
        if (byte >= 0x20 && byte <= 0x7E && byte != '%') {
            target[size++] = byte;
        } else {
            target[size++] = '%';
            target[size++] = (uint8_t)digits[byte >> 4];
            target[size++] = (uint8_t)digits[byte & 15];
        }
    }
    return size;
}
