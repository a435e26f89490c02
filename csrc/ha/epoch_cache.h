/* epoch_cache.h: which master wrote which part of the log: epochs and where each begins. By comparing two such lists a slave finds the
 * point up to which its log and its master's are the same.
 * RocketMQ: EpochFileCache, CheckpointFile (5.3.3 store/ha/autoswitch/, common/).
 *
 * File     lines of text: the number of entries; the CRC-32 of their lines, as Java's UtilAll.crc32 computes it (31 bits; 0: not
 *          checked); then EPOCH-STARTOFFSET by ascending epoch. Written to FILE.tmp, synced, renamed, its directory synced; the previous
 *          one stays as FILE.bak, which is read if FILE is missing or damaged.
 * Memory   follows the file: a change that could not be written does not take effect.
 * Threads  any; one lock (leaf), held during a write.
 * Bounds   RP_EPOCHS_MAX entries: one more drops the first, because RocketMQ's handshake has room for this many.
 */
#ifndef RP_HA_EPOCH_CACHE_H
#define RP_HA_EPOCH_CACHE_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"

#define RP_EPOCHS_MAX 1000

typedef struct rp_epoch_cache rp_epoch_cache;

typedef struct rp_epoch_entry {
    int64_t epoch; /* an int on the wire and in the file: 0..INT32_MAX */
    int64_t start_offset;
    int64_t end_offset; /* where the next one starts; INT64_MAX: the last one */
} rp_epoch_entry;

typedef struct rp_epoch_cache_options {
    const char *path; /* storePathEpochFile; copied */
    const rp_file_ops *file_ops; /* NULL: the system's */
    rp_log *log;
} rp_epoch_cache_options;

/* RP_OK, also if there is no file, or if neither the file nor its .bak can be understood: the list is then empty, and the log says so.
 * RP_E_IO, RP_E_NO_MEMORY, RP_E_INVALID (the path). */
int rp_epoch_cache_open(const rp_epoch_cache_options *options, rp_epoch_cache **cache, rp_error *error);
void rp_epoch_cache_close(rp_epoch_cache *cache); /* NULL is allowed */

/* Fits the list to a log of [begin, end): removes entries that begin behind its end, and those that end at or before its begin. An empty
 * list stays empty even if the log has bytes: nobody can tell whose they are, and a slave without entries is compared with its master byte
 * by byte. */
int rp_epoch_cache_fit(rp_epoch_cache *cache, int64_t begin, int64_t end, rp_error *error);

/* A master of `epoch` continues the log at start_offset. Entries of that epoch or later, or that begin there or later, are removed: nothing
 * was written under them. RP_OK; RP_E_INVALID below 0 or past INT32_MAX; RP_E_RANGE if the last epoch is a later one; RP_E_IO,
 * RP_E_DISK_FULL. */
int rp_epoch_cache_append(rp_epoch_cache *cache, int64_t epoch, int64_t start_offset, rp_error *error);
/* As rp_epoch_cache_append for each of 1 or more entries, whose epochs and offsets rise (else RP_E_INVALID): all of them or none. */
int rp_epoch_cache_append_all(rp_epoch_cache *cache, const rp_epoch_entry *entries, uint32_t count, rp_error *error);
/* The log was cut at offset: removes entries that begin there or later. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_epoch_cache_truncate_suffix(rp_epoch_cache *cache, int64_t offset, rp_error *error);
/* For retention: removes entries that end at or before offset. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_epoch_cache_truncate_prefix(rp_epoch_cache *cache, int64_t offset, rp_error *error);

/* Copies up to entries_max entries in ascending order of epochs. Returns how many there are. */
uint32_t rp_epoch_cache_read(rp_epoch_cache *cache, rp_epoch_entry *entries, uint32_t entries_max);
int64_t rp_epoch_cache_last(rp_epoch_cache *cache); /* -1: the list is empty */
/* The entry that covers the byte at offset; for bytes before the first entry, the first one, so that a transfer never stops for lack of an
 * entry. RP_OK; RP_E_NOT_FOUND if the list is empty. */
int rp_epoch_cache_find(rp_epoch_cache *cache, int64_t offset, rp_epoch_entry *entry);

/* The offset up to which two logs are the same: for the last epoch that begins at the same offset in both, the smaller of its two ends. -1
 * if there is no such epoch. `ours_end` and `theirs_end` are the ends of the last epochs. A pure function. */
int64_t rp_epoch_consistent_point(const rp_epoch_entry *ours, uint32_t ours_count, int64_t ours_end, const rp_epoch_entry *theirs,
                                  uint32_t theirs_count, int64_t theirs_end);

#endif
