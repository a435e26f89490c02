# remoting.pyx: the native remoting server and the frame codec (csrc/remoting).
#
# Requests are converted on demand: a Request keeps its native frame, and makes fields, remark and body at the first access, so that
# taking a batch costs next to nothing. The native server lives until the last Request taken from it is gone.

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject
from libc.string cimport memcpy, memset

from rocketpy._core.base cimport check, log_of, read_fields, rp_arena_create, rp_arena_reset, rp_field_row, set_fields
from rocketpy._core.base cimport RP_E_BUSY, RP_E_CLOSED, RP_E_NOT_FOUND, RP_E_TOO_LARGE, slice_of_bytes, slice_of_text, text_of_slice
from rocketpy._core.base import LogTap
from rocketpy._core.errors import Busy, Closed, InvalidArgument, NoMemory, ProtocolError, TooLarge
from rocketpy._core.options import ServerOptions, TlsOptions

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "remoting/server.h"
    #define ROW(member) RP_FIELD_ROW(rp_server_options, member)
    static const rp_field_row server_option_rows[] = {
        ROW(bind_address), ROW(port), ROW(reactors), ROW(frame_size_max), ROW(connections_max), ROW(idle_timeout_ms),
        ROW(stall_timeout_ms), ROW(output_bytes_max), ROW(memory_bytes_max), ROW(ring_capacity), ROW(spin_us),
        ROW(stand_in_after_us), ROW(socket_send_buffer), ROW(socket_receive_buffer), ROW(tls_mode), ROW(thread_name),
        RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_tls_options, member)
    static const rp_field_row tls_option_rows[] = {
        ROW(certificate_path), ROW(key_path), ROW(key_password), ROW(trust_path), ROW(client_auth), ROW(verifies_clients), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_server_stats, member)
    static const rp_field_row server_stats_rows[] = {
        ROW(connections_open), ROW(connections_accepted), ROW(connections_refused), ROW(connections_closed_idle),
        ROW(connections_closed_stalled), ROW(frames_in), ROW(frames_out), ROW(bytes_in), ROW(bytes_out), ROW(frames_bad),
        ROW(requests_punted), ROW(requests_rejected_busy), ROW(requests_refused), ROW(oneway_dropped), ROW(turns),
        ROW(buffer_bytes), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *server_option_rows
    const rp_field_row *tls_option_rows
    const rp_field_row *server_stats_rows

KIND_COMMAND = 0
KIND_RESPONSE = 1
KIND_OPENED = 2
KIND_CLOSED = 3
KIND_CALL = 4
KIND_MESSAGE = 5
KIND_HALF_CLOSED = 6
KIND_CANCELLED = 7
KIND_ROOM = 8

NO_DEADLINE = 0x7FFFFFFFFFFFFFFF

# Defaults of encode_command: LanguageCode.PYTHON and MQVersion.V5_3_3 (rocketpy/remoting/codes.py has the names).
cdef enum: LANGUAGE = 3
cdef enum: VERSION = 479

# A body of at least this size is copied without the GIL; for a smaller one, releasing it costs more than the copy.
cdef enum: NOGIL_BODY_SIZE = 65536
cdef enum: TAKE_MAX = 256
# Memory for the escaped JSON strings of one frame; used only under the GIL.
cdef rp_arena *decode_arena = NULL


cdef class Handler(NativeObject):
    cdef int attach_native(self, Server server) except -1:
        raise NotImplementedError(f"{type(self).__name__} attaches its native handler to the server: attach_native")


cdef class Gate(NativeObject):
    cdef const rp_gate *open_gate(self, uint16_t reactors) except NULL:
        raise NotImplementedError(f"{type(self).__name__} makes its native gate for a server: open_gate")


cdef class Protocol(NativeObject):
    cdef int forget_handler(self) noexcept:
        """Called when its server has stopped for good: what it borrowed to handle calls may be closed."""
        return 0

    def close(self):
        raise NotImplementedError(f"{type(self).__name__} frees its native protocol: close")


cdef class Command:
    cdef int copy_head(self, const rp_command *command) except -1:
        self.code = command.code
        self.language = command.language
        self.version = command.version
        self.opaque = command.opaque
        self.flag = command.flag
        self.serialize_type = command.serialize_type
        return 0

    @property
    def remark(self):
        return self._remark

    @property
    def fields(self):
        return self._fields

    @property
    def body(self):
        return self._body

    @property
    def is_response(self):
        return (self.flag & RP_COMMAND_RESPONSE) != 0

    @property
    def is_oneway(self):
        return (self.flag & RP_COMMAND_ONEWAY) != 0

    def __repr__(self):
        name, size = type(self).__name__, len(self.body)
        return f"{name}(code={self.code}, opaque={self.opaque}, flag={self.flag}, fields={self.fields!r}, body={size} bytes)"


# The collector must not clear `server` of a Request that it finds in a cycle, such as a cancelled task's: it is needed to free the Request.
@cython.no_gc_clear
cdef class Request(Command):
    @property
    def remark(self):
        if self._remark is None and self.native != NULL and self.native.command.remark.data != NULL:
            self._remark = text_of_slice(self.native.command.remark)
        return self._remark

    @property
    def fields(self):
        if self._fields is None:
            self._fields = {} if self.native == NULL else fields_of(&self.native.command)
        return self._fields

    @property
    def body(self):
        if self._body is None:
            self._body = b"" if self.native == NULL else bytes_of(self.native.command.body)
        return self._body

    @property
    def remote_address(self):
        if self._remote_address is None:
            self._remote_address = "" if self.native == NULL else (<bytes>self.native.remote_address).decode("ascii", "replace")
        return self._remote_address

    @property
    def deadline_ns(self):
        return NO_DEADLINE if self.native == NULL else self.native.deadline_ns

    def __dealloc__(self):
        if self.native != NULL and self.server is not None:
            self.server.give_back(self.native)


cdef dict fields_of(const rp_command *command):
    cdef dict fields = {}
    cdef int i
    for i in range(command.field_count):
        fields[text_of_slice(command.fields[i].key)] = text_of_slice(command.fields[i].value)
    return fields


cdef bytes bytes_of(rp_slice slice):
    return b"" if slice.size == 0 else PyBytes_FromStringAndSize(<const char *>slice.data, slice.size)


cdef int fill_command(rp_command *command, str remark, object fields, bytes body) except -1:
    """Adds remark, fields and body. Copies nothing: the objects must outlive the command."""
    cdef PyObject *key = NULL
    cdef PyObject *value = NULL
    cdef Py_ssize_t position = 0
    if remark is not None:
        command.remark = slice_of_text(remark)
    if fields is not None:
        if len(<dict?>fields) > RP_COMMAND_FIELDS_MAX:
            raise TooLarge(f"{len(fields)} fields; a command carries at most {RP_COMMAND_FIELDS_MAX}")
        while PyDict_Next(fields, &position, &key, &value):
            rp_command_add_field(command, slice_of_text(<str?><object>key), slice_of_text(<str?><object>value))
    if body is not None and len(body) > 0:
        if len(body) > 0x7FFFFFFF:
            raise TooLarge(f"a body of {len(body)} bytes; a frame carries less than 2 GiB")
        command.body = slice_of_bytes(body)
    return 0


def decode_command(frame not None):
    global decode_arena
    cdef Py_buffer view
    cdef rp_command native
    cdef rp_error error
    cdef Command command
    if decode_arena == NULL:
        decode_arena = rp_arena_create(65536, 2 * RP_FRAME_SIZE_MAX)
        if decode_arena == NULL:
            raise NoMemory("no memory to decode a frame")
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if view.len == 0:
            raise ProtocolError("an empty frame")
        if view.len > 0x7FFFFFFF:
            raise TooLarge("a frame past 2 GiB")
        error.status = 0
        check(rp_command_decode(<const uint8_t *>view.buf, <uint32_t>view.len, decode_arena, &native, &error), &error)
        command = Command.__new__(Command)
        command.copy_head(&native)
        command._remark = None if native.remark.data == NULL else text_of_slice(native.remark)
        command._fields = fields_of(&native)
        command._body = bytes_of(native.body)
    finally:
        rp_arena_reset(decode_arena)
        PyBuffer_Release(&view)
    return command


def scan_frame(data not None, uint32_t frame_size_max=RP_FRAME_SIZE_MAX):
    cdef Py_buffer view
    cdef uint32_t size = 0
    cdef int status = 0
    cdef bytes head
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len > 0:
            status = rp_frame_scan(<const uint8_t *>view.buf, view.len, frame_size_max, &size)
        if status < 0:
            head = PyBytes_FromStringAndSize(<const char *>view.buf, min(view.len, 4))
            cause = f"past the limit of {frame_size_max}" if status == RP_E_TOO_LARGE else "too few, or fewer than its header takes"
            raise ProtocolError(f"a frame that announces {int.from_bytes(head, 'big')} bytes: {cause}")
    finally:
        PyBuffer_Release(&view)
    return size if status == 1 else 0


def scan_proxy_header(bytes data not None):
    cdef rp_slice slice = slice_of_bytes(data)
    cdef rp_address source
    cdef int size = rp_proxy_header_scan(slice.data, slice.size, &source)
    if size < 0:
        return -1, b"", 0
    return size, PyBytes_FromStringAndSize(<const char *>source.bytes, source.size), source.port


def encode_command(
    int code,
    fields=None,
    bytes body=b"",
    *,
    int opaque=0,
    int flag=0,
    str remark=None,
    int language=LANGUAGE,
    int version=VERSION,
    int serialize_type=0,
):
    cdef rp_command command
    cdef size_t room
    cdef int64_t size
    if serialize_type not in (RP_SERIALIZE_JSON, RP_SERIALIZE_ROCKETMQ):
        raise InvalidArgument(f"serialize_type {serialize_type}: there are 0 (JSON) and 1 (ROCKETMQ)")
    rp_command_clear(&command, code, <uint8_t>serialize_type)
    command.opaque = opaque
    command.flag = flag
    command.language = <uint8_t>language
    command.version = version
    fields = fields if fields is None or type(fields) is dict else dict(fields)
    fill_command(&command, remark, fields, body)
    room = rp_command_size_max(&command)
    if room == 0:
        raise TooLarge(f"a command of {len(body)} body bytes does not fit a frame")
    result = PyBytes_FromStringAndSize(NULL, room)
    size = rp_command_encode(&command, <uint8_t *>PyBytes_AS_STRING(result), room)
    check(size, NULL)
    return result[:size] if <size_t>size != room else result


cdef class Server(NativeObject):
    def __init__(self, *, Handler handler=None, log=None, **options):
        cdef rp_server_options native_options
        cdef rp_error error
        cdef list keep = []
        cdef const rp_handler *native_handler = NULL
        if self.native != NULL:
            raise InvalidArgument("a Server is opened once")
        rp_server_options_default(&native_options)
        set_fields(server_option_rows, &native_options, options, keep)
        native_options.log = log_of(log)
        if handler is not None:
            if handler.is_closed:
                raise Closed("the handler is closed")
            native_handler = handler.handler
        error.status = 0
        check(rp_server_open(&native_options, native_handler, &self.native, &error), &error)
        self.is_closed = False
        self.log = log
        if self.log is not None:
            self.log.borrowers += 1
        if handler is not None:
            try:
                handler.attach_native(self)
            except BaseException:
                self.close()
                raise
            self.handler = handler

    @property
    def port(self):
        self.enter()
        try:
            return rp_server_port(self.native)
        finally:
            self.leave()

    @property
    def event_fd(self):
        self.enter()
        try:
            return rp_server_event_fd(self.native)
        finally:
            self.leave()

    def set_gate(self, Gate gate not None):
        self.enter()
        try:
            if self.gate is not None:
                raise Busy("this Server has a gate already")
            check(rp_server_set_gate(self.native, gate.open_gate(rp_server_reactor_count(self.native))), NULL)
            self.gate = gate
            gate.borrowers += 1
        finally:
            self.leave()

    def set_protocol(self, Protocol protocol not None):
        self.enter()
        try:
            if self.protocol is not None:
                raise Busy("this Server has a protocol already")
            if protocol.is_closed:
                raise Closed("the protocol is closed")
            check(rp_server_set_protocol(self.native, protocol.protocol), NULL)
            self.protocol = protocol
            protocol.borrowers += 1
        finally:
            self.leave()

    def pass_http2_on(self, bytes address not None, uint16_t port):
        cdef rp_address target
        if len(address) not in (4, 16):
            raise InvalidArgument(f"an address of {len(address)} bytes")
        memcpy(target.bytes, <const uint8_t *>address, len(address))
        target.size = <uint8_t>len(address)
        target.port = port
        self.enter()
        try:
            check(rp_server_pass_http2_on(self.native, &target), NULL)
        finally:
            self.leave()

    def start(self):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_server_start(self.native, &error)
        self.leave()
        check(status, &error)

    def load_tls(self, **options):
        cdef rp_tls_options native_options
        cdef rp_error error
        cdef int status
        cdef list keep = []
        memset(&native_options, 0, sizeof(native_options))
        set_fields(tls_option_rows, &native_options, options, keep)
        error.status = 0
        self.enter()
        try:
            with nogil:
                status = rp_server_load_tls(self.native, &native_options, &error)
        finally:
            self.leave()
        check(status, &error)

    def stop(self, uint32_t drain_ms=500):
        self.enter()
        try:
            with nogil:
                rp_server_stop(self.native, drain_ms)
            self.is_stopped = True
        finally:
            self.leave()

    def close(self):
        self.refuse_while_borrowed()
        if not self.begin_close():
            return
        with nogil:
            rp_server_stop(self.native, 0)
        self.is_stopped = True
        self.handler = None
        if self.protocol is not None:
            self.protocol.forget_handler()
        if self.gate is not None:
            self.gate.borrowers -= 1
            self.gate = None
        if self.log is not None:  # its threads wrote there; a Request may outlive them, for example in a traceback
            self.log.borrowers -= 1
            self.log = None
        self.is_over = True
        if self.requests_out == 0:
            self.free_native()

    cdef int free_native(self) noexcept:
        rp_server_close(self.native)
        self.native = NULL
        if self.protocol is not None:  # it owns what reactors have not taken from their inboxes
            self.protocol.borrowers -= 1
            self.protocol.close()
            self.protocol = None
        return 0

    cdef int give_back(self, rp_request *request) noexcept:
        """Gives a Request's frame back. The last one frees the server if its close is over; until then, also while close waits for calls
        in flight, close does. After a fork nothing is freed, since the parent's threads do not exist here."""
        if self.is_forked():
            return 0
        if request != NULL:
            rp_request_free(request)
        self.requests_out -= 1
        if self.requests_out == 0 and self.is_over and self.native != NULL:
            self.free_native()
        return 0

    def take(self, uint32_t requests_max=TAKE_MAX):
        # The GIL is kept: the ring is lock-free and nothing here can block.
        cdef rp_request *natives[TAKE_MAX]
        cdef uint32_t count, i
        cdef Request request
        cdef list requests = []
        self.enter()
        try:
            count = rp_server_take(self.native, natives, min(requests_max, <uint32_t>TAKE_MAX))
            for i in range(count):
                request = Request.__new__(Request)
                request.copy_head(&natives[i].command)
                request.kind = natives[i].kind
                request.connection_id = natives[i].connection_id
                request.native = natives[i]
                request.server = self
                self.requests_out += 1
                requests.append(request)
        finally:
            self.leave()
        return requests

    def respond(self, Request request not None, int code, str remark=None, fields=None, bytes body=b""):
        cdef rp_command command
        if request.flag & RP_COMMAND_ONEWAY or request.native == NULL:
            return False
        rp_command_clear_response(&command, &request.native.command, code)
        return self.send_filled(request.native.connection_id, &command, remark, fields, body)

    def send(self, uint64_t connection_id, int code, fields=None, bytes body=b"", *, int opaque, bint oneway=False, int serialize_type=0):
        cdef rp_command command
        rp_command_clear(&command, code, <uint8_t>serialize_type)
        command.opaque = opaque
        command.flag = RP_COMMAND_ONEWAY if oneway else 0
        return self.send_filled(connection_id, &command, None, fields, body)

    cdef bint send_filled(self, uint64_t connection_id, rp_command *command, str remark, object fields, bytes body) except -1:
        """Queues the command. Returns False if the connection is gone or takes no more."""
        cdef int status
        command.version = VERSION  # clients check it: they pull by SQL92 only from brokers that are new enough
        self.enter()
        try:
            fields = fields if fields is None or type(fields) is dict else dict(fields)
            fill_command(command, remark, fields, body)
            if command.body.size >= NOGIL_BODY_SIZE:
                with nogil:
                    status = rp_server_send(self.native, connection_id, command)
            else:
                status = rp_server_send(self.native, connection_id, command)
            if status in (RP_E_CLOSED, RP_E_NOT_FOUND, RP_E_BUSY):
                return False
            check(status, NULL)
            return True
        finally:
            self.leave()

    def resubmit(self, Request request not None, int found=1):
        cdef int status
        cdef rp_request *native = request.native
        if native == NULL or request.server is not self:
            return False
        self.enter()
        try:
            # Converts what Python may still ask for, before the frame is given away.
            request.fields, request.body, request.remark, request.remote_address
            request.native = NULL
            with nogil:
                status = rp_server_resubmit(self.native, native, found)
            self.give_back(NULL)
            if status in (RP_E_CLOSED, RP_E_NOT_FOUND, RP_E_BUSY):
                return False
            check(status, NULL)
            return True
        finally:
            self.leave()

    def close_connection(self, uint64_t connection_id):
        self.enter()
        try:
            return rp_server_close_connection(self.native, connection_id) == 0
        finally:
            self.leave()

    def stats(self):
        cdef rp_server_stats stats
        self.enter()
        try:
            rp_server_read_stats(self.native, &stats)
            return read_fields(server_stats_rows, &stats)
        finally:
            self.leave()
