# arrow.pyx: records as Arrow batches (csrc/arrow): decoded from bytes, pulled from a broker, or read from a commit log file; and in the
# other direction, rows of a batch as the bodies of send requests.
#
# A finished batch is handed over by the Arrow PyCapsule interface, so its reader needs pyarrow, but this module does not.

import os

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from rocketpy._core.base cimport (
    RP_E_NOT_FOUND, RP_E_TIMEOUT, NativeObject, check, read_fields, rp_error, rp_field_row, rp_slice, set_fields,
)
from rocketpy._core.errors import Closed, InvalidArgument, NoMemory, TimedOut
from rocketpy._core.options import MessagePackerOptions, QueueReaderOptions, RecordBatchOptions, SegmentReaderOptions

cdef extern from "arrow/arrow_abi.h" nogil:
    ctypedef struct ArrowSchema "struct ArrowSchema":
        void (*release)(ArrowSchema *) noexcept nogil
    ctypedef struct ArrowArray "struct ArrowArray":
        int64_t length
        void (*release)(ArrowArray *) noexcept nogil

cdef extern from "arrow/buffer_pool.h" nogil:
    ctypedef struct rp_buffer_pool:
        pass
    rp_buffer_pool *rp_buffer_pool_create()
    void rp_buffer_pool_drop(rp_buffer_pool *pool)

cdef extern from "arrow/record_batch.h" nogil:
    ctypedef struct rp_record_batch:
        pass
    ctypedef struct rp_record_batch_options:
        uint32_t column_mask
    void rp_record_batch_options_default(rp_record_batch_options *options)
    int rp_record_batch_create(const rp_record_batch_options *options, rp_buffer_pool *pool, rp_record_batch **batch,
                               rp_error *error)
    void rp_record_batch_destroy(rp_record_batch *batch)
    int64_t rp_record_batch_put_records(rp_record_batch *batch, const uint8_t *data, uint64_t size, int check_crc,
                                        int64_t first_queue_offset, int64_t last_queue_offset, rp_error *error)
    int64_t rp_record_batch_rows(const rp_record_batch *batch)
    int32_t rp_record_batch_sys_flags(const rp_record_batch *batch)
    int rp_record_batch_export(rp_record_batch *batch, ArrowArray *array, ArrowSchema *schema)

cdef extern from "arrow/message_packer.h" nogil:
    ctypedef struct rp_message_packer:
        pass
    ctypedef struct rp_message_packer_options:
        pass
    ctypedef struct rp_message_parcel:
        int32_t topic, queue, rows, flag, is_ordered, is_delayed
        int64_t first_row, last_row
        uint8_t *data
        uint64_t size
        rp_buffer_pool *pool
    void rp_message_parcel_release(rp_message_parcel *parcel)
    void rp_message_packer_options_default(rp_message_packer_options *options)
    int rp_message_packer_open(const rp_message_packer_options *options, rp_message_packer **packer, rp_error *error)
    void rp_message_packer_close(rp_message_packer *packer)
    int rp_message_packer_put_topic(rp_message_packer *packer, rp_slice name, const int32_t *queue_ids, uint32_t queue_count)
    int rp_message_packer_begin(rp_message_packer *packer, const ArrowSchema *schema, const ArrowArray *array, rp_error *error)
    int rp_message_packer_next(rp_message_packer *packer, rp_message_parcel *parcel, rp_error *error)
    rp_slice rp_message_packer_wanted_topic(const rp_message_packer *packer)
    int rp_message_packer_flush(rp_message_packer *packer, rp_message_parcel *parcel)

cdef extern from "arrow/queue_reader.h" nogil:
    ctypedef struct rp_queue_reader:
        pass
    ctypedef struct rp_queue_reader_options:
        pass
    ctypedef struct rp_queue_reader_progress:
        uint64_t responses
    void rp_queue_reader_options_default(rp_queue_reader_options *options)
    int rp_queue_reader_open(int fd, const rp_queue_reader_options *options, rp_queue_reader **reader, rp_error *error)
    void rp_queue_reader_close(rp_queue_reader *reader)
    int rp_queue_reader_fill(rp_queue_reader *reader, rp_record_batch *batch, uint32_t wait_ms, rp_error *error)
    void rp_queue_reader_read_progress(const rp_queue_reader *reader, rp_queue_reader_progress *progress)

cdef extern from "arrow/segment_reader.h" nogil:
    ctypedef struct rp_segment_reader:
        pass
    ctypedef struct rp_segment_reader_options:
        pass
    void rp_segment_reader_options_default(rp_segment_reader_options *options)
    int rp_segment_reader_open(const rp_segment_reader_options *options, rp_segment_reader **reader, rp_error *error)
    void rp_segment_reader_close(rp_segment_reader *reader)
    int rp_segment_reader_fill(rp_segment_reader *reader, rp_record_batch *batch, rp_error *error)
    int64_t rp_segment_reader_offset(const rp_segment_reader *reader)

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "arrow/message_packer.h"
    #include "arrow/queue_reader.h"
    #include "arrow/segment_reader.h"
    #define ROW(member) RP_FIELD_ROW(rp_record_batch_options, member)
    static const rp_field_row record_batch_option_rows[] = {
        ROW(column_mask), ROW(broker_name), ROW(properties_as_map), ROW(rows_max), ROW(bytes_max), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_message_packer_options, member)
    static const rp_field_row message_packer_option_rows[] = {
        ROW(topic), ROW(id_prefix), ROW(rows_max), ROW(bytes_max), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_queue_reader_options, member)
    static const rp_field_row queue_reader_option_rows[] = {
        ROW(consumer_group), ROW(topic), ROW(subscription), ROW(is_sql), ROW(queue_id), ROW(begin_offset), ROW(end_offset), ROW(pull_batch),
        ROW(depth), ROW(fail_on_data_loss), ROW(check_crc), ROW(patience_ms), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_queue_reader_progress, member)
    static const rp_field_row queue_reader_progress_rows[] = {
        ROW(next_offset), ROW(lost_offsets), ROW(bytes_received), ROW(responses), ROW(wasted_responses), ROW(is_behind), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_segment_reader_options, member)
    static const rp_field_row segment_reader_option_rows[] = {
        ROW(path), ROW(topic), ROW(begin_offset), ROW(end_offset), ROW(check_crc), ROW(audit), ROW(tail), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *record_batch_option_rows
    const rp_field_row *message_packer_option_rows
    const rp_field_row *queue_reader_option_rows
    const rp_field_row *queue_reader_progress_rows
    const rp_field_row *segment_reader_option_rows

cdef enum: WAIT_SLICE_MS = 100  # how often a waiting call checks for signals

COLUMN_NAMES = (
    "topic", "flag", "body", "properties", "brokerName", "queueId", "queueOffset", "bornTimestamp", "storeTimestamp", "tags", "keys",
    "msgId", "offsetMsgId", "bodyCrc", "commitLogOffset", "sysFlag", "reconsumeTimes", "bornHost", "storeHost",
    "preparedTransactionOffset", "valid", "damage",
)


def column_mask(names):
    mask = 0
    for name in names:
        if name not in COLUMN_NAMES:
            raise InvalidArgument(f"there is no column {name!r}; there are: {', '.join(COLUMN_NAMES)}")
        mask |= 1 << COLUMN_NAMES.index(name)
    return mask


cdef void release_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void release_array_capsule(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef class ArrowBatch:
    cdef readonly int64_t rows
    cdef readonly int32_t sys_flags
    cdef object schema
    cdef object array

    def __arrow_c_array__(self, requested_schema=None):
        if self.array is None:
            raise Closed("this ArrowBatch was taken already")
        taken = (self.schema, self.array)
        self.schema = self.array = None
        return taken


cdef ArrowBatch export_batch(rp_record_batch *native):
    cdef ArrowBatch batch = ArrowBatch.__new__(ArrowBatch)
    cdef ArrowSchema *schema = <ArrowSchema *>malloc(sizeof(ArrowSchema))
    cdef ArrowArray *array = <ArrowArray *>malloc(sizeof(ArrowArray))
    if schema == NULL or array == NULL:
        free(schema)
        free(array)
        raise NoMemory("no memory for a batch")
    schema.release = NULL
    array.release = NULL
    batch.schema = PyCapsule_New(schema, "arrow_schema", release_schema_capsule)
    batch.array = PyCapsule_New(array, "arrow_array", release_array_capsule)
    batch.rows = rp_record_batch_rows(native)
    batch.sys_flags = rp_record_batch_sys_flags(native)
    check(rp_record_batch_export(native, array, schema), NULL)
    return batch


cdef class BufferPool:
    cdef rp_buffer_pool *native

    def __cinit__(self):
        self.native = rp_buffer_pool_create()
        if self.native == NULL:
            raise NoMemory("no memory for a pool of buffers")

    def __dealloc__(self):
        rp_buffer_pool_drop(self.native)


cdef rp_record_batch *create_batch(dict options, BufferPool pool) except NULL:
    cdef rp_record_batch_options native_options
    cdef rp_record_batch *batch = NULL
    cdef rp_error error
    cdef list keep = []
    rp_record_batch_options_default(&native_options)
    set_fields(record_batch_option_rows, &native_options, options, keep)
    error.status = 0
    check(rp_record_batch_create(&native_options, NULL if pool is None else pool.native, &batch, &error), &error)
    return batch


cdef class RecordBatch(NativeObject):
    cdef rp_record_batch *native

    def __init__(self, **options):
        if self.native != NULL:
            raise InvalidArgument("a RecordBatch is opened once")
        self.native = create_batch(options, None)
        self.is_closed = False

    def put_records(self, const uint8_t[::1] data not None, int check_crc=1, int64_t first_queue_offset=INT64_MIN,
                    int64_t last_queue_offset=INT64_MAX):
        cdef rp_error error
        cdef int64_t used
        cdef size_t size = data.shape[0]
        cdef const uint8_t *start
        if size == 0:
            return 0
        self.enter()
        try:
            error.status = 0
            start = &data[0]
            with nogil:
                used = rp_record_batch_put_records(self.native, start, size, check_crc, first_queue_offset, last_queue_offset, &error)
            check(used, &error)
            return used
        finally:
            self.leave()

    @property
    def rows(self):
        self.enter()
        try:
            return rp_record_batch_rows(self.native)
        finally:
            self.leave()

    def export(self):
        self.enter()
        try:
            return export_batch(self.native)
        finally:
            self.leave()

    def close(self):
        if self.begin_close():
            rp_record_batch_destroy(self.native)
            self.native = NULL


cdef class QueueReader(NativeObject):
    cdef rp_queue_reader *native
    cdef rp_record_batch *batch
    cdef bint is_done

    def __init__(self, int fd, dict batch=None, BufferPool pool=None, **options):
        cdef rp_queue_reader_options native_options
        cdef rp_error error
        cdef list keep = []
        rp_queue_reader_options_default(&native_options)
        try:
            if self.native != NULL:
                raise InvalidArgument("a QueueReader is opened once")
            set_fields(queue_reader_option_rows, &native_options, options, keep)
            self.batch = create_batch(batch or {}, pool)
        except BaseException:
            os.close(fd)  # belongs to this object from the call on, as with rp_queue_reader_open
            raise
        error.status = 0
        try:
            check(rp_queue_reader_open(fd, &native_options, &self.native, &error), &error)
        except BaseException:
            rp_record_batch_destroy(self.batch)
            self.batch = NULL
            raise
        self.is_closed = False

    def next_batch(self, double timeout_s):
        cdef rp_error error
        cdef int status
        cdef int64_t left = <int64_t>(timeout_s * 1000)
        cdef rp_queue_reader_progress before, after
        self.enter()
        try:
            if self.is_done:
                return None
            rp_queue_reader_read_progress(self.native, &before)
            while True:
                error.status = 0
                with nogil:
                    status = rp_queue_reader_fill(self.native, self.batch, WAIT_SLICE_MS, &error)
                if status == RP_E_TIMEOUT and error.status == 0:
                    rp_queue_reader_read_progress(self.native, &after)
                    left = <int64_t>(timeout_s * 1000) if after.responses != before.responses else left - WAIT_SLICE_MS
                    before = after
                    if left <= 0:
                        raise TimedOut(f"the broker did not answer for {timeout_s:g} s")
                    PyErr_CheckSignals()
                    continue
                check(status, &error)
                self.is_done = status == 1
                return export_batch(self.batch) if rp_record_batch_rows(self.batch) > 0 else None
        finally:
            self.leave()

    def progress(self):
        cdef rp_queue_reader_progress progress
        self.enter()
        try:
            memset(&progress, 0, sizeof(progress))
            rp_queue_reader_read_progress(self.native, &progress)
            return read_fields(queue_reader_progress_rows, &progress)
        finally:
            self.leave()

    def take_partial(self):
        self.enter()
        try:
            return export_batch(self.batch)
        finally:
            self.leave()

    def close(self):
        if self.begin_close():
            rp_queue_reader_close(self.native)
            rp_record_batch_destroy(self.batch)
            self.native = NULL
            self.batch = NULL


cdef class SegmentReader(NativeObject):
    cdef rp_segment_reader *native
    cdef rp_record_batch *batch
    cdef bint is_done

    def __init__(self, dict batch=None, BufferPool pool=None, **options):
        cdef rp_segment_reader_options native_options
        cdef rp_error error
        cdef list keep = []
        cdef int status
        if self.native != NULL:
            raise InvalidArgument("a SegmentReader is opened once")
        rp_segment_reader_options_default(&native_options)
        set_fields(segment_reader_option_rows, &native_options, options, keep)
        self.batch = create_batch(batch or {}, pool)
        error.status = 0
        with nogil:
            status = rp_segment_reader_open(&native_options, &self.native, &error)
        try:
            check(status, &error)
        except BaseException:
            rp_record_batch_destroy(self.batch)
            self.batch = NULL
            raise
        self.is_closed = False

    def next_batch(self):
        cdef rp_error error
        cdef int status
        self.enter()
        try:
            if self.is_done:
                return None
            error.status = 0
            with nogil:
                status = rp_segment_reader_fill(self.native, self.batch, &error)
            check(status, &error)
            self.is_done = status == 1
            return export_batch(self.batch) if rp_record_batch_rows(self.batch) > 0 else None
        finally:
            self.leave()

    @property
    def offset(self):
        self.enter()
        try:
            return rp_segment_reader_offset(self.native)
        finally:
            self.leave()

    def close(self):
        if self.begin_close():
            with nogil:
                rp_segment_reader_close(self.native)
            rp_record_batch_destroy(self.batch)
            self.native = NULL
            self.batch = NULL


cdef class Parcel:
    cdef rp_message_parcel native

    def __dealloc__(self):
        rp_message_parcel_release(&self.native)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.native.data, self.native.size, 1, flags)

    @property
    def topic(self):
        return self.native.topic

    @property
    def queue(self):
        return self.native.queue if self.native.queue >= 0 else None

    @property
    def rows(self):
        return self.native.rows

    @property
    def flag(self):
        return self.native.flag

    @property
    def is_ordered(self):
        return self.native.is_ordered != 0

    @property
    def is_delayed(self):
        return self.native.is_delayed != 0

    @property
    def first_row(self):
        return self.native.first_row

    @property
    def last_row(self):
        return self.native.last_row

    @property
    def body(self):
        return memoryview(self)


cdef class MessagePacker(NativeObject):
    cdef rp_message_packer *native
    cdef tuple batch  # the capsules of the batch that is being packed

    def __init__(self, **options):
        cdef rp_message_packer_options native_options
        cdef rp_error error
        cdef list keep = []
        if self.native != NULL:
            raise InvalidArgument("a MessagePacker is opened once")
        rp_message_packer_options_default(&native_options)
        set_fields(message_packer_option_rows, &native_options, options, keep)
        error.status = 0
        check(rp_message_packer_open(&native_options, &self.native, &error), &error)
        self.is_closed = False

    def put_topic(self, str topic not None, queue_ids):
        cdef bytes name = topic.encode()
        cdef rp_slice slice = [<const uint8_t *>name, len(name)]
        cdef list ids = list(queue_ids)
        cdef uint32_t count = len(ids)
        cdef int32_t *native_ids = <int32_t *>malloc(max(count, 1) * sizeof(int32_t))
        cdef uint32_t i
        if native_ids == NULL:
            raise NoMemory("no memory for a topic's queues")
        try:
            for i in range(count):
                native_ids[i] = ids[i]
            self.enter()
            try:
                return check(rp_message_packer_put_topic(self.native, slice, native_ids, count), NULL)
            finally:
                self.leave()
        finally:
            free(native_ids)

    def begin(self, batch not None):
        cdef rp_error error
        cdef tuple capsules = batch.__arrow_c_array__()
        self.enter()
        try:
            error.status = 0
            check(rp_message_packer_begin(self.native, <ArrowSchema *>PyCapsule_GetPointer(capsules[0], "arrow_schema"),
                                          <ArrowArray *>PyCapsule_GetPointer(capsules[1], "arrow_array"), &error), &error)
            self.batch = capsules
        finally:
            self.leave()

    def next(self):
        cdef Parcel parcel = Parcel.__new__(Parcel)
        cdef rp_error error
        cdef int status
        self.enter()
        try:
            error.status = 0
            with nogil:
                status = rp_message_packer_next(self.native, &parcel.native, &error)
            if status == 1:
                return parcel
            if status == RP_E_NOT_FOUND and error.status == 0:  # an unknown topic: wanted_topic names it
                return None
            check(status, &error)
            self.batch = None
            return None
        finally:
            self.leave()

    @property
    def wanted_topic(self):
        cdef rp_slice name
        self.enter()
        try:
            name = rp_message_packer_wanted_topic(self.native)
            return None if name.data == NULL else PyBytes_FromStringAndSize(<const char *>name.data, name.size).decode("utf-8", "replace")
        finally:
            self.leave()

    def flush(self):
        cdef Parcel parcel = Parcel.__new__(Parcel)
        self.enter()
        try:
            return parcel if rp_message_packer_flush(self.native, &parcel.native) == 1 else None
        finally:
            self.leave()

    def close(self):
        if self.begin_close():
            rp_message_packer_close(self.native)
            self.native = NULL
            self.batch = None
