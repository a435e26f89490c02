# store.pxd: csrc/store declared for Cython, and the wrapper class that the broker builds on.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rocketpy._core.base cimport NativeObject, rp_error, rp_log, rp_slice


cdef extern from "store/message.h" nogil:
    enum: RP_RECORD_MESSAGE
    enum: RP_SYSFLAG_BORN_V6
    ctypedef struct rp_message:
        uint32_t size, magic, body_crc
        int32_t queue_id, flag, sys_flag, reconsume_times
        int64_t queue_offset, physical_offset, born_timestamp_ms, store_timestamp_ms, prepared_transaction_offset
        rp_slice born_host, store_host, body, topic, properties
    int rp_message_decode(const uint8_t *data, uint64_t size, int check_crc, rp_message *message, rp_error *error)
    int64_t rp_message_tags_code(rp_slice properties)

cdef extern from "store/consume_queue.h" nogil:
    ctypedef struct rp_consume_queue:
        pass
    ctypedef struct rp_queue_entry:
        int64_t commit_log_offset
        int32_t size
        int64_t queue_offset, tags_code
    rp_slice rp_consume_queue_topic(const rp_consume_queue *queue)
    int32_t rp_consume_queue_id(const rp_consume_queue *queue)
    int rp_consume_queue_is_batch(const rp_consume_queue *queue)
    int64_t rp_consume_queue_min_offset(const rp_consume_queue *queue)
    int64_t rp_consume_queue_max_offset(const rp_consume_queue *queue)
    int64_t rp_consume_queue_next_offset(const rp_consume_queue *queue)
    int64_t rp_consume_queue_read(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entries, uint32_t entries_max)
    int64_t rp_consume_queue_earliest_time(rp_consume_queue *queue)
    int64_t rp_consume_queue_time_at(rp_consume_queue *queue, int64_t offset)

cdef extern from "store/commit_log.h" nogil:
    ctypedef struct rp_commit_log:
        pass
    ctypedef struct rp_append_item:
        rp_consume_queue *queue
        int32_t flag, sys_flag
        int64_t born_timestamp_ms
        uint8_t *born_host
        int32_t reconsume_times, inner_messages
        int64_t prepared_transaction_offset, tags_code
        rp_slice body
        rp_slice *properties
        int32_t status
        uint32_t size
        int64_t commit_log_offset, queue_offset, store_timestamp_ms
    ctypedef struct rp_log_range:
        const uint8_t *address
        uint32_t size
        void *pin
    int64_t rp_commit_log_append(rp_commit_log *log, rp_append_item *items, uint32_t item_count)
    int64_t rp_commit_log_max_offset(const rp_commit_log *log)
    int rp_commit_log_read(rp_commit_log *log, int64_t offset, uint32_t size, rp_log_range *range)
    int rp_commit_log_in_memory(rp_commit_log *log, int64_t begin, int64_t end)
    void rp_log_range_release(void *pin)

cdef extern from "store/flush_backend.h" nogil:
    enum: RP_FLUSH_BACKEND_IO_URING
    ctypedef struct rp_sync_times:
        int64_t syscall_ns
        int64_t io_uring_ns
        int32_t taken
        const char refusal[]
    int rp_flush_backend_measure(const char *directory, const char *liburing_path, rp_sync_times *times, rp_error *error)

cdef extern from "store/flush_timing.h" nogil:
    ctypedef struct rp_flush_timing:
        uint32_t interval_ms
        uint32_t least_pages
        uint32_t thorough_interval_ms
        uint32_t queue_interval_ms

cdef extern from "store/message_store.h" nogil:
    ctypedef struct rp_message_store:
        pass
    ctypedef struct rp_message_store_options:
        const char *root_path
        rp_log *log
    ctypedef struct rp_compaction_stats:
        pass
    ctypedef struct rp_message_store_stats:
        pass
    void rp_message_store_options_default(rp_message_store_options *options)
    int rp_message_store_open(const rp_message_store_options *options, rp_message_store **store, rp_error *error)
    int rp_message_store_close(rp_message_store *store, rp_error *error)
    rp_commit_log *rp_message_store_commit_log(rp_message_store *store)
    void rp_message_store_set_message_size_max(rp_message_store *store, uint32_t byte_count)
    void rp_message_store_set_append_timing(rp_message_store *store, uint32_t busy_timeout_ms, uint32_t wait_timeout_ms)
    int rp_message_store_set_flush_timing(rp_message_store *store, const rp_flush_timing *timing, rp_error *error)
    rp_consume_queue *rp_message_store_queue(rp_message_store *store, rp_slice topic, int32_t queue_id, int create, rp_error *error)
    int rp_message_store_delete_topic_before(rp_message_store *store, rp_slice topic, int64_t log_offset, rp_error *error)
    void rp_message_store_each_queue(rp_message_store *store, int (*visit)(void *context, rp_consume_queue *queue) noexcept nogil,
                                     void *context)
    ctypedef struct rp_key_query:
        int64_t last_update_time_ms, last_update_offset
        uint32_t found
    rp_key_query rp_message_store_query(rp_message_store *store, rp_slice topic, rp_slice key, int64_t begin_ms, int64_t end_ms,
                                        int64_t *offsets, uint32_t offsets_max)
    int rp_message_store_cut_at_open(rp_message_store *store, int64_t offset, rp_error *error)
    int rp_message_store_expire_file(rp_message_store *store, rp_error *error)
    uint32_t rp_message_store_reclaim(rp_message_store *store)
    int rp_message_store_on_appended(rp_message_store *store, void (*appended)(void *context) noexcept nogil, void *context)
    void rp_message_store_forget_appended(rp_message_store *store, const void *context)
    int rp_message_store_wait_committed(rp_message_store *store, int64_t offset, uint64_t cuts, uint32_t timeout_ms)
    void rp_message_store_read_stats(const rp_message_store *store, rp_message_store_stats *stats)
    void rp_message_store_hold_gaps(rp_message_store *store, int holds)
    int rp_message_store_next_gap(rp_message_store *store, uint32_t *cursor, rp_consume_queue **queue, int64_t *begin, int64_t *end)
    int rp_message_store_fill_gap(rp_message_store *store, rp_slice topic, int32_t queue_id, rp_slice records, int64_t next_offset,
                                  rp_error *error)
    int64_t rp_message_store_offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary)
    int64_t rp_message_store_first_offset(const rp_consume_queue *queue)
    void rp_message_store_read_compaction(const rp_message_store *store, rp_compaction_stats *stats)


cdef class MessageStore(NativeObject):
    cdef rp_message_store *native
    cdef NativeObject log

    cdef rp_consume_queue *find_queue(self, str topic, int32_t queue_id, bint create) except? NULL
    cdef bytes read_range(self, int64_t offset, uint32_t size)
    cdef bint is_in_memory(self, int64_t offset, int64_t size, int64_t log_end) except -1


cdef object message_of(const rp_message *message)
