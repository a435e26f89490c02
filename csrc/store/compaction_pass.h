/* compaction_pass.h: one compaction: of the messages of each key only the last one stays. Private to csrc/store.
 * RocketMQ: CompactionLog.doCompaction, compactAndReplace, shouldRetainMsg (5.5.0 store/kv/).
 *
 *   sealed segments ─► keys of the new messages, with their last offsets ─► all segments written anew, without messages that are not the
 *   last of their key or have no body (which deletes the key) ─► files replaced ─► row replaced
 *
 * The segment being written stays as it is: a consumer close behind sees every message, deletions too.
 * Threads  the writer's, for as long as it takes; it looks at `stop` for each record.
 * Bounds   the keys' memory: a compaction that meets more keys leaves the rest to the next one.
 */
#ifndef RP_STORE_COMPACTION_PASS_H
#define RP_STORE_COMPACTION_PASS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "compaction_log.h"
#include "compaction_replacement.h"

typedef struct rp_compaction_pass {
    rp_compaction_log *compaction_log; /* the caller holds its writer lock */
    rp_log *log;
    size_t key_memory;          /* maxOffsetMapSize */
    const _Atomic int32_t *stop; /* non-zero: end, and leave everything as it is */
    int64_t position;           /* compacted before up to this queue offset, inclusive; -1: never */
    /* results */
    int64_t compacted_to;       /* the position afterwards */
    uint64_t kept, dropped;     /* messages */
    rp_compaction_replacement *unfinished; /* after an error: a replacement whose files are moved in part; owned by the caller. Or NULL */
} rp_compaction_pass;

/* 1: done; 0: there was nothing to do, or it was stopped. RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY, RP_E_BUSY: the queue is unchanged,
 * except for what is in `unfinished`. */
int rp_compaction_pass_run(rp_compaction_pass *pass, rp_error *error);

/* Returns the key that a message is compacted by, its KEYS; size 0 if they are blank: the message is then in no compacted queue. */
rp_slice rp_compaction_key(rp_slice properties);

#endif
