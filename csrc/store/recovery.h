/* recovery.h: what is true in a store directory when it is opened: where the log ends, and that the queues say the same as the log.
 * RocketMQ: DefaultMessageStore.load/recover, CommitLog.recoverNormally/recoverAbnormally, ConsumeQueue.recover (5.3.3 store/).
 *
 *   clean     (no abort file) the queues name the last record, or our checkpoint a later one, of a topic that was deleted; from its end
 *             on, whatever the log holds is dispatched. Files that are missing show in the checkpoint's counts; after a stop of
 *             RocketMQ, whose checkpoint has none, at a queue that begins too late and in a pass over the last three files. Then all
 *             queues are rebuilt, and the disk says so first: a rebuild that does not come to its end is begun again by the next start.
 *             Only queues whose messages have expired are not: nothing else says how far they went
 *   unclean   start = the exact offset of our checkpoint, else the newest file whose first record is older than the checkpoint's
 *             times, else the first file. Queues are cut at start; every record from there is checked and dispatched
 *   damage    of what the checkpoint says was synced is no torn end: it is passed over to the next whole record, and reported
 *   end       else the first place that is not a whole record. What is behind it in its file is cleared on disk before the store opens, so
 *             that no later crash can bring it back, and later files are set aside; queue entries that point behind it are cut.
 *
 *   held      behind a controller, records that the group may not have: no entries are made of them, and they are cut or confirmed later.
 *             Entries are made in the log's order, so the furthest one tells what was confirmed, often more than the checkpoint does
 *
 * A pass of more than a MiB has a second thread in front of it that reads and checks (record_check.h).
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
    rp_log *log; /* NULL allowed; else told every second how far the pass is */
    rp_commit_log *commit_log;
    rp_queue_table *queues;
    rp_dispatcher *dispatcher;
    const rp_checkpoint *checkpoint;
    int32_t was_clean;      /* no abort file was found */
    int32_t queues_damaged; /* some queue could not be loaded: all are rebuilt */
    int32_t check_crc;      /* rp_check_crc */
    int32_t read_only;      /* nothing is written: queues are taken as they are */
    int32_t holds_back; /* nothing is dispatched that is not confirmed: by the checkpoint, or by an entry of it or of what is behind */
    int64_t confirmed_at_least; /* what somebody else knows to be confirmed; 0: nobody */
    int (*doubt_queues)(void *context, rp_error *error); /* says on disk that no queue is to be trusted; not called when read_only */
    void *context;
    int64_t looked_at_end; /* the pass's own: records below it have their entries, or have lost them */
    int32_t entries_missing; /* the pass's own: some have */
    int64_t confirmed; /* the pass's own: records that end behind it are held back */
    /* results */
    int64_t start, end; /* of the pass over the log: the end of its last record */
    int64_t passed_end; /* the same, behind its padding */
    int64_t held_from; /* the first record that was held back; the end where none was */
    int64_t store_timestamp_ms; /* of the last record; 0 when there is none */
    uint64_t records; /* read in the pass */
    int64_t elapsed_ns; /* of the pass */
    int32_t cut; /* 1 when the pass ended at something other than untouched space; cause says at what */
    rp_error cause;
} rp_recovery;

/* RP_OK; RP_E_CORRUPT, RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY: then the store must not be opened. */
int rp_recovery_run(rp_recovery *recovery, rp_error *error);

#endif
