/* file_row.c: see file_row.h. */
#include "file_row.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/file_ops.h"
#include "../base/page_inl.h"
#include "store_path.h"

typedef struct row_file {
    char *path;
    int64_t start, size;
    const uint8_t *map; /* NULL until first used */
    int64_t seen_end; /* of its first data, if stand-ins may hide what was written behind that since; else its size */
} row_file;

struct rp_file_row {
    row_file *files;
    uint32_t count;
    rp_error failure; /* status 0: none */
};

static int is_offset_name(const struct dirent *entry) { return rp_path_offset_of_name(entry->d_name) >= 0; }

static int add_file(rp_file_row *row, const char *directory, const char *name, rp_error *error) {
    row_file *file = &row->files[row->count];
    struct stat info;
    if (asprintf(&file->path, "%s/%s", directory, name) < 0) {
        file->path = NULL;
        return rp_error_set(error, RP_E_NO_MEMORY, 0, directory, -1, "no memory for a file list");
    }
    row->count++;
    if (stat(file->path, &info) < 0)
        return rp_error_set(error, rp_status_from_errno(errno), errno, file->path, -1, "cannot look at the file: %s", strerror(errno));
    file->start = rp_path_offset_of_name(name);
    file->size = (int64_t)info.st_size;
    if (file->start > INT64_MAX - file->size)
        return rp_error_set(error, RP_E_CORRUPT, 0, file->path, -1, "no store reaches the offset in the file's name: move it away");
    return RP_OK;
}

int rp_file_row_open(const char *directory, rp_file_row **opened, rp_error *error) {
    rp_file_row *row = calloc(1, sizeof *row);
    struct dirent **names = NULL;
    int count = scandir(directory, &names, is_offset_name, alphasort);
    int status = RP_OK;
    if (count < 0 && errno != ENOENT)
        status = rp_error_set(error, rp_status_from_errno(errno), errno, directory, -1, "cannot list the directory: %s", strerror(errno));
    if (count < 0)
        count = 0;
    if (row != NULL)
        row->files = calloc((size_t)count + 1, sizeof *row->files);
    if (row == NULL || row->files == NULL)
        status = rp_error_set(error, RP_E_NO_MEMORY, 0, directory, -1, "no memory for a file list");
    for (int i = 0; i < count; i++) {
        if (status == RP_OK)
            status = add_file(row, directory, names[i]->d_name, error);
        free(names[i]);
    }
    free(names);
    if (status < 0) {
        rp_file_row_close(row);
        return status;
    }
    *opened = row;
    return RP_OK;
}

void rp_file_row_close(rp_file_row *row) {
    if (row == NULL)
        return;
    for (uint32_t i = 0; i < row->count; i++) {
        if (row->files[i].map != NULL)
            munmap((void *)(uintptr_t)row->files[i].map, (size_t)row->files[i].size);
        free(row->files[i].path);
    }
    free(row->files);
    free(row);
}

uint32_t rp_file_row_count(const rp_file_row *row) { return row->count; }
const char *rp_file_row_path(const rp_file_row *row, uint32_t file) { return row->files[file].path; }
int64_t rp_file_row_start(const rp_file_row *row, uint32_t file) { return row->files[file].start; }
int64_t rp_file_row_size(const rp_file_row *row, uint32_t file) { return row->files[file].size; }
int64_t rp_file_row_min(const rp_file_row *row) { return row->count == 0 ? 0 : row->files[0].start; }
int64_t rp_file_row_max(const rp_file_row *row) {
    return row->count == 0 ? 0 : row->files[row->count - 1].start + row->files[row->count - 1].size;
}

static int holds(const row_file *file, int64_t offset) { return offset >= file->start && offset - file->start < file->size; }

static const row_file *find(const rp_file_row *row, int64_t offset) {
    uint32_t low = 0, high = row->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (row->files[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && holds(&row->files[low - 1], offset) ? &row->files[low - 1] : NULL;
}

bool rp_lacks_space_for_holes(int fd, size_t size) {
    struct statfs system;
    struct stat info;
    if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC || fstat(fd, &info) != 0)
        return false;
    uint64_t had = (uint64_t)info.st_blocks * 512, free_bytes = (uint64_t)system.f_bfree * (uint64_t)system.f_bsize;
    return had < size && size - had > free_bytes;
}

bool rp_map_data(int fd, void *map, int64_t begin, int64_t end) {
    for (off_t at = rp_page_begin(begin); at < end;) {
        off_t data = lseek(fd, at, SEEK_DATA), hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if ((hole < 0 && errno == ENXIO) || data >= end)
            return true; /* only holes, or what was appended since */
        hole = hole > end ? end : hole;
        if (hole < 0 || mmap((uint8_t *)map + data, (size_t)(hole - data), PROT_READ, MAP_SHARED | MAP_FIXED, fd, data) == MAP_FAILED)
            return false;
        at = hole;
    }
    return true;
}

void *rp_map_to_read(int fd, size_t size, bool *has_stand_ins) {
    *has_stand_ins = rp_lacks_space_for_holes(fd, size);
    if (!*has_stand_ins)
        return mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map != MAP_FAILED && !rp_map_data(fd, map, 0, (int64_t)size)) {
        int os_errno = errno;
        munmap(map, size);
        errno = os_errno;
        return MAP_FAILED;
    }
    return map;
}

/* Goes on from what was seen; a file that may begin with a hole is seen from its first data on. */
static int64_t end_of_first_data(int fd, int64_t seen, int64_t size) {
    int64_t data = seen > 0 ? seen : rp_file_next_data(fd, 0, size);
    return data < size ? rp_file_next_hole(fd, data, size) : seen;
}

static int map_file(row_file *file, rp_error *error) {
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rp_error_set(error, rp_status_from_errno(errno), errno, file->path, -1, "cannot open the file: %s", strerror(errno));
    bool has_stand_ins;
    int64_t seen_end = end_of_first_data(fd, 0, file->size); /* before: it only grows */
    void *map = rp_map_to_read(fd, (size_t)file->size, &has_stand_ins);
    int os_errno = errno;
    close(fd);
    if (map == MAP_FAILED)
        return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, file->path, -1,
                            "cannot map the file: %s (ENOMEM: free memory, or raise vm.max_map_count)", strerror(os_errno));
    file->map = map;
    file->seen_end = has_stand_ins ? seen_end : file->size;
    return RP_OK;
}

/* A broker may have written behind what was seen. When that cannot be mapped, what was seen counts. Of what lies behind the next hole,
 * only [begin, end) is looked for: this runs again for each question behind it. */
static void look_again(row_file *file, int64_t begin, int64_t end) {
    void *map = (void *)(uintptr_t)file->map;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    int64_t seen_end = end_of_first_data(fd, file->seen_end, file->size);
    if (rp_map_data(fd, map, file->seen_end, seen_end))
        file->seen_end = seen_end;
    if (end > file->seen_end)
        (void)rp_map_data(fd, map, begin, end);
    close(fd);
}

static const uint8_t *bytes_in(rp_file_row *row, row_file *file, int64_t at, uint64_t size) {
    rp_error error;
    if (at < 0 || at > file->size || size > (uint64_t)(file->size - at) || file->size == 0)
        return NULL;
    if (file->map != NULL && at + (int64_t)size > file->seen_end)
        look_again(file, at, at + (int64_t)size);
    if (file->map == NULL && map_file(file, &error) < 0) {
        row->failure = row->failure.status == RP_OK ? error : row->failure;
        return NULL;
    }
    return file->map + at;
}

const uint8_t *rp_file_row_at(rp_file_row *row, int64_t offset, uint64_t size) {
    row_file *file = (row_file *)(uintptr_t)find(row, offset); /* the caller's row is not const */
    return file != NULL ? bytes_in(row, file, offset - file->start, size) : NULL;
}

const uint8_t *rp_file_row_in(rp_file_row *row, uint32_t file, int64_t at, uint64_t size) {
    return bytes_in(row, &row->files[file], at, size);
}

int rp_file_row_failure(const rp_file_row *row, rp_error *error) {
    if (row->failure.status != RP_OK && error != NULL)
        *error = row->failure;
    return row->failure.status;
}

const uint8_t *rp_file_row_record(rp_file_row *row, int64_t offset, uint64_t *size) {
    const row_file *file = find(row, offset);
    uint64_t left = file == NULL ? 0 : (uint64_t)(file->start + file->size - offset);
    const uint8_t *head = left < 4 ? NULL : rp_file_row_at(row, offset, 4);
    uint64_t said = head == NULL ? 0 : rp_get_u32(head);
    *size = said < 4 || said > left ? (left < 4 ? left : 4) : said; /* of a size that no record has, nothing more is needed */
    return left == 0 ? NULL : rp_file_row_at(row, offset, *size);
}
