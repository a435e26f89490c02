# ha.pxd: csrc/ha declared for Cython.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t

from rocketpy._core.base cimport NativeObject, rp_error, rp_log
from rocketpy._core.broker cimport Broker, rp_broker
from rocketpy._core.store cimport MessageStore, rp_commit_log


cdef extern from "ha/epoch_cache.h" nogil:
    enum: RP_EPOCHS_MAX
    ctypedef struct rp_epoch_cache:
        pass
    ctypedef struct rp_epoch_cache_options:
        const char *path
        rp_log *log
    ctypedef struct rp_epoch_entry:
        int64_t epoch
        int64_t start_offset
        int64_t end_offset
    int rp_epoch_cache_open(const rp_epoch_cache_options *options, rp_epoch_cache **cache, rp_error *error)
    void rp_epoch_cache_close(rp_epoch_cache *cache)
    int rp_epoch_cache_fit(rp_epoch_cache *cache, int64_t begin, int64_t end, rp_error *error)
    int rp_epoch_cache_truncate_prefix(rp_epoch_cache *cache, int64_t offset, rp_error *error)
    uint32_t rp_epoch_cache_read(rp_epoch_cache *cache, rp_epoch_entry *entries, uint32_t entries_max)
    int64_t rp_epoch_cache_last(rp_epoch_cache *cache)

cdef extern from "ha/ha_master.h" nogil:
    enum: RP_HA_SLAVES_MAX
    ctypedef struct rp_ha_master:
        pass
    ctypedef struct rp_ha_master_options:
        rp_commit_log *commit_log
        rp_log *log
        void (*on_acked)(void *context, int64_t acked_offset) noexcept nogil
        void (*on_in_sync)(void *context, int64_t acked_offset) noexcept nogil
        void *context
        rp_epoch_cache *epochs
    ctypedef struct rp_ha_slave_row:
        pass
    ctypedef struct rp_ha_master_stats:
        pass
    void rp_ha_master_options_default(rp_ha_master_options *options)
    int rp_ha_master_open(const rp_ha_master_options *options, rp_ha_master **master, rp_error *error)
    void rp_ha_master_close(rp_ha_master *master)
    uint16_t rp_ha_master_port(const rp_ha_master *master)
    void rp_ha_master_notify(rp_ha_master *master)
    int rp_ha_master_require(rp_ha_master *master, uint32_t slaves_required, uint32_t slaves_min, int64_t fewer_gap_bytes)
    void rp_ha_master_limit_flow(rp_ha_master *master, int64_t bytes_per_second)
    int rp_ha_master_set_pace(rp_ha_master *master, uint32_t transfer_bytes, uint32_t heartbeat_interval_ms,
                              uint32_t housekeeping_interval_ms, rp_error *error)
    uint32_t rp_ha_master_read_slaves(rp_ha_master *master, rp_ha_slave_row *rows, uint32_t rows_max)
    void rp_ha_master_read_stats(rp_ha_master *master, rp_ha_master_stats *stats)

cdef extern from "ha/ha_switch.h" nogil:
    enum: RP_SYNC_STATE_SET_MAX
    int rp_ha_master_lead(rp_ha_master *master, int64_t epoch, const int64_t *ids, uint32_t count, rp_error *error)
    void rp_ha_master_step_down(rp_ha_master *master)
    int rp_ha_master_agree(rp_ha_master *master, const int64_t *ids, uint32_t count)
    int rp_ha_master_propose(rp_ha_master *master, const int64_t *ids, uint32_t count)
    uint32_t rp_ha_master_read_set(rp_ha_master *master, int64_t *ids, uint32_t ids_max)
    int64_t rp_ha_master_confirm_offset(rp_ha_master *master)
    int rp_ha_master_set_fd(const rp_ha_master *master)

cdef extern from "ha/ha_slave.h" nogil:
    ctypedef struct rp_ha_slave:
        pass
    ctypedef struct rp_ha_slave_options:
        rp_commit_log *commit_log
        rp_log *log
        rp_epoch_cache *epochs
    ctypedef struct rp_ha_slave_stats:
        pass
    void rp_ha_slave_options_default(rp_ha_slave_options *options)
    int rp_ha_slave_open(const rp_ha_slave_options *options, rp_ha_slave **slave, rp_error *error)
    void rp_ha_slave_close(rp_ha_slave *slave)
    int rp_ha_slave_set_master(rp_ha_slave *slave, const char *address)
    void rp_ha_slave_let_go(rp_ha_slave *slave)
    int rp_ha_slave_set_intervals(rp_ha_slave *slave, uint32_t report_interval_ms, uint32_t housekeeping_interval_ms)
    int rp_ha_slave_transfer_fd(const rp_ha_slave *slave)
    void rp_ha_slave_read_stats(rp_ha_slave *slave, rp_ha_slave_stats *stats)


cdef class EpochCache(NativeObject):
    cdef rp_epoch_cache *native
    cdef NativeObject log


cdef class HaMaster(NativeObject):
    cdef rp_ha_master *native
    cdef EpochCache epochs
    cdef int change_set(self, object broker_ids, bint agrees) except -1
    cdef MessageStore store
    cdef Broker broker
    cdef NativeObject log


cdef class HaSlave(NativeObject):
    cdef rp_ha_slave *native
    cdef EpochCache epochs
    cdef MessageStore store
    cdef NativeObject log
