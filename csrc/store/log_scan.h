/* log_scan.h: reads one commit log file from outside, record by record, past any damage. For tools and Spark, on a stopped,
 * running or copied store of either product.
 *
 * The log may be DLedger's: heads (ledger_entry.h) are stepped over, a record begins where its head does.
 * A record counts when its sizes agree, its CRC is right and its physical offset is where it lies. After a damaged place the scan
 * looks for the next bytes for which all of that holds, and reports the stretch between as one damage.
 *
 * Threads  one owner. Owns: descriptor and mapping (read-only). Messages it hands out point into the mapping until close.
 * Bounds   looks at a byte at most three times (zeros, the search behind damage, the record). Never reads past the file as it was at open;
 *          a file cut while it is read is the caller's to prevent (copy it first).
 */
#ifndef RP_STORE_LOG_SCAN_H
#define RP_STORE_LOG_SCAN_H

#include <stdint.h>

#include "../base/error.h"
#include "message.h"

typedef struct rp_log_scan rp_log_scan;

enum rp_scan_kind {
    RP_SCAN_END = 0,     /* the range is done: end of file or range, padding, or nothing written from here on */
    RP_SCAN_MESSAGE = 1, /* message is filled */
    RP_SCAN_DAMAGE = 2   /* damage is filled; go on calling */
};

enum rp_scan_tail {
    RP_TAIL_UNKNOWN = 0,
    RP_TAIL_FOLLOWED = 1, /* records lie behind it, in this file or a later one: zero bytes up to it are damage, and so is what does not go
                           * on behind its last record */
    RP_TAIL_LIVE = 2 /* a broker may be writing there: what is not a record counts as damage when it stays so for a tenth of a second */
};

typedef struct rp_scan_damage {
    int64_t offset; /* physical, where it starts */
    int64_t size; /* bytes until the next good record or the end of the range */
    char cause[RP_ERROR_MESSAGE_MAX];
} rp_scan_damage;

/* path ends in the file's 20-digit start offset. Records that start in begin_offset..end_offset-1 (physical) are read; give
 * INT64_MIN..INT64_MAX for all. begin_offset may lie inside a record: that record belongs to the range before.
 * RP_OK; RP_E_INVALID for a name without an offset; RP_E_CORRUPT for one that no store reaches; RP_E_NOT_FOUND; RP_E_IO. */
int rp_log_scan_open(const char *path, int64_t begin_offset, int64_t end_offset, int check_crc, rp_log_scan **scan, rp_error *error);
void rp_log_scan_close(rp_log_scan *scan);
/* An rp_scan_kind. */
int rp_log_scan_next(rp_log_scan *scan, rp_message *message, rp_scan_damage *damage);
int64_t rp_log_scan_offset(const rp_log_scan *scan); /* physical offset of the next byte to look at */
/* The file begins with an entry of DLedger. */
int rp_log_scan_has_entries(const rp_log_scan *scan);
int64_t rp_log_scan_file_start(const rp_log_scan *scan); /* the offset in the file's name */
/* The range ended at zero bytes and not at padding or its own end: what a log looks like where it was last written. */
int rp_log_scan_ended_unwritten(const rp_log_scan *scan);
/* What is known of the range's end; to be said before the first rp_log_scan_next. */
void rp_log_scan_set_tail(rp_log_scan *scan, enum rp_scan_tail tail);

#endif
