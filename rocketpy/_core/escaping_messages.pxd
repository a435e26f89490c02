# escaping_messages.pxd: csrc/broker/escaping_messages.h declared for Cython.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from rocketpy._core.timed_messages cimport TimedMessages, rp_broker


cdef extern from "broker/escaping_messages.h" nogil:
    ctypedef struct rp_escaping_message:
        uint64_t id
        uint8_t *record
        uint32_t size
    void rp_broker_open_escape(rp_broker *broker)
    void rp_broker_refuse_escape(rp_broker *broker)
    void rp_broker_shut_escape(rp_broker *broker)
    int rp_broker_escape_fd(const rp_broker *broker)
    int rp_broker_take_escaping(rp_broker *broker, rp_escaping_message *message)
    void rp_broker_settle_escaping(rp_broker *broker, uint64_t id, int status)


cdef class EscapingMessages(TimedMessages):
    pass
