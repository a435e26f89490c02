/* pop_records_fuzz.c: libFuzzer target for checkpoints, acks and bodies of batch acks. Built by clang
 * -fsanitize=fuzzer,address,undefined; not in the library.
 *
 * Input   one byte that chooses the reader, then its text.
 * Claims  nothing is read outside of the text (it is copied to a block of its exact size); what is read, written in its room and read
 *         again is the same; offsets and places of a checkpoint's messages agree.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/fuzz_inl.h"
#include "../base/slice_inl.h"
#include "pop_records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_checkpoint(rp_slice text, rp_arena *arena) {
    rp_pop_checkpoint checkpoint, again;
    rp_pop_record record;
    if (rp_pop_checkpoint_read(text, arena, &checkpoint) != RP_OK)
        return;
    uint32_t room = rp_pop_checkpoint_room(&checkpoint);
    uint8_t *bytes = malloc(room);
    demand(bytes != NULL);
    rp_pop_checkpoint_write(&checkpoint, 1, bytes, &record);
    demand(record.properties.data + record.properties.size <= bytes + room);
    demand(rp_pop_checkpoint_read(record.body, arena, &again) == RP_OK);
    demand(rp_slice_equals(again.topic, checkpoint.topic) && rp_slice_equals(again.group, checkpoint.group));
    demand(again.start_offset == checkpoint.start_offset && again.pop_time_ms == checkpoint.pop_time_ms);
    demand(again.count == checkpoint.count && again.diff_count == checkpoint.diff_count && again.re_puts == checkpoint.re_puts);
    for (uint32_t i = 0; i < checkpoint.count; i++) {
        int64_t offset = rp_pop_checkpoint_offset(&checkpoint, i);
        demand(offset < 0 || rp_pop_checkpoint_index(&checkpoint, offset) >= 0);
        demand(offset == rp_pop_checkpoint_offset(&again, i));
    }
    free(bytes);
}

static void try_ack(rp_slice text, int is_batch, rp_arena *arena) {
    rp_pop_ack ack, again;
    rp_pop_record record;
    if (rp_pop_ack_read(text, is_batch, arena, &ack) != RP_OK)
        return;
    uint32_t room = rp_pop_ack_room(&ack);
    uint8_t *bytes = malloc(room);
    demand(bytes != NULL);
    rp_pop_ack_write(&ack, 1, bytes, &record);
    demand(record.properties.data + record.properties.size <= bytes + room);
    demand(rp_pop_ack_read(record.body, is_batch, arena, &again) == RP_OK);
    demand(rp_slice_equals(again.topic, ack.topic) && rp_slice_equals(again.group, ack.group));
    demand(again.offset_count == ack.offset_count);
    demand(memcmp(again.offsets, ack.offsets, ack.offset_count * sizeof ack.offsets[0]) == 0);
    free(bytes);
}

static void try_request(rp_slice text, rp_arena *arena) {
    rp_batch_acks acks;
    if (rp_batch_acks_read(text, arena, &acks) != RP_OK)
        return;
    for (uint32_t i = 0; i < acks.count; i++) {
        const rp_batch_ack *ack = &acks.acks[i];
        demand(ack->group.size > 0 && ack->topic.size > 0 && ack->retry.size > 0 && ack->offset_count <= RP_POP_ACKS_MAX);
        for (uint32_t bit = 1; bit < ack->offset_count; bit++)
            demand((uint64_t)ack->offsets[bit] - (uint64_t)ack->offsets[bit - 1] - 1 < UINT32_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    rp_arena *arena = rp_arena_create(0, 1 << 24);
    uint8_t *exact = malloc(size > 1 ? size - 1 : 1);
    demand(arena != NULL && exact != NULL);
    memcpy(exact, data + 1, size - 1);
    rp_slice text = {exact, (uint32_t)size - 1};
    switch (data[0] & 3) {
    case 'c' & 3:
        try_checkpoint(text, arena);
        break;
    case 'a' & 3:
        try_ack(text, 0, arena);
        break;
    case 'b' & 3:
        (data[0] & 16) != 0 ? try_request(text, arena) : try_ack(text, 1, arena);
        break;
    default:
        try_request(text, arena);
    }
    free(exact);
    rp_arena_destroy(arena);
    return 0;
}
