/* store_lock.h: admits one process to a store directory, and marks an unclean end.
 * RocketMQ: DefaultMessageStore.start (lock file), createTempFile (abort) (5.3.3 store/).
 *
 * lock     held exclusively while the store is open (shared by read-only tools), by locks that Java's FileChannel.tryLock conflicts with
 *          (fcntl, byte 0), until the store is closed. The file holds "lock" as RocketMQ writes it; the kernel knows the holder's pid.
 * abort    exists while the store is open for writing; if found at open, the last run did not end in close. Holds the pid.
 * Threads  owner.
 */
#ifndef RP_STORE_STORE_LOCK_H
#define RP_STORE_STORE_LOCK_H

#include "../base/error.h"
#include "../base/file_ops.h"

/* Takes the lock. Returns the locked descriptor (>= 0); RP_E_LOCKED with the holder's pid, if it has one here; RP_E_IO. */
int rp_store_lock_take(const char *path, int shared, rp_error *error);
void rp_store_lock_release(int fd);

/* 1 if the mark exists, else 0. */
int rp_abort_mark_exists(const char *path);
/* Sets or clears the mark, durably: the directory is synced. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_abort_mark_set(const rp_file_ops *ops, const char *path, const char *directory, rp_error *error);
int rp_abort_mark_clear(const rp_file_ops *ops, const char *path, const char *directory, rp_error *error);

#endif
