/* request.h: the frames that a load run sends: any request encoded on the spot, and send requests from prebuilt templates.
 *
 * A template is a complete frame for one queue in which only bytes of fixed width change from message to message:
 * opaque (ten digits, or four bytes), born time stamp (13 digits), unique key (24 of its 32 digits) and the body.
 * Opaques start at RP_LOAD_OPAQUE_MIN, so that they always have ten digits.
 *
 * Threads  pure after open; many workers may use a template.
 */
#ifndef RP_LOAD_REQUEST_H
#define RP_LOAD_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "payload.h"

#define RP_LOAD_OPAQUE_MIN 1000000000
#define RP_LOAD_REQUEST_FIELDS_MAX 24

#define RP_REQUEST_SEND 10
#define RP_REQUEST_PULL 11
#define RP_REQUEST_GET_MAX_OFFSET 30
#define RP_REQUEST_GET_MIN_OFFSET 31
#define RP_REQUEST_SEND_V2 310
#define RP_REQUEST_SEND_BATCH 320

typedef struct rp_load_field {
    const char *name;
    const char *value;
} rp_load_field;

/* Writes frame length, header length and header of a request that is followed by a body of body_size bytes. Returns the bytes written;
 * RP_E_TOO_LARGE: they do not fit into target_size. */
int64_t rp_load_encode_request(uint8_t *target, size_t target_size, int serialize_type, int32_t code, int32_t opaque,
                               const rp_load_field *fields, uint32_t field_count, uint32_t body_size);

typedef struct rp_load_template rp_load_template;

typedef struct rp_load_template_options {
    const char *topic;
    const char *producer_group;
    const char *tags; /* NULL: none */
    int32_t serialize_type;
    int32_t send_code;
    uint32_t queue_id;
    uint32_t batch_size; /* >= 1; more than 1 only with 320 */
    uint32_t message_size;
    uint32_t run;
    int32_t unique_key;
} rp_load_template_options;

/* RP_OK; RP_E_NO_MEMORY; RP_E_TOO_LARGE: the frame exceeds 16 MB, or the properties 511 bytes. */
int rp_load_template_open(const rp_load_template_options *options, const rp_payload *payload, rp_load_template **template);
void rp_load_template_close(rp_load_template *template);
uint32_t rp_load_template_size(const rp_load_template *template); /* bytes of the whole frame */

/* Writes one frame into target (rp_load_template_size bytes). head: of the first message; the others follow in sequence. born_digits:
 * the 13 decimal digits of the born time stamp. */
void rp_load_template_write(const rp_load_template *template, int32_t opaque, const char *born_digits, const rp_payload_head *head,
                            uint8_t *target);

#endif
