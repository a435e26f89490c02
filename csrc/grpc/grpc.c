/* grpc.c: speaks gRPC on a server's connections, and carries what other threads send to its calls. See grpc.h. */
#include "grpc.h"

#include <stdlib.h>
#include <string.h>

#include "grpc_inl.h"

#define MESSAGE_BYTES_MAX (130u << 20)
#define CALLS_MAX 1024u

void rp_grpc_options_default(rp_grpc_options *options) {
    *options = (rp_grpc_options){.message_bytes_max = MESSAGE_BYTES_MAX, .calls_max = CALLS_MAX};
}

static void on_item(void *context, rp_reactor *reactor, rp_connection *connection, rp_posted *item);

static void set_protocol(rp_grpc *grpc) {
    grpc->protocol = (rp_protocol){
        .context = grpc,
        .alpn = "h2",
        .begin = rp_grpc_session_begin,
        .take = rp_grpc_session_take,
        .fill = rp_grpc_session_fill,
        .may_read = rp_grpc_session_may_read,
        .look = rp_grpc_session_look,
        .on_item = on_item,
        .drain = rp_grpc_session_drain,
        .is_busy = rp_grpc_session_is_busy,
        .end = rp_grpc_session_end,
    };
}

static int copy_methods(rp_grpc *grpc, const rp_grpc_options *options) {
    for (uint32_t i = 0; i < options->method_count; i++) {
        char *path = strdup(options->methods[i].path);
        if (path == NULL) {
            return RP_E_NO_MEMORY;
        }
        grpc->methods[grpc->method_count++] = (rp_grpc_method){path, options->methods[i].has_stream};
    }
    return RP_OK;
}

/* nghttp2's defaults refuse floods of SETTINGS and of unanswered PINGs. */
static int open_library(rp_grpc *grpc, rp_error *error) {
    const rp_nghttp2 *library = &grpc->library;
    int status = rp_nghttp2_load(&grpc->library, error);
    if (status != RP_OK) {
        return status;
    }
    if (library->callbacks_new(&grpc->callbacks) != 0 || library->option_new(&grpc->option) != 0) {
        return RP_E_NO_MEMORY;
    }
    rp_grpc_set_callbacks(grpc);
    library->option_no_auto_window_update(grpc->option, 1);
    library->option_no_closed_streams(grpc->option, 1);
    if (library->option_no_whitespace_check != NULL) { /* a value of a single blank is the method's to refuse, with an error text */
        library->option_no_whitespace_check(grpc->option, 1);
    }
    return RP_OK;
}

int rp_grpc_create(const rp_grpc_options *options, rp_grpc **grpc_out, rp_error *error) {
    if (options->method_count > RP_GRPC_METHODS_MAX || options->calls_max == 0 || options->message_bytes_max > INT32_MAX) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "%u methods (%u at most), %u calls (1 or more) or messages of %u bytes",
                            options->method_count, RP_GRPC_METHODS_MAX, options->calls_max, options->message_bytes_max);
    }
    rp_grpc *grpc = calloc(1, sizeof *grpc);
    if (grpc == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "memory is out");
    }
    grpc->message_bytes_max = options->message_bytes_max;
    grpc->calls_max = options->calls_max;
    if (options->handler != NULL) {
        grpc->handler = *options->handler;
    }
    set_protocol(grpc);
    int status = copy_methods(grpc, options);
    if (status == RP_OK) {
        status = open_library(grpc, error);
    }
    if (status != RP_OK) {
        rp_grpc_destroy(grpc);
        return status == RP_E_NO_MEMORY ? rp_error_set(error, status, 0, NULL, -1, "memory is out") : status;
    }
    *grpc_out = grpc;
    return RP_OK;
}

void rp_grpc_destroy(rp_grpc *grpc) {
    if (grpc == NULL) {
        return;
    }
    for (uint32_t reactor = 0; reactor < RP_GRPC_REACTORS_MAX; reactor++) {
        while (grpc->spares[reactor].first != NULL) {
            rp_grpc_call *call = grpc->spares[reactor].first;
            grpc->spares[reactor].first = call->next;
            rp_grpc_call_free(call);
        }
    }
    if (grpc->library.handle != NULL) {
        grpc->library.option_del(grpc->option);
        grpc->library.callbacks_del(grpc->callbacks);
        rp_nghttp2_unload(&grpc->library);
    }
    for (uint32_t i = 0; i < grpc->method_count; i++) {
        free((char *)(uintptr_t)grpc->methods[i].path);
    }
    free(grpc);
}

const rp_protocol *rp_grpc_protocol(const rp_grpc *grpc) { return &grpc->protocol; }

/* ---- any thread ---- */

static int post(rp_server *server, uint64_t connection_id, rp_grpc_piece *piece) {
    int status = rp_server_post(server, connection_id, &piece->posted);
    if (status != RP_OK) {
        free(piece);
    }
    return status;
}

static rp_grpc_piece *make_piece(enum rp_grpc_act act, int32_t call, uint32_t size) {
    rp_grpc_piece *piece = malloc(sizeof *piece + size);
    if (piece != NULL) {
        *piece = (rp_grpc_piece){.act = (int32_t)act, .call = call, .status = -1, .size = size};
    }
    return piece;
}

int rp_grpc_send(rp_server *server, uint64_t connection_id, int32_t call, rp_slice message, int is_last) {
    if (message.size > INT32_MAX) {
        return RP_E_TOO_LARGE;
    }
    rp_grpc_piece *piece = make_piece(RP_GRPC_ACT_SEND, call, RP_GRPC_PREFIX + message.size);
    if (piece == NULL) {
        return RP_E_NO_MEMORY;
    }
    rp_grpc_write_prefix(piece->bytes, message.size);
    if (message.size > 0) {
        memcpy(piece->bytes + RP_GRPC_PREFIX, message.data, message.size);
    }
    piece->posted.bytes = piece->size;
    piece->status = is_last ? RP_GRPC_OK : -1;
    return post(server, connection_id, piece);
}

int rp_grpc_end(rp_server *server, uint64_t connection_id, int32_t call, int32_t status, rp_slice text) {
    uint32_t size = text.size < RP_GRPC_TEXT_MAX ? text.size : RP_GRPC_TEXT_MAX;
    rp_grpc_piece *piece = make_piece(RP_GRPC_ACT_END, call, size);
    if (piece == NULL) {
        return RP_E_NO_MEMORY;
    }
    if (size > 0) {
        memcpy(piece->bytes, text.data, size);
    }
    piece->status = status;
    return post(server, connection_id, piece);
}

int rp_grpc_took(rp_server *server, uint64_t connection_id, int32_t call) {
    rp_grpc_piece *piece = make_piece(RP_GRPC_ACT_TOOK, call, 0);
    return piece != NULL ? post(server, connection_id, piece) : RP_E_NO_MEMORY;
}

int rp_grpc_ask_room(rp_server *server, uint64_t connection_id, int32_t call) {
    rp_grpc_piece *piece = make_piece(RP_GRPC_ACT_ASK_ROOM, call, 0);
    return piece != NULL ? post(server, connection_id, piece) : RP_E_NO_MEMORY;
}

/* ---- on the reactor ---- */

/* Takes over the piece. */
static void add_answer(rp_grpc_call *call, rp_grpc_piece *piece) {
    bool is_last = piece->status == RP_GRPC_OK;
    rp_grpc_call_append(call, piece);
    if (is_last) {
        rp_grpc_call_finish(call, RP_GRPC_OK, (rp_slice){NULL, 0});
    }
}

static void act_upon(rp_grpc_call *call, const rp_grpc_piece *piece) {
    if (piece->act == RP_GRPC_ACT_END) {
        rp_grpc_call_finish(call, piece->status, (rp_slice){piece->bytes, piece->size});
    } else if (piece->act == RP_GRPC_ACT_TOOK) {
        rp_grpc_call_taken(call);
    } else {
        rp_grpc_call_ask_room(call);
    }
}

static void on_item(void *context, rp_reactor *reactor, rp_connection *connection, rp_posted *item) {
    rp_grpc_piece *piece = (rp_grpc_piece *)(void *)item;
    rp_grpc_session *session = connection != NULL ? rp_connection_spoken(connection) : NULL;
    (void)context, (void)reactor;
    if (session != NULL && piece->act == RP_GRPC_ACT_ASK_ROOM && piece->call == 0) {
        rp_grpc_session_ask_room(session);
    }
    rp_grpc_call *call = session != NULL && piece->call != 0 ? rp_grpc_session_call(session, piece->call) : NULL;
    if (call == NULL || call->is_ended) {
        free(piece);
    } else if (piece->act == RP_GRPC_ACT_SEND) {
        add_answer(call, piece);
    } else {
        act_upon(call, piece);
        free(piece);
    }
}
