/* command_fuzz.c: libFuzzer target for frames and both header encodings. Built by clang -fsanitize=fuzzer,address,undefined; not in the
 * library.
 *
 * Input   the bytes of a connection, after one byte that chooses: even, as they are; odd, with a prefix that makes them one valid frame,
 *         so that the fuzzer need not guess sizes to reach the header decoders.
 * Claims  no decoder reads past its bytes (the frame is copied to a block of its exact size); slices lie within the frame or hold
 *         readable memory; what was decoded encodes within its size_max, and decodes to the same again; a header of a known form decodes
 *         to what the general way reads, also with a byte changed.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/fuzz_inl.h"
#include "command.h"
#include "header_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int slices_equal(rp_slice left, rp_slice right) {
    return (left.data == NULL) == (right.data == NULL) && left.size == right.size &&
           (left.size == 0 || memcmp(left.data, right.data, left.size) == 0);
}

static void demand_equal(const rp_command *left, const rp_command *right) {
    demand(left->code == right->code && left->opaque == right->opaque && left->flag == right->flag);
    demand(left->version == right->version && left->language == right->language && left->field_count == right->field_count);
    demand(slices_equal(left->remark, right->remark) && slices_equal(left->body, right->body));
    for (uint32_t index = 0; index < left->field_count; index++) {
        demand(slices_equal(left->fields[index].key, right->fields[index].key));
        demand(slices_equal(left->fields[index].value, right->fields[index].value));
    }
}

/* The frame teaches its form; then variants, each with one byte changed, are read both ways. */
static void check_forms(uint8_t *frame, uint32_t size, rp_arena *arena) {
    rp_header_forms *forms = rp_header_forms_create();
    demand(forms != NULL);
    rp_command formed, general;
    demand(rp_command_decode_formed(forms, frame, size, arena, &formed, NULL) == RP_OK);
    for (uint32_t step = 0, at = 8; step < 32 && at < size; step++, at += 1 + size / 32) {
        uint8_t before = frame[at];
        frame[at] = (uint8_t)("\"\\0a{},:"[step % 8]);
        int status = rp_command_decode(frame, size, arena, &general, NULL);
        demand(rp_command_decode_formed(forms, frame, size, arena, &formed, NULL) == status);
        if (status == RP_OK) {
            demand_equal(&formed, &general);
        }
        frame[at] = before;
    }
    rp_header_forms_destroy(forms);
}

static void check_round_trip(const rp_command *command, rp_arena *arena) {
    size_t size_max = rp_command_size_max(command);
    demand(size_max > 0);
    uint8_t *target = malloc(size_max);
    demand(target != NULL);
    int64_t size = rp_command_encode(command, target, size_max);
    if (size == RP_E_INVALID || size == RP_E_TOO_LARGE) {
        free(target);
        return;
    }
    demand(size > 0 && (size_t)size <= size_max);
    rp_command again;
    demand(rp_command_decode(target, (uint32_t)size, arena, &again, NULL) == RP_OK);
    again.language = command->language; /* a number without a name is written as OTHER */
    demand_equal(&again, command);
    for (int64_t cut = 0; cut < size; cut += 1 + size / 8) {
        demand(rp_command_encode(command, target, (size_t)cut) == RP_E_TOO_LARGE);
    }
    free(target);
}

static void decode_frame(const uint8_t *frame, uint32_t size, rp_arena *arena) {
    uint8_t *exact = malloc(size);
    demand(exact != NULL);
    memcpy(exact, frame, size);
    rp_command command;
    rp_error error;
    if (rp_command_decode(exact, size, arena, &command, &error) == RP_OK) {
        rp_command_field(&command, "topic");
        check_round_trip(&command, arena);
        check_forms(exact, size, arena);
        if (command.serialize_type == RP_SERIALIZE_ROCKETMQ) {
            command.serialize_type = RP_SERIALIZE_JSON;
            check_round_trip(&command, arena);
        }
    } else {
        demand(error.status < 0 && error.message[0] != '\0' && error.offset >= 0 && error.offset <= size);
    }
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 65536) {
        return 0;
    }
    rp_arena *arena = rp_arena_create(0, 1 << 20);
    demand(arena != NULL);
    uint8_t choice = data[0];
    data++;
    size--;
    if (choice & 1) {
        uint8_t *frame = malloc(size + 8);
        demand(frame != NULL);
        rp_put_u32(frame, (uint32_t)size + 4);
        rp_put_u32(frame + 4, (uint32_t)(choice >> 1 & 1) << 24 | (uint32_t)size);
        memcpy(frame + 8, data, size);
        decode_frame(frame, (uint32_t)size + 8, arena);
        free(frame);
    } else {
        uint32_t frame_size;
        while (rp_frame_scan(data, size, 65536, &frame_size) == 1) {
            decode_frame(data, frame_size, arena);
            data += frame_size;
            size -= frame_size;
        }
    }
    rp_arena_destroy(arena);
    return 0;
}
