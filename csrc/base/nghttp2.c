/* nghttp2.c: see nghttp2.h. */
#include "nghttp2.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libnghttp2.so.14"
#define REMEDY "install it: sudo apt-get install -y libnghttp2-14 (Fedora and its kin: dnf install libnghttp2)"

static const struct {
    const char *name;
    size_t field;
} CALLS[] = {
    {"nghttp2_session_callbacks_new", offsetof(rp_nghttp2, callbacks_new)},
    {"nghttp2_session_callbacks_del", offsetof(rp_nghttp2, callbacks_del)},
    {"nghttp2_session_callbacks_set_on_begin_headers_callback", offsetof(rp_nghttp2, set_on_begin_headers)},
    {"nghttp2_session_callbacks_set_on_header_callback", offsetof(rp_nghttp2, set_on_header)},
    {"nghttp2_session_callbacks_set_on_frame_recv_callback", offsetof(rp_nghttp2, set_on_frame_recv)},
    {"nghttp2_session_callbacks_set_on_frame_send_callback", offsetof(rp_nghttp2, set_on_frame_send)},
    {"nghttp2_session_callbacks_set_on_data_chunk_recv_callback", offsetof(rp_nghttp2, set_on_data_chunk_recv)},
    {"nghttp2_session_callbacks_set_on_stream_close_callback", offsetof(rp_nghttp2, set_on_stream_close)},
    {"nghttp2_option_new", offsetof(rp_nghttp2, option_new)},
    {"nghttp2_option_del", offsetof(rp_nghttp2, option_del)},
    {"nghttp2_option_set_no_auto_window_update", offsetof(rp_nghttp2, option_no_auto_window_update)},
    {"nghttp2_option_set_no_closed_streams", offsetof(rp_nghttp2, option_no_closed_streams)},
    {"nghttp2_option_set_max_outbound_ack", offsetof(rp_nghttp2, option_max_outbound_ack)},
    {"nghttp2_option_set_max_settings", offsetof(rp_nghttp2, option_max_settings)},
    {"nghttp2_session_server_new2", offsetof(rp_nghttp2, session_server_new)},
    {"nghttp2_session_del", offsetof(rp_nghttp2, session_del)},
    {"nghttp2_session_mem_recv", offsetof(rp_nghttp2, mem_recv)},
    {"nghttp2_session_mem_send", offsetof(rp_nghttp2, mem_send)},
    {"nghttp2_session_want_read", offsetof(rp_nghttp2, want_read)},
    {"nghttp2_session_want_write", offsetof(rp_nghttp2, want_write)},
    {"nghttp2_session_get_outbound_queue_size", offsetof(rp_nghttp2, outbound_queue_size)},
    {"nghttp2_session_consume_connection", offsetof(rp_nghttp2, consume_connection)},
    {"nghttp2_session_consume_stream", offsetof(rp_nghttp2, consume_stream)},
    {"nghttp2_session_set_local_window_size", offsetof(rp_nghttp2, set_local_window_size)},
    {"nghttp2_session_set_stream_user_data", offsetof(rp_nghttp2, set_stream_user_data)},
    {"nghttp2_session_get_stream_user_data", offsetof(rp_nghttp2, stream_user_data)},
    {"nghttp2_submit_settings", offsetof(rp_nghttp2, submit_settings)},
    {"nghttp2_submit_response", offsetof(rp_nghttp2, submit_response)},
    {"nghttp2_submit_trailer", offsetof(rp_nghttp2, submit_trailer)},
    {"nghttp2_submit_rst_stream", offsetof(rp_nghttp2, submit_rst_stream)},
    {"nghttp2_submit_ping", offsetof(rp_nghttp2, submit_ping)},
    {"nghttp2_submit_goaway", offsetof(rp_nghttp2, submit_goaway)},
    {"nghttp2_session_get_last_proc_stream_id", offsetof(rp_nghttp2, last_proc_stream)},
    {"nghttp2_session_terminate_session", offsetof(rp_nghttp2, terminate_session)},
    {"nghttp2_session_resume_data", offsetof(rp_nghttp2, resume_data)},
    {"nghttp2_strerror", offsetof(rp_nghttp2, error_text)},
};

int rp_nghttp2_load(rp_nghttp2 *library, rp_error *error) {
    *library = (rp_nghttp2){0};
    library->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        const char *cause = dlerror(); /* begins with the name */
        return rp_error_set(error, RP_E_UNSUPPORTED, 0, LIBRARY, -1, "gRPC needs nghttp2 (%s); " REMEDY, cause != NULL ? cause : LIBRARY);
    }
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        void *call = dlsym(library->handle, CALLS[i].name);
        if (call == NULL) {
            rp_nghttp2_unload(library);
            return rp_error_set(error, RP_E_UNSUPPORTED, 0, LIBRARY, -1, LIBRARY " is too old: it has no %s; " REMEDY, CALLS[i].name);
        }
        memcpy((char *)library + CALLS[i].field, &call, sizeof call);
    }
    void *no_check = dlsym(library->handle, "nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation");
    memcpy(&library->option_no_whitespace_check, &no_check, sizeof no_check);
    return RP_OK;
}

void rp_nghttp2_unload(rp_nghttp2 *library) {
    if (library->handle != NULL) {
        dlclose(library->handle);
    }
    *library = (rp_nghttp2){0};
}
