/* compaction_replacement.h: the segments that a compaction has written, until they have replaced those they were made from. Private to
 * csrc/store.
 *
 *   written and synced ─ marked on disk ─ files moved, older ones unlinked ─ in the row
 *                            └── after a failure here the replacement can only be completed, by this process or by the next open
 *
 * Until then the row has the old segments, whose files are open: they are read, and messages are copied behind them. Segments sealed by
 * then must not be cut: the new files still contain their messages.
 * Threads  the writer's.
 */
#ifndef RP_STORE_COMPACTION_REPLACEMENT_H
#define RP_STORE_COMPACTION_REPLACEMENT_H

#include <stdint.h>

#include "compaction_log.h"

typedef struct rp_compaction_replacement rp_compaction_replacement;

/* Creates the replacement of the log's first `old_count` segments by `fresh`, which are synced; takes over their pins. RP_OK;
 * RP_E_NO_MEMORY: no pin is taken over. */
int rp_compaction_replacement_create(rp_compaction_log *log, uint32_t old_count, rp_compaction_segment *const *fresh, uint32_t fresh_count,
                                     rp_compaction_replacement **replacement, rp_error *error);
void rp_compaction_replacement_destroy(rp_compaction_replacement *replacement);

/* Marks the replacement on disk. RP_OK; on an error either nothing has happened, or (has_begun) it must be finished. */
int rp_compaction_replacement_begin(rp_compaction_replacement *replacement, rp_error *error);
/* Moves and unlinks files; call it again until it succeeds. RP_OK; RP_E_IO, RP_E_DISK_FULL with the file. */
int rp_compaction_replacement_finish(rp_compaction_replacement *replacement, rp_error *error);
int rp_compaction_replacement_has_begun(const rp_compaction_replacement *replacement);
/* Queue offset behind the last message of the segments being replaced. */
int64_t rp_compaction_replacement_end(const rp_compaction_replacement *replacement);

#endif
