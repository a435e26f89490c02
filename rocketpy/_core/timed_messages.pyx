# timed_messages.pyx: messages with a delivery time (csrc/broker/timed_messages.h).

from libc.stdlib cimport free, malloc

from rocketpy._core.base cimport check, read_fields, rp_field_row, set_fields, slice_of_text
from rocketpy._core.exported_rows cimport empty_buffer, export_buffer, export_row, exported_row, imported_rows, no_name
from rocketpy._core.errors import NoMemory
from rocketpy._core.options import TimerOptions
from rocketpy._core.store import host_bytes

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "broker/timed_messages.h"
    #define ROW(member) RP_FIELD_ROW(rp_timer_options, member)
    static const rp_field_row timer_option_rows[] = {
        ROW(log_file_size), ROW(precision_ms), ROW(roll_window_slots), ROW(flush_interval_ms), ROW(progress_interval_ms),
        ROW(delivers), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_timer_stats, member)
    static const rp_field_row timer_stats_rows[] = {
        ROW(read_time_ms), ROW(queue_offset), ROW(queue_max_offset), ROW(master_queue_offset), ROW(messages_waiting),
        ROW(enqueue_behind_ms), ROW(dequeue_behind_ms), ROW(entered), ROW(delivered), ROW(rolled), ROW(recalled),
        ROW(passed_over), ROW(is_running), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *timer_option_rows
    const rp_field_row *timer_stats_rows


cdef int export_timer_count(void *context, const rp_timer_count *count) noexcept nogil:
    cdef exported_row row
    row.numbers[0] = count.count
    row.numbers[1] = count.changed_ms
    return export_row(<export_buffer *>context, count.topic, no_name(), &row)


cdef int64_t *room_for(uint32_t count) except NULL:
    """Allocates memory for `count` offsets; the caller frees it."""
    cdef int64_t *numbers = <int64_t *>malloc((count + 1) * sizeof(int64_t))
    if numbers == NULL:
        raise NoMemory("no memory for offsets that are set aside")
    return numbers


cdef int64_t *numbers_of(list offsets, uint32_t count) except NULL:
    """Returns a native copy of the first `count` offsets; the caller frees it."""
    cdef int64_t *numbers = room_for(count)
    try:
        for index in range(count):
            numbers[index] = offsets[index]
    except BaseException:
        free(numbers)
        raise
    return numbers


cdef class TimedMessages(PoppedMessages):
    def start_timers(self, str root_path not None, **options):
        cdef rp_timer_options native_options
        cdef rp_error error
        cdef list keep = []
        cdef int status
        cdef bytes root = root_path.encode("utf-8", "surrogateescape")
        rp_timer_options_default(&native_options)
        set_fields(timer_option_rows, &native_options, options, keep)
        native_options.root_path = root
        error.status = 0
        self.enter()
        with nogil:
            status = rp_broker_start_timers(self.native, &native_options, &error)
        self.leave()
        check(status, &error)

    def stop_timers(self):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_broker_stop_timers(self.native, &error)
        self.leave()
        check(status, &error)

    def timer_stats(self):
        cdef rp_timer_stats stats
        self.enter()
        with nogil:
            rp_broker_read_timer_stats(self.native, &stats)
        self.leave()
        return read_fields(timer_stats_rows, &stats)

    def timer_checkpoint(self):
        cdef uint8_t body[RP_TIMER_CHECKPOINT_BYTES]
        cdef int is_there
        self.enter()
        with nogil:
            is_there = rp_broker_read_timer_checkpoint(self.native, body)
        self.leave()
        return <bytes>(<char *>body)[:RP_TIMER_CHECKPOINT_BYTES] if is_there else None

    def follow_timer_checkpoint(self, bytes body not None):
        cdef const uint8_t *first = body
        cdef uint32_t size = <uint32_t>min(len(body), 4096)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_follow_timer_checkpoint(self.native, first, size)
        self.leave()
        check(status, NULL)

    def set_timers_passed_on(self, int64_t until_ms, int64_t queue_offset, list but not None):
        cdef uint32_t count = <uint32_t>min(len(but), RP_TIMERS_ASIDE_MAX)
        cdef int64_t *numbers = numbers_of(but, count)
        cdef int status
        try:
            self.enter()
            with nogil:
                status = rp_broker_set_timers_passed_on(self.native, until_ms, queue_offset, numbers, count)
            self.leave()
        finally:
            free(numbers)
        check(status, NULL)

    def timers_aside(self):
        cdef int64_t read_ms
        cdef uint32_t count
        cdef int64_t *numbers = room_for(RP_TIMERS_ASIDE_MAX)
        try:
            self.enter()
            with nogil:
                count = rp_broker_read_timers_aside(self.native, &read_ms, numbers)
            self.leave()
            return read_ms, [numbers[index] for index in range(count)]
        finally:
            free(numbers)

    def timer_counts(self):
        cdef export_buffer buffer
        empty_buffer(&buffer, 1, 2)
        self.enter()
        with nogil:
            rp_broker_each_timer_count(self.native, export_timer_count, &buffer)
        self.leave()
        return imported_rows(&buffer)

    @property
    def timer_count_version(self):
        cdef uint64_t version
        self.enter()
        version = rp_broker_timer_count_version(self.native)
        self.leave()
        return version

    def timers_between(self, int64_t begin_s, int64_t end_s):
        cdef int64_t count
        self.enter()
        with nogil:
            count = rp_broker_timers_between(self.native, begin_s, end_s)
        self.leave()
        return count

    def put_recall(
        self,
        str topic not None,
        str unique_key not None,
        str producer_group not None,
        int64_t deliver_ms,
        str born_host=None,
        *,
        bint names_topic=False,
    ):
        cdef rp_recall recall
        cdef int64_t end
        cdef int status
        cdef bytes host = b""
        if born_host is not None:
            host, is_v6 = host_bytes(born_host)
            host = host if is_v6 else host[:8]
        recall.topic = slice_of_text(topic)
        recall.unique_key = slice_of_text(unique_key)
        recall.producer_group = slice_of_text(producer_group)
        recall.deliver_ms = deliver_ms
        recall.names_topic = names_topic
        recall.born_host.data = host
        recall.born_host.size = <uint32_t>len(host)
        self.enter()
        with nogil:
            status = rp_broker_put_recall(self.native, &recall, &end)
        self.leave()
        check(status, NULL)
        return end

    def put_delay_aside(self, int32_t level, int64_t reached, list offsets not None):
        cdef uint32_t count = <uint32_t>min(len(offsets), RP_DELAY_ASIDE_MAX + 1)  # one more than the bound, which is refused
        cdef int64_t *numbers = numbers_of(offsets, count)
        cdef int status
        try:
            self.enter()
            with nogil:
                status = rp_broker_put_delay_aside(self.native, level, reached, numbers, count)
            self.leave()
        finally:
            free(numbers)
        check(status, NULL)

    def delay_aside(self, int32_t level):
        cdef int64_t reached = 0
        cdef int64_t *numbers
        cdef uint32_t count
        self.enter()
        with nogil:
            count = rp_broker_read_delay_aside(self.native, level, &reached, NULL)
        self.leave()
        if count == 0:
            return None
        numbers = room_for(RP_DELAY_ASIDE_MAX)
        try:
            self.enter()
            with nogil:
                count = rp_broker_read_delay_aside(self.native, level, &reached, numbers)
            self.leave()
            return (reached, [numbers[index] for index in range(count)]) if count > 0 else None
        finally:
            free(numbers)
