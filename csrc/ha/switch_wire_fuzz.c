/* switch_wire_fuzz.c: libFuzzer target for what master and slave say to each other behind a controller. Built by clang
 * -fsanitize=fuzzer,address,undefined; not in the library.
 *
 * Input   one byte that chooses who listens, 0 a master, 1 a slave that has asked, 2 a slave that is sent frames; then what arrives.
 * Claims  nothing is read outside of it (it is copied to a block of its exact size); what is taken is as large as it says, keeps its
 *         bounds, and is written as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/fuzz_inl.h"
#include "ha_master.h"
#include "switch_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hear_slave(const uint8_t *bytes, uint32_t size) {
    rp_switch_hello hello = {0};
    uint8_t written[RP_SWITCH_HELLO_SIZE];
    int64_t acked = -1;
    int taken;
    while ((taken = rp_switch_take_word(bytes, size, &hello, &acked)) > 0) {
        demand(taken == RP_SWITCH_HELLO_SIZE || taken == RP_SWITCH_ACK_SIZE);
        demand((uint32_t)taken <= size);
        if (taken == RP_SWITCH_HELLO_SIZE) {
            rp_switch_hello again;
            rp_switch_put_hello(written, &hello);
            demand(rp_switch_take_word(written, sizeof written, &again, &acked) == taken && again.broker_id == hello.broker_id);
        } else {
            rp_switch_put_ack(written, acked);
            demand(memcmp(written, bytes, RP_SWITCH_ACK_SIZE) == 0);
        }
        bytes += taken;
        size -= (uint32_t)taken;
    }
}

static void hear_handshake(const uint8_t *bytes, uint32_t size) {
    rp_switch_handshake said;
    int head = rp_switch_take_handshake(bytes, size, &said);
    if (head <= 0)
        return;
    demand(said.entry_count <= RP_EPOCHS_MAX && said.max_offset >= 0);
    uint32_t whole = (uint32_t)head + said.entry_count * RP_SWITCH_ENTRY_SIZE;
    rp_epoch_entry *theirs = malloc((said.entry_count + 1) * sizeof *theirs);
    demand(theirs != NULL);
    if (size >= whole && rp_switch_take_entries(bytes + head, said.entry_count, theirs) == RP_OK) {
        for (uint32_t i = 1; i < said.entry_count; i++)
            demand(theirs[i].epoch > theirs[i - 1].epoch && theirs[i - 1].end_offset == theirs[i].start_offset);
        uint8_t *written = malloc(RP_SWITCH_HANDSHAKE_MAX);
        demand(written != NULL && rp_switch_put_handshake(written, said.max_offset, theirs, said.entry_count) == whole);
        demand(memcmp(written + head, bytes + head, whole - (uint32_t)head) == 0);
        free(written);
    }
    free(theirs);
}

static void hear_frames(const uint8_t *bytes, uint32_t size) {
    rp_switch_frame frame;
    uint8_t written[RP_SWITCH_TRANSFER_SIZE];
    int head;
    while ((head = rp_switch_take_frame(bytes, size, &frame)) > 0) {
        demand(frame.size <= RP_HA_FRAME_BYTES_MAX && frame.offset >= (frame.size > 0 ? 0 : -1));
        demand(frame.size == 0 || (frame.epoch >= 0 && frame.epoch_start >= 0));
        rp_switch_put_frame(written, &frame);
        demand(memcmp(written, bytes, sizeof written) == 0);
        bytes += head;
        size -= (uint32_t)head;
        uint32_t body = frame.size < size ? frame.size : size;
        bytes += body;
        size -= body;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const listeners[])(const uint8_t *, uint32_t) = {hear_slave, hear_handshake, hear_frames};
    if (size == 0)
        return 0;
    uint8_t *exact = malloc(size > 1 ? size - 1 : 1);
    demand(exact != NULL);
    memcpy(exact, data + 1, size - 1);
    listeners[data[0] % 3](exact, (uint32_t)size - 1);
    free(exact);
    return 0;
}
