/* tls_context.h: what a server's handshakes need: certificate, key and trusted authorities. RocketMQ: SslContext,
 * TlsHelper.buildSslContext. Internal to csrc/remoting, C only; its options are in server.h.
 *
 * Threads  create from any; afterwards immutable and shared by reactors. Lives until its last user releases it: a server that has loaded
 *          another, or a connection that began before.
 */
#ifndef RP_REMOTING_TLS_CONTEXT_H
#define RP_REMOTING_TLS_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../base/openssl.h"
#include "server.h"

#define RP_TLS_CERTIFICATES_MAX 32768 /* size of the chain that a client sends */

typedef struct rp_tls_context {
    rp_openssl openssl;
    struct ssl_ctx_st *context;
    struct bio_method_st *transport; /* transport between a connection's TLS and its socket; set by rp_tls_transport */
    _Atomic uint32_t users;          /* acq_rel when decremented: the thread that frees it sees what the others did */
} rp_tls_context;

/* RP_OK: the caller is its only user. alpn: the protocol that is negotiated, static text; NULL: none. takes_others: a client that offers
 * only other protocols may continue without one. Errors as rp_server_load_tls. */
int rp_tls_context_create(const rp_tls_options *options, const char *alpn, bool takes_others, rp_tls_context **context, rp_error *error);
rp_tls_context *rp_tls_context_share(rp_tls_context *context); /* adds a user; returns it */
void rp_tls_context_release(rp_tls_context *context);          /* NULL is allowed */

#endif
