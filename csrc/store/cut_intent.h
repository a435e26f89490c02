/* cut_intent.h: a note in the store's directory, the file truncate.to: the log must be cut at the next start. Private to csrc/store.
 * Why: a slave whose log has diverged must lose its end, and with it the queue entries, keys, timers and offsets that came from it.
 * Recovery can already do without what a crash has taken from a log, so the log is cut as if by a crash, before anything reads it.
 *
 * File     one line: the offset in decimal, a blank, its CRC-32 in decimal. Written whole under another name, synced, renamed. A file that
 *          cannot be understood counts as none.
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
