/* power_cut.h: a file layer that can lose power. It implements rp_file_ops over real files in `live`, and keeps in `durable`
 * a shadow of exactly what each successful sync covered: bytes by fdatasync or msync, names by fsync of the directory.
 *
 *   store ─► power_cut ops ─► live/…           (mapped and written bytes, synced or not)
 *                       └──► live-durable/…    (copied there by sync_data, sync_range, sync_directory; never flushed for real: it is fast)
 *   power_cut_image(seed): for every page that differs, the disk has the old bytes, the new ones, or sectors of both; a file whose
 *   name was not synced may be missing, an unlinked one may be back.
 *
 * After the cut every sync fails, so that nothing follows from a sync that did not happen.
 * Mapped writes need no hook, because a mapping and the live file share their pages. The same would hold for io_uring.
 * Short    with short_writes a write takes an odd half of what it is given.
 * Faults   fail_at > 0: the counted call with that number fails with fail_errno, once, or from then on (fail_forever).
 */
#ifndef RP_TESTS_POWER_CUT_H
#define RP_TESTS_POWER_CUT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../csrc/base/file_ops.h"
#include "check.h"

enum { CUT_FDS = 1024, CUT_MAPS = 4096, CUT_PATH = 1024, CUT_PAGE = 4096, CUT_SECTOR = 512 };

typedef struct cut_map {
    uint8_t *address;
    size_t size;
    char path[CUT_PATH]; /* below live */
} cut_map;

typedef struct power_cut {
    char live[CUT_PATH], durable[CUT_PATH];
    pthread_mutex_t lock;
    char fd_paths[CUT_FDS][CUT_PATH]; /* guarded by lock */
    cut_map *maps;                    /* guarded by lock */
    int map_count;                    /* guarded by lock */
    bool is_cut;                      /* guarded by lock: nothing becomes durable any more */
    _Atomic int64_t calls;            /* counted calls so far */
    const rp_file_ops *base; /* syncs go there first, for real; NULL: they only count */
    bool short_writes;
    int64_t fail_at;
    int fail_errno;
    bool fail_forever;
    _Atomic bool has_failed;
    rp_file_ops ops;
} power_cut;

static inline bool cut_fails(power_cut *cut) {
    int64_t call = atomic_fetch_add(&cut->calls, 1) + 1;
    if (cut->fail_at > 0 && (call == cut->fail_at || (cut->fail_forever && call > cut->fail_at))) {
        atomic_store(&cut->has_failed, true);
        errno = cut->fail_errno;
        return true;
    }
    return false;
}

static inline int cut_answer(bool is_cut) {
    errno = EIO;
    return is_cut ? -1 : 0;
}

static inline const char *cut_below(const power_cut *cut, const char *path) {
    size_t length = strlen(cut->live);
    return strncmp(path, cut->live, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static inline void cut_join(char *path, const char *directory, const char *name) {
    if (snprintf(path, CUT_PATH, "%s/%s", directory, name) >= CUT_PATH) {
        abort();
    }
}

static inline void cut_make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
}

static inline int cut_open(void *context, const char *path, int flags, uint32_t mode) {
    power_cut *cut = context;
    if (cut_fails(cut)) {
        return -1;
    }
    int fd = open(path, flags | O_CLOEXEC, mode);
    const char *below = cut_below(cut, path);
    if (fd >= 0 && fd < CUT_FDS && below != NULL) {
        pthread_mutex_lock(&cut->lock);
        snprintf(cut->fd_paths[fd], CUT_PATH, "%s", below);
        pthread_mutex_unlock(&cut->lock);
    }
    return fd;
}

static inline int cut_close(void *context, int fd) {
    (void)context;
    return close(fd);
}

static inline int cut_allocate(void *context, int fd, int64_t offset, int64_t size) {
    return cut_fails(context) ? -1 : rp_file_ops_system()->allocate(NULL, fd, offset, size);
}

static inline int cut_truncate(void *context, int fd, int64_t size) { return cut_fails(context) ? -1 : ftruncate(fd, size); }

static inline int cut_clear(void *context, int fd, int64_t offset, int64_t size) {
    return cut_fails(context) ? -1 : rp_file_ops_system()->clear(NULL, fd, offset, size);
}

static inline int64_t cut_read_at(void *context, int fd, void *target, size_t size, int64_t offset) {
    return cut_fails(context) ? -1 : pread(fd, target, size, offset);
}

static inline int64_t cut_write_at(void *context, int fd, const void *source, size_t size, int64_t offset) {
    const power_cut *cut = context;
    return cut_fails(context) ? -1 : pwrite(fd, source, cut->short_writes && size > 1 ? size / 2 | 1 : size, offset);
}

/* Called with the lock held: bytes [from, from + size) of the live file, and its length, are on disk now. */
static inline void cut_persist(power_cut *cut, const char *below, int64_t from, int64_t size) {
    char live[CUT_PATH], durable[CUT_PATH];
    uint8_t page[CUT_PAGE];
    struct stat status;
    cut_join(live, cut->live, below);
    cut_join(durable, cut->durable, below);
    cut_make_parents(durable);
    int in = open(live, O_RDONLY), out = open(durable, O_RDWR | O_CREAT, 0644);
    if (in >= 0 && out >= 0 && fstat(in, &status) == 0) {
        if (ftruncate(out, status.st_size) != 0) {
            abort();
        }
        int64_t end = from + size < status.st_size ? from + size : status.st_size;
        for (int64_t at = from & ~(int64_t)(CUT_PAGE - 1); at < end; at += CUT_PAGE) {
            int64_t count = pread(in, page, CUT_PAGE, at);
            if (count < 0 || pwrite(out, page, (size_t)count, at) != count) {
                abort();
            }
        }
    }
    if (in >= 0) {
        close(in);
    }
    if (out >= 0) {
        close(out);
    }
}

static inline int64_t cut_splice_at(void *context, int pipe_fd, int fd, size_t size, int64_t offset) {
    const power_cut *cut = context;
    size = cut->short_writes && size > 1 ? size / 2 | 1 : size;
    return cut_fails(context) ? -1 : rp_file_ops_system()->splice_at(NULL, pipe_fd, fd, size, offset);
}

static inline int cut_sync_data(void *context, int fd) {
    power_cut *cut = context;
    if (cut_fails(cut)) {
        return -1;
    }
    pthread_mutex_lock(&cut->lock);
    bool is_cut = cut->is_cut || (cut->base != NULL && cut->base->sync_data(cut->base->context, fd) != 0);
    if (!is_cut && fd < CUT_FDS) {
        cut_persist(cut, cut->fd_paths[fd], 0, INT64_MAX / 2);
    }
    pthread_mutex_unlock(&cut->lock);
    return cut_answer(is_cut);
}

static inline void *cut_map_file(void *context, int fd, size_t size, int writable) {
    power_cut *cut = context;
    if (cut_fails(cut)) {
        return NULL;
    }
    void *address = rp_file_ops_system()->map(NULL, fd, size, writable);
    pthread_mutex_lock(&cut->lock);
    if (address != NULL && cut->map_count < CUT_MAPS) {
        cut_map *map = &cut->maps[cut->map_count++];
        map->address = address;
        map->size = size;
        snprintf(map->path, CUT_PATH, "%s", cut->fd_paths[fd]);
    }
    pthread_mutex_unlock(&cut->lock);
    return address;
}

static inline int cut_unmap(void *context, void *address, size_t size) {
    power_cut *cut = context;
    pthread_mutex_lock(&cut->lock);
    for (int i = 0; i < cut->map_count; i++) {
        if (cut->maps[i].address == address) {
            cut->maps[i] = cut->maps[--cut->map_count];
            break;
        }
    }
    pthread_mutex_unlock(&cut->lock);
    return rp_file_ops_system()->unmap(NULL, address, size);
}

static inline int cut_populate(void *context, void *address, size_t size) {
    return cut_fails(context) ? -1 : rp_file_ops_system()->populate(NULL, address, size);
}

static inline int cut_read_ahead(void *context, void *address, size_t size, int wait) {
    return wait && cut_fails(context) ? -1 : rp_file_ops_system()->read_ahead(NULL, address, size, wait);
}

static inline int cut_sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    power_cut *cut = context;
    uint8_t *at = address;
    if (cut_fails(cut)) {
        return -1;
    }
    pthread_mutex_lock(&cut->lock);
    bool is_cut = cut->is_cut || (cut->base != NULL && cut->base->sync_range(cut->base->context, fd, address, offset, size) != 0);
    for (int i = 0; i < cut->map_count && !is_cut; i++) {
        const cut_map *map = &cut->maps[i];
        if (at >= map->address && at < map->address + map->size) {
            cut_persist(cut, map->path, at - map->address, (int64_t)size);
        }
    }
    pthread_mutex_unlock(&cut->lock);
    return cut_answer(is_cut);
}

static inline int cut_rename(void *context, const char *source, const char *target) {
    return cut_fails(context) ? -1 : rename(source, target);
}

static inline int cut_unlink(void *context, const char *path) { return cut_fails(context) ? -1 : unlink(path); }

/* The directory's names are on disk now: new files exist, with what was synced of them, removed ones are gone. */
static inline int cut_sync_directory(void *context, const char *path) {
    power_cut *cut = context;
    if (cut_fails(cut)) {
        return -1;
    }
    const char *below = strcmp(path, cut->live) == 0 ? "." : cut_below(cut, path);
    char live[CUT_PATH], durable[CUT_PATH];
    if (below == NULL) {
        return 0;
    }
    pthread_mutex_lock(&cut->lock);
    const char *roots[2] = {cut->live, cut->durable};
    bool is_cut = cut->is_cut;
    for (int pass = 0; pass < 2 && !is_cut; pass++) {
        char directory[CUT_PATH];
        cut_join(directory, roots[pass], below);
        DIR *names = opendir(directory);
        struct dirent *entry;
        while (names != NULL && (entry = readdir(names)) != NULL) {
            char name[CUT_PATH];
            cut_join(name, below, entry->d_name);
            cut_join(live, cut->live, name);
            cut_join(durable, cut->durable, name);
            if (pass == 0 && entry->d_type == DT_REG) {
                cut_make_parents(durable);
                char marker[CUT_PATH];
                if (snprintf(marker, sizeof marker, "%s.named", durable) >= CUT_PATH) {
                    abort();
                }
                close(open(durable, O_RDWR | O_CREAT, 0644));
                close(open(marker, O_RDWR | O_CREAT, 0644));
            } else if (pass == 1 && entry->d_type == DT_REG && strstr(entry->d_name, ".named") == NULL && access(live, F_OK) != 0) {
                unlink(durable);
                strcat(durable, ".named");
                unlink(durable);
            }
        }
        if (names != NULL) {
            closedir(names);
        }
    }
    pthread_mutex_unlock(&cut->lock);
    return cut_answer(is_cut);
}

/* Everything in live counts as durable now; below is "." at first. */
static inline void power_cut_settle(power_cut *cut, const char *below) {
    char directory[CUT_PATH], name[CUT_PATH];
    cut_join(directory, cut->live, below);
    cut_sync_directory(cut, strcmp(below, ".") == 0 ? cut->live : directory);
    DIR *names = opendir(directory);
    struct dirent *entry;
    while (names != NULL && (entry = readdir(names)) != NULL) {
        cut_join(name, below, entry->d_name);
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            power_cut_settle(cut, name);
        } else if (entry->d_type == DT_REG) {
            cut_persist(cut, name, 0, INT64_MAX / 2);
        }
    }
    if (names != NULL) {
        closedir(names);
    }
}

static inline int cut_sync_filesystem(void *context, int fd) {
    power_cut *cut = context;
    (void)fd;
    if (cut_fails(cut)) {
        return -1;
    }
    pthread_mutex_lock(&cut->lock);
    bool is_cut = cut->is_cut;
    pthread_mutex_unlock(&cut->lock);
    if (!is_cut) {
        power_cut_settle(cut, ".");
    }
    return cut_answer(is_cut);
}

static inline void power_cut_now(power_cut *cut) {
    pthread_mutex_lock(&cut->lock);
    cut->is_cut = true;
    pthread_mutex_unlock(&cut->lock);
}

/* Makes the directory `live`, and `live`-durable beside it. */
static inline power_cut *power_cut_create(const char *live) {
    power_cut *cut = calloc(1, sizeof *cut);
    CHECK(cut != NULL && snprintf(cut->live, CUT_PATH, "%s", live) < CUT_PATH);
    CHECK(snprintf(cut->durable, CUT_PATH, "%s-durable", live) < CUT_PATH);
    mkdir(cut->live, 0755);
    mkdir(cut->durable, 0755);
    pthread_mutex_init(&cut->lock, NULL);
    cut->maps = calloc(CUT_MAPS, sizeof *cut->maps);
    cut->ops = (rp_file_ops){.context = cut,
                             .open = cut_open,
                             .close = cut_close,
                             .allocate = cut_allocate,
                             .truncate = cut_truncate,
                             .clear = cut_clear,
                             .read_at = cut_read_at,
                             .write_at = cut_write_at,
                             .splice_at = cut_splice_at,
                             .sync_data = cut_sync_data,
                             .map = cut_map_file,
                             .unmap = cut_unmap,
                             .populate = cut_populate,
                             .read_ahead = cut_read_ahead,
                             .sync_range = cut_sync_range,
                             .rename = cut_rename,
                             .unlink = cut_unlink,
                             .sync_directory = cut_sync_directory,
                             .sync_filesystem = cut_sync_filesystem};
    return cut;
}

static inline void power_cut_destroy(power_cut *cut) {
    pthread_mutex_destroy(&cut->lock);
    free(cut->maps);
    free(cut);
}

static inline uint32_t cut_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Makes one file of the image: each page is old, new, or torn between sectors. */
static inline void cut_image_file(const char *live, const char *durable, const char *image, uint64_t *seed) {
    uint8_t before[CUT_PAGE], after[CUT_PAGE];
    struct stat status;
    int old_fd = open(durable, O_RDONLY), new_fd = open(live, O_RDONLY), out = open(image, O_RDWR | O_CREAT | O_TRUNC, 0644);
    int64_t old_size = old_fd >= 0 && fstat(old_fd, &status) == 0 ? status.st_size : 0;
    int64_t new_size = new_fd >= 0 && fstat(new_fd, &status) == 0 ? status.st_size : old_size;
    int64_t size = cut_random(seed) % 2 == 0 ? old_size : new_size;
    bool calm = cut_random(seed) % 3 == 0; /* sometimes nothing unsynced has reached the disk */
    if (out < 0 || ftruncate(out, size) != 0) {
        abort();
    }
    for (int64_t at = 0; at < size; at += CUT_PAGE) {
        memset(before, 0, sizeof before);
        memset(after, 0, sizeof after);
        if ((old_fd >= 0 && pread(old_fd, before, CUT_PAGE, at) < 0) || (new_fd >= 0 && pread(new_fd, after, CUT_PAGE, at) < 0)) {
            abort();
        }
        uint32_t choice = new_fd < 0 || calm ? 0 : cut_random(seed) % 4;
        for (int64_t sector = 0; sector < CUT_PAGE; sector += CUT_SECTOR) {
            if (choice == 1 || choice == 2 || (choice == 3 && cut_random(seed) % 2 == 0)) {
                memcpy(before + sector, after + sector, CUT_SECTOR);
            }
        }
        int64_t count = size - at < CUT_PAGE ? size - at : CUT_PAGE;
        if (pwrite(out, before, (size_t)count, at) != count) {
            abort();
        }
    }
    close(out);
    if (old_fd >= 0) {
        close(old_fd);
    }
    if (new_fd >= 0) {
        close(new_fd);
    }
}

/* Makes the directory `image` of what is on disk when the power is back; below is "" at first. */
static inline void power_cut_image(power_cut *cut, const char *below, const char *image, uint64_t *seed) {
    char live[CUT_PATH], durable[CUT_PATH], target[CUT_PATH];
    cut_join(target, image, below);
    mkdir(target, 0755);
    const char *roots[2] = {cut->live, cut->durable};
    for (int pass = 0; pass < 2; pass++) {
        char directory[CUT_PATH];
        cut_join(directory, roots[pass], below);
        DIR *names = opendir(directory);
        struct dirent *entry;
        while (names != NULL && (entry = readdir(names)) != NULL) {
            char name[CUT_PATH], marker[CUT_PATH];
            if (entry->d_name[0] == '.' || strstr(entry->d_name, ".named") != NULL) {
                continue;
            }
            cut_join(name, below, entry->d_name);
            cut_join(live, cut->live, name);
            cut_join(durable, cut->durable, name);
            cut_join(target, image, name);
            if (entry->d_type == DT_DIR) {
                if (pass == 0) {
                    power_cut_image(cut, name, image, seed);
                }
                continue;
            }
            if (snprintf(marker, sizeof marker, "%s.named", durable) >= CUT_PATH) {
                abort();
            }
            bool is_named = access(marker, F_OK) == 0, is_live = access(live, F_OK) == 0;
            if (pass == 1 && is_live) {
                continue; /* done */
            }
            bool is_sure = is_named && is_live; /* neither created nor removed since the last sync of its directory */
            if (is_sure || (is_live != is_named && cut_random(seed) % 2 == 0)) {
                cut_image_file(live, durable, target, seed);
            }
        }
        if (names != NULL) {
            closedir(names);
        }
    }
}

#endif
