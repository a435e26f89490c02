# base.pxd: what every wrapper shares: csrc/base declared for Cython, the lifetime of a native object, status -> exception.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "base/slice.h" nogil:
    ctypedef struct rp_slice:
        const uint8_t *data
        uint32_t size

cdef extern from "base/error.h" nogil:
    enum: RP_E_INVALID
    enum: RP_E_TIMEOUT
    enum: RP_E_BUSY
    enum: RP_E_CLOSED
    enum: RP_E_NOT_FOUND
    enum: RP_E_TOO_LARGE
    ctypedef struct rp_error:
        int32_t status
        int32_t os_errno
        int64_t offset
        char *file
        char *message
    const char *rp_status_text(int status)

cdef extern from "base/log.h" nogil:
    ctypedef struct rp_log:
        pass
    ctypedef struct rp_log_line:
        int32_t level
        int64_t wall_ms
        char *text
    int rp_log_create(rp_log **log)
    void rp_log_destroy(rp_log *log)
    uint32_t rp_log_take(rp_log *log, rp_log_line *lines, uint32_t lines_max)
    int rp_log_event_fd(const rp_log *log)
    uint64_t rp_log_dropped(rp_log *log)

cdef extern from "base/arena.h" nogil:
    ctypedef struct rp_arena:
        pass
    rp_arena *rp_arena_create(size_t keep_bytes, size_t bytes_max)
    void rp_arena_reset(rp_arena *arena)

cdef extern from "fields_inl.h" nogil:
    ctypedef struct rp_field_row:
        const char *name
        size_t offset, size
        int kind


cdef class NativeObject:
    """The lifetime of one C object: calls in flight, borrowers, closing, fork. Counters change only under the GIL."""
    cdef int in_flight
    cdef int borrowers
    cdef bint is_closed
    cdef unsigned long birth_fork
    cdef object idle

    cdef int enter(self) except -1
    cdef int leave(self) except -1
    cdef bint begin_close(self) except -1
    cdef int refuse_while_borrowed(self) except -1
    cdef bint is_forked(self) noexcept


cdef int borrow(tuple lenders) except -1
cdef int give_back(tuple lenders) except -1


cdef class LogTap(NativeObject):
    cdef rp_log *native

cdef rp_log *log_of(object log) except? NULL

cdef int check(int64_t status, rp_error *error) except -1
cdef int set_fields(const rp_field_row *rows, void *target, dict values, list keep) except -1
cdef dict read_fields(const rp_field_row *rows, const void *source)
cdef rp_slice slice_of_text(str text) except *
cdef rp_slice slice_of_bytes(bytes data) noexcept
cdef str text_of_slice(rp_slice slice)
