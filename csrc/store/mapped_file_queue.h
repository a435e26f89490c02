/* mapped_file_queue.h: the row of equally long files that make one log or one queue, named by their start offsets.
 * RocketMQ: MappedFileQueue (5.3.3 store/).
 *
 *   slots ─► [ file ][ file ][ file ][ - ]      slot i holds the file of bytes [(first + i) * file_size, +file_size)
 *
 * Threads  find from any thread, lock-free: one atomic load of the slots, one of the file, one pin. Load, create and remove from
 *          one thread at a time, under the row's lock. A reader that still holds an older slots array finds the same files in it.
 * Owns     slots, file structs and mappings. Replaced slots and removed file structs are kept until the row is destroyed (about
 *          100 bytes a file), which is what makes the readers lock-free.
 */
#ifndef RP_STORE_MAPPED_FILE_QUEUE_H
#define RP_STORE_MAPPED_FILE_QUEUE_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "mapped_file.h"

typedef struct rp_mapped_file_queue rp_mapped_file_queue;

typedef struct rp_mapped_file_queue_options {
    const rp_file_ops *ops;
    const char *directory; /* copied */
    uint64_t file_size;    /* > 0 */
    int32_t mode;          /* rp_map_mode */
    const char *aside_directory; /* copied: files with bytes in them that leave the row after a crash are moved here, over no others; NULL:
                                  * deleted */
} rp_mapped_file_queue_options;

int rp_mapped_file_queue_create(const rp_mapped_file_queue_options *options, rp_mapped_file_queue **row);
/* Every pin must have been given back. NULL is allowed. */
void rp_mapped_file_queue_destroy(rp_mapped_file_queue *row);

/* Reads the directory; a missing directory is an empty row. Files are mapped when they are first found. RP_OK; RP_E_CORRUPT for a file of
 * another length, a name that is not a multiple of file_size, or one that no store reaches, or a missing file in the middle; RP_E_IO.
 * After a crash a file may have no length, or be missing although a later one is there. That happens to files that were never synced, so
 * nothing behind them was synced either. If such a place is at or behind unsynced_from, the row ends there and the later files are set
 * aside (an empty one is deleted; in RP_MAP_READ they are only not loaded). A last file without length is deleted in any case.
 * The same holds for a row that begins behind unsynced_from, with holds_unsynced 1: the bytes there cannot have been removed on purpose. */
int rp_mapped_file_queue_load(rp_mapped_file_queue *row, int64_t unsynced_from, int holds_unsynced, rp_error *error);

/* The file that holds offset, pinned and mapped; NULL when there is none or it cannot be mapped (then error says why). */
rp_mapped_file *rp_mapped_file_queue_find(rp_mapped_file_queue *row, int64_t offset, rp_error *error);

/* Makes, maps and pins the file that holds offset, which must lie in the file after the last, or anywhere in an empty row; one that was
 * made by another thread meanwhile is found. A file of that name that is not in the row is emptied. NULL with error. */
rp_mapped_file *rp_mapped_file_queue_append(rp_mapped_file_queue *row, int64_t offset, rp_error *error);
/* The same for a thread that works ahead of the writer: it does not append to a row that was emptied meanwhile, because only the writer
 * decides where that begins. */
rp_mapped_file *rp_mapped_file_queue_append_next(rp_mapped_file_queue *row, int64_t offset, rp_error *error);

/* Takes the first or the last file out of the row and unlinks it; its bytes stay readable to whoever has it pinned. *removed (may be NULL)
 * is the file, NULL when there was none; it belongs to the row until the row is destroyed.
 * RP_OK; RP_E_NOT_FOUND when the row is empty; RP_E_IO when unlink failed: the last file is out of the row all the same,
 * the first one stays. */
int rp_mapped_file_queue_remove_first(rp_mapped_file_queue *row, rp_mapped_file **removed, rp_error *error);
int rp_mapped_file_queue_remove_last(rp_mapped_file_queue *row, rp_error *error);
/* Takes the last file out of the row; set aside unless its first bytes are known to be zeros. */
int rp_mapped_file_queue_set_last_aside(rp_mapped_file_queue *row, rp_error *error);

/* Clears the bytes from offset to the end of its file, durably: they are given back as a hole. The file keeps its length all the while, so
 * that whoever is killed meanwhile leaves one that loads. For recovery only. RP_OK also when offset is outside the row; RP_E_IO. */
int rp_mapped_file_queue_clear_tail(rp_mapped_file_queue *row, int64_t offset, rp_error *error);

/* Takes every file out of the row and deletes it, with those in the directory that could not be loaded; files that are added meanwhile are
 * added before, or stay. RP_OK, RP_E_IO. */
int rp_mapped_file_queue_remove_all(rp_mapped_file_queue *row, rp_error *error);

/* First byte of the first file, and one past the last byte of the last; both 0 for an empty row that never had a file. */
int64_t rp_mapped_file_queue_begin(const rp_mapped_file_queue *row);
int64_t rp_mapped_file_queue_end(const rp_mapped_file_queue *row);
uint64_t rp_mapped_file_queue_file_size(const rp_mapped_file_queue *row);
const char *rp_mapped_file_queue_directory(const rp_mapped_file_queue *row);

/* Makes the pages that hold [begin, end) durable, and the directory when files were added or removed. RP_OK; RP_E_IO with the file;
 * RP_E_BUSY: descriptors are out and nothing was synced, nor lost; RP_E_NOT_FOUND: the file or its directory is gone. */
int rp_mapped_file_queue_sync(rp_mapped_file_queue *row, int64_t begin, int64_t end, rp_error *error);
/* The same by a sync of the whole files, whose pages stay mapped: cheaper when much of them was read and little stored. */
int rp_mapped_file_queue_sync_files(rp_mapped_file_queue *row, int64_t begin, int64_t end, rp_error *error);
/* How often files were made or removed so far. And: somebody else has synced the directory as it was after `changes` of these.
 * Any thread. */
uint64_t rp_mapped_file_queue_name_changes(const rp_mapped_file_queue *row);
void rp_mapped_file_queue_names_are_synced(rp_mapped_file_queue *row, uint64_t changes);

/* A file of the row opened once more, for a second thread that syncs. The kernel reports a page that it could not write once to each
 * opening: of two threads that share one, only the first to look would hear of it, and the other would call that page's bytes safe.
 * NULL with error; given back by close_reopened, which takes NULL too. */
rp_mapped_file *rp_mapped_file_queue_reopen(rp_mapped_file_queue *row, const rp_mapped_file *file, rp_error *error);
void rp_mapped_file_queue_close_reopened(rp_mapped_file *reopened);
/* As rp_mapped_file_queue_sync, of bytes of that file. */
int rp_mapped_file_queue_sync_reopened(rp_mapped_file_queue *row, const rp_mapped_file *reopened, int64_t begin, int64_t end,
                                       rp_error *error);

#endif
