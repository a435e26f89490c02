/* nghttp2.h: loads the functions of libnghttp2 that we call: HTTP/2's framing and HPACK, without a socket. libnghttp2.so.14 is loaded at
 * run time and not needed to build.
 *
 * Threads  load and unload from the owner; a session is used by one thread at a time.
 * Bounds   none here; a session is bounded by its options and its user (../grpc/session.h).
 */
#ifndef RP_BASE_NGHTTP2_H
#define RP_BASE_NGHTTP2_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

/* The library's numbers and structs, which are part of its interface. */
enum rp_http2_frame { RP_HTTP2_DATA = 0, RP_HTTP2_HEADERS = 1, RP_HTTP2_RST_STREAM = 3, RP_HTTP2_PING = 6, RP_HTTP2_GOAWAY = 7 };
enum rp_http2_flag { RP_HTTP2_END_STREAM = 1, RP_HTTP2_ACK = 1 };
enum rp_http2_setting { RP_HTTP2_MAX_CONCURRENT_STREAMS = 3, RP_HTTP2_INITIAL_WINDOW_SIZE = 4, RP_HTTP2_MAX_HEADER_LIST_SIZE = 6 };
enum rp_http2_error_code { RP_HTTP2_NO_ERROR = 0, RP_HTTP2_INTERNAL_ERROR = 2, RP_HTTP2_CANCEL = 8, RP_HTTP2_ENHANCE_YOUR_CALM = 11 };
enum rp_http2_source { RP_HTTP2_SOURCE_END = 1, RP_HTTP2_SOURCE_NO_END_STREAM = 2 }; /* what a read callback says of its bytes */
enum rp_http2_answer {
    RP_HTTP2_E_DEFERRED = -508,       /* from a read callback: it has nothing now */
    RP_HTTP2_E_STREAM = -521,         /* from a callback: its stream is reset */
    RP_HTTP2_E_NO_MEMORY = -901,
    RP_HTTP2_E_CALLBACK = -902,       /* from a callback: the session has failed */
    RP_HTTP2_E_BAD_CLIENT_MAGIC = -903,
    RP_HTTP2_E_FLOODED = -904
};

struct nghttp2_session; /* the library's own, known by pointer only */
struct nghttp2_session_callbacks;
struct nghttp2_option;

typedef struct rp_http2_header {
    uint8_t *name, *value;
    size_t name_size, value_size;
    uint8_t flags;
} rp_http2_header;

typedef struct rp_http2_settings_entry {
    int32_t id;
    uint32_t value;
} rp_http2_settings_entry;

typedef struct rp_http2_frame_head { /* of every frame; what follows depends upon its type */
    size_t size;
    int32_t stream;
    uint8_t type; /* rp_http2_frame */
    uint8_t flags;
    uint8_t reserved;
} rp_http2_frame_head;

typedef union rp_http2_data_source {
    int fd;
    void *pointer;
} rp_http2_data_source;

typedef ssize_t rp_http2_read(struct nghttp2_session *session, int32_t stream, uint8_t *target, size_t room, uint32_t *flags,
                              rp_http2_data_source *source, void *context);

typedef struct rp_http2_data_provider {
    rp_http2_data_source source;
    rp_http2_read *read;
} rp_http2_data_provider;

typedef int rp_http2_on_frame(struct nghttp2_session *session, const rp_http2_frame_head *frame, void *context);
typedef int rp_http2_on_header(struct nghttp2_session *session, const rp_http2_frame_head *frame, const uint8_t *name, size_t name_size,
                               const uint8_t *value, size_t value_size, uint8_t flags, void *context);
typedef int rp_http2_on_data(struct nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t size,
                             void *context);
typedef int rp_http2_on_close(struct nghttp2_session *session, int32_t stream, uint32_t error_code, void *context);

typedef struct rp_nghttp2 {
    void *handle; /* NULL when it is not loaded */
    int (*callbacks_new)(struct nghttp2_session_callbacks **callbacks);
    void (*callbacks_del)(struct nghttp2_session_callbacks *callbacks);
    void (*set_on_begin_headers)(struct nghttp2_session_callbacks *callbacks, rp_http2_on_frame *call);
    void (*set_on_header)(struct nghttp2_session_callbacks *callbacks, rp_http2_on_header *call);
    void (*set_on_frame_recv)(struct nghttp2_session_callbacks *callbacks, rp_http2_on_frame *call);
    void (*set_on_frame_send)(struct nghttp2_session_callbacks *callbacks, rp_http2_on_frame *call);
    void (*set_on_data_chunk_recv)(struct nghttp2_session_callbacks *callbacks, rp_http2_on_data *call);
    void (*set_on_stream_close)(struct nghttp2_session_callbacks *callbacks, rp_http2_on_close *call);
    int (*option_new)(struct nghttp2_option **option);
    void (*option_del)(struct nghttp2_option *option);
    void (*option_no_auto_window_update)(struct nghttp2_option *option, int value);
    void (*option_no_closed_streams)(struct nghttp2_option *option, int value);
    void (*option_max_outbound_ack)(struct nghttp2_option *option, size_t value);
    void (*option_max_settings)(struct nghttp2_option *option, size_t value);
    /* NULL before version 1.50, which did not have this check. */
    void (*option_no_whitespace_check)(struct nghttp2_option *option, int value);
    int (*session_server_new)(struct nghttp2_session **session, const struct nghttp2_session_callbacks *callbacks, void *context,
                              const struct nghttp2_option *option);
    void (*session_del)(struct nghttp2_session *session);
    ssize_t (*mem_recv)(struct nghttp2_session *session, const uint8_t *data, size_t size);
    ssize_t (*mem_send)(struct nghttp2_session *session, const uint8_t **data);
    int (*want_read)(struct nghttp2_session *session);
    int (*want_write)(struct nghttp2_session *session);
    size_t (*outbound_queue_size)(struct nghttp2_session *session);
    int (*consume_connection)(struct nghttp2_session *session, size_t size);
    int (*consume_stream)(struct nghttp2_session *session, int32_t stream, size_t size);
    int (*set_local_window_size)(struct nghttp2_session *session, uint8_t flags, int32_t stream, int32_t size);
    int (*set_stream_user_data)(struct nghttp2_session *session, int32_t stream, void *pointer);
    void *(*stream_user_data)(struct nghttp2_session *session, int32_t stream);
    int (*submit_settings)(struct nghttp2_session *session, uint8_t flags, const rp_http2_settings_entry *entries, size_t count);
    int (*submit_response)(struct nghttp2_session *session, int32_t stream, const rp_http2_header *headers, size_t count,
                           const rp_http2_data_provider *provider);
    int (*submit_trailer)(struct nghttp2_session *session, int32_t stream, const rp_http2_header *headers, size_t count);
    int (*submit_rst_stream)(struct nghttp2_session *session, uint8_t flags, int32_t stream, uint32_t error_code);
    int (*submit_ping)(struct nghttp2_session *session, uint8_t flags, const uint8_t *opaque);
    int (*submit_goaway)(struct nghttp2_session *session, uint8_t flags, int32_t last_stream, uint32_t error_code, const uint8_t *data,
                         size_t size);
    int32_t (*last_proc_stream)(struct nghttp2_session *session);
    int (*terminate_session)(struct nghttp2_session *session, uint32_t error_code);
    int (*resume_data)(struct nghttp2_session *session, int32_t stream);
    const char *(*error_text)(int error);
} rp_nghttp2;

/* RP_OK; RP_E_UNSUPPORTED: it does not exist, or lacks one of the calls; error says which and what to do, and library is empty. */
int rp_nghttp2_load(rp_nghttp2 *library, rp_error *error);
/* Unloads it after the last session is deleted. Does nothing if it is empty. */
void rp_nghttp2_unload(rp_nghttp2 *library);

#endif
