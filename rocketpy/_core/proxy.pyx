# proxy.pyx: answers gRPC calls without Python (csrc/proxy).

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from rocketpy._core.base cimport RP_E_BUSY, RP_E_NOT_FOUND, check, read_fields, rp_error, rp_field_row, rp_slice, set_fields, slice_of_text
from rocketpy._core.base cimport text_of_slice
from rocketpy._core.remoting cimport Gate, Handler, Server, rp_address, rp_gate, rp_handler
from rocketpy._core.errors import InvalidArgument, NoMemory

cdef extern from "grpc/grpc.h" nogil:
    ctypedef struct rp_grpc_handler:
        pass

cdef extern from "auth/signer.h" nogil:
    ctypedef struct rp_signer:
        pass
    int rp_signer_open(rp_slice access_key, rp_slice secret, rp_slice token, rp_signer **signer)
    void rp_signer_close(rp_signer *signer)

cdef extern from "proxy/held_handles.h" nogil:
    ctypedef struct rp_held_handles:
        pass
    ctypedef struct rp_held_key:
        rp_slice client_id, group, first
    enum: RP_HELD_NOT
    int rp_held_handles_hold(rp_held_handles *handles, const rp_held_key *key)
    int rp_held_handles_state(rp_held_handles *handles, const rp_held_key *key)
    int rp_held_handles_begin_renewal(rp_held_handles *handles, const rp_held_key *key)
    int rp_held_handles_end_renewal(rp_held_handles *handles, const rp_held_key *key, rp_slice today)
    int rp_held_handles_forget(rp_held_handles *handles, const rp_held_key *key)
    ctypedef struct rp_held_message:
        rp_held_key key
        rp_slice topic, message_id
        int64_t since_ms
        int32_t attempts
    rp_held_message *rp_held_handles_tell(rp_held_handles *handles, int64_t before_ms)

cdef extern from "proxy/proxy.h" nogil:
    enum: RP_PROXY_CODES
    enum: RP_PROXY_METHODS
    enum: RP_PROXY_CLASSES
    ctypedef struct rp_route_broker:
        rp_slice name
        rp_address address
    ctypedef struct rp_route_queue:
        uint32_t broker
        int32_t queue_id
    ctypedef struct rp_route:
        uint32_t types
        const rp_route_broker *brokers
        uint32_t broker_count
        const rp_route_queue *queues
        uint32_t queue_count
        int64_t ask_again_ns, ends_ns
        int32_t is_orderly, retries
    ctypedef struct rp_proxy:
        pass
    ctypedef struct rp_proxy_options:
        uint32_t reactors
        const rp_gate *gate
        const rp_signer *signer
    ctypedef struct rp_proxy_stats:
        pass
    ctypedef struct rp_proxy_times:
        int32_t code
        uint64_t total_ns
        uint64_t *classes
    void rp_proxy_options_default(rp_proxy_options *options)
    int rp_proxy_open(const rp_proxy_options *options, rp_proxy **proxy, rp_error *error)
    void rp_proxy_close(rp_proxy *proxy)
    const rp_handler *rp_proxy_handler(const rp_proxy *proxy)
    const rp_grpc_handler *rp_proxy_grpc_handler(const rp_proxy *proxy)
    int rp_proxy_put_route(rp_proxy *proxy, rp_slice topic, const rp_route *route)
    void rp_proxy_forget_route(rp_proxy *proxy, rp_slice topic)
    int rp_proxy_put_reading(rp_proxy *proxy, rp_slice topic, rp_slice group, const rp_route *route)
    void rp_proxy_forget_reading(rp_proxy *proxy, rp_slice topic, rp_slice group)
    int rp_proxy_put_client(rp_proxy *proxy, rp_slice id, int64_t reserve_ms)
    void rp_proxy_forget_client(rp_proxy *proxy, rp_slice id)
    int rp_proxy_put_broker(rp_proxy *proxy, rp_slice name, const rp_address *address)
    void rp_proxy_forget_broker(rp_proxy *proxy, rp_slice name)
    rp_held_handles *rp_proxy_held(const rp_proxy *proxy)
    void rp_proxy_read_stats(const rp_proxy *proxy, rp_proxy_stats *stats)
    void rp_proxy_read_times(const rp_proxy *proxy, int32_t method, uint32_t place, rp_proxy_times *times)

cdef extern from *:
    """
    #include "fields_inl.h"
    #define ROW(member) RP_FIELD_ROW(rp_proxy_options, member)
    static const rp_field_row proxy_option_rows[] = {
        ROW(message_size_max), ROW(user_properties_max), ROW(user_property_size_max), ROW(message_group_size_max),
        ROW(lite_topic_size_max), ROW(delay_ms_max), ROW(takes_empty_body), ROW(uses_delay_level), ROW(polling_min_ms), ROW(polling_max_ms),
        ROW(invisible_min_ms), ROW(invisible_max_ms), ROW(invisible_renewed_ms), ROW(may_renew), ROW(reactors), ROW(topics_max),
        ROW(calls_max), ROW(send_method), ROW(ack_method), ROW(change_method), ROW(receive_method), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_proxy_stats, member)
    static const rp_field_row proxy_stats_rows[] = {
        ROW(sent), ROW(acknowledged), ROW(changed), ROW(received), ROW(answered), ROW(punted), ROW(errands), ROW(failed_errands),
        ROW(waiting), ROW(upstreams), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *proxy_option_rows
    const rp_field_row *proxy_stats_rows

METHOD_SEND = 0
METHOD_ACK = 1
METHOD_CHANGE = 2
METHOD_RECEIVE = 3
TYPE_NORMAL = 1
TYPE_FIFO = 2
TYPE_DELAY = 4
TYPE_PRIORITY = 8
TYPE_LITE = 16


cdef class Proxy(Handler):
    cdef rp_proxy *native
    cdef rp_signer *signer
    cdef Gate gate

    def __init__(self, *, Gate gate=None, tuple credentials=None, **options):
        cdef rp_proxy_options native_options
        cdef rp_error error
        cdef list keep = []
        cdef int status
        if self.native != NULL:
            raise InvalidArgument("a Proxy is opened once")
        rp_proxy_options_default(&native_options)
        set_fields(proxy_option_rows, &native_options, options, keep)
        if gate is not None:
            native_options.gate = gate.open_gate(<uint16_t>native_options.reactors)
        if credentials is not None:
            self.open_signer(credentials[0], credentials[1], credentials[2])
            native_options.signer = self.signer
        error.status = 0
        status = rp_proxy_open(&native_options, &self.native, &error)
        if status < 0:
            rp_signer_close(self.signer)
            self.signer = NULL
        check(status, &error)
        if gate is not None:
            self.gate = gate
            gate.borrowers += 1
        self.handler = rp_proxy_handler(self.native)
        self.call_handler = rp_proxy_grpc_handler(self.native)
        self.is_closed = False

    cdef int open_signer(self, str access_key, str secret, str token) except -1:
        cdef rp_slice token_slice
        token_slice.data = NULL
        token_slice.size = 0
        if token is not None:
            token_slice = slice_of_text(token)
        check(rp_signer_open(slice_of_text(access_key), slice_of_text(secret), token_slice, &self.signer), NULL)
        return 0

    cdef int attach_native(self, Server server) except -1:
        return 0  # the server's Grpc borrows this until the server is closed

    def put_route(self, str topic not None, uint32_t types, list brokers not None, list queues not None, *, int64_t ask_again_ns,
                  int64_t ends_ns):
        return self.put(topic, None, types, brokers, queues, False, 0, ask_again_ns, ends_ns)

    def put_reading(self, str topic not None, str group not None, list brokers not None, *, bint is_orderly, int32_t retries,
                    int64_t ask_again_ns, int64_t ends_ns):
        cdef list queues = [(place, 0) for place in range(len(brokers))]
        return self.put(topic, group, 1, brokers, queues, is_orderly, retries, ask_again_ns, ends_ns)

    cdef bint put(self, str topic, str group, uint32_t types, list brokers, list queues, bint is_orderly, int32_t retries,
                  int64_t ask_again_ns, int64_t ends_ns) except -1:
        """group None: a route for sends; otherwise how the group reads the topic."""
        cdef rp_route route
        cdef rp_route_broker *native_brokers = NULL
        cdef rp_route_queue *native_queues = NULL
        cdef int status
        self.enter()
        try:
            native_brokers = <rp_route_broker *>calloc(len(brokers) + 1, sizeof(rp_route_broker))
            native_queues = <rp_route_queue *>calloc(len(queues) + 1, sizeof(rp_route_queue))
            if native_brokers == NULL or native_queues == NULL:
                raise NoMemory("no memory for a route")
            for place, (name, address, port) in enumerate(brokers):
                fill_broker(&native_brokers[place], name, address, port)
            for place, (broker, queue_id) in enumerate(queues):
                native_queues[place].broker = broker
                native_queues[place].queue_id = queue_id
            route.types = types
            route.brokers = native_brokers
            route.broker_count = <uint32_t>len(brokers)
            route.queues = native_queues
            route.queue_count = <uint32_t>len(queues)
            route.ask_again_ns = ask_again_ns
            route.ends_ns = ends_ns
            route.is_orderly = is_orderly
            route.retries = retries
            if group is None:
                status = rp_proxy_put_route(self.native, slice_of_text(topic), &route)
            else:
                status = rp_proxy_put_reading(self.native, slice_of_text(topic), slice_of_text(group), &route)
        finally:
            free(native_brokers)
            free(native_queues)
            self.leave()
        return is_put(status)

    def forget_route(self, str topic not None):
        self.enter()
        try:
            rp_proxy_forget_route(self.native, slice_of_text(topic))
        finally:
            self.leave()

    def forget_reading(self, str topic not None, str group not None):
        self.enter()
        try:
            rp_proxy_forget_reading(self.native, slice_of_text(topic), slice_of_text(group))
        finally:
            self.leave()

    def put_client(self, str client_id not None, int64_t reserve_ms):
        cdef int status
        self.enter()
        try:
            status = rp_proxy_put_client(self.native, slice_of_text(client_id), reserve_ms)
        finally:
            self.leave()
        return is_put(status)

    def forget_client(self, str client_id not None):
        self.enter()
        try:
            rp_proxy_forget_client(self.native, slice_of_text(client_id))
        finally:
            self.leave()

    def put_broker(self, str name not None, bytes address not None, uint16_t port):
        cdef rp_route_broker broker
        cdef int status
        fill_broker(&broker, name, address, port)
        self.enter()
        try:
            status = rp_proxy_put_broker(self.native, broker.name, &broker.address)
        finally:
            self.leave()
        return is_put(status)

    def forget_broker(self, str name not None):
        self.enter()
        try:
            rp_proxy_forget_broker(self.native, slice_of_text(name))
        finally:
            self.leave()

    def hold(self, str client_id not None, str group not None, str first not None):
        cdef rp_held_key key = held_key(client_id, group, first)
        cdef int status
        self.enter()
        try:
            status = rp_held_handles_hold(rp_proxy_held(self.native), &key)
        finally:
            self.leave()
        return is_put(status)

    def tell_held(self, int64_t before_ms):
        cdef rp_held_message *told = NULL
        self.enter()
        try:
            told = rp_held_handles_tell(rp_proxy_held(self.native), before_ms)
            if told == NULL:
                return None
            return (
                text_of_slice(told.key.client_id), text_of_slice(told.key.group), text_of_slice(told.topic),
                text_of_slice(told.message_id), text_of_slice(told.key.first), told.since_ms, told.attempts,
            )
        finally:
            free(told)
            self.leave()

    def is_held(self, str client_id not None, str group not None, str first not None):
        cdef rp_held_key key = held_key(client_id, group, first)
        self.enter()
        try:
            return rp_held_handles_state(rp_proxy_held(self.native), &key) != RP_HELD_NOT
        finally:
            self.leave()

    def begin_renewal(self, str client_id not None, str group not None, str first not None):
        cdef rp_held_key key = held_key(client_id, group, first)
        self.enter()
        try:
            return rp_held_handles_begin_renewal(rp_proxy_held(self.native), &key) == 1
        finally:
            self.leave()

    def end_renewal(self, str client_id not None, str group not None, str first not None, str today not None=""):
        cdef rp_held_key key = held_key(client_id, group, first)
        cdef int status
        self.enter()
        try:
            status = rp_held_handles_end_renewal(rp_proxy_held(self.native), &key, slice_of_text(today))
        finally:
            self.leave()
        if status != RP_E_NOT_FOUND:
            check(status, NULL)

    def forget_held(self, str client_id not None, str group not None, str first not None):
        cdef rp_held_key key = held_key(client_id, group, first)
        self.enter()
        try:
            return rp_held_handles_forget(rp_proxy_held(self.native), &key) == 1
        finally:
            self.leave()

    def stats(self):
        cdef rp_proxy_stats stats
        self.enter()
        try:
            rp_proxy_read_stats(self.native, &stats)
            return read_fields(proxy_stats_rows, &stats)
        finally:
            self.leave()

    def times(self, int method):
        cdef rp_proxy_times times
        cdef int place
        found = []
        if not 0 <= method < RP_PROXY_METHODS:
            raise InvalidArgument(f"method {method}: there are {RP_PROXY_METHODS}")
        self.enter()
        try:
            for place in range(RP_PROXY_CODES):
                rp_proxy_read_times(self.native, method, place, &times)
                classes = [times.classes[i] for i in range(RP_PROXY_CLASSES)]
                if any(classes):
                    found.append((times.code, times.total_ns, classes))
            return found
        finally:
            self.leave()

    def close(self):
        self.refuse_while_borrowed()
        if not self.begin_close():
            return
        with nogil:
            rp_proxy_close(self.native)
        self.native = NULL
        rp_signer_close(self.signer)
        self.signer = NULL
        if self.gate is not None:
            self.gate.borrowers -= 1
            self.gate = None
        self.handler = NULL
        self.call_handler = NULL


cdef bint is_put(int status) except -1:
    """Checks the status of a put. Returns False if the table is full."""
    if status == RP_E_BUSY:
        return False
    check(status, NULL)
    return True


cdef rp_held_key held_key(str client_id, str group, str first) except *:
    """Copies nothing: the texts must outlive the key."""
    cdef rp_held_key key
    key.client_id = slice_of_text(client_id)
    key.group = slice_of_text(group)
    key.first = slice_of_text(first)
    return key


cdef int fill_broker(rp_route_broker *broker, str name, bytes address, uint16_t port) except -1:
    """Does not copy the name, which must outlive the struct."""
    if len(address) not in (4, 16):
        raise InvalidArgument(f"an address of {len(address)} bytes")
    broker.name = slice_of_text(name)
    memcpy(broker.address.bytes, <const uint8_t *>address, len(address))
    broker.address.size = <uint8_t>len(address)
    broker.address.port = port
    return 0
