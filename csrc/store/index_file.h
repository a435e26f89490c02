/* index_file.h: one file of the key index: a hash table on disk from key to commit log offsets.
 * RocketMQ: IndexFile, IndexHeader (5.3.3 store/index/).
 *
 * header   40 bytes big-endian: [8 first store time][8 last store time][8 first log offset][8 last log offset][4 used slots][4 next entry]
 * slots    slot_count x [4 number of the newest entry, 0: none]
 * entries  entry_count_max x [4 key hash][8 log offset][4 seconds since first store time][4 older entry of the slot]; number 0 is unused
 * size     40 + slot_count * 4 + entry_count_max * 20. A new file has that length at once, but takes disk space for its entries only as
 *          they come: a full disk is RP_E_DISK_FULL and never a SIGBUS.
 * valid    that size, next entry in 0..entry_count_max (0, as in a file that Java has not flushed yet, counts as 1), 0 <= first log
 *          offset <= last log offset; everything else is RP_E_CORRUPT at open. Times may go back, with the clock.
 *
 * Threads  one writer; readers at the same time see each entry whole or not at all (the slot is stored last, with release).
 * Owns     its descriptor and mapping.
 */
#ifndef RP_STORE_INDEX_FILE_H
#define RP_STORE_INDEX_FILE_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

typedef struct rp_index_file rp_index_file;

#define RP_INDEX_HEADER_SIZE 40
#define RP_INDEX_SLOT_SIZE 4
#define RP_INDEX_ENTRY_SIZE 20
#define RP_INDEX_SLOT_COUNT 5000000       /* maxHashSlotNum */
#define RP_INDEX_ENTRY_COUNT_MAX 20000000 /* maxIndexNum */

typedef struct rp_index_shape {
    uint32_t slot_count;      /* 1..2^31-1 */
    uint32_t entry_count_max; /* 2..2^31-1 */
} rp_index_shape;

/* Creates an empty file (RP_E_EXISTS if there is one). previous_offset and previous_time_ms: end of the file before it, 0 for the first
 * file. */
int rp_index_file_create(const rp_file_ops *ops, const char *path, rp_index_shape shape, int64_t previous_offset, int64_t previous_time_ms,
                         rp_index_file **file, rp_error *error);
/* Opens an existing file. RP_E_CORRUPT if its size or header does not fit this shape, or the disk cannot read the header. */
int rp_index_file_open(const rp_file_ops *ops, const char *path, rp_index_shape shape, int writable, rp_index_file **file, rp_error *error);
void rp_index_file_close(rp_index_file *file); /* does not sync */

/* Puts an entry. RP_OK; RP_E_BUSY if the file is full; RP_E_DISK_FULL or RP_E_IO if its space cannot grow. */
int rp_index_file_put(rp_index_file *file, int32_t key_hash, int64_t log_offset, int64_t store_time_ms, rp_error *error);

/* Writes the log offsets of entries with this hash and a store time (to the second) in begin..end, newest first. Returns how many, at
 * most offsets_max. */
uint32_t rp_index_file_select(const rp_index_file *file, int32_t key_hash, int64_t begin_ms, int64_t end_ms, int64_t *offsets,
                              uint32_t offsets_max);

/* Called by the writer: asks again for the space that a full disk had not when the file was opened, after which its entries are read
 * through the map. RP_OK, also when nothing was missing; RP_E_DISK_FULL or RP_E_IO. */
int rp_index_file_fill_holes(rp_index_file *file, rp_error *error);
int rp_index_file_sync(rp_index_file *file, rp_error *error);
int rp_index_file_is_full(const rp_index_file *file);
/* Returns 0 if a slot names an entry beyond the header's count: the header on disk is older than the slot, and the slot's older entries
 * cannot be found any more. Also 0 if the slots cannot be read. Reads all slots, except those of a full file, for which it returns 1. */
int rp_index_file_has_true_slots(const rp_index_file *file);
const char *rp_index_file_path(const rp_index_file *file);
int64_t rp_index_file_begin_time(const rp_index_file *file);
int64_t rp_index_file_end_time(const rp_index_file *file);
int64_t rp_index_file_end_offset(const rp_index_file *file);
uint32_t rp_index_file_entry_count(const rp_index_file *file);
/* Reads entry `number` (1..entry_count), for verification. RP_OK, RP_E_RANGE or RP_E_IO. */
int rp_index_file_entry(const rp_index_file *file, uint32_t number, int32_t *key_hash, int64_t *log_offset, rp_error *error);

#endif
