# ha.pyx: replication of the commit log to slaves and from a master (csrc/ha).
#
# Native threads call each other here without Python: an append notifies the master's transfer, an ack completes parked responses.

import os

from libc.string cimport memset

from rocketpy._core.base cimport RP_E_INVALID, borrow, check, give_back, log_of, read_fields, rp_field_row, set_fields
from rocketpy._core.broker cimport rp_broker_set_in_sync, rp_broker_set_replicated
from rocketpy._core.store cimport rp_message_store_commit_log, rp_message_store_forget_appended, rp_message_store_on_appended
from rocketpy._core.errors import InvalidArgument

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "ha/ha_master.h"
    #include "ha/ha_slave.h"
    #define ROW(member) RP_FIELD_ROW(rp_ha_master_options, member)
    static const rp_field_row ha_master_option_rows[] = {
        ROW(commit_log_file_size), ROW(bind_address), ROW(port), ROW(slaves_max), ROW(transfer_bytes), ROW(transfer_bytes_max),
        ROW(heartbeat_interval_ms), ROW(housekeeping_interval_ms), ROW(flow_bytes_per_second),
        ROW(appenders_send), ROW(slaves_required), ROW(slaves_min), ROW(fewer_gap_bytes), ROW(broker_id), ROW(all_in_sync_state_set),
        RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_ha_slave_row, member)
    static const rp_field_row ha_slave_row_rows[] = {
        ROW(address), ROW(request_offset), ROW(acked_offset), ROW(next_offset), ROW(bytes_sent), ROW(bytes_per_second),
        ROW(connected_ms), ROW(broker_id), ROW(is_learner), ROW(is_in_set), ROW(has_caught_up), ROW(caught_up_ms), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_ha_master_stats, member)
    static const rp_field_row ha_master_stats_rows[] = {
        ROW(accepted), ROW(refused), ROW(dropped_bad_ack), ROW(dropped_silent), ROW(dropped_other), ROW(frames_sent),
        ROW(heartbeats_sent), ROW(bytes_sent), ROW(acks), ROW(last_drop), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_ha_slave_options, member)
    static const rp_field_row ha_slave_option_rows[] = {
        ROW(report_interval_ms), ROW(housekeeping_interval_ms), ROW(reconnect_ms), ROW(connect_timeout_ms),
        ROW(broker_id), ROW(from_last_file), ROW(is_learner), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_ha_slave_stats, member)
    static const rp_field_row ha_slave_stats_rows[] = {
        ROW(state), ROW(master_address), ROW(connects), ROW(disconnects), ROW(frames_received), ROW(bytes_received),
        ROW(bytes_per_second), ROW(max_offset), ROW(master_offset), ROW(last_read_ms), ROW(last_write_ms), ROW(confirm_offset),
        ROW(truncate_to), ROW(last_error), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *ha_master_option_rows
    const rp_field_row *ha_slave_row_rows
    const rp_field_row *ha_master_stats_rows
    const rp_field_row *ha_slave_option_rows
    const rp_field_row *ha_slave_stats_rows

SLAVE_STATES = ("READY", "TRANSFER", "SHUTDOWN", "HANDSHAKE", "TRUNCATE")


cdef void complete_responses(void *context, int64_t acked_offset) noexcept nogil:
    rp_broker_set_replicated(<rp_broker *>context, acked_offset)


cdef void tell_in_sync(void *context, int64_t acked_offset) noexcept nogil:
    rp_broker_set_in_sync(<rp_broker *>context, acked_offset)


cdef void notify_transfer(void *context) noexcept nogil:
    rp_ha_master_notify(<rp_ha_master *>context)


cdef class EpochCache(NativeObject):
    def __init__(self, path, *, log=None):
        cdef rp_epoch_cache_options native_options
        cdef rp_error error
        cdef int status
        cdef bytes native_path = os.fsencode(path)
        if self.native != NULL:
            raise InvalidArgument("an EpochCache is opened once")
        memset(&native_options, 0, sizeof(native_options))
        native_options.path = native_path
        native_options.log = log_of(log)
        borrow((log,))
        try:
            error.status = 0
            with nogil:
                status = rp_epoch_cache_open(&native_options, &self.native, &error)
            check(status, &error)
        except BaseException:
            give_back((log,))
            raise
        self.log = log
        self.is_closed = False

    def fit(self, int64_t begin, int64_t end):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        try:
            with nogil:
                status = rp_epoch_cache_fit(self.native, begin, end, &error)
            check(status, &error)
        finally:
            self.leave()

    def truncate_prefix(self, int64_t offset):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        try:
            with nogil:
                status = rp_epoch_cache_truncate_prefix(self.native, offset, &error)
            check(status, &error)
        finally:
            self.leave()

    def entries(self):
        cdef rp_epoch_entry[RP_EPOCHS_MAX] entries
        cdef uint32_t count, i
        self.enter()
        try:
            with nogil:
                count = rp_epoch_cache_read(self.native, entries, RP_EPOCHS_MAX)
            return [(entries[i].epoch, entries[i].start_offset, entries[i].end_offset) for i in range(count)]
        finally:
            self.leave()

    @property
    def last_epoch(self):
        self.enter()
        try:
            return rp_epoch_cache_last(self.native)
        finally:
            self.leave()

    def close(self):
        if not self.begin_close():
            return
        rp_epoch_cache_close(self.native)
        self.native = NULL
        give_back((self.log,))


cdef uint32_t take_ids(object broker_ids, int64_t *ids) except? 0:
    cdef uint32_t count = 0
    if len(broker_ids) > RP_SYNC_STATE_SET_MAX:
        raise InvalidArgument(f"{sorted(broker_ids)} is no SyncStateSet: it has more than {RP_SYNC_STATE_SET_MAX} ids")
    for broker_id in broker_ids:
        ids[count] = broker_id
        count += 1
    return count


cdef class HaMaster(NativeObject):
    def __init__(self, MessageStore store not None, Broker broker=None, *, EpochCache epochs=None, log=None, **options):
        cdef rp_ha_master_options native_options
        cdef rp_error error
        cdef int status
        cdef list keep = []
        if self.native != NULL:
            raise InvalidArgument("an HaMaster is opened once")
        rp_ha_master_options_default(&native_options)
        set_fields(ha_master_option_rows, &native_options, options, keep)
        native_options.log = log_of(log)
        borrow((store, broker, epochs, log))
        try:
            native_options.commit_log = rp_message_store_commit_log(store.native)
            if epochs is not None:
                native_options.epochs = epochs.native
            if broker is not None:
                native_options.on_acked = complete_responses
                native_options.on_in_sync = tell_in_sync
                native_options.context = broker.native
            error.status = 0
            with nogil:
                status = rp_ha_master_open(&native_options, &self.native, &error)
            check(status, &error)
            check(rp_message_store_on_appended(store.native, notify_transfer, self.native), NULL)
        except BaseException:
            with nogil:
                rp_ha_master_close(self.native)
            self.native = NULL
            give_back((store, broker, epochs, log))
            raise
        self.store = store
        self.broker = broker
        self.epochs = epochs
        self.log = log
        self.is_closed = False

    @property
    def port(self):
        self.enter()
        try:
            return rp_ha_master_port(self.native)
        finally:
            self.leave()

    def require(self, uint32_t slaves_required, uint32_t slaves_min=0, int64_t fewer_gap_bytes=0):
        cdef int status
        self.enter()
        try:
            with nogil:
                status = rp_ha_master_require(self.native, slaves_required, slaves_min, fewer_gap_bytes)
            if status == RP_E_INVALID:
                raise InvalidArgument(f"{slaves_required} required slaves, {slaves_min} at least: must be 1 or 0 and at most slaves_max")
            check(status, NULL)
        finally:
            self.leave()

    def lead(self, int64_t epoch, broker_ids):
        cdef int64_t[RP_SYNC_STATE_SET_MAX] ids
        cdef uint32_t count = take_ids(broker_ids, ids)
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        try:
            with nogil:
                status = rp_ha_master_lead(self.native, epoch, ids, count, &error)
            check(status, &error)
        finally:
            self.leave()

    def step_down(self):
        self.enter()
        try:
            with nogil:
                rp_ha_master_step_down(self.native)
        finally:
            self.leave()

    cdef int change_set(self, object broker_ids, bint agrees) except -1:
        cdef int64_t[RP_SYNC_STATE_SET_MAX] ids
        cdef uint32_t count = take_ids(broker_ids, ids)
        cdef int status
        self.enter()
        try:
            with nogil:
                status = rp_ha_master_agree(self.native, ids, count) if agrees else rp_ha_master_propose(self.native, ids, count)
        finally:
            self.leave()
        if status == RP_E_INVALID:
            raise InvalidArgument(f"{sorted(broker_ids)} is no SyncStateSet: this broker's id is not among them")
        return check(status, NULL)

    def agree(self, broker_ids):
        self.change_set(broker_ids, True)

    def propose(self, broker_ids):
        self.change_set(broker_ids, False)

    def sync_state_set(self):
        cdef int64_t[RP_SYNC_STATE_SET_MAX] ids
        cdef uint32_t count, i
        self.enter()
        try:
            with nogil:
                count = rp_ha_master_read_set(self.native, ids, RP_SYNC_STATE_SET_MAX)
            return [ids[i] for i in range(count)]
        finally:
            self.leave()

    @property
    def confirm_offset(self):
        self.enter()
        try:
            return rp_ha_master_confirm_offset(self.native)
        finally:
            self.leave()

    @property
    def set_fd(self):
        self.enter()
        try:
            return rp_ha_master_set_fd(self.native)
        finally:
            self.leave()

    def limit_flow(self, int64_t bytes_per_second):
        self.enter()
        with nogil:
            rp_ha_master_limit_flow(self.native, bytes_per_second)
        self.leave()

    def set_pace(self, *, uint32_t transfer_bytes, uint32_t heartbeat_interval_ms, uint32_t housekeeping_interval_ms):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        try:
            with nogil:
                status = rp_ha_master_set_pace(self.native, transfer_bytes, heartbeat_interval_ms, housekeeping_interval_ms, &error)
            check(status, &error)
        finally:
            self.leave()

    def slaves(self):
        cdef rp_ha_slave_row rows[RP_HA_SLAVES_MAX]
        cdef uint32_t count, i
        self.enter()
        try:
            with nogil:
                count = rp_ha_master_read_slaves(self.native, rows, RP_HA_SLAVES_MAX)
            return [read_fields(ha_slave_row_rows, &rows[i]) for i in range(min(count, <uint32_t>RP_HA_SLAVES_MAX))]
        finally:
            self.leave()

    def stats(self):
        cdef rp_ha_master_stats stats
        self.enter()
        try:
            rp_ha_master_read_stats(self.native, &stats)
            return read_fields(ha_master_stats_rows, &stats)
        finally:
            self.leave()

    def close(self):
        if not self.begin_close():
            return
        rp_message_store_forget_appended(self.store.native, self.native)
        with nogil:
            rp_ha_master_close(self.native)
        self.native = NULL
        give_back((self.store, self.broker, self.epochs, self.log))


cdef class HaSlave(NativeObject):
    def __init__(self, MessageStore store not None, *, EpochCache epochs=None, log=None, **options):
        cdef rp_ha_slave_options native_options
        cdef rp_error error
        cdef int status
        cdef list keep = []
        if self.native != NULL:
            raise InvalidArgument("an HaSlave is opened once")
        rp_ha_slave_options_default(&native_options)
        set_fields(ha_slave_option_rows, &native_options, options, keep)
        native_options.log = log_of(log)
        borrow((store, epochs, log))
        try:
            native_options.commit_log = rp_message_store_commit_log(store.native)
            if epochs is not None:
                native_options.epochs = epochs.native
            error.status = 0
            with nogil:
                status = rp_ha_slave_open(&native_options, &self.native, &error)
            check(status, &error)
        except BaseException:
            give_back((store, epochs, log))
            raise
        self.store = store
        self.epochs = epochs
        self.log = log
        self.is_closed = False

    def set_master(self, str address):
        cdef bytes text = (address or "").encode()
        cdef const char *native_text = text
        cdef int status
        self.enter()
        try:
            with nogil:
                status = rp_ha_slave_set_master(self.native, native_text)
            if status == RP_E_INVALID:
                raise InvalidArgument(f"{address!r} is not the address of an ha listener, such as 10.0.0.1:10912")
            check(status, NULL)
        finally:
            self.leave()

    def let_go(self):
        self.enter()
        try:
            with nogil:
                rp_ha_slave_let_go(self.native)
        finally:
            self.leave()

    def set_intervals(self, uint32_t report_interval_ms, uint32_t housekeeping_interval_ms):
        self.enter()
        try:
            check(rp_ha_slave_set_intervals(self.native, report_interval_ms, housekeeping_interval_ms), NULL)
        finally:
            self.leave()

    @property
    def transfer_fd(self):
        self.enter()
        try:
            return rp_ha_slave_transfer_fd(self.native)
        finally:
            self.leave()

    def stats(self):
        cdef rp_ha_slave_stats stats
        self.enter()
        try:
            with nogil:
                rp_ha_slave_read_stats(self.native, &stats)
            values = read_fields(ha_slave_stats_rows, &stats)
            values["state"] = SLAVE_STATES[values["state"]]
            return values
        finally:
            self.leave()

    def close(self):
        if not self.begin_close():
            return
        with nogil:
            rp_ha_slave_close(self.native)
        self.native = NULL
        give_back((self.store, self.epochs, self.log))
