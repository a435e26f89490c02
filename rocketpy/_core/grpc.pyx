# grpc.pyx: gRPC on a server's connections (csrc/grpc).
#
# Calls come up as the Requests of that server; their answers go down here.

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from rocketpy._core.base cimport RP_E_BUSY, RP_E_CLOSED, check, rp_error, rp_slice, slice_of_bytes, slice_of_text
from rocketpy._core.errors import Closed, InvalidArgument, NoMemory
from rocketpy._core.remoting cimport Handler, Protocol, Request, rp_protocol, rp_server

cdef extern from "grpc/grpc.h" nogil:
    enum: RP_GRPC_METHODS_MAX
    ctypedef struct rp_grpc:
        pass
    ctypedef struct rp_grpc_handler:
        pass
    ctypedef struct rp_grpc_method:
        const char *path
        int32_t has_stream
    ctypedef struct rp_grpc_options:
        const rp_grpc_method *methods
        uint32_t method_count
        uint32_t message_bytes_max
        uint32_t calls_max
        const rp_grpc_handler *handler
    void rp_grpc_options_default(rp_grpc_options *options)
    int rp_grpc_create(const rp_grpc_options *options, rp_grpc **grpc, rp_error *error)
    void rp_grpc_destroy(rp_grpc *grpc)
    const rp_protocol *rp_grpc_protocol(const rp_grpc *grpc)
    int rp_grpc_send(rp_server *server, uint64_t connection_id, int32_t call, rp_slice message, int is_last)
    int rp_grpc_end(rp_server *server, uint64_t connection_id, int32_t call, int32_t status, rp_slice text)
    int rp_grpc_took(rp_server *server, uint64_t connection_id, int32_t call)
    int rp_grpc_ask_room(rp_server *server, uint64_t connection_id, int32_t call)

EVENT_COMPRESSED = 1
EVENT_STREAM = 2

# A message of at least this size is copied without the GIL; for a smaller one, releasing it costs more than the copy.
cdef enum: NOGIL_MESSAGE_SIZE = 65536


cdef bint is_queued(int status) except -1:
    """Returns False if the connection takes no more, and True also if it is gone."""
    if status == RP_E_BUSY:
        return False
    if status != RP_E_CLOSED:
        check(status, NULL)
    return True


cdef class Grpc(Protocol):
    cdef rp_grpc *native
    cdef Handler handler

    def __init__(self, methods, *, Handler handler=None, message_bytes_max=None, calls_max=None):
        cdef rp_grpc_options options
        cdef rp_grpc_method *table
        cdef rp_error error
        cdef int status
        cdef list paths = [path.encode() for path, _ in methods]
        if self.native != NULL:
            raise InvalidArgument("a Grpc is opened once")
        if len(paths) > RP_GRPC_METHODS_MAX:
            raise InvalidArgument(f"{len(paths)} methods; there are {RP_GRPC_METHODS_MAX} at most")
        rp_grpc_options_default(&options)
        if message_bytes_max is not None:
            options.message_bytes_max = message_bytes_max
        if calls_max is not None:
            options.calls_max = calls_max
        if handler is not None:
            if handler.is_closed:
                raise Closed("the handler is closed")
            options.handler = <const rp_grpc_handler *>handler.call_handler
        table = <rp_grpc_method *>calloc(len(paths) + 1, sizeof(rp_grpc_method))
        if table == NULL:
            raise NoMemory("no memory for the table of methods")
        for i, (_, has_stream) in enumerate(methods):
            table[i].path = <bytes>paths[i]
            table[i].has_stream = bool(has_stream)
        options.methods = table
        options.method_count = <uint32_t>len(paths)
        error.status = 0
        status = rp_grpc_create(&options, &self.native, &error)
        free(table)
        check(status, &error)
        self.protocol = rp_grpc_protocol(self.native)
        self.is_closed = False
        self.handler = handler
        if handler is not None:
            handler.borrowers += 1

    def close(self):
        self.refuse_while_borrowed()
        if not self.begin_close():
            return
        rp_grpc_destroy(self.native)
        self.native = NULL
        self.protocol = NULL
        self.forget_handler()

    cdef int forget_handler(self) noexcept:
        if self.handler is not None:
            self.handler.borrowers -= 1
            self.handler = None
        return 0

    def send(self, Request call not None, bytes message not None, *, bint is_last=False):
        cdef int status
        cdef rp_slice slice
        if len(message) > 0x7FFFFFFF:
            raise InvalidArgument(f"a message of {len(message)} bytes; gRPC carries less than 2 GiB")
        slice = slice_of_bytes(message)
        call.server.enter()
        try:
            if slice.size >= NOGIL_MESSAGE_SIZE:
                with nogil:
                    status = rp_grpc_send(call.server.native, call.connection_id, call.opaque, slice, is_last)
            else:
                status = rp_grpc_send(call.server.native, call.connection_id, call.opaque, slice, is_last)
        finally:
            call.server.leave()
        return is_queued(status)

    def end(self, Request call not None, int code, str text not None=""):
        cdef int status
        cdef rp_slice slice = slice_of_text(text)
        call.server.enter()
        try:
            status = rp_grpc_end(call.server.native, call.connection_id, call.opaque, code, slice)
        finally:
            call.server.leave()
        return is_queued(status)

    def took(self, Request call not None):
        cdef int status
        call.server.enter()
        try:
            status = rp_grpc_took(call.server.native, call.connection_id, call.opaque)
        finally:
            call.server.leave()
        return is_queued(status)

    def ask_room(self, Request call not None, *, bint of_connection=False):
        cdef int status
        call.server.enter()
        try:
            status = rp_grpc_ask_room(call.server.native, call.connection_id, 0 if of_connection else call.opaque)
        finally:
            call.server.leave()
        return is_queued(status)
