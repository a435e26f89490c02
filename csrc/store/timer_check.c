/* timer_check.c: see timer_check.h. Three passes: the log's records, the wheel's slots, the checkpoint against both. */
#include "timer_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/file_ops.h"
#include "../base/slice_inl.h"
#include "message.h"
#include "store_path.h"
#include "timer_checkpoint.h"
#include "timer_log_inl.h"
#include "timing_wheel_inl.h"

#define PIECE_SIZE (15 * PAGE_SIZE) /* the wheel is a whole number of these */
#define PRECISION_MS_MAX 1000
#define CHECKED_LONGS 4 /* of the checkpoint: read time, flushed position, both offsets */

_Static_assert(WHEEL_SIZE % PIECE_SIZE == 0, "the wheel ends with a piece");

static const uint8_t zeros[RP_TIMER_RECORD_SIZE];

/* Places of one file that hold no record, until it is known whether one follows. */
typedef struct gap {
    uint32_t file;
    int64_t at, size, spoiled; /* spoiled: end of the last place that is not empty */
} gap;

typedef struct timer_check {
    const rp_timer_check_options *options;
    rp_error *error;
    uint64_t *records, *slots;
    char checkpoint_path[RP_PATH_MAX], log_path[RP_PATH_MAX], wheel_path[RP_PATH_MAX];
    rp_timer_checkpoint checkpoint;
    rp_file_row *timer_log;
    int64_t file_size;    /* length of the first file */
    int64_t end;          /* position behind the last record */
    gap gap;
    int32_t precision_ms; /* 0: unknown */
    bool has_wheel, has_odd_slots;
} timer_check;

static int report(const timer_check *check, const char *file, int64_t offset, int64_t size, const char *cause) {
    return check->options->report(check->options->context, file, offset, size, cause);
}

/* ---- the timer log ---- */

static int find_unreadable(const timer_check *check) {
    int status = rp_file_row_failure(check->timer_log, check->error);
    return status != RP_OK ? status : rp_file_row_failure(check->options->commit_log, check->error);
}

static bool is_place(const timer_check *check, int64_t position) {
    int64_t at = position % check->file_size;
    return at % RP_TIMER_RECORD_SIZE == 0 && check->file_size - at >= TIMER_LOG_ROOM_MIN;
}

static bool read_record(const timer_check *check, int64_t position, rp_timer_record *record) {
    const uint8_t *bytes = is_place(check, position) ? rp_file_row_at(check->timer_log, position, RP_TIMER_RECORD_SIZE) : NULL;
    return bytes != NULL && rp_timer_record_decode(bytes, position, record);
}

static bool is_of_slot(const timer_check *check, const rp_timer_record *record, int64_t units) {
    return check->precision_ms == 0 || rp_timer_record_due_ms(record) / check->precision_ms == units;
}

static const char *link_fault(const timer_check *check, const rp_timer_record *record) {
    rp_timer_record previous;
    if (record->previous < rp_file_row_min(check->timer_log))
        return NULL; /* none, or one that was removed with its file */
    if (!read_record(check, record->previous, &previous))
        return "the chain goes on at no record";
    int64_t precision_ms = check->precision_ms > 0 ? check->precision_ms : 1;
    return is_of_slot(check, &previous, rp_timer_record_due_ms(record) / precision_ms) ? NULL
                                                                                       : "the chain goes on at a record of another time";
}

static const char *message_fault(const timer_check *check, const rp_timer_record *record) {
    rp_file_row *log = check->options->commit_log;
    if (record->commit_log_offset < rp_file_row_min(log))
        return NULL; /* it has expired */
    uint64_t size;
    const uint8_t *bytes = rp_file_row_record(log, record->commit_log_offset, &size);
    rp_message message;
    if (bytes == NULL)
        return "the record points behind the commit log's end";
    if (rp_message_decode(bytes, size, 0, &message, NULL) != RP_RECORD_MESSAGE)
        return "the record points at no message";
    if (!rp_slice_is(message.topic, RP_TIMER_CHECK_TOPIC))
        return "the record points at a message that is not a timed one";
    return message.size == (uint32_t)record->size ? NULL : "the record says another size than its message has";
}

/* True for a write that the disk took in part, if a kill came before it was repeated. */
static bool may_be_torn(const timer_check *check, const gap *last) {
    return !check->options->is_stopped &&
           rp_file_row_start(check->timer_log, last->file) + last->at >= check->checkpoint.log_flushed_position;
}

/* Whether a record follows decides what the gap is. */
static int close_gap(timer_check *check, bool is_followed) {
    gap found = check->gap;
    check->gap.size = 0;
    int64_t size = is_followed ? found.size : found.spoiled;
    if (found.size == 0 || size == 0 || (!is_followed && may_be_torn(check, &found)))
        return RP_OK;
    return report(check, rp_file_row_path(check->timer_log, found.file), found.at, size, "no record is here");
}

static int take_gap(timer_check *check, uint32_t file, int64_t at, const uint8_t *bytes) {
    bool is_empty = memcmp(bytes, zeros, sizeof zeros) == 0;
    int status = RP_OK;
    if (check->gap.size > 0 && check->gap.file != file) {
        if (is_empty)
            return RP_OK;
        status = close_gap(check, true);
    }
    if (check->gap.size == 0)
        check->gap = (gap){.file = file, .at = at};
    check->gap.size = at + RP_TIMER_RECORD_SIZE - check->gap.at;
    if (!is_empty)
        check->gap.spoiled = check->gap.size;
    return status;
}

static int take_record(timer_check *check, uint32_t file, int64_t at, const rp_timer_record *record) {
    int status = close_gap(check, true);
    const char *fault = link_fault(check, record);
    if (fault == NULL)
        fault = message_fault(check, record);
    if (status == RP_OK && fault != NULL)
        status = find_unreadable(check);
    if (status == RP_OK && fault != NULL)
        status = report(check, rp_file_row_path(check->timer_log, file), at, RP_TIMER_RECORD_SIZE, fault);
    check->end = rp_file_row_start(check->timer_log, file) + at + RP_TIMER_RECORD_SIZE;
    (*check->records)++;
    return status;
}

/* Checks what lies behind the last place of a file that is followed by another. */
static int check_blank(timer_check *check, uint32_t file, int64_t at, const uint8_t *bytes) {
    if (file + 1 == rp_file_row_count(check->timer_log) || check->gap.size > 0 || rp_timer_log_is_blank(bytes + at, check->file_size - at))
        return RP_OK;
    return report(check, rp_file_row_path(check->timer_log, file), at, RP_TIMER_BLANK_SIZE,
                  "the file's end is not marked: what lies in later files is not found");
}

static int check_log_file(timer_check *check, uint32_t file) {
    int64_t start = rp_file_row_start(check->timer_log, file), at = 0;
    const uint8_t *bytes = rp_file_row_at(check->timer_log, start, (uint64_t)check->file_size);
    int status = bytes == NULL ? find_unreadable(check) : RP_OK;
    for (; status == RP_OK && check->file_size - at >= TIMER_LOG_ROOM_MIN; at += RP_TIMER_RECORD_SIZE) {
        rp_timer_record record;
        status = rp_timer_record_decode(bytes + at, start + at, &record) ? take_record(check, file, at, &record)
                                                                         : take_gap(check, file, at, bytes + at);
    }
    if (status == RP_OK)
        status = check_blank(check, file, at, bytes);
    return status == RP_OK && check->gap.spoiled > 0 && check->gap.size > 0 ? close_gap(check, false) : status;
}

/* Returns what prevents the file's records from being checked, or NULL. */
static const char *row_fault(const timer_check *check, uint32_t file) {
    int64_t start = rp_file_row_start(check->timer_log, file), size = rp_file_row_size(check->timer_log, file);
    if (check->file_size < RP_TIMER_LOG_FILE_SIZE_MIN || check->file_size > INT32_MAX)
        return "no file of a timer log is as long";
    if (size != check->file_size)
        return "this timer log file is not as long as the first one";
    if (start % check->file_size != 0)
        return "the name of this timer log file does not go with its length";
    int64_t expected = file == 0 ? start : rp_file_row_start(check->timer_log, file - 1) + check->file_size;
    return start == expected ? NULL : "timer log files are missing before this one";
}

static int check_log(timer_check *check) {
    uint32_t count = rp_file_row_count(check->timer_log);
    int status = RP_OK;
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        const char *fault = row_fault(check, i);
        int64_t size = rp_file_row_size(check->timer_log, i);
        if (fault == NULL)
            status = check_log_file(check, i);
        else if (i + 1 < count || size > 0) /* a kill may leave an empty one at the end */
            status = report(check, rp_file_row_path(check->timer_log, i), -1, size, fault);
    }
    check->gap.size = 0; /* what remains is the log's end */
    return status;
}

/* ---- the wheel ---- */

/* For a wheel of unknown precision: the precision at which the time of a slot's last record falls into the slot. */
static int find_precision(timer_check *check, uint32_t index, const uint8_t *bytes) {
    wheel_slot slot;
    rp_timer_record record;
    if (!rp_timing_wheel_decode_slot(bytes, index, PRECISION_MS_MAX, &slot) || slot.units == 0 || !read_record(check, slot.last, &record))
        return RP_OK;
    int64_t precision_ms = (rp_timer_record_due_ms(&record) + slot.units / 2) / slot.units;
    if (check->precision_ms == 0 && precision_ms > 0 && precision_ms <= PRECISION_MS_MAX)
        check->precision_ms = (int32_t)precision_ms;
    return RP_OK;
}

/* RocketMQ's counts go wrong where it recovers. Ours were counted record by record and never below 0, or are the sum of a chain that was
 * cut. */
static bool is_counted_so(const timer_check *check, int32_t counted, int64_t sum, int64_t least) {
    int64_t grown = sum > least ? sum : least, whole = sum > 0 ? sum : 0;
    return check->checkpoint.precision_ms == 0 || counted == INT32_MAX || (counted >= whole && counted <= grown);
}

/* Walks the chain back. Returns what is wrong with the slot, or NULL. */
static const char *slot_fault(const timer_check *check, const wheel_slot *slot) {
    rp_timer_record record;
    int64_t sum = 0, least = 0; /* least: the count where it was last 0, going from the newest record */
    if (slot->last >= check->end)
        return "the slot points behind the timer log's last record";
    for (int64_t position = slot->last; position >= rp_file_row_min(check->timer_log); position = record.previous) {
        bool is_last = position == slot->last;
        if (!read_record(check, position, &record))
            return is_last ? "the slot points at no record" : NULL; /* otherwise the log's pass has reported it */
        if (!is_of_slot(check, &record, slot->units))
            return is_last ? "the slot points at a record of another time" : NULL;
        least = sum > least ? sum : least;
        sum += (record.magic & RP_TIMER_DELETE) != 0 ? -1 : 1;
        if (record.previous == RP_TIMER_NO_POSITION)
            return is_counted_so(check, slot->count, sum, least) ? NULL : "the slot counts another number of messages than its chain has";
    }
    return NULL; /* the rest was removed with its file */
}

static int check_slot(timer_check *check, uint32_t index, const uint8_t *bytes) {
    wheel_slot slot;
    int32_t precision_ms = check->precision_ms > 0 ? check->precision_ms : PRECISION_MS_MAX;
    bool is_sound = rp_timing_wheel_decode_slot(bytes, index, precision_ms, &slot);
    if (is_sound && (slot.units == 0 || slot.units < check->checkpoint.read_time_ms / precision_ms))
        return RP_OK; /* empty, or past */
    const char *fault = is_sound ? slot_fault(check, &slot) : "no wheel has such a slot here";
    (*check->slots)++;
    if (fault == NULL)
        return RP_OK;
    check->has_odd_slots = true;
    int status = find_unreadable(check);
    if (status != RP_OK)
        return status;
    return report(check, check->wheel_path, (int64_t)index * RP_TIMING_WHEEL_SLOT_SIZE, RP_TIMING_WHEEL_SLOT_SIZE, fault);
}

typedef int (*visit_slot)(timer_check *check, uint32_t index, const uint8_t *bytes);

static int unreadable(const timer_check *check, const char *what) {
    return rp_error_set(check->error, rp_status_from_errno(errno), errno, check->wheel_path, -1, "cannot %s the timing wheel: %s", what,
                        strerror(errno));
}

static int visit_slots(timer_check *check, int fd, uint8_t *piece, visit_slot visit) {
    int status = RP_OK;
    for (int64_t offset = 0; status == RP_OK && (offset = rp_file_next_data(fd, offset, WHEEL_SIZE)) < WHEEL_SIZE; offset += PIECE_SIZE) {
        offset -= offset % PIECE_SIZE;
        ssize_t got = pread(fd, piece, PIECE_SIZE, offset);
        if (got < 0)
            return unreadable(check, "read");
        for (int64_t at = 0; status == RP_OK && at + RP_TIMING_WHEEL_SLOT_SIZE <= got; at += RP_TIMING_WHEEL_SLOT_SIZE)
            status = visit(check, (uint32_t)((offset + at) / RP_TIMING_WHEEL_SLOT_SIZE), piece + at);
    }
    return status;
}

static int check_wheel_length(timer_check *check, int fd, bool *is_whole) {
    off_t size = lseek(fd, 0, SEEK_END);
    *is_whole = size == WHEEL_SIZE;
    if (size < 0)
        return unreadable(check, "measure");
    check->has_wheel = size > 0; /* a kill leaves a new wheel without length */
    return *is_whole || size == 0 ? RP_OK
                                  : report(check, check->wheel_path, -1, (int64_t)size, "the timing wheel is not as long as a wheel is");
}

static int read_wheel(timer_check *check, visit_slot visit, bool checks_length) {
    int fd = open(check->wheel_path, O_RDONLY | O_CLOEXEC), status = RP_OK;
    bool is_whole = false;
    check->has_wheel = fd >= 0;
    if (fd < 0)
        return errno == ENOENT ? RP_OK : unreadable(check, "open");
    uint8_t *piece = malloc(PIECE_SIZE);
    if (piece == NULL)
        status = rp_error_set(check->error, RP_E_NO_MEMORY, ENOMEM, check->wheel_path, -1, "no memory to read the timing wheel");
    else if (checks_length)
        status = check_wheel_length(check, fd, &is_whole);
    if (status == RP_OK && (is_whole || !checks_length))
        status = visit_slots(check, fd, piece, visit);
    free(piece);
    close(fd);
    return status;
}

/* ---- the checkpoint ---- */

static int report_checkpoint(const timer_check *check, int64_t offset, int64_t size, const char *cause) {
    return report(check, check->checkpoint_path, offset, size, cause);
}

static int read_checkpoint(timer_check *check) {
    int status = rp_timer_checkpoint_read(rp_file_ops_system(), check->checkpoint_path, &check->checkpoint, check->error);
    int64_t size = rp_path_file_size(check->checkpoint_path);
    if (status == RP_OK && size > 0 && size != RP_TIMER_CHECKPOINT_SIZE) /* size 0 counts as absent: a kill leaves a new file so */
        status = report_checkpoint(check, -1, size, "the checkpoint of timed messages is not as long as it has to be");
    for (int64_t at = 0; status == RP_OK && check->checkpoint.is_there && at < CHECKED_LONGS * 8; at += 8)
        if ((int64_t)rp_get_u64(check->checkpoint.foreign + at) < 0)
            status = report_checkpoint(check, at, 8, "a time or position of the checkpoint is below 0");
    check->precision_ms = check->checkpoint.precision_ms;
    return status;
}

/* The largest position that means no more than the log's end: the end of a full file and the begin of the next are the same. */
static int64_t furthest_end(const timer_check *check) {
    int64_t left = check->file_size - check->end % check->file_size;
    return left < TIMER_LOG_ROOM_MIN ? check->end + left : check->end;
}

/* Checks what a clean stop of ours left, if nobody has written since. */
static int check_clean_stop(timer_check *check) {
    const rp_timer_checkpoint *checkpoint = &check->checkpoint;
    rp_timing_wheel *wheel;
    if (checkpoint->precision_ms == 0 || checkpoint->log_end < 0 || check->has_odd_slots)
        return RP_OK;
    if (checkpoint->log_end < check->end)
        return report_checkpoint(check, 0, 0, "the timer log goes on behind where the last stop ended it");
    int status = check->has_wheel ? rp_timing_wheel_open(NULL, check->wheel_path, checkpoint->precision_ms, &wheel, check->error) : RP_OK;
    if (status != RP_OK || !check->has_wheel)
        return status;
    bool is_same = rp_timing_wheel_is_new(wheel) || rp_timing_wheel_crc(wheel) == (uint32_t)checkpoint->wheel_crc;
    rp_timing_wheel_close(wheel);
    return is_same ? RP_OK : report(check, check->wheel_path, -1, 0, "the timing wheel is not as the last stop left it");
}

static int check_checkpoint(timer_check *check) {
    const rp_timer_checkpoint *checkpoint = &check->checkpoint;
    int status = RP_OK;
    if (checkpoint->log_flushed_position > 0 && rp_file_row_count(check->timer_log) == 0)
        status = report(check, check->log_path, -1, 0, "the timer log is missing");
    else if (checkpoint->log_flushed_position > furthest_end(check))
        status = report_checkpoint(check, 8, 8, "the checkpoint says more of the timer log is on disk than there is");
    if (status == RP_OK && checkpoint->log_flushed_position > 0 && !check->has_wheel)
        status = report(check, check->wheel_path, -1, 0, "the timing wheel is missing");
    if (status == RP_OK && check->options->queue_end >= 0 && checkpoint->queue_offset > check->options->queue_end)
        status = report_checkpoint(check, 16, 8, "the checkpoint says more of the timer queue was entered than there is");
    return status == RP_OK ? check_clean_stop(check) : status;
}

/* ---- all of it ---- */

static int find_paths(timer_check *check) {
    char config[RP_PATH_MAX];
    const char *root = check->options->root_path;
    int status = rp_path_join(config, root, "config", check->error);
    status = status == RP_OK ? rp_path_join(check->checkpoint_path, config, "timercheck", check->error) : status;
    status = status == RP_OK ? rp_path_join(check->log_path, root, "timerlog", check->error) : status;
    return status == RP_OK ? rp_path_join(check->wheel_path, root, "timerwheel", check->error) : status;
}

static int check_all(timer_check *check) {
    int64_t first = rp_file_row_count(check->timer_log) > 0 ? rp_file_row_size(check->timer_log, 0) : 0;
    check->file_size = first > 0 ? first : RP_TIMER_LOG_FILE_SIZE;
    int status = read_checkpoint(check);
    if (status == RP_OK && check->precision_ms == 0)
        status = read_wheel(check, find_precision, false);
    status = status == RP_OK ? check_log(check) : status;
    status = status == RP_OK ? read_wheel(check, check_slot, true) : status;
    return status == RP_OK ? check_checkpoint(check) : status;
}

int rp_timer_check(const rp_timer_check_options *options, uint64_t *records, uint64_t *slots, rp_error *error) {
    timer_check *check = calloc(1, sizeof *check);
    if (check == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, options->root_path, -1, "no memory to check the files of timed messages");
    check->options = options;
    check->error = error;
    check->records = records;
    check->slots = slots;
    int status = find_paths(check);
    if (status == RP_OK)
        status = rp_file_row_open(check->log_path, &check->timer_log, error);
    if (status == RP_OK)
        status = check_all(check);
    rp_file_row_close(check->timer_log);
    free(check);
    return status;
}
