/* passage.h: HTTP/2 at a port for frames: what begins as HTTP/2 does goes on to another server as it is, and what that says comes back.
 * RocketMQ: Http2ProtocolProxyHandler, HAProxyMessageForwarder (5.3.3 proxy/remoting/protocol/http2proxy/). Internal to csrc/remoting,
 * C only.
 *
 *   client ── TLS or clear ── near ─ "PRI * HTTP/2.0" … ─► far, dialed ── behind a PROXY header that says who the client is ──► server
 *
 * Threads  the reactor's of both connections.
 * Owns     what a pair of connections shares, until the second has ended. Each ends with the other, once all that the other said is sent.
 * Bounds   PASSAGE_BYTES_MAX on their way to one of them (passage.c): then the other is not read. While all connections together hold too
 *          much, it is not read before all of that is out.
 */
#ifndef RP_REMOTING_PASSAGE_H
#define RP_REMOTING_PASSAGE_H

#include "protocol.h"

typedef struct rp_passage {
    rp_address target;    /* fixed after open, as the other */
    rp_protocol protocol; /* of both connections */
} rp_passage;

void rp_passage_open(rp_passage *passage, const rp_address *target);
/* What data, the first bytes of a connection, begins: 1 HTTP/2, 0 when more bytes are needed to know, RP_E_PROTOCOL: something else. */
int rp_passage_scan(const uint8_t *data, uint32_t size);

#endif
