# dledger_log.pyx: one member's part in a DLedger commit log, except for votes (csrc/ha/dledger_log.h).
#
# Commits complete the broker's parked responses without Python.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from rocketpy._core.base cimport borrow, check, give_back, log_of, read_fields, rp_error, rp_field_row, rp_log, set_fields
from rocketpy._core.broker cimport Broker, rp_broker_set_committed
from rocketpy._core.remoting cimport Handler, Server, rp_handler
from rocketpy._core.store cimport MessageStore, rp_message_store
from rocketpy._core.timed_messages cimport rp_broker
from rocketpy._core.errors import InvalidArgument

cdef extern from "ha/dledger_log.h" nogil:
    enum: RP_DLEDGER_PEERS_MAX
    enum: RP_DLEDGER_ID_MAX
    ctypedef struct rp_dledger_log:
        pass
    ctypedef struct rp_dledger_options:
        rp_message_store *store
        rp_log *log
        void (*on_committed)(void *context, int64_t offset) noexcept nogil
        void *context
    ctypedef struct rp_dledger_claim:
        int64_t term
        char *leader_id
    ctypedef struct rp_dledger_state:
        pass
    ctypedef struct rp_dledger_follower_row:
        pass
    void rp_dledger_options_default(rp_dledger_options *options)
    int rp_dledger_open(const rp_dledger_options *options, rp_dledger_log **dledger, rp_error *error)
    void rp_dledger_close(rp_dledger_log *dledger)
    const rp_handler *rp_dledger_handler(rp_dledger_log *dledger)
    int rp_dledger_lead(rp_dledger_log *dledger, int64_t term, rp_error *error)
    int rp_dledger_follow(rp_dledger_log *dledger, int64_t term, const char *leader_id, rp_error *error)
    int rp_dledger_pause(rp_dledger_log *dledger, int is_paused, rp_error *error)
    int rp_dledger_fd(const rp_dledger_log *dledger)
    void rp_dledger_take_claim(rp_dledger_log *dledger, rp_dledger_claim *claim)
    void rp_dledger_read_state(rp_dledger_log *dledger, rp_dledger_state *state)
    uint32_t rp_dledger_read_followers(rp_dledger_log *dledger, rp_dledger_follower_row *rows, uint32_t rows_max)

cdef extern from *:
    """
    #include "fields_inl.h"
    #define ROW(member) RP_FIELD_ROW(rp_dledger_options, member)
    static const rp_field_row dledger_option_rows[] = {
        ROW(group), ROW(self_id), ROW(peers), ROW(window), ROW(window_bytes), ROW(batch_bytes), ROW(push_timeout_ms), ROW(retry_ms),
        ROW(commit_interval_ms), ROW(sync), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_dledger_state, member)
    static const rp_field_row dledger_state_rows[] = {
        ROW(term), ROW(is_leader), ROW(is_writable), ROW(held_ms), ROW(leader_id), ROW(begin_index), ROW(end_index), ROW(end_term),
        ROW(end_offset), ROW(committed_index), ROW(committed_offset), ROW(heard_ms), ROW(gap_index), ROW(pushes_taken),
        ROW(pushes_refused), ROW(entries_appended), ROW(cuts), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_dledger_follower_row, member)
    static const rp_field_row dledger_follower_rows[] = {
        ROW(id), ROW(address), ROW(is_connected), ROW(is_appending), ROW(matched_index), ROW(matched_offset), ROW(entries_sent),
        ROW(bytes_sent), ROW(last_error), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *dledger_option_rows
    const rp_field_row *dledger_state_rows
    const rp_field_row *dledger_follower_rows


cdef void complete_responses(void *context, int64_t committed_offset) noexcept nogil:
    rp_broker_set_committed(<rp_broker *>context, committed_offset)


cdef class DLedgerLog(Handler):
    cdef rp_dledger_log *native
    cdef tuple lenders

    def __init__(self, MessageStore store not None, Broker broker=None, *, log=None, **options):
        cdef rp_dledger_options native_options
        cdef rp_error error
        cdef int status
        cdef list keep = []
        if self.native != NULL:
            raise InvalidArgument("a DLedgerLog is opened once")
        rp_dledger_options_default(&native_options)
        set_fields(dledger_option_rows, &native_options, options, keep)
        native_options.log = log_of(log)
        lenders = (store, broker, log)
        borrow(lenders)
        try:
            native_options.store = store.native
            if broker is not None:
                native_options.on_committed = complete_responses
                native_options.context = broker.native
            error.status = 0
            with nogil:
                status = rp_dledger_open(&native_options, &self.native, &error)
            check(status, &error)
        except BaseException:
            give_back(lenders)
            raise
        self.lenders = lenders
        self.servers = []
        self.handler = rp_dledger_handler(self.native)
        self.is_closed = False

    cdef int attach_native(self, Server server) except -1:
        self.enter()
        try:
            self.servers.append(server)
            server.borrowers += 1
        finally:
            self.leave()
        return 0

    def lead(self, int64_t term):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        try:
            with nogil:
                status = rp_dledger_lead(self.native, term, &error)
            check(status, &error)
        finally:
            self.leave()

    def follow(self, int64_t term, str leader_id):
        cdef rp_error error
        cdef int status
        cdef const char *native_id = NULL
        cdef bytes encoded
        error.status = 0
        if leader_id is not None:
            encoded = leader_id.encode()
            native_id = encoded
        self.enter()
        try:
            with nogil:
                status = rp_dledger_follow(self.native, term, native_id, &error)
            check(status, &error)
        finally:
            self.leave()

    def pause(self, bint is_paused):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        try:
            with nogil:
                status = rp_dledger_pause(self.native, is_paused, &error)
            check(status, &error)
        finally:
            self.leave()

    @property
    def claim_fd(self):
        self.enter()
        try:
            return rp_dledger_fd(self.native)
        finally:
            self.leave()

    def take_claim(self):
        cdef rp_dledger_claim claim
        self.enter()
        try:
            with nogil:
                rp_dledger_take_claim(self.native, &claim)
            if claim.term == 0:
                return None
            leader_id = (<bytes>claim.leader_id).decode(errors="replace")
            return claim.term, leader_id or None
        finally:
            self.leave()

    def state(self):
        cdef rp_dledger_state state
        self.enter()
        try:
            with nogil:
                rp_dledger_read_state(self.native, &state)
            return read_fields(dledger_state_rows, &state)
        finally:
            self.leave()

    def followers(self):
        cdef rp_dledger_follower_row[RP_DLEDGER_PEERS_MAX] rows
        cdef uint32_t count, i
        self.enter()
        try:
            with nogil:
                count = rp_dledger_read_followers(self.native, rows, RP_DLEDGER_PEERS_MAX)
            return [read_fields(dledger_follower_rows, &rows[i]) for i in range(min(count, <uint32_t>RP_DLEDGER_PEERS_MAX))]
        finally:
            self.leave()

    def close(self):
        """Stops the server that it is attached to first, since no reactor may be in the handler."""
        if self.is_closed:
            return
        self.refuse_while_borrowed()
        for server in list(self.servers):
            if not (<Server>server).is_stopped:
                server.stop(0)
        if not self.begin_close():
            return
        with nogil:
            rp_dledger_close(self.native)
        self.native = NULL
        self.handler = NULL
        for server in self.servers:
            (<Server>server).borrowers -= 1
        self.servers = []
        give_back(self.lenders)
        self.lenders = ()
