/* address.c: socket addresses to and from rp_address and text. Names are not resolved: a listener binds to numeric addresses only. */
#include "address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

void rp_address_from_socket(rp_address *address, const struct sockaddr_storage *socket_address) {
    *address = (rp_address){.size = 4};
    if (socket_address->ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, socket_address, sizeof v4);
        memcpy(address->bytes, &v4.sin_addr, 4);
        address->port = ntohs(v4.sin_port);
    } else if (socket_address->ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, socket_address, sizeof v6);
        address->port = ntohs(v6.sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
            memcpy(address->bytes, v6.sin6_addr.s6_addr + 12, 4);
        } else {
            address->size = 16;
            memcpy(address->bytes, &v6.sin6_addr, 16);
        }
    }
}

void rp_address_text(const rp_address *address, char text[RP_ADDRESS_TEXT_MAX]) {
    char host[INET6_ADDRSTRLEN] = "?";
    inet_ntop(address->size == 16 ? AF_INET6 : AF_INET, address->bytes, host, sizeof host);
    snprintf(text, RP_ADDRESS_TEXT_MAX, address->size == 16 ? "[%s]:%u" : "%s:%u", host, address->port);
}

int rp_address_parse(const char *text, uint16_t port, struct sockaddr_storage *socket_address, uint32_t *size) {
    memset(socket_address, 0, sizeof *socket_address);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (text == NULL || inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(socket_address, &v4, sizeof v4);
        *size = sizeof v4;
        return RP_OK;
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(socket_address, &v6, sizeof v6);
        *size = sizeof v6;
        return RP_OK;
    }
    return RP_E_INVALID;
}

int rp_endpoint_split(const char *endpoint, char host[RP_ENDPOINT_TEXT_MAX], const char **port) {
    const char *colon = strrchr(endpoint, ':');
    size_t bracket = endpoint[0] == '[';
    if (colon == NULL || colon == endpoint || colon[1] == '\0' || strlen(endpoint) >= RP_ENDPOINT_TEXT_MAX ||
        (bracket == 1 && colon[-1] != ']')) {
        return RP_E_INVALID;
    }
    size_t size = (size_t)(colon - endpoint) - 2 * bracket;
    memcpy(host, endpoint + bracket, size);
    host[size] = '\0';
    *port = colon + 1;
    return RP_OK;
}
