# remoting.pxd: csrc/remoting declared for Cython, and the wrapper classes that other rooms build on.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from rocketpy._core.base cimport NativeObject, rp_arena, rp_error, rp_log, rp_slice


cdef extern from "remoting/command.h" nogil:
    enum: RP_SERIALIZE_JSON
    enum: RP_SERIALIZE_ROCKETMQ
    enum: RP_COMMAND_RESPONSE
    enum: RP_COMMAND_ONEWAY
    enum: RP_COMMAND_FIELDS_MAX
    enum: RP_FRAME_SIZE_MAX
    ctypedef struct rp_field:
        rp_slice key
        rp_slice value
    ctypedef struct rp_command:
        int32_t code
        int32_t version
        int32_t opaque
        int32_t flag
        uint8_t language
        uint8_t serialize_type
        uint16_t field_count
        rp_slice remark
        rp_slice body
        rp_field *fields
    void rp_command_clear(rp_command *command, int32_t code, uint8_t serialize_type)
    void rp_command_clear_response(rp_command *response, const rp_command *request, int32_t code)
    int rp_command_add_field(rp_command *command, rp_slice key, rp_slice value)
    int rp_frame_scan(const uint8_t *data, size_t size, uint32_t frame_max, uint32_t *frame_size)
    int rp_command_decode(const uint8_t *frame, uint32_t size, rp_arena *arena, rp_command *command, rp_error *error)
    size_t rp_command_size_max(const rp_command *command)
    int64_t rp_command_encode(const rp_command *command, uint8_t *target, size_t target_size)

cdef extern from "remoting/proxy_header.h" nogil:
    ctypedef struct rp_address:
        uint8_t bytes[16]
        uint8_t size
        uint16_t port
    int rp_proxy_header_scan(const uint8_t *data, size_t size, rp_address *source)

cdef extern from "remoting/server.h" nogil:
    ctypedef struct rp_server:
        pass
    ctypedef struct rp_handler:
        pass
    ctypedef struct rp_gate:
        pass
    ctypedef struct rp_protocol:
        pass
    ctypedef struct rp_server_options:
        rp_log *log
    ctypedef struct rp_tls_options:
        pass
    ctypedef struct rp_request:
        int32_t kind
        uint64_t connection_id
        int64_t deadline_ns
        char *remote_address
        rp_command command
    ctypedef struct rp_server_stats:
        pass
    void rp_server_options_default(rp_server_options *options)
    int rp_server_open(const rp_server_options *options, const rp_handler *handler, rp_server **server, rp_error *error)
    int rp_server_set_gate(rp_server *server, const rp_gate *gate)
    int rp_server_set_protocol(rp_server *server, const rp_protocol *protocol)
    int rp_server_pass_http2_on(rp_server *server, const rp_address *target)
    int rp_server_start(rp_server *server, rp_error *error)
    int rp_server_load_tls(rp_server *server, const rp_tls_options *options, rp_error *error)
    void rp_server_stop(rp_server *server, uint32_t drain_ms)
    void rp_server_close(rp_server *server)
    uint16_t rp_server_port(const rp_server *server)
    uint16_t rp_server_reactor_count(const rp_server *server)
    int rp_server_event_fd(const rp_server *server)
    uint32_t rp_server_take(rp_server *server, rp_request **requests, uint32_t requests_max)
    void rp_request_free(rp_request *request)
    int rp_server_send(rp_server *server, uint64_t connection_id, const rp_command *command)
    int rp_server_resubmit(rp_server *server, rp_request *request, int resubmitted)
    int rp_server_close_connection(rp_server *server, uint64_t connection_id)
    void rp_server_read_stats(const rp_server *server, rp_server_stats *stats)


cdef class Handler(NativeObject):
    """What a Server calls on its reactors: the broker's fast path. Close it after the servers that it is attached to have stopped."""
    cdef const rp_handler *handler
    cdef const void *call_handler  # an rp_grpc_handler for gRPC calls; NULL: none
    cdef list servers

    cdef int attach_native(self, Server server) except -1


cdef class Gate(NativeObject):
    """What a Server asks before every request whether to admit it. Close it after the servers that use it."""

    cdef const rp_gate *open_gate(self, uint16_t reactors) except NULL


cdef class Protocol(NativeObject):
    """What a Server's connections speak instead of frames. Close it after the servers that use it."""
    cdef const rp_protocol *protocol

    cdef int forget_handler(self) noexcept


cdef class Command:
    cdef readonly int code, language, version, opaque, flag, serialize_type
    cdef object _remark, _fields, _body

    cdef int copy_head(self, const rp_command *command) except -1


cdef class Request(Command):
    cdef rp_request *native
    cdef Server server
    cdef readonly int kind
    cdef readonly uint64_t connection_id
    cdef object _remote_address


cdef class Server(NativeObject):
    cdef rp_server *native
    cdef Handler handler
    cdef Gate gate
    cdef Protocol protocol
    cdef NativeObject log
    cdef Py_ssize_t requests_out
    cdef bint is_stopped
    cdef bint is_over # closed, and no call and no thread uses the native server any more

    cdef int give_back(self, rp_request *request) noexcept
    cdef int free_native(self) noexcept
    cdef bint send_filled(self, uint64_t connection_id, rp_command *command, str remark, object fields, bytes body) except -1

cdef int fill_command(rp_command *command, str remark, object fields, bytes body) except -1
