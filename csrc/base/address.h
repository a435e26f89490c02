/* address.h: a socket's address in a compact form that compares quickly, and endpoints as configurations write them: host:port.
 *
 * Threads  pure functions.
 */
#ifndef RP_BASE_ADDRESS_H
#define RP_BASE_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#include "error.h"

#define RP_ADDRESS_TEXT_MAX 56   /* "[ipv6]:port" */
#define RP_ENDPOINT_TEXT_MAX 264 /* "name:port"; DNS has names of 253 bytes, and those of Kubernetes are long */

typedef struct rp_address {
    uint8_t bytes[16]; /* network order; the first `size` count */
    uint8_t size;      /* 4 or 16; an IPv4 address inside of IPv6 is kept as 4 */
    uint16_t port;     /* host order */
} rp_address;

void rp_address_from_socket(rp_address *address, const struct sockaddr_storage *socket_address);
/* Formats as "1.2.3.4:5" or "[::1]:5". */
void rp_address_text(const rp_address *address, char text[RP_ADDRESS_TEXT_MAX]);
/* Parses numeric text (NULL: all IPv4 interfaces) with a port into a socket address. RP_OK; RP_E_INVALID: the text is not an address. */
int rp_address_parse(const char *text, uint16_t port, struct sockaddr_storage *socket_address, uint32_t *size);
/* Splits "host:port" or "[ipv6]:port": host without brackets, port points into endpoint. Nothing is resolved. RP_OK; RP_E_INVALID. */
int rp_endpoint_split(const char *endpoint, char host[RP_ENDPOINT_TEXT_MAX], const char **port);

#endif
