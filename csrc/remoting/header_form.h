/* header_form.h: remembers JSON headers, so that a header that differs only in values need not be parsed. Internal to csrc/remoting.
 *
 * Why      a client writes the same header again and again: only the digits of opaque and the strings of extFields change, and mostly
 *          not in length. Comparing 350 bytes with a remembered header costs a fifth of parsing them.
 * How      a form holds a header that the general parser has read, where its fields lie, and which bytes may change. A header matches
 *          the form if it has the same size, every other byte is the same, and quotes and backslashes are at the same places: then every
 *          string begins and ends where it did. Escaped strings are unescaped again.
 * Threads  one owner (a reactor).
 * Bounds   RP_HEADER_FORMS forms of at most RP_HEADER_FORM_BYTES; a new form replaces an old one only if that was of no use lately.
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

/* 1: the header matches a known form, and command holds what the general parser would have read; 0: command holds nothing useful. */
int rp_header_forms_read(rp_header_forms *forms, const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command);
/* The general parser has read header into command: perhaps remember it. */
void rp_header_forms_learn(rp_header_forms *forms, const uint8_t *header, uint32_t size, const rp_command *command);

/* As rp_command_decode, with the forms where they match; the result is the same. */
int rp_command_decode_formed(rp_header_forms *forms, const uint8_t *frame, uint32_t size, rp_arena *arena, rp_command *command,
                             rp_error *error);

#endif
