/* call.c: the life of a call: its head, the events it reports, and what its handler asks of it. See call.h.
 *
 * Calls that have ended are kept for reuse, with room for a head and a small message.
 */
#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "grpc_inl.h"

#define HEAD_BYTES 1024u
#define HEADER_OVERHEAD 32u /* of a header, as HTTP/2 counts it */
#define WINDOW_BYTES 65535u /* initial window of a stream in HTTP/2 */

/* ---- life ---- */

static rp_grpc_spares *spares_of(const rp_grpc_session *session) {
    return &session->grpc->spares[rp_reactor_index(rp_connection_reactor(session->connection))];
}

static rp_grpc_call *take_spare(rp_grpc_spares *spares) {
    rp_grpc_call *call = spares->first;
    if (call != NULL) {
        spares->first = call->next;
        spares->count--;
    }
    return call;
}

static rp_grpc_call *make_call(void) {
    rp_grpc_call *call = calloc(1, sizeof *call);
    uint8_t *head = malloc(HEAD_BYTES);
    if (call == NULL || head == NULL) {
        free(call);
        free(head);
        return NULL;
    }
    call->head = head;
    call->head_capacity = HEAD_BYTES;
    return call;
}

static uint64_t held_bytes(const rp_grpc_call *call) { return sizeof *call + call->head_capacity + call->input_capacity; }

rp_grpc_call *rp_grpc_call_create(rp_grpc_session *session, int32_t stream) {
    rp_grpc_call *call = take_spare(spares_of(session));
    if (call == NULL && (call = make_call()) == NULL) {
        return NULL;
    }
    rp_grpc_call fresh = {.session = session,
                          .head = call->head,
                          .head_capacity = call->head_capacity,
                          .input = call->input,
                          .input_capacity = call->input_capacity,
                          .stream = stream,
                          .method = -1,
                          .began_ns = rp_grpc_session_now_ns(session),
                          .deadline_ns = INT64_MAX,
                          .window = WINDOW_BYTES,
                          .status = -1};
    *call = fresh;
    rp_connection_account(session->connection, held_bytes(call), 0);
    return call;
}

void rp_grpc_call_free(rp_grpc_call *call) {
    free(call->head);
    free(call->input);
    free(call);
}

void rp_grpc_call_drop_input(rp_grpc_call *call) {
    rp_connection_account(call->session->connection, 0, call->input_capacity);
    free(call->input);
    call->input = NULL;
    call->input_size = call->input_capacity = call->input_at = 0;
}

void rp_grpc_call_release(rp_grpc_call *call) {
    rp_grpc_spares *spares = spares_of(call->session);
    rp_grpc_half_end(call);
    rp_grpc_call_drop_answer(call);
    free(call->text);
    call->text = NULL;
    if (call->input_capacity > RP_GRPC_SPARE_BYTES) {
        rp_grpc_call_drop_input(call);
    }
    rp_connection_account(call->session->connection, 0, held_bytes(call));
    if (spares->count == RP_GRPC_SPARE_CALLS || call->head_capacity > HEAD_BYTES) {
        rp_grpc_call_free(call);
        return;
    }
    call->next = spares->first;
    spares->first = call;
    spares->count++;
}

/* ---- its head ---- */

static bool is(rp_slice name, const char *text) { return name.size == strlen(text) && memcmp(name.data, text, name.size) == 0; }

static int32_t find_method(const rp_grpc *grpc, rp_slice path) {
    for (uint32_t i = 0; i < grpc->method_count; i++) {
        if (is(path, grpc->methods[i].path)) {
            return (int32_t)i;
        }
    }
    return -1;
}

static void set_deadline(rp_grpc_call *call, rp_slice value) {
    int64_t timeout_ns = rp_grpc_timeout_ns(value);
    if (timeout_ns >= 0) { /* a timeout that cannot be parsed is ignored */
        call->deadline_ns = call->began_ns + timeout_ns;
    }
}

static int grow_head(rp_grpc_call *call, uint32_t size) {
    if (size <= call->head_capacity) {
        return RP_OK;
    }
    uint8_t *grown = realloc(call->head, RP_GRPC_METADATA_BYTES);
    if (grown == NULL) {
        return RP_E_NO_MEMORY;
    }
    rp_connection_account(call->session->connection, RP_GRPC_METADATA_BYTES, call->head_capacity);
    call->head = grown;
    call->head_capacity = RP_GRPC_METADATA_BYTES;
    return RP_OK;
}

static int keep_header(rp_grpc_call *call, rp_slice name, rp_slice value) {
    uint32_t at = call->head_size, size = at + name.size + value.size;
    if (call->entry_count == RP_GRPC_METADATA_MAX) {
        return RP_OK;
    }
    if (grow_head(call, size) != RP_OK) {
        return RP_E_NO_MEMORY;
    }
    memcpy(call->head + at, name.data, name.size);
    memcpy(call->head + at + name.size, value.data, value.size);
    call->entries[call->entry_count++] = (rp_grpc_entry){(uint16_t)at, (uint16_t)name.size, (uint16_t)value.size};
    call->head_size = size;
    return RP_OK;
}

int rp_grpc_call_add_header(rp_grpc_call *call, rp_slice name, rp_slice value) {
    uint64_t bytes = (uint64_t)call->header_bytes + name.size + value.size + HEADER_OVERHEAD;
    call->header_bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
    if (call->header_bytes > RP_GRPC_METADATA_BYTES) {
        return RP_OK; /* refused once all headers have arrived */
    }
    if (is(name, ":path")) {
        call->method = find_method(call->session->grpc, value);
    } else if (is(name, ":method")) {
        call->is_post = is(value, "POST");
    } else if (is(name, "content-type")) {
        call->has_content_type = rp_grpc_is_content_type(value);
    } else if (is(name, "grpc-timeout")) {
        set_deadline(call, value);
    } else if (is(name, "grpc-encoding")) {
        call->is_gzip = is(value, "gzip");
        call->is_encoded = !is(value, "identity");
    } else if (rp_grpc_is_kept(name)) {
        return keep_header(call, name, value);
    }
    return RP_OK;
}

/* ---- up to Python ---- */

void rp_grpc_call_tell(rp_grpc_call *call, enum rp_request_kind kind, int32_t flag, rp_slice message) {
    rp_command command;
    rp_command_clear(&command, call->method, RP_SERIALIZE_ROCKETMQ);
    command.opaque = call->stream;
    command.flag = flag;
    command.body = message;
    for (uint32_t i = 0; kind == RP_REQUEST_CALL && i < call->entry_count; i++) {
        const rp_grpc_entry *entry = &call->entries[i];
        const uint8_t *name = call->head + entry->at;
        rp_command_add_field(&command, (rp_slice){name, entry->name_size}, (rp_slice){name + entry->name_size, entry->value_size});
    }
    int status = rp_connection_tell(call->session->connection, kind, &command, call->deadline_ns);
    if (status != RP_OK && kind == RP_REQUEST_CALL) {
        call->owner = RP_GRPC_NOBODY;
    }
    if (status == RP_E_BUSY) {
        rp_grpc_call_refuse(call, RP_GRPC_RESOURCE_EXHAUSTED, "too many calls wait", "200");
    } else if (status != RP_OK && kind == RP_REQUEST_CALL) {
        rp_grpc_call_refuse(call, RP_GRPC_RESOURCE_EXHAUSTED, "memory is out", "200");
    } else if (status != RP_OK) {
        rp_connection_end(call->session->connection, "memory is out"); /* the connection's end tells Python of all its calls */
    }
}

void rp_grpc_call_tell_cancelled(rp_grpc_call *call) {
    const rp_grpc_handler *handler = &call->session->grpc->handler;
    enum rp_grpc_owner owner = call->owner;
    call->owner = RP_GRPC_NOBODY;
    if (owner == RP_GRPC_PYTHON) {
        rp_grpc_call_tell(call, RP_REQUEST_CANCELLED, 0, (rp_slice){NULL, 0});
    } else if (owner == RP_GRPC_HANDLER && handler->on_cancelled != NULL) {
        handler->on_cancelled(handler->context, rp_connection_reactor(call->session->connection), call);
    }
}

void rp_grpc_call_tell_room(rp_grpc_call *call) {
    if (call->wants_room && call->first == NULL) {
        call->wants_room = false;
        rp_grpc_call_tell(call, RP_REQUEST_ROOM, 0, (rp_slice){NULL, 0});
    }
}

void rp_grpc_call_ask_room(rp_grpc_call *call) {
    call->wants_room = true;
    rp_grpc_call_tell_room(call);
}

/* ---- for the handler ---- */

int32_t rp_grpc_call_method(const rp_grpc_call *call) { return call->method; }

rp_slice rp_grpc_call_message(const rp_grpc_call *call) {
    return (rp_slice){call->input + RP_GRPC_PREFIX, call->input_size - RP_GRPC_PREFIX};
}

rp_slice rp_grpc_call_metadata(const rp_grpc_call *call, const char *name) {
    for (uint32_t i = call->entry_count; i-- > 0;) {
        const rp_grpc_entry *entry = &call->entries[i];
        if (is((rp_slice){call->head + entry->at, entry->name_size}, name)) {
            return (rp_slice){call->head + entry->at + entry->name_size, entry->value_size};
        }
    }
    return (rp_slice){NULL, 0};
}

int64_t rp_grpc_call_deadline_ns(const rp_grpc_call *call) { return call->deadline_ns; }

int64_t rp_grpc_call_began_ns(const rp_grpc_call *call) { return call->began_ns; }

rp_connection *rp_grpc_call_connection(const rp_grpc_call *call) { return call->session->connection; }

void rp_grpc_call_keep(rp_grpc_call *call, void *kept) { call->kept = kept; }

void *rp_grpc_call_kept(const rp_grpc_call *call) { return call->kept; }
