/* compaction_files.h: lists the files of a compacted queue, and replaces them by those that a compaction has written. Private to
 * csrc/store.
 * RocketMQ: CompactionLog.replaceFiles, replaceCqFiles (5.5.0 store/kv/).
 *
 *   compacting/…  written and synced ─ compacting/replace: what goes, what comes ─ moved, unlinked ─ replace removed
 *
 * Crash    until the mark `replace` has its name, nothing has happened; from then on every open completes what it says, however often it
 *          is killed. RocketMQ has no such mark: it first renames the old files to NAME.delete, so one of those means the same.
 * Threads  the queue's writer.
 */
#ifndef RP_STORE_COMPACTION_FILES_H
#define RP_STORE_COMPACTION_FILES_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/log.h"
#include "compaction_segment.h"

#define RP_COMPACTION_FILES_MAX 65536 /* a queue with more files is not loaded */

/* The bases of a queue's files, ascending. */
typedef struct rp_compaction_bases {
    int64_t *bases;
    uint32_t count, room;
} rp_compaction_bases;

/* RP_OK, RP_E_NO_MEMORY, RP_E_TOO_LARGE. */
int rp_compaction_bases_add(rp_compaction_bases *list, int64_t base, rp_error *error);
void rp_compaction_bases_free(rp_compaction_bases *list);

/* Comes first: completes a replacement that an earlier process began, or drops files of a compaction it did not finish. RP_OK, RP_E_IO. */
int rp_compaction_files_settle(const rp_compaction_place *place, rp_log *log, rp_error *error);
/* Lists the queue's files of records, and unlinks files of entries that have none. RP_OK, RP_E_IO, RP_E_NO_MEMORY, RP_E_TOO_LARGE. */
int rp_compaction_files_list(const rp_compaction_place *place, rp_compaction_bases *list, rp_log *log, rp_error *error);
/* Makes both directories, and those of a compaction below them. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_compaction_files_make_directories(const rp_compaction_place *place, rp_error *error);
/* Fills *aside with the place where a compaction writes its files; log_path and queue_path (RP_PATH_MAX bytes each) hold its strings.
 * RP_OK, RP_E_TOO_LARGE. */
int rp_compaction_files_aside(const rp_compaction_place *place, char *log_path, char *queue_path, rp_compaction_place *aside,
                              rp_error *error);
/* Marks durably that the files of `fresh`, synced in the place aside, replace those of `old`. RP_OK; on an error the mark may be there
 * all the same. */
int rp_compaction_files_mark(const rp_compaction_place *place, const rp_compaction_bases *old, const rp_compaction_bases *fresh,
                             rp_error *error);
/* Completes a marked replacement, of which a part may be done. RP_OK; on an error call it again, or settle completes it at the next
 * open. */
int rp_compaction_files_finish(const rp_compaction_place *place, const rp_compaction_bases *old, const rp_compaction_bases *fresh,
                               rp_error *error);
/* 1 if a replacement is marked: it can only be completed. */
int rp_compaction_files_is_marked(const rp_compaction_place *place);
/* 1 if a replacement is marked, or RocketMQ's renames show that one was under way. */
int rp_compaction_files_are_moving(const rp_compaction_place *place);
/* Removes what an unfinished compaction has written. */
void rp_compaction_files_drop_aside(const rp_compaction_place *place);
/* Removes the files of one segment. RP_OK, RP_E_IO. */
int rp_compaction_files_unlink(const rp_compaction_place *place, int64_t base, rp_error *error);
/* Removes all files of the queue, and its directories. RP_OK, RP_E_IO. */
int rp_compaction_files_remove(const rp_compaction_place *place, rp_error *error);

#endif
