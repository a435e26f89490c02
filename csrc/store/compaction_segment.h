/* compaction_segment.h: one piece of a compacted queue: a file of records, and beside it the file of their entries. Private to
 * csrc/store except for what the broker reads.
 * RocketMQ: CompactionLog.TopicPartitionLog, SparseConsumeQueue, BatchConsumeQueue (5.5.0 store/kv/, store/queue/).
 *
 *   compaction/compactionLog/TOPIC/QUEUE/BASE   records as in the commit log, one behind the other; a blank record ends a full file
 *   compaction/compactionCq/TOPIC/QUEUE/BASE    their entries, 46 bytes big-endian, queue offsets with gaps:
 *      [8 base + place in the file][4 size][8 tags code][8 store time][8 queue offset][2 one][4 -1][4 0]
 *
 * Writes   by system calls, never through the map, so that a full disk is an error of the call. The record first, then its entry, then
 *          the count.
 * Threads  one writer at a time. Whoever has a pin reads entries below the count, lock-free. Releasing the last pin unmaps and closes.
 * Bounds   a segment is full if the next record and a blank one behind it would not fit, or only one entry is left: RocketMQ's rule.
 */
#ifndef RP_STORE_COMPACTION_SEGMENT_H
#define RP_STORE_COMPACTION_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/slice.h"

#define RP_COMPACTION_ENTRY_SIZE 46

typedef struct rp_compaction_segment rp_compaction_segment;

typedef struct rp_compaction_entry {
    int64_t position; /* base of the segment + place in its file */
    int32_t size;
    int64_t tags_code;
    int64_t store_timestamp_ms;
    int64_t queue_offset;
} rp_compaction_entry;

/* Where the two files of a segment lie; borrowed strings. */
typedef struct rp_compaction_place {
    const rp_file_ops *ops;
    const char *log_directory, *queue_directory;
    uint64_t queue_size; /* size of a file of entries that is made anew */
} rp_compaction_place;

/* Creates an empty segment; existing files of that name are emptied. RP_OK; RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY, RP_E_BUSY with the
 * file. */
int rp_compaction_segment_create(const rp_compaction_place *place, int64_t base, uint64_t log_size, uint64_t queue_size,
                                 rp_compaction_segment **segment, rp_error *error);
/* Opens existing files, of whatever length. Entries count as long as they can be valid; with checks_records 1 (after a power cut) also
 * only as long as their records are whole. Whole records behind them get their missing entries, unless an end entry says that nothing
 * follows; whatever lies behind those is overwritten. A file of entries that was cut short, even within its empty end, is lengthened to
 * that of a new one. RP_OK; RP_E_CORRUPT (a file too short to be one), RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY with the file. */
int rp_compaction_segment_open(const rp_compaction_place *place, int64_t base, int checks_records, rp_compaction_segment **segment,
                               rp_error *error);

/* Appends a record and its entry, and sets entry's position. RP_OK; RP_E_TOO_LARGE: the segment is full; RP_E_INVALID: no segment of
 * this size could take the record; RP_E_DISK_FULL, RP_E_IO: nothing has changed. */
int rp_compaction_segment_append(rp_compaction_segment *segment, rp_slice record, rp_compaction_entry *entry, rp_error *error);
/* Writes the end entry, which says that nothing follows. RP_OK, RP_E_DISK_FULL, RP_E_IO. */
int rp_compaction_segment_seal(rp_compaction_segment *segment, rp_error *error);
/* Keeps only the first `count` entries. The records keep their bytes until the next open, because they may be being read. RP_OK,
 * RP_E_IO. */
int rp_compaction_segment_cut(rp_compaction_segment *segment, uint32_t count, rp_error *error);
/* Keeps only the first `count` entries and makes the segment full, so that no open makes entries for the records behind them. A single
 * write decides. RP_OK; RP_E_DISK_FULL, RP_E_IO: call again. */
int rp_compaction_segment_end(rp_compaction_segment *segment, uint32_t count, rp_error *error);
/* Returns when the whole segment is on disk. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_compaction_segment_sync(rp_compaction_segment *segment, rp_error *error);

uint32_t rp_compaction_segment_count(const rp_compaction_segment *segment);
int64_t rp_compaction_segment_base(const rp_compaction_segment *segment);
uint64_t rp_compaction_segment_log_size(const rp_compaction_segment *segment);
uint64_t rp_compaction_segment_queue_size(const rp_compaction_segment *segment);
/* Queue offset of the last entry; -1: there is none. Touches no file. */
int64_t rp_compaction_segment_last_offset(const rp_compaction_segment *segment);
/* How many of its present entries were missing at open and were made then. */
uint32_t rp_compaction_segment_made(const rp_compaction_segment *segment);
/* Decodes the bytes of an entry. */
void rp_compaction_entry_read(const uint8_t *bytes, rp_compaction_entry *entry);
/* Returns where the entry's record lies in the file of records that begins at `base` and has `log_size` bytes; -1: the entry cannot be
 * valid. */
int64_t rp_compaction_entry_place(const rp_compaction_entry *entry, int64_t base, uint64_t log_size);
/* Reads entry `index`, which must be below the count. */
void rp_compaction_segment_entry(const rp_compaction_segment *segment, uint32_t index, rp_compaction_entry *entry);
/* Returns the index of the first entry whose queue offset is `offset` or more; the count if there is none. */
uint32_t rp_compaction_segment_find(const rp_compaction_segment *segment, int64_t offset);
/* Returns the bytes of an entry's record; size 0 if the entry cannot be valid. */
rp_slice rp_compaction_segment_record(const rp_compaction_segment *segment, const rp_compaction_entry *entry);
/* For sendfile: returns the descriptor of the file of records. */
int rp_compaction_segment_fd(const rp_compaction_segment *segment);

/* 1 if entries and records of [first, end) are in memory. Reads none of them. */
int rp_compaction_segment_in_memory(const rp_compaction_segment *segment, uint32_t first, uint32_t end);
/* The same for bytes that rp_compaction_segment_record returned. */
int rp_compaction_segment_bytes_in_memory(const rp_compaction_segment *segment, const uint8_t *bytes, size_t size);
/* Reads those entries and at most the first 4 MiB of their records into memory: blocks on the disk. Returns how many bytes of records. */
uint64_t rp_compaction_segment_read_in(const rp_compaction_segment *segment, uint32_t first, uint32_t end);
/* 1 if all entries are in memory, so that find does not read the disk. */
int rp_compaction_segment_entries_in_memory(const rp_compaction_segment *segment);

void rp_compaction_segment_pin(rp_compaction_segment *segment);
void rp_compaction_segment_release(void *segment); /* has the signature of an rp_file_range's release */

#endif
