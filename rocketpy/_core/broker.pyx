# broker.pyx: the broker's native data plane (csrc/broker): its tables, settings and counters.
#
# The tables' functions take short native locks and copy little; like every call that may lock, they are called without the GIL.
# The exports (offsets, statistics) are copied out by native visitors first and become Python objects after the visit.

from libc.stdlib cimport free, malloc

from rocketpy._core.base cimport borrow, check, give_back, log_of, read_fields, rp_field_row, set_fields, slice_of_text
from rocketpy._core.exported_rows cimport empty_buffer, export_buffer, export_row, exported_row, exported_rows, imported_rows, no_name
from rocketpy._core.store import host_bytes
from rocketpy._core.errors import InvalidArgument, NoMemory
from rocketpy._core.options import BrokerOptions, BrokerSettings
from rocketpy._core.results import HalfCopy, UndecidedHalf

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "broker/broker.h"
    #define ROW(member) RP_FIELD_ROW(rp_broker_options, member)
    static const rp_field_row broker_option_rows[] = {
        ROW(cluster_name), ROW(broker_name), ROW(broker_ip), ROW(region_id), ROW(trace_on),
        ROW(store_host), ROW(store_host_is_v6), ROW(memory_bytes), ROW(suspended_pulls_max),
        ROW(cold_after_bytes), ROW(cold_after_entries), ROW(cold_wait_ms), ROW(cold_window_ms), ROW(push_timeout_ms), RP_FIELD_END};
    #undef ROW
    #define ROW(member) RP_FIELD_ROW(rp_broker_settings, member)
    static const rp_field_row broker_settings_rows[] = {
        ROW(permission), ROW(role), ROW(accept_after_ms), ROW(slave_read_enable), ROW(offset_check_in_slave), ROW(lite_pull_enable),
        ROW(property_filter_enable),
        ROW(broker_id_min), ROW(flush_mode), ROW(slaves_min), ROW(slave_acks), ROW(slave_gap_bytes_max),
        ROW(message_size_max), ROW(transfer_bytes_max_memory), ROW(transfer_count_max_memory), ROW(transfer_bytes_max_disk),
        ROW(transfer_count_max_disk), ROW(filter_bytes_max), ROW(memory_ratio_max), ROW(long_polling_enable), ROW(short_polling_ms),
        ROW(sync_flush_timeout_ms), ROW(slave_timeout_ms), ROW(store_reply_enable), ROW(transaction_enable),
        ROW(transaction_timeout_ms), ROW(timer_enable), ROW(timer_precision_ms), ROW(timer_delay_max_ms),
        ROW(timer_slot_messages_max), ROW(timer_stop_enqueue), ROW(timer_stop_dequeue),
        ROW(retry_topic_version), ROW(retry_topic_v1_too), ROW(separate_retry_queues),
        ROW(pop_from_retry_percent), ROW(pop_from_retry_percent_by_priority), ROW(priority_ascends), ROW(pop_begins_in_memory),
        ROW(cold_flow_enable), ROW(cold_group_bytes), ROW(cold_all_bytes), ROW(store_writable), ROW(store_reason), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *broker_option_rows
    const rp_field_row *broker_settings_rows


cdef int export_offset(void *context, const rp_offset_row *offset) noexcept nogil:
    cdef exported_row row
    row.numbers[0] = offset.queue_id
    row.numbers[1] = offset.offset
    return export_row(<export_buffer *>context, offset.group, offset.topic, &row)


cdef int export_stalled(void *context, const rp_stalled_row *stalled) noexcept nogil:
    cdef exported_row row
    row.numbers[0] = stalled.queue_id
    row.numbers[1] = stalled.messages
    row.numbers[2] = stalled.idle_ms
    return export_row(<export_buffer *>context, stalled.group, stalled.topic, &row)


cdef int export_half_count(void *context, const rp_half_count *count) noexcept nogil:
    cdef exported_row row
    row.numbers[0] = count.count
    return export_row(<export_buffer *>context, count.topic, no_name(), &row)


def check_sql(str expression not None):
    cdef rp_slice text = slice_of_text(expression)
    cdef uint32_t end = 0
    cdef rp_error error
    cdef int status
    error.status = 0
    with nogil:
        status = rp_broker_check_sql(text, &end, &error)
    check(status, &error)
    return unread_of(expression, end)


cdef str unread_of(str expression, uint32_t end):
    return expression.encode()[end:].decode(errors="replace")


cdef class Broker(BrokerCounters):
    def __init__(self, MessageStore store not None, *, log=None, **options):
        cdef rp_broker_options native_options
        cdef rp_error error
        cdef list keep = []
        cdef int status
        if self.native != NULL:
            raise InvalidArgument("a Broker is opened once")
        rp_broker_options_default(&native_options)
        if isinstance(options.get("store_host"), str):
            options["store_host"], is_v6 = host_bytes(options["store_host"])
            options["store_host_is_v6"] = int(is_v6)
        set_fields(broker_option_rows, &native_options, options, keep)
        native_options.log = log_of(log)
        borrow((store, log))
        try:
            native_options.store = store.native
            error.status = 0
            with nogil:
                status = rp_broker_open(&native_options, &self.native, &error)
            check(status, &error)
        except BaseException:
            give_back((store, log))
            raise
        self.is_closed = False
        self.handler = rp_broker_handler(self.native)
        self.servers = []
        self.store = store
        self.log = log
        rp_broker_settings_default(&self.native_settings)

    cdef int attach_native(self, Server server) except -1:
        cdef int status
        self.enter()
        try:
            with nogil:
                status = rp_broker_attach(self.native, server.native)
            check(status, NULL)
            self.servers.append(server)
            server.borrowers += 1
        finally:
            self.leave()
        return 0

    def close(self):
        """Stops the servers that it is attached to first, since no reactor may be in the handler."""
        if self.is_closed:
            return
        self.refuse_while_borrowed()
        for server in list(self.servers):
            if not (<Server>server).is_stopped:
                server.stop(0)
        if not self.begin_close():
            return
        with nogil:
            rp_broker_close(self.native)
        self.native = NULL
        self.handler = NULL
        for server in self.servers:
            (<Server>server).borrowers -= 1
        self.servers = []
        give_back((self.store, self.log))
        self.store = None
        self.log = None

    def set_settings(self, **settings):
        cdef rp_broker_settings changed = self.native_settings
        set_fields(broker_settings_rows, &changed, settings, [])
        self.enter()
        self.native_settings = changed
        with nogil:
            rp_broker_set_settings(self.native, &self.native_settings)
        self.leave()

    def renew_lease(self, int64_t until_ms):
        self.enter()
        rp_broker_renew_lease(self.native, until_ms)
        self.leave()

    def dismiss_pulls(self):
        self.enter()
        with nogil:
            rp_broker_dismiss_pulls(self.native)
        self.leave()

    def settings(self):
        return read_fields(broker_settings_rows, &self.native_settings)

    def put_topic(
        self,
        str topic not None,
        int32_t read_queues,
        int32_t write_queues,
        int32_t permission,
        *,
        int32_t sys_flag=0,
        bint native_send=True,
        bint native_pull=True,
        bint order=False,
        bint multi_tag=False,
        bint checked_send=False,
        bint static=False,
        bint lite=False,
        bint batch=False,
        bint compacted=False,
        bint priority=False,
        bint retry_send=False,
        bint checked_back=False,
    ):
        cdef rp_slice name = slice_of_text(topic)
        cdef uint32_t flags = 0
        cdef int32_t queues = read_queues if read_queues > write_queues else write_queues
        cdef int status = 0
        cdef rp_error error
        flags |= RP_TOPIC_NATIVE_SEND if native_send else 0
        flags |= RP_TOPIC_NATIVE_PULL if native_pull else 0
        flags |= RP_TOPIC_ORDER if order else 0
        flags |= RP_TOPIC_MULTI_TAG if multi_tag else 0
        flags |= RP_TOPIC_CHECKED_SEND if checked_send else 0
        flags |= RP_TOPIC_STATIC if static else 0
        flags |= RP_TOPIC_LITE if lite else 0
        flags |= RP_TOPIC_BATCH if batch else 0
        flags |= RP_TOPIC_COMPACTED if compacted else 0
        flags |= RP_TOPIC_PRIORITY if priority else 0
        flags |= RP_TOPIC_RETRY_SEND if retry_send else 0
        flags |= RP_TOPIC_CHECKED_BACK if checked_back else 0
        self.enter()
        with nogil:
            error.status = 0
            if flags & RP_TOPIC_COMPACTED:
                status = rp_broker_compact_topic(self.native, name, queues, &error)
            if status == 0:
                status = rp_broker_put_topic(self.native, name, read_queues, write_queues, permission, sys_flag, flags)
        self.leave()
        check(status, &error if error.status == status else NULL)

    def put_queue_mapping(
        self, str topic not None, int32_t global_id, int32_t queue_id, int64_t logic_offset, int64_t start_offset, bint earliest
    ):
        cdef rp_slice name = slice_of_text(topic)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_put_queue_mapping(self.native, name, global_id, queue_id, logic_offset, start_offset, earliest)
        self.leave()
        check(status, NULL)

    def mark_mapped_sends(self):
        self.enter()
        rp_broker_mark_mapped_sends(self.native)
        self.leave()

    def mapped_sends_are_over(self):
        cdef int are_over
        self.enter()
        are_over = rp_broker_mapped_sends_are_over(self.native)
        self.leave()
        return are_over != 0

    def delete_topic(self, str topic not None):
        cdef rp_slice name = slice_of_text(topic)
        self.enter()
        with nogil:
            rp_broker_delete_topic(self.native, name)
        self.leave()

    def put_producer(self, str client_id not None, uint32_t listener, uint64_t connection_id):
        cdef rp_slice name = slice_of_text(client_id)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_put_producer(self.native, name, listener, connection_id)
        self.leave()
        check(status, NULL)

    def delete_producer(self, str client_id not None):
        cdef rp_slice name = slice_of_text(client_id)
        self.enter()
        with nogil:
            rp_broker_delete_producer(self.native, name)
        self.leave()

    def start_delivery(self):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_broker_start_delivery(self.native, &error)
        self.leave()
        check(status, &error)

    def stop_delivery(self):
        self.enter()
        with nogil:
            rp_broker_stop_delivery(self.native)
        self.leave()

    def put_delay_offset(self, int32_t level, int64_t offset):
        self.enter()
        cdef int status = rp_broker_put_delay_offset(self.native, level, offset)
        self.leave()
        check(status, NULL)

    def delay_offsets(self):
        cdef list offsets = []
        cdef int64_t offset, max_offset
        cdef int32_t level = 1
        self.enter()
        while rp_broker_read_delay_offset(self.native, level, &offset, &max_offset) == 0:
            offsets.append((offset, max_offset))
            level += 1
        self.leave()
        return offsets

    def send_back(
        self,
        int64_t log_offset,
        str group not None,
        str retry_topic not None,
        int32_t retry_queue_id,
        str dead_letter_topic not None,
        int32_t dead_letter_queue_id,
        *,
        int32_t delay_level,
        int32_t reconsume_times_max,
        str unique_key not None="",
    ):
        cdef rp_send_back request
        cdef int status
        request.log_offset = log_offset
        request.group = slice_of_text(group)
        request.unique_key = slice_of_text(unique_key)
        request.retry_topic = slice_of_text(retry_topic)
        request.retry_queue_id = retry_queue_id
        request.dead_letter_topic = slice_of_text(dead_letter_topic)
        request.dead_letter_queue_id = dead_letter_queue_id
        request.delay_level = delay_level
        request.reconsume_times_max = reconsume_times_max
        self.enter()
        with nogil:
            status = rp_broker_send_back(self.native, &request)
        self.leave()
        check(status, NULL)
        return status == RP_SENT_BACK_TO_DEAD_LETTERS

    def end_transaction(self, str producer_group not None, int64_t queue_offset, int64_t log_offset, int32_t decision, bint is_from_check):
        cdef rp_end_transaction request
        cdef const char *remark
        cdef int32_t code
        request.producer_group = slice_of_text(producer_group)
        request.queue_offset = queue_offset
        request.log_offset = log_offset
        request.decision = decision
        request.is_from_check = is_from_check
        self.enter()
        with nogil:
            code = rp_broker_end_transaction(self.native, &request, &remark)
        self.leave()
        return code, None if remark == NULL else (<bytes>remark).decode()

    def undecided_halves(self, int64_t half_position, int64_t op_position, uint32_t count_max):
        cdef rp_undecided_half *rows = <rp_undecided_half *>malloc(count_max * sizeof(rp_undecided_half))
        cdef int64_t count, i, scanned_to
        if rows == NULL:
            raise MemoryError
        try:
            self.enter()
            with nogil:
                count = rp_broker_undecided_halves(self.native, half_position, op_position, rows, count_max, &scanned_to)
            self.leave()
            check(<int>min(count, 0), NULL)
            halves = [
                UndecidedHalf(
                    rows[i].queue_offset,
                    rows[i].log_offset,
                    rows[i].born_ms,
                    None if rows[i].immune_s == RP_HALF_NOT_IMMUNE else rows[i].immune_s,
                    rows[i].check_times,
                )
                for i in range(count)
            ]
        finally:
            free(rows)
        return halves, scanned_to

    def half_counts(self, int64_t half_position, int64_t op_position):
        cdef export_buffer buffer
        cdef int status
        empty_buffer(&buffer, 1, 1)
        self.enter()
        with nogil:
            status = rp_broker_each_half_count(self.native, half_position, op_position, export_half_count, &buffer)
        self.leave()
        rows = imported_rows(&buffer)
        check(status, NULL)
        return rows

    def needed_operation(self, int64_t op_position, int64_t half_position, const int64_t[::1] copied not None):
        cdef int64_t position
        cdef size_t count = copied.shape[0]
        cdef const int64_t *first = &copied[0] if count != 0 else NULL
        self.enter()
        with nogil:
            position = rp_broker_needed_operation(self.native, op_position, half_position, first, count)
        self.leave()
        check(<int>min(position, 0), NULL)
        return position

    def put_half_again(self, int64_t log_offset, int fate, int32_t check_times=0):
        cdef rp_half_copy copy
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_put_half_again(self.native, log_offset, fate, check_times, &copy)
        self.leave()
        try:
            check(status, NULL)
            question = b"" if copy.question == NULL else copy.question[: copy.question_size]
            return HalfCopy(copy.queue_offset, copy.log_offset, copy.first_offset, question)
        finally:
            free(copy.question)

    def put_group(
        self,
        str group not None,
        *,
        bint consume_enable=True,
        bint consume_broadcast_enable=True,
        int64_t broker_id=0,
        int64_t which_broker_when_slow=1,
        int32_t sys_flag=0,
        int32_t priority_percent=100,
        int32_t retry_queues=1,
        int32_t retry_times_max=16,
    ):
        cdef rp_slice name = slice_of_text(group)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_set_priority_percent(self.native, name, priority_percent)
            if status == 0:
                status = rp_broker_set_retries(self.native, name, retry_queues, retry_times_max)
            if status == 0:
                status = rp_broker_put_group(
                    self.native, name, consume_enable, consume_broadcast_enable, broker_id, which_broker_when_slow, sys_flag
                )
        self.leave()
        check(status, NULL)

    def set_locked(self, str group not None, bint is_locked):
        cdef rp_slice name = slice_of_text(group)
        self.enter()
        with nogil:
            rp_broker_set_locked(self.native, name, is_locked)
        self.leave()

    def delete_group(self, str group not None):
        cdef rp_slice name = slice_of_text(group)
        self.enter()
        with nogil:
            rp_broker_delete_group(self.native, name)
        self.leave()

    def set_cold_limit(self, str group not None, int64_t bytes):
        cdef rp_slice name = slice_of_text(group)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_set_cold_limit(self.native, name, bytes)
        self.leave()
        check(status, NULL)

    def cold_use(self, str group not None):
        cdef rp_slice name = slice_of_text(group)
        cdef int64_t bytes, first_ms, last_ms
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_read_cold_use(self.native, name, &bytes, &first_ms, &last_ms)
        self.leave()
        return (bytes, first_ms, last_ms) if status == 0 else None

    def put_subscription(
        self, str group not None, str topic not None, tag_codes, int64_t version, *, bint broadcast=False, bint native=True
    ):
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        cdef list codes = list(tag_codes)
        cdef uint32_t count = 0
        cdef int32_t *native_codes
        cdef int status
        if len(codes) > RP_SUBSCRIPTION_CODES_MAX:
            raise InvalidArgument(f"{len(codes)} tag codes; a subscription holds at most {RP_SUBSCRIPTION_CODES_MAX}")
        native_codes = <int32_t *>malloc((len(codes) + 1) * sizeof(int32_t))
        if native_codes == NULL:
            raise NoMemory("no memory for tag codes")
        try:
            for code in codes:
                native_codes[count] = code
                count += 1
            self.enter()
            with nogil:
                status = rp_broker_put_subscription(
                    self.native, group_name, topic_name, native_codes, count, version, broadcast, native
                )
            self.leave()
            check(status, NULL)
        finally:
            free(native_codes)

    def put_sql_subscription(
        self, str group not None, str topic not None, str expression not None, int64_t version, *, bint broadcast=False
    ):
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        cdef rp_slice text = slice_of_text(expression)
        cdef uint32_t end = 0
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_broker_put_sql_subscription(self.native, group_name, topic_name, text, version, broadcast, &end, &error)
        self.leave()
        check(status, &error)
        return unread_of(expression, end)

    def delete_subscription(self, str group not None, str topic not None):
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        self.enter()
        with nogil:
            rp_broker_delete_subscription(self.native, group_name, topic_name)
        self.leave()

    def put_offset(self, str group not None, str topic not None, int32_t queue_id, int64_t offset):
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_put_offset(self.native, group_name, topic_name, queue_id, offset)
        self.leave()
        check(status, NULL)

    def read_offset(self, str group not None, str topic not None, int32_t queue_id):
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        cdef int64_t offset
        self.enter()
        with nogil:
            offset = rp_broker_read_offset(self.native, group_name, topic_name, queue_id)
        self.leave()
        return offset

    def read_pull_offset(self, str group not None, str topic not None, int32_t queue_id):
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        cdef int64_t offset
        self.enter()
        with nogil:
            offset = rp_broker_read_pull_offset(self.native, group_name, topic_name, queue_id)
        self.leave()
        return offset

    def reset_offset(self, str group not None, str topic not None, int32_t queue_id, int64_t offset):
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_reset_offset(self.native, group_name, topic_name, queue_id, offset)
        self.leave()
        check(status, NULL)

    def delete_offsets(self, str group=None, str topic=None):
        if group is None and topic is None:
            raise InvalidArgument("neither a group nor a topic: all offsets would go")
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        self.enter()
        with nogil:
            rp_broker_delete_offsets(self.native, group_name, topic_name)
        self.leave()

    def offsets(self, str group=None, str topic=None):
        return list(self.copy_offsets(group, topic))

    def copy_offsets(self, str group=None, str topic=None):
        cdef export_buffer buffer
        cdef rp_slice group_name = slice_of_text(group)
        cdef rp_slice topic_name = slice_of_text(topic)
        empty_buffer(&buffer, 2, 2)
        self.enter()
        with nogil:
            rp_broker_each_offset(self.native, group_name, topic_name, export_offset, &buffer)
        self.leave()
        return exported_rows(&buffer)

    def stalled_queues(self, int64_t idle_ms):
        cdef export_buffer buffer
        empty_buffer(&buffer, 2, 3)
        self.enter()
        with nogil:
            rp_broker_each_stalled(self.native, idle_ms, export_stalled, &buffer)
        self.leave()
        return imported_rows(&buffer)

    @property
    def offset_version(self):
        cdef uint64_t version
        self.enter()
        version = rp_broker_offset_version(self.native)
        self.leave()
        return version
