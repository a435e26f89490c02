/* inner_batch.c: see inner_batch.h. */
#include "inner_batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/java_number.h"

#define NUMBER "INNER_NUM"
#define BASE "INNER_BASE"

uint32_t rp_inner_pairs_write(uint8_t *at, int32_t messages, int64_t base) {
    char text[RP_INNER_PAIRS_MAX + 1];
    int size = snprintf(text, sizeof text, NUMBER "\1%" PRId32 "\2" BASE "\1%019" PRId64 "\2", messages, base);
    memcpy(at, text, (size_t)size);
    return (uint32_t)size;
}

int rp_inner_batch_read(const rp_message *message, rp_queue_entry *entry) {
    if ((message->sys_flag & RP_SYSFLAG_INNER_BATCH) == 0) {
        return 0;
    }
    int64_t messages, base;
    if (!rp_java_integer(rp_message_property(message->properties, NUMBER), 1, RP_INNER_MESSAGES_MAX, &messages) ||
        !rp_java_integer(rp_message_property(message->properties, BASE), 0, INT64_MAX, &base)) {
        return 0;
    }
    entry->queue_offset = base;
    entry->messages = (int32_t)messages;
    return base == message->queue_offset;
}
