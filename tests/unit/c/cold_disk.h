/* cold_disk.h: a broker over a disk whose reads the test releases. */
#ifndef RP_TESTS_COLD_DISK_H
#define RP_TESTS_COLD_DISK_H

#include <errno.h>
#include <pthread.h>

#include "base/file_ops.h"
#include "broker_fixture.h"

#define READS_MAX 64

/* The system's file operations, except that pages are in memory only if the test, or a read, says so. */
typedef struct cold_disk {
    rp_file_ops ops;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int in_memory;  /* guarded by lock, like the rest */
    int held;       /* reads wait */
    int reads_in;   /* a read brings all pages into memory */
    int looks;      /* questions whether pages are in memory */
    int begun;      /* reads so far */
    size_t largest; /* largest read, bytes */
    int by_page;    /* a read brings in only its own pages */
    struct {
        uintptr_t begin, end;
    } there[READS_MAX]; /* by_page: what reads have brought in */
} cold_disk;

/* Whether reads have brought in the whole range, each of them a part that was missing. */
static inline int was_read(const cold_disk *disk, uintptr_t begin, uintptr_t end) {
    for (int read = 0; read < disk->begun && begin < end;) {
        int is_of_it = disk->there[read].begin <= begin && begin < disk->there[read].end;
        begin = is_of_it ? disk->there[read].end : begin;
        read = is_of_it ? 0 : read + 1;
    }
    return begin >= end;
}

static inline int is_in_memory(void *context, const void *address, size_t size) {
    cold_disk *disk = context;
    uintptr_t begin = (uintptr_t)address;
    pthread_mutex_lock(&disk->lock);
    int in_memory = disk->in_memory || (disk->by_page && was_read(disk, begin, begin + size));
    disk->looks++;
    pthread_mutex_unlock(&disk->lock);
    return in_memory;
}

static inline int read_when_let(void *context, void *address, size_t size, int wait) {
    cold_disk *disk = context;
    if (wait == RP_READ_ASK)
        return 0;
    pthread_mutex_lock(&disk->lock);
    int read = disk->begun++;
    disk->largest = size > disk->largest ? size : disk->largest;
    pthread_cond_broadcast(&disk->changed);
    while (disk->held)
        pthread_cond_wait(&disk->changed, &disk->lock);
    if (disk->by_page && disk->reads_in) {
        CHECK(read < READS_MAX);
        disk->there[read].begin = (uintptr_t)address;
        disk->there[read].end = (uintptr_t)address + size;
    }
    disk->in_memory |= disk->reads_in && !disk->by_page;
    int rc = disk->reads_in ? 0 : -1;
    errno = EFAULT; /* a disk that fails */
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

static inline void hold_reads(cold_disk *disk, int held) {
    pthread_mutex_lock(&disk->lock);
    disk->held = held;
    pthread_cond_broadcast(&disk->changed);
    pthread_mutex_unlock(&disk->lock);
}

/* Everything is in memory from now on, also what is appended later. */
static inline void keep_all_in_memory(cold_disk *disk) {
    pthread_mutex_lock(&disk->lock);
    disk->in_memory = 1;
    pthread_mutex_unlock(&disk->lock);
}

static inline int wait_for_reads(cold_disk *disk, int count) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MS / 1000;
    pthread_mutex_lock(&disk->lock);
    while (disk->begun < count && pthread_cond_timedwait(&disk->changed, &disk->lock, &until) == 0) {
    }
    int begun = disk->begun;
    pthread_mutex_unlock(&disk->lock);
    return begun;
}

/* Options may be changed before fixture_open. */
static inline void prepare_over(fixture *fx, cold_disk *disk) {
    *disk =
        (cold_disk){.ops = *rp_file_ops_system(), .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .reads_in = 1};
    disk->ops.context = disk;
    disk->ops.in_memory = is_in_memory;
    disk->ops.read_ahead = read_when_let;
    fixture_init(fx);
    fx->store_options.file_ops = &disk->ops;
    fx->store_options.commit_log_file_size = 32 << 20;
    fx->broker_options.cold_after_bytes = 0; /* the whole log may be cold */
    fx->broker_options.cold_wait_ms = WAIT_MS;
}

static inline void open_over(fixture *fx, cold_disk *disk) {
    prepare_over(fx, disk);
    fixture_open(fx);
}

/* Appends to queue 0 of T directly: there are thousands, too many for a round trip each. */
static inline void append_small_messages(fixture *fx, int count) {
    rp_error error = {0};
    rp_append_item item = {.queue = rp_message_store_queue(fx->store, text("T"), 0, 1, &error), .body = text("small")};
    CHECK(item.queue != NULL);
    for (int i = 0; i < count; i++)
        CHECK(rp_commit_log_append(rp_message_store_commit_log(fx->store), &item, 1) == 1);
}

/* Appends a log of several regions of the cold reader, of which only the last message passes the filter price = 1. */
enum { REGION_BYTES = 4 << 20, LARGE_BODY = 2 << 20, LARGE_MESSAGES = 12, LARGE_REGIONS = LARGE_MESSAGES * LARGE_BODY / REGION_BYTES };

static inline void send_large_messages(client *c) {
    char *body = malloc(LARGE_BODY + 1);
    CHECK(body != NULL);
    memset(body, 'b', LARGE_BODY);
    body[LARGE_BODY] = 0;
    for (int i = 0; i < LARGE_MESSAGES; i++)
        CHECK(send_message(c, "T", 0, i == LARGE_MESSAGES - 1 ? "price\0011\2" : "", body) == i);
    free(body);
}

#endif
