/* log_cursor.c: see log_cursor.h. */
#include "log_cursor.h"

#include <stdbool.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "ledger_entry.h"
#include "mapped_file_inl.h"
#include "message_layout_inl.h"

#define MAGIC_FIRST_BYTE 0xDA /* first byte of every magic */

static int64_t file_end(const rp_mapped_file *file) { return file->base_offset + (int64_t)file->size; }

static int enter_file(rp_log_cursor *cursor, int64_t offset, rp_error *error) {
    if (cursor->file != NULL && offset >= cursor->file->base_offset && offset < file_end(cursor->file)) {
        return RP_OK;
    }
    rp_log_cursor_leave(cursor);
    if (offset < rp_mapped_file_queue_begin(cursor->row) || offset >= rp_mapped_file_queue_end(cursor->row)) {
        return RP_E_RANGE;
    }
    cursor->file = rp_mapped_file_queue_find(cursor->row, offset, error);
    return cursor->file != NULL ? RP_OK : RP_E_IO;
}

int rp_log_cursor_move(rp_log_cursor *cursor, int64_t offset, rp_error *error) {
    int rc = enter_file(cursor, offset, error);
    if (rc == RP_OK && (offset < cursor->data_begin || offset >= cursor->data_end)) {
        const rp_mapped_file *file = cursor->file;
        cursor->data_begin = offset;
        cursor->data_end = file->base_offset + rp_file_next_hole(file->fd, offset - file->base_offset, (int64_t)file->size);
    }
    return rc;
}

int rp_log_cursor_decode(const rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error) {
    const rp_mapped_file *file = cursor->file;
    uint64_t at = (uint64_t)(offset - file->base_offset), left = file->size - at;
    if (left < RP_MESSAGE_BLANK_SIZE_MIN) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, offset, "no room for a record before the end of the file");
    }
    const uint8_t *record = rp_mapped_file_address(file) + at;
    uint8_t head[RP_MESSAGE_BLANK_SIZE_MIN] = {0};
    if (cursor->data_end - offset < (int64_t)sizeof head) { /* zeros of the hole cannot complete a magic, so checking the head suffices */
        memcpy(head, record, (size_t)(cursor->data_end - offset));
        record = head;
    }
    int kind = rp_message_decode(record, left, check_crc, message, error);
    if (kind == RP_RECORD_BLANK && message->size != left) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, offset, "padding of %u bytes does not end with its file", message->size);
    }
    if (kind == RP_RECORD_MESSAGE && message->physical_offset != offset) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, offset, "record says it lies at %lld", (long long)message->physical_offset);
    }
    return kind;
}

static int step_entry(rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error) {
    const rp_mapped_file *file = cursor->file;
    uint64_t left = file->size - (uint64_t)(offset - file->base_offset);
    uint8_t head[RP_LEDGER_HEAD_SIZE] = {0}; /* zeros stand for a hole, which is not read */
    int64_t there = cursor->data_end - offset;
    memcpy(head, rp_mapped_file_address(file) + (offset - file->base_offset), there < RP_LEDGER_HEAD_SIZE ? (size_t)there : sizeof head);
    rp_ledger_entry entry;
    int kind = rp_ledger_entry_decode(head, left, &entry);
    if (kind == RP_LEDGER_END) {
        return RP_RECORD_END;
    }
    if (kind == RP_LEDGER_BLANK && entry.size == left) {
        memset(message, 0, sizeof *message);
        message->size = entry.size;
        return RP_RECORD_BLANK;
    }
    bool follows = cursor->last_term == 0 || (entry.index == cursor->last_index + 1 && entry.term >= cursor->last_term);
    if (kind != RP_LEDGER_ENTRY || entry.position != offset || !follows || there < RP_LEDGER_HEAD_SIZE + RP_RECORD_SIZE_MIN) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, offset,
                            "no entry of the log, or one that does not follow entry %lld of term %lld", (long long)cursor->last_index,
                            (long long)cursor->last_term);
    }
    int record = rp_log_cursor_decode(cursor, offset + RP_LEDGER_HEAD_SIZE, check_crc, message, error);
    if (record != RP_RECORD_MESSAGE || message->size + RP_LEDGER_HEAD_SIZE != entry.size) {
        return record < 0 ? record
                          : rp_error_set(error, RP_E_CORRUPT, 0, NULL, offset, "entry %lld holds no record", (long long)entry.index);
    }
    cursor->last_index = entry.index;
    cursor->last_term = entry.term;
    return RP_RECORD_MESSAGE;
}

int rp_log_cursor_step(rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error) {
    return cursor->has_entries ? step_entry(cursor, offset, check_crc, message, error)
                               : rp_log_cursor_decode(cursor, offset, check_crc, message, error);
}

/* Could a record begin here? A cheap check before decoding; the answer is nearly always no. */
static int may_begin(const uint8_t *record, int64_t offset) {
    uint32_t magic = rp_get_u32(record + RP_AT_MAGIC);
    return (magic == RP_MESSAGE_MAGIC_V1 || magic == RP_MESSAGE_MAGIC_V2) && (int64_t)rp_get_u64(record + RP_AT_PHYSICAL_OFFSET) == offset;
}

/* Finds the first record at or behind *offset within the stretch of bytes that the cursor is in. False: there is none, and *offset is
 * its end. */
static int find_in_stretch(const rp_log_cursor *cursor, int64_t *offset, int check_crc, rp_message *message) {
    const uint8_t *base = rp_mapped_file_address(cursor->file);
    int64_t start = cursor->file->base_offset, last = cursor->data_end - RP_RECORD_SIZE_MIN;
    for (int64_t at = *offset; at <= last; at++) {
        const uint8_t *hit = memchr(base + (at - start) + RP_AT_MAGIC, MAGIC_FIRST_BYTE, (size_t)(last - at) + 1);
        if (hit == NULL) {
            break;
        }
        at = start + (hit - base) - RP_AT_MAGIC;
        if (may_begin(base + (at - start), at) && rp_log_cursor_decode(cursor, at, check_crc, message, NULL) == RP_RECORD_MESSAGE) {
            *offset = at;
            return 1;
        }
    }
    *offset = cursor->data_end;
    return 0;
}

int rp_log_cursor_find(rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error) {
    for (;;) {
        int rc = rp_log_cursor_move(cursor, offset, error);
        if (rc != RP_OK) {
            return rc;
        }
        int64_t start = cursor->file->base_offset, before = offset;
        if (find_in_stretch(cursor, &offset, check_crc, message)) {
            return rp_log_cursor_move(cursor, offset, error);
        }
        offset = start + rp_file_next_data(cursor->file->fd, offset - start, (int64_t)cursor->file->size);
        offset = offset > before ? offset : file_end(cursor->file); /* no progress: a file system that reports no holes */
    }
}

void rp_log_cursor_leave(rp_log_cursor *cursor) {
    if (cursor->file != NULL) {
        rp_mapped_file_release(cursor->file);
    }
    cursor->file = NULL;
    cursor->data_begin = cursor->data_end = 0;
}
