/* map_hold.h: asks a mapped file for space by a store that may fail, instead of finding out by one that ends the process.
 *
 * Where a file system copies on write (btrfs, bcachefs, ZFS; XFS after a `cp --reflink`), space is not there for good once a page had it:
 * a page that was written back and is stored to again needs new blocks, and on a full disk, or past a quota, that store is a SIGBUS.
 * fallocate and MADV_POPULATE_WRITE promise nothing there.
 *
 * How      stores to one byte of each page what is in it; the handler of fault_report.h, which must be installed (else the process ends as
 *          it would have), brings a fault back here. About 10 ns, no system call.
 * Bounds   it holds until the kernel writes the pages back, so it is called right before the store: on a full disk the very search for
 *          space for one page makes the kernel write back those that were held before it. What is longer than a few bytes is stored by
 *          rp_map_store, which covers that.
 * Threads  any, each its own bytes: nobody else may store to the first byte of the range nor to the first ones of its other pages.
 */
#ifndef RP_BASE_MAP_HOLD_H
#define RP_BASE_MAP_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the file system of an open file may copy on write: false where it is known not to (ext2 to ext4, tmpfs), which spares
 * whoever stores there the question. */
bool rp_map_hold_is_needed(int fd);

/* size: all of them can be stored to. Less: the byte at that distance cannot. */
size_t rp_map_hold(void *address, size_t size);

/* Calls store(context), which stores to these bytes and has nothing to give back when it is left in the middle. False: a byte cannot be
 * stored to; some of them were. */
bool rp_map_store(void *address, size_t size, void (*store)(void *context), void *context);

/* For the handler of SIGBUS: does not return when this thread is in rp_map_hold or rp_map_store and the fault is its own. */
void rp_map_hold_faulted(const void *address);

#endif
