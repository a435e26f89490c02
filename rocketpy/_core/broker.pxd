# broker.pxd: csrc/broker declared for Cython.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rocketpy._core.base cimport NativeObject, rp_error, rp_log, rp_slice
from rocketpy._core.broker_counters cimport BrokerCounters
from rocketpy._core.remoting cimport Server, rp_command, rp_handler, rp_server
from rocketpy._core.store cimport MessageStore, rp_message_store
from rocketpy._core.timed_messages cimport rp_broker


cdef extern from "broker/broker.h" nogil:
    enum: RP_TOPIC_NATIVE_SEND
    enum: RP_TOPIC_NATIVE_PULL
    enum: RP_TOPIC_ORDER
    enum: RP_TOPIC_MULTI_TAG
    enum: RP_TOPIC_CHECKED_SEND
    enum: RP_TOPIC_STATIC
    enum: RP_TOPIC_LITE
    enum: RP_TOPIC_BATCH
    enum: RP_TOPIC_COMPACTED
    enum: RP_TOPIC_PRIORITY
    enum: RP_TOPIC_RETRY_SEND
    enum: RP_TOPIC_CHECKED_BACK
    enum: RP_SENT_BACK_TO_DEAD_LETTERS
    enum: RP_SUBSCRIPTION_CODES_MAX
    ctypedef struct rp_broker_options:
        rp_message_store *store
        rp_log *log
    ctypedef struct rp_broker_settings:
        pass
    ctypedef struct rp_offset_row:
        rp_slice group, topic
        int32_t queue_id
        int64_t offset
    ctypedef struct rp_stalled_row:
        rp_slice group, topic
        int32_t queue_id
        int64_t messages, idle_ms
    ctypedef struct rp_send_back:
        int64_t log_offset
        rp_slice group, retry_topic, dead_letter_topic
        int32_t retry_queue_id, dead_letter_queue_id
        int32_t delay_level, reconsume_times_max
        rp_slice unique_key
    void rp_broker_options_default(rp_broker_options *options)
    int rp_broker_open(const rp_broker_options *options, rp_broker **broker, rp_error *error)
    const rp_handler *rp_broker_handler(rp_broker *broker)
    int rp_broker_attach(rp_broker *broker, rp_server *server)
    void rp_broker_close(rp_broker *broker)
    void rp_broker_settings_default(rp_broker_settings *settings)
    void rp_broker_set_settings(rp_broker *broker, const rp_broker_settings *settings)
    void rp_broker_dismiss_pulls(rp_broker *broker)
    void rp_broker_renew_lease(rp_broker *broker, int64_t until_ms)
    void rp_broker_set_in_sync(rp_broker *broker, int64_t offset)
    void rp_broker_set_replicated(rp_broker *broker, int64_t offset)
    void rp_broker_set_committed(rp_broker *broker, int64_t offset)
    int rp_broker_put_topic(rp_broker *broker, rp_slice topic, int32_t read_queues, int32_t write_queues, int32_t permission,
                            int32_t sys_flag, uint32_t flags)
    int rp_broker_compact_topic(rp_broker *broker, rp_slice topic, int32_t queues, rp_error *error)
    int rp_broker_put_queue_mapping(rp_broker *broker, rp_slice topic, int32_t global_id, int32_t queue_id, int64_t logic_offset,
                                    int64_t start_offset, int32_t is_earliest)
    void rp_broker_mark_mapped_sends(rp_broker *broker)
    int rp_broker_mapped_sends_are_over(const rp_broker *broker)
    void rp_broker_delete_topic(rp_broker *broker, rp_slice topic)
    int rp_broker_put_producer(rp_broker *broker, rp_slice client_id, uint32_t server, uint64_t connection_id)
    void rp_broker_delete_producer(rp_broker *broker, rp_slice client_id)
    int rp_broker_start_delivery(rp_broker *broker, rp_error *error)
    void rp_broker_stop_delivery(rp_broker *broker)
    int rp_broker_put_delay_offset(rp_broker *broker, int32_t level, int64_t offset)
    int rp_broker_read_delay_offset(const rp_broker *broker, int32_t level, int64_t *offset, int64_t *max_offset)
    int rp_broker_send_back(rp_broker *broker, const rp_send_back *request)
    int rp_broker_put_group(rp_broker *broker, rp_slice group, int32_t consume_enable, int32_t consume_broadcast_enable,
                            int64_t broker_id, int64_t which_broker_when_slow, int32_t sys_flag)
    int rp_broker_set_priority_percent(rp_broker *broker, rp_slice group, int32_t percent)
    int rp_broker_set_retries(rp_broker *broker, rp_slice group, int32_t queues, int32_t times_max)
    void rp_broker_set_locked(rp_broker *broker, rp_slice group, int32_t is_locked)
    void rp_broker_delete_group(rp_broker *broker, rp_slice group)
    int rp_broker_put_subscription(rp_broker *broker, rp_slice group, rp_slice topic, const int32_t *tag_codes, uint32_t code_count,
                                   int64_t version, int32_t broadcast, int32_t native)
    int rp_broker_put_sql_subscription(rp_broker *broker, rp_slice group, rp_slice topic, rp_slice expression, int64_t version,
                                       int32_t broadcast, uint32_t *end, rp_error *error)
    int rp_broker_check_sql(rp_slice expression, uint32_t *end, rp_error *error)
    void rp_broker_delete_subscription(rp_broker *broker, rp_slice group, rp_slice topic)
    int rp_broker_put_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id, int64_t offset)
    int64_t rp_broker_read_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id)
    int64_t rp_broker_read_pull_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id)
    int rp_broker_set_cold_limit(rp_broker *broker, rp_slice group, int64_t bytes)
    int rp_broker_read_cold_use(const rp_broker *broker, rp_slice group, int64_t *bytes, int64_t *first_ms, int64_t *last_ms)
    int rp_broker_reset_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id, int64_t offset)
    void rp_broker_delete_offsets(rp_broker *broker, rp_slice group, rp_slice topic)
    void rp_broker_each_offset(rp_broker *broker, rp_slice group, rp_slice topic,
                               int (*visit)(void *context, const rp_offset_row *row) noexcept nogil, void *context)
    void rp_broker_each_stalled(rp_broker *broker, int64_t idle_ms,
                                int (*visit)(void *context, const rp_stalled_row *row) noexcept nogil, void *context)
    uint64_t rp_broker_offset_version(const rp_broker *broker)


cdef extern from "broker/transactions.h" nogil:
    ctypedef struct rp_end_transaction:
        rp_slice producer_group
        int64_t queue_offset, log_offset
        int32_t decision, is_from_check
    int32_t rp_broker_end_transaction(rp_broker *broker, const rp_end_transaction *request, const char **remark)
    enum: RP_HALF_NOT_IMMUNE
    ctypedef struct rp_undecided_half:
        int64_t queue_offset, log_offset, born_ms, immune_s
        int32_t check_times
    int64_t rp_broker_undecided_halves(rp_broker *broker, int64_t half_position, int64_t op_position, rp_undecided_half *rows,
                                       uint32_t rows_max, int64_t *scanned_to)
    ctypedef struct rp_half_count:
        rp_slice topic
        uint64_t count
    int rp_broker_each_half_count(rp_broker *broker, int64_t half_position, int64_t op_position,
                                  int (*visit)(void *context, const rp_half_count *count) noexcept nogil, void *context)
    int64_t rp_broker_needed_operation(rp_broker *broker, int64_t op_position, int64_t half_position, const int64_t *copied,
                                       size_t copied_count)
    ctypedef struct rp_half_copy:
        int64_t queue_offset, log_offset, first_offset
        uint8_t *question
        uint32_t question_size
    int rp_broker_put_half_again(rp_broker *broker, int64_t log_offset, int fate, int32_t check_times, rp_half_copy *copy)


cdef class Broker(BrokerCounters):
    cdef MessageStore store
    cdef NativeObject log
    cdef rp_broker_settings native_settings
