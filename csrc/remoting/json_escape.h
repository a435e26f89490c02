/* json_escape.h: the slow part of reading a JSON string, for strings that hold escapes. Not exported.
 *
 * Threads  pure functions.
 */
#ifndef RP_REMOTING_JSON_ESCAPE_H
#define RP_REMOTING_JSON_ESCAPE_H

#include <stdint.h>

#define RP_JSON_UNTERMINATED (-1)
#define RP_JSON_BAD_ESCAPE (-2)

/* Decodes the string whose content begins at *position into target, which has room for end - *position bytes (bytes beyond the returned
 * size may be overwritten too). Moves *position behind the closing quote and returns the text's size; on failure *position is where
 * reading stopped. */
int64_t rp_json_unescape(const uint8_t **position, const uint8_t *end, uint8_t *target);

#endif
