/* inner_messages.h: the messages of a batch queue's record as records of their own, for clients that pop: they take apart what they pull,
 * but not what they pop. Private to csrc/broker. RocketMQ gives the batch as one message, whose body no listener can read.
 *
 *   record at 17, INNER_NUM=3 ─► record at 17, at 18, at 19: the batch's place, times and hosts; each message's flag, body and properties
 *
 * Where a message lies in its batch is only known by walking there. So a caller that takes a batch of 32,767 in parts of 32 remembers where
 * it left off; otherwise it would walk over half of the batch a thousand times.
 *
 * Threads  pure functions; places are their owner's.
 */
#ifndef RP_BROKER_INNER_MESSAGES_H
#define RP_BROKER_INNER_MESSAGES_H

#include <stdint.h>

#include "../store/message.h"
#include "get_message.h"

/* Where in a record's body the first message at queue offset `from` or behind begins; that one has queue offset `offset`. position 0: of
 * none. A log that is cut may get another record in the same place, with another CRC, size or time. */
typedef struct rp_inner_place {
    int64_t log_offset, store_ms, from, offset;
    uint32_t size, body_crc, position;
} rp_inner_place;

#define RP_INNER_PLACES 64u /* of groups and queues that are read in parts at one time; others take their places, and it is walked again */
typedef struct rp_inner_places {
    rp_inner_place of[RP_INNER_PLACES]; /* zeros at first */
} rp_inner_places;

/* The first `most` of its messages at queue offset `from` or behind: how many there are. offsets[] are theirs, *size what they take; `to`
 * gets them, NULL: nothing does. One that cannot be taken apart, as RocketMQ may have stored it, is one message at its last offset. */
uint32_t rp_inner_messages(rp_inner_places *places, const rp_message *record, int64_t from, uint32_t most, int64_t *offsets, uint64_t *size,
                           uint8_t *to);
/* What was got of a batch queue becomes its messages from queue offset `from` on, `most` at most, in memory of their own. RP_OK;
 * RP_E_NO_MEMORY: it is as it was. */
int rp_inner_messages_got(rp_inner_places *places, rp_get_scratch *scratch, rp_get_result *result, int64_t from, uint32_t most,
                          int64_t *offsets);

#endif
