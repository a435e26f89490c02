/* tls.h: the TLS of one connection, between its socket and its frames. Internal to csrc/remoting, C only.
 *
 *   socket → rp_tls_open → frames                frames → output → rp_tls_flush → sealed records → socket
 *
 * OpenSSL sees no socket: it takes all bytes of one recv, so that nothing waits where epoll does not see it; its output is put into a
 * chain of its own, `sealed`, which leaves before anything else of the connection is encrypted.
 *
 * Threads  belongs to the connection's reactor: the holder of its turn_lock.
 * Bounds   RP_TLS_HANDSHAKE_BYTES of memory until the handshake is done, then RP_TLS_BYTES; `sealed` holds at most SEALED_BYTES of
 *          output (tls.c), plus handshake messages.
 */
#ifndef RP_REMOTING_TLS_H
#define RP_REMOTING_TLS_H

#include <stdbool.h>

#include "output.h"
#include "tls_context.h"

#define RP_TLS_FIRST_BYTE 0x16      /* of a handshake; a frame that begins so would have 369 MB */
#define RP_TLS_RECORD_MAX 18500u    /* more than a record has: rp_tls_open may return this much more than it is given */
#define RP_TLS_HELLO_MAX 16384u     /* bytes of a ClientHello, which OpenSSL allocates when it is announced */
#define RP_TLS_HANDSHAKE_BYTES 98304u
#define RP_TLS_BYTES 32768u         /* including an incomplete record; an idle connection has half of that */

typedef struct rp_tls {
    rp_tls_context *context;
    struct ssl_st *ssl;
    rp_output sealed;
    rp_output_pool *pool;
    const uint8_t *incoming; /* while rp_tls_open runs */
    uint32_t incoming_size;
    bool is_established;     /* the handshake is done */
    bool has_ended;          /* the other side has announced that nothing follows */
    bool has_failed;
} rp_tls;

/* Examines the first bytes of a connection: 1: a handshake; 0: more bytes are needed to know; RP_E_PROTOCOL: something else. */
int rp_tls_scan(const uint8_t *data, uint32_t size);

/* Returns OpenSSL's transport to a connection, shared by all of a context. NULL: no memory. */
struct bio_method_st *rp_tls_transport(const rp_openssl *openssl);

/* Creates the server's side of a new connection; uses the context until it is destroyed. pool is the reactor's. NULL: no memory. */
rp_tls *rp_tls_create(rp_tls_context *context, rp_output_pool *pool);
void rp_tls_destroy(rp_tls *tls); /* drops sealed output; NULL is allowed */

/* Takes all bytes that came from the socket: continues the handshake, then decrypts records into target, which has room for size +
 * RP_TLS_RECORD_MAX; during the handshake it may have none. Returns the bytes decrypted, or RP_E_PROTOCOL: *reason, static text, says
 * why, and nothing more may be decrypted. In both cases `sealed` may hold output for the other side. */
int64_t rp_tls_open(rp_tls *tls, const uint8_t *bytes, uint32_t size, uint8_t *target, uint64_t room, const char **reason);

/* As rp_output_flush, encrypted; *sent and limit count encrypted bytes. Output waits until the handshake is done. */
enum rp_flush_result rp_tls_flush(rp_tls *tls, rp_output *output, int socket_fd, uint64_t limit, uint64_t *sent, int *os_errno);

/* Tells the other side, once, that nothing follows, if its socket takes that immediately. */
void rp_tls_say_end(rp_tls *tls, int socket_fd);

#endif
