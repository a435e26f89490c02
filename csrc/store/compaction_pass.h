/* compaction_pass.h: of the messages of each key only the last one stays. Private to csrc/store.
 * RocketMQ: CompactionLog.doCompaction, compactAndReplace, shouldRetainMsg (5.5.0 store/kv/).
 *
 *   sealed segments ─► keys of those that are new, with their last offsets ─► all of them written anew: what is not the last of its key
 *                                        goes, and what has no body (it deleted its key) ─► files replaced ─► row replaced
 *
 * The segment that is written stays as it is: whoever reads close behind sees every message, deletions too.
 * Threads  the writer's, for as long as it takes; it looks at `stop` for each record.
 * Bounds   the keys' memory: a compaction that meets more keys leaves what is behind to the next one.
 */
#ifndef RP_STORE_COMPACTION_PASS_H
#define RP_STORE_COMPACTION_PASS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "compaction_log.h"
#include "compaction_replacement.h"

typedef struct rp_compaction_pass {
    rp_compaction_log *compaction_log; /* its writer's lock is held */
    rp_log *log;
    size_t key_memory;          /* maxOffsetMapSize */
    const _Atomic int32_t *stop; /* not 0: leave everything as it is */
    int64_t position;           /* up to this queue offset, this one included, it was compacted before; -1: never */
    /* results */
    int64_t compacted_to;       /* the position afterwards */
    uint64_t kept, dropped;     /* messages */
    rp_compaction_replacement *unfinished; /* of an error: the files are moved in part; the caller's. Or NULL */
} rp_compaction_pass;

/* 1: done; 0: there was nothing to do, or it was stopped. RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY, RP_E_BUSY: the queue is as it was, but
 * for what is unfinished. */
int rp_compaction_pass_run(rp_compaction_pass *pass, rp_error *error);

/* The key that a message is compacted by: its KEYS; size 0 when they are blank, and it is in no compacted queue. */
rp_slice rp_compaction_key(rp_slice properties);

#endif
