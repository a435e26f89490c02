/* floor_log.h: the file of a floor server: mapped and reused, mapped and growing, or written and synced once a turn. Private to
 * csrc/load.
 *
 * Threads  the floor's.
 */
#ifndef RP_LOAD_FLOOR_LOG_H
#define RP_LOAD_FLOOR_LOG_H

#include <stdint.h>

#include "../base/error.h"
#include "floor.h"

typedef struct rp_floor_log rp_floor_log;

/* path: created or overwritten. size_max: writing wraps around there. RP_OK, RP_E_NO_MEMORY, or the error of errno. */
int rp_floor_log_open(const char *path, rp_floor_kind kind, int64_t size_max, rp_floor_log **log, rp_error *error);
void rp_floor_log_close(rp_floor_log *log); /* NULL is allowed */
/* Copies the frame with its CRC. Returns 0 if memory is out or the disk is full. */
int rp_floor_log_put(rp_floor_log *log, const uint8_t *frame, uint32_t size);
/* RP_FLOOR_SYNCED: returns 1 when everything that was put is on disk; 0: it is not, and no frame may be answered. */
int rp_floor_log_sync(rp_floor_log *log);
/* Writes one more chunk of zeros ahead of the next write, if one is missing. */
void rp_floor_log_step_ahead(rp_floor_log *log);

#endif
