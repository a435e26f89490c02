/* receipt_handle.c: see receipt_handle.h. */
#include "receipt_handle.h"

#include <stdbool.h>
#include <string.h>

#include "../remoting/command.h"
#include "../store/topic_prefix_inl.h"
#include "resource.h"

_Static_assert(RP_RETRY_TOPIC_MAX == RP_RETRY_PREFIX_SIZE + RP_GROUP_CHARACTERS_MAX + 1 + RP_TOPIC_CHARACTERS_MAX, "it fits");

#define DIGITS_MAX 18u
#define BROKER_MAX 255u

enum part { PART_START, PART_POP, PART_INVISIBLE, PART_REVIVE, PART_KIND, PART_BROKER, PART_QUEUE, PART_OFFSET, PART_LOG_OFFSET, PARTS };

/* Splits the text at single blanks and returns the number of parts; 0: a part is empty, or there are too many. */
static uint32_t split(rp_slice text, rp_slice parts[PARTS]) {
    uint32_t count = 0, begin = 0;
    if (text.size == 0)
        return 0;
    for (uint32_t at = 0; at <= text.size; at++) {
        if (at < text.size && text.data[at] != ' ')
            continue;
        if (count == PARTS)
            return 0;
        parts[count++] = (rp_slice){text.data + begin, at - begin};
        begin = at + 1;
    }
    return count;
}

/* Whether the text is a whole number in canonical form: no sign but a minus, no leading zero. */
static bool is_number(rp_slice text) {
    uint32_t first = text.size > 0 && text.data[0] == '-', digits = text.size - first;
    if (digits == 0 || digits > DIGITS_MAX || (text.data[first] == '0' && text.size > 1))
        return false;
    for (uint32_t at = first; at < text.size; at++) {
        if (text.data[at] < '0' || text.data[at] > '9')
            return false;
    }
    return true;
}

static bool is_broker(rp_slice text) {
    for (uint32_t at = 0; at < text.size; at++) {
        uint8_t c = text.data[at];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && c != '%' && c != '|' && c != '.' && c != '_' && c != '-')
            return false;
    }
    return text.size > 0 && text.size <= BROKER_MAX;
}

int rp_receipt_handle_read(rp_slice text, rp_receipt_handle *handle) {
    static const uint8_t numbers[] = {PART_START, PART_POP, PART_INVISIBLE, PART_REVIVE, PART_QUEUE, PART_OFFSET};
    rp_slice parts[PARTS];
    uint32_t count = text.size <= RP_RECEIPT_HANDLE_MAX ? split(text, parts) : 0;
    bool is_one = count >= PART_LOG_OFFSET && is_broker(parts[PART_BROKER]) && parts[PART_KIND].size == 1 &&
                  parts[PART_KIND].data[0] >= '0' && parts[PART_KIND].data[0] <= '2';
    for (uint32_t i = 0; i < sizeof numbers && is_one; i++)
        is_one = is_number(parts[numbers[i]]);
    if (is_one && count == PARTS)
        is_one = is_number(parts[PART_LOG_OFFSET]) && parts[PART_LOG_OFFSET].data[0] != '-';
    int64_t pop_ms, invisible_ms;
    if (!is_one || rp_slice_to_i64(parts[PART_POP], &pop_ms) != RP_OK || rp_slice_to_i64(parts[PART_INVISIBLE], &invisible_ms) != RP_OK)
        return 0;
    handle->visible_ms = pop_ms + invisible_ms; /* cannot overflow: each has eighteen digits at most */
    handle->kind = (uint8_t)(parts[PART_KIND].data[0] - '0');
    handle->broker = parts[PART_BROKER];
    handle->queue_id = parts[PART_QUEUE];
    handle->offset = parts[PART_OFFSET];
    handle->log_offset = count == PARTS ? parts[PART_LOG_OFFSET] : (rp_slice){NULL, 0};
    return 1;
}

static uint8_t *put(uint8_t *at, rp_slice text) {
    memcpy(at, text.data, text.size);
    return at + text.size;
}

rp_slice rp_receipt_handle_topic(const rp_receipt_handle *handle, rp_slice topic, rp_slice group, uint8_t room[RP_RETRY_TOPIC_MAX]) {
    if (handle->kind == 0)
        return topic;
    uint8_t *at = put(put(room, (rp_slice){(const uint8_t *)RP_RETRY_PREFIX, RP_RETRY_PREFIX_SIZE}), group);
    *at++ = handle->kind == 1 ? '_' : '+';
    return (rp_slice){room, (uint32_t)(put(at, topic) - room)};
}
