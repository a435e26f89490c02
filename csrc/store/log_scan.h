/* log_scan.h: reads one commit log file from outside the store, record by record, past any damage. For tools and Spark, on a stopped,
 * running or copied store of either product.
 *
 * In a DLedger log, heads (ledger_entry.h) are stepped over; a record begins where its head does.
 * A record counts if its sizes agree, its CRC is right and its physical offset is where it lies. After a damaged place the scan searches
 * for the next bytes that satisfy this, and reports the stretch between as one damage.
 *
 * Threads  one owner. Owns the descriptor and a read-only mapping. Messages that it returns point into the mapping until close.
 * Bounds   reads a byte at most three times (zeros, the search behind damage, the record). Never reads past the file's length at open; a
 *          caller must not let the file be shortened meanwhile (copy it first).
 */
#ifndef RP_STORE_LOG_SCAN_H
#define RP_STORE_LOG_SCAN_H

#include <stdint.h>

#include "../base/error.h"
#include "message.h"

typedef struct rp_log_scan rp_log_scan;

enum rp_scan_kind {
    RP_SCAN_END = 0,     /* the range is done: end of the file or range, padding, or unwritten space */
    RP_SCAN_MESSAGE = 1, /* message is filled */
    RP_SCAN_DAMAGE = 2   /* damage is filled; continue calling */
};

enum rp_scan_tail {
    RP_TAIL_UNKNOWN = 0,
    /* Records lie behind the range, in this file or a later one: zero bytes before them are damage, and so are bytes between
     * the range's last record and the first of these */
    RP_TAIL_FOLLOWED = 1,
    /* A broker may be writing there: bytes that are no record count as damage only if they stay so for a tenth of a second. */
    RP_TAIL_LIVE = 2
};

typedef struct rp_scan_damage {
    int64_t offset; /* physical, where it starts */
    int64_t size; /* bytes until the next good record or the end of the range */
    char cause[RP_ERROR_MESSAGE_MAX];
} rp_scan_damage;

/* Opens a file whose name is its 20-digit start offset. Reads the records that start in begin_offset..end_offset-1 (physical offsets;
 * INT64_MIN..INT64_MAX for all). begin_offset may lie inside a record: that record belongs to the range before. RP_OK; RP_E_INVALID: the
 * name is not an offset; RP_E_CORRUPT: no store reaches that offset; RP_E_NOT_FOUND; RP_E_IO. */
int rp_log_scan_open(const char *path, int64_t begin_offset, int64_t end_offset, int check_crc, rp_log_scan **scan, rp_error *error);
void rp_log_scan_close(rp_log_scan *scan);
/* Returns an rp_scan_kind and fills message or damage. */
int rp_log_scan_next(rp_log_scan *scan, rp_message *message, rp_scan_damage *damage);
int64_t rp_log_scan_offset(const rp_log_scan *scan); /* physical offset of the next byte to look at */
/* 1 if the file begins with an entry of DLedger. */
int rp_log_scan_has_entries(const rp_log_scan *scan);
int64_t rp_log_scan_file_start(const rp_log_scan *scan); /* the offset in the file's name */
/* 1 if the range ended at zero bytes, rather than at padding or its own end: that is how a log looks where it was last written. */
int rp_log_scan_ended_unwritten(const rp_log_scan *scan);
/* Says what is known of the range's end. Call it before the first rp_log_scan_next. */
void rp_log_scan_set_tail(rp_log_scan *scan, enum rp_scan_tail tail);

#endif
