# load.pyx: the native load generator and the floors (csrc/load).

import os

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from rocketpy._core.base cimport RP_E_TIMEOUT, NativeObject, check, read_fields, rp_error, rp_field_row, set_fields
from rocketpy._core.errors import InvalidArgument, NoMemory
from rocketpy._core.options import LoadOptions
from rocketpy._core.results import FloorRate

cdef extern from "load/load.h" nogil:
    enum: RP_LOAD_LATENCY_KINDS
    enum: RP_LOAD_QUEUES_MAX
    ctypedef struct rp_load:
        pass
    ctypedef struct rp_load_options:
        const int64_t *start_offsets
        uint32_t queue_count
    ctypedef struct rp_load_progress:
        pass
    ctypedef struct rp_load_latency:
        pass
    ctypedef struct rp_load_error_count:
        pass
    ctypedef struct rp_load_queue:
        pass
    ctypedef struct rp_load_result:
        rp_load_progress totals
        uint32_t error_code_count
        rp_load_error_count *error_codes
        rp_load_latency *latency
    int rp_load_open(const rp_load_options *options, rp_load **load, rp_error *error)
    int rp_load_start(rp_load *load, rp_error *error)
    int rp_load_wait(rp_load *load, uint32_t timeout_ms)
    void rp_load_stop(rp_load *load)
    void rp_load_read_progress(const rp_load *load, rp_load_progress *progress)
    int rp_load_read_result(rp_load *load, rp_load_result *result)
    int rp_load_read_queue(const rp_load *load, uint32_t queue, rp_load_queue *result)
    uint64_t rp_load_percentile(const rp_load *load, int kind, double percent)
    int rp_load_save_ledger(const rp_load *load, const char *path, rp_error *error)
    void rp_load_close(rp_load *load)

cdef extern from "load/floor.h" nogil:
    ctypedef struct rp_floor:
        pass
    ctypedef struct rp_floor_rate:
        uint64_t rounds, bytes, elapsed_ns, p50_ns, p99_ns, p999_ns
    ctypedef enum rp_floor_kind:
        RP_FLOOR_REUSED, RP_FLOOR_GROWING, RP_FLOOR_SYNCED
    int rp_floor_start(const char *path, rp_floor_kind kind, uint64_t file_size, uint16_t port, uint32_t spin_us, rp_floor **server,
                       rp_error *error)
    uint16_t rp_floor_port(const rp_floor *server)
    uint64_t rp_floor_frames(const rp_floor *server)
    void rp_floor_stop(rp_floor *server)
    int rp_floor_sync(const char *path, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error)
    int rp_floor_replicated(const char *path, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error)
    int rp_floor_sendfile(const char *path, uint32_t chunk, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error)

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "load/load.h"
    #define ROW(member) RP_FIELD_ROW(rp_load_options, member)
    static const rp_field_row load_option_rows[] = {
        ROW(address), ROW(topic), ROW(producer_group), ROW(consumer_group), ROW(tags), ROW(ledger_path), ROW(mode), ROW(serialize_type),
        ROW(send_code), ROW(pull_start), ROW(queue_count), ROW(connections), ROW(pull_connections), ROW(in_flight), ROW(batch_size),
        ROW(pull_batch), ROW(threads), ROW(message_size), ROW(count), ROW(duration_ms), ROW(warm_up_ms), ROW(rate),
        ROW(connect_timeout_ms), ROW(request_timeout_ms), ROW(reconnect_timeout_ms), ROW(drain_timeout_ms), ROW(suspend_ms), ROW(spin_us),
        ROW(run_id), ROW(repeat), ROW(skip_verify), ROW(check_order), ROW(no_unique_key), ROW(keep_ledger), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_load_progress, member)
    static const rp_field_row load_progress_rows[] = {
        ROW(sent), ROW(acknowledged), ROW(errors), ROW(bytes_sent), ROW(received), ROW(bytes_received), ROW(failures), ROW(elapsed_ns),
        ROW(measuring), ROW(running), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_load_result, member)
    static const rp_field_row load_result_rows[] = {
        ROW(status), ROW(measured_ns), ROW(measured_receive_ns), ROW(measured_sent), ROW(measured_received),
        ROW(measured_bytes_sent), ROW(measured_bytes_received), ROW(measured_errors), ROW(cpu_ns), ROW(pull_responses),
        ROW(pull_empty), ROW(disconnects), ROW(late_responses), ROW(pushed_requests), ROW(other_encoding), ROW(missing),
        ROW(duplicated), ROW(corrupted), ROW(out_of_order), ROW(unacknowledged), ROW(unverified),
        ROW(first_offender), ROW(error_code_count), ROW(run_id), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_load_error_count, member)
    static const rp_field_row load_error_rows[] = {ROW(code), ROW(count), ROW(remark), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_load_latency, member)
    static const rp_field_row load_latency_rows[] = {
        ROW(count), ROW(min_ns), ROW(p50_ns), ROW(p90_ns), ROW(p99_ns), ROW(p999_ns), ROW(p9999_ns), ROW(max_ns), ROW(mean_ns),
        RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_load_queue, member)
    static const rp_field_row load_queue_rows[] = {ROW(acknowledged), ROW(received), ROW(start_offset), ROW(next_offset), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *load_option_rows
    const rp_field_row *load_progress_rows
    const rp_field_row *load_result_rows
    const rp_field_row *load_error_rows
    const rp_field_row *load_latency_rows
    const rp_field_row *load_queue_rows

cdef enum: WAIT_SLICE_MS = 100  # how often a waiting call checks for signals

LATENCY_NAMES = ("publish", "publish_delay", "end_to_end", "fetch")


cdef class Load(NativeObject):
    cdef rp_load *native
    cdef uint32_t queue_count

    def __init__(self, *, start_offsets=None, **options):
        cdef rp_load_options native_options
        cdef rp_error error
        cdef list keep = []
        cdef int status
        cdef int64_t *offsets = NULL
        cdef Py_ssize_t i
        if self.native != NULL:
            raise InvalidArgument("a Load is opened once")
        memset(&native_options, 0, sizeof(native_options))
        set_fields(load_option_rows, &native_options, options, keep)
        self.queue_count = native_options.queue_count or 4
        try:
            if start_offsets is not None:
                if len(start_offsets) != self.queue_count or self.queue_count > RP_LOAD_QUEUES_MAX:
                    raise InvalidArgument(f"start_offsets holds {len(start_offsets)} offsets for {self.queue_count} queues")
                offsets = <int64_t *>malloc(self.queue_count * sizeof(int64_t))
                if offsets == NULL:
                    raise NoMemory("no memory for offsets")
                for i in range(len(start_offsets)):
                    offsets[i] = start_offsets[i]
            native_options.start_offsets = offsets
            error.status = 0
            with nogil:
                status = rp_load_open(&native_options, &self.native, &error)
        finally:
            free(offsets)
        check(status, &error)
        self.is_closed = False

    def start(self):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_load_start(self.native, &error)
        self.leave()
        check(status, &error)

    def progress(self):
        cdef rp_load_progress progress
        self.enter()
        try:
            rp_load_read_progress(self.native, &progress)
            return read_fields(load_progress_rows, &progress)
        finally:
            self.leave()

    def wait(self, double timeout_s):
        cdef int64_t left = <int64_t>(timeout_s * 1000)
        cdef uint32_t part
        cdef int status
        self.enter()
        try:
            while True:
                part = <uint32_t>max(0, min(left, WAIT_SLICE_MS))
                with nogil:
                    status = rp_load_wait(self.native, part)
                left -= part
                if status != RP_E_TIMEOUT:
                    check(status, NULL)
                    return True
                if left <= 0:
                    return False
                PyErr_CheckSignals()
        finally:
            self.leave()

    def stop(self):
        self.enter()
        with nogil:
            rp_load_stop(self.native)
        self.leave()

    def result(self):
        cdef rp_load_result *result
        cdef rp_load_queue queue
        cdef int status
        cdef uint32_t i
        cdef int kind
        cdef dict values
        cdef list queues = []
        self.enter()
        try:
            result = <rp_load_result *>malloc(sizeof(rp_load_result))
            if result == NULL:
                raise NoMemory("no memory for the result")
            try:
                with nogil:
                    status = rp_load_read_result(self.native, result)
                check(status, NULL)
                values = read_fields(load_result_rows, result)
                values["totals"] = read_fields(load_progress_rows, &result.totals)
                values["error_codes"] = [read_fields(load_error_rows, &result.error_codes[i]) for i in range(result.error_code_count)]
                values["latency"] = {
                    LATENCY_NAMES[kind]: read_fields(load_latency_rows, &result.latency[kind]) for kind in range(RP_LOAD_LATENCY_KINDS)
                }
            finally:
                free(result)
            for i in range(self.queue_count):
                check(rp_load_read_queue(self.native, i, &queue), NULL)
                queues.append(read_fields(load_queue_rows, &queue))
            values["queues"] = queues
            return values
        finally:
            self.leave()

    def percentile(self, int kind, double percent):
        self.enter()
        try:
            return rp_load_percentile(self.native, kind, percent)
        finally:
            self.leave()

    def save_ledger(self, path):
        cdef bytes encoded = os.fsencode(path)
        cdef const char *name = encoded
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_load_save_ledger(self.native, name, &error)
        self.leave()
        check(status, &error)

    def close(self):
        if self.begin_close():
            with nogil:
                rp_load_close(self.native)
            self.native = NULL


FLOOR_KINDS = {"reused": RP_FLOOR_REUSED, "growing": RP_FLOOR_GROWING, "synced": RP_FLOOR_SYNCED}


cdef class Floor(NativeObject):
    cdef rp_floor *native

    def __init__(self, path, uint64_t file_size=0, uint16_t port=0, uint32_t spin_us=0, *, str kind="reused"):
        cdef bytes encoded = os.fsencode(path)
        cdef const char *name = encoded
        cdef rp_error error
        cdef rp_floor_kind native_kind
        cdef int status
        if self.native != NULL:
            raise InvalidArgument("a Floor is started once")
        if kind not in FLOOR_KINDS:
            raise InvalidArgument(f"no floor is {kind!r}: {', '.join(FLOOR_KINDS)}")
        native_kind = FLOOR_KINDS[kind]
        error.status = 0
        with nogil:
            status = rp_floor_start(name, native_kind, file_size, port, spin_us, &self.native, &error)
        check(status, &error)
        self.is_closed = False

    @property
    def port(self):
        self.enter()
        try:
            return rp_floor_port(self.native)
        finally:
            self.leave()

    @property
    def frames(self):
        self.enter()
        try:
            return rp_floor_frames(self.native)
        finally:
            self.leave()

    def close(self):
        if self.begin_close():
            with nogil:
                rp_floor_stop(self.native)
            self.native = NULL


ctypedef int (*floor_loop)(const char *path, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error) noexcept nogil


cdef object measured(floor_loop loop, object path, uint32_t size, uint32_t duration_ms):
    cdef bytes encoded = os.fsencode(path)
    cdef const char *name = encoded
    cdef rp_floor_rate rate
    cdef rp_error error
    cdef int status
    error.status = 0
    with nogil:
        status = loop(name, size, duration_ms, &rate, &error)
    check(status, &error)
    return FloorRate(rate.rounds, rate.bytes, rate.elapsed_ns, rate.p50_ns, rate.p99_ns, rate.p999_ns)


def floor_sync(path, uint32_t size, uint32_t duration_ms):
    return measured(rp_floor_sync, path, size, duration_ms)


def floor_replicated(path, uint32_t size, uint32_t duration_ms):
    return measured(rp_floor_replicated, path, size, duration_ms)


def floor_sendfile(path, uint32_t chunk, uint32_t duration_ms):
    return measured(rp_floor_sendfile, path, chunk, duration_ms)
