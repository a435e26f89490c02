# lite_topics.pyx: which clients read which lite topics (csrc/broker/lite.h).

from rocketpy._core.base cimport check, read_fields, rp_field_row, slice_of_text

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "broker/lite.h"
    #define ROW(member) RP_FIELD_ROW(rp_lite_stats, member)
    static const rp_field_row lite_stats_rows[] = {ROW(readers), ROW(subscriptions), ROW(held), RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *lite_stats_rows


cdef class LiteTopics(EscapingMessages):
    def put_lite_group(self, str group not None, str topic not None, bint is_wildcard):
        cdef rp_slice name = slice_of_text(group)
        cdef rp_slice parent = slice_of_text(topic)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_put_lite_group(self.native, name, parent, is_wildcard)
        self.leave()
        check(status, NULL)

    def put_lite_reader(self, str group not None, str client not None, str queue not None):
        cdef rp_slice name = slice_of_text(group)
        cdef rp_slice client_id = slice_of_text(client)
        cdef rp_slice queue_name = slice_of_text(queue)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_put_lite_reader(self.native, name, client_id, queue_name)
        self.leave()
        check(status, NULL)

    def delete_lite_reader(self, str group not None, str client not None, str queue not None):
        cdef rp_slice name = slice_of_text(group)
        cdef rp_slice client_id = slice_of_text(client)
        cdef rp_slice queue_name = slice_of_text(queue)
        self.enter()
        with nogil:
            rp_broker_delete_lite_reader(self.native, name, client_id, queue_name)
        self.leave()

    def delete_lite_readers(self, str group not None, str client not None):
        cdef rp_slice name = slice_of_text(group)
        cdef rp_slice client_id = slice_of_text(client)
        self.enter()
        with nogil:
            rp_broker_delete_lite_readers(self.native, name, client_id)
        self.leave()

    def put_lite_wildcard(self, str group not None, str topic not None):
        cdef rp_slice name = slice_of_text(group)
        cdef rp_slice parent = slice_of_text(topic)
        cdef int status
        self.enter()
        with nogil:
            status = rp_broker_put_lite_wildcard(self.native, name, parent)
        self.leave()
        check(status, NULL)

    def lite_wildcard_has_missed(self, str group not None):
        cdef rp_slice name = slice_of_text(group)
        cdef int missed
        self.enter()
        with nogil:
            missed = rp_broker_lite_wildcard_has_missed(self.native, name)
        self.leave()
        return missed != 0

    def forget_lite_queue(self, str queue not None):
        cdef rp_slice name = slice_of_text(queue)
        self.enter()
        with nogil:
            rp_broker_forget_lite_queue(self.native, name)
        self.leave()

    def look_at_lite_queues(self, str group not None, str client not None):
        cdef rp_slice name = slice_of_text(group)
        cdef rp_slice client_id = slice_of_text(client)
        self.enter()
        with nogil:
            rp_broker_look_at_lite_queues(self.native, name, client_id)
        self.leave()

    def lite_stats(self):
        cdef rp_lite_stats stats
        self.enter()
        with nogil:
            rp_broker_read_lite_stats(self.native, &stats)
        self.leave()
        return read_fields(lite_stats_rows, &stats)

    def lite_last_pop_ms(self, str group not None, str client not None):
        cdef rp_slice name = slice_of_text(group)
        cdef rp_slice client_id = slice_of_text(client)
        cdef int64_t ago_ms
        self.enter()
        with nogil:
            ago_ms = rp_broker_lite_last_pop_ms(self.native, name, client_id)
        self.leave()
        return ago_ms
