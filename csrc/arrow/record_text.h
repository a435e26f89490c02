/* record_text.h: parts of a record in the form that people and clients read: hosts, message ids, properties as JSON. Private to
 * csrc/arrow. */
#ifndef RP_ARROW_RECORD_TEXT_H
#define RP_ARROW_RECORD_TEXT_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_HOST_TEXT_MAX 64
#define RP_OFFSET_MSG_ID_MAX 56
/* Room for the JSON of so many bytes of properties: a control character becomes six bytes, and for the byte that ends each name and
 * value come two quotes and a separator. */
#define RP_PROPERTIES_JSON_MAX(size) ((uint64_t)(size) * 6 + 16)
#define RP_TEXT_MENDED_MAX(size) ((uint64_t)(size) * 3)

/* Properties that have columns of their own; data NULL: the message does not have the property. */
typedef struct rp_record_names {
    rp_slice tags, keys, unique_key;
} rp_record_names;

/* Takes the next name\1value\2 off properties. Returns 1; 0: none is left. Text without \1 is skipped, as by RocketMQ's reader. */
int rp_properties_next(rp_slice *properties, rp_slice *name, rp_slice *value);
/* Finds the properties that have columns of their own. If a name occurs twice the last one counts, as in RocketMQ's map; an empty value
 * counts as absent. */
void rp_record_names_find(rp_record_names *names, rp_slice properties);
/* Writes {"name":"value",…} into json, which has room for RP_PROPERTIES_JSON_MAX, and fills names in the same pass; returns the bytes
 * written.
 * Bad UTF-8 becomes U+FFFD. */
uint32_t rp_properties_to_json(rp_slice properties, uint8_t *json, rp_record_names *names);
int rp_text_is_utf8(rp_slice text);
/* Writes the text into mended, which has room for RP_TEXT_MENDED_MAX, with U+FFFD for bytes that are not a character (base/utf8_inl.h);
 * returns the bytes written. */
uint32_t rp_text_mend(rp_slice text, uint8_t *mended);
/* Writes "ip:port" or "[ip6]:port" and returns its size; 0: the host has neither 8 nor 20 bytes. */
uint32_t rp_host_to_text(rp_slice host, char text[RP_HOST_TEXT_MAX]);
/* Writes host, port and offset in upper-case hex, as RocketMQ's createMessageId, and returns the size. */
uint32_t rp_offset_msg_id(rp_slice store_host, int64_t commit_log_offset, uint8_t id[RP_OFFSET_MSG_ID_MAX]);

#endif
