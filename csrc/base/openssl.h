/* openssl.h: loads the functions of OpenSSL 3 that we call. libssl.so.3 is loaded at run time; nothing of OpenSSL is needed to build.
 *
 * Threads  load and unload from the owner; the calls as OpenSSL documents: an SSL object is used by one thread at a time, a context by
 *          many.
 * Bounds   none.
 */
#ifndef RP_BASE_OPENSSL_H
#define RP_BASE_OPENSSL_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct ssl_st; /* OpenSSL's own, known by pointer only */
struct ssl_ctx_st;
struct ssl_method_st;
struct bio_st;
struct bio_method_st;
struct evp_pkey_st;
struct evp_md_st;
struct x509_st;
struct X509_name_st;
struct x509_store_ctx_st;
struct asn1_string_st;

typedef int rp_openssl_password(char *buffer, int size, int is_written, void *context);
typedef int rp_openssl_alpn_select(struct ssl_st *ssl, const unsigned char **chosen, unsigned char *chosen_size,
                                   const unsigned char *offered, unsigned int offered_size, void *context);
typedef int rp_openssl_verify(int is_sound, struct x509_store_ctx_st *chain);

typedef struct rp_openssl {
    void *handle; /* NULL when it is not loaded */
    const struct ssl_method_st *(*server_method)(void);
    struct ssl_ctx_st *(*ctx_new)(const struct ssl_method_st *method);
    void (*ctx_free)(struct ssl_ctx_st *context);
    long (*ctx_ctrl)(struct ssl_ctx_st *context, int command, long number, void *pointer);
    uint64_t (*ctx_set_options)(struct ssl_ctx_st *context, uint64_t options);
    int (*ctx_set_num_tickets)(struct ssl_ctx_st *context, size_t count);
    int (*ctx_use_certificate_chain_file)(struct ssl_ctx_st *context, const char *path);
    int (*ctx_use_private_key_file)(struct ssl_ctx_st *context, const char *path, int type);
    int (*ctx_use_certificate)(struct ssl_ctx_st *context, struct x509_st *certificate);
    int (*ctx_use_private_key)(struct ssl_ctx_st *context, struct evp_pkey_st *key);
    void (*ctx_set_password)(struct ssl_ctx_st *context, rp_openssl_password *password);
    void (*ctx_set_password_context)(struct ssl_ctx_st *context, void *password_context);
    void (*ctx_set_alpn_select)(struct ssl_ctx_st *context, rp_openssl_alpn_select *select, void *select_context);
    void (*ctx_set_verify)(struct ssl_ctx_st *context, int mode, rp_openssl_verify *verify);
    int (*ctx_load_verify_file)(struct ssl_ctx_st *context, const char *path);
    int (*ctx_set_default_verify_paths)(struct ssl_ctx_st *context);
    struct ssl_st *(*ssl_new)(struct ssl_ctx_st *context);
    void (*ssl_free)(struct ssl_st *ssl);
    void (*ssl_set_bio)(struct ssl_st *ssl, struct bio_st *source, struct bio_st *sink);
    void (*ssl_set_accept_state)(struct ssl_st *ssl);
    int (*ssl_do_handshake)(struct ssl_st *ssl);
    int (*ssl_read)(struct ssl_st *ssl, void *target, size_t room, size_t *count);
    int (*ssl_write)(struct ssl_st *ssl, const void *bytes, size_t size, size_t *written);
    int (*ssl_shutdown)(struct ssl_st *ssl);
    int (*ssl_get_error)(const struct ssl_st *ssl, int result);
    struct bio_method_st *(*bio_method_new)(int type, const char *name);
    void (*bio_method_free)(struct bio_method_st *method);
    int (*bio_method_set_read)(struct bio_method_st *method, int (*read)(struct bio_st *bio, char *target, int room));
    int (*bio_method_set_write)(struct bio_method_st *method, int (*write)(struct bio_st *bio, const char *bytes, int size));
    int (*bio_method_set_ctrl)(struct bio_method_st *method, long (*ctrl)(struct bio_st *bio, int command, long number, void *pointer));
    struct bio_st *(*bio_new)(const struct bio_method_st *method);
    int (*bio_free)(struct bio_st *bio);
    void (*bio_set_init)(struct bio_st *bio, int is_ready);
    void (*bio_set_flags)(struct bio_st *bio, int flags);
    void (*bio_clear_flags)(struct bio_st *bio, int flags);
    void (*err_clear)(void);
    unsigned long (*err_get)(void);
    const char *(*err_reason)(unsigned long error);
    struct evp_pkey_st *(*key_generate)(void *library, const char *properties, const char *type, ...);
    void (*key_free)(struct evp_pkey_st *key);
    const struct evp_md_st *(*sha256)(void);
    int (*random_bytes)(unsigned char *target, int size);
    struct x509_st *(*x509_new)(void);
    void (*x509_free)(struct x509_st *certificate);
    int (*x509_set_version)(struct x509_st *certificate, long version);
    struct asn1_string_st *(*x509_serial_number)(struct x509_st *certificate);
    int (*integer_set)(struct asn1_string_st *integer, uint64_t value);
    struct asn1_string_st *(*x509_not_before)(const struct x509_st *certificate);
    struct asn1_string_st *(*x509_not_after)(const struct x509_st *certificate);
    struct asn1_string_st *(*x509_time_from_now)(struct asn1_string_st *time, long seconds);
    int (*x509_set_key)(struct x509_st *certificate, struct evp_pkey_st *key);
    struct X509_name_st *(*x509_subject)(const struct x509_st *certificate);
    int (*x509_set_issuer)(struct x509_st *certificate, const struct X509_name_st *name);
    int (*name_add_entry)(struct X509_name_st *name, const char *field, int type, const unsigned char *text, int size, int location,
                          int set);
    int (*x509_sign)(struct x509_st *certificate, struct evp_pkey_st *key, const struct evp_md_st *digest);
} rp_openssl;

/* RP_OK; RP_E_UNSUPPORTED: it does not exist, or lacks one of the calls; error says which and what to do, and library is empty. */
int rp_openssl_load(rp_openssl *library, rp_error *error);
/* Unloads it after the last object that it made is freed. Does nothing if it is empty. */
void rp_openssl_unload(rp_openssl *library);
/* Returns why this thread's last call failed, in OpenSSL's static text; never NULL. Empties this thread's error queue. */
const char *rp_openssl_reason(const rp_openssl *library);

#endif
