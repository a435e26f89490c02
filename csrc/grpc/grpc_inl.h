/* grpc_inl.h: what the files of the room share of rp_grpc. Internal to csrc/grpc, C only.
 *
 * Threads  fixed after create, but for `spares` and `halves`, of which each reactor has its own.
 */
#ifndef RP_GRPC_GRPC_INL_H
#define RP_GRPC_GRPC_INL_H

#include "half_messages.h"
#include "session.h"

#define RP_GRPC_REACTORS_MAX 64
#define RP_GRPC_SPARE_CALLS 256u /* kept by a reactor to be used again */

typedef struct rp_grpc_spares {
    rp_grpc_call *first;
    uint32_t count;
} rp_grpc_spares;

struct rp_grpc {
    rp_nghttp2 library;
    struct nghttp2_session_callbacks *callbacks;
    struct nghttp2_option *option;
    rp_grpc_method methods[RP_GRPC_METHODS_MAX]; /* paths are copies */
    uint32_t method_count;
    uint32_t message_bytes_max, calls_max;
    rp_grpc_handler handler;
    rp_protocol protocol;
    rp_grpc_spares spares[RP_GRPC_REACTORS_MAX];
    rp_grpc_halves halves[RP_GRPC_REACTORS_MAX];
};

#endif
