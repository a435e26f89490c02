/* epoch_cache.c: see epoch_cache.h. */
#include "epoch_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/crc32.h"
#include "../base/file_whole.h"

#define PATH_SIZE 4096
#define LINE_MAX 40
#define FILE_MAX ((RP_EPOCHS_MAX + 2) * LINE_MAX)
#define WHAT "the epoch file"

typedef struct epoch_list {
    rp_epoch_entry entries[RP_EPOCHS_MAX]; /* end_offset is set only in copies for readers */
    uint32_t count;
} epoch_list;

struct rp_epoch_cache {
    char path[PATH_SIZE], backup[PATH_SIZE]; /* fixed */
    const rp_file_ops *ops;                  /* fixed */
    rp_log *log;                             /* fixed */
    pthread_mutex_t lock;
    epoch_list list;   /* guarded by lock */
    epoch_list next;   /* guarded by lock: what the list will become */
    char text[FILE_MAX]; /* guarded by lock */
};

/* ---- the file ---- */

static uint32_t java_crc(const char *text, size_t size) { return rp_crc32(0, text, size) & 0x7FFFFFFFu; }

static uint32_t format(const epoch_list *list, char text[FILE_MAX]) {
    char head[2 * LINE_MAX];
    uint32_t size = 0;
    for (uint32_t i = 0; i < list->count; i++)
        size +=
            (uint32_t)snprintf(text + size, LINE_MAX, "%" PRId64 "-%" PRId64 "\n", list->entries[i].epoch, list->entries[i].start_offset);
    uint32_t of_head = (uint32_t)snprintf(head, sizeof head, "%u\n%u\n", list->count, java_crc(text, size));
    memmove(text + of_head, text, size);
    memcpy(text, head, of_head);
    return of_head + size;
}

/* Reads a number that ends with `end`; *at is then behind that. 0 if there is none. */
static int take_number(const char **at, const char *stop, char end, int64_t max, int64_t *value) {
    int64_t number = 0;
    const char *digit = *at;
    for (; digit < stop && *digit >= '0' && *digit <= '9'; digit++) {
        if (number > (max - (*digit - '0')) / 10)
            return 0;
        number = number * 10 + (*digit - '0');
    }
    if (digit == *at || digit == stop || *digit != end)
        return 0;
    *at = digit + 1;
    *value = number;
    return 1;
}

static int follows(const epoch_list *list, int64_t epoch, int64_t start_offset) {
    if (list->count == 0)
        return 1;
    const rp_epoch_entry *last = &list->entries[list->count - 1];
    return epoch > last->epoch && start_offset >= last->start_offset;
}

static void put_last(epoch_list *list, int64_t epoch, int64_t start_offset) {
    if (list->count == RP_EPOCHS_MAX)
        memmove(list->entries, list->entries + 1, --list->count * sizeof *list->entries);
    list->entries[list->count++] = (rp_epoch_entry){.epoch = epoch, .start_offset = start_offset};
}

/* 1 if the text is complete. */
static int parse(const char *text, size_t size, epoch_list *list) {
    const char *at = text, *stop = text + size;
    int64_t lines, crc, found = 0;
    list->count = 0;
    if (!take_number(&at, stop, '\n', INT32_MAX, &lines) || !take_number(&at, stop, '\n', INT32_MAX, &crc))
        return 0;
    if (crc != 0 && crc != java_crc(at, (size_t)(stop - at)))
        return 0;
    for (; at < stop; found++) {
        int64_t epoch, start_offset;
        if (!take_number(&at, stop, '-', INT32_MAX, &epoch) || !take_number(&at, stop, '\n', INT64_MAX, &start_offset) ||
            !follows(list, epoch, start_offset))
            return 0;
        put_last(list, epoch, start_offset);
    }
    return found == lines;
}

/* 1: the file at path is complete, and the list is read from it; 0: it is missing or damaged; negative: it cannot be read. */
static int load(rp_epoch_cache *cache, const char *path, rp_error *error) {
    int64_t size;
    int rc = rp_file_read_whole(cache->ops, path, cache->text, sizeof cache->text, &size, WHAT, error);
    if (rc != RP_OK || size < 0)
        return rc;
    if (size <= (int64_t)sizeof cache->text && parse(cache->text, (size_t)size, &cache->list))
        return 1;
    cache->list.count = 0;
    rp_log_write(cache->log, RP_LOG_ERROR, "ha: epoch file %s is damaged and not used", path);
    return 0;
}

/* Under the lock: writes `next` to the file and then makes it the list. An empty list is stored by removing the file: RocketMQ then uses
 * the backup. */
static int store_next(rp_epoch_cache *cache, rp_error *error) {
    uint32_t size = format(&cache->list, cache->text);
    int rc = cache->list.count > 0 ? rp_file_write_whole(cache->ops, cache->backup, cache->text, size, WHAT, error) : RP_OK;
    size = format(&cache->next, cache->text);
    rc = rc == RP_OK ? rp_file_write_whole(cache->ops, cache->path, cache->text, size, WHAT, error) : rc;
    if (rc == RP_OK) {
        cache->list.count = cache->next.count;
        memcpy(cache->list.entries, cache->next.entries, cache->next.count * sizeof *cache->next.entries);
    }
    return rc;
}

int rp_epoch_cache_open(const rp_epoch_cache_options *options, rp_epoch_cache **opened, rp_error *error) {
    rp_epoch_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the epochs");
    cache->ops = options->file_ops != NULL ? options->file_ops : rp_file_ops_system();
    cache->log = options->log;
    pthread_mutex_init(&cache->lock, NULL);
    int rc = options->path == NULL || options->path[0] == 0 ||
                     snprintf(cache->backup, sizeof cache->backup, "%s.bak", options->path) >= (int)sizeof cache->backup
                 ? rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "storePathEpochFile is empty or too long")
                 : RP_OK;
    if (rc == RP_OK) {
        memcpy(cache->path, cache->backup, strlen(cache->backup) - strlen(".bak"));
        rc = load(cache, cache->path, error);
    }
    if (rc == 0) {
        rc = load(cache, cache->backup, error);
        if (rc == 1)
            rp_log_write(cache->log, RP_LOG_WARNING, "ha: the epochs are those of %s", cache->backup);
    }
    if (rc < 0) {
        rp_epoch_cache_close(cache);
        return rc;
    }
    *opened = cache;
    return RP_OK;
}

void rp_epoch_cache_close(rp_epoch_cache *cache) {
    if (cache == NULL)
        return;
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* ---- changes ---- */

/* Under the lock: `next` becomes the part of the list that begins before `end` and ends behind `begin`, with epochs below `epoch`. 1 if
 * that is less. */
static int keep(rp_epoch_cache *cache, int64_t begin, int64_t end, int64_t epoch) {
    const epoch_list *list = &cache->list;
    cache->next.count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const rp_epoch_entry *entry = &list->entries[i];
        int is_past = i + 1 < list->count && list->entries[i + 1].start_offset <= begin;
        if (!is_past && entry->start_offset < end && entry->epoch < epoch)
            cache->next.entries[cache->next.count++] = *entry;
    }
    return cache->next.count < list->count;
}

static int keep_only(rp_epoch_cache *cache, int64_t begin, int64_t end, rp_error *error) {
    pthread_mutex_lock(&cache->lock);
    int rc = keep(cache, begin, end, INT64_MAX) ? store_next(cache, error) : RP_OK;
    pthread_mutex_unlock(&cache->lock);
    return rc;
}

int rp_epoch_cache_fit(rp_epoch_cache *cache, int64_t begin, int64_t end, rp_error *error) {
    return keep_only(cache, begin, end < INT64_MAX ? end + 1 : end, error);
}

int rp_epoch_cache_truncate_suffix(rp_epoch_cache *cache, int64_t offset, rp_error *error) { return keep_only(cache, -1, offset, error); }

int rp_epoch_cache_truncate_prefix(rp_epoch_cache *cache, int64_t offset, rp_error *error) {
    return keep_only(cache, offset, INT64_MAX, error);
}

int rp_epoch_cache_append(rp_epoch_cache *cache, int64_t epoch, int64_t start_offset, rp_error *error) {
    return rp_epoch_cache_append_all(cache, &(rp_epoch_entry){.epoch = epoch, .start_offset = start_offset}, 1, error);
}

int rp_epoch_cache_append_all(rp_epoch_cache *cache, const rp_epoch_entry *entries, uint32_t count, rp_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        int64_t epoch = entries[i].epoch, start = entries[i].start_offset;
        if (epoch < 0 || epoch > INT32_MAX || start < 0 ||
            (i > 0 && (epoch <= entries[i - 1].epoch || start <= entries[i - 1].start_offset)))
            return rp_error_set(error, RP_E_INVALID, 0, NULL, start, "epoch %lld from %lld on is not an epoch", (long long)epoch,
                                (long long)start);
    }
    pthread_mutex_lock(&cache->lock);
    const epoch_list *list = &cache->list;
    int64_t last = list->count > 0 ? list->entries[list->count - 1].epoch : -1, epoch = entries[0].epoch;
    int64_t start_offset = entries[0].start_offset;
    int rc;
    if (epoch < last) {
        rc = rp_error_set(error, RP_E_RANGE, 0, NULL, start_offset, "epoch %lld is older than our last, %lld", (long long)epoch,
                          (long long)last);
    } else if (count == 1 && epoch == last && list->entries[list->count - 1].start_offset == start_offset) {
        rc = RP_OK;
    } else {
        (void)keep(cache, -1, start_offset, epoch);
        for (uint32_t i = 0; i < count; i++)
            put_last(&cache->next, entries[i].epoch, entries[i].start_offset);
        rc = store_next(cache, error);
    }
    pthread_mutex_unlock(&cache->lock);
    return rc;
}

/* ---- answers ---- */

static int64_t end_of(const epoch_list *list, uint32_t i) { return i + 1 < list->count ? list->entries[i + 1].start_offset : INT64_MAX; }

uint32_t rp_epoch_cache_read(rp_epoch_cache *cache, rp_epoch_entry *entries, uint32_t entries_max) {
    pthread_mutex_lock(&cache->lock);
    uint32_t count = cache->list.count;
    for (uint32_t i = 0; i < count && i < entries_max; i++) {
        entries[i] = cache->list.entries[i];
        entries[i].end_offset = end_of(&cache->list, i);
    }
    pthread_mutex_unlock(&cache->lock);
    return count;
}

int64_t rp_epoch_cache_last(rp_epoch_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    int64_t last = cache->list.count > 0 ? cache->list.entries[cache->list.count - 1].epoch : -1;
    pthread_mutex_unlock(&cache->lock);
    return last;
}

int rp_epoch_cache_find(rp_epoch_cache *cache, int64_t offset, rp_epoch_entry *entry) {
    pthread_mutex_lock(&cache->lock);
    const epoch_list *list = &cache->list;
    int rc = list->count > 0 ? RP_OK : RP_E_NOT_FOUND;
    uint32_t found = 0;
    for (uint32_t i = list->count; i > 0; i--) {
        if (list->entries[i - 1].start_offset <= offset) {
            found = i - 1;
            break;
        }
    }
    if (rc == RP_OK) {
        *entry = list->entries[found];
        entry->end_offset = end_of(list, found);
    }
    pthread_mutex_unlock(&cache->lock);
    return rc;
}

static int64_t bounded_end(const rp_epoch_entry *entries, uint32_t count, uint32_t i, int64_t end) {
    return i + 1 < count && entries[i + 1].start_offset < end ? entries[i + 1].start_offset : end;
}

int64_t rp_epoch_consistent_point(const rp_epoch_entry *ours, uint32_t ours_count, int64_t ours_end, const rp_epoch_entry *theirs,
                                  uint32_t theirs_count, int64_t theirs_end) {
    uint32_t other = theirs_count;
    for (uint32_t i = ours_count; i > 0; i--) {
        const rp_epoch_entry *entry = &ours[i - 1];
        while (other > 0 && theirs[other - 1].epoch > entry->epoch)
            other--;
        if (other == 0 || theirs[other - 1].epoch != entry->epoch || theirs[other - 1].start_offset != entry->start_offset)
            continue;
        int64_t our_part = bounded_end(ours, ours_count, i - 1, ours_end);
        int64_t their_part = bounded_end(theirs, theirs_count, other - 1, theirs_end);
        return our_part < their_part ? our_part : their_part;
    }
    return -1;
}
