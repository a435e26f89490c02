/* send_inner.c: see send_inner.h. */
#include "send_inner.h"

#include <inttypes.h>

#include "../store/inner_batch.h"
#include "lane.h"
#include "send_batch.h"

#define REFUSAL                                                                                                                            \
    "a batch to a topic with queue.type=BatchCQ has at most %d messages, their properties at most %d bytes each, is not compressed and "   \
    "names no light queues"

#define ROOM 2048 /* for the place in the batch queue, and before that the broker's own properties, REAL_TOPIC, timers */

int rp_send_lacks_room(const rp_send_request *request) {
    return __builtin_expect(request->properties.text.size > RP_PROPERTIES_SIZE_MAX - ROOM, 0) &&
           (atomic_load_explicit(&request->topic->flags, memory_order_relaxed) & RP_TOPIC_BATCH) != 0;
}

int rp_send_count_batch(const rp_send_request *request, int64_t *count) {
    uint32_t position = 0;
    *count = rp_batch_count(request->command->body, &position);
    if (*count >= 0)
        return RP_OK;
    return rp_answer(request->to, RP_RESPONSE_SYSTEM_ERROR, request->lane->broker->send_fields, RP_SEND_FIELD_COUNT,
                     "java.nio.BufferUnderflowException: the batch body is cut off or its sizes are wrong, at byte %" PRIu32, position);
}

static uint32_t properties_size_max(rp_slice body) {
    rp_batch_message message;
    uint32_t position = 0, most = 0;
    while (rp_batch_next(body, &position, &message) == 1)
        most = message.properties.size > most ? message.properties.size : most;
    return most;
}

/* Clients unpack the batch as it is: an unreadable one would keep its messages, and those next to it, from their consumers. */
int rp_send_check_inner_batch(const rp_send_request *request, int64_t *count) {
    int outcome = rp_send_count_batch(request, count);
    if (outcome != RP_OK)
        return outcome;
    int is_readable = *count <= RP_INNER_MESSAGES_MAX && properties_size_max(request->command->body) <= RP_PROPERTIES_SIZE_MAX &&
                      (request->header.sys_flag & RP_SYSFLAG_COMPRESSED) == 0;
    if (is_readable && request->properties.light_lists == 0)
        return RP_OK;
    return rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, request->lane->broker->send_fields, RP_SEND_FIELD_COUNT, REFUSAL,
                     RP_INNER_MESSAGES_MAX, RP_PROPERTIES_SIZE_MAX);
}
