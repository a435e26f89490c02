/* base64.h: base64 (RFC 4648) with padding and without line ends; for large bodies, three bytes at a time.
 *
 * Threads  pure functions.
 */
#ifndef RP_BASE_BASE64_H
#define RP_BASE_BASE64_H

#include <stdint.h>

#define RP_BASE64_SIZE(bytes) (((uint64_t)(bytes) + 2) / 3 * 4)

/* Writes RP_BASE64_SIZE(size) characters. */
void rp_base64_encode(const uint8_t *bytes, uint32_t size, uint8_t *text);
/* Returns how many bytes the text decodes to, by its size and padding; -1: no base64 text has this size. */
int64_t rp_base64_decoded_size(const uint8_t *text, uint32_t size);
/* Decodes the text into that many bytes. RP_OK; RP_E_PROTOCOL: it has a character outside of the alphabet, or bits set behind its last
 * byte. */
int rp_base64_decode(const uint8_t *text, uint32_t size, uint8_t *bytes);

#endif
