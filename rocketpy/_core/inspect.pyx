# inspect.pyx: reads the directories of a store from outside (csrc/store/store_verify.h, log_scan.h): for tools, never for a running broker.
#
# Callbacks run on the calling thread, between native steps; an exception in one ends the run and is raised by the call.


from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint32_t, uint64_t

from rocketpy._core.base cimport NativeObject, RP_E_CLOSED, check, read_fields, rp_error, rp_field_row
from rocketpy._core.store cimport message_of, rp_message
from rocketpy._core.results import Damage

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "store/store_verify.h"
    #include "store/log_scan.h"
    #define ROW(member) RP_FIELD_ROW(rp_verify_counts, member)
    static const rp_field_row verify_counts_rows[] = {
        ROW(log_files), ROW(log_bytes), ROW(messages), ROW(queues), ROW(queue_entries), ROW(index_files), ROW(index_entries),
        ROW(timer_records), ROW(timer_slots), ROW(damages), ROW(orphans), ROW(uncommitted), ROW(compacted_queues),
        ROW(compacted_messages), ROW(compactions_unfinished), ROW(log_min_offset), ROW(log_max_offset), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *verify_counts_rows

cdef extern from "store/index_file.h" nogil:
    ctypedef struct rp_index_shape:
        uint32_t slot_count, entry_count_max

cdef extern from "store/store_verify.h" nogil:
    enum: RP_DAMAGE_LOG
    enum: RP_DAMAGE_QUEUE
    enum: RP_DAMAGE_INDEX
    enum: RP_DAMAGE_TIMER
    enum: RP_DAMAGE_COMPACTION
    ctypedef struct rp_damage_row:
        int32_t kind
        const char *file
        int64_t offset, size
        const char *cause
    ctypedef struct rp_verify_counts:
        uint64_t damages
    ctypedef struct rp_verify_options:
        const char *root_path
        const char *commit_log_path
        int32_t check_crc
        rp_index_shape index_shape
        int (*visit)(void *context, const rp_damage_row *damage) noexcept nogil
        int (*progress)(void *context, uint64_t bytes_done, uint64_t bytes_total) noexcept nogil
        void *context
    void rp_verify_options_default(rp_verify_options *options)
    int rp_store_verify(const rp_verify_options *options, rp_verify_counts *counts, rp_error *error)

cdef extern from "store/log_scan.h" nogil:
    enum: RP_SCAN_END
    enum: RP_SCAN_MESSAGE
    ctypedef struct rp_log_scan:
        pass
    ctypedef struct rp_scan_damage:
        int64_t offset, size
        char *cause
    int rp_log_scan_open(const char *path, int64_t begin_offset, int64_t end_offset, int check_crc, rp_log_scan **scan, rp_error *error)
    void rp_log_scan_close(rp_log_scan *scan)
    int rp_log_scan_next(rp_log_scan *scan, rp_message *message, rp_scan_damage *damage)
    int64_t rp_log_scan_offset(const rp_log_scan *scan)

DAMAGE_KINDS = {
    RP_DAMAGE_LOG: "commitlog",
    RP_DAMAGE_QUEUE: "consumequeue",
    RP_DAMAGE_INDEX: "index",
    RP_DAMAGE_TIMER: "timer",
    RP_DAMAGE_COMPACTION: "compaction",
}


cdef class VerifyRun:
    cdef object on_damage
    cdef object on_progress
    cdef object failure


cdef int visit_damage(void *context, const rp_damage_row *row) noexcept nogil:
    with gil:
        run = <VerifyRun>context
        try:
            damage = Damage(
                DAMAGE_KINDS[row.kind],
                (<bytes>row.file).decode("utf-8", "replace"),
                row.offset,
                row.size,
                (<bytes>row.cause).decode("utf-8", "replace"),
            )
            run.on_damage(damage)
            return 0
        except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt too must reach the caller, through C
            run.failure = error
            return 1


cdef int show_progress(void *context, uint64_t bytes_done, uint64_t bytes_total) noexcept nogil:
    with gil:
        run = <VerifyRun>context
        try:
            run.on_progress(bytes_done, bytes_total)
            return 0
        except BaseException as error:  # noqa: BLE001 - as above
            run.failure = error
            return 1


def nothing(*values):
    return None


def verify_store(str root_path not None, *, str commit_log_path=None, bint check_crc=True, uint32_t slot_count=0,
                 uint32_t entry_count_max=0, on_damage=None, on_progress=None):
    cdef rp_verify_options options
    cdef rp_verify_counts counts
    cdef rp_error error
    cdef int status
    cdef bytes root = root_path.encode()
    cdef bytes log_path = None if commit_log_path is None else commit_log_path.encode()
    cdef VerifyRun run = VerifyRun()
    run.on_damage = nothing if on_damage is None else on_damage
    run.on_progress = nothing if on_progress is None else on_progress
    rp_verify_options_default(&options)
    options.root_path = root
    if log_path is not None:
        options.commit_log_path = log_path
    options.check_crc = check_crc
    if slot_count:
        options.index_shape.slot_count = slot_count
    if entry_count_max:
        options.index_shape.entry_count_max = entry_count_max
    options.visit = visit_damage
    options.progress = show_progress
    options.context = <void *>run
    error.status = 0
    with nogil:
        status = rp_store_verify(&options, &counts, &error)
    if status == RP_E_CLOSED and run.failure is not None:
        raise run.failure
    check(status, &error)
    return read_fields(verify_counts_rows, &counts)


cdef class LogScan(NativeObject):
    cdef rp_log_scan *native

    def __init__(self, str path not None, *, int64_t begin_offset=INT64_MIN, int64_t end_offset=INT64_MAX, bint check_crc=True):
        cdef bytes native_path = path.encode()
        cdef const char *name = native_path
        cdef rp_error error
        cdef int status
        error.status = 0
        with nogil:
            status = rp_log_scan_open(name, begin_offset, end_offset, check_crc, &self.native, &error)
        check(status, &error)
        self.is_closed = False

    def __iter__(self):
        return self

    def __next__(self):
        cdef rp_message message
        cdef rp_scan_damage damage
        cdef int kind
        self.enter()
        try:
            with nogil:
                kind = rp_log_scan_next(self.native, &message, &damage)
            if kind == RP_SCAN_END:
                raise StopIteration
            if kind == RP_SCAN_MESSAGE:
                return message_of(&message)
            return Damage("commitlog", "", damage.offset, damage.size, (<bytes>damage.cause).decode("utf-8", "replace"))
        finally:
            self.leave()

    @property
    def offset(self):
        self.enter()
        try:
            return rp_log_scan_offset(self.native)
        finally:
            self.leave()

    def close(self):
        if self.begin_close():
            rp_log_scan_close(self.native)
            self.native = NULL
