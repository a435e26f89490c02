/* compaction_positions.h: how far each compacted queue has been compacted: the file compaction/position-checkpoint, JSON as RocketMQ
 * writes it, {"queueOffsetMap":{"TOPIC_QUEUE":offset}}. Private to csrc/store.
 * RocketMQ: CompactionPositionMgr (5.5.0 store/kv/).
 *
 * A lost or damaged file costs one extra compaction, and no message.
 * Threads  one at a time: under the compaction's lock.
 */
#ifndef RP_STORE_COMPACTION_POSITIONS_H
#define RP_STORE_COMPACTION_POSITIONS_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "../base/slice.h"

typedef struct rp_compaction_positions rp_compaction_positions;

/* RP_OK; RP_E_NO_MEMORY; RP_E_IO: the file exists and cannot be read. */
int rp_compaction_positions_open(const rp_file_ops *ops, const char *directory, rp_log *log, rp_compaction_positions **positions,
                                 rp_error *error);
/* Reads the file for a check, without logging. *positions must be closed whatever is returned. RP_OK, also without a file; RP_E_CORRUPT:
 * as much as could be read was loaded; RP_E_IO, RP_E_NO_MEMORY. */
int rp_compaction_positions_check(const rp_file_ops *ops, const char *directory, rp_compaction_positions **positions, rp_error *error);
void rp_compaction_positions_close(rp_compaction_positions *positions);
/* Returns the queue's position; -1: never compacted. */
int64_t rp_compaction_positions_get(const rp_compaction_positions *positions, rp_slice topic, int32_t queue_id);
/* Sets the position; offset -1 forgets it. RP_OK, RP_E_NO_MEMORY. */
int rp_compaction_positions_set(rp_compaction_positions *positions, rp_slice topic, int32_t queue_id, int64_t offset, rp_error *error);
/* Writes the file. RP_OK, RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY. */
int rp_compaction_positions_save(const rp_compaction_positions *positions, rp_error *error);

#endif
