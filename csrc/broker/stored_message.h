/* stored_message.h: reads one message of the log by its offset. Private to csrc/broker.
 * RocketMQ: MessageStore.lookMessageByOffset (5.3.3 store/).
 *
 * Threads  any; blocks on the disk.
 */
#ifndef RP_BROKER_STORED_MESSAGE_H
#define RP_BROKER_STORED_MESSAGE_H

#include <stdint.h>

#include "../store/commit_log.h"
#include "../store/message.h"

typedef struct rp_stored_message {
    rp_message message;
    void *pin; /* pin of its record */
} rp_stored_message;

/* Pins the record at log_offset and decodes it. RP_OK; RP_E_NOT_FOUND: no message begins there; RP_E_IO, RP_E_NO_MEMORY. */
int rp_stored_message_open(rp_commit_log *log, int64_t log_offset, rp_stored_message *stored);
void rp_stored_message_close(rp_stored_message *stored);
/* Makes an item that appends the message elsewhere: everything but the queue, the properties and what differs in the new place. */
rp_append_item rp_item_of_message(const rp_message *message);
/* 1 if opening it would not wait for the disk, and would not read more than a reactor has time for: the offset comes from a client, and
 * a body may look like the begin of a record of any size. */
int rp_stored_message_in_memory(rp_commit_log *log, int64_t log_offset);

#endif
