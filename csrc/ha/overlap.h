/* overlap.h: the last bytes of a slave's log, which its master sends again before the slave follows it: if they differ the two logs have
 * diverged, and bytes put behind ours would be no records. Private to csrc/ha.
 *
 * A master that lost what was not synced, or its whole store, grows past our end with other messages, and nothing else in the protocol
 * would reveal that (RocketMQ's slave without a controller continues in the middle of a foreign record). Any master sends these bytes: a
 * report may name any offset of its log.
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
    int64_t at, end; /* log offsets still to be compared; nothing if they are equal */
} rp_overlap;

/* Chooses the log's last bytes, only within its last file: of an older one the master may have nothing any more. Nothing for an empty
 * log. The last message is compared from its beginning, and so is an incomplete one: only its first part, with its time and place in its
 * queue, distinguishes it from the same body in another history (a producer that sent it again), or the padding of a file from that of
 * another. RP_OK; RP_E_IO, RP_E_NO_MEMORY, RP_E_NOT_FOUND: our own bytes cannot be read, now or permanently. */
int rp_overlap_begin(rp_overlap *overlap, rp_commit_log *log, rp_error *error);

/* Compares the master's bytes from overlap->at on. Returns how many of `size` belonged to the overlap; RP_E_RANGE if they differ. */
int64_t rp_overlap_take(rp_overlap *overlap, rp_commit_log *log, const uint8_t *bytes, uint32_t size, rp_error *error);

#endif
