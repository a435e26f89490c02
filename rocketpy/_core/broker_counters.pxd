# broker_counters.pxd: csrc/broker/broker_stats.h declared for Cython.
from libc.stdint cimport int32_t, uint32_t, uint64_t

from rocketpy._core.base cimport rp_slice
from rocketpy._core.lite_topics cimport LiteTopics
from rocketpy._core.timed_messages cimport rp_broker

cdef extern from "broker/broker_stats.h" nogil:
    enum:
        RP_MESSAGE_TYPES, RP_INTAKE_SIZES, RP_DURATION_CLASSES, RP_ANSWER_CLASSES
    ctypedef struct rp_intake_counts:
        uint64_t bytes
        uint64_t sizes[7]
    ctypedef struct rp_duration_counts:
        uint64_t seconds
        uint64_t classes[7]
    ctypedef struct rp_transaction_ends:
        uint64_t commits, rollbacks
        rp_duration_counts took
    ctypedef struct rp_topic_stats:
        rp_slice topic
        uint64_t messages_in, bytes_in, messages_out, bytes_out
        rp_intake_counts *intake "in"
        rp_transaction_ends ends
        rp_duration_counts delays
        uint64_t timers_out


ctypedef int (*topic_visit)(void *context, const rp_topic_stats *stats) noexcept nogil


cdef extern from "broker/broker_stats.h" nogil:
    ctypedef struct rp_answer_stats:
        int32_t request_code, response_code, has_waited
        uint64_t total_ns
        uint64_t classes[10]
    ctypedef struct rp_group_stats:
        rp_slice group, topic
        uint64_t messages_out, bytes_out, sent_back
    ctypedef struct rp_broker_stats:
        pass
    uint32_t rp_intake_size_max(uint32_t cls)
    int32_t rp_end_seconds_max(uint32_t cls)
    int32_t rp_delay_seconds_max(uint32_t cls)
    int32_t rp_answer_class_ms(uint32_t cls)
    void rp_broker_each_topic_stats(rp_broker *broker, topic_visit visit, void *context)
    void rp_broker_each_answer_stats(rp_broker *broker, int (*visit)(void *context, const rp_answer_stats *stats) noexcept nogil,
                                     void *context)
    void rp_broker_each_group_stats(rp_broker *broker, int (*visit)(void *context, const rp_group_stats *stats) noexcept nogil,
                                    void *context)
    void rp_broker_read_stats(const rp_broker *broker, rp_broker_stats *stats)


cdef class BrokerCounters(LiteTopics):
    """A base of Broker, which opens and closes the native object."""
    cdef list topic_rows(self, topic_visit visit, int numbers)
