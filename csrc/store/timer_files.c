/* timer_files.c: entering, flushing and emptying; timer_files_open.c handles the open. See timer_files.h. */
#include "timer_files_inl.h"

#include <stdlib.h>

#include "timer_chain.h"

#define CUT_BATCH 256

void rp_timer_files_close(rp_timer_files *files) {
    if (files != NULL) {
        rp_timer_log_close(files->timer_log);
        rp_timing_wheel_close(files->wheel);
        free(files->checkpoint_path);
        free(files);
    }
}

int rp_timer_files_state_of(const rp_timer_files *files) { return files->state; }
const rp_timer_checkpoint *rp_timer_files_checkpoint(const rp_timer_files *files) { return &files->checkpoint; }
rp_timing_wheel *rp_timer_files_wheel(rp_timer_files *files) { return files->wheel; }
rp_timer_log *rp_timer_files_log(rp_timer_files *files) { return files->timer_log; }

int rp_timer_files_last(rp_timer_files *files, rp_timer_record *record, rp_error *error) {
    int64_t last = rp_timer_log_last(files->timer_log);
    if (last == RP_TIMER_NO_POSITION) {
        return 0;
    }
    int rc = rp_timer_log_read(files->timer_log, last, record, error);
    return rc == RP_OK ? 1 : rc;
}

int rp_timer_files_was_delivered(const rp_timer_files *files, int64_t queue_offset, int64_t due_ms) {
    return queue_offset < files->checkpoint.anew_queue_offset && due_ms < files->checkpoint.anew_read_time_ms;
}

static int enter(rp_timer_files *files, const rp_timer_entry *entry, int64_t slot_time, rp_error *error) {
    rp_timer_slot slot;
    int has_slot = rp_timing_wheel_slot(files->wheel, slot_time, &slot);
    rp_timer_record record = {.previous = has_slot ? slot.last_position : RP_TIMER_NO_POSITION,
                              .write_time_ms = entry->write_time_ms,
                              .delay_ms = (int32_t)(entry->due_ms - entry->write_time_ms),
                              .commit_log_offset = entry->commit_log_offset,
                              .size = entry->size,
                              .magic = entry->magic | RP_TIMER_DEFAULT,
                              .topic_hash = entry->topic_hash};
    int64_t position;
    int rc = rp_timer_log_append(files->timer_log, &record, &position, error);
    if (rc == RP_OK) {
        rp_timing_wheel_add(files->wheel, slot_time, position, record.previous, record.magic);
    }
    return rc;
}

int rp_timer_files_enter(rp_timer_files *files, const rp_timer_entry *entry, rp_error *error) {
    int64_t delay_ms;
    if (entry->write_time_ms < 0 || __builtin_sub_overflow(entry->due_ms, entry->write_time_ms, &delay_ms) || delay_ms < 0 ||
        delay_ms > INT32_MAX || entry->due_ms > INT64_MAX - files->precision_ms) {
        return rp_error_set(error, RP_E_RANGE, 0, NULL, entry->commit_log_offset,
                            "a timer log record has no room for what is written at %lld ms and due at %lld ms",
                            (long long)entry->write_time_ms, (long long)entry->due_ms);
    }
    int64_t slot_time = rp_timing_wheel_floor(files->wheel, entry->due_ms), held = rp_timing_wheel_holds(files->wheel, slot_time);
    if (held >= 0 && held != slot_time) {
        return rp_error_set(error, RP_E_RANGE, 0, NULL, entry->commit_log_offset,
                            "the slot of %lld ms still holds messages of %lld ms: its turn comes when they are delivered",
                            (long long)slot_time, (long long)held);
    }
    return enter(files, entry, slot_time, error);
}

/* Sums what the slot's other records at or behind position count for (rp_timing_wheel_add); negative: no record begins there, or an
 * error. */
static int64_t count_from(rp_timer_chain *chain, int64_t position, rp_error *error) {
    rp_timer_chain_record records[CUT_BATCH];
    int64_t count = 0, is_there = 0;
    while (!rp_timer_chain_is_at_end(chain)) {
        int64_t got = rp_timer_chain_read(chain, RP_TIMER_CHAIN_OTHERS, records, CUT_BATCH, error);
        if (got < 0) {
            return got;
        }
        for (int64_t i = 0; i < got; i++) {
            int one = (records[i].record.magic & RP_TIMER_DELETE) != 0 ? -1 : 1; /* a recall that is rolled is one of these */
            count += records[i].position >= position ? one : 0;
            is_there |= records[i].position == position;
        }
    }
    if (is_there) {
        return count > 0 ? count : 0;
    }
    return rp_error_set(error, RP_E_NOT_FOUND, 0, NULL, position, "no record of the slot begins there");
}

static int enter_recalls_again(rp_timer_files *files, rp_timer_chain *chain, int64_t time_ms, int64_t position, rp_error *error) {
    rp_timer_chain_record records[CUT_BATCH];
    for (rp_timer_chain_rewind(chain); !rp_timer_chain_is_at_end(chain);) {
        int64_t got = rp_timer_chain_read(chain, RP_TIMER_CHAIN_RECALLS, records, CUT_BATCH, error);
        int rc = got < 0 ? (int)got : RP_OK;
        for (int64_t i = 0; rc == RP_OK && i < got && records[i].position < position; i++) {
            const rp_timer_record *recall = &records[i].record;
            rp_timer_entry entry = {.due_ms = rp_timer_record_due_ms(recall),
                                    .write_time_ms = recall->write_time_ms,
                                    .commit_log_offset = recall->commit_log_offset,
                                    .size = recall->size,
                                    .magic = recall->magic,
                                    .topic_hash = recall->topic_hash};
            rc = enter(files, &entry, time_ms, error);
        }
        if (rc != RP_OK) {
            return rc;
        }
    }
    return RP_OK;
}

int rp_timer_files_cut_slot(rp_timer_files *files, int64_t time_ms, int64_t position, rp_error *error) {
    rp_timer_slot slot;
    rp_timer_chain *chain;
    if (!rp_timing_wheel_slot(files->wheel, time_ms, &slot)) {
        return rp_error_set(error, RP_E_NOT_FOUND, 0, NULL, position, "nothing waits in the slot of %lld ms", (long long)time_ms);
    }
    int rc = rp_timer_chain_open(files->timer_log, &slot, files->precision_ms, &chain, error);
    if (rc != RP_OK) {
        return rc;
    }
    int64_t count = count_from(chain, position, error);
    rc = count < 0 ? (int)count : enter_recalls_again(files, chain, slot.time_ms, position, error);
    int64_t waiting = count - rp_timer_chain_recalls(chain);
    rp_timer_chain_close(chain);
    rc = rc == RP_OK ? rp_timer_log_end_chain(files->timer_log, position, error) : rc;
    if (rc == RP_OK && rp_timing_wheel_slot(files->wheel, time_ms, &slot)) {
        slot.first_position = position;
        slot.count = waiting > INT32_MAX ? INT32_MAX : (int32_t)waiting;
        rp_timing_wheel_put(files->wheel, &slot);
    }
    return rc;
}

typedef struct passed_slots {
    rp_timing_wheel *wheel;
    int64_t time_ms;
} passed_slots;

static int clear_passed(void *context, const rp_timer_slot *slot) {
    const passed_slots *passed = context;
    if (slot->time_ms < passed->time_ms) {
        rp_timing_wheel_clear(passed->wheel, slot->time_ms);
    }
    return 0;
}

void rp_timer_files_clear_before(rp_timer_files *files, int64_t time_ms) {
    passed_slots passed = {.wheel = files->wheel, .time_ms = time_ms};
    rp_timing_wheel_each(files->wheel, clear_passed, &passed);
}

static int is_same(const rp_timer_checkpoint *a, const rp_timer_checkpoint *b) {
    return a->read_time_ms == b->read_time_ms && a->log_flushed_position == b->log_flushed_position && a->queue_offset == b->queue_offset &&
           a->master_queue_offset == b->master_queue_offset && a->version_counter == b->version_counter && a->log_end == b->log_end &&
           a->precision_ms == b->precision_ms && a->is_there == b->is_there;
}

int rp_timer_files_flush(rp_timer_files *files, const rp_timer_progress *progress, int is_clean, rp_error *error) {
    rp_timer_checkpoint next = files->checkpoint;
    if (files->has_passed) {
        rp_timer_files_clear_before(files, progress->read_time_ms);
        files->has_passed = 0;
    }
    int rc = rp_timer_log_flush(files->timer_log, error);
    rc = rc == RP_OK ? rp_timing_wheel_flush(files->wheel, error) : rc;
    if (rc != RP_OK) {
        return rc;
    }
    next.read_time_ms = progress->read_time_ms;
    next.queue_offset = progress->queue_offset;
    next.master_queue_offset = progress->master_queue_offset;
    next.state_version = progress->state_version;
    next.version_timestamp_ms = progress->version_timestamp_ms;
    next.version_counter = progress->version_counter;
    next.log_flushed_position = rp_timer_log_flushed(files->timer_log);
    next.log_end = is_clean ? rp_timer_log_end(files->timer_log) : -1;
    next.wheel_crc = is_clean ? rp_timing_wheel_crc(files->wheel) : 0;
    next.precision_ms = files->precision_ms;
    if (next.queue_offset >= next.anew_queue_offset) {
        next.anew_queue_offset = next.anew_read_time_ms = 0;
    }
    if (is_same(&next, &files->checkpoint)) {
        return RP_OK;
    }
    rc = rp_timer_checkpoint_write(files->ops, files->checkpoint_path, &next, error);
    if (rc == RP_OK) {
        files->checkpoint = next;
    }
    return rc;
}

void rp_timer_files_note_delivered(rp_timer_checkpoint *checkpoint) {
    if (checkpoint->anew_queue_offset <= checkpoint->queue_offset) {
        checkpoint->anew_queue_offset = checkpoint->queue_offset;
        checkpoint->anew_read_time_ms = checkpoint->read_time_ms;
    }
}

/* The precision keeps its value until the first flush: a start that finds some of the old files has to know theirs. */
int rp_timer_files_empty(rp_timer_files *files, rp_error *error) {
    rp_timer_checkpoint next = files->checkpoint;
    next.queue_offset = next.log_flushed_position = next.wheel_crc = 0;
    next.log_end = -1;
    int rc = rp_timer_checkpoint_write(files->ops, files->checkpoint_path, &next, error);
    if (rc != RP_OK) {
        return rc;
    }
    files->checkpoint = next;
    files->state = RP_TIMER_FILES_LOST;
    rc = rp_timer_log_remove_all(files->timer_log, error);
    if (rc == RP_OK) {
        rp_timing_wheel_clear_all(files->wheel);
        rc = rp_timing_wheel_flush(files->wheel, error);
    }
    return rc;
}

int rp_timer_files_make_anew(rp_timer_files *files, rp_error *error) {
    rp_timer_files_note_delivered(&files->checkpoint);
    return rp_timer_files_empty(files, error);
}
