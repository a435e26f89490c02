/* compaction_replacement.h: the segments that a compaction has written, until they stand in the place of those that they were made from.
 * Private to csrc/store.
 *
 *   written and synced ─ marked on disk ─ files moved, older ones unlinked ─ in the row
 *                            └── a call that fails: from here on it can only be finished, by this process or by the next open
 *
 * Meanwhile the row has the old segments, whose files are open: they are read, and messages are copied behind them. What was sealed by then
 * must not be cut: the files that come still have it.
 * Threads  the writer's.
 */
#ifndef RP_STORE_COMPACTION_REPLACEMENT_H
#define RP_STORE_COMPACTION_REPLACEMENT_H

#include <stdint.h>

#include "compaction_log.h"

typedef struct rp_compaction_replacement rp_compaction_replacement;

/* For the log's first `old_count` segments; it takes over the pins of `fresh`, which are synced. RP_OK, RP_E_NO_MEMORY: nothing is taken
 * over. */
int rp_compaction_replacement_create(rp_compaction_log *log, uint32_t old_count, rp_compaction_segment *const *fresh, uint32_t fresh_count,
                                     rp_compaction_replacement **replacement, rp_error *error);
void rp_compaction_replacement_destroy(rp_compaction_replacement *replacement);

/* RP_OK; an error: nothing has happened, or it has begun, and is to be finished. */
int rp_compaction_replacement_begin(rp_compaction_replacement *replacement, rp_error *error);
/* As often as it takes. RP_OK; RP_E_IO, RP_E_DISK_FULL with the file. */
int rp_compaction_replacement_finish(rp_compaction_replacement *replacement, rp_error *error);
int rp_compaction_replacement_has_begun(const rp_compaction_replacement *replacement);
/* Behind the last message of the segments that go. */
int64_t rp_compaction_replacement_end(const rp_compaction_replacement *replacement);

#endif
