/* payload.h: message bodies that name their sender, with a check that finds every changed byte.
 *
 *  at size  (big-endian)
 *   0  4  magic "RPLB"              24  8  intended send time, monotonic ns of the sending machine
 *   4  4  run                       32  4  CRC-32 of the pattern, continued over bytes 0..31
 *   8  4  producer                  36  n  pattern: a fixed text, entered at sequence % 64
 *  12  4  queue it was sent to
 *  16  8  sequence, from 0 for each producer
 *
 * The pattern's 64 CRCs are computed once, so making a body costs one memcpy and a CRC of 32 bytes, and checking it one memcmp more.
 *
 * Threads  pure after open.
 */
#ifndef RP_LOAD_PAYLOAD_H
#define RP_LOAD_PAYLOAD_H

#include <stdint.h>

#define RP_PAYLOAD_HEAD_SIZE 36

typedef struct rp_payload rp_payload;

typedef struct rp_payload_head {
    uint32_t run;
    uint32_t producer;
    uint32_t queue;
    uint64_t sequence;
    int64_t intended_ns;
} rp_payload_head;

enum rp_payload_verdict { RP_PAYLOAD_GOOD = 0, RP_PAYLOAD_FOREIGN = 1, RP_PAYLOAD_CORRUPT = 2 };

rp_payload *rp_payload_open(uint32_t size); /* bodies of size bytes, >= RP_PAYLOAD_HEAD_SIZE; NULL: out of memory */
void rp_payload_close(rp_payload *payload);
void rp_payload_write(const rp_payload *payload, const rp_payload_head *head, uint8_t *target);

/* Returns rp_payload_verdict. FOREIGN: not written by this generator (no magic); otherwise head is filled. A body of another size than
 * the pattern was opened for is CORRUPT. */
int rp_payload_read(const rp_payload *payload, const uint8_t *body, uint32_t size, rp_payload_head *head);

#endif
