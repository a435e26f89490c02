/* proxy_header.h: the header in which a load balancer describes the connection it passes on, before the client's first byte (HAProxy's
 * PROXY protocol, versions 1 and 2). RocketMQ: HandshakeHandler, HAProxyMessageHandler (NettyRemotingServer, since 5.1.4).
 *
 *   1  "PROXY TCP4 source destination port port\r\n", TCP6 the same, "PROXY UNKNOWN ...\r\n"      107 bytes at most
 *   2  signature (12)  version 2, command (1)  family (1)  size of the rest (2)
 *      source (4 or 16)  destination (the same)  source port (2)  destination port (2)  more that is skipped
 *
 * Threads  pure functions.
 */
#ifndef RP_REMOTING_PROXY_HEADER_H
#define RP_REMOTING_PROXY_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "../base/address.h"

#define RP_PROXY_HEADER_MAX 4096 /* a longer one is refused */

/* Returns the size of the header that data begins with, and the client's address in *source (its size is 0 if the header gives none); 0
 * if more bytes are needed to know; RP_E_PROTOCOL if there is no such header. */
int rp_proxy_header_scan(const uint8_t *data, size_t size, rp_address *source);

#define RP_PROXY_HEADER_WRITTEN_MAX 52
/* Writes a header of version 2 for a client at source; returns its size. */
uint32_t rp_proxy_header_write(const rp_address *source, uint8_t target[RP_PROXY_HEADER_WRITTEN_MAX]);

#endif
