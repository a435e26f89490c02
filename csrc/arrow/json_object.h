/* json_object.h: reads the members of a flat JSON object one by one. Private to csrc/arrow.
 *
 * Strings are unescaped; numbers, true and false keep their source form. Members that are null are skipped. A member that is an array or
 * object is refused, because a property is a text.
 *
 * Threads  one owner. Slices point into the text or into scratch, and live as long as both.
 */
#ifndef RP_ARROW_JSON_OBJECT_H
#define RP_ARROW_JSON_OBJECT_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_json_object {
    const uint8_t *cursor, *end;
    uint8_t *scratch; /* where the next string is unescaped; there is room for the rest of the text */
    int32_t is_first;
} rp_json_object;

/* scratch has room for text.size bytes. RP_OK; RP_E_INVALID: not an object. */
int rp_json_object_begin(rp_json_object *object, rp_slice text, uint8_t *scratch);
/* Takes the next member. Returns 1; 0: object and text have ended; RP_E_INVALID: not JSON; RP_E_UNSUPPORTED: the value of `name` is an
 * array or object. */
int rp_json_object_next(rp_json_object *object, rp_slice *name, rp_slice *value);

#endif
