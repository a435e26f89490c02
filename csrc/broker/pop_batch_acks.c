/* pop_batch_acks.c: reads the body of BATCH_ACK_MESSAGE (pop_records.h).
 * RocketMQ: BatchAckMessageRequestBody, BatchAck, BitSetSerializerDeserializer (5.3.3 remoting/protocol/).
 */
#include <stdbool.h>

#include "../base/error.h"
#include "../base/slice_inl.h"
#include "../remoting/json_reader.h"
#include "pop_records.h"

static int base64_value(uint8_t byte) {
    return byte >= 'A' && byte <= 'Z'   ? byte - 'A'
           : byte >= 'a' && byte <= 'z' ? byte - 'a' + 26
           : byte >= '0' && byte <= '9' ? byte - '0' + 52
           : byte == '+'                ? 62
           : byte == '/'                ? 63
                                        : -1;
}

/* A set of bits: bytes in base 64; the lowest bit of the first byte is bit 0. */
typedef struct bit_set {
    rp_slice text; /* without its padding */
} bit_set;

static bool bit_set_of(rp_slice text, bit_set *set) {
    while (text.size > 0 && text.data[text.size - 1] == '=')
        text.size--;
    for (uint32_t i = 0; i < text.size; i++) {
        if (base64_value(text.data[i]) < 0)
            return false;
    }
    set->text = text;
    return text.size % 4 != 1;
}

/* Writes start + each bit that is set, with Java's wrap-around; offsets may be NULL. Returns how many; RP_E_TOO_LARGE past
 * RP_POP_ACKS_MAX. */
static int64_t read_bits(const bit_set *set, int64_t start, int64_t *offsets) {
    uint32_t count = 0, held = 0, held_bits = 0, byte_index = 0;
    for (uint32_t i = 0; i < set->text.size; i++) {
        held = held << 6 | (uint32_t)base64_value(set->text.data[i]);
        held_bits += 6;
        if (held_bits < 8)
            continue;
        held_bits -= 8;
        uint32_t byte = held >> held_bits & 0xFF;
        for (uint32_t bit = 0; bit < 8; bit++) {
            if ((byte >> bit & 1) == 0)
                continue;
            if (count == RP_POP_ACKS_MAX)
                return RP_E_TOO_LARGE;
            if (offsets != NULL)
                offsets[count] = (int64_t)((uint64_t)start + (uint64_t)byte_index * 8 + bit);
            count++;
        }
        byte_index++;
    }
    return count;
}

static int read_member(rp_json *json, rp_slice name, rp_batch_ack *ack, rp_slice *bits) {
    rp_slice passed;
    return rp_json_is_either(name, "c", "consumerGroup")    ? rp_json_read(json, &ack->group)
           : rp_json_is_either(name, "t", "topic")          ? rp_json_read(json, &ack->topic)
           : rp_json_is_either(name, "r", "retry")          ? rp_json_read(json, &ack->retry)
           : rp_json_is_either(name, "so", "startOffset")   ? rp_json_read_i64(json, &ack->start_offset)
           : rp_json_is_either(name, "q", "queueId")        ? rp_json_read_i32(json, &ack->queue_id)
           : rp_json_is_either(name, "rq", "reviveQueueId") ? rp_json_read_i32(json, &ack->revive_queue_id)
           : rp_json_is_either(name, "pt", "popTime")       ? rp_json_read_i64(json, &ack->pop_time_ms)
           : rp_json_is_either(name, "it", "invisibleTime") ? rp_json_read_i64(json, &ack->invisible_ms)
           : rp_json_is_either(name, "b", "bitSet")         ? rp_json_read(json, bits)
                                                            : rp_json_read(json, &passed);
}

static int set_offsets(rp_batch_ack *ack, rp_slice bits, rp_arena *arena) {
    bit_set set;
    if (ack->group.size == 0 || ack->topic.size == 0 || ack->retry.size == 0 || bits.data == NULL || !bit_set_of(bits, &set))
        return RP_E_PROTOCOL;
    int64_t count = read_bits(&set, ack->start_offset, NULL);
    if (count < 0)
        return (int)count;
    ack->offset_count = (uint32_t)count;
    ack->offsets = rp_arena_take(arena, (size_t)count * sizeof *ack->offsets + 1);
    if (ack->offsets == NULL)
        return RP_E_NO_MEMORY;
    (void)read_bits(&set, ack->start_offset, ack->offsets);
    return RP_OK;
}

static int read_ack(rp_json *json, rp_arena *arena, rp_batch_ack *ack) {
    rp_slice name, bits = {NULL, 0};
    int more;
    *ack = (rp_batch_ack){0};
    if (rp_json_enter(json, '{') != RP_OK)
        return RP_E_PROTOCOL;
    while ((more = rp_json_next_member(json, &name)) > 0) {
        int status = read_member(json, name, ack, &bits);
        if (status != RP_OK)
            return status;
    }
    return more < 0 ? more : set_offsets(ack, bits, arena);
}

static int read_acks(rp_json *json, rp_arena *arena, rp_batch_acks *acks) {
    acks->count = 0;
    int status = rp_json_enter(json, '[');
    if (status != RP_OK)
        return status == RP_E_NOT_FOUND ? RP_OK : status;
    int64_t count = rp_json_count_elements(json, RP_POP_ACKS_MAX);
    if (count < 0)
        return (int)count;
    acks->acks = rp_arena_take(arena, (size_t)count * sizeof *acks->acks + 1);
    if (acks->acks == NULL)
        return RP_E_NO_MEMORY;
    for (; status == RP_OK && acks->count < (uint32_t)count; acks->count++)
        status = rp_json_next_element(json) > 0 ? read_ack(json, arena, &acks->acks[acks->count]) : RP_E_PROTOCOL;
    return status == RP_OK && rp_json_next_element(json) != 0 ? RP_E_PROTOCOL : status;
}

int rp_batch_acks_read(rp_slice body, rp_arena *arena, rp_batch_acks *acks) {
    rp_json json = rp_json_of(body, arena);
    rp_slice name, passed;
    *acks = (rp_batch_acks){0};
    if (rp_json_enter(&json, '{') != RP_OK)
        return RP_E_PROTOCOL;
    int more;
    while ((more = rp_json_next_member(&json, &name)) > 0) {
        int status = rp_slice_is(name, "brokerName") ? rp_json_read(&json, &acks->broker_name)
                     : rp_slice_is(name, "acks")     ? read_acks(&json, arena, acks)
                                                     : rp_json_read(&json, &passed);
        if (status != RP_OK)
            return status;
    }
    return more;
}
