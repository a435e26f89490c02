/* json_object.h: the members of a flat JSON object, one after the other. Private to csrc/arrow.
 *
 * Texts are given plain, numbers and true or false as they stand. Members that are null are passed over. An array or object as a
 * member is refused: a property is a text.
 *
 * Threads  one owner. Slices point into the text or into scratch, and live as long as both.
 */
#ifndef RP_ARROW_JSON_OBJECT_H
#define RP_ARROW_JSON_OBJECT_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_json_object {
    const uint8_t *cursor, *end;
    uint8_t *scratch; /* room for what is left of the text */
    int32_t is_first;
} rp_json_object;

/* scratch has room for text.size bytes. RP_OK, or RP_E_INVALID: no object. */
int rp_json_object_begin(rp_json_object *object, rp_slice text, uint8_t *scratch);
/* 1: one member; 0: the object ended, and the text with it; RP_E_INVALID: it is not JSON; RP_E_UNSUPPORTED: name's value is not a text. */
int rp_json_object_next(rp_json_object *object, rp_slice *name, rp_slice *value);

#endif
