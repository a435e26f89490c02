/* compaction_segment.h: one piece of a compacted queue: a file of records, and beside it the file of their entries. Private to csrc/store
 * but for what the broker reads.
 * RocketMQ: CompactionLog.TopicPartitionLog, SparseConsumeQueue, BatchConsumeQueue (5.5.0 store/kv/, store/queue/).
 *
 *   compaction/compactionLog/TOPIC/QUEUE/BASE   records as in the commit log, one behind the other; a blank one ends a full file
 *   compaction/compactionCq/TOPIC/QUEUE/BASE    their entries, 46 bytes big-endian, queue offsets with gaps:
 *      [8 base + place in the file][4 size][8 tags code][8 store time][8 queue offset][2 one][4 -1][4 0]
 *
 * Written  by write calls, never through the map: a full disk is an error of the call. Records first, then the entry, then the count.
 * Threads  one writer at a time; who has a pin reads entries below the count, lock-free. The last pin unmaps and closes.
 * Bounds   a segment is full when the next record, and a blank one behind it, would not fit, or one entry is left: RocketMQ's rule.
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
    uint64_t queue_size; /* of a file of entries that is made anew */
} rp_compaction_place;

/* A new, empty segment; files of that name are emptied. RP_OK; RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY, RP_E_BUSY with the file. */
int rp_compaction_segment_create(const rp_compaction_place *place, int64_t base, uint64_t log_size, uint64_t queue_size,
                                 rp_compaction_segment **segment, rp_error *error);
/* Files that are there, of whatever length. Entries count as far as they can be; with checks_records 1 as far as their records are whole,
 * too (after a power cut). Whole records that follow get the entries that are missing, unless the last entry says that nothing follows;
 * what is behind is written over. A file of entries that was cut short, also within its empty end, gets the length of a new one. RP_OK;
 * RP_E_CORRUPT (a file that is too short to be one), RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY with the file. */
int rp_compaction_segment_open(const rp_compaction_place *place, int64_t base, int checks_records, rp_compaction_segment **segment,
                               rp_error *error);

/* RP_OK; RP_E_TOO_LARGE: the segment is full, RP_E_INVALID: no segment of this size could take it; RP_E_DISK_FULL, RP_E_IO: nothing has
 * changed. entry's position is set here. */
int rp_compaction_segment_append(rp_compaction_segment *segment, rp_slice record, rp_compaction_entry *entry, rp_error *error);
/* Says on disk that nothing follows. RP_OK, RP_E_DISK_FULL, RP_E_IO. */
int rp_compaction_segment_seal(rp_compaction_segment *segment, rp_error *error);
/* Only the first `count` entries stay. The records keep their bytes until the next open: somebody may be reading them. RP_OK, RP_E_IO. */
int rp_compaction_segment_cut(rp_compaction_segment *segment, uint32_t count, rp_error *error);
/* Only the first `count` entries stay, and the segment is full: no open makes entries of the records behind them. One write decides. RP_OK;
 * RP_E_DISK_FULL, RP_E_IO: to be called again. */
int rp_compaction_segment_end(rp_compaction_segment *segment, uint32_t count, rp_error *error);
/* RP_OK: all of it is on disk. RP_E_IO, RP_E_DISK_FULL. */
int rp_compaction_segment_sync(rp_compaction_segment *segment, rp_error *error);

uint32_t rp_compaction_segment_count(const rp_compaction_segment *segment);
int64_t rp_compaction_segment_base(const rp_compaction_segment *segment);
uint64_t rp_compaction_segment_log_size(const rp_compaction_segment *segment);
uint64_t rp_compaction_segment_queue_size(const rp_compaction_segment *segment);
/* Queue offset of the last entry; -1: it has none. Touches no file. */
int64_t rp_compaction_segment_last_offset(const rp_compaction_segment *segment);
/* Entries that were missing when it was opened, and are there still. */
uint32_t rp_compaction_segment_made(const rp_compaction_segment *segment);
/* The bytes of an entry. */
void rp_compaction_entry_read(const uint8_t *bytes, rp_compaction_entry *entry);
/* Where in the file of records that begins at `base` and has `log_size` bytes its record is; -1: such an entry cannot be. */
int64_t rp_compaction_entry_place(const rp_compaction_entry *entry, int64_t base, uint64_t log_size);
/* Entry `index`, below the count. */
void rp_compaction_segment_entry(const rp_compaction_segment *segment, uint32_t index, rp_compaction_entry *entry);
/* The first entry whose queue offset is `offset` or more; the count when there is none. */
uint32_t rp_compaction_segment_find(const rp_compaction_segment *segment, int64_t offset);
/* The bytes of an entry's record; size 0 when the entry cannot be. */
rp_slice rp_compaction_segment_record(const rp_compaction_segment *segment, const rp_compaction_entry *entry);
/* For sendfile: the descriptor and where in it the record lies. */
int rp_compaction_segment_fd(const rp_compaction_segment *segment);

/* 1: entries and records of [first, end) are in memory. Touches none. */
int rp_compaction_segment_in_memory(const rp_compaction_segment *segment, uint32_t first, uint32_t end);
/* The same of bytes that rp_compaction_segment_record gave. */
int rp_compaction_segment_bytes_in_memory(const rp_compaction_segment *segment, const uint8_t *bytes, size_t size);
/* Returns when the entries are, and the first 4 MiB of the records: blocks on the disk. How many bytes of records. */
uint64_t rp_compaction_segment_read_in(const rp_compaction_segment *segment, uint32_t first, uint32_t end);
/* 1: all entries are in memory, so that find touches no disk. */
int rp_compaction_segment_entries_in_memory(const rp_compaction_segment *segment);

void rp_compaction_segment_pin(rp_compaction_segment *segment);
void rp_compaction_segment_release(void *segment); /* as the release of an rp_file_range */

#endif
