/* commit_log_ledger.c: see commit_log_ledger.h. A leader's appends are in commit_log_append.c, the way of committed entries into the
 * queues in commit_log_replicated.c, the cut of the log's end in commit_log_cut.c; this file supplies what they need to know of entries. */
#include "commit_log_ledger.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/clock_inl.h"
#include "commit_log_inl.h"
#include "message_encode.h"

#define FIRST_ENTRY_TOPIC "SELF_TEST_TOPIC" /* a system topic of RocketMQ, to which nobody can send */
#define FIRST_ENTRY_BYTES_MAX 256
#define PEEKS_MAX 16

static int unsupported(const rp_commit_log *log, rp_error *error) {
    return rp_error_set(error, RP_E_UNSUPPORTED, 0, log->setup.directory, -1, "the commit log is not DLedger's: it has no entries");
}

int rp_commit_log_has_entries(const rp_commit_log *log) { return log->head_size != 0; }

int64_t rp_commit_log_end_index(const rp_commit_log *log) { return atomic_load_explicit(&log->end_index, memory_order_acquire); }

int64_t rp_commit_log_begin_index(const rp_commit_log *log) { return atomic_load_explicit(&log->begin_index, memory_order_acquire); }

void rp_commit_log_find_begin(rp_commit_log *log) {
    rp_log_range range;
    rp_ledger_entry entry;
    if (rp_commit_log_end_index(log) >= 0 && rp_commit_log_read(log, rp_commit_log_min_offset(log), RP_LEDGER_HEAD_SIZE, &range) == RP_OK) {
        if (rp_ledger_entry_decode(range.address, (uint64_t)log->file_size, &entry) == RP_LEDGER_ENTRY) {
            atomic_store_explicit(&log->begin_index, entry.index, memory_order_release);
        }
        rp_log_range_release(range.pin);
    }
}

void rp_commit_log_read_ends(rp_commit_log *log, rp_ledger_ends *ends) {
    pthread_mutex_lock(&log->append_lock);
    *ends = (rp_ledger_ends){.begin_index = rp_commit_log_begin_index(log),
                             .end_index = rp_commit_log_end_index(log),
                             .end_term = atomic_load_explicit(&log->end_term, memory_order_relaxed),
                             .end_offset = log->position};
    pthread_mutex_unlock(&log->append_lock);
}

void rp_commit_log_peek_ends(const rp_commit_log *log, rp_ledger_ends *ends) {
    /* Reads index and term of one entry; retried a bounded number of times in case appends keep changing them. */
    for (int i = 0; i < PEEKS_MAX; i++) {
        *ends = (rp_ledger_ends){.end_index = rp_commit_log_end_index(log),
                                 .end_term = atomic_load_explicit(&log->end_term, memory_order_acquire),
                                 .begin_index = rp_commit_log_begin_index(log),
                                 .end_offset = rp_commit_log_max_offset(log)};
        if (rp_commit_log_end_index(log) == ends->end_index) {
            break;
        }
    }
}

int rp_commit_log_read_entry(rp_commit_log *log, int64_t index, rp_log_range *range, rp_ledger_entry *entry) {
    rp_ledger_entry unit;
    if (log->head_size == 0) {
        return RP_E_UNSUPPORTED;
    }
    if (index < 0 || index > rp_commit_log_end_index(log)) {
        return RP_E_RANGE;
    }
    int rc = rp_ledger_index_read(log->setup.ledger_index, index, &unit);
    if (rc != RP_OK) {
        return rp_status_is_passing(rc) ? rc : RP_E_RANGE;
    }
    rc = rp_commit_log_read(log, unit.position, unit.size, range);
    if (rc != RP_OK) {
        return rc;
    }
    if (rp_ledger_entry_decode(range->address, range->size, entry) != RP_LEDGER_ENTRY || entry->index != index ||
        entry->position != unit.position || entry->size != unit.size) {
        rp_log_range_release(range->pin);
        return RP_E_CORRUPT;
    }
    return RP_OK;
}

int64_t rp_commit_log_index_below(rp_commit_log *log, int64_t offset) {
    if (log->head_size == 0) {
        return -1;
    }
    int64_t first = rp_commit_log_begin_index(log);
    return first < 0 ? -1 : rp_ledger_index_below(log->setup.ledger_index, first, rp_commit_log_end_index(log), offset);
}

rp_ledger_entry rp_commit_log_next_entry(const rp_commit_log *log, uint32_t record_size) {
    return (rp_ledger_entry){
        .index = log->next_index, .term = log->term, .position = log->position, .size = record_size + RP_LEDGER_HEAD_SIZE};
}

int rp_commit_log_publish_entry(rp_commit_log *log, const rp_ledger_entry *entry) {
    rp_error error;
    int rc = rp_ledger_index_put(log->setup.ledger_index, entry, &error);
    if (__builtin_expect(rc != RP_OK, 0)) {
        rp_commit_log_tell_refused(log, &error);
        return rc;
    }
    if (rp_commit_log_end_index(log) < 0) {
        atomic_store_explicit(&log->begin_index, entry->index, memory_order_release);
    }
    atomic_store_explicit(&log->max_offset, entry->position + entry->size, memory_order_release);
    atomic_store_explicit(&log->end_term, entry->term, memory_order_relaxed);
    atomic_store_explicit(&log->end_index, entry->index, memory_order_release);
    return RP_OK;
}

/* Under the lock: where the next entry of that size begins; in the next file if it does not fit into this one. */
static int64_t next_position(const rp_commit_log *log, uint32_t size) {
    int64_t file_end = log->position - log->position % log->file_size + log->file_size;
    return (int64_t)size + RP_LEDGER_BLANK_SIZE_MIN > file_end - log->position ? file_end : log->position;
}

static int may_write(rp_commit_log *log, rp_error *error) {
    int rc = rp_commit_log_failure(log, error);
    return rc == RP_OK && rp_commit_log_damaged_at(log, error) >= 0 ? RP_E_CORRUPT : rc;
}

typedef struct new_bytes {
    const rp_ledger_entry *entry;
    const uint8_t *record;
    uint8_t *target;
} new_bytes;

static void store_bytes(void *context) {
    const new_bytes *bytes = context;
    memcpy(bytes->target + RP_LEDGER_HEAD_SIZE, bytes->record, bytes->entry->size - RP_LEDGER_HEAD_SIZE);
    rp_ledger_entry_encode(bytes->entry, bytes->target);
}

/* Under the lock: writes the bytes of a whole entry behind the log's end. */
static int put_bytes(rp_commit_log *log, const rp_ledger_entry *entry, const uint8_t *record, rp_error *error) {
    rp_error_set(error, RP_E_IO, 0, log->setup.directory, log->position, "no space for an entry of %u bytes", entry->size);
    int rc = rp_commit_log_clear_behind(log, error);
    rc = rc == RP_OK ? rp_ledger_index_reserve(log->setup.ledger_index, entry->index, error) : rc;
    rc = rc == RP_OK ? rp_commit_log_make_room(log, NULL, entry->size) : rc;
    if (rc != RP_OK) {
        return rc;
    }
    new_bytes bytes = {entry, record, NULL};
    if (rp_commit_log_is_staging(log)) {
        bytes.target = rp_log_staging_take(&log->staging, log->position, entry->size);
        if (bytes.target == NULL) {
            return RP_E_NO_MEMORY;
        }
        store_bytes(&bytes);
        rc = rp_commit_log_write_out(log);
    } else {
        bytes.target = log->active_address + (log->position - log->active->base_offset);
        rc = rp_commit_log_hold(log, entry->size);
        if (rc != RP_OK) {
            return rc;
        }
        rc = rp_commit_log_store(log, entry->size, store_bytes, &bytes);
    }
    rc = rc == RP_OK ? rp_commit_log_publish_entry(log, entry) : rc;
    if (rc != RP_OK) {
        rp_commit_log_tear(log, log->position + entry->size);
    } else {
        log->position += entry->size;
        log->next_index = entry->index + 1;
        atomic_store_explicit(&log->bytes, atomic_load_explicit(&log->bytes, memory_order_relaxed) + entry->size, memory_order_relaxed);
    }
    return rc;
}

static int put_entry(rp_commit_log *log, const rp_ledger_entry *entry, const uint8_t *record, rp_error *error) {
    int rc = put_bytes(log, entry, record, error);
    if (rc != RP_OK) {
        rp_commit_log_take_back_padding(log);
    }
    return rc;
}

/* Under the lock: is this the next entry? An empty log begins where the entry says. */
static int check_next(rp_commit_log *log, const rp_ledger_entry *entry, rp_error *error) {
    int64_t last = rp_commit_log_end_index(log), term = atomic_load_explicit(&log->end_term, memory_order_relaxed);
    if ((int64_t)entry->size + RP_LEDGER_BLANK_SIZE_MIN > log->file_size) {
        return rp_error_set(error, RP_E_RANGE, 0, log->setup.directory, entry->position, "an entry of %u bytes does not fit into a file",
                            entry->size);
    }
    if (entry->index > RP_LEDGER_NUMBER_MAX) {
        return rp_error_set(error, RP_E_RANGE, 0, log->setup.directory, entry->position, "no log has an entry %lld",
                            (long long)entry->index);
    }
    if (last < 0 && log->position == rp_commit_log_min_offset(log) && entry->position != log->position) {
        return rp_commit_log_start_at(log, entry->position, error);
    }
    if ((last >= 0 && entry->index != last + 1) || entry->term < term || entry->position != next_position(log, entry->size)) {
        return rp_error_set(error, RP_E_RANGE, 0, log->setup.directory, entry->position,
                            "entry %lld of term %lld for %lld does not follow entry %lld of term %lld, which ends at %lld: members of a "
                            "group have data files of one size",
                            (long long)entry->index, (long long)entry->term, (long long)entry->position, (long long)last, (long long)term,
                            (long long)log->position);
    }
    return RP_OK;
}

static int check_entry(const uint8_t *bytes, uint32_t size, rp_ledger_entry *entry, rp_error *error) {
    rp_message message;
    if (rp_ledger_entry_decode(bytes, size, entry) != RP_LEDGER_ENTRY || entry->size != size) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1, "%u bytes are not an entry", size);
    }
    int kind = rp_message_decode(bytes + RP_LEDGER_HEAD_SIZE, size - RP_LEDGER_HEAD_SIZE, RP_CHECK_BODY_CRC, &message, error);
    if (kind != RP_RECORD_MESSAGE || message.size != size - RP_LEDGER_HEAD_SIZE ||
        message.physical_offset != entry->position + RP_LEDGER_HEAD_SIZE) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, entry->position, "entry %lld holds no record of its place",
                            (long long)entry->index);
    }
    return RP_OK;
}

int rp_commit_log_append_entry(rp_commit_log *log, const uint8_t *bytes, uint32_t size, rp_error *error) {
    rp_ledger_entry entry;
    rp_error local;
    error = error == NULL ? &local : error;
    int rc = log->head_size == 0 ? unsupported(log, error) : check_entry(bytes, size, &entry, error);
    if (rc != RP_OK) {
        return rc;
    }
    pthread_mutex_lock(&log->append_lock);
    rc = may_write(log, error);
    if (rc == RP_OK && !log->is_following) {
        rc = rp_error_set(error, RP_E_INVALID, 0, log->setup.directory, -1, "the log leads: it takes no other's entries");
    }
    rc = rc == RP_OK ? check_next(log, &entry, error) : rc;
    rc = rc == RP_OK ? put_entry(log, &entry, bytes + RP_LEDGER_HEAD_SIZE, error) : rc;
    int64_t position = log->position;
    pthread_mutex_unlock(&log->append_lock);
    if (rc == RP_OK) {
        rp_preallocation_advise(log->preallocation, position);
    }
    return rc;
}

static void tell_committed(rp_commit_log *log) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&log->commit_waiters) != 0) {
        pthread_mutex_lock(&log->committed_lock); /* anybody who saw the old offset is waiting on the condition by now */
        pthread_mutex_unlock(&log->committed_lock);
        pthread_cond_broadcast(&log->committed);
    }
}

int rp_commit_log_cut_entries(rp_commit_log *log, int64_t last_index, rp_error *error) {
    rp_ledger_entry unit = {.term = -1, .position = rp_commit_log_min_offset(log)};
    int64_t before = rp_commit_log_end_index(log);
    if (log->head_size == 0) {
        return unsupported(log, error);
    }
    if (last_index > before || (last_index >= 0 && rp_ledger_index_read(log->setup.ledger_index, last_index, &unit) != RP_OK)) {
        return rp_error_set(error, RP_E_RANGE, 0, log->setup.directory, last_index, "the log has no entry %lld", (long long)last_index);
    }
    uint64_t cuts = rp_commit_log_cuts(log);
    int rc = rp_commit_log_cut(log, unit.position + unit.size, error);
    if (rc == RP_OK || rp_commit_log_cuts(log) != cuts) { /* also when the disk may not have them */
        pthread_mutex_lock(&log->append_lock);
        atomic_store_explicit(&log->end_term, unit.term, memory_order_relaxed);
        atomic_store_explicit(&log->end_index, last_index, memory_order_release);
        if (last_index < 0) {
            atomic_store_explicit(&log->begin_index, -1, memory_order_release);
        }
        log->next_index = last_index + 1;
        rp_ledger_index_cut(log->setup.ledger_index, last_index + 1, before);
        pthread_mutex_unlock(&log->append_lock);
        tell_committed(log);
    }
    return rc;
}

void rp_commit_log_commit_entries(rp_commit_log *log, int64_t offset) {
    pthread_mutex_lock(&log->append_lock);
    bool is_new = log->head_size != 0 && offset > log->dispatch_limit;
    log->dispatch_limit = is_new ? offset : log->dispatch_limit;
    bool is_behind = log->head_size != 0 && rp_commit_log_dispatched_offset(log) < log->dispatch_limit;
    pthread_mutex_unlock(&log->append_lock);
    if (is_behind) { /* also retries records that found no room in their queues */
        rp_commit_log_dispatch_replicated(log);
        tell_committed(log);
    }
}

/* The cuts are read after the dispatched offset: what is dispatched was never cut. */
int rp_commit_log_wait_committed(rp_commit_log *log, int64_t offset, uint64_t cuts, uint32_t timeout_ms) {
    struct timespec deadline = rp_deadline_after(CLOCK_MONOTONIC, timeout_ms);
    int rc = offset <= rp_commit_log_max_offset(log) ? RP_OK : RP_E_RANGE;
    if (log->head_size == 0) {
        return rc;
    }
    atomic_fetch_add(&log->commit_waiters, 1);
    atomic_thread_fence(memory_order_seq_cst); /* against tell_committed */
    pthread_mutex_lock(&log->committed_lock);
    while (rc == RP_OK) {
        bool is_there = rp_commit_log_dispatched_offset(log) >= offset;
        rc = rp_commit_log_cuts(log) != cuts ? RP_E_RANGE : RP_OK;
        if (rc != RP_OK || is_there) {
            break;
        }
        rc = pthread_cond_timedwait(&log->committed, &log->committed_lock, &deadline) == ETIMEDOUT ? RP_E_TIMEOUT : RP_OK;
    }
    pthread_mutex_unlock(&log->committed_lock);
    atomic_fetch_sub(&log->commit_waiters, 1);
    return rc;
}

int rp_commit_log_follow_entries(rp_commit_log *log, uint32_t wait_ms) {
    if (log->head_size == 0) {
        return RP_OK;
    }
    if (!rp_lock_within(&log->append_lock, wait_ms)) {
        return RP_E_BUSY;
    }
    log->is_following = true;
    log->is_paused = false;
    pthread_mutex_unlock(&log->append_lock);
    return RP_OK;
}

int rp_commit_log_pause_entries(rp_commit_log *log, int is_paused, uint32_t wait_ms) {
    if (!rp_lock_within(&log->append_lock, wait_ms)) {
        return RP_E_BUSY;
    }
    log->is_paused = is_paused != 0;
    pthread_mutex_unlock(&log->append_lock);
    return RP_OK;
}

/* ---- leading ---- */

/* Encodes the record of a leader's first entry: RocketMQ's brokers make no queue entry for a rolled-back half, and this one has no keys
 * to index. */
static uint32_t encode_first_record(const rp_commit_log *log, int64_t position, uint8_t *target) {
    static const uint8_t no_host[20] = {0};
    rp_encode_source source = {.sys_flag = RP_SYSFLAG_TRANSACTION_ROLLBACK | log->store_sys_flag,
                               .store_timestamp_ms = rp_clock_wall_ms(log->setup.clock),
                               .physical_offset = position + RP_LEDGER_HEAD_SIZE,
                               .born_host = no_host,
                               .store_host = log->setup.store_host,
                               .topic = {(const uint8_t *)FIRST_ENTRY_TOPIC, sizeof FIRST_ENTRY_TOPIC - 1}};
    source.born_timestamp_ms = source.store_timestamp_ms;
    uint32_t size = (uint32_t)rp_message_encoded_size(&source);
    rp_message_encode(&source, target, size);
    return size;
}

/* Under the lock: gives uncommitted records their places in the queues, so that appends are numbered behind them. */
static int place_uncommitted(rp_commit_log *log, rp_error *error) {
    int64_t end = 0;
    int rc = rp_commit_log_place_held(log, &end, error);
    return rc == RP_OK && end < log->position
               ? rp_error_set(error, RP_E_CORRUPT, 0, log->setup.directory, end, "no entry where one should be")
               : rc;
}

int rp_commit_log_lead_entries(rp_commit_log *log, int64_t term, rp_error *error) {
    uint8_t record[FIRST_ENTRY_BYTES_MAX];
    rp_error local;
    error = error == NULL ? &local : error;
    if (log->head_size == 0) {
        return unsupported(log, error);
    }
    pthread_mutex_lock(&log->append_lock);
    int64_t last_term = atomic_load_explicit(&log->end_term, memory_order_relaxed);
    int rc = may_write(log, error);
    if (rc == RP_OK && term < last_term) {
        rc = rp_error_set(error, RP_E_RANGE, 0, log->setup.directory, term, "the last entry is of term %lld, later than %lld",
                          (long long)last_term, (long long)term);
    }
    rc = rc == RP_OK ? place_uncommitted(log, error) : rc;
    if (rc == RP_OK) {
        log->term = term;
        uint32_t size = encode_first_record(log, log->position, record);
        int64_t position = next_position(log, size + RP_LEDGER_HEAD_SIZE);
        rp_ledger_entry entry = rp_commit_log_next_entry(log, encode_first_record(log, position, record));
        entry.position = position;
        rc = put_entry(log, &entry, record, error);
    }
    log->is_following = rc != RP_OK;
    log->is_paused = false;
    int64_t position = log->position;
    pthread_mutex_unlock(&log->append_lock);
    if (rc == RP_OK) {
        rp_preallocation_advise(log->preallocation, position);
        rp_commit_log_tell_followers(log);
    }
    return rc;
}
