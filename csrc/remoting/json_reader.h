/* json_reader.h: a JSON text value by value, for texts with a few members. Internal to C: csrc/broker reads records and
 * bodies with it, csrc/auth bodies.
 * RocketMQ: fastjson 1, as far as its own writers go: numbers may be quoted, members come in any order, separators are not counted.
 *
 * Every call moves on in the text or fails, so a loop over members or elements ends.
 *
 * Threads  pure but for the reader, which is the caller's. Texts point into the text read, or into the arena where they had escapes.
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

/* Goes into an object ('{') or array ('['). RP_OK; RP_E_PROTOCOL: something else follows; RP_E_NOT_FOUND: it is null, which was passed. */
int rp_json_enter(rp_json *json, uint8_t bracket);
/* The next member's name, its value is to be read; or the next element. 1; 0: that was the last, the bracket was passed; RP_E_PROTOCOL,
 * RP_E_NO_MEMORY. */
int rp_json_next_member(rp_json *json, rp_slice *name);
int rp_json_next_element(rp_json *json);

/* Any value: a string's text, else what stands there, brackets included; data NULL for null. RP_OK, RP_E_PROTOCOL, RP_E_NO_MEMORY. */
int rp_json_read(rp_json *json, rp_slice *text);
/* A string or null. RP_OK; RP_E_PROTOCOL: something else; RP_E_NO_MEMORY. */
int rp_json_read_text(rp_json *json, rp_slice *text);
/* 1 when nothing but white space and separators is left. */
int rp_json_is_over(rp_json *json);
/* An integer, quoted or not; null is 0. RP_OK; RP_E_PROTOCOL: something else, or one that does not fit. */
int rp_json_read_i64(rp_json *json, int64_t *number);
int rp_json_read_i32(rp_json *json, int32_t *number);
/* How many elements come up to the end of the array, the reader stays where it is. RP_E_TOO_LARGE: more than max; RP_E_PROTOCOL,
 * RP_E_NO_MEMORY. */
int64_t rp_json_count_elements(const rp_json *json, uint32_t max);
/* A member that fastjson knows by two names. */
int rp_json_is_either(rp_slice name, const char *short_form, const char *long_form);

#endif
