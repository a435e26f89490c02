/* tls.c: see tls.h. RocketMQ: SslHandler of netty.
 *
 * Small pieces of output are gathered into one record of RECORD_BYTES; contiguous bytes, such as a range of a mapped file, are encrypted
 * from where they lie. At most SEALED_BYTES are encrypted ahead of the socket.
 */
#include "tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES 16384u /* the largest payload of a record */
#define SEALED_BYTES (4 * RECORD_BYTES)
#define RECORD_OVERHEAD 64u /* more than head, tag and padding of a record */

#define HELLO_HEAD 9u /* type, version (2), size (2) of a record; type, size (3) of a message */
#define CLIENT_HELLO 1

/* OpenSSL's numbers, which are part of its interface. */
#define BIO_TYPE_OF_OURS (0x0400 | 0x7f) /* a source and sink */
#define BIO_CTRL_FLUSH 11
#define BIO_FLAGS_READ 0x01
#define BIO_FLAGS_SHOULD_RETRY 0x08
#define BIO_FLAGS_ALL 0x0f
#define ERROR_WANT_READ 2
#define ERROR_ZERO_RETURN 6

int rp_tls_scan(const uint8_t *data, uint32_t size) {
    if (size < HELLO_HEAD) {
        return 0;
    }
    uint32_t hello_size = (uint32_t)data[6] << 16 | (uint32_t)data[7] << 8 | data[8];
    return data[0] == RP_TLS_FIRST_BYTE && data[1] == 3 && data[5] == CLIENT_HELLO && hello_size <= RP_TLS_HELLO_MAX ? 1 : RP_E_PROTOCOL;
}

/* ---- OpenSSL's side that is turned to the socket ---- */

/* The connection whose OpenSSL call this thread is in: OpenSSL's callbacks get nothing else that can be read without the library. */
static _Thread_local rp_tls *speaking;

static int transport_read(struct bio_st *bio, char *target, int room) {
    rp_tls *tls = speaking;
    const rp_openssl *openssl = &tls->context->openssl;
    openssl->bio_clear_flags(bio, BIO_FLAGS_ALL);
    if (tls->incoming_size == 0) {
        openssl->bio_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        return -1;
    }
    uint32_t taken = tls->incoming_size < (uint32_t)room ? tls->incoming_size : (uint32_t)room;
    memcpy(target, tls->incoming, taken);
    tls->incoming += taken;
    tls->incoming_size -= taken;
    return (int)taken;
}

/* Takes everything; -1 only if memory is out, permanently. */
static int transport_write(struct bio_st *bio, const char *bytes, int size) {
    rp_tls *tls = speaking;
    tls->context->openssl.bio_clear_flags(bio, BIO_FLAGS_ALL);
    uint8_t *room = rp_output_reserve(&tls->sealed, tls->pool, (uint32_t)size);
    if (room == NULL) {
        return -1;
    }
    memcpy(room, bytes, (size_t)size);
    rp_output_commit(&tls->sealed, (uint32_t)size);
    return size;
}

static long transport_ctrl(struct bio_st *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

struct bio_method_st *rp_tls_transport(const rp_openssl *openssl) {
    struct bio_method_st *method = openssl->bio_method_new(BIO_TYPE_OF_OURS, "rocketpy");
    if (method != NULL) {
        openssl->bio_method_set_read(method, transport_read);
        openssl->bio_method_set_write(method, transport_write);
        openssl->bio_method_set_ctrl(method, transport_ctrl);
    }
    return method;
}

rp_tls *rp_tls_create(rp_tls_context *context, rp_output_pool *pool) {
    const rp_openssl *openssl = &context->openssl;
    rp_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        return NULL;
    }
    openssl->err_clear();
    struct bio_st *bio = openssl->bio_new(context->transport);
    tls->ssl = openssl->ssl_new(context->context);
    if (bio == NULL || tls->ssl == NULL) {
        openssl->bio_free(bio);
        openssl->ssl_free(tls->ssl);
        free(tls);
        return NULL;
    }
    openssl->bio_set_init(bio, 1);
    openssl->ssl_set_bio(tls->ssl, bio, bio);
    openssl->ssl_set_accept_state(tls->ssl);
    tls->pool = pool;
    tls->context = rp_tls_context_share(context);
    return tls;
}

void rp_tls_destroy(rp_tls *tls) {
    if (tls != NULL) {
        rp_output_drop(&tls->sealed, tls->pool);
        tls->context->openssl.ssl_free(tls->ssl);
        rp_tls_context_release(tls->context);
        free(tls);
    }
}

/* ---- from the socket ---- */

/* Interprets a call that did not do its job: RP_OK if it waits for more bytes. */
static int judge(rp_tls *tls, int result, const char **reason) {
    const rp_openssl *openssl = &tls->context->openssl;
    int error = openssl->ssl_get_error(tls->ssl, result);
    if (error == ERROR_WANT_READ && tls->incoming_size == 0) {
        return RP_OK;
    }
    if (error == ERROR_ZERO_RETURN) {
        tls->has_ended = true;
        return RP_OK;
    }
    tls->has_failed = true;
    *reason = rp_openssl_reason(openssl);
    return RP_E_PROTOCOL;
}

static int shake_hands(rp_tls *tls, const char **reason) {
    int result = tls->context->openssl.ssl_do_handshake(tls->ssl);
    tls->is_established = result == 1;
    return result == 1 ? RP_OK : judge(tls, result, reason);
}

static int64_t open_records(rp_tls *tls, uint8_t *target, uint64_t room, const char **reason) {
    const rp_openssl *openssl = &tls->context->openssl;
    uint64_t opened = 0;
    while (opened < room) {
        size_t count = 0;
        if (openssl->ssl_read(tls->ssl, target + opened, room - opened, &count) != 1) {
            int status = judge(tls, 0, reason);
            return status == RP_OK ? (int64_t)opened : status;
        }
        opened += count;
    }
    tls->has_failed = true;
    *reason = "more came out of its records than went in";
    return RP_E_PROTOCOL;
}

int64_t rp_tls_open(rp_tls *tls, const uint8_t *bytes, uint32_t size, uint8_t *target, uint64_t room, const char **reason) {
    tls->incoming = bytes;
    tls->incoming_size = size;
    tls->context->openssl.err_clear();
    speaking = tls;
    int64_t opened = tls->is_established ? RP_OK : shake_hands(tls, reason);
    if (opened == RP_OK && tls->is_established) {
        opened = open_records(tls, target, room, reason);
    }
    speaking = NULL;
    tls->incoming = NULL;
    tls->incoming_size = 0; /* bytes behind an end, or a failure */
    return opened;
}

/* ---- to the socket ---- */

static uint64_t lesser(uint64_t left, uint64_t right) { return left < right ? left : right; }

/* Copies the contents of small pieces to one place; returns how many bytes. */
static uint32_t gather(const rp_output *output, uint64_t most, uint8_t target[RECORD_BYTES]) {
    uint32_t size = 0;
    for (const rp_output_piece *piece = output->first; piece != NULL && size < most; piece = piece->next) {
        uint32_t taken = (uint32_t)lesser(piece->unsent_size, most - size);
        memcpy(target + size, piece->unsent, taken);
        size += taken;
    }
    return size;
}

/* Encrypts up to `most` (not 0) bytes from output into `sealed`. RP_OK, RP_E_NO_MEMORY. */
static int seal(rp_tls *tls, rp_output *output, uint64_t most) {
    uint8_t record[RECORD_BYTES];
    uint64_t left = lesser(lesser(most, SEALED_BYTES), output->unsent_bytes);
    uint32_t room = (uint32_t)(left + (left / RECORD_BYTES + 2) * RECORD_OVERHEAD);
    if (rp_output_reserve(&tls->sealed, tls->pool, room) == NULL) {
        return RP_E_NO_MEMORY;
    }
    while (left > 0) {
        const uint8_t *bytes = output->first->unsent;
        size_t size = lesser(output->first->unsent_size, left), written = 0;
        if (size < RECORD_BYTES) {
            size = gather(output, lesser(left, RECORD_BYTES), record);
            bytes = record;
        }
        if (tls->context->openssl.ssl_write(tls->ssl, bytes, size, &written) != 1) {
            tls->has_failed = true;
            return RP_E_NO_MEMORY;
        }
        rp_output_consume(output, tls->pool, written);
        left -= written;
    }
    return RP_OK;
}

static int seal_speaking(rp_tls *tls, rp_output *output, uint64_t most) {
    tls->context->openssl.err_clear();
    speaking = tls;
    int status = seal(tls, output, most);
    speaking = NULL;
    return status;
}

enum rp_flush_result rp_tls_flush(rp_tls *tls, rp_output *output, int socket_fd, uint64_t limit, uint64_t *sent, int *os_errno) {
    *sent = 0;
    for (;;) {
        uint64_t now_sent;
        enum rp_flush_result result = rp_output_flush(&tls->sealed, tls->pool, socket_fd, UINT64_MAX, &now_sent, os_errno);
        *sent += now_sent;
        if (result != RP_FLUSH_DONE || output->unsent_bytes == 0 || !tls->is_established || tls->has_failed) {
            return result;
        }
        if (*sent >= limit) {
            return RP_FLUSH_YIELDED;
        }
        if (seal_speaking(tls, output, limit - *sent) != RP_OK) {
            *os_errno = ENOMEM;
            return RP_FLUSH_BROKEN;
        }
    }
}

void rp_tls_say_end(rp_tls *tls, int socket_fd) {
    if (!tls->is_established || tls->has_failed) {
        return;
    }
    uint64_t sent;
    int os_errno;
    tls->context->openssl.err_clear();
    speaking = tls;
    tls->context->openssl.ssl_shutdown(tls->ssl);
    speaking = NULL;
    rp_output_flush(&tls->sealed, tls->pool, socket_fd, UINT64_MAX, &sent, &os_errno);
}
