/* address.h: a socket's address in a form that is small to keep and quick to compare.
 *
 * Threads  pure functions.
 */
#ifndef RP_BASE_ADDRESS_H
#define RP_BASE_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#include "error.h"

#define RP_ADDRESS_TEXT_MAX 56 /* "[ipv6]:port" */

typedef struct rp_address {
    uint8_t bytes[16]; /* network order; the first `size` count */
    uint8_t size;      /* 4 or 16; IPv4 inside of IPv6 is kept as 4 */
    uint16_t port;     /* host order */
} rp_address;

void rp_address_from_socket(rp_address *address, const struct sockaddr_storage *socket_address);
/* "1.2.3.4:5" or "[::1]:5". */
void rp_address_text(const rp_address *address, char text[RP_ADDRESS_TEXT_MAX]);
/* Numeric text (NULL: all IPv4 interfaces) and port into a socket address. RP_OK, RP_E_INVALID for text that is not an address. */
int rp_address_parse(const char *text, uint16_t port, struct sockaddr_storage *socket_address, uint32_t *size);

#endif
