/* queue_check.h: the consume queues of a store directory, opened as they are, checked entry by entry. Private to store_verify.
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

/* Every TOPIC/QUEUE directory of a store: of plain queues, and of batch queues (batch_queue.h). RP_OK, RP_E_IO, RP_E_NO_MEMORY. */
int rp_queue_check_open(const char *root_path, rp_queue_check **check, rp_error *error);
void rp_queue_check_close(rp_queue_check *check);
uint32_t rp_queue_check_count(const rp_queue_check *check);
const char *rp_queue_check_path(const rp_queue_check *check, uint32_t queue);
/* As rp_file_row_failure, of a queue's files. What cannot be read is not damaged. */
int rp_queue_check_failure(const rp_queue_check *check, uint32_t queue, rp_error *error);

#define RP_QUEUE_CHECK_ORPHAN 2
#define RP_QUEUE_CHECK_MISSING 3

/* Does message, of a log that begins at log_min, have its entry? 1 or 0; then cause says what is wrong and *queue and *offset (byte of the
 * entry) where. RP_QUEUE_CHECK_ORPHAN: its queue is not there, or begins behind it, as after its topic was deleted.
 * RP_QUEUE_CHECK_MISSING: as 0, for there is none. */
int rp_queue_check_message(rp_queue_check *check, int64_t log_min, const rp_message *message, uint32_t *queue, int64_t *offset,
                           const char **cause);

/* Walks all entries of a queue that point at or behind log_min. For each that does not point at its message calls bad with the entry's byte
 * offset; bad's non-zero ends the walk and is returned. Adds the entries seen to *entries. */
int rp_queue_check_entries(rp_queue_check *check, uint32_t queue, rp_file_row *log, int64_t log_min, uint64_t *entries,
                           int (*bad)(void *context, int64_t offset, const char *cause), void *context);

/* Behind the last entry of a queue that was walked: an offset; -1: there is no such queue. */
int64_t rp_queue_check_end(const rp_queue_check *check, rp_slice topic, int32_t queue_id);

#endif
