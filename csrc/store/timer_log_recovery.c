/* timer_log_recovery.c: reads the log from front to back: to find its end, to rebuild slots, to see which files may be removed. See
 * timer_log.h. */
#include "timer_log_inl.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define PIECE_SIZE (5040 * RP_TIMER_RECORD_SIZE) /* 262 KB */

typedef struct log_walk {
    rp_timer_log *log;
    uint8_t *piece;
    int64_t position; /* next position to read */
    int64_t stop;
    rp_timer_record_visit visit;
    void *context;
    int32_t is_over; /* reached a place that is no record, or that visit refused */
    int32_t is_lenient; /* passes over places that are no record */
} log_walk;

/* Reads bytes of one file from the walk's position on; 0 at the walk's stop; negative with error. */
static int64_t read_piece(log_walk *walk, rp_error *error) {
    rp_timer_log *log = walk->log;
    int64_t base = rp_timer_log_base_of(log, walk->position), file_end = base + log->file_size;
    int64_t stop = walk->stop < file_end ? walk->stop : file_end, wanted = stop - walk->position;
    if (wanted <= 0) {
        return 0;
    }
    wanted = wanted < PIECE_SIZE ? wanted : PIECE_SIZE;
    int fd = rp_timer_log_file(log, base, 0, error);
    if (fd < 0) {
        return error->status;
    }
    int64_t got = log->ops->read_at(log->ops->context, fd, walk->piece, (size_t)wanted, walk->position - base);
    return got < 0 ? rp_timer_log_unreadable(log, walk->position, error) : got;
}

static void take_piece(log_walk *walk, int64_t size) {
    const rp_timer_log *log = walk->log;
    int64_t at = 0;
    while (!walk->is_over) {
        rp_timer_record record;
        if (!rp_timer_log_is_place(log, walk->position)) {
            int64_t left = log->file_size - walk->position % log->file_size;
            if (size - at < RP_TIMER_BLANK_SIZE) {
                return; /* in the next piece, or the log ends there */
            }
            walk->is_over = !rp_timer_log_is_blank(walk->piece + at, left);
            walk->position += walk->is_over ? 0 : left;
            return;
        }
        if (size - at < RP_TIMER_RECORD_SIZE) {
            return;
        }
        int is_record = rp_timer_record_decode(walk->piece + at, walk->position, &record);
        if ((!is_record && !walk->is_lenient) ||
            (is_record && walk->visit != NULL && !walk->visit(walk->context, walk->position, &record))) {
            walk->is_over = 1;
            return;
        }
        walk->position += RP_TIMER_RECORD_SIZE;
        at += RP_TIMER_RECORD_SIZE;
    }
}

static int walk_log(log_walk *walk, rp_error *error) {
    rp_error refusal = {0};
    walk->piece = malloc(PIECE_SIZE);
    if (walk->piece == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, walk->log->directory, -1, "no memory to read the timer log");
    }
    int64_t got = 0;
    while (!walk->is_over && walk->position < walk->stop) {
        int64_t before = walk->position;
        got = read_piece(walk, &refusal);
        if (got < 0) {
            break;
        }
        take_piece(walk, got);
        if (walk->position == before) {
            break; /* a partial record: the file was cut short meanwhile, or the log ends within it */
        }
    }
    free(walk->piece);
    if (got < 0 && error != NULL) {
        *error = refusal;
    }
    return got < 0 ? (int)got : RP_OK;
}

/* Returns where a walk has to begin to see everything from `from` on. */
static int64_t place_of(const rp_timer_log *log, int64_t from) {
    if (from < log->begin || from > rp_timer_log_files_end(log)) {
        return log->begin;
    }
    return from % log->file_size == 0 || rp_timer_log_is_place(log, from) ? from : rp_timer_log_base_of(log, from);
}

int rp_timer_log_recover(rp_timer_log *log, int64_t from, rp_timer_record_visit visit, void *context, rp_error *error) {
    log_walk walk = {.log = log, .position = place_of(log, from), .stop = rp_timer_log_files_end(log), .visit = visit, .context = context};
    rp_error refusal = {0};
    int64_t start = walk.position;
    int rc = walk_log(&walk, &refusal);
    if (rc == RP_OK) {
        int64_t end = walk.position, base = rp_timer_log_base_of(log, end);
        log->end = log->written = end;
        log->flushed = start < end ? start : end;
        rc = rp_timer_log_remove_files(log, end == base && end > log->begin ? end : base + log->file_size, &refusal);
        rc = rc == RP_OK ? rp_timer_log_clear_tail(log, end, &refusal) : rc;
        log->window_size = 0;
        rc = rc == RP_OK && start < end ? rp_timer_log_sync_from(log, start, &refusal) : rc;
        log->flushed = rc == RP_OK ? end : log->flushed;
    }
    if (rc != RP_OK && error != NULL) {
        *error = refusal;
    }
    return rc;
}

int rp_timer_log_each(rp_timer_log *log, int64_t from, rp_timer_record_visit visit, void *context, rp_error *error) {
    log_walk walk = {.log = log, .position = place_of(log, from), .stop = log->written, .visit = visit, .context = context};
    return walk_log(&walk, error);
}

/* As far as the disk can read. */
static bool has_no_record(rp_timer_log *log, int64_t position) {
    rp_timer_record record;
    rp_error error = {0};
    return rp_timer_log_read(log, position, &record, &error) == RP_E_CORRUPT && error.os_errno != EIO;
}

int rp_timer_log_set_end(rp_timer_log *log, int64_t end) {
    int64_t before = end < 0 ? RP_TIMER_NO_POSITION : rp_timer_log_before(log, end), files_end = rp_timer_log_files_end(log);
    if (end < log->begin || end > files_end || files_end - end > log->file_size ||
        (end != log->begin && !rp_timer_log_is_place(log, before))) {
        return 0;
    }
    log->end = log->written = log->flushed = files_end; /* so that everything there can be read */
    rp_timer_record record;
    int is_end = (before == RP_TIMER_NO_POSITION || rp_timer_log_read(log, before, &record, NULL) == RP_OK) &&
                 (!rp_timer_log_is_place(log, end) || end == files_end || has_no_record(log, end));
    log->end = log->written = log->flushed = is_end ? end : log->begin;
    log->window_size = 0; /* what lies behind the end will change */
    return is_end;
}

static int note_newest(void *context, int64_t position, const rp_timer_record *record) {
    int64_t *newest = context;
    (void)position;
    *newest = record->commit_log_offset > *newest ? record->commit_log_offset : *newest;
    return 1;
}

/* Reads a whole file for the largest offset in it. */
static void look_for_newest(rp_timer_log *log, uint32_t file) {
    int64_t base = log->begin + (int64_t)file * log->file_size, newest = -1;
    rp_error error;
    log_walk walk = {.log = log,
                     .position = base,
                     .stop = base + log->file_size - RP_TIMER_BLANK_SIZE,
                     .visit = note_newest,
                     .context = &newest,
                     .is_lenient = 1};
    int rc = walk_log(&walk, &error);
    if (rc != RP_OK) {
        newest = rc == RP_E_NO_MEMORY || rc == RP_E_BUSY ? TIMER_LOG_NOT_KNOWN : TIMER_LOG_UNREADABLE;
    }
    log->newest[file] = newest;
}

/* May the first file be removed? If it cannot be read, the one behind decides, as offsets grow. The last file stays: it is being
 * written. */
static int may_go(rp_timer_log *log, int64_t commit_log_min_offset, int *has_looked) {
    for (uint32_t file = 0; file + 1 < log->file_count; file++) {
        if (log->newest[file] == TIMER_LOG_NOT_KNOWN && !*has_looked) {
            look_for_newest(log, file);
            *has_looked = 1;
        }
        if (log->newest[file] != TIMER_LOG_UNREADABLE) {
            return log->newest[file] != TIMER_LOG_NOT_KNOWN && log->newest[file] < commit_log_min_offset;
        }
    }
    return 0;
}

int rp_timer_log_expire(rp_timer_log *log, int64_t commit_log_min_offset, rp_error *error) {
    int removed = 0, has_looked = 0;
    rp_error refusal = {0};
    while (refusal.status == RP_OK && may_go(log, commit_log_min_offset, &has_looked)) {
        if (rp_timer_log_remove_first(log, &refusal) == RP_OK) {
            removed++;
        }
    }
    if (refusal.status != RP_OK && error != NULL) {
        *error = refusal;
    }
    return removed > 0 ? removed : refusal.status;
}
