/* payload.c: see payload.h for the layout. */
#include "payload.h"

#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/crc32.h"

#define PAYLOAD_MAGIC 0x52504C42u /* "RPLB" */
#define CRC_AT 32
#define VARIANTS 64u

struct rp_payload { /* fixed after open */
    uint32_t size;
    uint32_t pattern_crc[VARIANTS];
    uint8_t pattern[]; /* size - RP_PAYLOAD_HEAD_SIZE + VARIANTS bytes */
};

rp_payload *rp_payload_open(uint32_t size) {
    if (size < RP_PAYLOAD_HEAD_SIZE)
        return NULL;
    uint32_t pattern_size = size - RP_PAYLOAD_HEAD_SIZE;
    rp_payload *payload = malloc(sizeof *payload + pattern_size + VARIANTS);
    if (payload == NULL)
        return NULL;
    payload->size = size;
    /* Letters, to make dumps readable, from a generator without short cycles, so that a shifted copy never matches. */
    uint64_t state = UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t i = 0; i < pattern_size + VARIANTS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        payload->pattern[i] = (uint8_t)('a' + (state >> 32) % 26);
    }
    for (uint32_t variant = 0; variant < VARIANTS; variant++)
        payload->pattern_crc[variant] = rp_crc32(0, payload->pattern + variant, pattern_size);
    return payload;
}

void rp_payload_close(rp_payload *payload) { free(payload); }

void rp_payload_write(const rp_payload *payload, const rp_payload_head *head, uint8_t *target) {
    uint32_t variant = (uint32_t)(head->sequence % VARIANTS);
    rp_put_u32(target, PAYLOAD_MAGIC);
    rp_put_u32(target + 4, head->run);
    rp_put_u32(target + 8, head->producer);
    rp_put_u32(target + 12, head->queue);
    rp_put_u64(target + 16, head->sequence);
    rp_put_u64(target + 24, (uint64_t)head->intended_ns);
    rp_put_u32(target + CRC_AT, rp_crc32(payload->pattern_crc[variant], target, CRC_AT));
    memcpy(target + RP_PAYLOAD_HEAD_SIZE, payload->pattern + variant, payload->size - RP_PAYLOAD_HEAD_SIZE);
}

int rp_payload_read(const rp_payload *payload, const uint8_t *body, uint32_t size, rp_payload_head *head) {
    if (size < RP_PAYLOAD_HEAD_SIZE || rp_get_u32(body) != PAYLOAD_MAGIC)
        return RP_PAYLOAD_FOREIGN;
    head->run = rp_get_u32(body + 4);
    head->producer = rp_get_u32(body + 8);
    head->queue = rp_get_u32(body + 12);
    head->sequence = rp_get_u64(body + 16);
    head->intended_ns = (int64_t)rp_get_u64(body + 24);
    uint32_t variant = (uint32_t)(head->sequence % VARIANTS);
    if (size != payload->size)
        return RP_PAYLOAD_CORRUPT;
    if (memcmp(body + RP_PAYLOAD_HEAD_SIZE, payload->pattern + variant, size - RP_PAYLOAD_HEAD_SIZE) != 0)
        return RP_PAYLOAD_CORRUPT;
    return rp_get_u32(body + CRC_AT) == rp_crc32(payload->pattern_crc[variant], body, CRC_AT) ? RP_PAYLOAD_GOOD : RP_PAYLOAD_CORRUPT;
}
