# lite_topics.pxd: csrc/broker/lite.h declared for Cython.
from libc.stdint cimport int32_t, int64_t

from rocketpy._core.base cimport rp_slice
from rocketpy._core.escaping_messages cimport EscapingMessages
from rocketpy._core.timed_messages cimport rp_broker


cdef extern from "broker/lite.h" nogil:
    ctypedef struct rp_lite_stats:
        pass
    int rp_broker_put_lite_group(rp_broker *broker, rp_slice group, rp_slice topic, int32_t is_wildcard)
    int rp_broker_put_lite_reader(rp_broker *broker, rp_slice group, rp_slice client, rp_slice queue)
    void rp_broker_delete_lite_reader(rp_broker *broker, rp_slice group, rp_slice client, rp_slice queue)
    void rp_broker_delete_lite_readers(rp_broker *broker, rp_slice group, rp_slice client)
    int rp_broker_put_lite_wildcard(rp_broker *broker, rp_slice group, rp_slice topic)
    int rp_broker_lite_wildcard_has_missed(rp_broker *broker, rp_slice group)
    void rp_broker_forget_lite_queue(rp_broker *broker, rp_slice queue)
    void rp_broker_look_at_lite_queues(rp_broker *broker, rp_slice group, rp_slice client)
    void rp_broker_read_lite_stats(rp_broker *broker, rp_lite_stats *stats)
    int64_t rp_broker_lite_last_pop_ms(rp_broker *broker, rp_slice group, rp_slice client)


cdef class LiteTopics(EscapingMessages):
    pass
