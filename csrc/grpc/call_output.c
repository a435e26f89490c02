/* call_output.c: a call's answer: messages wait in a list until nghttp2 reads them, as the client's windows allow; then come the
 * trailers.
 *
 * An answer that ends before anything was written is one HEADERS frame ("trailers only"). A client that continues sending after the
 * answer's end is told to stop, once that end is sent (session.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "grpc_inl.h"

#define STATUS_TEXT_MAX 12
#define HEADERS_MAX 5

static const rp_nghttp2 *library_of(const rp_grpc_call *call) { return &call->session->grpc->library; }

static rp_http2_header header(const char *name, const uint8_t *value, size_t size) {
    return (rp_http2_header){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), size, 0};
}

static rp_http2_header text_header(const char *name, const char *value) { return header(name, (const uint8_t *)value, strlen(value)); }

/* Adds the headers that begin every answer; returns how many. */
static size_t add_head(const rp_grpc_call *call, rp_http2_header headers[HEADERS_MAX]) {
    headers[0] = text_header(":status", call->http_status != NULL ? call->http_status : "200");
    headers[1] = text_header("content-type", "application/grpc");
    headers[2] = text_header("grpc-accept-encoding", "identity,gzip");
    return 3;
}

/* Adds those that end it. number must live until they are submitted. */
static size_t add_end(const rp_grpc_call *call, rp_http2_header *headers, char number[STATUS_TEXT_MAX]) {
    snprintf(number, STATUS_TEXT_MAX, "%d", call->status);
    headers[0] = text_header("grpc-status", number);
    if (call->text == NULL) {
        return 1;
    }
    headers[1] = header("grpc-message", call->text, call->text_size);
    return 2;
}

static void fail(rp_grpc_call *call) { rp_connection_end(call->session->connection, "memory is out"); }

static void begin_answer(rp_grpc_call *call) {
    rp_http2_header headers[HEADERS_MAX];
    size_t count = add_head(call, headers);
    rp_http2_data_provider provider = {.source.pointer = call, .read = rp_grpc_call_read};
    call->has_head = true;
    if (library_of(call)->submit_response(call->session->http, call->stream, headers, count, &provider) != 0) {
        fail(call);
    }
}

/* Lets nghttp2 read again. */
static void go_on(rp_grpc_call *call) {
    if (call->is_deferred) {
        call->is_deferred = false;
        if (library_of(call)->resume_data(call->session->http, call->stream) != 0) {
            fail(call);
        }
    }
    rp_connection_want_fill(call->session->connection);
}

void rp_grpc_call_append(rp_grpc_call *call, rp_grpc_piece *piece) {
    rp_grpc_session *session = call->session;
    const rp_server_options *options = rp_connection_options(session->connection);
    piece->next = NULL;
    piece->read = 0;
    if (call->last != NULL) {
        call->last->next = piece;
    } else {
        call->first = piece;
        call->progress_ns = rp_grpc_session_now_ns(session);
        if (options->stall_timeout_ms > 0) {
            rp_connection_look_at(session->connection, call->progress_ns + options->stall_timeout_ms * RP_NS_PER_MS);
        }
    }
    call->last = piece;
    rp_grpc_session_queue(session, piece->size, 0);
    if (!call->has_head) {
        begin_answer(call);
    }
    go_on(call);
}

static void set_text(rp_grpc_call *call, rp_slice text) {
    uint8_t encoded[3 * RP_GRPC_TEXT_MAX];
    uint32_t size = rp_grpc_encode_text(text, encoded);
    call->text = size > 0 ? malloc(size) : NULL; /* without memory the status goes without a text */
    if (call->text != NULL) {
        memcpy(call->text, encoded, size);
        call->text_size = size;
    }
}

void rp_grpc_call_finish(rp_grpc_call *call, int32_t status, rp_slice text) {
    if (call->is_ended) {
        return;
    }
    call->is_ended = true;
    call->owner = RP_GRPC_NOBODY;
    rp_grpc_half_end(call);
    call->status = status;
    set_text(call, text);
    if (!call->has_head) {
        rp_http2_header headers[HEADERS_MAX];
        char number[STATUS_TEXT_MAX];
        size_t count = add_head(call, headers);
        count += add_end(call, headers + count, number);
        call->has_head = true;
        if (library_of(call)->submit_response(call->session->http, call->stream, headers, count, NULL) != 0) {
            fail(call);
        }
    }
    go_on(call);
}

static void tell_delivered(rp_grpc_call *call, uint64_t untaken_bytes) {
    const rp_grpc_handler *handler = &call->session->grpc->handler;
    void *watched = call->watched;
    call->watched = NULL;
    if (watched != NULL) {
        handler->on_delivered(handler->context, rp_connection_reactor(call->session->connection), watched, untaken_bytes);
    }
}

void rp_grpc_call_drop_answer(rp_grpc_call *call) {
    rp_grpc_piece *next;
    uint64_t untaken_bytes = 0;
    for (rp_grpc_piece *piece = call->first; piece != NULL; piece = next) {
        next = piece->next;
        untaken_bytes += piece->size - piece->read;
        free(piece);
    }
    rp_grpc_session_queue(call->session, 0, untaken_bytes);
    free(call->reserved);
    call->first = call->last = call->reserved = NULL;
    tell_delivered(call, untaken_bytes);
}

void rp_grpc_call_reset(rp_grpc_call *call, uint32_t error_code) {
    if (call->is_reset) {
        return;
    }
    rp_grpc_call_tell_cancelled(call);
    rp_grpc_half_end(call);
    call->is_ended = call->is_reset = true;
    rp_grpc_call_drop_answer(call);
    if (library_of(call)->submit_rst_stream(call->session->http, 0, call->stream, error_code) != 0) {
        fail(call);
    }
    rp_connection_want_fill(call->session->connection);
}

void rp_grpc_call_refuse(rp_grpc_call *call, int32_t status, const char *text, const char *http_status) {
    if (call->is_ended) {
        return;
    }
    if (call->first != NULL && call->first->read > 0) { /* in the middle of a message, where no status may follow */
        rp_grpc_call_reset(call, RP_HTTP2_CANCEL);
        return;
    }
    rp_grpc_call_tell_cancelled(call);
    rp_grpc_call_drop_answer(call);
    call->http_status = http_status;
    rp_grpc_call_finish(call, status, rp_slice_of(text));
}

/* ---- to the client ---- */

static uint32_t lesser(uint64_t left, uint64_t right) { return (uint32_t)(left < right ? left : right); }

/* Moves what fits to target, and frees pieces that are finished. */
static uint32_t copy_out(rp_grpc_call *call, uint8_t *target, size_t room) {
    uint32_t size = 0;
    while (call->first != NULL && size < room) {
        rp_grpc_piece *piece = call->first;
        uint32_t taken = lesser(piece->size - piece->read, room - size);
        memcpy(target + size, piece->bytes + piece->read, taken);
        piece->read += taken;
        size += taken;
        if (piece->read == piece->size) {
            call->first = piece->next;
            call->last = call->first != NULL ? call->last : NULL;
            free(piece);
        }
    }
    return size;
}

ssize_t rp_grpc_call_read(struct nghttp2_session *http, int32_t stream, uint8_t *target, size_t room, uint32_t *flags,
                          rp_http2_data_source *source, void *context) {
    rp_grpc_call *call = source->pointer;
    (void)context;
    uint32_t size = copy_out(call, target, room);
    if (size > 0) {
        rp_grpc_session_queue(call->session, 0, size);
        call->progress_ns = rp_grpc_session_now_ns(call->session);
        rp_grpc_call_tell_room(call);
    }
    if (call->first != NULL) {
        return (ssize_t)size;
    }
    if (call->is_ended && !call->is_reset) {
        tell_delivered(call, 0);
        rp_http2_header headers[HEADERS_MAX];
        char number[STATUS_TEXT_MAX];
        *flags |= RP_HTTP2_SOURCE_END | RP_HTTP2_SOURCE_NO_END_STREAM;
        if (library_of(call)->submit_trailer(http, stream, headers, add_end(call, headers, number)) != 0) {
            return RP_HTTP2_E_CALLBACK;
        }
    } else if (size == 0) {
        call->is_deferred = true;
        return RP_HTTP2_E_DEFERRED;
    }
    return (ssize_t)size;
}

/* ---- for the handler ---- */

void rp_grpc_write_prefix(uint8_t target[RP_GRPC_PREFIX], uint32_t size) {
    target[0] = 0; /* not compressed */
    target[1] = (uint8_t)(size >> 24);
    target[2] = (uint8_t)(size >> 16);
    target[3] = (uint8_t)(size >> 8);
    target[4] = (uint8_t)size;
}

uint8_t *rp_grpc_call_reserve(rp_grpc_call *call, uint32_t size) {
    rp_grpc_piece *piece = size <= UINT32_MAX - RP_GRPC_PREFIX ? malloc(sizeof *piece + RP_GRPC_PREFIX + size) : NULL;
    if (piece == NULL) {
        return NULL;
    }
    free(call->reserved);
    call->reserved = piece;
    return piece->bytes + RP_GRPC_PREFIX;
}

void rp_grpc_call_commit(rp_grpc_call *call, uint32_t size) {
    rp_grpc_piece *piece = call->reserved;
    call->reserved = NULL;
    rp_grpc_write_prefix(piece->bytes, size);
    piece->size = RP_GRPC_PREFIX + size;
    rp_grpc_call_append(call, piece);
}

int rp_grpc_call_may_hold(const rp_grpc_call *call, uint64_t more_bytes) {
    const rp_connection *connection = call->session->connection;
    uint64_t held = call->session->queued_bytes + rp_connection_unsent_bytes(connection);
    bool has_share = held == 0 || held + more_bytes <= rp_connection_options(connection)->output_bytes_max;
    return has_share && rp_connection_may_hold(connection, more_bytes);
}

void rp_grpc_call_watch(rp_grpc_call *call, void *watched) { call->watched = watched; }

void rp_grpc_call_end(rp_grpc_call *call, int32_t status, rp_slice text) { rp_grpc_call_finish(call, status, text); }
