# broker_counters.pyx: the broker's statistics (csrc/broker/broker_stats.h).


from rocketpy._core.base cimport read_fields, rp_field_row
from rocketpy._core.exported_rows cimport empty_buffer, export_buffer, export_row, exported_row, imported_rows, no_name

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "broker/broker_stats.h"
    #define ROW(member) RP_FIELD_ROW(rp_broker_stats, member)
    static const rp_field_row broker_stats_rows[] = {
        ROW(sends), ROW(sends_failed), ROW(sends_punted), ROW(pulls), ROW(pulls_found), ROW(pulls_missed), ROW(pulls_punted),
        ROW(pulls_suspended_now), ROW(pulls_woken), ROW(messages_in), ROW(bytes_in), ROW(messages_out), ROW(bytes_out),
        ROW(responses_parked_now), ROW(flush_timeouts), ROW(slave_timeouts), ROW(slaves_missing), ROW(puts_inside),
        ROW(replies), ROW(replies_failed), ROW(replies_pending_now), ROW(put_ns_p50), ROW(put_ns_p99),
        ROW(put_ns_p999), ROW(put_ns_max), ROW(get_ns_max), ROW(put_ms), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *broker_stats_rows


INTAKE_SIZES = tuple(rp_intake_size_max(i) for i in range(RP_INTAKE_SIZES - 1))
ANSWER_CLASSES_MS = tuple(rp_answer_class_ms(i) for i in range(RP_ANSWER_CLASSES - 1))
END_SECONDS = tuple(rp_end_seconds_max(i) for i in range(RP_DURATION_CLASSES - 1))
DELAY_SECONDS = tuple(rp_delay_seconds_max(i) for i in range(RP_DURATION_CLASSES - 1))


cdef int export_topic(void *context, const rp_topic_stats *stats) noexcept nogil:
    cdef exported_row row
    row.numbers[0] = stats.messages_in
    row.numbers[1] = stats.bytes_in
    row.numbers[2] = stats.messages_out
    row.numbers[3] = stats.bytes_out
    return export_row(<export_buffer *>context, stats.topic, no_name(), &row)


cdef int export_intakes(void *context, const rp_topic_stats *stats) noexcept nogil:
    cdef exported_row row
    cdef int kind, i, stopped
    for kind in range(RP_MESSAGE_TYPES):
        if stats.intake[kind].bytes == 0:
            continue
        row.numbers[0] = kind
        row.numbers[1] = stats.intake[kind].bytes
        for i in range(RP_INTAKE_SIZES):
            row.numbers[2 + i] = stats.intake[kind].sizes[i]
        stopped = export_row(<export_buffer *>context, stats.topic, no_name(), &row)
        if stopped:
            return stopped
    return 0


cdef int export_ends(void *context, const rp_topic_stats *stats) noexcept nogil:
    cdef exported_row row
    cdef int i
    if stats.ends.commits == 0 and stats.ends.rollbacks == 0:
        return 0
    row.numbers[0] = stats.ends.commits
    row.numbers[1] = stats.ends.rollbacks
    row.numbers[2] = stats.ends.took.seconds
    for i in range(RP_DURATION_CLASSES):
        row.numbers[3 + i] = stats.ends.took.classes[i]
    return export_row(<export_buffer *>context, stats.topic, no_name(), &row)


cdef int export_delays(void *context, const rp_topic_stats *stats) noexcept nogil:
    cdef exported_row row
    cdef uint64_t count = stats.timers_out
    cdef int i
    row.numbers[0] = stats.timers_out
    row.numbers[1] = stats.delays.seconds
    for i in range(RP_DURATION_CLASSES):
        row.numbers[2 + i] = stats.delays.classes[i]
        count += stats.delays.classes[i]
    return export_row(<export_buffer *>context, stats.topic, no_name(), &row) if count > 0 else 0


cdef int export_answers(void *context, const rp_answer_stats *stats) noexcept nogil:
    cdef exported_row row
    cdef int i
    row.numbers[0] = stats.request_code
    row.numbers[1] = stats.response_code
    row.numbers[2] = stats.has_waited
    row.numbers[3] = stats.total_ns
    for i in range(RP_ANSWER_CLASSES):
        row.numbers[4 + i] = stats.classes[i]
    return export_row(<export_buffer *>context, no_name(), no_name(), &row)


cdef int export_group(void *context, const rp_group_stats *stats) noexcept nogil:
    cdef exported_row row
    row.numbers[0] = stats.messages_out
    row.numbers[1] = stats.bytes_out
    row.numbers[2] = stats.sent_back
    return export_row(<export_buffer *>context, stats.group, stats.topic, &row)


cdef class BrokerCounters(LiteTopics):
    cdef list topic_rows(self, topic_visit visit, int numbers):
        """Returns a visitor's rows of all topics: (name, numbers…)."""
        cdef export_buffer buffer
        empty_buffer(&buffer, 1, numbers)
        self.enter()
        with nogil:
            rp_broker_each_topic_stats(self.native, visit, &buffer)
        self.leave()
        return imported_rows(&buffer)

    def topic_stats(self):
        return self.topic_rows(export_topic, 4)

    def topic_intakes(self):
        return self.topic_rows(export_intakes, 2 + RP_INTAKE_SIZES)

    def transaction_ends(self):
        return self.topic_rows(export_ends, 3 + RP_DURATION_CLASSES)

    def timer_delays(self):
        return self.topic_rows(export_delays, 2 + RP_DURATION_CLASSES)

    def answer_stats(self):
        cdef export_buffer buffer
        empty_buffer(&buffer, 0, 4 + RP_ANSWER_CLASSES)
        self.enter()
        with nogil:
            rp_broker_each_answer_stats(self.native, export_answers, &buffer)
        self.leave()
        return imported_rows(&buffer)

    def group_stats(self):
        cdef export_buffer buffer
        empty_buffer(&buffer, 2, 3)
        self.enter()
        with nogil:
            rp_broker_each_group_stats(self.native, export_group, &buffer)
        self.leave()
        return imported_rows(&buffer)

    def stats(self):
        cdef rp_broker_stats stats
        self.enter()
        with nogil:
            rp_broker_read_stats(self.native, &stats)
        self.leave()
        return read_fields(broker_stats_rows, &stats)
