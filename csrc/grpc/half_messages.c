/* half_messages.c: see half_messages.h. A list of a reactor's, in the order in which they began. */
#include "half_messages.h"

#include "../base/clock_inl.h"
#include "grpc_inl.h"

static rp_grpc_halves *halves_of(const rp_grpc_call *call) {
    const rp_grpc_session *session = call->session;
    return &session->grpc->halves[rp_reactor_index(rp_connection_reactor(session->connection))];
}

int64_t rp_grpc_half_limit_ns(const rp_grpc_call *call, uint32_t stall_ms) {
    if (!call->is_half || stall_ms == 0 || call->untaken == RP_GRPC_UNTAKEN) { /* the last condition: Python is slow, not the client */
        return INT64_MAX;
    }
    int64_t stall_ns = stall_ms * RP_NS_PER_MS, silent_ns = call->half_heard_ns + stall_ns;
    int64_t whole_ns = call->half_since_ns + RP_GRPC_HALF_STALLS * stall_ns;
    return silent_ns < whole_ns ? silent_ns : whole_ns;
}

static void look_in_time(const rp_grpc_call *call) {
    uint32_t stall_ms = rp_connection_options(call->session->connection)->stall_timeout_ms;
    if (stall_ms > 0) {
        rp_connection_look_at(call->session->connection, rp_grpc_half_limit_ns(call, stall_ms));
    }
}

void rp_grpc_half_begin(rp_grpc_call *call) {
    rp_grpc_halves *halves = halves_of(call);
    if (call->is_half) {
        return;
    }
    call->is_half = true;
    call->half_since_ns = call->half_heard_ns = rp_grpc_session_now_ns(call->session);
    call->half_bytes = (uint64_t)sizeof *call + call->head_capacity + call->input_capacity;
    halves->bytes += call->half_bytes;
    call->younger = NULL;
    call->older = halves->youngest;
    *(call->older != NULL ? &call->older->younger : &halves->oldest) = call;
    halves->youngest = call;
    look_in_time(call);
}

void rp_grpc_half_end(rp_grpc_call *call) {
    rp_grpc_halves *halves = halves_of(call);
    if (!call->is_half) {
        return;
    }
    call->is_half = false;
    halves->bytes -= call->half_bytes;
    *(call->older != NULL ? &call->older->younger : &halves->oldest) = call->younger;
    *(call->younger != NULL ? &call->younger->older : &halves->youngest) = call->older;
}

void rp_grpc_half_grew(rp_grpc_call *call, uint32_t more) {
    if (call->is_half) {
        call->half_bytes += more;
        halves_of(call)->bytes += more;
    }
}

void rp_grpc_half_heard(rp_grpc_call *call) {
    call->half_heard_ns = rp_grpc_session_now_ns(call->session);
    if (call->is_half) {
        look_in_time(call);
    }
}

/* ---- room ---- */

static bool has_room(const rp_grpc_call *call, uint32_t more) {
    const rp_connection *connection = call->session->connection;
    const rp_server_options *options = rp_connection_options(connection);
    const rp_grpc_halves *halves = halves_of(call);
    uint64_t others = halves->bytes - (call->is_half ? call->half_bytes : 0);
    uint64_t share = options->memory_bytes_max / 2 / (options->reactors > 0 ? options->reactors : 1);
    return (others == 0 || halves->bytes + more <= share) && rp_connection_may_hold(connection, more);
}

/* Finds the oldest other one, if it has been here for long enough. */
static rp_grpc_call *find_oldest(const rp_grpc_call *call) {
    rp_grpc_call *oldest = halves_of(call)->oldest;
    if (oldest == call) {
        oldest = oldest->younger;
    }
    int64_t now_ns = rp_grpc_session_now_ns(call->session);
    return oldest != NULL && now_ns - oldest->half_since_ns >= RP_GRPC_HALF_GRACE_MS * RP_NS_PER_MS ? oldest : NULL;
}

bool rp_grpc_half_may_grow(rp_grpc_call *call, uint32_t more) {
    rp_grpc_call *oldest;
    while (!has_room(call, more)) {
        if ((oldest = find_oldest(call)) == NULL) {
            return false;
        }
        rp_grpc_call_refuse(oldest, RP_GRPC_RESOURCE_EXHAUSTED, "its message came too slowly, and others need the memory", "200");
        rp_grpc_half_end(oldest); /* a call whose answer has ended is not refused, and would stay in the list */
        rp_grpc_call_drop_input(oldest);
    }
    return true;
}
