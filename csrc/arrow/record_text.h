/* record_text.h: parts of a record as people and clients read them: hosts, message ids, properties as JSON. Private to csrc/arrow. */
#ifndef RP_ARROW_RECORD_TEXT_H
#define RP_ARROW_RECORD_TEXT_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_HOST_TEXT_MAX 64
#define RP_OFFSET_MSG_ID_MAX 56
/* What the JSON of so many bytes of properties needs: a control character becomes six, and each name and value gets quotes and a
 * separator for the byte that ends it. */
#define RP_PROPERTIES_JSON_MAX(size) ((uint64_t)(size) * 6 + 16)
#define RP_TEXT_MENDED_MAX(size) ((uint64_t)(size) * 3)

/* Properties that are columns of their own; data NULL: the message has none. */
typedef struct rp_record_names {
    rp_slice tags, keys, unique_key;
} rp_record_names;

/* Takes the next name\1value\2 off properties. 0 when none is left. Text without \1 is skipped, as RocketMQ's reader does. */
int rp_properties_next(rp_slice *properties, rp_slice *name, rp_slice *value);
/* What the pairs mean for the columns that are made of one: of several with one name the last counts, as in RocketMQ's map; an empty one
 * counts as absent. */
void rp_record_names_find(rp_record_names *names, rp_slice properties);
/* {"name":"value",…}; returns bytes written into json, which has room for RP_PROPERTIES_JSON_MAX. Bad UTF-8 becomes U+FFFD. Fills names
 * in the same pass. */
uint32_t rp_properties_to_json(rp_slice properties, uint8_t *json, rp_record_names *names);
int rp_text_is_utf8(rp_slice text);
/* The text with U+FFFD where bytes are no character (base/utf8_inl.h); returns bytes written into mended, which has room for
 * RP_TEXT_MENDED_MAX. */
uint32_t rp_text_mend(rp_slice text, uint8_t *mended);
/* "ip:port", "[ip6]:port"; 0 when host has neither 8 nor 20 bytes. */
uint32_t rp_host_to_text(rp_slice host, char text[RP_HOST_TEXT_MAX]);
/* Upper-case hex of host, port and offset, as RocketMQ's createMessageId. */
uint32_t rp_offset_msg_id(rp_slice store_host, int64_t commit_log_offset, uint8_t id[RP_OFFSET_MSG_ID_MAX]);

#endif
