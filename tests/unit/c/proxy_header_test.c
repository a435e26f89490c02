/* proxy_header_test.c: connections from a balancer that says who the client is (PROXY protocol). */
#include "server_harness.h"

#include "../../../csrc/remoting/proxy_header.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define SOURCE_4 "\12\1\2\3"
#define TCP4 SIGNATURE "\x21\x11\0\14" SOURCE_4 "\12\11\11\11\x15\xb3\x26\x94"
#define TCP4_AND_MORE SIGNATURE "\x21\x11\0\20" SOURCE_4 "\12\11\11\11\x15\xb3\x26\x94\4\0\1x"
#define SOURCE_6 "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
#define TCP6 SIGNATURE "\x21\x21\0\44" SOURCE_6 SOURCE_6 "\x15\xb3\x26\x94"
#define BYTES(text) {text, sizeof text - 1}

typedef struct header {
    const char *bytes;
    size_t size;
    const char *client; /* NULL: it names none */
} header;

static const header good[] = {
    {"PROXY TCP4 10.1.2.3 10.9.9.9 5555 9876\r\n", 40, "10.1.2.3:5555"},
    {"PROXY TCP6 2001:db8::1 2001:db8::2 5555 9876\r\n", 46, "[2001:db8::1]:5555"},
    {"PROXY UNKNOWN\r\n", 15, NULL},
    {TCP4, sizeof TCP4 - 1, "10.1.2.3:5555"},
    {TCP4_AND_MORE, sizeof TCP4_AND_MORE - 1, "10.1.2.3:5555"},
    {TCP6, sizeof TCP6 - 1, "[2001:db8::1]:5555"},
    {SIGNATURE "\x20\0\0\0", 16, NULL},
    {SIGNATURE "\x21\x31\0\2ab", 18, NULL},
};

static void a_header_is_known_when_it_is_whole(void) {
    for (size_t index = 0; index < sizeof good / sizeof good[0]; index++) {
        rp_address source;
        for (size_t size = 0; size < good[index].size; size++) {
            CHECK(rp_proxy_header_scan((const uint8_t *)good[index].bytes, size, &source) == 0);
        }
        CHECK(rp_proxy_header_scan((const uint8_t *)good[index].bytes, good[index].size, &source) == (int)good[index].size);
        char text[RP_ADDRESS_TEXT_MAX] = "";
        if (source.size > 0) {
            rp_address_text(&source, text);
        }
        CHECK(strcmp(text, good[index].client != NULL ? good[index].client : "") == 0);
    }
}

static void what_is_none_is_refused_without_waiting_for_more(void) {
    static const struct {
        const char *bytes;
        size_t size;
    } bad[] = {
        BYTES("\0\0\0\100"),
        BYTES("POST"),
        BYTES("PROXY TCP4 10.1.2.3 10.9.9.9 65536 1\r\n"),
        BYTES("PROXY TCP4 2001:db8::1 2001:db8::2 1 1\r\n"),
        BYTES("PROXY TCP4 balancer 10.9.9.9 1 1\r\n"),
        BYTES("PROXY \0\r\n"),
        BYTES("PROXY UNKNOWN 3456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"),
        BYTES(SIGNATURE "\x11\x11\0\14"),
        BYTES(SIGNATURE "\x22\x11\0\14"),
        BYTES(SIGNATURE "\x21\x11\0\13" SOURCE_4 "\12\11\11\11\x15\xb3\x26"),
        BYTES(SIGNATURE "\x21\x11\xff\xff"),
    };
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        rp_address source;
        CHECK(rp_proxy_header_scan((const uint8_t *)bad[index].bytes, bad[index].size, &source) == RP_E_PROTOCOL);
    }
}

static void damaged_headers_are_judged_by_their_own_bytes(void) {
    uint32_t seed = 54321;
    printf("seed %u\n", seed);
    for (int round = 0; round < 20000; round++) {
        const header *whole = &good[(unsigned)round % (sizeof good / sizeof good[0])];
        seed = seed * 1664525 + 1013904223;
        size_t size = 1 + (seed >> 8) % whole->size;
        uint8_t *bytes = malloc(size); /* of its own, so that a sanitizer sees a look behind the end */
        CHECK(bytes != NULL);
        memcpy(bytes, whole->bytes, size);
        bytes[(seed >> 16) % size] ^= (uint8_t)(1 << (seed >> 29));
        rp_address source;
        int scanned = rp_proxy_header_scan(bytes, size, &source);
        CHECK(scanned == RP_E_PROTOCOL || (scanned >= 0 && scanned <= (int)size));
        CHECK(source.size == 0 || source.size == 4 || source.size == 16);
        free(bytes);
    }
}

static void a_client_behind_a_balancer_is_served_and_known_by_its_own_address(void) {
    rp_server_options options;
    rp_server_options_default(&options);
    struct harness *harness = harness_start(&options);
    for (size_t index = 0; index < sizeof good / sizeof good[0]; index++) {
        int fd = dial(harness);
        for (size_t byte = 0; byte < good[index].size; byte++) { /* each write may be read on its own */
            write_all(fd, good[index].bytes + byte, 1);
        }
        expect_echo(fd, 1);
        write_all(fd, good[index].bytes, good[index].size); /* no longer the first word */
        CHECK(is_closed(fd));
        char line[80];
        snprintf(line, sizeof line, "connection %s", good[index].client != NULL ? good[index].client : "127.0.0.1:");
        CHECK(log_says(harness, line));
        close(fd);
    }
    harness_stop(harness);
}

int main(void) {
    a_header_is_known_when_it_is_whole();
    what_is_none_is_refused_without_waiting_for_more();
    damaged_headers_are_judged_by_their_own_bytes();
    a_client_behind_a_balancer_is_served_and_known_by_its_own_address();
    return 0;
}
