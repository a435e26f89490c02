/* proxy_header.c: versions 1, a line of text, and 2, a structure, of HAProxy's PROXY protocol. Nothing allocates. */
#include "proxy_header.h"

#include <stdio.h>
#include <string.h>

#include "../base/bytes_inl.h"

#define TEXT_MAX 107u
#define TEXT_START "PROXY "
#define TEXT_START_SIZE (sizeof TEXT_START - 1)
#define BINARY_START "\r\n\r\n\0\r\nQUIT\n"
#define BINARY_START_SIZE (sizeof BINARY_START - 1)
#define BINARY_FIXED_SIZE 16u

#define COMMAND_LOCAL 0x20 /* a check by the balancer itself whether the server is alive */
#define COMMAND_PROXY 0x21
#define FAMILY_TCP4 0x11
#define FAMILY_TCP6 0x21

static int begins_with(const uint8_t *data, size_t size, const char *start, size_t start_size) {
    return memcmp(data, start, size < start_size ? size : start_size) == 0;
}

static int scan_text(const uint8_t *data, size_t size, rp_address *source) {
    char line[TEXT_MAX + 1];
    size_t looked_at = size < TEXT_MAX ? size : TEXT_MAX;
    const uint8_t *end = memchr(data, '\n', looked_at);
    if (end == NULL) {
        return size < TEXT_MAX ? 0 : RP_E_PROTOCOL;
    }
    size_t line_size = (size_t)(end - data) + 1;
    memcpy(line, data, line_size);
    line[line_size] = '\0';
    char family, text[40];
    unsigned port;
    struct sockaddr_storage address;
    uint32_t address_size;
    if (strncmp(line, TEXT_START "UNKNOWN", TEXT_START_SIZE + 7) == 0) {
        return (int)line_size;
    }
    if (sscanf(line, TEXT_START "TCP%c %39s %*39s %5u %*5u\r\n", &family, text, &port) != 3 || port > UINT16_MAX ||
        rp_address_parse(text, (uint16_t)port, &address, &address_size) != RP_OK || (address.ss_family == AF_INET6) != (family == '6')) {
        return RP_E_PROTOCOL;
    }
    rp_address_from_socket(source, &address);
    return (int)line_size;
}

static void take_source(rp_address *source, const uint8_t *addresses, uint8_t size) {
    memcpy(source->bytes, addresses, size);
    source->size = size;
    source->port = rp_get_u16(addresses + 2 * size);
}

static int scan_binary(const uint8_t *data, size_t size, rp_address *source) {
    if (size < BINARY_FIXED_SIZE) {
        return 0;
    }
    uint8_t command = data[BINARY_START_SIZE], family = data[BINARY_START_SIZE + 1];
    uint32_t rest = rp_get_u16(data + BINARY_START_SIZE + 2);
    if ((command != COMMAND_LOCAL && command != COMMAND_PROXY) || rest > RP_PROXY_HEADER_MAX - BINARY_FIXED_SIZE) {
        return RP_E_PROTOCOL;
    }
    if (size < BINARY_FIXED_SIZE + rest) {
        return 0;
    }
    uint8_t address_size = family == FAMILY_TCP4 ? 4 : family == FAMILY_TCP6 ? 16 : 0;
    if (command == COMMAND_PROXY && address_size > 0) {
        if (rest < 2u * address_size + 4) {
            return RP_E_PROTOCOL;
        }
        take_source(source, data + BINARY_FIXED_SIZE, address_size);
    }
    return (int)(BINARY_FIXED_SIZE + rest);
}

int rp_proxy_header_scan(const uint8_t *data, size_t size, rp_address *source) {
    *source = (rp_address){.size = 0};
    if (begins_with(data, size, TEXT_START, TEXT_START_SIZE)) {
        return size < TEXT_START_SIZE ? 0 : scan_text(data, size, source);
    }
    return begins_with(data, size, BINARY_START, BINARY_START_SIZE) ? scan_binary(data, size, source) : RP_E_PROTOCOL;
}

uint32_t rp_proxy_header_write(const rp_address *source, uint8_t target[RP_PROXY_HEADER_WRITTEN_MAX]) {
    uint32_t size = 2u * source->size + 4; /* addresses and ports of both ends; the second is not used */
    memset(target, 0, BINARY_FIXED_SIZE + size);
    memcpy(target, BINARY_START, BINARY_START_SIZE);
    target[12] = COMMAND_PROXY;
    target[13] = source->size == 4 ? FAMILY_TCP4 : FAMILY_TCP6;
    rp_put_u16(target + 14, (uint16_t)size);
    memcpy(target + BINARY_FIXED_SIZE, source->bytes, source->size);
    rp_put_u16(target + BINARY_FIXED_SIZE + 2u * source->size, source->port);
    return BINARY_FIXED_SIZE + size;
}
