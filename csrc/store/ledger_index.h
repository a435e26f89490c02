/* ledger_index.h: where each entry of a DLedger log lies: 32 bytes for every index, in files of one size. Private to csrc/store.
 * DLedger: DLedgerMmapFileStore (indexFileList), DLedgerEntryCoder.encodeIndex (0.3.2).
 *
 *   magic 4 │ position 8 │ size 4 │ index 8 │ term 8      big-endian; of index i at byte 32 i
 *
 * Made of the log: what a crash took of it is written again when the log is opened. So it is synced with the queues, ahead of the
 * checkpoint that says from where that has to begin.
 *
 * Threads  reserve, put and cut under the append lock, trim under retention's, sync from one thread; read from any.
 * Owns     its row of files.
 */
#ifndef RP_STORE_LEDGER_INDEX_H
#define RP_STORE_LEDGER_INDEX_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "ledger_entry.h"

typedef struct rp_ledger_index rp_ledger_index;

#define RP_LEDGER_UNIT_SIZE 32
#define RP_LEDGER_NUMBER_MAX                                                                                                               \
    (INT64_MAX / RP_LEDGER_UNIT_SIZE / 2) /* of an entry: what says that it is a later one is damaged, or hostile */

/* RP_OK; RP_E_INVALID: no multiple of a unit; RP_E_CORRUPT, RP_E_IO, RP_E_NO_MEMORY. */
int rp_ledger_index_open(const rp_file_ops *ops, const char *directory, uint32_t file_size, int read_only, rp_ledger_index **index,
                         rp_error *error);
void rp_ledger_index_close(rp_ledger_index *index);

/* There is space for the unit. RP_OK; RP_E_RANGE: past RP_LEDGER_NUMBER_MAX; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY. An index that does
 * not follow what the files hold begins them again. */
int rp_ledger_index_reserve(rp_ledger_index *index, int64_t number, rp_error *error);
/* Of an entry whose unit was reserved, by the last call or, of one batch, before it. RP_OK; RP_E_DISK_FULL, RP_E_IO: there was space,
 * and is none (base/map_hold.h). */
int rp_ledger_index_put(rp_ledger_index *index, const rp_ledger_entry *entry, rp_error *error);
/* Index, term, position and size of the unit. RP_OK; RP_E_NOT_FOUND: there is none of that number; RP_E_IO, RP_E_NO_MEMORY: its file
 * cannot be mapped just now. */
int rp_ledger_index_read(rp_ledger_index *index, int64_t number, rp_ledger_entry *entry);
/* The last of the units first..last that ends at or below the log offset; -1: none. */
int64_t rp_ledger_index_below(rp_ledger_index *index, int64_t first, int64_t last, int64_t offset);
/* The same among all that the files have. */
int64_t rp_ledger_index_last_below(rp_ledger_index *index, int64_t offset);
/* The units from number to last are zeros. A failure leaves units that the log's end shows not to be units. */
void rp_ledger_index_cut(rp_ledger_index *index, int64_t number, int64_t last);
/* Files whose units are all below number go. RP_OK, RP_E_IO. */
int rp_ledger_index_trim(rp_ledger_index *index, int64_t number, rp_error *error);
/* What was put since the last call is on disk. RP_OK, RP_E_IO, RP_E_BUSY. */
int rp_ledger_index_sync(rp_ledger_index *index, rp_error *error);

#endif
