/* cut_intent.h: that a store's log is to be cut when it is opened next: the file truncate.to. Private to csrc/store.
 * Why: a slave whose log has diverged must lose its end, and with it queue entries, keys, timers and offsets that were made of it. Recovery
 * knows how to do without what a log has lost: so it is cut as if a crash had lost it, before anything reads it.
 *
 * File     one line: the offset in decimal, a blank, its CRC-32 in decimal. Written whole under another name, synced, renamed. One that
 *          cannot be understood is no intent.
 * Threads  one at a time.
 */
#ifndef RP_STORE_CUT_INTENT_H
#define RP_STORE_CUT_INTENT_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

/* RP_OK, durable; RP_E_IO, RP_E_DISK_FULL, RP_E_TOO_LARGE (the path). */
int rp_cut_intent_write(const rp_file_ops *ops, const char *root, int64_t offset, rp_error *error);
/* *offset -1: there is none. RP_OK, RP_E_IO, RP_E_TOO_LARGE. */
int rp_cut_intent_read(const rp_file_ops *ops, const char *root, int64_t *offset, rp_error *error);
/* Durable. RP_OK also when there is none. */
int rp_cut_intent_remove(const rp_file_ops *ops, const char *root, rp_error *error);

#endif
