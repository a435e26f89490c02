/* inner_messages.h: turns the messages in a batch queue's record into records of their own, for clients that pop: they unpack what they
 * pull, but not what they pop. Private to csrc/broker. RocketMQ gives the batch as one message, whose body no listener can read.
 *
 *   record at 17, INNER_NUM=3 ─► record at 17, at 18, at 19: the batch's place, times and hosts; each message's flag, body and
 *   properties
 *
 * A message's position in its batch can only be found by walking there. So a caller that takes a batch of 32,767 in parts of 32
 * remembers where it stopped; otherwise it would walk over half of the batch a thousand times.
 *
 * Threads  pure functions; places belong to their owner.
 */
#ifndef RP_BROKER_INNER_MESSAGES_H
#define RP_BROKER_INNER_MESSAGES_H

#include <stdint.h>

#include "../store/message.h"
#include "get_message.h"

/* Where in a record's body the first message at queue offset `from` or behind begins; that message has queue offset `offset`. position
 * 0: unused. After a cut of the log another record may lie in the same place, with another CRC, size or time. */
typedef struct rp_inner_place {
    int64_t log_offset, store_ms, from, offset;
    uint32_t size, body_crc, position;
} rp_inner_place;

/* Groups and queues read in parts at the same time; beyond that places are reused, and a batch is walked again */
#define RP_INNER_PLACES 64u
typedef struct rp_inner_places {
    rp_inner_place of[RP_INNER_PLACES]; /* zero-initialized */
} rp_inner_places;

/* Finds the first `most` messages of the record at queue offset `from` or behind, and returns how many there are. offsets[] receives
 * their offsets, *size their total size, `to` their records (NULL: none are written). A batch that cannot be taken apart, which RocketMQ
 * may have stored, counts as one message at its last offset. */
uint32_t rp_inner_messages(rp_inner_places *places, const rp_message *record, int64_t from, uint32_t most, int64_t *offsets, uint64_t *size,
                           uint8_t *to);
/* Replaces what was read of a batch queue by its messages from queue offset `from` on, at most `most`, in memory of their own. RP_OK;
 * RP_E_NO_MEMORY: nothing has changed. */
int rp_inner_messages_got(rp_inner_places *places, rp_get_scratch *scratch, rp_get_result *result, int64_t from, uint32_t most,
                          int64_t *offsets);

#endif
