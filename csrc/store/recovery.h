/* recovery.h: brings a store directory into a consistent state at open: finds where the log ends, and makes the queues agree with it.
 * RocketMQ: DefaultMessageStore.load/recover, CommitLog.recoverNormally/recoverAbnormally, ConsumeQueue.recover (5.3.3 store/).
 *
 *   clean     (no abort file) the queues name the last record, or a checkpoint of ours a later one, of a topic that was deleted;
 *             whatever the log holds behind its end is dispatched. Missing files are noticed by the checkpoint's counts; after a stop of
 *             RocketMQ, whose checkpoint has none, by a queue that begins too late and by a pass over the last three files. Then all
 *             queues are rebuilt. That is noted on disk first: if the rebuild is interrupted, the next start begins it again. Queues
 *             whose messages have all expired are not rebuilt, because nothing else says where they ended
 *   unclean   start = the exact offset of a checkpoint of ours (the first file if the queues' directory is gone), else the newest file
 *             whose first record is older than the checkpoint's times, else the first file. Queues go back to start; every record from
 *             there is checked and dispatched, over the entries that are there; then what they hold behind is cleared
 *   damage    of bytes that the checkpoint calls synced is no torn end: it is passed over to the next whole record, and reported
 *   end       otherwise the first place that is not a whole record. What lies behind it in its file is cleared on disk before the store
 *             opens, so that no later crash can bring it back; later files are set aside; queue entries that point behind it are cut
 *
 *   held      behind a controller, records that the group may not have get no entries, and are cut or confirmed later. Entries are made
 *             in the log's order, so the furthest one tells what was confirmed, often more than the checkpoint does
 *
 * For a pass of more than a MiB a second thread reads and checks ahead (record_check.h).
 *
 * Threads  the owner's, before any other but that one is started.
 */
#ifndef RP_STORE_RECOVERY_H
#define RP_STORE_RECOVERY_H

#include <stdint.h>

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "checkpoint.h"
#include "commit_log_writer.h"
#include "dispatcher.h"
#include "queue_table.h"

typedef struct rp_recovery {
    const rp_file_ops *ops;
    const rp_clock *clock;
    rp_log *log; /* NULL allowed; else the progress of the pass is logged every second */
    rp_commit_log *commit_log;
    rp_queue_table *queues;
    rp_dispatcher *dispatcher;
    const rp_checkpoint *checkpoint;
    int32_t was_clean;      /* no abort file was found */
    int32_t queues_gone;    /* the directory of all queues was not there */
    int32_t queues_damaged; /* some queue could not be loaded, so all are rebuilt */
    int32_t check_crc;      /* rp_check_crc */
    int32_t read_only;      /* nothing is written: queues are taken as they are */
    /* Unconfirmed records are not dispatched; confirmed are those that the checkpoint, or the entry of the record or of a later one,
     * says to be */
    int32_t holds_back;
    int64_t confirmed_at_least; /* what another source knows to be confirmed; 0: there is none */
    int (*doubt_queues)(void *context, rp_error *error); /* notes on disk that no queue is to be trusted; not called if read_only */
    void *context;
    int64_t looked_at_end; /* private to the pass: records below it have their entries, or have lost them */
    int32_t entries_missing; /* private to the pass: some records have lost theirs */
    int64_t confirmed; /* private to the pass: records that end behind it are held back */
    /* results */
    int64_t start, end; /* of the pass over the log; end: that of its last record */
    int64_t passed_end; /* as end, with the padding behind it */
    int64_t held_from; /* the first record that was held back; the end if there is none */
    int64_t store_timestamp_ms; /* of the last record; 0 if there is none */
    uint64_t records; /* read in the pass */
    int64_t elapsed_ns; /* of the pass */
    int32_t cut; /* 1 if the pass ended at something other than unwritten space; cause says at what */
    rp_error cause;
} rp_recovery;

/* Runs the recovery. RP_OK; RP_E_CORRUPT, RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY: the store must not be opened. */
int rp_recovery_run(rp_recovery *recovery, rp_error *error);

#endif
