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

#include <stdatomic.h>
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
    const char *aside_directory; /* copied: files with data that leave the row after a crash are moved here, never over a file that is there
                                  * already; NULL: they are deleted */
    _Atomic int64_t *files; /* counts the files of all rows that name it, mapped yet or not; outlives the row. NULL: nobody counts them */
} rp_mapped_file_queue_options;

int rp_mapped_file_queue_create(const rp_mapped_file_queue_options *options, rp_mapped_file_queue **row);
/* Every pin must have been released. NULL is allowed. */
void rp_mapped_file_queue_destroy(rp_mapped_file_queue *row);

/* Reads the directory; a missing directory is an empty row. Files are mapped when they are first found. RP_OK; RP_E_IO; RP_E_CORRUPT for
 * a file of another length, a name that is not a multiple of file_size or that no store reaches, or a missing file in the middle.
 * After a crash a file may have no length, or be missing although a later one exists. That happens only to files that were never synced,
 * so nothing behind them was synced either. If such a place is at or behind unsynced_from, the row ends there and the later files are
 * set aside (empty ones are deleted; with RP_MAP_READ they are only not loaded). A last file without length is always deleted.
 * With holds_unsynced 1 the same applies to a row that begins behind unsynced_from: the bytes there cannot have been removed on purpose. */
int rp_mapped_file_queue_load(rp_mapped_file_queue *row, int64_t unsynced_from, int holds_unsynced, rp_error *error);

/* Returns the file that holds offset, pinned and mapped; NULL if there is none, or it cannot be mapped (then error says why). */
rp_mapped_file *rp_mapped_file_queue_find(rp_mapped_file_queue *row, int64_t offset, rp_error *error);

/* Creates, maps and pins the file that holds offset, which must be the next file behind the last, or any file if the row is empty. A
 * file that another thread has created meanwhile is found. A file of that name that is not in the row is emptied. NULL with error. */
rp_mapped_file *rp_mapped_file_queue_append(rp_mapped_file_queue *row, int64_t offset, rp_error *error);
/* The same for a thread that works ahead of the writer: it adds nothing to a row that was emptied meanwhile, because only the writer
 * decides where that begins. */
rp_mapped_file *rp_mapped_file_queue_append_next(rp_mapped_file_queue *row, int64_t offset, rp_error *error);

/* Takes the first or the last file out of the row and unlinks it; its bytes stay readable through existing pins. *removed (may be NULL)
 * is set to the file, or NULL; the row keeps owning it until the row is destroyed.
 * RP_OK; RP_E_NOT_FOUND if the row is empty; RP_E_IO if unlink failed: the last file has left the row all the same, the first one stays. */
int rp_mapped_file_queue_remove_first(rp_mapped_file_queue *row, rp_mapped_file **removed, rp_error *error);
int rp_mapped_file_queue_remove_last(rp_mapped_file_queue *row, rp_error *error);
/* Takes the last file out of the row; it is set aside unless its first bytes are known to be zeros. */
int rp_mapped_file_queue_set_last_aside(rp_mapped_file_queue *row, rp_error *error);

/* Clears the bytes from offset to the end of its file durably, by giving them back as a hole. The file keeps its length throughout, so
 * that a process killed meanwhile leaves one that loads. For recovery only. RP_OK also if offset is outside the row; RP_E_IO. */
int rp_mapped_file_queue_clear_tail(rp_mapped_file_queue *row, int64_t offset, rp_error *error);

/* Takes every file out of the row and deletes it, together with files in the directory that could not be loaded. A concurrent add either
 * comes before, and its file goes too, or comes after. RP_OK, RP_E_IO. */
int rp_mapped_file_queue_remove_all(rp_mapped_file_queue *row, rp_error *error);

/* First byte of the first file; one past the last byte of the last. Both are 0 for an empty row that never had a file. */
int64_t rp_mapped_file_queue_begin(const rp_mapped_file_queue *row);
int64_t rp_mapped_file_queue_end(const rp_mapped_file_queue *row);
uint64_t rp_mapped_file_queue_file_size(const rp_mapped_file_queue *row);
const char *rp_mapped_file_queue_directory(const rp_mapped_file_queue *row);

/* Makes the pages that hold [begin, end) durable, and the directory if files were added or removed. RP_OK; RP_E_IO with the file;
 * RP_E_BUSY: descriptors are out, and nothing was synced or lost; RP_E_NOT_FOUND: the file or its directory is gone. */
int rp_mapped_file_queue_sync(rp_mapped_file_queue *row, int64_t begin, int64_t end, rp_error *error);
/* As rp_mapped_file_queue_sync, but syncs whole files, whose pages stay mapped: cheaper if much of them was read and little stored. */
int rp_mapped_file_queue_sync_files(rp_mapped_file_queue *row, int64_t begin, int64_t end, rp_error *error);
/* Counts the files made and removed so far. names_are_synced: the caller has synced the directory as it was after `changes` of them. Any
 * thread. */
uint64_t rp_mapped_file_queue_name_changes(const rp_mapped_file_queue *row);
void rp_mapped_file_queue_names_are_synced(rp_mapped_file_queue *row, uint64_t changes);

/* Opens a file of the row a second time, for another thread that syncs. The kernel reports a page that it could not write once per open
 * file: of two threads that share one, only the first to sync would learn of it, and the other would call that page's bytes safe. NULL
 * with error. Released by close_reopened, which accepts NULL. */
rp_mapped_file *rp_mapped_file_queue_reopen(rp_mapped_file_queue *row, const rp_mapped_file *file, rp_error *error);
void rp_mapped_file_queue_close_reopened(rp_mapped_file *reopened);
/* As rp_mapped_file_queue_sync, for bytes of that file. */
int rp_mapped_file_queue_sync_reopened(rp_mapped_file_queue *row, const rp_mapped_file *reopened, int64_t begin, int64_t end,
                                       rp_error *error);

#endif
