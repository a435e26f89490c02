/* log_cursor.h: the place in the commit log at which recovery reads: the pinned file that holds it, and how far that file has data.
 * Private to csrc/store.
 *
 * Holes    a hole reads as zeros, so no record begins in one. Holes are not read through the map: on a tmpfs a read allocates a page,
 *          and if no page is left it is a SIGBUS.
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
    int64_t data_begin, data_end; /* log offsets: the file has data between them; at data_end a hole begins, or the file ends */
    int32_t has_entries;          /* fixed: records stand behind heads (ledger_entry.h) */
    int64_t last_index, last_term; /* of the last entry passed, which the next one has to follow; last_term 0: any entry may follow */
} rp_log_cursor;

/* Moves to the file that holds offset. RP_OK; RP_E_RANGE: there is none; RP_E_IO: it cannot be opened, error says why. */
int rp_log_cursor_move(rp_log_cursor *cursor, int64_t offset, rp_error *error);
/* Decodes what lies at offset, to which the cursor was moved: as rp_message_decode. RP_E_CORRUPT also for a record that claims another
 * place, and for padding that does not end with its file. */
int rp_log_cursor_decode(const rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error);
/* As rp_log_cursor_decode, for a caller that steps from record to record. In a log with entries, offset is that of a head, the record
 * lies behind it (message->physical_offset), and the entry has to follow the last one: the next index, and a term that is not lower. */
int rp_log_cursor_step(rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error);
/* Finds the first whole record at or behind offset, whatever is before it, trying every byte outside of holes. RP_OK: the cursor is at
 * it; RP_E_RANGE: there is none; RP_E_IO: a file cannot be opened, error says why. */
int rp_log_cursor_find(rp_log_cursor *cursor, int64_t offset, int check_crc, rp_message *message, rp_error *error);
/* Releases the pin. */
void rp_log_cursor_leave(rp_log_cursor *cursor);

#endif
