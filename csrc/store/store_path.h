/* store_path.h: the names of the files in a store directory, and making directories.
 * RocketMQ: StorePathConfigHelper, UtilAll.offset2FileName (5.3.3 store/, common/).
 *
 * Threads  any; pure but for the file system.
 */
#ifndef RP_STORE_STORE_PATH_H
#define RP_STORE_STORE_PATH_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"

#define RP_PATH_MAX 4096
#define RP_FILE_NAME_DIGITS 20

/* Writes "directory/name" into a buffer of RP_PATH_MAX. RP_OK; RP_E_TOO_LARGE: the buffer holds as much as fits. */
int rp_path_join(char *path, const char *directory, const char *name, rp_error *error);

/* Writes "directory/00000000001073741824", the path of the file that starts at base_offset. RP_OK; RP_E_TOO_LARGE. */
int rp_path_of_offset(char *path, const char *directory, int64_t base_offset, rp_error *error);

/* Returns the start offset of a file name of 20 digits, -1 for any other name. */
int64_t rp_path_offset_of_name(const char *name);

/* mkdir -p. RP_OK; RP_E_IO, RP_E_DISK_FULL, RP_E_READ_ONLY with the directory in error. */
int rp_path_make_directories(const char *path, rp_error *error);

/* Removes the directory if it is empty, then its parent, and so on for up to `levels` directories. A directory that does not exist
 * counts as removed; one that is not empty stays. */
void rp_path_remove_empty(const char *path, int levels);

/* Returns the length of a regular file, -1 if there is none. */
int64_t rp_path_file_size(const char *path);

#endif
