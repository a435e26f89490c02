/* compaction_files.h: which files a compacted queue has, and how a compaction's files take the place of older ones. Private to csrc/store.
 * RocketMQ: CompactionLog.replaceFiles, replaceCqFiles (5.5.0 store/kv/).
 *
 *   compacting/…  written and synced ─ compacting/replace: what goes, what comes ─ moved, unlinked ─ replace removed
 *
 * Crash    until `replace` has its name nothing has happened; from then on every open finishes what it says, however often it is killed.
 *          RocketMQ has no such mark: it renames the old files to NAME.delete first, so one of those says the same.
 * Threads  the queue's writer.
 */
#ifndef RP_STORE_COMPACTION_FILES_H
#define RP_STORE_COMPACTION_FILES_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/log.h"
#include "compaction_segment.h"

#define RP_COMPACTION_FILES_MAX 65536 /* of one queue: more are not loaded */

/* The bases of a queue's files, ascending. */
typedef struct rp_compaction_bases {
    int64_t *bases;
    uint32_t count, room;
} rp_compaction_bases;

/* RP_OK, RP_E_NO_MEMORY, RP_E_TOO_LARGE. */
int rp_compaction_bases_add(rp_compaction_bases *list, int64_t base, rp_error *error);
void rp_compaction_bases_free(rp_compaction_bases *list);

/* First of all: what an earlier process began is finished, or what it did not finish is dropped. RP_OK, RP_E_IO. */
int rp_compaction_files_settle(const rp_compaction_place *place, rp_log *log, rp_error *error);
/* The queue's files of records; files of entries that have none are unlinked. RP_OK, RP_E_IO, RP_E_NO_MEMORY, RP_E_TOO_LARGE. */
int rp_compaction_files_list(const rp_compaction_place *place, rp_compaction_bases *list, rp_log *log, rp_error *error);
/* Both directories, and those of a compaction below them, are there. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_compaction_files_make_directories(const rp_compaction_place *place, rp_error *error);
/* place of the files that a compaction writes; the paths are its room. RP_OK, RP_E_TOO_LARGE. */
int rp_compaction_files_aside(const rp_compaction_place *place, char *log_path, char *queue_path, rp_compaction_place *aside,
                              rp_error *error);
/* The files of `fresh`, synced in the place aside, are to take the place of `old`. RP_OK; an error: they may be marked all the same. */
int rp_compaction_files_mark(const rp_compaction_place *place, const rp_compaction_bases *old, const rp_compaction_bases *fresh,
                             rp_error *error);
/* What was marked so, now or in part before. RP_OK; an error: it is to be called again, or settle does the rest. */
int rp_compaction_files_finish(const rp_compaction_place *place, const rp_compaction_bases *old, const rp_compaction_bases *fresh,
                               rp_error *error);
/* 1: a compaction's files are about to be moved, and it can only go on. */
int rp_compaction_files_is_marked(const rp_compaction_place *place);
/* 1: that, or RocketMQ's own sign of it. */
int rp_compaction_files_are_moving(const rp_compaction_place *place);
/* What a compaction wrote, and did not finish, goes. */
void rp_compaction_files_drop_aside(const rp_compaction_place *place);
/* One segment's files go. RP_OK, RP_E_IO. */
int rp_compaction_files_unlink(const rp_compaction_place *place, int64_t base, rp_error *error);
/* All of them, and the directories. RP_OK, RP_E_IO. */
int rp_compaction_files_remove(const rp_compaction_place *place, rp_error *error);

#endif
