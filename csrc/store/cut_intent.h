/* cut_intent.h: the file truncate.to in the store's directory: the log must be cut at the next start. Private to csrc/store.
 * Why: a slave whose log has diverged must lose its end, together with the queue entries, keys, timers and offsets derived from it.
 * Recovery already copes with a log that a crash has shortened, so the log is cut as if by a crash, before anything reads it.
 *
 * File     one line: the offset in decimal, a blank, its CRC-32 in decimal. Written under another name, synced, renamed. A file that
 *          cannot be parsed counts as absent.
 * Threads  one at a time.
 */
#ifndef RP_STORE_CUT_INTENT_H
#define RP_STORE_CUT_INTENT_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

/* Writes the intent durably. RP_OK; RP_E_IO, RP_E_DISK_FULL, RP_E_TOO_LARGE (the path). */
int rp_cut_intent_write(const rp_file_ops *ops, const char *root, int64_t offset, rp_error *error);
/* Reads the intent; *offset -1: there is none. RP_OK, RP_E_IO, RP_E_TOO_LARGE. */
int rp_cut_intent_read(const rp_file_ops *ops, const char *root, int64_t *offset, rp_error *error);
/* Removes the intent durably. RP_OK also if there is none; else why the file is still there. */
int rp_cut_intent_remove(const rp_file_ops *ops, const char *root, rp_error *error);

#endif
