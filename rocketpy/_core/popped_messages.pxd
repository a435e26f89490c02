# popped_messages.pxd: csrc/broker/pop.h declared for Cython.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rocketpy._core.base cimport rp_error, rp_slice
from rocketpy._core.remoting cimport Handler


cdef extern from "broker/broker.h" nogil:
    ctypedef struct rp_broker:
        pass


cdef extern from "broker/pop.h" nogil:
    ctypedef struct rp_pop_order_row:
        rp_slice group, topic, attempt_id
        int32_t queue_id
        uint32_t count
        int64_t pop_time_ms, invisible_ms, last_consume_ms
        uint64_t acked
        const int64_t *offsets
        const int64_t *visible_ms
        const int32_t *times
    ctypedef struct rp_pop_stats:
        pass
    int rp_broker_start_revive(rp_broker *broker, rp_error *error)
    void rp_broker_stop_revive(rp_broker *broker)
    uint32_t rp_broker_wanted_retry_topic(rp_broker *broker, uint8_t *name, int32_t *queues)
    ctypedef struct rp_foreign_wanted:
        uint64_t id
        int64_t offset
        int32_t queue_id
        uint32_t broker_name_size, topic_size
        uint8_t broker_name[255]
        uint8_t topic[255]
    int rp_broker_take_foreign(rp_broker *broker, rp_foreign_wanted *wanted)
    int rp_broker_put_foreign(rp_broker *broker, uint64_t id, int status, rp_slice record)
    void rp_broker_each_pop_order(rp_broker *broker, int (*visit)(void *context, const rp_pop_order_row *row) noexcept nogil,
                                  void *context)
    int rp_broker_put_pop_order(rp_broker *broker, const rp_pop_order_row *row)
    uint64_t rp_broker_pop_order_version(const rp_broker *broker)
    void rp_broker_read_pop_stats(const rp_broker *broker, rp_pop_stats *stats)


cdef class PoppedMessages(Handler):
    cdef rp_broker *native
