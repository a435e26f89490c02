# base.pyx: what every wrapper shares: the lifetime of a native object, status -> exception, keywords -> option structs.
#
# Lifetime: a method that calls into C enters and leaves; close() marks the object closed (new calls are refused), waits until the calls in
# flight have left, and frees. An object that others borrow (a store under a broker) refuses to close before them.
#
#     self.enter()
#     with nogil:
#         status = rp_…(self.native, …)
#     self.leave()
#     check(status, &error)
#
# A call into C raises nothing, and signals are not handled before the method returns, so a try is needed only if more happens in between.

import os
import threading
import warnings

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.string cimport memcpy, memset

from rocketpy._core.errors import Busy, Closed, InvalidArgument, UsedAfterFork, error_for

cdef extern from "base/crc32.h" nogil:
    uint32_t rp_crc32(uint32_t crc, const void *data, size_t size)
    const char *rp_crc32_implementation()

cdef extern from "base/error.h" nogil:
    int rp_inodes_are_used_up(const char *path)
    const char *rp_making_remedy(int os_errno, const char *path)

cdef extern from "base/fault_report.h" nogil:
    int rp_fault_report_install()

cdef extern from "fields_inl.h" nogil:
    enum: RP_FIELD_NONE
    enum: RP_FIELD_I32
    enum: RP_FIELD_U16
    enum: RP_FIELD_U32
    enum: RP_FIELD_I64
    enum: RP_FIELD_U64
    enum: RP_FIELD_F64
    enum: RP_FIELD_TEXT
    enum: RP_FIELD_CHARS
    enum: RP_FIELD_BYTES
    enum: RP_FIELD_U64S

# How many forks lie between this process and the one that imported the module: native threads do not survive a fork.
cdef unsigned long forks = 0


def _count_fork() -> None:
    global forks
    forks += 1


os.register_at_fork(after_in_child=_count_fork)


cdef class NativeObject:
    def __cinit__(self):
        self.birth_fork = forks
        self.is_closed = True  # until __init__ has opened the native object

    cdef int enter(self) except -1:
        if self.is_closed:
            raise Closed(f"this {type(self).__name__} is closed")
        if self.birth_fork != forks:
            raise UsedAfterFork(f"this {type(self).__name__} belongs to the parent process; open a new one after fork")
        self.in_flight += 1
        return 0

    cdef int leave(self) except -1:
        self.in_flight -= 1
        if self.in_flight == 0 and self.idle is not None:
            self.idle.set()
        return 0

    cdef bint begin_close(self) except -1:
        """Returns True to the one caller that must free the object; no call is in flight any more."""
        if self.is_closed:
            return False
        self.is_closed = True
        self.idle = threading.Event()  # before in_flight is read: another thread may run meanwhile, and leave
        if self.in_flight > 0:
            self.idle.wait()
        return not self.is_forked()

    cdef int refuse_while_borrowed(self) except -1:
        if self.borrowers > 0 and not self.is_closed:
            raise Busy(f"this {type(self).__name__} is still used by {self.borrowers} other native object(s); close those first")
        return 0

    cdef bint is_forked(self) noexcept:
        return self.birth_fork != forks

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __del__(self):
        if not self.is_closed and not self.is_forked():
            warnings.warn(f"{type(self).__name__} was not closed", ResourceWarning, stacklevel=2, source=self)
            if self.borrowers == 0:  # the collector finalizes a cycle in any order: what others still use stays until the process ends
                self.close()


cdef int borrow(tuple lenders) except -1:
    """Makes the lenders refuse to close from now on; None is skipped. To be called before C gets them, as a native open releases the GIL.
    Raises Closed if one of them is closed, or UsedAfterFork."""
    for lender in lenders:
        if lender is not None:
            (<NativeObject>lender).enter()
            (<NativeObject>lender).leave()
    for lender in lenders:
        if lender is not None:
            (<NativeObject>lender).borrowers += 1
    return 0


cdef int give_back(tuple lenders) except -1:
    for lender in lenders:
        if lender is not None:
            (<NativeObject>lender).borrowers -= 1
    return 0


cdef class LogTap(NativeObject):
    def __init__(self):
        check(rp_log_create(&self.native), NULL)
        self.is_closed = False

    @property
    def event_fd(self):
        self.enter()
        try:
            return rp_log_event_fd(self.native)
        finally:
            self.leave()

    @property
    def dropped(self):
        self.enter()
        try:
            return rp_log_dropped(self.native)
        finally:
            self.leave()

    def take(self, uint32_t lines_max=256):
        cdef rp_log_line lines[16]
        cdef uint32_t count, i
        cdef list taken = []
        self.enter()
        try:
            while <uint32_t>len(taken) < lines_max:
                count = rp_log_take(self.native, lines, min(<uint32_t>16, lines_max - <uint32_t>len(taken)))
                for i in range(count):
                    taken.append((lines[i].level, lines[i].wall_ms, (<bytes>lines[i].text).decode("utf-8", "replace")))
                if count == 0:
                    break
        finally:
            self.leave()
        return taken

    def close(self):
        self.refuse_while_borrowed()
        if self.begin_close():
            rp_log_destroy(self.native)
            self.native = NULL


cdef rp_log *log_of(object log) except? NULL:
    """Returns the native log; NULL for None: warnings then go to stderr."""
    if log is None:
        return NULL
    cdef LogTap tap = log
    if tap.is_closed:
        raise Closed("this LogTap is closed")
    return tap.native


cdef int check(int64_t status, rp_error *error) except -1:
    """Raises for a negative status, with the caller's detail if that belongs to this status, else with the status's own text."""
    if status >= 0:
        return 0
    if error != NULL and error.status == status:
        raise error_for(
            <int>status,
            (<bytes>error.message).decode("utf-8", "replace"),
            (<bytes>error.file).decode("utf-8", "replace"),
            error.offset,
            error.os_errno,
        )
    raise error_for(<int>status, (<bytes>rp_status_text(<int>status)).decode())


cdef int set_fields(const rp_field_row *rows, void *target, dict values, list keep) except -1:
    """Writes keywords into a struct; keep keeps their texts alive. Raises for unknown names and values out of range, naming them."""
    cdef const rp_field_row *row
    cdef char *place
    cdef bytes data
    for name, value in values.items():
        row = rows
        while row.name != NULL and (<bytes>row.name).decode() != name:
            row += 1
        if row.name == NULL or row.kind == RP_FIELD_NONE:
            raise InvalidArgument(f"there is no option {name!r}; there are: {', '.join(field_names(rows))}")
        place = <char *>target + row.offset
        try:
            if row.kind == RP_FIELD_I32:
                (<int32_t *>place)[0] = <int32_t>value
            elif row.kind == RP_FIELD_U16:
                (<uint16_t *>place)[0] = <uint16_t>value
            elif row.kind == RP_FIELD_U32:
                (<uint32_t *>place)[0] = <uint32_t>value
            elif row.kind == RP_FIELD_I64:
                (<int64_t *>place)[0] = <int64_t>value
            elif row.kind == RP_FIELD_U64:
                (<uint64_t *>place)[0] = <uint64_t>value
            elif row.kind == RP_FIELD_F64:
                (<double *>place)[0] = <double>value
            elif row.kind == RP_FIELD_U64S:
                raise InvalidArgument(f"{name} can only be read")
            elif value is None and row.kind == RP_FIELD_TEXT:
                (<const char **>place)[0] = NULL
            else:
                data = value if isinstance(value, bytes) else os.fsencode(value)
                if row.kind == RP_FIELD_TEXT:
                    if b"\0" in data:
                        raise InvalidArgument(f"{name} holds a zero byte")
                    keep.append(data)
                    (<const char **>place)[0] = PyBytes_AS_STRING(data)
                elif row.kind == RP_FIELD_CHARS:
                    memset(place, 0, row.size)
                    memcpy(place, PyBytes_AS_STRING(data), min(<size_t>PyBytes_GET_SIZE(data), row.size - 1))
                else:
                    if <size_t>PyBytes_GET_SIZE(data) != row.size:
                        raise InvalidArgument(f"{name} takes {row.size} bytes, not {len(data)}")
                    memcpy(place, PyBytes_AS_STRING(data), row.size)
        except (TypeError, OverflowError) as error:
            raise InvalidArgument(f"{name}={value!r}: {error}") from None
    return 0


cdef list field_names(const rp_field_row *rows):
    cdef list names = []
    while rows.name != NULL:
        if rows.kind != RP_FIELD_NONE:
            names.append((<bytes>rows.name).decode())
        rows += 1
    return names


cdef dict read_fields(const rp_field_row *rows, const void *source):
    """Returns a struct of numbers as a dict."""
    cdef dict values = {}
    cdef const char *place
    cdef size_t i
    while rows.name != NULL:
        place = <const char *>source + rows.offset
        name = (<bytes>rows.name).decode()
        if rows.kind == RP_FIELD_I32:
            values[name] = (<const int32_t *>place)[0]
        elif rows.kind == RP_FIELD_U16:
            values[name] = (<const uint16_t *>place)[0]
        elif rows.kind == RP_FIELD_U32:
            values[name] = (<const uint32_t *>place)[0]
        elif rows.kind == RP_FIELD_I64:
            values[name] = (<const int64_t *>place)[0]
        elif rows.kind == RP_FIELD_U64:
            values[name] = (<const uint64_t *>place)[0]
        elif rows.kind == RP_FIELD_F64:
            values[name] = (<const double *>place)[0]
        elif rows.kind == RP_FIELD_CHARS:
            values[name] = (<bytes>place).decode("utf-8", "replace")
        elif rows.kind == RP_FIELD_U64S:
            values[name] = [(<const uint64_t *>place)[i] for i in range(rows.size // sizeof(uint64_t))]
        rows += 1
    return values


cdef rp_slice slice_of_text(str text) except *:
    """Returns the UTF-8 of a str, valid as long as the str, which caches it."""
    cdef rp_slice slice
    cdef Py_ssize_t size = 0
    slice.data = NULL
    slice.size = 0
    if text is not None:
        slice.data = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &size)
        if size > 0x7FFFFFFF:
            raise InvalidArgument("a text past 2 GiB")
        slice.size = <uint32_t>size
    return slice


cdef rp_slice slice_of_bytes(bytes data) noexcept:
    cdef rp_slice slice
    slice.data = <const uint8_t *>PyBytes_AS_STRING(data)
    slice.size = <uint32_t>PyBytes_GET_SIZE(data)
    return slice


cdef str text_of_slice(rp_slice slice):
    return "" if slice.size == 0 else PyUnicode_DecodeUTF8(<const char *>slice.data, slice.size, "replace")


def crc32(const uint8_t[::1] data not None, uint32_t crc=0):
    cdef uint32_t result = crc
    cdef size_t size = data.shape[0]
    cdef const uint8_t *start
    if size > 0:
        start = &data[0]
        with nogil:
            result = rp_crc32(crc, start, size)
    return result


def crc32_implementation():
    return (<bytes>rp_crc32_implementation()).decode()


def inodes_are_used_up(path):
    cdef bytes place = os.fsencode(path)
    cdef const char *start = place
    cdef bint result
    with nogil:
        result = rp_inodes_are_used_up(start)
    return result


def making_remedy(int os_errno, path):
    cdef bytes place = os.fsencode(path)
    cdef const char *start = place
    cdef const char *remedy
    with nogil:
        remedy = rp_making_remedy(os_errno, start)
    return (<bytes>remedy).decode()


def report_faults():
    check(rp_fault_report_install(), NULL)
