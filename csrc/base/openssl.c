/* openssl.c: see openssl.h. */
#include "openssl.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libssl.so.3"
#define REMEDY "install OpenSSL 3: sudo apt-get install -y libssl3 (on Fedora: sudo dnf install openssl-libs)"

static const struct {
    const char *name;
    size_t field;
} CALLS[] = {
    {"TLS_server_method", offsetof(rp_openssl, server_method)},
    {"SSL_CTX_new", offsetof(rp_openssl, ctx_new)},
    {"SSL_CTX_free", offsetof(rp_openssl, ctx_free)},
    {"SSL_CTX_ctrl", offsetof(rp_openssl, ctx_ctrl)},
    {"SSL_CTX_set_options", offsetof(rp_openssl, ctx_set_options)},
    {"SSL_CTX_set_num_tickets", offsetof(rp_openssl, ctx_set_num_tickets)},
    {"SSL_CTX_use_certificate_chain_file", offsetof(rp_openssl, ctx_use_certificate_chain_file)},
    {"SSL_CTX_use_PrivateKey_file", offsetof(rp_openssl, ctx_use_private_key_file)},
    {"SSL_CTX_use_certificate", offsetof(rp_openssl, ctx_use_certificate)},
    {"SSL_CTX_use_PrivateKey", offsetof(rp_openssl, ctx_use_private_key)},
    {"SSL_CTX_set_default_passwd_cb", offsetof(rp_openssl, ctx_set_password)},
    {"SSL_CTX_set_default_passwd_cb_userdata", offsetof(rp_openssl, ctx_set_password_context)},
    {"SSL_CTX_set_alpn_select_cb", offsetof(rp_openssl, ctx_set_alpn_select)},
    {"SSL_CTX_set_verify", offsetof(rp_openssl, ctx_set_verify)},
    {"SSL_CTX_load_verify_file", offsetof(rp_openssl, ctx_load_verify_file)},
    {"SSL_CTX_set_default_verify_paths", offsetof(rp_openssl, ctx_set_default_verify_paths)},
    {"SSL_new", offsetof(rp_openssl, ssl_new)},
    {"SSL_free", offsetof(rp_openssl, ssl_free)},
    {"SSL_set_bio", offsetof(rp_openssl, ssl_set_bio)},
    {"SSL_set_accept_state", offsetof(rp_openssl, ssl_set_accept_state)},
    {"SSL_do_handshake", offsetof(rp_openssl, ssl_do_handshake)},
    {"SSL_read_ex", offsetof(rp_openssl, ssl_read)},
    {"SSL_write_ex", offsetof(rp_openssl, ssl_write)},
    {"SSL_shutdown", offsetof(rp_openssl, ssl_shutdown)},
    {"SSL_get_error", offsetof(rp_openssl, ssl_get_error)},
    {"BIO_meth_new", offsetof(rp_openssl, bio_method_new)},
    {"BIO_meth_free", offsetof(rp_openssl, bio_method_free)},
    {"BIO_meth_set_read", offsetof(rp_openssl, bio_method_set_read)},
    {"BIO_meth_set_write", offsetof(rp_openssl, bio_method_set_write)},
    {"BIO_meth_set_ctrl", offsetof(rp_openssl, bio_method_set_ctrl)},
    {"BIO_new", offsetof(rp_openssl, bio_new)},
    {"BIO_free", offsetof(rp_openssl, bio_free)},
    {"BIO_set_init", offsetof(rp_openssl, bio_set_init)},
    {"BIO_set_flags", offsetof(rp_openssl, bio_set_flags)},
    {"BIO_clear_flags", offsetof(rp_openssl, bio_clear_flags)},
    {"ERR_clear_error", offsetof(rp_openssl, err_clear)},
    {"ERR_get_error", offsetof(rp_openssl, err_get)},
    {"ERR_reason_error_string", offsetof(rp_openssl, err_reason)},
    {"EVP_PKEY_Q_keygen", offsetof(rp_openssl, key_generate)},
    {"EVP_PKEY_free", offsetof(rp_openssl, key_free)},
    {"EVP_sha256", offsetof(rp_openssl, sha256)},
    {"RAND_bytes", offsetof(rp_openssl, random_bytes)},
    {"X509_new", offsetof(rp_openssl, x509_new)},
    {"X509_free", offsetof(rp_openssl, x509_free)},
    {"X509_set_version", offsetof(rp_openssl, x509_set_version)},
    {"X509_get_serialNumber", offsetof(rp_openssl, x509_serial_number)},
    {"ASN1_INTEGER_set_uint64", offsetof(rp_openssl, integer_set)},
    {"X509_getm_notBefore", offsetof(rp_openssl, x509_not_before)},
    {"X509_getm_notAfter", offsetof(rp_openssl, x509_not_after)},
    {"X509_gmtime_adj", offsetof(rp_openssl, x509_time_from_now)},
    {"X509_set_pubkey", offsetof(rp_openssl, x509_set_key)},
    {"X509_get_subject_name", offsetof(rp_openssl, x509_subject)},
    {"X509_set_issuer_name", offsetof(rp_openssl, x509_set_issuer)},
    {"X509_NAME_add_entry_by_txt", offsetof(rp_openssl, name_add_entry)},
    {"X509_sign", offsetof(rp_openssl, x509_sign)},
};

int rp_openssl_load(rp_openssl *library, rp_error *error) {
    *library = (rp_openssl){0};
    library->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); /* a thread that ends later still runs its clean-up */
    if (library->handle == NULL) {
        const char *cause = dlerror(); /* begins with the name */
        return rp_error_set(error, RP_E_UNSUPPORTED, 0, LIBRARY, -1, "TLS needs OpenSSL (%s); " REMEDY, cause != NULL ? cause : LIBRARY);
    }
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        void *call = dlsym(library->handle, CALLS[i].name); /* also finds those of libcrypto, which libssl links */
        if (call == NULL) {
            rp_openssl_unload(library);
            return rp_error_set(error, RP_E_UNSUPPORTED, 0, LIBRARY, -1, LIBRARY " is no OpenSSL 3: it has no %s; " REMEDY, CALLS[i].name);
        }
        memcpy((char *)library + CALLS[i].field, &call, sizeof call);
    }
    return RP_OK;
}

void rp_openssl_unload(rp_openssl *library) {
    if (library->handle != NULL) {
        dlclose(library->handle);
    }
    *library = (rp_openssl){0};
}

const char *rp_openssl_reason(const rp_openssl *library) {
    unsigned long first = library->err_get(); /* the cause; the errors behind it follow from it */
    const char *reason = first != 0 ? library->err_reason(first) : NULL;
    library->err_clear();
    return reason != NULL ? reason : "no reason is given";
}
