/* queue_check.h: checks the consume queues of a store directory entry by entry, without changing them. Private to store_verify.
 *
 * Threads  one owner.
 * Owns     its mappings.
 */
#ifndef RP_STORE_QUEUE_CHECK_H
#define RP_STORE_QUEUE_CHECK_H

#include <stdint.h>

#include "file_row.h"
#include "message.h"

typedef struct rp_queue_check rp_queue_check;

/* Opens every TOPIC/QUEUE directory of a store: plain queues, and batch queues (batch_queue.h). RP_OK, RP_E_IO, RP_E_NO_MEMORY. */
int rp_queue_check_open(const char *root_path, rp_queue_check **check, rp_error *error);
void rp_queue_check_close(rp_queue_check *check);
uint32_t rp_queue_check_count(const rp_queue_check *check);
const char *rp_queue_check_path(const rp_queue_check *check, uint32_t queue);
/* As rp_file_row_failure, for the files of a queue. What cannot be read is not damaged. */
int rp_queue_check_failure(const rp_queue_check *check, uint32_t queue, rp_error *error);

#define RP_QUEUE_CHECK_ORPHAN 2
#define RP_QUEUE_CHECK_MISSING 3

/* Does the message, in a log that begins at log_min, have its entry? 1; or 0, then cause says what is wrong, and *queue and *offset
 * (byte of the entry) where. RP_QUEUE_CHECK_ORPHAN: its queue does not exist, or begins behind it, as after its topic was deleted.
 * RP_QUEUE_CHECK_MISSING: as 0, because there is no entry. */
int rp_queue_check_message(rp_queue_check *check, int64_t log_min, const rp_message *message, uint32_t *queue, int64_t *offset,
                           const char **cause);

/* Walks all entries of a queue that point at or behind log_min. For each that does not point at its message, calls bad with the entry's
 * byte offset; a non-zero result of bad ends the walk and is returned. Adds the entries seen to *entries. */
int rp_queue_check_entries(rp_queue_check *check, uint32_t queue, rp_file_row *log, int64_t log_min, uint64_t *entries,
                           int (*bad)(void *context, int64_t offset, const char *cause), void *context);

/* Returns the queue offset behind the last entry of a queue that was walked; -1 if there is no such queue. */
int64_t rp_queue_check_end(const rp_queue_check *check, rp_slice topic, int32_t queue_id);

#endif
