/* inner_batch.c: see inner_batch.h. */
#include "inner_batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER "INNER_NUM"
#define BASE "INNER_BASE"

uint32_t rp_inner_pairs_write(uint8_t *at, int32_t messages, int64_t base) {
    char text[RP_INNER_PAIRS_MAX + 1];
    int size = snprintf(text, sizeof text, NUMBER "\1%" PRId32 "\2" BASE "\1%019" PRId64 "\2", messages, base);
    memcpy(at, text, (size_t)size);
    return (uint32_t)size;
}

/* A whole number as Java parses one, from 0 up to max; -1 for anything else. */
static int64_t number_of(rp_slice text, int64_t max) {
    int64_t value = text.size == 0 ? -1 : 0;
    for (uint32_t i = 0; i < text.size && value >= 0; i++) {
        int digit = text.data[i] - '0';
        value = digit < 0 || digit > 9 || value > (max - digit) / 10 ? -1 : value * 10 + digit;
    }
    return value;
}

int rp_inner_batch_read(const rp_message *message, rp_queue_entry *entry) {
    if ((message->sys_flag & RP_SYSFLAG_INNER_BATCH) == 0) {
        return 0;
    }
    int64_t messages = number_of(rp_message_property(message->properties, NUMBER), RP_INNER_MESSAGES_MAX);
    int64_t base = number_of(rp_message_property(message->properties, BASE), INT64_MAX);
    entry->queue_offset = base;
    entry->messages = (int32_t)messages;
    return messages > 0 && base == message->queue_offset;
}
