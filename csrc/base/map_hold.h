/* map_hold.h: tests by a store that may fail whether a mapped file has space, instead of by one that ends the process.
 *
 * On a file system that copies on write (btrfs, bcachefs, ZFS; XFS after a `cp --reflink`), a page that once had space may need it
 * again: after it was written back, the next store needs new blocks, and on a full disk, or past a quota, that store is a SIGBUS.
 * fallocate and MADV_POPULATE_WRITE guarantee nothing there.
 *
 * How      stores its own value to one byte of each page; the handler of fault_report.h, which must be installed (otherwise the process
 *          ends as it would have), brings a fault back here. About 10 ns, no system call.
 * Bounds   the guarantee lasts until the kernel writes the pages back, so this is called right before the store: on a full disk, the
 *          search for space for one page already makes the kernel write back pages held before. What is longer than a few bytes is
 *          stored by rp_map_store, which covers that.
 * Threads  any, each for its own bytes: nobody else may store to the first byte of the range or the first bytes of its other pages.
 */
#ifndef RP_BASE_MAP_HOLD_H
#define RP_BASE_MAP_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* May the file system of an open file copy on write? False where it is known not to (ext2 to ext4, tmpfs), which spares the test. */
bool rp_map_hold_is_needed(int fd);

/* Returns size if all bytes can be stored to; less: the byte at that distance cannot. */
size_t rp_map_hold(void *address, size_t size);

/* Calls store(context), which stores to these bytes and may be interrupted in the middle, so it must hold nothing that has to be
 * released. False: a byte could not be stored to; some of the others were. */
bool rp_map_store(void *address, size_t size, void (*store)(void *context), void *context);

/* For the handler of SIGBUS: does not return if this thread is in rp_map_hold or rp_map_store and the fault is its own. */
void rp_map_hold_faulted(const void *address);

#endif
