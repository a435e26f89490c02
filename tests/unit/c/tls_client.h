/* tls_client.h: clients that speak TLS, by the OpenSSL that the server under test has found; and certificate files. */
#ifndef RP_TESTS_TLS_CLIENT_H
#define RP_TESTS_TLS_CLIENT_H

#include <dlfcn.h>

#include "../../../csrc/base/openssl.h"
#include "server_harness.h"

#define TLS1_2 0x0303
#define TLS1_3 0x0304

/* The calls that a client needs beyond a server's. */
struct client_calls {
    const struct ssl_method_st *(*client_method)(void);
    int (*set_fd)(struct ssl_st *ssl, int fd);
    int (*connect)(struct ssl_st *ssl);
    int (*read)(struct ssl_st *ssl, void *target, int room);
    int (*write)(struct ssl_st *ssl, const void *bytes, int size);
    int (*key_update)(struct ssl_st *ssl, int kind);
    int (*renegotiate)(struct ssl_st *ssl);
    int (*version)(const struct ssl_st *ssl);
    struct x509_st *(*peer_certificate)(const struct ssl_st *ssl);
    int (*digest)(const struct x509_st *certificate, const struct evp_md_st *kind, unsigned char *digest, unsigned *size);
    int (*write_certificate)(FILE *file, struct x509_st *certificate);
    int (*write_key)(FILE *file, const struct evp_pkey_st *key, const void *cipher, const unsigned char *password, int size, void *ask,
                     void *context);
    const void *(*aes)(void);
};

static rp_openssl openssl;
static struct client_calls calls;

static inline void load_openssl(void) {
    static const char *const names[] = {"TLS_client_method", "SSL_set_fd",     "SSL_connect",
                                        "SSL_read",          "SSL_write",      "SSL_key_update",
                                        "SSL_renegotiate",   "SSL_version",    "SSL_get1_peer_certificate",
                                        "X509_digest",       "PEM_write_X509", "PEM_write_PrivateKey",
                                        "EVP_aes_256_cbc"};
    _Static_assert(sizeof names / sizeof names[0] == sizeof calls / sizeof(void *), "a name for each call");
    rp_error error = {0};
    if (rp_openssl_load(&openssl, &error) != RP_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        void *call = dlsym(openssl.handle, names[index]);
        CHECK(call != NULL);
        memcpy((char *)&calls + index * sizeof call, &call, sizeof call);
    }
}

struct tls_client {
    int fd;
    struct ssl_ctx_st *context;
    struct ssl_st *ssl;
};

/* version: the only one that it speaks, 0: any. certificate, key: what it presents, NULL: nothing. */
static inline struct tls_client tls_prepare(int fd, int version, const char *certificate, const char *key) {
    struct tls_client client = {.fd = fd, .context = openssl.ctx_new(calls.client_method())};
    CHECK(client.context != NULL);
    if (version != 0) {
        CHECK(openssl.ctx_ctrl(client.context, 123, version, NULL) == 1 && openssl.ctx_ctrl(client.context, 124, version, NULL) == 1);
    }
    if (certificate != NULL) {
        CHECK(openssl.ctx_use_certificate_chain_file(client.context, certificate) == 1);
        CHECK(openssl.ctx_use_private_key_file(client.context, key, 1) == 1);
    }
    client.ssl = openssl.ssl_new(client.context);
    CHECK(client.ssl != NULL && calls.set_fd(client.ssl, fd) == 1);
    return client;
}

static inline struct tls_client tls_dial(struct harness *harness, int version) {
    struct tls_client client = tls_prepare(dial(harness), version, NULL, NULL);
    CHECK(calls.connect(client.ssl) == 1);
    return client;
}

static inline void tls_hang_up(struct tls_client client) {
    openssl.ssl_free(client.ssl);
    openssl.ctx_free(client.context);
    close(client.fd);
}

static inline void tls_read_all(struct tls_client client, void *target, size_t size) {
    uint8_t *cursor = target;
    while (size > 0) {
        int count = calls.read(client.ssl, cursor, size < (1 << 20) ? (int)size : 1 << 20);
        CHECK(count > 0);
        cursor += count;
        size -= (size_t)count;
    }
}

static inline void tls_send(struct tls_client client, int serialize_type, int code, int opaque, const char *field, rp_slice body) {
    size_t room = 4096 + body.size;
    uint8_t *frame = malloc(room);
    CHECK(frame != NULL);
    int size = (int)make_request(frame, room, serialize_type, code, opaque, field, body);
    CHECK(calls.write(client.ssl, frame, size) == size);
    free(frame);
}

/* Reads one frame, and checks its answer and, unless NULL, its body. Leaves nothing to free. */
static inline void tls_expect(struct tls_client client, int opaque, const uint8_t *body, uint32_t body_size) {
    uint8_t head[4];
    tls_read_all(client, head, sizeof head);
    uint32_t size = rp_get_u32(head) + 4;
    CHECK(size <= RP_FRAME_SIZE_MAX);
    uint8_t *frame = malloc(size);
    CHECK(frame != NULL);
    memcpy(frame, head, sizeof head);
    tls_read_all(client, frame + 4, size - 4);
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    rp_command response;
    rp_error error;
    CHECK(rp_command_decode(frame, size, arena, &response, &error) == RP_OK);
    CHECK(response.code == 0 && response.opaque == opaque && (response.flag & RP_COMMAND_RESPONSE) != 0);
    CHECK(body == NULL || (response.body.size == body_size && (body_size == 0 || memcmp(response.body.data, body, body_size) == 0)));
    rp_arena_destroy(arena);
    free(frame);
}

static inline void tls_expect_echo(struct tls_client client, int opaque) {
    tls_send(client, opaque & 1, CODE_ECHO, opaque, "still here", text_slice("a body"));
    tls_expect(client, opaque, (const uint8_t *)"a body", 6);
}

/* Returns 1 if the server closes; has_said_so: with a close_notify. */
static inline int tls_is_closed(struct tls_client client, int *has_said_so) {
    uint8_t bytes[4096];
    int count;
    while ((count = calls.read(client.ssl, bytes, sizeof bytes)) > 0) {
    }
    *has_said_so = openssl.ssl_get_error(client.ssl, count) == 6;
    return 1;
}

static inline void tls_fingerprint(struct tls_client client, unsigned char digest[32]) {
    struct x509_st *certificate = calls.peer_certificate(client.ssl);
    unsigned size = 0;
    CHECK(certificate != NULL && calls.digest(certificate, openssl.sha256(), digest, &size) == 1 && size == 32);
    openssl.x509_free(certificate);
}

/* Writes a self-signed certificate and its key to two files of the working directory. */
static inline void write_certificate(const char *name, const char *path, const char *key_path, const char *password) {
    struct evp_pkey_st *key = openssl.key_generate(NULL, NULL, "EC", "P-256");
    struct x509_st *certificate = openssl.x509_new();
    CHECK(key != NULL && certificate != NULL);
    openssl.x509_set_version(certificate, 2);
    openssl.integer_set(openssl.x509_serial_number(certificate), 1);
    openssl.x509_time_from_now(openssl.x509_not_before(certificate), -3600);
    openssl.x509_time_from_now(openssl.x509_not_after(certificate), 3600);
    openssl.x509_set_key(certificate, key);
    struct X509_name_st *subject = openssl.x509_subject(certificate);
    CHECK(openssl.name_add_entry(subject, "CN", 0x1001, (const unsigned char *)name, -1, -1, 0) == 1);
    openssl.x509_set_issuer(certificate, subject);
    CHECK(openssl.x509_sign(certificate, key, openssl.sha256()) > 0);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && calls.write_certificate(file, certificate) == 1 && fclose(file) == 0);
    file = fopen(key_path, "w");
    CHECK(file != NULL);
    CHECK(calls.write_key(file, key, password != NULL ? calls.aes() : NULL, (const unsigned char *)password,
                          password != NULL ? (int)strlen(password) : 0, NULL, NULL) == 1);
    CHECK(fclose(file) == 0);
    openssl.x509_free(certificate);
    openssl.key_free(key);
}

/* Starts a server with a self-signed certificate; options as for harness_start. */
static inline struct harness *tls_harness(uint32_t mode, rp_server_options *options) {
    rp_error error = {0};
    rp_tls_options own = {0};
    options->tls_mode = mode;
    struct harness *harness = harness_start(options);
    CHECK(mode == RP_TLS_DISABLED || rp_server_load_tls(harness->server, &own, &error) == RP_OK);
    return harness;
}

#endif
