/* map_hold.h: asks a mapped file for space by a store that may fail, instead of finding out by one that ends the process.
 *
 * Where a file system copies on write (btrfs, bcachefs, ZFS; XFS after a `cp --reflink`), space is not there for good once a page had it:
 * a page that was written back and is stored to again needs new blocks, and on a full disk, or past a quota, that store is a SIGBUS.
 * fallocate and MADV_POPULATE_WRITE promise nothing there.
 *
 * How      stores to one byte of each page what is in it; the handler of fault_report.h, which must be installed (else the process ends as
 *          it would have), brings a fault back here. About 10 ns, no system call.
 * Bounds   it holds until the kernel writes the pages back, so it is called right before the store. A write-back between the two is not
 *          covered.
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

/* For the handler of SIGBUS: does not return when this thread is in rp_map_hold and the fault is its own. */
void rp_map_hold_faulted(const void *address);

#endif
