/* tls_context.c: creates OpenSSL's context from the files that an operator names, or from a self-signed certificate that nobody trusts.
 *
 * TLS 1.2 and later, no renegotiation, no session resumption: a new handshake costs little with today's keys, and a client that is no
 * longer trusted is refused from its next handshake on.
 */
#include "tls_context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tls.h"

/* OpenSSL's numbers, which are part of its interface. */
#define CTRL_MODE 33
#define CTRL_SET_SESSION_CACHE_MODE 44
#define CTRL_SET_MAX_CERT_LIST 51
#define CTRL_SET_MIN_PROTO_VERSION 123
#define MODE_RELEASE_BUFFERS 0x10
#define SESSION_CACHE_OFF 0
#define TLS1_2_VERSION 0x0303
#define OPTION_NO_TICKET ((uint64_t)1 << 14)
#define OPTION_NO_COMPRESSION ((uint64_t)1 << 17)
#define OPTION_SERVER_PREFERENCE ((uint64_t)1 << 22)
#define OPTION_NO_RENEGOTIATION ((uint64_t)1 << 30)
#define FILETYPE_PEM 1
#define VERIFY_NONE 0
#define VERIFY_PEER 1
#define VERIFY_REQUIRE 3 /* VERIFY_PEER, and fail without a certificate */
#define STRING_ASCII 0x1001
#define X509_VERSION_3 2
#define ALPN_CHOSEN 0
#define ALPN_NONE_FITS 2   /* and send an alert */
#define ALPN_PASSED_OVER 3 /* as if none had been offered */

#define YEAR_S (365L * 24 * 3600)
#define OWN_NAME "localhost" /* as in RocketMQ's */

static int refuse(const rp_tls_context *context, rp_error *error, const char *file, const char *what, const char *remedy) {
    return rp_error_set(error, RP_E_INVALID, 0, file, -1, "%s: %s; %s", what, rp_openssl_reason(&context->openssl), remedy);
}

static int check_readable(const char *path, const char *what, rp_error *error) {
    if (access(path, R_OK) == 0) {
        return RP_OK;
    }
    int os_errno = errno;
    return rp_error_set(error, os_errno == ENOENT ? RP_E_NOT_FOUND : RP_E_IO, os_errno, path, -1, "%s %s cannot be read: %s", what, path,
                        strerror(os_errno));
}

/* Otherwise OpenSSL asks on the terminal. */
static int give_password(char *buffer, int size, int is_written, void *context) {
    const char *password = context;
    (void)is_written;
    if (password == NULL || size <= 0 || strlen(password) > (size_t)size) {
        return -1;
    }
    memcpy(buffer, password, strlen(password));
    return (int)strlen(password);
}

static int load_files(const rp_tls_context *context, const rp_tls_options *options, rp_error *error) {
    const rp_openssl *openssl = &context->openssl;
    int status = check_readable(options->certificate_path, "the certificate", error);
    if (status == RP_OK) {
        status = check_readable(options->key_path, "the key", error);
    }
    if (status != RP_OK) {
        return status;
    }
    if (openssl->ctx_use_certificate_chain_file(context->context, options->certificate_path) != 1) {
        return refuse(context, error, options->certificate_path, "the certificate cannot be used",
                      "it has to be in PEM format, with the certificates between it and the trusted one behind it");
    }
    openssl->ctx_set_password(context->context, give_password);
    openssl->ctx_set_password_context(context->context, (void *)(uintptr_t)options->key_password);
    /* Also checks that the key belongs to the certificate. */
    int is_used = openssl->ctx_use_private_key_file(context->context, options->key_path, FILETYPE_PEM);
    openssl->ctx_set_password_context(context->context, NULL);
    if (is_used != 1) {
        return refuse(context, error, options->key_path, "the key cannot be used",
                      "it has to be the certificate's, in PEM format, and tls.server.keyPassword its password if it has one");
    }
    return RP_OK;
}

static int fill_certificate(const rp_openssl *openssl, struct x509_st *certificate, struct evp_pkey_st *key) {
    uint64_t serial = 0;
    struct X509_name_st *name = openssl->x509_subject(certificate);
    return openssl->random_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
           openssl->x509_set_version(certificate, X509_VERSION_3) == 1 &&
           openssl->integer_set(openssl->x509_serial_number(certificate), serial >> 1) == 1 &&
           openssl->x509_time_from_now(openssl->x509_not_before(certificate), -YEAR_S) != NULL &&
           openssl->x509_time_from_now(openssl->x509_not_after(certificate), 100 * YEAR_S) != NULL &&
           openssl->x509_set_key(certificate, key) == 1 &&
           openssl->name_add_entry(name, "CN", STRING_ASCII, (const unsigned char *)OWN_NAME, -1, -1, 0) == 1 &&
           openssl->x509_set_issuer(certificate, name) == 1 && openssl->x509_sign(certificate, key, openssl->sha256()) > 0;
}

/* RocketMQ: SelfSignedCertificate of netty. An elliptic curve key is made almost instantly, an RSA key takes a tenth of a second and
 * more. */
static int make_certificate(const rp_tls_context *context, rp_error *error) {
    const rp_openssl *openssl = &context->openssl;
    struct evp_pkey_st *key = openssl->key_generate(NULL, NULL, "EC", "P-256");
    struct x509_st *certificate = openssl->x509_new();
    int is_used = key != NULL && certificate != NULL && fill_certificate(openssl, certificate, key) &&
                  openssl->ctx_use_certificate(context->context, certificate) == 1 &&
                  openssl->ctx_use_private_key(context->context, key) == 1;
    int status = is_used ? RP_OK : refuse(context, error, NULL, "no certificate can be made", "name one of your own");
    openssl->x509_free(certificate);
    openssl->key_free(key);
    return status;
}

static int trust_anybody(int is_sound, struct x509_store_ctx_st *chain) {
    (void)is_sound, (void)chain;
    return 1;
}

static int set_trust(const rp_tls_context *context, const rp_tls_options *options, rp_error *error) {
    static const int modes[] = {VERIFY_NONE, VERIFY_PEER, VERIFY_REQUIRE};
    const rp_openssl *openssl = &context->openssl;
    openssl->ctx_set_verify(context->context, modes[options->client_auth], options->verifies_clients ? NULL : trust_anybody);
    if (!options->verifies_clients || options->client_auth == RP_TLS_CLIENT_NONE) {
        return RP_OK;
    }
    if (options->trust_path == NULL) {
        return openssl->ctx_set_default_verify_paths(context->context) == 1
                   ? RP_OK
                   : refuse(context, error, NULL, "the system's certificates cannot be used", "name those to trust");
    }
    int status = check_readable(options->trust_path, "the trust certificate", error);
    if (status == RP_OK && openssl->ctx_load_verify_file(context->context, options->trust_path) != 1) {
        status = refuse(context, error, options->trust_path, "the trust certificate cannot be used", "it has to be in PEM format");
    }
    return status;
}

/* A client that offers protocols without this one is told so and disconnected; one that offers none may continue. */
static int agree_upon(struct ssl_st *ssl, const unsigned char **chosen, unsigned char *chosen_size, const unsigned char *offered,
                      unsigned int offered_size, void *alpn) {
    size_t size = strlen(alpn);
    (void)ssl;
    for (unsigned int at = 0; at < offered_size && offered[at] < offered_size - at; at += offered[at] + 1u) {
        if (offered[at] == size && memcmp(&offered[at + 1], alpn, size) == 0) {
            *chosen = &offered[at + 1];
            *chosen_size = (unsigned char)size;
            return ALPN_CHOSEN;
        }
    }
    return ALPN_NONE_FITS;
}

/* A client that offers only others continues as if it had offered none. */
static int agree_or_not(struct ssl_st *ssl, const unsigned char **chosen, unsigned char *chosen_size, const unsigned char *offered,
                        unsigned int offered_size, void *alpn) {
    int found = agree_upon(ssl, chosen, chosen_size, offered, offered_size, alpn);
    return found == ALPN_CHOSEN ? ALPN_CHOSEN : ALPN_PASSED_OVER;
}

static int check_options(const rp_tls_options *options, rp_error *error) {
    if (options->client_auth > RP_TLS_CLIENT_REQUIRE) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "client_auth %u: choose 0 to %d", options->client_auth,
                            RP_TLS_CLIENT_REQUIRE);
    }
    if ((options->certificate_path == NULL) != (options->key_path == NULL)) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "a certificate needs its key, and a key its certificate: name both");
    }
    return RP_OK;
}

static int fill_context(rp_tls_context *context, const rp_tls_options *options, const char *alpn, bool takes_others, rp_error *error) {
    const rp_openssl *openssl = &context->openssl;
    openssl->err_clear();
    context->context = openssl->ctx_new(openssl->server_method());
    context->transport = context->context != NULL ? rp_tls_transport(openssl) : NULL;
    if (context->transport == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no TLS context can be made: %s", rp_openssl_reason(openssl));
    }
    openssl->ctx_set_options(context->context,
                             OPTION_NO_RENEGOTIATION | OPTION_NO_TICKET | OPTION_NO_COMPRESSION | OPTION_SERVER_PREFERENCE);
    openssl->ctx_ctrl(context->context, CTRL_MODE, MODE_RELEASE_BUFFERS, NULL);
    openssl->ctx_ctrl(context->context, CTRL_SET_SESSION_CACHE_MODE, SESSION_CACHE_OFF, NULL);
    openssl->ctx_ctrl(context->context, CTRL_SET_MAX_CERT_LIST, RP_TLS_CERTIFICATES_MAX, NULL);
    if (openssl->ctx_ctrl(context->context, CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) != 1 ||
        openssl->ctx_set_num_tickets(context->context, 0) != 1) {
        return refuse(context, error, NULL, "TLS 1.2 is not available", "look into OpenSSL's configuration, openssl.cnf");
    }
    if (alpn != NULL) {
        openssl->ctx_set_alpn_select(context->context, takes_others ? agree_or_not : agree_upon, (void *)(uintptr_t)alpn);
    }
    int status = options->certificate_path != NULL ? load_files(context, options, error) : make_certificate(context, error);
    return status == RP_OK ? set_trust(context, options, error) : status;
}

int rp_tls_context_create(const rp_tls_options *options, const char *alpn, bool takes_others, rp_tls_context **context_out,
                          rp_error *error) {
    int status = check_options(options, error);
    if (status != RP_OK) {
        return status;
    }
    rp_tls_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "memory is out");
    }
    atomic_init(&context->users, 1);
    status = rp_openssl_load(&context->openssl, error);
    if (status == RP_OK) {
        status = fill_context(context, options, alpn, takes_others, error);
    }
    if (status != RP_OK) {
        rp_tls_context_release(context);
        return status;
    }
    *context_out = context;
    return RP_OK;
}

rp_tls_context *rp_tls_context_share(rp_tls_context *context) {
    atomic_fetch_add_explicit(&context->users, 1, memory_order_relaxed);
    return context;
}

void rp_tls_context_release(rp_tls_context *context) {
    if (context == NULL || atomic_fetch_sub_explicit(&context->users, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (context->openssl.handle != NULL) {
        context->openssl.ctx_free(context->context);
        context->openssl.bio_method_free(context->transport);
        rp_openssl_unload(&context->openssl);
    }
    free(context);
}
