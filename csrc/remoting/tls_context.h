/* tls_context.h: what a server's handshakes need: its certificate, its key, and whom to trust. RocketMQ: SslContext,
 * TlsHelper.buildSslContext. Internal to csrc/remoting, C only; its options stand in server.h.
 *
 * Threads  create from any; after that it does not change and is shared by reactors. Lives until its last user releases it: a server
 *          that has loaded another, or a connection that began before.
 */
#ifndef RP_REMOTING_TLS_CONTEXT_H
#define RP_REMOTING_TLS_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../base/openssl.h"
#include "server.h"

#define RP_TLS_CERTIFICATES_MAX 32768 /* bytes of the chain that a client shows */

typedef struct rp_tls_context {
    rp_openssl openssl;
    struct ssl_ctx_st *context;
    struct bio_method_st *transport; /* the side of a connection's TLS that is turned to the socket; set by rp_tls_transport */
    _Atomic uint32_t users;          /* acq_rel when it falls: whoever frees it sees what the others did */
} rp_tls_context;

/* RP_OK: the caller is its only user. alpn: the protocol that is agreed upon, of static storage; NULL: none. takes_others: a client that
 * offers only other protocols may go on without one. Errors as of rp_server_load_tls. */
int rp_tls_context_create(const rp_tls_options *options, const char *alpn, bool takes_others, rp_tls_context **context, rp_error *error);
rp_tls_context *rp_tls_context_share(rp_tls_context *context); /* one user more; returns it */
void rp_tls_context_release(rp_tls_context *context);          /* NULL is nothing */

#endif
