# store.pyx: the message store (csrc/store): append, reads by commit log offset and by queue, decoding of one record.

import os
import socket

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from rocketpy._core.base cimport RP_E_NOT_FOUND, RP_E_TIMEOUT, borrow, check, give_back, log_of, read_fields, rp_field_row, set_fields
from rocketpy._core.base cimport slice_of_bytes, slice_of_text, text_of_slice
from rocketpy._core.errors import InvalidArgument, NoMemory, OffsetOutOfRange, StoreCorrupt
from rocketpy._core.options import MessageStoreOptions
from rocketpy._core.results import AppendResult, KeyQuery, Message, SyncTimes

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "store/message_store.h"
    #define ROW(member) RP_FIELD_ROW(rp_message_store_options, member)
    static const rp_field_row store_option_rows[] = {
        ROW(commit_log_path), ROW(commit_log_file_size), ROW(consume_queue_file_size), ROW(batch_queue_file_size),
        ROW(batch_topics), ROW(message_size_max), ROW(flush_mode),
        ROW(flush_backend), ROW(liburing_path), ROW(flush_interval_ms), ROW(flush_least_pages), ROW(flush_thorough_interval_ms),
        ROW(queue_flush_interval_ms), ROW(append_busy_timeout_ms), ROW(append_wait_timeout_ms), ROW(populate_ahead_bytes),
        ROW(append_property_crc), ROW(read_only), ROW(check_crc_on_recover), ROW(rebuild_queues), ROW(holds_back), ROW(queues_max),
        ROW(queue_files_max), ROW(light_queues_max), ROW(delay_levels), ROW(index_enable), ROW(index_slot_count),
        ROW(index_entry_count_max), ROW(store_host), ROW(store_host_is_v6),
        ROW(ledger_index_path), ROW(ledger_index_file_size), ROW(ledger_committed_index),
        ROW(compaction_file_size), ROW(compaction_queue_file_size), ROW(compaction_interval_ms), ROW(compaction_key_memory),
        RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_message_store_stats, member)
    static const rp_field_row store_stats_rows[] = {
        ROW(messages_appended), ROW(bytes_appended), ROW(append_failures), ROW(append_refused_busy), ROW(flushes),
        ROW(flush_ns_total), ROW(flush_ns_max), ROW(append_lock_ns_max), ROW(commit_log_min_offset), ROW(commit_log_max_offset),
        ROW(commit_log_end_offset), ROW(commit_log_cuts),
        ROW(flushed_offset), ROW(dispatched_offset),
        ROW(appended_not_synced_bytes), ROW(queue_count), ROW(indexed_offset), ROW(recovered_from), ROW(recovered_records),
        ROW(flush_backend), ROW(files_deleted), ROW(bytes_deleted), ROW(files_leaving), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_compaction_stats, member)
    static const rp_field_row compaction_stats_rows[] = {
        ROW(queues), ROW(bytes), ROW(copied), ROW(without_key), ROW(passed_over), ROW(passes), ROW(failures), ROW(kept), ROW(dropped),
        ROW(behind), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *store_option_rows
    const rp_field_row *store_stats_rows
    const rp_field_row *compaction_stats_rows

cdef enum: WAIT_SLICE_MS = 100      # how often a waiting call checks for signals
cdef enum: QUERY_OFFSETS_MAX = 1024
cdef enum: HOST_BYTES = 20          # address, then port in 4 bytes
cdef enum: NOGIL_BODY_SIZE = 65536  # bodies of at least this size are decoded without the GIL


def host_bytes(str host not None):
    """Returns "ip:port" as the 20 bytes of a record's host, and whether it is IPv6."""
    address, separator, port = host.rpartition(":")
    address = address.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        if not separator:
            raise ValueError("no port")
        packed = socket.inet_pton(family, address) + int(port).to_bytes(4, "big")
    except (OSError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{host!r} is not an address and port such as 10.0.0.1:10911: {error}") from None
    return packed.ljust(HOST_BYTES, b"\0"), family == socket.AF_INET6


cdef str host_text(rp_slice host):
    cdef bytes data = PyBytes_FromStringAndSize(<const char *>host.data, host.size)
    port = int.from_bytes(data[-4:], "big")
    if host.size == HOST_BYTES:
        return f"[{socket.inet_ntop(socket.AF_INET6, data[:16])}]:{port}"
    return f"{socket.inet_ntop(socket.AF_INET, data[:4])}:{port}"


cdef dict properties_of(str text):
    cdef dict properties = {}
    for part in text.split("\x02"):
        name, separator, value = part.partition("\x01")
        if separator:
            properties[name] = value
    return properties


cdef object message_of(const rp_message *message):
    """Returns a decoded record as a Message; everything is copied."""
    return Message(
        text_of_slice(message.topic),
        message.queue_id,
        message.queue_offset,
        message.physical_offset,
        message.size,
        message.flag,
        message.sys_flag,
        message.body_crc,
        message.born_timestamp_ms,
        host_text(message.born_host),
        message.store_timestamp_ms,
        host_text(message.store_host),
        message.reconsume_times,
        message.prepared_transaction_offset,
        properties_of(text_of_slice(message.properties)),
        b"" if message.body.size == 0 else PyBytes_FromStringAndSize(<const char *>message.body.data, message.body.size),
    )


def decode_message(const uint8_t[::1] record not None, bint check_crc=True):
    cdef rp_message message
    cdef rp_error error
    cdef int kind
    cdef uint64_t size = record.shape[0]
    cdef const uint8_t *start
    if size == 0:
        raise StoreCorrupt("an empty record")
    start = &record[0]
    error.status = 0
    if size >= NOGIL_BODY_SIZE:
        with nogil:
            kind = rp_message_decode(start, size, check_crc, &message, &error)
    else:
        kind = rp_message_decode(start, size, check_crc, &message, &error)
    check(kind, &error)
    if kind != RP_RECORD_MESSAGE:
        raise StoreCorrupt("not a message: the padding at a file's end or bytes never written")
    return message_of(&message)


def measure_sync(directory, liburing_path):
    cdef rp_sync_times times
    cdef rp_error error
    cdef int status
    cdef bytes path = os.fsencode(directory)
    cdef bytes library = os.fsencode(liburing_path) if liburing_path is not None else b""
    cdef const char *name = PyBytes_AS_STRING(path)
    cdef const char *library_name = PyBytes_AS_STRING(library) if library else NULL
    error.status = 0
    with nogil:
        status = rp_flush_backend_measure(name, library_name, &times, &error)
    check(status, &error)
    taken = "IO_URING" if times.taken == RP_FLUSH_BACKEND_IO_URING else "SYSCALL"
    return SyncTimes(times.syscall_ns, times.io_uring_ns, taken, times.refusal.decode("utf-8", "replace"))


ctypedef struct queue_list:
    rp_consume_queue **queues
    size_t count, room
    bint out_of_memory


cdef int collect_queue(void *context, rp_consume_queue *queue) noexcept nogil:
    """Runs under the store's lock, so it only takes the pointer, which is valid until the store closes."""
    cdef queue_list *found = <queue_list *>context
    cdef rp_consume_queue **larger
    if found.count == found.room:
        found.room = 64 if found.room == 0 else found.room * 2
        larger = <rp_consume_queue **>realloc(found.queues, found.room * sizeof(rp_consume_queue *))
        if larger == NULL:
            found.out_of_memory = True
            return 1
        found.queues = larger
    found.queues[found.count] = queue
    found.count += 1
    return 0


cdef class MessageStore(NativeObject):
    def __init__(self, root_path, *, log=None, **options):
        cdef rp_message_store_options native_options
        cdef rp_error error
        cdef list keep = []
        cdef int status
        if self.native != NULL:
            raise InvalidArgument("a MessageStore is opened once")
        rp_message_store_options_default(&native_options)
        if isinstance(options.get("store_host"), str):
            options["store_host"], is_v6 = host_bytes(options["store_host"])
            options["store_host_is_v6"] = int(is_v6)
        set_fields(store_option_rows, &native_options, options, keep)
        keep.append(os.fsencode(root_path))
        native_options.root_path = PyBytes_AS_STRING(keep[-1])
        native_options.log = log_of(log)
        borrow((log,))
        try:
            error.status = 0
            with nogil:
                status = rp_message_store_open(&native_options, &self.native, &error)
            check(status, &error)
        except BaseException:
            give_back((log,))
            raise
        self.is_closed = False
        self.log = log

    def close(self):
        cdef rp_error error
        cdef int status
        cdef rp_message_store *native
        self.refuse_while_borrowed()
        if not self.begin_close():
            return
        native, self.native = self.native, NULL
        error.status = 0
        with nogil:
            status = rp_message_store_close(native, &error)
        give_back((self.log,))
        self.log = None
        check(status, &error)

    cdef rp_consume_queue *find_queue(self, str topic, int32_t queue_id, bint create) except? NULL:
        """To be called between enter and leave. NULL without an exception: the queue does not exist."""
        cdef rp_slice name = slice_of_text(topic)
        cdef rp_consume_queue *queue
        cdef rp_error error
        error.status = 0
        with nogil:
            queue = rp_message_store_queue(self.native, name, queue_id, create, &error)
        if queue == NULL and create:
            check(error.status if error.status < 0 else RP_E_NOT_FOUND, &error)
        return queue

    def append(
        self,
        str topic not None,
        int32_t queue_id,
        bytes body not None,
        str properties not None="",
        *,
        int32_t flag=0,
        int32_t sys_flag=0,
        int64_t born_timestamp_ms=0,
        str born_host not None="127.0.0.1:0",
        int32_t reconsume_times=0,
        int64_t prepared_transaction_offset=0,
        tags_code=None,
        int32_t inner_messages=0,
    ):
        cdef rp_append_item item
        cdef bytes host
        memset(&item, 0, sizeof(item))
        host, is_v6 = host_bytes(born_host)
        memcpy(item.born_host, PyBytes_AS_STRING(host), HOST_BYTES)
        item.flag = flag
        item.sys_flag = sys_flag | RP_SYSFLAG_BORN_V6 if is_v6 else sys_flag & ~RP_SYSFLAG_BORN_V6
        item.born_timestamp_ms = born_timestamp_ms
        item.reconsume_times = reconsume_times
        item.prepared_transaction_offset = prepared_transaction_offset
        item.inner_messages = inner_messages
        if len(body) > 0x7FFFFFFF:
            raise InvalidArgument("a body past 2 GiB")
        item.body = slice_of_bytes(body)
        item.properties[0] = slice_of_text(properties)
        item.tags_code = rp_message_tags_code(item.properties[0]) if tags_code is None else <int64_t>tags_code
        self.enter()
        try:
            item.queue = self.find_queue(topic, queue_id, True)
            with nogil:
                rp_commit_log_append(rp_message_store_commit_log(self.native), &item, 1)
            check(item.status, NULL)
        finally:
            self.leave()
        return AppendResult(item.commit_log_offset, item.size, item.queue_offset, item.store_timestamp_ms)

    def read(self, int64_t commit_log_offset, size=None):
        cdef uint32_t wanted
        self.enter()
        try:
            if size is None:
                wanted = int.from_bytes(self.read_range(commit_log_offset, 4), "big")
                if wanted < 4 or wanted > rp_commit_log_max_offset(rp_message_store_commit_log(self.native)) - commit_log_offset:
                    raise OffsetOutOfRange("no record starts there", offset=commit_log_offset)
            else:
                if not 0 <= size <= 0x7FFFFFFF:
                    raise InvalidArgument(f"{size} bytes are not a record")
                wanted = size
            return self.read_range(commit_log_offset, wanted)
        finally:
            self.leave()

    def read_in_memory(self, int64_t commit_log_offset):
        cdef int64_t log_end
        self.enter()
        try:
            log_end = rp_commit_log_max_offset(rp_message_store_commit_log(self.native))
            if self.is_in_memory(commit_log_offset, 4, log_end):
                size = int.from_bytes(self.read_range(commit_log_offset, 4), "big")
                if 4 <= size <= NOGIL_BODY_SIZE and self.is_in_memory(commit_log_offset, size, log_end):
                    return self.read_range(commit_log_offset, size)
        finally:
            self.leave()

    cdef bint is_in_memory(self, int64_t offset, int64_t size, int64_t log_end) except -1:
        cdef rp_commit_log *log = rp_message_store_commit_log(self.native)
        cdef bint is_there = 0 <= offset <= log_end - size
        with nogil:
            return is_there and rp_commit_log_in_memory(log, offset, offset + size) != 0

    cdef bytes read_range(self, int64_t offset, uint32_t size):
        cdef rp_log_range range
        cdef int status
        cdef char *target
        self.enter()
        try:
            with nogil:
                status = rp_commit_log_read(rp_message_store_commit_log(self.native), offset, size, &range)
            check(status, NULL)
            try:
                data = PyBytes_FromStringAndSize(NULL, size)
                target = PyBytes_AS_STRING(data)
                with nogil:  # may fault pages in from disk
                    memcpy(target, range.address, size)
            finally:
                rp_log_range_release(range.pin)
            return data
        finally:
            self.leave()

    def cut_at_open(self, int64_t offset):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_message_store_cut_at_open(self.native, offset, &error)
        self.leave()
        check(status, &error)

    def expire_file(self):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        try:
            with nogil:
                status = rp_message_store_expire_file(self.native, &error)
            if status == RP_E_NOT_FOUND:
                return False
            check(status, &error)
            return True
        finally:
            self.leave()

    def reclaim(self):
        cdef uint32_t left
        self.enter()
        with nogil:
            left = rp_message_store_reclaim(self.native)
        self.leave()
        return left

    def query(self, str topic not None, str key not None, int64_t begin_ms, int64_t end_ms, uint32_t offsets_max):
        cdef int64_t offsets[QUERY_OFFSETS_MAX]
        cdef rp_key_query query
        cdef rp_slice native_topic = slice_of_text(topic)
        cdef rp_slice native_key = slice_of_text(key)
        cdef uint32_t i
        offsets_max = min(offsets_max, <uint32_t>QUERY_OFFSETS_MAX)
        self.enter()
        with nogil:
            query = rp_message_store_query(self.native, native_topic, native_key, begin_ms, end_ms, offsets, offsets_max)
        self.leave()
        return KeyQuery([offsets[i] for i in range(query.found)], query.last_update_time_ms, query.last_update_offset)

    def min_offset(self, str topic not None, int32_t queue_id):
        cdef rp_consume_queue *queue
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            return 0 if queue == NULL else rp_consume_queue_min_offset(queue)
        finally:
            self.leave()

    def first_offset(self, str topic not None, int32_t queue_id):
        cdef rp_consume_queue *queue
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            return 0 if queue == NULL else rp_message_store_first_offset(queue)
        finally:
            self.leave()

    def max_offset(self, str topic not None, int32_t queue_id):
        cdef rp_consume_queue *queue
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            return 0 if queue == NULL else rp_consume_queue_max_offset(queue)
        finally:
            self.leave()

    def next_offset(self, str topic not None, int32_t queue_id):
        cdef rp_consume_queue *queue
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            return 0 if queue == NULL else rp_consume_queue_next_offset(queue)
        finally:
            self.leave()

    def offset_by_time(self, str topic not None, int32_t queue_id, int64_t timestamp_ms, int boundary=0):
        cdef rp_consume_queue *queue
        cdef int64_t offset = 0
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            if queue != NULL:
                with nogil:
                    offset = rp_message_store_offset_by_time(queue, timestamp_ms, boundary)
                check(offset, NULL)
            return offset
        finally:
            self.leave()

    def earliest_time(self, str topic not None, int32_t queue_id):
        cdef rp_consume_queue *queue
        cdef int64_t time_ms = -1
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            if queue != NULL:
                with nogil:
                    time_ms = rp_consume_queue_earliest_time(queue)
            return time_ms
        finally:
            self.leave()

    def time_at(self, str topic not None, int32_t queue_id, int64_t offset):
        cdef rp_consume_queue *queue
        cdef int64_t time_ms = -1
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            if queue != NULL:
                with nogil:
                    time_ms = rp_consume_queue_time_at(queue, offset)
            return time_ms
        finally:
            self.leave()

    def entries(self, str topic not None, int32_t queue_id, int64_t offset, uint32_t count):
        cdef rp_consume_queue *queue
        cdef rp_queue_entry *entries
        cdef int64_t found
        cdef int64_t i
        if count > 1048576:
            raise InvalidArgument("at most 1,048,576 entries at a time")
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            if queue == NULL or count == 0:
                return []
            entries = <rp_queue_entry *>malloc(count * sizeof(rp_queue_entry))
            if entries == NULL:
                raise NoMemory(f"no memory for {count} queue entries")
            try:
                with nogil:
                    found = rp_consume_queue_read(queue, offset, entries, count)
                check(found, NULL)
                return [
                    (entries[i].commit_log_offset, entries[i].size, entries[i].tags_code)
                    for i in range(found)
                    if entries[i].queue_offset - offset < count
                ]
            finally:
                free(entries)
        finally:
            self.leave()

    def queues(self):
        cdef queue_list found
        cdef size_t i
        memset(&found, 0, sizeof(found))
        self.enter()
        try:
            with nogil:
                rp_message_store_each_queue(self.native, collect_queue, &found)
            if found.out_of_memory:
                raise NoMemory("no memory for the list of queues")
            return [
                (text_of_slice(rp_consume_queue_topic(found.queues[i])), rp_consume_queue_id(found.queues[i])) for i in range(found.count)
            ]
        finally:
            free(found.queues)
            self.leave()

    def is_batch(self, str topic not None, int32_t queue_id):
        cdef rp_consume_queue *queue
        self.enter()
        try:
            queue = self.find_queue(topic, queue_id, False)
            return queue != NULL and rp_consume_queue_is_batch(queue) != 0
        finally:
            self.leave()

    def delete_topic(self, str topic not None, int64_t log_offset=INT64_MAX):
        cdef rp_slice name = slice_of_text(topic)
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_message_store_delete_topic_before(self.native, name, log_offset, &error)
        self.leave()
        check(status, &error)
        return status

    def set_append_timing(self, uint32_t busy_timeout_ms, uint32_t wait_timeout_ms):
        self.enter()
        rp_message_store_set_append_timing(self.native, busy_timeout_ms, wait_timeout_ms)
        self.leave()

    def set_message_size_max(self, uint32_t byte_count):
        self.enter()
        rp_message_store_set_message_size_max(self.native, byte_count)
        self.leave()

    def set_flush_timing(self, uint32_t interval_ms, uint32_t least_pages, uint32_t thorough_interval_ms, uint32_t queue_interval_ms):
        cdef rp_flush_timing timing = [interval_ms, least_pages, thorough_interval_ms, queue_interval_ms]
        cdef rp_error error
        error.status = 0
        self.enter()
        try:
            check(rp_message_store_set_flush_timing(self.native, &timing, &error), &error)
        finally:
            self.leave()

    def wait_flushed(self, int64_t offset, uint32_t timeout_ms, uint64_t cuts=0):
        """Waits in slices so that Ctrl-C works."""
        cdef int status = 0
        cdef uint32_t left = timeout_ms, part
        self.enter()
        try:
            while True:
                part = min(left, <uint32_t>WAIT_SLICE_MS)
                with nogil:
                    status = rp_message_store_wait_committed(self.native, offset, cuts, part)
                left -= part
                if status != RP_E_TIMEOUT or left == 0:
                    check(status, NULL)
                    return
                PyErr_CheckSignals()
        finally:
            self.leave()

    def stats(self):
        cdef rp_message_store_stats stats
        self.enter()
        try:
            rp_message_store_read_stats(self.native, &stats)
            return read_fields(store_stats_rows, &stats)
        finally:
            self.leave()

    def hold_compacted_gaps(self, bint holds):
        self.enter()
        rp_message_store_hold_gaps(self.native, holds)
        self.leave()

    def compacted_gaps(self):
        cdef rp_consume_queue *queue
        cdef uint32_t cursor = 0
        cdef int64_t begin, end
        found = []
        self.enter()
        try:
            while rp_message_store_next_gap(self.native, &cursor, &queue, &begin, &end):
                found.append((text_of_slice(rp_consume_queue_topic(queue)), rp_consume_queue_id(queue), begin, end))
            return found
        finally:
            self.leave()

    def fill_compacted_gap(self, str topic not None, int32_t queue_id, bytes records not None, int64_t next_offset):
        cdef rp_slice name = slice_of_text(topic)
        cdef rp_slice bytes_of = slice_of_bytes(records)
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_message_store_fill_gap(self.native, name, queue_id, bytes_of, next_offset, &error)
        self.leave()
        check(status, &error)

    def compaction_stats(self):
        cdef rp_compaction_stats stats
        self.enter()
        try:
            with nogil:
                rp_message_store_read_compaction(self.native, &stats)
            return read_fields(compaction_stats_rows, &stats)
        finally:
            self.leave()
