/* index_file.c: see index_file.h. */
#include "index_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/map_hold.h"
#include "file_row.h"

#define ALLOCATE_STEP (1u << 20)
#define SLOTS_PIECE 65536
enum { AT_BEGIN_TIME = 0, AT_END_TIME = 8, AT_BEGIN_OFFSET = 16, AT_END_OFFSET = 24, AT_SLOTS_USED = 32, AT_NEXT_ENTRY = 36 };

struct rp_index_file {
    /* fixed after open */
    const rp_file_ops *ops;
    char *path;
    rp_index_shape shape;
    int fd;
    int is_writable;
    bool copies_on_write; /* on a file system that copies on write: bytes that have space may need it again */
    uint8_t *map;
    uint64_t size;
    /* writer only */
    uint64_t allocated; /* bytes of the file that have space on disk */
    uint32_t slots_used;
    /* Written by the writer, with release, after the entry it covers; read by any thread. */
    atomic_uint_fast32_t next_entry;
    /* There was no space to fill them: on tmpfs, reading one through the map raises SIGBUS, so pread is used. The writer clears it once
     * there is space. */
    atomic_bool has_holes;
};

static uint64_t file_size(rp_index_shape shape) {
    return RP_INDEX_HEADER_SIZE + (uint64_t)shape.slot_count * RP_INDEX_SLOT_SIZE + (uint64_t)shape.entry_count_max * RP_INDEX_ENTRY_SIZE;
}

static uint64_t entry_at(const rp_index_file *file, uint32_t number) {
    return RP_INDEX_HEADER_SIZE + (uint64_t)file->shape.slot_count * RP_INDEX_SLOT_SIZE + (uint64_t)number * RP_INDEX_ENTRY_SIZE;
}

/* Readers access slots too: each is one aligned 4-byte store. The header has 40 bytes, so slots are aligned. */
static _Atomic uint32_t *slot_of(const rp_index_file *file, int32_t key_hash) {
    uint64_t slot = (uint32_t)key_hash % file->shape.slot_count;
    return (_Atomic uint32_t *)(void *)(file->map + RP_INDEX_HEADER_SIZE + slot * RP_INDEX_SLOT_SIZE);
}
_Static_assert(sizeof(_Atomic uint32_t) == RP_INDEX_SLOT_SIZE, "a slot is one atomic word");

static bool has_holes(const rp_index_file *file) { return atomic_load_explicit(&file->has_holes, memory_order_acquire); }

/* 0, or -1 and errno. */
static int read_by_call(const rp_index_file *file, uint64_t at, uint8_t *bytes, size_t size) {
    int64_t got = file->ops->read_at(file->ops->context, file->fd, bytes, size, (int64_t)at);
    if (got >= 0 && got != (int64_t)size)
        errno = EIO; /* cut short since it was opened */
    return got == (int64_t)size ? 0 : -1;
}

/* Called by readers. 0, or -1 and errno; bytes that cannot be read are returned as zeros, which refer to no entry. */
static int read_bytes(const rp_index_file *file, uint64_t at, uint8_t *bytes, size_t size) {
    int failed = 0;
    if (!has_holes(file))
        memcpy(bytes, file->map + at, size);
    else if ((failed = read_by_call(file, at, bytes, size)) != 0)
        memset(bytes, 0, size);
    return failed;
}

/* Called by readers. Returns the number of the slot's last entry. */
static uint32_t last_of_slot(const rp_index_file *file, int32_t key_hash) {
    _Atomic uint32_t *slot = slot_of(file, key_hash);
    uint8_t bytes[RP_INDEX_SLOT_SIZE];
    if (!has_holes(file))
        return __builtin_bswap32(atomic_load_explicit(slot, memory_order_acquire));
    (void)read_bytes(file, (uint64_t)((uint8_t *)slot - file->map), bytes, sizeof bytes);
    return rp_get_u32(bytes);
}

/* The 8-byte fields of the header are aligned too: written by the writer, read by others, each by itself. */
static void put_field(rp_index_file *file, int at, int64_t value) {
    atomic_store_explicit((_Atomic uint64_t *)(void *)(file->map + at), __builtin_bswap64((uint64_t)value), memory_order_relaxed);
}
static int64_t field(const rp_index_file *file, int at) {
    uint8_t bytes[8];
    if (has_holes(file)) {
        (void)read_bytes(file, (uint64_t)at, bytes, sizeof bytes);
        return (int64_t)rp_get_u64(bytes);
    }
    return (int64_t)__builtin_bswap64(atomic_load_explicit((_Atomic uint64_t *)(void *)(file->map + at), memory_order_relaxed));
}

static int check_shape(rp_index_shape shape, const char *path, rp_error *error) {
    if (shape.slot_count < 1 || shape.slot_count > INT32_MAX || shape.entry_count_max < 2 || shape.entry_count_max > INT32_MAX)
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "maxHashSlotNum is %u and maxIndexNum %u: set them to 1 to %d and 2 to %d",
                            shape.slot_count, shape.entry_count_max, INT32_MAX, INT32_MAX);
    return RP_OK;
}

static void free_file(rp_index_file *file) {
    if (file->map != NULL)
        file->ops->unmap(file->ops->context, file->map, file->size);
    if (file->fd >= 0)
        file->ops->close(file->ops->context, file->fd);
    free(file->path);
    free(file);
}

static rp_index_file *new_file(const rp_file_ops *ops, const char *path, rp_index_shape shape) {
    rp_index_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return NULL;
    file->ops = ops != NULL ? ops : rp_file_ops_system();
    file->shape = shape;
    file->size = file_size(shape);
    file->fd = -1;
    file->path = strdup(path);
    if (file->path != NULL)
        return file;
    free(file);
    return NULL;
}

static int fail(const rp_index_file *file, const char *what, rp_error *error) {
    int cause = errno;
    return rp_error_set(error, rp_status_from_errno(cause), cause, file->path, -1, "%s index file failed: %s", what, strerror(cause));
}

static int map_file(rp_index_file *file, rp_error *error) {
    file->copies_on_write = file->is_writable && rp_map_hold_is_needed(file->fd);
    file->map = file->ops->map(file->ops->context, file->fd, file->size, file->is_writable);
    return file->map == NULL ? fail(file, "mapping the", error) : RP_OK;
}

/* Allocates disk space up to `end` of a mapped file, in steps. The slots are allocated whole at creation, since they are written at
 * random. */
static int allocate_to(rp_index_file *file, uint64_t end, rp_error *error) {
    if (end <= file->allocated)
        return RP_OK;
    uint64_t target = (end + ALLOCATE_STEP - 1) / ALLOCATE_STEP * ALLOCATE_STEP;
    if (target > file->size)
        target = file->size;
    uint64_t size = target - file->allocated;
    int rc = file->ops->allocate(file->ops->context, file->fd, (int64_t)file->allocated, (int64_t)size);
    if (rc == 1 && file->ops->populate(file->ops->context, file->map + file->allocated, size) != 0 && errno == EFAULT) {
        errno = ENOSPC; /* touching it would have been a SIGBUS */
        rc = -1;
    }
    if (rc < 0)
        return fail(file, "growing the", error);
    file->allocated = target;
    return RP_OK;
}

/* Says why a store was left in the middle. */
static int no_space(rp_index_file *file, rp_error *error) {
    struct stat info;
    if (fstat(file->fd, &info) == 0 && (uint64_t)info.st_size < file->size)
        return rp_error_set(error, RP_E_IO, EIO, file->path, (int64_t)info.st_size,
                            "the index file was cut short from outside, to %lld bytes: stop the broker and put it back, or delete it",
                            (long long)info.st_size);
    errno = ENOSPC;
    return fail(file, "writing to the", error);
}

typedef struct new_header {
    rp_index_file *file;
    int64_t offset, time_ms;
} new_header;

static void store_header(void *context) {
    const new_header *header = context;
    put_field(header->file, AT_BEGIN_TIME, header->time_ms);
    put_field(header->file, AT_END_TIME, header->time_ms);
    put_field(header->file, AT_BEGIN_OFFSET, header->offset);
    put_field(header->file, AT_END_OFFSET, header->offset);
    rp_put_u32(header->file->map + AT_NEXT_ENTRY, 1);
}

static int prepare_new(rp_index_file *file, int64_t previous_offset, int64_t previous_time_ms, rp_error *error) {
    file->is_writable = 1;
    file->fd = file->ops->open(file->ops->context, file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file->fd < 0) {
        if (errno == EEXIST)
            return rp_error_set(error, RP_E_EXISTS, EEXIST, file->path, -1, "the index file exists already");
        return fail(file, "creating the", error);
    }
    if (file->ops->truncate(file->ops->context, file->fd, (int64_t)file->size) < 0)
        return fail(file, "sizing the", error);
    int status = map_file(file, error);
    if (status == RP_OK)
        status = allocate_to(file, entry_at(file, 1), error);
    if (status < 0)
        return status;
    new_header header = {file, previous_offset, previous_time_ms};
    if (!file->copies_on_write)
        store_header(&header);
    else if (!rp_map_store(file->map, RP_INDEX_HEADER_SIZE, store_header, &header))
        return no_space(file, error);
    atomic_init(&file->next_entry, 1);
    return RP_OK;
}

int rp_index_file_create(const rp_file_ops *ops, const char *path, rp_index_shape shape, int64_t previous_offset, int64_t previous_time_ms,
                         rp_index_file **created, rp_error *error) {
    int status = check_shape(shape, path, error);
    if (status < 0)
        return status;
    rp_index_file *file = new_file(ops, path, shape);
    if (file == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, path, -1, "no memory for an index file");
    status = prepare_new(file, previous_offset, previous_time_ms, error);
    if (status < 0) {
        if (file->fd >= 0)
            file->ops->unlink(file->ops->context, path); /* the half-made file; the error above is what is reported */
        free_file(file);
        return status;
    }
    *created = file;
    return RP_OK;
}

static int read_header(rp_index_file *file, rp_error *error) {
    uint8_t header[RP_INDEX_HEADER_SIZE];
    if (read_by_call(file, 0, header, sizeof header) != 0)
        return rp_error_set(error, errno == EIO ? RP_E_CORRUPT : rp_status_from_errno(errno), errno, file->path, 0,
                            "index header cannot be read: %s: delete the file, it is rebuilt from the commit log", strerror(errno));
    uint32_t next_entry = rp_get_u32(header + AT_NEXT_ENTRY);
    file->slots_used = rp_get_u32(header + AT_SLOTS_USED);
    if (next_entry == 0)
        next_entry = 1; /* Java writes the header at its first flush */
    int64_t begin_offset = (int64_t)rp_get_u64(header + AT_BEGIN_OFFSET), end_offset = (int64_t)rp_get_u64(header + AT_END_OFFSET);
    if (next_entry > file->shape.entry_count_max || begin_offset < 0 || end_offset < begin_offset)
        return rp_error_set(error, RP_E_CORRUPT, 0, file->path, 0,
                            "index header says %u entries and log offsets %lld..%lld: delete the file, it is rebuilt from the commit log",
                            next_entry - 1, (long long)begin_offset, (long long)end_offset);
    atomic_init(&file->next_entry, next_entry);
    return RP_OK;
}

static int open_existing(rp_index_file *file, rp_error *error) {
    file->fd = file->ops->open(file->ops->context, file->path, (file->is_writable ? O_RDWR : O_RDONLY) | O_CLOEXEC, 0);
    if (file->fd < 0)
        return fail(file, "opening the", error);
    struct stat info;
    if (fstat(file->fd, &info) < 0)
        return fail(file, "looking at the", error);
    if ((uint64_t)info.st_size != file->size)
        return rp_error_set(
            error, RP_E_CORRUPT, 0, file->path, -1,
            "index file has %lld bytes, maxHashSlotNum %u and maxIndexNum %u need %llu: delete it or set these keys as they were",
            (long long)info.st_size, file->shape.slot_count, file->shape.entry_count_max, (unsigned long long)file->size);
    int status = map_file(file, error);
    if (status == RP_OK)
        status = read_header(file, error);
    if (status < 0)
        return status;
    if (!file->is_writable) {
        atomic_store(&file->has_holes, rp_lacks_space_for_holes(file->fd, file->size));
        return RP_OK;
    }
    atomic_store(&file->has_holes, true);
    status = rp_index_file_fill_holes(file, error);
    return status == RP_E_DISK_FULL ? RP_OK : status; /* each put asks again before it writes */
}

/* Beyond the last entry there may be holes; in a file of RocketMQ or a sparse copy also before it, so all of it is allocated. */
int rp_index_file_fill_holes(rp_index_file *file, rp_error *error) {
    int status = has_holes(file) ? allocate_to(file, entry_at(file, (uint32_t)atomic_load(&file->next_entry)), error) : RP_OK;
    if (status == RP_OK)
        atomic_store_explicit(&file->has_holes, false, memory_order_release);
    return status;
}

int rp_index_file_open(const rp_file_ops *ops, const char *path, rp_index_shape shape, int writable, rp_index_file **opened,
                       rp_error *error) {
    int status = check_shape(shape, path, error);
    if (status < 0)
        return status;
    rp_index_file *file = new_file(ops, path, shape);
    if (file == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, path, -1, "no memory for an index file");
    file->is_writable = writable;
    status = open_existing(file, error);
    if (status < 0) {
        free_file(file);
        return status;
    }
    *opened = file;
    return RP_OK;
}

void rp_index_file_close(rp_index_file *file) {
    if (file != NULL)
        free_file(file);
}

static uint32_t seconds_since(int64_t begin_ms, int64_t store_time_ms) {
    if (begin_ms <= 0 || store_time_ms <= begin_ms)
        return 0;
    int64_t seconds = (store_time_ms - begin_ms) / 1000;
    return seconds > INT32_MAX ? INT32_MAX : (uint32_t)seconds;
}

typedef struct new_entry {
    rp_index_file *file;
    uint32_t number;
    int32_t key_hash;
    int64_t log_offset, store_time_ms;
} new_entry;

/* May be interrupted at any store (map_hold.h), so the slot comes last: an entry that no slot names is not visible. */
static void store_entry(void *context) {
    const new_entry *new = context;
    rp_index_file *file = new->file;
    _Atomic uint32_t *slot = slot_of(file, new->key_hash);
    uint8_t *entry = file->map + entry_at(file, new->number);
    uint32_t older = __builtin_bswap32(atomic_load_explicit(slot, memory_order_relaxed));
    if (older > new->number)
        older = 0; /* left by a crash, beyond the header's count */
    if (new->number == 1) {
        put_field(file, AT_BEGIN_OFFSET, new->log_offset);
        put_field(file, AT_BEGIN_TIME, new->store_time_ms);
    }
    rp_put_u32(entry, (uint32_t)new->key_hash);
    rp_put_u64(entry + 4, (uint64_t)new->log_offset);
    rp_put_u32(entry + 12, seconds_since(field(file, AT_BEGIN_TIME), new->store_time_ms));
    rp_put_u32(entry + 16, older);
    rp_put_u32(file->map + AT_SLOTS_USED, file->slots_used + (older == 0));
    put_field(file, AT_END_OFFSET, new->log_offset);
    put_field(file, AT_END_TIME, new->store_time_ms);
    rp_put_u32(file->map + AT_NEXT_ENTRY, new->number + 1);
    atomic_store_explicit(&file->next_entry, new->number + 1, memory_order_release);
    atomic_store_explicit(slot, __builtin_bswap32(new->number), memory_order_release);
    file->slots_used += older == 0;
}

typedef struct old_end {
    rp_index_file *file;
    uint32_t number;
    int64_t log_offset, time_ms;
} old_end;

static void store_end(void *context) {
    const old_end *end = context;
    put_field(end->file, AT_END_OFFSET, end->log_offset);
    put_field(end->file, AT_END_TIME, end->time_ms);
    rp_put_u32(end->file->map + AT_SLOTS_USED, end->file->slots_used);
    rp_put_u32(end->file->map + AT_NEXT_ENTRY, end->number);
}

/* For file systems that copy on write: stores all of the entry, or none of it becomes visible, and it may be put again. */
static int try_to_store(new_entry *new, rp_error *error) {
    rp_index_file *file = new->file;
    old_end end = {file, new->number, field(file, AT_END_OFFSET), field(file, AT_END_TIME)};
    if (rp_map_store(file->map, entry_at(file, new->number + 1), store_entry, new))
        return RP_OK;
    atomic_store_explicit(&file->next_entry, new->number, memory_order_release);
    (void)rp_map_store(file->map, RP_INDEX_HEADER_SIZE, store_end, &end); /* or there is no space for that either */
    return no_space(file, error);
}

int rp_index_file_put(rp_index_file *file, int32_t key_hash, int64_t log_offset, int64_t store_time_ms, rp_error *error) {
    new_entry new = {file, (uint32_t)atomic_load_explicit(&file->next_entry, memory_order_relaxed), key_hash, log_offset, store_time_ms};
    if (new.number >= file->shape.entry_count_max)
        return RP_E_BUSY;
    int status = allocate_to(file, entry_at(file, new.number + 1), error);
    if (status == RP_OK)
        atomic_store_explicit(&file->has_holes, false, memory_order_release); /* before anything is stored through the map */
    if (status == RP_OK && file->copies_on_write)
        status = try_to_store(&new, error);
    else if (status == RP_OK)
        store_entry(&new);
    return status;
}

uint32_t rp_index_file_select(const rp_index_file *file, int32_t key_hash, int64_t begin_ms, int64_t end_ms, int64_t *offsets,
                              uint32_t offsets_max) {
    uint32_t number = last_of_slot(file, key_hash);
    uint32_t next_entry = (uint32_t)atomic_load_explicit(&file->next_entry, memory_order_acquire);
    uint32_t found = 0;
    int64_t first_ms = rp_index_file_begin_time(file);
    while (number > 0 && number < next_entry && found < offsets_max) {
        uint8_t entry[RP_INDEX_ENTRY_SIZE];
        (void)read_bytes(file, entry_at(file, number), entry, sizeof entry);
        int32_t seconds = (int32_t)rp_get_u32(entry + 12);
        if (seconds < 0)
            break;
        int64_t time_ms;
        if (__builtin_add_overflow(first_ms, (int64_t)seconds * 1000, &time_ms))
            time_ms = INT64_MAX; /* a damaged header may hold any time */
        if ((int32_t)rp_get_u32(entry) == key_hash && time_ms >= begin_ms && time_ms <= end_ms)
            offsets[found++] = (int64_t)rp_get_u64(entry + 4);
        uint32_t older = rp_get_u32(entry + 16);
        if (older >= number || time_ms < begin_ms)
            break; /* valid chains go strictly back, so this ends a damaged one */
        number = older;
    }
    return found;
}

int rp_index_file_sync(rp_index_file *file, rp_error *error) {
    if (file->ops->sync_data(file->ops->context, file->fd) < 0)
        return fail(file, "syncing the", error);
    return RP_OK;
}

/* Uses read calls: through the map, a page that the disk cannot read would end the process. */
int rp_index_file_has_true_slots(const rp_index_file *file) {
    uint8_t piece[SLOTS_PIECE];
    uint32_t next_entry = (uint32_t)atomic_load_explicit(&file->next_entry, memory_order_acquire);
    uint64_t end = next_entry < file->shape.entry_count_max ? entry_at(file, 0) : 0;
    for (uint64_t at = RP_INDEX_HEADER_SIZE; at < end;) {
        size_t wanted = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        int64_t got = file->ops->read_at(file->ops->context, file->fd, piece, wanted, (int64_t)at);
        if (got < RP_INDEX_SLOT_SIZE)
            return 0;
        got -= got % RP_INDEX_SLOT_SIZE;
        for (int64_t slot = 0; slot < got; slot += RP_INDEX_SLOT_SIZE) {
            if (rp_get_u32(piece + slot) >= next_entry)
                return 0;
        }
        at += (uint64_t)got;
    }
    return 1;
}

int rp_index_file_is_full(const rp_index_file *file) {
    return atomic_load_explicit(&file->next_entry, memory_order_relaxed) >= file->shape.entry_count_max;
}
const char *rp_index_file_path(const rp_index_file *file) { return file->path; }
int64_t rp_index_file_begin_time(const rp_index_file *file) { return field(file, AT_BEGIN_TIME); }
int64_t rp_index_file_end_time(const rp_index_file *file) { return field(file, AT_END_TIME); }
int64_t rp_index_file_end_offset(const rp_index_file *file) { return field(file, AT_END_OFFSET); }
uint32_t rp_index_file_entry_count(const rp_index_file *file) {
    return (uint32_t)atomic_load_explicit(&file->next_entry, memory_order_acquire) - 1;
}

int rp_index_file_entry(const rp_index_file *file, uint32_t number, int32_t *key_hash, int64_t *log_offset, rp_error *error) {
    if (number < 1 || number > rp_index_file_entry_count(file))
        return rp_error_set(error, RP_E_RANGE, 0, file->path, -1, "the index file has no entry %u", number);
    uint8_t entry[RP_INDEX_ENTRY_SIZE];
    if (read_bytes(file, entry_at(file, number), entry, sizeof entry) != 0)
        return fail(file, "reading an entry of the", error);
    *key_hash = (int32_t)rp_get_u32(entry);
    *log_offset = (int64_t)rp_get_u64(entry + 4);
    return RP_OK;
}
