/* file_ops.h: the interface between the store and the kernel. Tests replace it by one that fails, writes short or loses power.
 *
 * Each function returns what the system call returns, -1 with errno set on failure.
 * Threads  any. The table is fixed after it is passed to an open function and must outlive the object.
 */
#ifndef RP_BASE_FILE_OPS_H
#define RP_BASE_FILE_OPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum rp_read_ahead {
    RP_READ_ASK = 0,        /* the disk begins to read them (MADV_WILLNEED) */
    RP_READ_WAIT = 1, /* returns when they are in memory; for a file that the process may write, as otherwise mincore does not tell */
    RP_READ_WAIT_MAPPED = 2 /* returns when each is mapped (MADV_POPULATE_READ): 50 ms a GiB more */
};

typedef struct rp_file_ops {
    void *context;
    int (*open)(void *context, const char *path, int flags, uint32_t mode);
    int (*close)(void *context, int fd);
    /* Fallocate with mode 0. Returns 1 if the file system cannot, and has only set the length; a full disk is then reported by writes
     * and by populate. */
    int (*allocate)(void *context, int fd, int64_t offset, int64_t size);
    int (*truncate)(void *context, int fd, int64_t size);
    /* Zeroes the bytes [offset, offset + size), and frees their blocks if the file system can; the file keeps its length throughout. */
    int (*clear)(void *context, int fd, int64_t offset, int64_t size);
    int64_t (*read_at)(void *context, int fd, void *target, size_t size, int64_t offset);
    int64_t (*write_at)(void *context, int fd, const void *source, size_t size, int64_t offset);
    /* Moves up to size bytes from a pipe into the file, without a copy through the caller if the file system can splice. */
    int64_t (*splice_at)(void *context, int pipe_fd, int fd, size_t size, int64_t offset);
    int (*sync_data)(void *context, int fd); /* fdatasync */
    void *(*map)(void *context, int fd, size_t size, int writable); /* MAP_SHARED; NULL on failure */
    int (*unmap)(void *context, void *address, size_t size);
    int (*populate)(void *context, void *address, size_t size); /* MADV_POPULATE_WRITE, for all pages that contain a byte of it */
    /* Brings a mapping's pages into memory; wait is an rp_read_ahead. EFAULT if the disk cannot read them (touching them would raise
     * SIGBUS); EINVAL before Linux 5.14. */
    int (*read_ahead)(void *context, void *address, size_t size, int wait);
    /* Returns 1 if all of a mapping's pages are in memory; 0 if not, or if mincore does not tell. Touches nothing. */
    int (*in_memory)(void *context, const void *address, size_t size);
    /* Makes the bytes [offset, offset + size) of a file durable, which are mapped at address (a page's start): msync, after
     * rp_file_write_out. fd may be -1. */
    int (*sync_range)(void *context, int fd, void *address, int64_t offset, size_t size);
    int (*rename)(void *context, const char *source, const char *target);
    int (*unlink)(void *context, const char *path);
    int (*sync_directory)(void *context, const char *path);
    /* Makes everything durable that was written to the file system of fd before the call, including mapped stores and names, and fails
     * if a write-back has failed since fd was opened (syncfs). ENOTSUP where the kernel would not report a failure. */
    int (*sync_filesystem)(void *context, int fd);
} rp_file_ops;

/* Writes all size bytes, in as many writes as the file system wants. 0; -1 with errno: some of them may have been written. */
int rp_file_write_all(const rp_file_ops *ops, int fd, const void *source, size_t size, int64_t offset);
/* Writes size zeros in the same way. */
int rp_file_write_zeros(const rp_file_ops *ops, int fd, int64_t size, int64_t offset);

/* Called before a mapped range is synced. 0; -1 with errno: bytes of the range are lost, as when a sync fails. fd may be -1.
 * The kernel write-protects every mapped page before it writes it out, with an interrupt to all cores that run the process: 0.5 s a GiB,
 * and as much again on the interrupted cores. Pages that were removed from the page tables before, by one interrupt for all, need none.
 * They stay in the page cache, but the next touch of each costs a fault: so small ranges stay mapped, and so does the last page, which
 * may still be written. A large range is written 16 MiB at a time: all at once, it would fill the disk's queue for 100 ms and more, and
 * a block bitmap that the file system needs for the log's next bytes would wait behind it, and with it every producer. */
int rp_file_write_out(int fd, void *address, int64_t offset, size_t size);

/* Makes the disk begin to write the bytes [offset, offset + size) of the file without waiting; the next sync reports a failure. */
void rp_file_begin_write_out(int fd, int64_t offset, size_t size);

/* Makes reads of the descriptor bring in only what they ask for: otherwise a read in a hole allocates pages for the disk's whole
 * read-ahead (8 MB: 5 ms). */
void rp_file_read_random(int fd);
/* Makes page faults in the mapping bring in only their own page; a sequential reader requests pages itself (read_ahead). */
void rp_file_map_random(void *address, size_t size);

/* Return where the next data, or the next hole, begins from offset on in a file of that size; size if there is none. On a file system
 * that does not report holes the whole file counts as data. */
int64_t rp_file_next_data(int fd, int64_t offset, int64_t size);
int64_t rp_file_next_hole(int fd, int64_t offset, int64_t size);
/* 1 if all bytes of the file from offset to size are zeros or holes; 0 if not, or if they cannot be read. */
int rp_file_is_zero(const rp_file_ops *ops, int fd, int64_t offset, int64_t size);

/* The system's calls; static storage. Every option struct accepts NULL for these. */
const rp_file_ops *rp_file_ops_system(void);

#endif
