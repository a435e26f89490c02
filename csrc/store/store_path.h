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

/* "directory/name" into a buffer of RP_PATH_MAX. RP_OK; RP_E_TOO_LARGE: as much of it as fits is there. */
int rp_path_join(char *path, const char *directory, const char *name, rp_error *error);

/* "directory/00000000001073741824": the file that starts at base_offset. RP_OK; RP_E_TOO_LARGE. */
int rp_path_of_offset(char *path, const char *directory, int64_t base_offset, rp_error *error);

/* The start offset a file name of 20 digits stands for, -1 when the name is anything else. */
int64_t rp_path_offset_of_name(const char *name);

/* mkdir -p. RP_OK; RP_E_IO, RP_E_DISK_FULL, RP_E_READ_ONLY with the directory in error. */
int rp_path_make_directories(const char *path, rp_error *error);

/* The directory, when it is empty or gone, and then the one that it was in, up to `levels` of them. What is not empty stays. */
void rp_path_remove_empty(const char *path, int levels);

/* Length of a regular file, -1 when there is none. */
int64_t rp_path_file_size(const char *path);

#endif
