/* log_cursor.h: a place in the commit log that recovery reads at: the file that holds it, pinned, and how far that file has bytes.
 * Private to csrc/store.
 *
 * Holes    a hole reads as zeros, so no record begins in one, and none is looked at through the map: on a tmpfs the look makes a page of
 *          it, and where no page is left it is a SIGBUS.
 * Threads  one owner. Borrows the row, which must outlive it.
 */
#ifndef RP_STORE_LOG_CURSOR_H
#define RP_STORE_LOG_CURSOR_H

#include <stdint.h>

#include "../base/error.h"
#include "mapped_file_queue.h"
#include "message.h"

typedef struct rp_log_cursor {
    rp_mapped_file_queue *row;    /* fixed */
    rp_mapped_file *file;         /* pinned; NULL at first */
    int64_t data_begin, data_end; /* log offsets: the file has bytes between them; at data_end a hole begins, or the file ends */
    int32_t has_entries;          /* fixed: records stand behind heads (ledger_entry.h) */
    int64_t last_index, last_term; /* of the last entry stepped over: the next one has to follow it; last_term 0: any entry may follow */
} rp_log_cursor;

/* To the file that holds offset. RP_OK; RP_E_RANGE: there is none; RP_E_IO: it cannot be opened, error says why. */
int rp_log_cursor_move(rp_log_cursor *cursor, int64_t offset, rp_error *error);
/* What lies at offset, to which the cursor was moved: as rp_message_decode. RP_E_CORRUPT also for a record that says it lies elsewhere and
 * for padding that does not end with its file. */
int rp_log_cursor_decode(const rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error);
/* The same for whoever goes from record to record: of a log with entries offset is a head's, the record lies behind it
 * (message->physical_offset), and the entry has to follow the last one: index by index, terms that do not fall. */
int rp_log_cursor_step(rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error);
/* The first whole record that lies at or behind offset, whatever is before it: bytes are looked at one by one, holes are not. RP_OK, and
 * the cursor is at it; RP_E_RANGE: there is none; RP_E_IO: a file cannot be opened, error says why. */
int rp_log_cursor_find(rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error);
/* Gives the pin back. */
void rp_log_cursor_leave(rp_log_cursor *cursor);

#endif
