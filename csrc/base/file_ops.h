/* file_ops.h: the seam between the store and the kernel. Tests put a failing, short-writing or power-cut one in its place.
 *
 * Each function returns what the system call returns, -1 with errno set on failure.
 * Threads  any. The table is fixed after it is handed to an open function and must outlive the object.
 */
#ifndef RP_BASE_FILE_OPS_H
#define RP_BASE_FILE_OPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum rp_read_ahead {
    RP_READ_ASK = 0,        /* the disk starts to read them (MADV_WILLNEED) */
    RP_READ_WAIT = 1,       /* returns when they are in memory; of a file that the process may write, else mincore does not tell */
    RP_READ_WAIT_MAPPED = 2 /* returns when each is mapped (MADV_POPULATE_READ): 50 ms a GiB more */
};

typedef struct rp_file_ops {
    void *context;
    int (*open)(void *context, const char *path, int flags, uint32_t mode);
    int (*close)(void *context, int fd);
    /* fallocate mode 0. 1: this file system cannot, and gave the file its length; a full disk is an error of writes then, and of
     * populate. */
    int (*allocate)(void *context, int fd, int64_t offset, int64_t size);
    int (*truncate)(void *context, int fd, int64_t size);
    /* The bytes [offset, offset + size) become zeros and lose their blocks where the file system can take them back; the file keeps its
     * length all the while. */
    int (*clear)(void *context, int fd, int64_t offset, int64_t size);
    int64_t (*read_at)(void *context, int fd, void *target, size_t size, int64_t offset);
    int64_t (*write_at)(void *context, int fd, const void *source, size_t size, int64_t offset);
    /* Up to size bytes out of a pipe into the file, without a copy through the caller where the file system can splice. */
    int64_t (*splice_at)(void *context, int pipe_fd, int fd, size_t size, int64_t offset);
    int (*sync_data)(void *context, int fd); /* fdatasync */
    void *(*map)(void *context, int fd, size_t size, int writable); /* MAP_SHARED; NULL on failure */
    int (*unmap)(void *context, void *address, size_t size);
    int (*populate)(void *context, void *address, size_t size); /* MADV_POPULATE_WRITE, of all pages that have a byte of it */
    /* Brings a mapping's pages into memory; wait is an rp_read_ahead. EFAULT when the disk cannot give them, where touching them would
     * raise SIGBUS; EINVAL before Linux 5.14. */
    int (*read_ahead)(void *context, void *address, size_t size, int wait);
    /* 1: all of a mapping's pages are in memory; 0: not all, or it cannot be told (mincore). Touches nothing. */
    int (*in_memory)(void *context, const void *address, size_t size);
    /* The bytes [offset, offset + size) of a file, mapped at address (a page's start), are durable: msync, after
     * rp_file_write_out. fd may be -1. */
    int (*sync_range)(void *context, int fd, void *address, int64_t offset, size_t size);
    int (*rename)(void *context, const char *source, const char *target);
    int (*unlink)(void *context, const char *path);
    int (*sync_directory)(void *context, const char *path);
    /* All that was put into the file system of fd before the call is durable, mapped stores and names too, and no write-back of it has
     * failed since fd was opened (syncfs). ENOTSUP where the kernel would not tell of a failure. */
    int (*sync_filesystem)(void *context, int fd);
} rp_file_ops;

/* Writes all size bytes, in as many writes as the file system wants. 0; -1 with errno: some of them may have been written. */
int rp_file_write_all(const rp_file_ops *ops, int fd, const void *source, size_t size, int64_t offset);
/* Writes size zeros in the same way. */
int rp_file_write_zeros(const rp_file_ops *ops, int fd, int64_t size, int64_t offset);

/* To be called before a mapped range is synced. 0; -1 with errno: bytes of the range are lost, as when a sync fails. fd may be -1.
 * The kernel write-protects every mapped page before it writes it out, with an interrupt to all cores that run the process: 0.5 s a GiB,
 * and as much again for whoever is interrupted. Pages that left the page tables before, under one interrupt for all, need none. They stay
 * in the page cache, but the next touch of each costs a fault: so small ranges stay mapped, and the last page, which may still be written
 * to. A large range is written 16 MiB at a time. All at once it would fill the disk's queue for 100 ms and more, and a block bitmap that
 * the file system has to read for the log's next bytes would wait behind it, and every producer for that. */
int rp_file_write_out(int fd, void *address, int64_t offset, size_t size);

/* The disk begins to write the bytes [offset, offset + size) of the file; nobody waits for it, and a failure is the next sync's to tell. */
void rp_file_begin_write_out(int fd, int64_t offset, size_t size);

/* Reads of the descriptor bring in what they ask for and nothing more: else a look into a hole makes pages of it, up to the disk's whole
 * read-ahead (8 MB: 5 ms). */
void rp_file_read_random(int fd);
/* Page faults in the mapping bring in their own page and no other; whoever reads on through it asks for the pages itself (read_ahead). */
void rp_file_map_random(void *address, size_t size);

/* Where, from offset on, the next bytes of a file of that size begin, or its next hole; size when there are no more. On a file system that
 * does not tell, the whole file counts as bytes. */
int64_t rp_file_next_data(int fd, int64_t offset, int64_t size);
int64_t rp_file_next_hole(int fd, int64_t offset, int64_t size);
/* 1 when all bytes of the file from offset to size are zeros or holes; 0: they are not, or cannot be read. */
int rp_file_is_zero(const rp_file_ops *ops, int fd, int64_t offset, int64_t size);

/* The kernel's calls; static storage. Every option struct takes NULL for this one. */
const rp_file_ops *rp_file_ops_system(void);

#endif
