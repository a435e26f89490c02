/* timer_log.c: records, appends, reads of a chain. See timer_log.h. */
#include "timer_log_inl.h"

#include <errno.h>
#include <string.h>

#include "../base/bytes_inl.h"

#define BLANK_MAGIC (0xBBCCDDEEu ^ (1880681586u + 8))
#define MAGIC_BITS 0xF
#define AT_PREVIOUS 4

int64_t rp_timer_record_due_ms(const rp_timer_record *record) { return record->write_time_ms + record->delay_ms; }

void rp_timer_record_encode(const rp_timer_record *record, uint8_t *bytes) {
    rp_put_u32(bytes, RP_TIMER_RECORD_SIZE);
    rp_put_u64(bytes + AT_PREVIOUS, (uint64_t)record->previous);
    rp_put_u32(bytes + 12, (uint32_t)record->magic);
    rp_put_u64(bytes + 16, (uint64_t)record->write_time_ms);
    rp_put_u32(bytes + 24, (uint32_t)record->delay_ms);
    rp_put_u64(bytes + 28, (uint64_t)record->commit_log_offset);
    rp_put_u32(bytes + 36, (uint32_t)record->size);
    rp_put_u32(bytes + 40, (uint32_t)record->topic_hash);
    rp_put_u64(bytes + 44, 0);
}

int rp_timer_record_decode(const uint8_t *bytes, int64_t position, rp_timer_record *record) {
    record->previous = (int64_t)rp_get_u64(bytes + AT_PREVIOUS);
    record->magic = (int32_t)rp_get_u32(bytes + 12);
    record->write_time_ms = (int64_t)rp_get_u64(bytes + 16);
    record->delay_ms = (int32_t)rp_get_u32(bytes + 24);
    record->commit_log_offset = (int64_t)rp_get_u64(bytes + 28);
    record->size = (int32_t)rp_get_u32(bytes + 36);
    record->topic_hash = (int32_t)rp_get_u32(bytes + 40);
    return rp_get_u32(bytes) == RP_TIMER_RECORD_SIZE && (record->magic & ~MAGIC_BITS) == 0 && record->previous >= RP_TIMER_NO_POSITION &&
           record->previous < position && record->write_time_ms >= 0 && record->write_time_ms <= INT64_MAX - INT32_MAX &&
           rp_timer_record_due_ms(record) >= 0 && record->commit_log_offset >= 0 && record->size > 0 &&
           record->commit_log_offset <= INT64_MAX - record->size;
}

static void encode_blank(uint8_t *bytes, int64_t left) {
    rp_put_u32(bytes, (uint32_t)left);
    rp_put_u64(bytes + 4, 0);
    rp_put_u32(bytes + 12, BLANK_MAGIC);
}

int rp_timer_log_is_blank(const uint8_t *bytes, int64_t left) {
    return rp_get_u32(bytes) == (uint32_t)left && rp_get_u32(bytes + 12) == BLANK_MAGIC;
}

int rp_timer_log_failed(const rp_timer_log *log, int64_t position, const char *what, rp_error *error) {
    int os_errno = errno, status = os_errno == EMFILE || os_errno == ENFILE ? RP_E_BUSY : rp_status_from_errno(os_errno);
    return rp_error_set(error, status, os_errno, log->directory, position, "cannot %s the timer log: %s", what, strerror(os_errno));
}

int rp_timer_log_unreadable(const rp_timer_log *log, int64_t position, rp_error *error) {
    if (errno == EIO) { /* a lost block is treated like noise: the timer queue has what was there */
        return rp_error_set(error, RP_E_CORRUPT, EIO, log->directory, position, "the disk cannot read the timer log: %s", strerror(EIO));
    }
    return rp_timer_log_failed(log, position, "read", error);
}

int rp_timer_log_has_files(const rp_timer_log *log) { return log->file_count > 0; }
int64_t rp_timer_log_begin(const rp_timer_log *log) { return log->begin; }
int64_t rp_timer_log_end(const rp_timer_log *log) { return log->end; }
int64_t rp_timer_log_flushed(const rp_timer_log *log) { return log->flushed; }
int64_t rp_timer_log_base_of(const rp_timer_log *log, int64_t position) { return position - position % log->file_size; }
int64_t rp_timer_log_files_end(const rp_timer_log *log) { return log->begin + (int64_t)log->file_count * log->file_size; }

int rp_timer_log_is_place(const rp_timer_log *log, int64_t position) {
    int64_t at = position % log->file_size;
    return position >= 0 && at % RP_TIMER_RECORD_SIZE == 0 && log->file_size - at >= TIMER_LOG_ROOM_MIN;
}

int64_t rp_timer_log_before(const rp_timer_log *log, int64_t position) {
    if (position <= log->begin) {
        return RP_TIMER_NO_POSITION;
    }
    if (position % log->file_size != 0) {
        return position - RP_TIMER_RECORD_SIZE;
    }
    int64_t records = (log->file_size - RP_TIMER_BLANK_SIZE) / RP_TIMER_RECORD_SIZE;
    return position - log->file_size + (records - 1) * RP_TIMER_RECORD_SIZE;
}

int64_t rp_timer_log_last(const rp_timer_log *log) { return rp_timer_log_before(log, log->end); }

static int write_out(rp_timer_log *log, rp_error *error) {
    if (log->written == log->end) {
        return RP_OK;
    }
    int64_t base = rp_timer_log_base_of(log, log->written);
    int fd = rp_timer_log_file(log, base, 1, error);
    if (fd < 0) {
        return error->status;
    }
    if (rp_file_write_all(log->ops, fd, log->buffer, (size_t)(log->end - log->written), log->written - base) != 0) {
        return rp_timer_log_failed(log, log->written, "write", error);
    }
    log->written = log->end;
    return RP_OK;
}

static int refuse_unsynced(const rp_timer_log *log, rp_error *error) {
    return rp_error_set(error, RP_E_IO, log->sync_errno, log->directory, log->flushed,
                        "a sync of the timer log failed: %s; what was written since may be lost: check the disk and restart the broker",
                        strerror(log->sync_errno));
}

static int sync_end(rp_timer_log *log, rp_error *error) {
    if (log->sync_errno != 0) {
        return refuse_unsynced(log, error);
    }
    int rc = log->flushed < log->written ? rp_timer_log_sync_from(log, log->flushed, error) : rp_timer_log_sync_names(log, error);
    if (rc == RP_OK) {
        log->flushed = log->written;
    }
    return rc;
}

/* The last file is full: a blank marks its end, and its contents reach the disk before anything is written to another file. */
static int begin_file(rp_timer_log *log, rp_error *error) {
    rp_error refusal = {0};
    int64_t left = log->file_size - log->end % log->file_size;
    if (left < log->file_size) {
        uint8_t blank[RP_TIMER_BLANK_SIZE];
        encode_blank(blank, left);
        int rc = write_out(log, &refusal);
        int fd = rc == RP_OK ? rp_timer_log_file(log, rp_timer_log_base_of(log, log->end), 1, &refusal) : -1;
        if (fd >= 0 && rp_file_write_all(log->ops, fd, blank, sizeof blank, log->end % log->file_size) != 0) {
            rp_timer_log_failed(log, log->end, "write", &refusal);
        }
        if (refusal.status == RP_OK) {
            sync_end(log, &refusal);
        }
    }
    if (refusal.status == RP_OK && (left < log->file_size ? log->end + left : log->end) == rp_timer_log_files_end(log)) {
        rp_timer_log_add_file(log, &refusal);
    }
    if (refusal.status != RP_OK) {
        if (error != NULL) {
            *error = refusal;
        }
        return refusal.status;
    }
    if (left < log->file_size) {
        log->end = log->written = log->flushed = log->end + left;
    }
    return RP_OK;
}

int rp_timer_log_append(rp_timer_log *log, const rp_timer_record *record, int64_t *position, rp_error *error) {
    rp_error refusal = {0};
    int rc = RP_OK;
    if (!rp_timer_log_is_place(log, log->end) || log->end == rp_timer_log_files_end(log)) {
        rc = begin_file(log, &refusal);
    }
    if (rc == RP_OK && log->end - log->written == TIMER_LOG_BUFFER_SIZE) {
        rc = write_out(log, &refusal);
    }
    if (rc != RP_OK) {
        if (error != NULL) {
            *error = refusal;
        }
        return rc;
    }
    int64_t *newest = &log->newest[log->file_count - 1];
    rp_timer_record_encode(record, log->buffer + (log->end - log->written));
    if (*newest != TIMER_LOG_NOT_KNOWN && *newest != TIMER_LOG_UNREADABLE && *newest < record->commit_log_offset) {
        *newest = record->commit_log_offset;
    }
    *position = log->end;
    log->end += RP_TIMER_RECORD_SIZE;
    return RP_OK;
}

/* Moves the read window so that it ends behind the record at position: a chain goes back. */
static int move_window(rp_timer_log *log, int64_t position, rp_error *error) {
    int64_t base = rp_timer_log_base_of(log, position), stop = position + RP_TIMER_RECORD_SIZE, start = stop - TIMER_LOG_WINDOW_SIZE;
    start = start < base ? base : start;
    int fd = rp_timer_log_file(log, base, 0, error);
    if (fd < 0) {
        return error->status;
    }
    log->window_size = 0;
    int64_t got = log->ops->read_at(log->ops->context, fd, log->window, (size_t)(stop - start), start - base);
    if (got < 0) {
        return rp_timer_log_unreadable(log, position, error);
    }
    if (got != stop - start) {
        return rp_error_set(error, RP_E_CORRUPT, 0, log->directory, position, "the timer log ends before its file's end");
    }
    log->window_start = start;
    log->window_size = (int32_t)got;
    return RP_OK;
}

int rp_timer_log_read(rp_timer_log *log, int64_t position, rp_timer_record *record, rp_error *error) {
    if (position < log->begin || position >= log->end) {
        return rp_error_set(error, RP_E_NOT_FOUND, 0, log->directory, position, "the timer log does not reach there");
    }
    if (!rp_timer_log_is_place(log, position)) {
        return rp_error_set(error, RP_E_CORRUPT, 0, log->directory, position, "no record of the timer log begins there");
    }
    const uint8_t *bytes = log->buffer + (position - log->written);
    if (position < log->written) {
        rp_error refusal = {0};
        int is_there = position >= log->window_start && position + RP_TIMER_RECORD_SIZE <= log->window_start + log->window_size;
        if (!is_there && move_window(log, position, &refusal) != RP_OK) {
            if (error != NULL) {
                *error = refusal;
            }
            return refusal.status;
        }
        bytes = log->window + (position - log->window_start);
    }
    if (!rp_timer_record_decode(bytes, position, record)) {
        return rp_error_set(error, RP_E_CORRUPT, 0, log->directory, position, "what is there is no record of the timer log");
    }
    return RP_OK;
}

int rp_timer_log_end_chain(rp_timer_log *log, int64_t position, rp_error *error) {
    rp_error refusal = {0};
    rp_timer_record record;
    int rc = rp_timer_log_read(log, position, &record, &refusal);
    rc = rc == RP_OK ? write_out(log, &refusal) : rc;
    rc = rc == RP_OK && log->sync_errno != 0 ? refuse_unsynced(log, &refusal) : rc;
    int64_t base = rp_timer_log_base_of(log, position);
    int fd = rc == RP_OK ? rp_timer_log_file(log, base, 0, &refusal) : -1;
    if (fd >= 0) {
        uint8_t nothing[8];
        rp_put_u64(nothing, (uint64_t)RP_TIMER_NO_POSITION);
        log->window_size = 0;
        if (rp_file_write_all(log->ops, fd, nothing, sizeof nothing, position - base + AT_PREVIOUS) != 0) {
            rp_timer_log_failed(log, position, "write", &refusal);
        } else {
            rp_timer_log_sync_from(log, position, &refusal);
        }
    }
    if (refusal.status != RP_OK && error != NULL) {
        *error = refusal;
    }
    return refusal.status;
}

int rp_timer_log_flush(rp_timer_log *log, rp_error *error) {
    rp_error refusal = {0};
    if (write_out(log, &refusal) == RP_OK) {
        sync_end(log, &refusal);
    }
    if (refusal.status != RP_OK && error != NULL) {
        *error = refusal;
    }
    return refusal.status;
}
