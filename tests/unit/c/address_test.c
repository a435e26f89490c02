/* address_test.c: parsing of host:port. */
#include <string.h>

#include "base/address.h"
#include "check.h"

static void an_endpoint_is_taken_apart(void) {
    static const struct {
        const char *endpoint, *host, *port;
    } rows[] = {{"10.0.0.1:10912", "10.0.0.1", "10912"},
                {"localhost:1", "localhost", "1"},
                {"[::1]:10912", "::1", "10912"},
                {"fe80::1:10912", "fe80::1", "10912"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char host[RP_ENDPOINT_TEXT_MAX];
        const char *port = NULL;
        CHECK(rp_endpoint_split(rows[i].endpoint, host, &port) == RP_OK);
        CHECK(strcmp(host, rows[i].host) == 0 && strcmp(port, rows[i].port) == 0);
    }
}

static void what_is_none_is_refused(void) {
    static const char *const rows[] = {"", ":", ":10912", "host", "host:", "[::1]", "[half:1"};
    char host[RP_ENDPOINT_TEXT_MAX];
    const char *port = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(rp_endpoint_split(rows[i], host, &port) == RP_E_INVALID);
}

static void a_name_may_be_as_long_as_in_dns(void) {
    char endpoint[RP_ENDPOINT_TEXT_MAX + 16], host[RP_ENDPOINT_TEXT_MAX];
    const char *port = NULL;
    memset(endpoint, 'n', sizeof endpoint);
    memcpy(endpoint + 253, ":65535", 7);
    CHECK(rp_endpoint_split(endpoint, host, &port) == RP_OK && strlen(host) == 253 && strcmp(port, "65535") == 0);
    memset(endpoint, 'n', sizeof endpoint);
    memcpy(endpoint + RP_ENDPOINT_TEXT_MAX - 2, ":1", 3);
    CHECK(rp_endpoint_split(endpoint, host, &port) == RP_E_INVALID);
}

int main(void) {
    RUN(an_endpoint_is_taken_apart);
    RUN(what_is_none_is_refused);
    RUN(a_name_may_be_as_long_as_in_dns);
    return 0;
}
