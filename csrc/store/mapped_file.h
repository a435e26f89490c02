/* mapped_file.h: one file of a row, mapped while it is in use.
 * RocketMQ: DefaultMappedFile, ReferenceResource (5.3.3 store/logfile/).
 *
 * Pins     the row that holds the file owns one pin, every reader its own; releasing the last one unmaps and closes the file. Only the
 *          row frees the struct, so that a late attempt to pin finds a zero count, not freed memory.
 * Threads  pin and release from any thread, lock-free; map under the lock of the row.
 */
#ifndef RP_STORE_MAPPED_FILE_H
#define RP_STORE_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

typedef struct rp_mapped_file rp_mapped_file;

enum rp_map_mode {
    RP_MAP_READ = 0,      /* tools on a stopped store */
    RP_MAP_WRITE = 1,     /* writable, file descriptor kept open for sendfile */
    RP_MAP_WRITE_ONLY_MAP = 2 /* writable, descriptor closed after mapping: consume queues, of which there are thousands */
};

/* Creates the struct of a file that is not opened yet. NULL: no memory. */
rp_mapped_file *rp_mapped_file_new(const rp_file_ops *ops, int64_t base_offset, uint64_t size);
/* Frees the struct; the file must be unmapped (no pins). */
void rp_mapped_file_free(rp_mapped_file *file);

/* Opens and maps path. With create 1 the file first gets its full length; its blocks are allocated by the writer, ahead of itself. On a
 * file system that has become read-only, an existing file is mapped for reading whatever the mode: rp_mapped_file_hold then refuses, and
 * code that writes by the descriptor must check is_writable. RP_OK; RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY, RP_E_NOT_FOUND with the
 * file in error, and nothing changed. */
int rp_mapped_file_map(rp_mapped_file *file, const char *path, int mode, int create, rp_error *error);

/* Makes sure that [at, at + size) of a file mapped for writing can be stored to now (map_hold.h). RP_OK; RP_E_DISK_FULL, RP_E_IO,
 * RP_E_NO_MEMORY, RP_E_READ_ONLY; error names the file in `directory`. If somebody cut the file short: RP_E_IO where the file system
 * copies on write; elsewhere RP_OK, and the store that follows ends the process. */
int rp_mapped_file_hold(const rp_mapped_file *file, const char *directory, int64_t at, size_t size, rp_error *error);
/* Calls store(context), which stores to [at, at + size) and may be interrupted in the middle where the file system copies on write.
 * RP_OK, or as rp_mapped_file_hold: then some of the bytes were stored. */
int rp_mapped_file_store(const rp_mapped_file *file, const char *directory, int64_t at, size_t size, void (*store)(void *context),
                         void *context, rp_error *error);
/* Stores zeros, in the same way. */
int rp_mapped_file_clear(const rp_mapped_file *file, const char *directory, int64_t at, size_t size, rp_error *error);

/* Checks that nobody has cut the file short. Call it before disk space is allocated through fd or anything is written behind the data:
 * either would make the file longer again, and the lost bytes would be zeros in a file that looks whole. RP_OK; RP_E_IO. */
int rp_mapped_file_check_length(const rp_mapped_file *file, const char *directory, int fd, rp_error *error);

/* Takes a pin. Returns 1; 0 if the file has been removed. A pinned file may still have to be mapped. */
int rp_mapped_file_pin(rp_mapped_file *file);
void rp_mapped_file_release(rp_mapped_file *file);

#endif
