/* unique_id.h: makes message ids for producers that set none. Private to csrc/broker.
 * RocketMQ: MessageClientIDSetter.createUniqID (5.3.3 common/message/): [4 address][2 pid][4 random][4 ms since the month began][2
 * counter] in hex; tools read the time back from it.
 *
 * Threads  one owner.
 */
#ifndef RP_BROKER_UNIQUE_ID_H
#define RP_BROKER_UNIQUE_ID_H

#include <stdint.h>

#define RP_UNIQUE_ID_SIZE 32

typedef struct rp_unique_id {
    uint8_t fixed[10];
    uint16_t counter;
    int64_t month_begin_ms, month_end_ms; /* local time */
} rp_unique_id;

void rp_unique_id_init(rp_unique_id *id, const uint8_t address[4], uint64_t random);
void rp_unique_id_next(rp_unique_id *id, int64_t wall_ms, uint8_t text[RP_UNIQUE_ID_SIZE]);

#endif
