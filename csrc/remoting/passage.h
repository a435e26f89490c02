/* passage.h: HTTP/2 on a port for frames: a connection that begins with HTTP/2 is forwarded to another server unchanged, in both
 * directions. Internal to csrc/remoting.
 * C only.
 * RocketMQ: Http2ProtocolProxyHandler, HAProxyMessageForwarder (5.3.3 proxy/remoting/protocol/http2proxy/).
 *
 *   client ── TLS or clear ── near ─ "PRI * HTTP/2.0" … ─► far, dialed ── behind a PROXY header that says who the client is ──► server
 *
 * Threads  the reactor's of both connections.
 * Owns     the state that a pair of connections shares, until the second one has ended. Each ends with the other, once everything that
 *          the other sent has left.
 * Bounds   PASSAGE_BYTES_MAX on their way to one of them (passage.c): then the other is not read. While all connections together hold
 *          too much, it is not read before all of that has left.
 */
#ifndef RP_REMOTING_PASSAGE_H
#define RP_REMOTING_PASSAGE_H

#include "protocol.h"

typedef struct rp_passage {
    rp_address target;    /* fixed after open, like the other */
    rp_protocol protocol; /* of both connections */
} rp_passage;

void rp_passage_open(rp_passage *passage, const rp_address *target);
/* Examines the first bytes of a connection: 1: HTTP/2; 0: more bytes are needed to know; RP_E_PROTOCOL: something else. */
int rp_passage_scan(const uint8_t *data, uint32_t size);

#endif
