/* inner_messages.h: the messages of a batch queue's record as records of their own, for clients that pop: they take apart what they pull,
 * but not what they pop. Private to csrc/broker. RocketMQ gives the batch as one message, whose body no listener can read.
 *
 *   record at 17, INNER_NUM=3 ─► record at 17, at 18, at 19: the batch's place, times and hosts; each message's flag, body and properties
 *
 * Threads  pure functions.
 */
#ifndef RP_BROKER_INNER_MESSAGES_H
#define RP_BROKER_INNER_MESSAGES_H

#include <stdint.h>

#include "../store/message.h"
#include "get_message.h"

/* The first `most` of its messages at queue offset `from` or behind: how many there are. offsets[] are theirs, *size what they take; `to`
 * gets them, NULL: nothing does. One that cannot be taken apart, as RocketMQ may have stored it, is one message at its last offset. */
uint32_t rp_inner_messages(const rp_message *record, int64_t from, uint32_t most, int64_t *offsets, uint64_t *size, uint8_t *to);
/* What was got of a batch queue becomes its messages from queue offset `from` on, `most` at most, in memory of their own. RP_OK;
 * RP_E_NO_MEMORY: it is as it was. */
int rp_inner_messages_got(rp_get_scratch *scratch, rp_get_result *result, int64_t from, uint32_t most, int64_t *offsets);

#endif
