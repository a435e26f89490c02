/* json_reader.h: reads a JSON text value by value, for texts with few members. Internal to C: csrc/broker reads records and bodies with
 * it, csrc/auth bodies.
 * RocketMQ: fastjson 1, as far as its own output needs: numbers may be quoted, members come in any order, separators are not checked.
 *
 * Every call advances in the text or fails, so a loop over members or elements ends.
 *
 * Threads  pure except for the reader, which belongs to the caller. Texts point into the text read, or into the arena if they had
 *          escapes.
 */
#ifndef RP_REMOTING_JSON_READER_H
#define RP_REMOTING_JSON_READER_H

#include <stdint.h>

#include "../base/arena.h"
#include "../base/slice.h"

typedef struct rp_json {
    const uint8_t *at, *end;
    rp_arena *arena;
} rp_json;

rp_json rp_json_of(rp_slice text, rp_arena *arena);

/* Enters an object ('{') or array ('['). RP_OK; RP_E_PROTOCOL: something else follows; RP_E_NOT_FOUND: it is null, which was passed. */
int rp_json_enter(rp_json *json, uint8_t bracket);
/* Moves to the next member, whose value can then be read, or to the next element. 1; 0: that was the last one, and the bracket was
 * passed; RP_E_PROTOCOL, RP_E_NO_MEMORY. */
int rp_json_next_member(rp_json *json, rp_slice *name);
int rp_json_next_element(rp_json *json);

/* Reads any value: a string's text, otherwise the raw text including brackets; data NULL for null. RP_OK, RP_E_PROTOCOL, RP_E_NO_MEMORY. */
int rp_json_read(rp_json *json, rp_slice *text);
/* Reads a string or null. RP_OK; RP_E_PROTOCOL: something else; RP_E_NO_MEMORY. */
int rp_json_read_text(rp_json *json, rp_slice *text);
/* 1 if only white space and separators are left. */
int rp_json_is_over(rp_json *json);
/* Reads an integer, quoted or not; null is 0. RP_OK; RP_E_PROTOCOL: something else, or one that does not fit. */
int rp_json_read_i64(rp_json *json, int64_t *number);
int rp_json_read_i32(rp_json *json, int32_t *number);
/* Counts the elements up to the end of the array; the reader stays in place. RP_E_TOO_LARGE: more than max; RP_E_PROTOCOL,
 * RP_E_NO_MEMORY. */
int64_t rp_json_count_elements(const rp_json *json, uint32_t max);
/* 1 if a member has one of the two names under which fastjson knows it. */
int rp_json_is_either(rp_slice name, const char *short_form, const char *long_form);

#endif
