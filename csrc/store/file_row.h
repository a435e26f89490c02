/* file_row.h: a directory of files named by their 20-digit start offsets, mapped read-only. For offline tools.
 *
 * Threads  one owner. Owns the mappings. Pointers into them live until close.
 * Bounds   a file is mapped at its first use; for an offset past a file's end the answer is NULL.
 */
#ifndef RP_STORE_FILE_ROW_H
#define RP_STORE_FILE_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"

typedef struct rp_file_row rp_file_row;

/* RP_OK (also for a missing or empty directory: no files), RP_E_IO, RP_E_NO_MEMORY, RP_E_CORRUPT (a file that would end past any offset).
 * Other names in the directory are ignored, as by the store. */
int rp_file_row_open(const char *directory, rp_file_row **row, rp_error *error);
void rp_file_row_close(rp_file_row *row);
uint32_t rp_file_row_count(const rp_file_row *row);
const char *rp_file_row_path(const rp_file_row *row, uint32_t file);
int64_t rp_file_row_start(const rp_file_row *row, uint32_t file); /* from its name */
int64_t rp_file_row_size(const rp_file_row *row, uint32_t file);  /* bytes at open */
int64_t rp_file_row_min(const rp_file_row *row);                  /* start of the first file, 0 without files */
int64_t rp_file_row_max(const rp_file_row *row);                  /* end of the last file, 0 without files */
/* Returns `size` bytes at offset, all in one file; NULL if they are not there or cannot be read: from then on rp_file_row_failure says
 * which. */
const uint8_t *rp_file_row_at(rp_file_row *row, int64_t offset, uint64_t size);
/* Returns `size` bytes at `at` within a file, whatever the names of the others say. As rp_file_row_at. */
const uint8_t *rp_file_row_in(rp_file_row *row, uint32_t file, int64_t at, uint64_t size);
/* RP_OK while every file that was used could be mapped; else the status of the first that could not, with file and cause. */
int rp_file_row_failure(const rp_file_row *row, rp_error *error);
/* Returns the bytes of the record that begins at offset, as many (*size) as it says in its first four, or those if its file has fewer
 * behind offset. NULL as rp_file_row_at. */
const uint8_t *rp_file_row_record(rp_file_row *row, int64_t offset, uint64_t *size);

/* On tmpfs, reading a hole through a map allocates a page, and raises SIGBUS if there is no space for one: true if the file system has too
 * little space for all holes of this file. */
bool rp_lacks_space_for_holes(int fd, size_t size);

/* Maps a whole file. If reading its holes would take more space than there is (a full tmpfs), anonymous zero pages stand in for them,
 * and *has_stand_ins is set: data written there later is visible only after rp_map_data. MAP_FAILED and errno. */
void *rp_map_to_read(int fd, size_t size, bool *has_stand_ins);
/* Maps what is no longer a hole in [begin, end) of a file's map; bytes that were mapped keep their addresses. False, and errno. */
bool rp_map_data(int fd, void *map, int64_t begin, int64_t end);

#endif
