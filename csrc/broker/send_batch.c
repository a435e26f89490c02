/* send_batch.c: see send_batch.h. */
#include "send_batch.h"

#include "../base/bytes_inl.h"
#include "../base/error.h"

#define FIXED_SIZE 20u /* up to the body */

int rp_batch_next(rp_slice body, uint32_t *position, rp_batch_message *message) {
    uint32_t left = body.size - *position;
    const uint8_t *at = body.data + *position;
    if (left == 0)
        return 0;
    if (left < FIXED_SIZE + 2)
        return RP_E_PROTOCOL;
    uint32_t body_size = rp_get_u32(at + 16);
    if (body_size > left - FIXED_SIZE - 2)
        return RP_E_PROTOCOL;
    uint32_t properties_size = rp_get_u16(at + FIXED_SIZE + body_size);
    if (properties_size > left - FIXED_SIZE - 2 - body_size)
        return RP_E_PROTOCOL;
    message->flag = (int32_t)rp_get_u32(at + 12);
    message->body = (rp_slice){at + FIXED_SIZE, body_size};
    message->properties = (rp_slice){at + FIXED_SIZE + body_size + 2, properties_size};
    *position += FIXED_SIZE + body_size + 2 + properties_size;
    return 1;
}

int64_t rp_batch_count(rp_slice body, uint32_t *position) {
    rp_batch_message message;
    int64_t count = 0;
    int got;
    while ((got = rp_batch_next(body, position, &message)) == 1)
        count++;
    return got < 0 ? got : count;
}
