# timed_messages.pxd: csrc/broker/timed_messages.h declared for Cython.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rocketpy._core.base cimport rp_error, rp_slice
from rocketpy._core.popped_messages cimport PoppedMessages, rp_broker

cdef extern from "broker/timed_messages.h" nogil:
    enum: RP_TIMER_CHECKPOINT_BYTES
    ctypedef struct rp_timer_options:
        const char *root_path
    ctypedef struct rp_timer_stats:
        pass
    ctypedef struct rp_timer_count:
        rp_slice topic
        int64_t count, changed_ms
    ctypedef struct rp_recall:
        rp_slice topic, unique_key, producer_group, born_host
        int64_t deliver_ms
        int32_t names_topic
    void rp_timer_options_default(rp_timer_options *options)
    int rp_broker_start_timers(rp_broker *broker, const rp_timer_options *options, rp_error *error)
    int rp_broker_stop_timers(rp_broker *broker, rp_error *error)
    void rp_broker_read_timer_stats(const rp_broker *broker, rp_timer_stats *stats)
    int rp_broker_read_timer_checkpoint(const rp_broker *broker, uint8_t *checkpoint)
    enum: RP_TIMERS_ASIDE_MAX
    int rp_broker_set_timers_passed_on(rp_broker *broker, int64_t until_ms, int64_t queue_offset, const int64_t *but, uint32_t count)
    uint32_t rp_broker_read_timers_aside(const rp_broker *broker, int64_t *read_ms, int64_t *offsets)
    int rp_broker_follow_timer_checkpoint(rp_broker *broker, const uint8_t *checkpoint, uint32_t size)
    void rp_broker_each_timer_count(rp_broker *broker, int (*visit)(void *context, const rp_timer_count *count) noexcept nogil,
                                    void *context)
    uint64_t rp_broker_timer_count_version(const rp_broker *broker)
    int64_t rp_broker_timers_between(const rp_broker *broker, int64_t begin_s, int64_t end_s)
    int rp_broker_put_recall(rp_broker *broker, const rp_recall *recall, int64_t *end)

cdef extern from "broker/broker.h" nogil:
    enum: RP_DELAY_ASIDE_MAX
    int rp_broker_put_delay_aside(rp_broker *broker, int32_t level, int64_t reached, const int64_t *offsets, uint32_t count)
    uint32_t rp_broker_read_delay_aside(const rp_broker *broker, int32_t level, int64_t *reached, int64_t *offsets)


cdef class TimedMessages(PoppedMessages):
    """A base of Broker, which opens and closes the native object."""
