# popped_messages.pyx: pop consumption (csrc/broker/pop.h).

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from rocketpy._core.base cimport check, read_fields, rp_field_row, slice_of_text, text_of_slice
from rocketpy._core.errors import InvalidArgument, NoMemory, NotFound
from rocketpy._core.results import ForeignMessage, PopOrder

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "broker/pop.h"
    #define ROW(member) RP_FIELD_ROW(rp_pop_stats, member)
    static const rp_field_row pop_stats_rows[] = {
        ROW(pops), ROW(pops_found), ROW(pops_punted), ROW(acks), ROW(acks_failed), ROW(waiting_now), ROW(checkpoints_kept),
        ROW(checkpoints_done), ROW(revived), ROW(put_again), ROW(dropped), ROW(append_failures), ROW(oldest_due_ms), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *pop_stats_rows

cdef enum:
    POP_MESSAGES_MAX = 32
    POP_NAMES_BYTES_MAX = 1024  # of a group, a topic and an attempt id together

ctypedef struct exported_order:
    uint32_t sizes[3]
    int32_t has_attempt_id
    rp_pop_order_row row
    int64_t offsets[POP_MESSAGES_MAX]
    int64_t visible_ms[POP_MESSAGES_MAX]
    int32_t times[POP_MESSAGES_MAX]
    uint8_t names[POP_NAMES_BYTES_MAX]

cdef struct order_buffer:
    exported_order *rows
    size_t count
    size_t room
    bint out_of_memory


cdef int export_order(void *context, const rp_pop_order_row *row) noexcept nogil:
    cdef order_buffer *buffer = <order_buffer *>context
    cdef exported_order *target
    cdef rp_slice names[3]
    cdef size_t room, at = 0
    cdef int i
    if buffer.count == buffer.room:
        room = buffer.room * 2 if buffer.room > 0 else 16
        target = <exported_order *>realloc(buffer.rows, room * sizeof(exported_order))
        if target == NULL:
            buffer.out_of_memory = True
            return 1
        buffer.rows = target
        buffer.room = room
    target = &buffer.rows[buffer.count]
    names[0] = row.group
    names[1] = row.topic
    names[2] = row.attempt_id
    for i in range(3):
        target.sizes[i] = names[i].size
        if at + names[i].size > POP_NAMES_BYTES_MAX:
            return 0  # no group or topic has such a name
        if names[i].size > 0:
            memcpy(target.names + at, names[i].data, names[i].size)
        at += names[i].size
    target.has_attempt_id = row.attempt_id.data != NULL
    target.row = row[0]
    memcpy(target.offsets, row.offsets, row.count * sizeof(int64_t))
    memcpy(target.visible_ms, row.visible_ms, row.count * sizeof(int64_t))
    memcpy(target.times, row.times, row.count * sizeof(int32_t))
    buffer.count += 1
    return 0


cdef object imported_order(const exported_order *row):
    cdef rp_slice name
    cdef list names = []
    cdef size_t at = 0
    cdef int i
    for i in range(3):
        name.data = row.names + at
        name.size = row.sizes[i]
        at += name.size
        names.append(text_of_slice(name))
    messages = tuple([(row.offsets[i], row.visible_ms[i], row.times[i]) for i in range(<int>row.row.count)])
    attempt_id = names[2] if row.has_attempt_id else None
    return PopOrder(names[0], names[1], row.row.queue_id, row.row.pop_time_ms, row.row.invisible_ms, row.row.last_consume_ms,
                    row.row.acked, attempt_id, messages)


cdef list imported_orders(order_buffer *buffer):
    """Returns the rows, and frees them."""
    cdef list orders = []
    cdef size_t i
    try:
        if buffer.out_of_memory:
            raise NoMemory("no memory to export what order consumers have")
        for i in range(buffer.count):
            orders.append(imported_order(&buffer.rows[i]))
    finally:
        free(buffer.rows)
    return orders


cdef class PoppedMessages(Handler):
    def start_revive(self):
        cdef rp_error error
        cdef int status
        error.status = 0
        self.enter()
        with nogil:
            status = rp_broker_start_revive(self.native, &error)
        self.leave()
        check(status, &error)

    def stop_revive(self):
        self.enter()
        with nogil:
            rp_broker_stop_revive(self.native)
        self.leave()

    def wanted_retry_topic(self):
        cdef uint8_t name[256]
        cdef int32_t queues = 0
        cdef rp_slice text
        text.data = name
        self.enter()
        with nogil:
            text.size = rp_broker_wanted_retry_topic(self.native, name, &queues)
        self.leave()
        return (text_of_slice(text), queues) if text.size > 0 else None

    def take_foreign(self):
        cdef rp_foreign_wanted wanted
        cdef rp_slice broker_name, topic
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_take_foreign(self.native, &wanted)
        self.leave()
        if status == NotFound.status:
            return None
        broker_name.data, broker_name.size = wanted.broker_name, wanted.broker_name_size
        topic.data, topic.size = wanted.topic, wanted.topic_size
        return ForeignMessage(
            wanted.id, text_of_slice(broker_name), text_of_slice(topic), wanted.queue_id, wanted.offset
        )

    def put_foreign(self, uint64_t id, int status, bytes record not None):
        cdef rp_slice text
        text.data, text.size = <const uint8_t *><char *>record, <uint32_t>len(record)
        self.enter()
        with nogil:
            status = rp_broker_put_foreign(self.native, id, status, text)
        self.leave()
        check(status, NULL)

    def pop_orders(self):
        cdef order_buffer buffer
        memset(&buffer, 0, sizeof(buffer))
        self.enter()
        with nogil:
            rp_broker_each_pop_order(self.native, export_order, &buffer)
        self.leave()
        return imported_orders(&buffer)

    def put_pop_order(self, order not None):
        cdef rp_pop_order_row row
        cdef int64_t offsets[POP_MESSAGES_MAX]
        cdef int64_t visible_ms[POP_MESSAGES_MAX]
        cdef int32_t times[POP_MESSAGES_MAX]
        cdef int status
        if not 1 <= len(order.messages) <= POP_MESSAGES_MAX:
            raise InvalidArgument(f"an order consumer has 1 to {POP_MESSAGES_MAX} messages of a queue, not {len(order.messages)}")
        for i, (offset, visible, count) in enumerate(order.messages):
            offsets[i] = offset
            visible_ms[i] = visible
            times[i] = count
        row.group = slice_of_text(order.group)
        row.topic = slice_of_text(order.topic)
        row.attempt_id.data = NULL
        row.attempt_id.size = 0
        if order.attempt_id is not None:
            row.attempt_id = slice_of_text(order.attempt_id)
        row.queue_id = order.queue_id
        row.count = <uint32_t>len(order.messages)
        row.pop_time_ms = order.pop_time_ms
        row.invisible_ms = order.invisible_ms
        row.last_consume_ms = order.last_consume_ms
        row.acked = order.acked
        row.offsets = offsets
        row.visible_ms = visible_ms
        row.times = times
        self.enter()
        with nogil:
            status = rp_broker_put_pop_order(self.native, &row)
        self.leave()
        check(status, NULL)

    def pop_order_version(self):
        self.enter()
        version = rp_broker_pop_order_version(self.native)
        self.leave()
        return version

    def pop_stats(self):
        cdef rp_pop_stats stats
        self.enter()
        with nogil:
            rp_broker_read_pop_stats(self.native, &stats)
        self.leave()
        return read_fields(pop_stats_rows, &stats)
