/* call_input.c: assembles a call's bytes into messages and passes them to the handler or to Python.
 *
 * A call without a client's stream is passed on when it is complete, as a whole. Each message of a client's stream goes to Python when
 * it has arrived, until Python has RP_GRPC_UNTAKEN unfinished ones; later input waits here as bytes, while the stream's window stays
 * closed.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/log_inl.h"
#include "grpc_inl.h"

#define INPUT_BYTES_MIN 1024u
#define WINDOW_BYTES_MAX 4194304u /* for a large message */

static const rp_nghttp2 *library_of(const rp_grpc_call *call) { return &call->session->grpc->library; }

static const char held_too_much[] = "all connections together hold too much";

static bool has_stream(const rp_grpc_call *call) { return call->session->grpc->methods[call->method].has_stream != 0; }

void rp_grpc_call_begin(rp_grpc_call *call) {
    call->has_begun = true;
    if (call->header_bytes > RP_GRPC_METADATA_BYTES) {
        rp_grpc_call_refuse(call, RP_GRPC_RESOURCE_EXHAUSTED, "the metadata is too large", "200");
    } else if (!call->is_post) {
        rp_grpc_call_refuse(call, RP_GRPC_UNIMPLEMENTED, "gRPC calls are POST requests", "405");
    } else if (!call->has_content_type) {
        rp_grpc_call_refuse(call, RP_GRPC_UNIMPLEMENTED, "the content type is not application/grpc", "415");
    } else if (call->method < 0) {
        rp_grpc_call_refuse(call, RP_GRPC_UNIMPLEMENTED, "there is no such method", "200");
    } else if (call->is_encoded && !call->is_gzip) {
        rp_grpc_call_refuse(call, RP_GRPC_UNIMPLEMENTED, "grpc-encoding: there are identity and gzip", "200");
    } else {
        if (call->deadline_ns != INT64_MAX) {
            rp_connection_look_at(call->session->connection, call->deadline_ns);
        }
        if (has_stream(call)) {
            call->owner = RP_GRPC_PYTHON;
            rp_grpc_call_tell(call, RP_REQUEST_CALL, RP_GRPC_EVENT_STREAM, (rp_slice){NULL, 0});
        } else {
            rp_grpc_half_begin(call);
            if (!rp_grpc_half_may_grow(call, 0)) { /* counts its head, since nobody knows whether more will come */
                rp_grpc_call_refuse(call, RP_GRPC_RESOURCE_EXHAUSTED, held_too_much, "200");
            }
        }
    }
}

/* Returns its size with the prefix, 0 while unknown; negative: the call is refused. */
static int64_t message_size(rp_grpc_call *call) {
    if (call->input_size - call->input_at < RP_GRPC_PREFIX) {
        return 0;
    }
    const uint8_t *prefix = call->input + call->input_at;
    uint32_t size = (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 | prefix[4];
    if (prefix[0] > 1 || (prefix[0] == 1 && !call->is_gzip)) {
        rp_grpc_call_refuse(call, RP_GRPC_INTERNAL, "a message is marked as compressed, and its call names no encoding", "200");
    } else if (size > call->session->grpc->message_bytes_max) {
        rp_grpc_call_refuse(call, RP_GRPC_RESOURCE_EXHAUSTED, "a message is larger than this server takes", "200");
    } else {
        return (int64_t)size + RP_GRPC_PREFIX;
    }
    return RP_E_TOO_LARGE;
}

/* A large message should not wait for a window of 64 KB again and again. */
static void widen_window(rp_grpc_call *call, uint32_t size) {
    uint32_t wanted = size < WINDOW_BYTES_MAX ? size : WINDOW_BYTES_MAX;
    if (wanted > call->window && library_of(call)->set_local_window_size(call->session->http, 0, call->stream, (int32_t)wanted) == 0) {
        call->window = wanted;
    }
}

/* Reserves twice what has arrived, and no more than its one message needs. */
static int reserve_input(rp_grpc_call *call, uint32_t more) {
    uint32_t needed = call->input_size + more;
    if (needed <= call->input_capacity) {
        return RP_OK;
    }
    uint32_t capacity = needed < INPUT_BYTES_MIN ? INPUT_BYTES_MIN : needed > UINT32_MAX / 2 ? needed : needed * 2;
    if (needed <= call->expected && capacity > call->expected) {
        capacity = call->expected;
    }
    if (!rp_grpc_half_may_grow(call, capacity - call->input_capacity)) {
        rp_grpc_call_refuse(call, RP_GRPC_RESOURCE_EXHAUSTED, held_too_much, "200");
        return RP_E_BUSY;
    }
    uint8_t *grown = realloc(call->input, capacity);
    if (grown == NULL) {
        rp_grpc_call_refuse(call, RP_GRPC_RESOURCE_EXHAUSTED, "memory is out", "200");
        return RP_E_NO_MEMORY;
    }
    rp_connection_account(call->session->connection, capacity, call->input_capacity);
    rp_grpc_half_grew(call, capacity - call->input_capacity);
    call->input = grown;
    call->input_capacity = capacity;
    if (has_stream(call) && capacity > RP_GRPC_SPARE_BYTES) {
        rp_grpc_half_begin(call);
    }
    return RP_OK;
}

/* Not done for each message: for many small messages at once, all that wait would be moved as often. */
static void forget_told(rp_grpc_call *call) {
    if (call->input_at < call->input_size / 2) {
        return;
    }
    call->input_size -= call->input_at;
    if (call->input_size > 0 && call->input_at > 0) {
        memmove(call->input, call->input + call->input_at, call->input_size);
    }
    call->input_at = 0;
    if (call->input_size == 0 && call->input_capacity > RP_GRPC_SPARE_BYTES) {
        rp_grpc_half_end(call);
        rp_grpc_call_drop_input(call);
    }
}

static void tell_half_closed(rp_grpc_call *call) {
    if (call->input_size > call->input_at) {
        rp_grpc_call_refuse(call, RP_GRPC_INTERNAL, "the client's stream ends within a message", "200");
        return;
    }
    call->has_said_end = true;
    rp_grpc_call_tell(call, RP_REQUEST_HALF_CLOSED, 0, (rp_slice){NULL, 0});
}

/* For a client's stream: reports complete messages, as fast as they are dealt with. */
static void tell_messages(rp_grpc_call *call) {
    int64_t size = 0;
    while (!call->is_ended && call->untaken < RP_GRPC_UNTAKEN && (size = message_size(call)) > 0 &&
           size <= (int64_t)call->input_size - call->input_at) {
        const uint8_t *message = call->input + call->input_at;
        call->untaken++;
        call->input_at += (uint32_t)size;
        rp_grpc_call_tell(call, RP_REQUEST_MESSAGE, message[0] != 0 ? RP_GRPC_EVENT_COMPRESSED : 0,
                          (rp_slice){message + RP_GRPC_PREFIX, (uint32_t)size - RP_GRPC_PREFIX});
    }
    if (call->is_ended) {
        return;
    }
    forget_told(call);
    if (call->untaken == RP_GRPC_UNTAKEN) {
        return;
    }
    if (size > 0) {
        widen_window(call, (uint32_t)size);
    }
    library_of(call)->consume_stream(call->session->http, call->stream, call->unreturned);
    call->unreturned = 0;
    if (call->is_half_closed && !call->has_said_end) {
        tell_half_closed(call);
    }
}

void rp_grpc_call_taken(rp_grpc_call *call) {
    if (call->untaken > 0 && !call->is_ended) {
        call->untaken--;
        rp_grpc_half_heard(call);
        tell_messages(call);
    }
}

void rp_grpc_call_take(rp_grpc_call *call, const uint8_t *data, uint32_t size) {
    if (call->is_ended || reserve_input(call, size) != RP_OK) {
        library_of(call)->consume_stream(call->session->http, call->stream, size);
        return;
    }
    memcpy(call->input + call->input_size, data, size);
    call->input_size += size;
    rp_grpc_half_heard(call);
    if (has_stream(call)) {
        call->unreturned += size;
        tell_messages(call);
        return;
    }
    int64_t whole = message_size(call);
    if (whole > 0 && whole < call->input_size) {
        rp_grpc_call_refuse(call, RP_GRPC_INTERNAL, "more than one message came for a method that takes one", "200");
    } else if (whole > 0) {
        call->expected = (uint32_t)whole;
        widen_window(call, (uint32_t)whole);
    }
    library_of(call)->consume_stream(call->session->http, call->stream, size);
}

static void give_to_python(rp_grpc_call *call) {
    call->owner = RP_GRPC_PYTHON;
    rp_grpc_call_tell(call, RP_REQUEST_CALL, call->input[0] != 0 ? RP_GRPC_EVENT_COMPRESSED : 0, rp_grpc_call_message(call));
    if (call->input_capacity > RP_GRPC_SPARE_BYTES) {
        rp_grpc_call_drop_input(call);
    }
}

/* Passes the call to the handler, if that takes it. */
static int offer(rp_grpc_call *call) {
    const rp_grpc_handler *handler = &call->session->grpc->handler;
    if (handler->on_call == NULL || call->input[0] != 0) {
        return RP_PUNT;
    }
    call->owner = RP_GRPC_HANDLER;
    return handler->on_call(handler->context, rp_connection_reactor(call->session->connection), call);
}

void rp_grpc_call_half_close(rp_grpc_call *call) {
    call->is_half_closed = true;
    rp_grpc_half_end(call);
    if (call->is_ended) {
        return;
    }
    if (has_stream(call)) {
        tell_messages(call);
        return;
    }
    if (message_size(call) != call->input_size || call->input_size == 0) {
        rp_grpc_call_refuse(call, RP_GRPC_INTERNAL, "the request ends before its message is whole", "200");
        return;
    }
    int status = offer(call);
    if (status == RP_PUNT) {
        give_to_python(call);
    } else if (status < 0) {
        rp_connection *connection = call->session->connection;
        char address[RP_ADDRESS_TEXT_MAX];
        rp_address_text(rp_connection_address(connection), address);
        rp_log_write(rp_connection_options(connection)->log, RP_LOG_WARNING, "%s of %s: %s (%s)",
                     call->session->grpc->methods[call->method].path, address, rp_status_text(status), rp_status_name(status));
        call->owner = RP_GRPC_NOBODY;
        rp_grpc_call_refuse(call, RP_GRPC_INTERNAL, "the call failed", "200");
    }
}

void rp_grpc_call_punt(rp_grpc_call *call) { give_to_python(call); }
