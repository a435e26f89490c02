/* bound_socket.h: creates a listener's socket, bound to a numeric address.
 *
 * 0.0.0.0 means every interface, IPv6 included, as in Java: a broker that replaces RocketMQ's has clients of both kinds. Where IPv6 is
 * not available (the kernel has none, or another process holds the port there) it means every interface of IPv4.
 *
 * Threads  pure functions.
 */
#ifndef RP_BASE_BOUND_SOCKET_H
#define RP_BASE_BOUND_SOCKET_H

#include <stdint.h>

/* Creates a non-blocking stream socket in *fd. RP_OK; RP_E_INVALID: host is no numeric address; RP_E_NETWORK with errno: *fd is -1.
 * *without_ipv6: the errno that limited it to IPv4 although the machine has IPv6; 0 otherwise. */
int rp_bound_socket(const char *host, uint16_t port, int *fd, int *without_ipv6);

#endif
