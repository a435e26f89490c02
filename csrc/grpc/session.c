/* session.c: see session.h. RocketMQ: NettyServerHandler of grpc-java.
 *
 *   bytes → nghttp2 → on_begin_headers, on_header, on_frame, on_data, on_close → call
 *   call → submit_response, resume_data → nghttp2 → fill → output
 */
#include "session.h"

#include <stdlib.h>

#include "../base/clock_inl.h"
#include "../base/log_inl.h"
#include "grpc_inl.h"

#define SESSION_BYTES 16384u               /* approximately what nghttp2 holds for an idle connection */
#define CONNECTION_WINDOW_BYTES (16 << 20) /* for all its streams together: calls have bounds of their own */
#define CONTROL_FRAMES_MAX 4096u
#define RESETS_BURST 2000u
#define RESETS_PER_S 100u

int64_t rp_grpc_session_now_ns(const rp_grpc_session *session) { return rp_reactor_now_ns(rp_connection_reactor(session->connection)); }

rp_grpc_call *rp_grpc_session_call(const rp_grpc_session *session, int32_t stream) {
    return session->grpc->library.stream_user_data(session->http, stream);
}

void rp_grpc_session_queue(rp_grpc_session *session, uint64_t more, uint64_t less) {
    session->queued_bytes += more;
    session->queued_bytes -= less;
    rp_connection_set_queued(session->connection, session->queued_bytes);
    rp_connection_account(session->connection, more, less);
}

/* ---- what nghttp2 calls ---- */

static int on_begin_headers(struct nghttp2_session *http, const rp_http2_frame_head *frame, void *context) {
    rp_grpc_session *session = context;
    if (frame->type != RP_HTTP2_HEADERS || rp_grpc_session_call(session, frame->stream) != NULL) {
        return 0; /* trailers */
    }
    rp_grpc_call *call = rp_grpc_call_create(session, frame->stream);
    if (call == NULL) {
        return RP_HTTP2_E_STREAM;
    }
    session->grpc->library.set_stream_user_data(http, frame->stream, call);
    call->next = session->calls;
    if (call->next != NULL) {
        call->next->previous = call;
    }
    session->calls = call;
    session->call_count++;
    return 0;
}

static int on_header(struct nghttp2_session *http, const rp_http2_frame_head *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *context) {
    rp_grpc_call *call = rp_grpc_session_call(context, frame->stream);
    (void)http, (void)flags;
    if (call == NULL || call->has_begun) {
        return 0;
    }
    int status = rp_grpc_call_add_header(call, (rp_slice){name, (uint32_t)name_size}, (rp_slice){value, (uint32_t)value_size});
    return status == RP_OK ? 0 : RP_HTTP2_E_STREAM;
}

/* A client that begins calls only to reset them causes work for nothing. */
static void count_reset(rp_grpc_session *session) {
    int64_t now_ns = rp_grpc_session_now_ns(session), passed_ns = now_ns - session->resets_ns;
    uint64_t more = passed_ns > 60 * RP_NS_PER_S ? RESETS_BURST : (uint64_t)passed_ns * RESETS_PER_S / RP_NS_PER_S;
    if (more > 0) {
        session->resets_ns = now_ns;
        session->resets_left = session->resets_left + more > RESETS_BURST ? RESETS_BURST : session->resets_left + (uint32_t)more;
    }
    if (session->resets_left == 0) {
        session->grpc->library.terminate_session(session->http, RP_HTTP2_ENHANCE_YOUR_CALM);
        return;
    }
    session->resets_left--;
}

static int on_frame(struct nghttp2_session *http, const rp_http2_frame_head *frame, void *context) {
    rp_grpc_session *session = context;
    (void)http;
    if (rp_connection_is_ending(session->connection)) {
        return RP_HTTP2_E_CALLBACK; /* nothing new begins on it */
    }
    if (frame->type == RP_HTTP2_RST_STREAM) {
        count_reset(session);
        return 0;
    }
    if (frame->type != RP_HTTP2_HEADERS && frame->type != RP_HTTP2_DATA) {
        return 0;
    }
    rp_grpc_call *call = rp_grpc_session_call(session, frame->stream);
    if (call == NULL) {
        return 0;
    }
    if (frame->type == RP_HTTP2_HEADERS && !call->has_begun) {
        rp_grpc_call_begin(call);
    }
    if ((frame->flags & RP_HTTP2_END_STREAM) != 0) {
        rp_grpc_call_half_close(call);
    }
    return 0;
}

/* The answer's end is sent: a client that continues sending is told to stop. A client that breaks HTTP's rules for a call, so that it is
 * reset here, causes as much work for nothing as if it reset the call itself. */
static int on_sent(struct nghttp2_session *http, const rp_http2_frame_head *frame, void *context) {
    rp_grpc_session *session = context;
    if (frame->type == RP_HTTP2_RST_STREAM) {
        const rp_grpc_call *reset = rp_grpc_session_call(session, frame->stream);
        if (reset != NULL && !reset->is_ended) {
            count_reset(session);
        }
        return 0;
    }
    if (frame->type != RP_HTTP2_HEADERS || (frame->flags & RP_HTTP2_END_STREAM) == 0) {
        return 0;
    }
    const rp_grpc_call *call = rp_grpc_session_call(session, frame->stream);
    if (call != NULL && !call->is_half_closed) {
        session->grpc->library.submit_rst_stream(http, 0, frame->stream, RP_HTTP2_NO_ERROR);
    }
    return 0;
}

static int on_data(struct nghttp2_session *http, uint8_t flags, int32_t stream, const uint8_t *data, size_t size, void *context) {
    rp_grpc_session *session = context;
    rp_grpc_call *call = rp_grpc_session_call(session, stream);
    (void)flags;
    session->grpc->library.consume_connection(http, size);
    if (call != NULL) {
        rp_grpc_call_take(call, data, (uint32_t)size);
    }
    return 0;
}

static void forget(rp_grpc_session *session, rp_grpc_call *call) {
    if (call->previous != NULL) {
        call->previous->next = call->next;
    } else {
        session->calls = call->next;
    }
    if (call->next != NULL) {
        call->next->previous = call->previous;
    }
    session->call_count--;
    rp_grpc_call_release(call);
}

/* Returns when to check whether it is idle; INT64_MAX: never. */
static int64_t idle_at_ns(const rp_grpc_session *session) {
    uint32_t idle_ms = rp_connection_options(session->connection)->idle_timeout_ms;
    return idle_ms > 0 ? session->idle_since_ns + idle_ms * RP_NS_PER_MS : INT64_MAX;
}

static int on_close(struct nghttp2_session *http, int32_t stream, uint32_t error_code, void *context) {
    rp_grpc_session *session = context;
    rp_grpc_call *call = rp_grpc_session_call(session, stream);
    (void)error_code;
    if (call == NULL) {
        return 0;
    }
    session->grpc->library.set_stream_user_data(http, stream, NULL);
    rp_grpc_call_tell_cancelled(call);
    forget(session, call);
    if (session->call_count == 0) {
        session->idle_since_ns = rp_grpc_session_now_ns(session);
        rp_connection_look_at(session->connection, idle_at_ns(session));
    }
    return 0;
}

void rp_grpc_set_callbacks(rp_grpc *grpc) {
    const rp_nghttp2 *library = &grpc->library;
    library->set_on_begin_headers(grpc->callbacks, on_begin_headers);
    library->set_on_header(grpc->callbacks, on_header);
    library->set_on_frame_recv(grpc->callbacks, on_frame);
    library->set_on_frame_send(grpc->callbacks, on_sent);
    library->set_on_data_chunk_recv(grpc->callbacks, on_data);
    library->set_on_stream_close(grpc->callbacks, on_close);
}

/* ---- what its connection calls ---- */

static void warn(const rp_connection *connection, const char *what, const char *reason) {
    char address[RP_ADDRESS_TEXT_MAX];
    rp_address_text(rp_connection_address(connection), address);
    rp_log_write(rp_connection_options(connection)->log, RP_LOG_WARNING, "connection %s closed: %s%s", address, what, reason);
}

static int greet(rp_grpc_session *session) {
    const rp_grpc *grpc = session->grpc;
    const rp_http2_settings_entry settings[] = {
        {RP_HTTP2_MAX_CONCURRENT_STREAMS, grpc->calls_max},
        {RP_HTTP2_MAX_HEADER_LIST_SIZE, RP_GRPC_METADATA_BYTES},
    };
    if (grpc->library.submit_settings(session->http, 0, settings, sizeof settings / sizeof *settings) != 0 ||
        grpc->library.set_local_window_size(session->http, 0, 0, CONNECTION_WINDOW_BYTES) != 0) {
        return RP_E_NO_MEMORY;
    }
    return RP_OK;
}

static void free_session(rp_grpc_session *session) {
    if (session->http != NULL) {
        session->grpc->library.session_del(session->http);
    }
    free(session);
}

int rp_grpc_session_begin(void *context, rp_connection *connection) {
    rp_grpc *grpc = context;
    if (!rp_connection_may_hold(connection, SESSION_BYTES)) {
        warn(connection, "all connections together hold too much", "; raise --memory");
        return RP_E_BUSY;
    }
    rp_grpc_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return RP_E_NO_MEMORY;
    }
    session->grpc = grpc;
    session->connection = connection;
    session->resets_left = RESETS_BURST;
    if (grpc->library.session_server_new(&session->http, grpc->callbacks, session, grpc->option) != 0 || greet(session) != RP_OK) {
        free_session(session);
        return RP_E_NO_MEMORY;
    }
    session->idle_since_ns = session->heard_ns = session->resets_ns = rp_grpc_session_now_ns(session);
    rp_connection_account(connection, SESSION_BYTES, 0);
    rp_connection_set_spoken(connection, session);
    rp_connection_look_at(connection, idle_at_ns(session));
    return RP_OK;
}

int rp_grpc_session_take(void *context, rp_connection *connection, const uint8_t *data, uint32_t size) {
    const rp_grpc *grpc = context;
    rp_grpc_session *session = rp_connection_spoken(connection);
    session->heard_ns = rp_grpc_session_now_ns(session);
    session->pinged_ns = 0;
    ssize_t taken = grpc->library.mem_recv(session->http, data, size);
    if (rp_connection_is_ending(connection)) {
        return RP_OK;
    }
    if (taken < 0) {
        warn(connection, taken == RP_HTTP2_E_BAD_CLIENT_MAGIC ? "it does not begin as HTTP/2 does" : "HTTP/2: ",
             taken == RP_HTTP2_E_BAD_CLIENT_MAGIC ? "" : grpc->library.error_text((int)taken));
        return RP_E_PROTOCOL;
    }
    rp_connection_want_fill(connection);
    return RP_OK;
}

static void tell_room(rp_grpc_session *session, uint64_t unsent_bytes) {
    uint64_t held = session->queued_bytes + unsent_bytes;
    if (!session->wants_room || held > rp_connection_options(session->connection)->output_bytes_max / 2) {
        return;
    }
    rp_command command;
    rp_command_clear(&command, 0, RP_SERIALIZE_ROCKETMQ);
    session->wants_room = false;
    if (rp_connection_tell(session->connection, RP_REQUEST_ROOM, &command, INT64_MAX) != RP_OK) {
        rp_connection_end(session->connection, "memory is out");
    }
}

void rp_grpc_session_ask_room(rp_grpc_session *session) {
    session->wants_room = true;
    tell_room(session, rp_connection_unsent_bytes(session->connection));
}

/* RP_OK, RP_E_NO_MEMORY; *has_more: the connection has no room for the rest. */
static int put_frames(rp_grpc_session *session, bool *has_more) {
    const rp_nghttp2 *library = &session->grpc->library;
    for (;;) {
        const uint8_t *bytes;
        *has_more = rp_connection_room(session->connection) == 0;
        if (*has_more) {
            return RP_OK;
        }
        ssize_t size = library->mem_send(session->http, &bytes);
        if (size <= 0) {
            return size == 0 ? RP_OK : RP_E_NO_MEMORY;
        }
        if (rp_connection_put(session->connection, bytes, (uint32_t)size) != RP_OK) {
            return RP_E_NO_MEMORY;
        }
    }
}

enum rp_fill rp_grpc_session_fill(void *context, rp_connection *connection) {
    const rp_grpc *grpc = context;
    rp_grpc_session *session = rp_connection_spoken(connection);
    bool has_more;
    if (put_frames(session, &has_more) != RP_OK) {
        rp_connection_end(connection, "memory is out");
        return RP_FILL_ALL;
    }
    tell_room(session, rp_connection_unsent_bytes(connection));
    if (!has_more && !grpc->library.want_read(session->http) && !grpc->library.want_write(session->http)) {
        rp_connection_end(connection, "HTTP/2 is over");
    }
    return has_more ? RP_FILL_MORE : RP_FILL_ALL;
}

bool rp_grpc_session_may_read(void *context, const rp_connection *connection) {
    const rp_grpc *grpc = context;
    const rp_grpc_session *session = rp_connection_spoken(connection);
    return grpc->library.outbound_queue_size(session->http) < CONTROL_FRAMES_MAX;
}

bool rp_grpc_session_is_busy(void *context, const rp_connection *connection) {
    const rp_grpc_session *session = rp_connection_spoken(connection);
    (void)context;
    return session->call_count > 0;
}

static void say_goodbye(rp_grpc_session *session) {
    const rp_nghttp2 *library = &session->grpc->library;
    if (!session->is_leaving) {
        session->is_leaving = true;
        library->submit_goaway(session->http, 0, library->last_proc_stream(session->http), RP_HTTP2_NO_ERROR, NULL, 0);
        rp_connection_want_fill(session->connection);
    }
}

void rp_grpc_session_drain(void *context, rp_connection *connection) {
    (void)context;
    say_goodbye(rp_connection_spoken(connection));
}

/* ---- time ---- */

static int64_t earlier(int64_t left, int64_t right) { return left < right ? left : right; }

/* Checks whether its deadline has passed, or its client does not take the answer. Returns when to check again. */
static int64_t look_at_call(rp_grpc_call *call, int64_t now_ns, uint32_t stall_ms) {
    if (call->deadline_ns <= now_ns && !call->is_ended) {
        rp_grpc_call_refuse(call, RP_GRPC_DEADLINE_EXCEEDED, "the call's time is over", "200");
        return INT64_MAX;
    }
    int64_t half_ns = rp_grpc_half_limit_ns(call, stall_ms), next_ns = earlier(call->is_ended ? INT64_MAX : call->deadline_ns, half_ns);
    if (half_ns <= now_ns) {
        rp_grpc_call_refuse(call, RP_GRPC_DEADLINE_EXCEEDED, "the request does not come", "200");
        return INT64_MAX;
    }
    if (call->first == NULL || stall_ms == 0) {
        return next_ns;
    }
    int64_t stalled_ns = call->progress_ns + stall_ms * RP_NS_PER_MS;
    if (stalled_ns <= now_ns) {
        rp_grpc_call_reset(call, RP_HTTP2_CANCEL);
        return INT64_MAX;
    }
    return earlier(next_ns, stalled_ns);
}

/* Calls are under way and nothing is heard: sends a PING. Returns when to check again. */
static int64_t ask_whether_there(rp_grpc_session *session, int64_t now_ns) {
    const rp_server_options *options = rp_connection_options(session->connection);
    if (options->idle_timeout_ms == 0) {
        return INT64_MAX;
    }
    int64_t patience_ns = options->stall_timeout_ms > 0 ? options->stall_timeout_ms * RP_NS_PER_MS : INT64_MAX - now_ns;
    if (session->pinged_ns > 0) {
        int64_t until_ns = session->pinged_ns + patience_ns;
        if (until_ns <= now_ns) {
            rp_connection_end(session->connection, "silent");
        }
        return until_ns;
    }
    int64_t silent_ns = session->heard_ns + options->idle_timeout_ms * RP_NS_PER_MS;
    if (silent_ns > now_ns) {
        return silent_ns;
    }
    session->pinged_ns = now_ns;
    session->grpc->library.submit_ping(session->http, 0, NULL);
    rp_connection_want_fill(session->connection);
    return now_ns + patience_ns;
}

int64_t rp_grpc_session_look(void *context, rp_connection *connection, int64_t now_ns) {
    rp_grpc_session *session = rp_connection_spoken(connection);
    uint32_t stall_ms = rp_connection_options(connection)->stall_timeout_ms;
    (void)context;
    if (session->call_count == 0) {
        if (idle_at_ns(session) <= now_ns) {
            say_goodbye(session);
            rp_connection_end(connection, "idle");
        }
        return idle_at_ns(session);
    }
    int64_t next_ns = ask_whether_there(session, now_ns);
    for (rp_grpc_call *call = session->calls; call != NULL; call = call->next) {
        next_ns = earlier(next_ns, look_at_call(call, now_ns, stall_ms));
    }
    return next_ns;
}

/* ---- its end ---- */

void rp_grpc_session_end(void *context, rp_connection *connection) {
    rp_grpc_session *session = rp_connection_spoken(connection);
    (void)context;
    while (session->calls != NULL) {
        rp_grpc_call *call = session->calls;
        if (call->owner == RP_GRPC_HANDLER) { /* Python is told of the connection's end */
            rp_grpc_call_tell_cancelled(call);
        }
        forget(session, call);
    }
    rp_connection_account(connection, 0, SESSION_BYTES);
    free_session(session);
}
