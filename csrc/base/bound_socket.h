/* bound_socket.h: the socket that a listener begins with, bound to a numeric address.
 *
 * 0.0.0.0 is every interface, those of IPv6 too, as Java has it: who replaces a broker of RocketMQ has clients of either kind. Where that
 * cannot be had (a kernel without IPv6, another process with the port there) it is every interface of IPv4.
 *
 * Threads  pure functions.
 */
#ifndef RP_BASE_BOUND_SOCKET_H
#define RP_BASE_BOUND_SOCKET_H

#include <stdint.h>

/* A stream socket, non-blocking, in *fd. RP_OK; RP_E_INVALID: host is no numeric address; RP_E_NETWORK with errno. Otherwise *fd is -1.
 * *without_ipv6: the errno for which it is of IPv4 alone, although the machine has IPv6; 0 otherwise. */
int rp_bound_socket(const char *host, uint16_t port, int *fd, int *without_ipv6);

#endif
