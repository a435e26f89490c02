/* tls.h: one connection's TLS, between what its socket says and its frames. Internal to csrc/remoting, C only.
 *
 *   socket → rp_tls_open → frames                frames → output → rp_tls_flush → sealed records → socket
 *
 * OpenSSL sees no socket: it takes the bytes of one recv, all of them, so that nothing waits where epoll does not see it; what it
 * has to say is put into a chain of its own, `sealed`, which leaves before anything else of the connection is sealed.
 *
 * Threads  belongs to the connection's reactor: whoever holds its turn_lock.
 * Bounds   RP_TLS_HANDSHAKE_BYTES of memory until the handshake is done, then RP_TLS_BYTES; `sealed` holds SEALED_BYTES of output at
 *          most (tls.c), beside what a handshake says.
 */
#ifndef RP_REMOTING_TLS_H
#define RP_REMOTING_TLS_H

#include <stdbool.h>

#include "output.h"
#include "tls_context.h"

#define RP_TLS_FIRST_BYTE 0x16      /* of a handshake; a frame that begins so would have 369 MB */
#define RP_TLS_RECORD_MAX 18500u    /* more than a record has: so much more than it is given rp_tls_open may find */
#define RP_TLS_HELLO_MAX 16384u     /* bytes of a ClientHello, which OpenSSL allocates when it is announced */
#define RP_TLS_HANDSHAKE_BYTES 98304u
#define RP_TLS_BYTES 32768u         /* with a record that is not whole; an idle one has half of that */

typedef struct rp_tls {
    rp_tls_context *context;
    struct ssl_st *ssl;
    rp_output sealed;
    rp_output_pool *pool;
    const uint8_t *incoming; /* while rp_tls_open runs */
    uint32_t incoming_size;
    bool is_established;     /* the handshake is done */
    bool has_ended;          /* the other side has said that nothing follows */
    bool has_failed;
} rp_tls;

/* What data, the first bytes of a connection, begins: 1 a handshake, 0 when more bytes are needed to know, RP_E_PROTOCOL. */
int rp_tls_scan(const uint8_t *data, uint32_t size);

/* How OpenSSL speaks to a connection: for all of a context. NULL when memory is out. */
struct bio_method_st *rp_tls_transport(const rp_openssl *openssl);

/* The server's side of a new connection; uses the context until it is destroyed. pool is the reactor's. NULL when memory is out. */
rp_tls *rp_tls_create(rp_tls_context *context, rp_output_pool *pool);
void rp_tls_destroy(rp_tls *tls); /* drops what is sealed; NULL is nothing */

/* Takes all of the bytes that came from the socket: goes on with the handshake, then opens records into target, which has room for size +
 * RP_TLS_RECORD_MAX; while the handshake goes on it may have none. The bytes opened, or RP_E_PROTOCOL: *reason, which is static, says
 * why, and nothing more may be opened. In both cases `sealed` may have something for the other side. */
int64_t rp_tls_open(rp_tls *tls, const uint8_t *bytes, uint32_t size, uint8_t *target, uint64_t room, const char **reason);

/* As rp_output_flush, with what leaves sealed, and *sent and limit counted in sealed bytes; before the handshake is done, output waits. */
enum rp_flush_result rp_tls_flush(rp_tls *tls, rp_output *output, int socket_fd, uint64_t limit, uint64_t *sent, int *os_errno);

/* Tells the other side, once, that nothing follows, if its socket takes that at once. */
void rp_tls_say_end(rp_tls *tls, int socket_fd);

#endif
