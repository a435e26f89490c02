/* overlap.h: the last bytes of a slave's log, which it has its master send again before it follows: where they differ the two logs have
 * diverged, and bytes put behind ours would be no records. Private to csrc/ha.
 *
 * A master that lost what was not synced, or its whole store, grows past our end with other messages; the wire has nothing else that
 * would tell (RocketMQ's slave without a controller goes on in the middle of a foreign record). Any master sends them: a report may name
 * any byte of its log.
 *
 * Threads  the slave thread only.
 */
#ifndef RP_HA_OVERLAP_H
#define RP_HA_OVERLAP_H

#include <stdint.h>

#include "../base/error.h"
#include "../store/commit_log.h"

#define RP_OVERLAP_BYTES_MAX 4096
#define RP_OVERLAP_RECORD_MAX (16 * 1024 * 1024) /* more than a message: such records wait for room in their queues */

typedef struct rp_overlap {
    int64_t at, end; /* still to be compared; nothing when they are equal */
} rp_overlap;

/* Takes the log's last bytes, of its last file only: of an older one the master may have nothing any more. None of an empty log. The last
 * message is compared from its beginning, and so is one that is not whole: only what is in front, its time and its place in its queue,
 * tells it from the same body in another history (a producer that sent it again), or the padding of a file from that of another.
 * RP_OK; RP_E_IO, RP_E_NO_MEMORY, RP_E_NOT_FOUND: our own bytes cannot be read, just now or for good. */
int rp_overlap_begin(rp_overlap *overlap, rp_commit_log *log, rp_error *error);

/* Compares the master's bytes of overlap->at. How many of `size` belonged to the overlap; RP_E_RANGE when they differ. */
int64_t rp_overlap_take(rp_overlap *overlap, rp_commit_log *log, const uint8_t *bytes, uint32_t size, rp_error *error);

#endif
