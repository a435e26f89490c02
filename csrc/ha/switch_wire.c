/* switch_wire.c: see switch_wire.h. */
#include "switch_wire.h"

#include "../base/bytes_inl.h"
#include "ha_master.h"

#define OFFSET_MAX (INT64_MAX / 2) /* no log gets there, and sums with an offset do not overflow */

void rp_switch_put_hello(uint8_t bytes[RP_SWITCH_HELLO_SIZE], const rp_switch_hello *hello) {
    rp_put_u32(bytes, RP_SWITCH_HANDSHAKE);
    rp_put_u16(bytes + 4, hello->from_last_file != 0);
    rp_put_u16(bytes + 6, hello->is_learner != 0);
    rp_put_u64(bytes + 8, (uint64_t)hello->broker_id);
}

void rp_switch_put_ack(uint8_t bytes[RP_SWITCH_ACK_SIZE], int64_t offset) {
    rp_put_u32(bytes, RP_SWITCH_TRANSFER);
    rp_put_u64(bytes + 4, (uint64_t)offset);
}

uint32_t rp_switch_put_handshake(uint8_t *bytes, int64_t max_offset, const rp_epoch_entry *entries, uint32_t count) {
    rp_put_u32(bytes, RP_SWITCH_HANDSHAKE);
    rp_put_u32(bytes + 4, count * RP_SWITCH_ENTRY_SIZE);
    rp_put_u64(bytes + 8, (uint64_t)max_offset);
    rp_put_u32(bytes + 16, (uint32_t)(count > 0 ? entries[count - 1].epoch : -1));
    uint8_t *at = bytes + RP_SWITCH_HANDSHAKE_SIZE;
    for (uint32_t i = 0; i < count; i++, at += RP_SWITCH_ENTRY_SIZE) {
        rp_put_u32(at, (uint32_t)entries[i].epoch);
        rp_put_u64(at + 4, (uint64_t)entries[i].start_offset);
    }
    return (uint32_t)(at - bytes);
}

void rp_switch_put_frame(uint8_t bytes[RP_SWITCH_TRANSFER_SIZE], const rp_switch_frame *frame) {
    rp_put_u32(bytes, RP_SWITCH_TRANSFER);
    rp_put_u32(bytes + 4, frame->size);
    rp_put_u64(bytes + 8, (uint64_t)frame->offset);
    rp_put_u32(bytes + 16, (uint32_t)frame->epoch);
    rp_put_u64(bytes + 20, (uint64_t)frame->epoch_start);
    rp_put_u64(bytes + 28, (uint64_t)frame->confirm_offset);
}

int rp_switch_take_word(const uint8_t *bytes, uint32_t size, rp_switch_hello *hello, int64_t *acked) {
    if (size < 4)
        return 0;
    uint32_t state = rp_get_u32(bytes);
    if (state == RP_SWITCH_HANDSHAKE) {
        if (size < RP_SWITCH_HELLO_SIZE)
            return 0;
        hello->from_last_file = rp_get_u16(bytes + 4) == 1;
        hello->is_learner = rp_get_u16(bytes + 6) == 1;
        hello->broker_id = (int64_t)rp_get_u64(bytes + 8);
        return hello->broker_id >= 0 ? RP_SWITCH_HELLO_SIZE : RP_E_PROTOCOL;
    }
    if (state != RP_SWITCH_TRANSFER)
        return RP_E_PROTOCOL;
    if (size < RP_SWITCH_ACK_SIZE)
        return 0;
    *acked = (int64_t)rp_get_u64(bytes + 4);
    return RP_SWITCH_ACK_SIZE;
}

int rp_switch_take_handshake(const uint8_t *bytes, uint32_t size, rp_switch_handshake *handshake) {
    if (size < RP_SWITCH_HANDSHAKE_SIZE)
        return 0;
    uint32_t body = rp_get_u32(bytes + 4);
    handshake->max_offset = (int64_t)rp_get_u64(bytes + 8);
    handshake->last_epoch = (int32_t)rp_get_u32(bytes + 16);
    handshake->entry_count = body / RP_SWITCH_ENTRY_SIZE;
    int is_one = rp_get_u32(bytes) == RP_SWITCH_HANDSHAKE && body % RP_SWITCH_ENTRY_SIZE == 0 && handshake->entry_count <= RP_EPOCHS_MAX &&
                 handshake->max_offset >= 0 && handshake->max_offset <= OFFSET_MAX;
    return is_one ? RP_SWITCH_HANDSHAKE_SIZE : RP_E_PROTOCOL;
}

int rp_switch_take_entries(const uint8_t *bytes, uint32_t count, rp_epoch_entry *entries) {
    for (uint32_t i = 0; i < count; i++, bytes += RP_SWITCH_ENTRY_SIZE) {
        entries[i] = (rp_epoch_entry){.epoch = (int32_t)rp_get_u32(bytes), .start_offset = (int64_t)rp_get_u64(bytes + 4)};
        if (entries[i].epoch < 0 || entries[i].start_offset < 0 || entries[i].start_offset > OFFSET_MAX)
            return RP_E_PROTOCOL;
        if (i > 0 && (entries[i].epoch <= entries[i - 1].epoch || entries[i].start_offset < entries[i - 1].start_offset))
            return RP_E_PROTOCOL;
        entries[i].end_offset = INT64_MAX;
        if (i > 0)
            entries[i - 1].end_offset = entries[i].start_offset;
    }
    return RP_OK;
}

int rp_switch_take_frame(const uint8_t *bytes, uint32_t size, rp_switch_frame *frame) {
    if (size < RP_SWITCH_TRANSFER_SIZE)
        return 0;
    frame->size = rp_get_u32(bytes + 4);
    frame->offset = (int64_t)rp_get_u64(bytes + 8);
    frame->epoch = (int32_t)rp_get_u32(bytes + 16);
    frame->epoch_start = (int64_t)rp_get_u64(bytes + 20);
    frame->confirm_offset = (int64_t)rp_get_u64(bytes + 28);
    int is_one = rp_get_u32(bytes) == RP_SWITCH_TRANSFER && frame->size <= RP_HA_FRAME_BYTES_MAX && frame->offset <= OFFSET_MAX;
    /* A heartbeat of a master that has nothing to send yet carries offset -1. */
    int is_sound = frame->size == 0
                       ? frame->offset >= -1
                       : frame->offset >= 0 && frame->epoch >= 0 && frame->epoch_start >= 0 && frame->epoch_start <= OFFSET_MAX;
    return is_one && is_sound ? RP_SWITCH_TRANSFER_SIZE : RP_E_PROTOCOL;
}
