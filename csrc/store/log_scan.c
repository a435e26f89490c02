/* log_scan.c: see log_scan.h. */
#include "log_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/clock.h"
#include "../base/file_ops.h"
#include "../base/page_inl.h"
#include "file_row.h"
#include "ledger_entry.h"
#include "message_layout_inl.h"
#include "store_path.h"

#define DROP_BEHIND_BYTES (64u << 20)
/* How long to wait for bytes that may just be being written: another process does not announce that it has written them. */
#define TAIL_PATIENCE_NS 100000000

struct rp_log_scan {
    int fd;
    uint8_t *map;
    uint64_t map_size;
    int64_t file_start;
    uint64_t position, end; /* in the file */
    uint64_t dropped;       /* pages below it were given back to the kernel */
    uint64_t looked_end;    /* bytes behind it may have been written since, hidden by stand-ins */
    bool has_stand_ins;     /* stand-ins replace holes: they are checked again before anything is called damaged */
    int check_crc;
    int ended_unwritten;
    int is_synced; /* position is at a record's start, or behind the last record */
    int tail; /* rp_scan_tail */
};

static int map_whole(rp_log_scan *scan, const char *path, rp_error *error) {
    int fd = scan->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rp_error_set(error, errno == ENOENT ? RP_E_NOT_FOUND : rp_status_from_errno(errno), errno, path, -1,
                            "cannot open the commit log file: %s", strerror(errno));
    struct stat info;
    int status = RP_OK;
    if (fstat(fd, &info) < 0)
        status = rp_error_set(error, RP_E_IO, errno, path, -1, "cannot look at the commit log file: %s", strerror(errno));
    scan->map_size = status == RP_OK ? (uint64_t)info.st_size : 0;
    if (scan->map_size > 0) {
        void *map = rp_map_to_read(fd, scan->map_size, &scan->has_stand_ins);
        if (map == MAP_FAILED) {
            status =
                rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot map the commit log file: %s", strerror(errno));
        } else {
            scan->map = map;
            (void)madvise(map, scan->map_size, MADV_SEQUENTIAL); /* speed only */
        }
    }
    return status;
}

int rp_log_scan_open(const char *path, int64_t begin_offset, int64_t end_offset, int check_crc, rp_log_scan **opened, rp_error *error) {
    const char *name = strrchr(path, '/');
    int64_t start = rp_path_offset_of_name(name == NULL ? path : name + 1);
    if (start < 0)
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "a commit log file is named by its start offset in %d digits",
                            RP_FILE_NAME_DIGITS);
    rp_log_scan *scan = calloc(1, sizeof *scan);
    if (scan == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, path, -1, "no memory for a log scan");
    scan->fd = -1;
    int status = map_whole(scan, path, error);
    if (status == RP_OK && scan->map_size > (uint64_t)(INT64_MAX - start))
        status = rp_error_set(error, RP_E_CORRUPT, 0, path, -1, "no store reaches the offset in the file's name: move it away");
    if (status < 0) {
        rp_log_scan_close(scan);
        return status;
    }
    scan->file_start = start;
    scan->check_crc = check_crc;
    scan->position = begin_offset <= start ? 0 : (uint64_t)(begin_offset - start);
    scan->is_synced = scan->position == 0;
    scan->end = end_offset <= start ? 0 : (uint64_t)end_offset - (uint64_t)start;
    if (scan->end > scan->map_size)
        scan->end = scan->map_size;
    *opened = scan;
    return RP_OK;
}

void rp_log_scan_close(rp_log_scan *scan) {
    if (scan == NULL)
        return;
    if (scan->map != NULL)
        munmap(scan->map, scan->map_size);
    if (scan->fd >= 0)
        close(scan->fd);
    free(scan);
}

/* Returns the size of the head before the record at position: 0, or that of a DLedger entry. No record begins like such a head, so the
 * kind of the log need not be known; a head that names another place does not count. */
static uint64_t head_size_at(const rp_log_scan *scan, uint64_t position) {
    rp_ledger_entry entry;
    return rp_ledger_entry_decode(scan->map + position, scan->map_size - position, &entry) == RP_LEDGER_ENTRY &&
                   entry.position == scan->file_start + (int64_t)position
               ? RP_LEDGER_HEAD_SIZE
               : 0;
}

/* Decodes what lies at position: an rp_record_kind or RP_E_CORRUPT. */
static int decode_at(const rp_log_scan *scan, uint64_t position, rp_message *message, rp_error *error) {
    rp_ledger_entry blank;
    if (rp_ledger_entry_decode(scan->map + position, scan->map_size - position, &blank) == RP_LEDGER_BLANK) {
        message->size = blank.size;
        return RP_RECORD_BLANK;
    }
    position += head_size_at(scan, position);
    int kind = rp_message_decode(scan->map + position, scan->map_size - position, scan->check_crc, message, error);
    if (kind != RP_RECORD_MESSAGE)
        return kind;
    int64_t expected = scan->file_start + (int64_t)position;
    if (message->physical_offset != expected)
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, expected, "the record says it lies at offset %lld",
                            (long long)message->physical_offset);
    return kind;
}

static uint64_t behind(const rp_log_scan *scan, const rp_message *message) {
    return (uint64_t)(message->physical_offset - scan->file_start) + message->size;
}

/* A cheap check before a full decode: could a record start here? */
static int may_start(const rp_log_scan *scan, uint64_t position) {
    const uint8_t *data = scan->map + position;
    uint32_t magic = rp_get_u32(data + RP_AT_MAGIC);
    if (magic != RP_MESSAGE_MAGIC_V1 && magic != RP_MESSAGE_MAGIC_V2)
        return 0;
    return (int64_t)rp_get_u64(data + RP_AT_PHYSICAL_OFFSET) == scan->file_start + (int64_t)position;
}

/* Returns the next good record at or after position and before end; end if there is none. */
static uint64_t find_record(const rp_log_scan *scan, uint64_t position, uint64_t end) {
    while (position < end && scan->map_size - position >= RP_RECORD_SIZE_MIN) {
        /* Every magic starts with this byte, so memchr does the walking. */
        uint64_t left = end - position, room = scan->map_size - position - RP_AT_MAGIC;
        const uint8_t *hit = memchr(scan->map + position + RP_AT_MAGIC, 0xDA, left < room ? left : room);
        if (hit == NULL)
            return end;
        uint64_t candidate = (uint64_t)(hit - scan->map) - RP_AT_MAGIC;
        if (scan->map_size - candidate < RP_RECORD_SIZE_MIN)
            return end;
        rp_message message;
        if (may_start(scan, candidate) && decode_at(scan, candidate, &message, NULL) == RP_RECORD_MESSAGE)
            return candidate;
        position = candidate + 1;
    }
    return end;
}

/* Returns the first record of the range. A record whose entry begins before the range belongs to the range before. */
static uint64_t find_own_record(const rp_log_scan *scan, uint64_t position) {
    uint64_t found = find_record(scan, position, scan->end);
    rp_message message;
    if (found < scan->end && found - position < RP_LEDGER_HEAD_SIZE && found >= RP_LEDGER_HEAD_SIZE &&
        head_size_at(scan, found - RP_LEDGER_HEAD_SIZE) != 0 && decode_at(scan, found, &message, NULL) == RP_RECORD_MESSAGE)
        found = behind(scan, &message);
    return found;
}

static int is_zero(const uint8_t *data, uint64_t size) { return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0); }

/* Skips holes without reading them: they are most of a live log. */
static int rest_is_zero(const rp_log_scan *scan, uint64_t position) {
    while (position < scan->end) {
        uint64_t begin = (uint64_t)rp_file_next_data(scan->fd, (int64_t)position, (int64_t)scan->end);
        uint64_t end = (uint64_t)rp_file_next_hole(scan->fd, (int64_t)begin, (int64_t)scan->end);
        if (end == position) /* no progress: written to meanwhile */
            end = scan->end;
        if (!is_zero(scan->map + begin, end - begin))
            return 0;
        position = end;
    }
    return 1;
}

/* A broker may have written there since. If that cannot be mapped, what was seen so far counts. */
static void look_again(rp_log_scan *scan) {
    if (!scan->has_stand_ins)
        return;
    uint64_t end = (uint64_t)rp_file_next_hole(scan->fd, (int64_t)scan->position, (int64_t)scan->map_size); /* read first: it only grows */
    if (rp_map_data(scan->fd, scan->map, (int64_t)scan->position, (int64_t)scan->map_size))
        scan->looked_end = end;
}

/* Decodes what lies at position, where no byte is a stand-in: if its first bytes are visible, all its pages are. */
static int decode_here(rp_log_scan *scan, rp_message *message, rp_error *error) {
    int kind = decode_at(scan, scan->position, message, error);
    if (!scan->has_stand_ins || (kind == RP_RECORD_MESSAGE && behind(scan, message) <= scan->looked_end))
        return kind;
    look_again(scan);
    return decode_at(scan, scan->position, message, error);
}

/* Decodes the record at position again; a broker may have written only a part of it at the first try. If a good record lies behind it,
 * it was complete before that one was found; otherwise it is retried for a while. */
static int is_good_now(rp_log_scan *scan, uint64_t next, rp_message *message) {
    int may_grow = scan->tail == RP_TAIL_LIVE && next == scan->end;
    int64_t give_up_ns = rp_clock_monotonic_ns(NULL) + TAIL_PATIENCE_NS;
    int kind = decode_here(scan, message, NULL);
    while (kind != RP_RECORD_MESSAGE && may_grow && rp_clock_monotonic_ns(NULL) < give_up_ns) {
        sched_yield();
        kind = decode_here(scan, message, NULL);
    }
    return kind == RP_RECORD_MESSAGE;
}

static int report_damage(rp_log_scan *scan, const char *cause, rp_message *message, rp_scan_damage *damage) {
    look_again(scan);
    uint64_t next = find_record(scan, scan->position + 1, scan->end);
    if (is_good_now(scan, next, message)) {
        scan->position = behind(scan, message);
        return RP_SCAN_MESSAGE;
    }
    damage->offset = scan->file_start + (int64_t)scan->position;
    damage->size = (int64_t)(next - scan->position);
    snprintf(damage->cause, sizeof damage->cause, "%s", cause);
    scan->position = next;
    scan->is_synced = next < scan->end; /* otherwise the damage continues behind the range */
    return RP_SCAN_DAMAGE;
}

/* Pages that were read are not needed again: inspecting a 100 GB store must not fill the host's memory. */
static void drop_behind(rp_log_scan *scan) {
    if (scan->position - scan->dropped < 2 * DROP_BEHIND_BYTES)
        return;
    uint64_t target = (uint64_t)rp_page_begin((int64_t)(scan->position - DROP_BEHIND_BYTES));
    /* Frees memory only: the bytes are read again when touched. */
    (void)madvise(scan->map + scan->dropped, target - scan->dropped, MADV_DONTNEED);
    scan->dropped = target;
}

/* The reader of the next range starts at its first good record, so damage between that and the last record of this range is reported
 * here. */
static int check_border(rp_log_scan *scan, rp_scan_damage *damage) {
    if (scan->tail != RP_TAIL_FOLLOWED || !scan->is_synced || scan->position >= scan->map_size)
        return RP_SCAN_END;
    scan->tail = RP_TAIL_UNKNOWN;
    look_again(scan);
    rp_message message;
    rp_error error;
    int kind = decode_at(scan, scan->position, &message, &error);
    if (kind == RP_RECORD_MESSAGE || (kind == RP_RECORD_BLANK && scan->position + message.size == scan->map_size))
        return RP_SCAN_END;
    damage->offset = scan->file_start + (int64_t)scan->position;
    damage->size = (int64_t)(find_record(scan, scan->position + 1, scan->map_size) - scan->position);
    snprintf(damage->cause, sizeof damage->cause, "%s", kind < 0 ? error.message : "no record where one should be");
    return RP_SCAN_DAMAGE;
}

int rp_log_scan_next(rp_log_scan *scan, rp_message *message, rp_scan_damage *damage) {
    if (!scan->is_synced && scan->position < scan->end) {
        scan->position = find_own_record(scan, scan->position);
        scan->is_synced = scan->position < scan->end;
    }
    if (scan->position >= scan->end)
        return check_border(scan, damage);
    drop_behind(scan);
    rp_error error;
    int kind = decode_here(scan, message, &error);
    if (kind == RP_RECORD_MESSAGE) {
        scan->position = behind(scan, message);
        return RP_SCAN_MESSAGE;
    }
    if (kind < 0)
        return report_damage(scan, error.message, message, damage);
    if (kind == RP_RECORD_BLANK) {
        if (scan->position + message->size != scan->map_size)
            return report_damage(scan, "padding that does not end with the file", message, damage);
        scan->position = scan->map_size;
        return RP_SCAN_END;
    }
    if (scan->tail == RP_TAIL_FOLLOWED || !rest_is_zero(scan, scan->position))
        return report_damage(scan, "zero bytes where a record should be", message, damage);
    scan->ended_unwritten = 1;
    scan->position = scan->end;
    return RP_SCAN_END;
}

int64_t rp_log_scan_offset(const rp_log_scan *scan) { return scan->file_start + (int64_t)scan->position; }
int rp_log_scan_has_entries(const rp_log_scan *scan) { return head_size_at(scan, 0) != 0; }
int64_t rp_log_scan_file_start(const rp_log_scan *scan) { return scan->file_start; }
void rp_log_scan_set_tail(rp_log_scan *scan, enum rp_scan_tail tail) { scan->tail = (int)tail; }
int rp_log_scan_ended_unwritten(const rp_log_scan *scan) { return scan->ended_unwritten; }
