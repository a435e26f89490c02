/* response.h: reads a broker's responses: a minimal, strict parser of both header encodings.
 *
 * Strict: the header must be exactly one value of its encoding with nothing behind it, code and opaque must be present, numbers must be
 * decimal and in range. Only the fields that a load run uses are kept.
 *
 * Threads  pure. Slices point into the frame.
 */
#ifndef RP_LOAD_RESPONSE_H
#define RP_LOAD_RESPONSE_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_RESPONSE_SUCCESS 0
#define RP_RESPONSE_PULL_NOT_FOUND 19
#define RP_RESPONSE_PULL_RETRY_IMMEDIATELY 20
#define RP_RESPONSE_PULL_OFFSET_MOVED 21
#define RP_RESPONSE_FRAME_MAX 16777216u

typedef struct rp_load_response {
    int32_t code;
    int32_t opaque;
    int32_t flag;
    int32_t serialize_type; /* 0 JSON, 1 ROCKETMQ: RocketMQ answers in the encoding it was started with, whatever the request's */
    int64_t queue_id;    /* fields: -1 if absent */
    int64_t queue_offset;
    int64_t next_begin_offset;
    int64_t min_offset;
    int64_t max_offset;
    int64_t offset;
    rp_slice remark; /* data NULL: none; JSON escapes are kept */
    rp_slice body;
} rp_load_response;

/* Returns the size of the frame at the head of data, with its length bytes; 0: fewer than 4 bytes are there; RP_E_TOO_LARGE: more than
 * 16 MB;
 * RP_E_PROTOCOL: less than a header. */
int64_t rp_load_frame_size(const uint8_t *data, uint64_t size);

/* Parses one complete frame. RP_OK, or RP_E_PROTOCOL with *cause (static storage), which says what is wrong. */
int rp_load_parse_response(const uint8_t *frame, uint32_t size, rp_load_response *response, const char **cause);

#endif
