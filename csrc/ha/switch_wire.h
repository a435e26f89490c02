/* switch_wire.h: the messages between master and slave behind a controller; all big-endian.
 * RocketMQ: AutoSwitchHAConnection, AutoSwitchHAClient (5.3.3 store/ha/autoswitch/).
 *
 *   slave  → master  HANDSHAKE [4 state 1][2 sync from last file][2 async learner][8 broker id]
 *                    TRANSFER  [4 state 2][8 max offset it holds]
 *   master → slave   HANDSHAKE [4 state 1][4 body size][8 max offset][4 last epoch] [12 × (4 epoch, 8 start offset)]
 *                    TRANSFER  [4 state 2][4 body size][8 offset][4 epoch][8 epoch's start offset][8 confirm offset] [body]
 *                    body size 0: a heartbeat. A body lies in one epoch and in one file.
 *
 * Threads  any: pure functions.
 */
#ifndef RP_HA_SWITCH_WIRE_H
#define RP_HA_SWITCH_WIRE_H

#include <stdint.h>

#include "epoch_cache.h"

enum rp_switch_state { RP_SWITCH_READY = 0, RP_SWITCH_HANDSHAKE = 1, RP_SWITCH_TRANSFER = 2 };

#define RP_SWITCH_HELLO_SIZE 16
#define RP_SWITCH_ACK_SIZE 12
#define RP_SWITCH_HANDSHAKE_SIZE 20
#define RP_SWITCH_ENTRY_SIZE 12
#define RP_SWITCH_TRANSFER_SIZE 36
#define RP_SWITCH_HANDSHAKE_MAX (RP_SWITCH_HANDSHAKE_SIZE + RP_SWITCH_ENTRY_SIZE * RP_EPOCHS_MAX)

typedef struct rp_switch_hello {
    int32_t from_last_file, is_learner;
    int64_t broker_id;
} rp_switch_hello;

typedef struct rp_switch_handshake {
    int64_t max_offset, last_epoch;
    uint32_t entry_count;
} rp_switch_handshake;

typedef struct rp_switch_frame {
    uint32_t size;
    int64_t offset, epoch, epoch_start, confirm_offset;
} rp_switch_frame;

void rp_switch_put_hello(uint8_t bytes[RP_SWITCH_HELLO_SIZE], const rp_switch_hello *hello);
void rp_switch_put_ack(uint8_t bytes[RP_SWITCH_ACK_SIZE], int64_t offset);
/* Returns the bytes written, at most RP_SWITCH_HANDSHAKE_MAX. count is at most RP_EPOCHS_MAX. */
uint32_t rp_switch_put_handshake(uint8_t *bytes, int64_t max_offset, const rp_epoch_entry *entries, uint32_t count);
void rp_switch_put_frame(uint8_t bytes[RP_SWITCH_TRANSFER_SIZE], const rp_switch_frame *frame);

/* Decodes the next message of a slave. Returns its size, 0 if it is incomplete, RP_E_PROTOCOL if it is malformed. *hello is filled if
 * the size is that of a hello, *acked if it is that of an ack. */
int rp_switch_take_word(const uint8_t *bytes, uint32_t size, rp_switch_hello *hello, int64_t *acked);
/* Decodes a master's handshake without its entries; returns likewise, and RP_E_PROTOCOL for too many entries. */
int rp_switch_take_handshake(const uint8_t *bytes, uint32_t size, rp_switch_handshake *handshake);
/* Decodes the entries: RP_OK, or RP_E_PROTOCOL if they do not ascend or an offset is negative. */
int rp_switch_take_entries(const uint8_t *bytes, uint32_t count, rp_epoch_entry *entries);
/* Decodes a frame's header; returns likewise. Body sizes above RP_HA_FRAME_BYTES_MAX and, with a body, a negative epoch or offset are
 * RP_E_PROTOCOL. */
int rp_switch_take_frame(const uint8_t *bytes, uint32_t size, rp_switch_frame *frame);

#endif
