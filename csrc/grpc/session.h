/* session.h: one connection's HTTP/2: nghttp2's session between the bytes and the calls. Internal to csrc/grpc, C only.
 *
 * Threads  its connection's reactor.
 * Bounds   calls_max calls; CONTROL_FRAMES_MAX frames that answer the client's and cannot be sent (then it is not read); the client may
 *          have RESETS_BURST calls reset at once and RESETS_PER_S, then it is disconnected; nghttp2's own bounds for floods of SETTINGS,
 *          PING, CONTINUATION.
 */
#ifndef RP_GRPC_SESSION_H
#define RP_GRPC_SESSION_H

#include "call.h"

struct rp_grpc_session {
    rp_grpc *grpc;
    rp_connection *connection;
    struct nghttp2_session *http;
    rp_grpc_call *calls;
    uint32_t call_count;
    uint64_t queued_bytes;   /* of answers that nghttp2 has not read */
    int64_t idle_since_ns;   /* since when it has had no call */
    int64_t heard_ns;        /* when bytes last arrived */
    int64_t pinged_ns;       /* 0: no PING is outstanding */
    int64_t resets_ns;       /* when resets_left was last set */
    uint32_t resets_left;
    bool wants_room;         /* Python waits until it accepts messages again */
    bool is_leaving;         /* a GOAWAY was sent */
};

/* The functions of protocol.h; context is the rp_grpc. */
int rp_grpc_session_begin(void *context, rp_connection *connection);
int rp_grpc_session_take(void *context, rp_connection *connection, const uint8_t *data, uint32_t size);
enum rp_fill rp_grpc_session_fill(void *context, rp_connection *connection);
bool rp_grpc_session_may_read(void *context, const rp_connection *connection);
int64_t rp_grpc_session_look(void *context, rp_connection *connection, int64_t now_ns);
void rp_grpc_session_drain(void *context, rp_connection *connection);
bool rp_grpc_session_is_busy(void *context, const rp_connection *connection);
void rp_grpc_session_end(void *context, rp_connection *connection);

void rp_grpc_set_callbacks(rp_grpc *grpc);
int64_t rp_grpc_session_now_ns(const rp_grpc_session *session);
rp_grpc_call *rp_grpc_session_call(const rp_grpc_session *session, int32_t stream); /* NULL: there is none */
void rp_grpc_session_ask_room(rp_grpc_session *session);
void rp_grpc_session_queue(rp_grpc_session *session, uint64_t more, uint64_t less); /* counts bytes of answers */

#endif
