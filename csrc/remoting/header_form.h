/* header_form.h: JSON headers seen before, so that one that differs in values only need not be parsed. Internal to csrc/remoting.
 *
 * Why      a client writes the same header again and again: only the digits of opaque and the strings of extFields change, and mostly
 *          not in length. To compare 350 bytes with a remembered header costs a fifth of parsing them.
 * How      a form holds a header that the general way has read, where its fields lie, and which bytes may change. A header is of the
 *          form when it has its size, every other byte is the same, and quotes and backslashes stand where they stood: then every string
 *          begins and ends where it did. Escaped strings are unescaped again.
 * Threads  one owner (a reactor).
 * Bounds   RP_HEADER_FORMS forms of at most RP_HEADER_FORM_BYTES; a new one takes a place over only when the old was of no use lately.
 */
#ifndef RP_REMOTING_HEADER_FORM_H
#define RP_REMOTING_HEADER_FORM_H

#include "command.h"

#define RP_HEADER_FORMS 16
#define RP_HEADER_FORM_BYTES 640

typedef struct rp_header_forms rp_header_forms;

/* NULL: no memory. */
rp_header_forms *rp_header_forms_create(void);
void rp_header_forms_destroy(rp_header_forms *forms);

/* 1: the header is of a known form, and command holds what the general way would have read; 0: command holds nothing of use. */
int rp_header_forms_read(rp_header_forms *forms, const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command);
/* The general way has read header into command: remember it, perhaps. */
void rp_header_forms_learn(rp_header_forms *forms, const uint8_t *header, uint32_t size, const rp_command *command);

/* rp_command_decode by the forms where they fit; the result is the same. */
int rp_command_decode_formed(rp_header_forms *forms, const uint8_t *frame, uint32_t size, rp_arena *arena, rp_command *command,
                             rp_error *error);

#endif
