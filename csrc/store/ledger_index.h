/* ledger_index.h: the index files of a DLedger log: a unit of 32 bytes for each entry says where it lies. Private to csrc/store.
 * DLedger: DLedgerMmapFileStore (indexFileList), DLedgerEntryCoder.encodeIndex (0.3.2).
 *
 *   magic 4 │ position 8 │ size 4 │ index 8 │ term 8      big-endian; the unit of index i is at byte 32 i
 *
 * Derived from the log: units that a crash took are written again when the log is opened. So the files are synced together with the
 * queues, before the checkpoint that says where that rewriting has to begin.
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
#define RP_LEDGER_NUMBER_MAX (INT64_MAX / RP_LEDGER_UNIT_SIZE / 2) /* largest entry index: a larger one is damaged, or hostile */

/* RP_OK; RP_E_INVALID: file_size is no multiple of a unit; RP_E_CORRUPT, RP_E_IO, RP_E_NO_MEMORY. */
int rp_ledger_index_open(const rp_file_ops *ops, const char *directory, uint32_t file_size, int read_only, rp_ledger_index **index,
                         rp_error *error);
void rp_ledger_index_close(rp_ledger_index *index);

/* Reserves space for the unit of entry `number`. If the number does not follow what the files hold, they are begun anew. RP_OK;
 * RP_E_RANGE: past RP_LEDGER_NUMBER_MAX; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY. */
int rp_ledger_index_reserve(rp_ledger_index *index, int64_t number, rp_error *error);
/* Writes the unit of an entry; it was reserved by the last call, or by an earlier one of the same batch. RP_OK; RP_E_DISK_FULL, RP_E_IO:
 * the reserved space is no longer there (base/map_hold.h). */
int rp_ledger_index_put(rp_ledger_index *index, const rp_ledger_entry *entry, rp_error *error);
/* Reads index, term, position and size from the unit. RP_OK; RP_E_NOT_FOUND: there is no such unit; RP_E_IO, RP_E_NO_MEMORY: its file
 * cannot be mapped now. */
int rp_ledger_index_read(rp_ledger_index *index, int64_t number, rp_ledger_entry *entry);
/* Returns the last of the units first..last whose entry ends at or below the log offset; -1 if there is none. */
int64_t rp_ledger_index_below(rp_ledger_index *index, int64_t first, int64_t last, int64_t offset);
/* The same among all units in the files. */
int64_t rp_ledger_index_last_below(rp_ledger_index *index, int64_t offset);
/* Zeroes the units from number to last. Units that remain after a failure are recognized as void by the log's end. */
void rp_ledger_index_cut(rp_ledger_index *index, int64_t number, int64_t last);
/* Removes the files whose units are all below number. RP_OK, RP_E_IO. */
int rp_ledger_index_trim(rp_ledger_index *index, int64_t number, rp_error *error);
/* Returns when everything put since the last call is on disk. RP_OK, RP_E_IO, RP_E_BUSY. */
int rp_ledger_index_sync(rp_ledger_index *index, rp_error *error);

#endif
