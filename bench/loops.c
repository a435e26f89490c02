/* loops.c: the inner loops of the micro-benchmarks: each repeats one function of the library and returns the nanoseconds that it took.
 *
 * Each is followed by its physical limit: the same bytes copied by memcpy, or only read. Compiled by bench/conftest.py against the library.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/crc32.h"
#include "remoting/command.h"
#include "store/message_store.h"

#define ARENA_BYTES 65536
#define BATCH_MAX 64

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Keeps the compiler from dropping or hoisting work whose result nobody reads. */
static void keep(const void *value) { __asm__ volatile("" : : "r"(value) : "memory"); }

uint64_t bench_crc(const uint8_t *data, uint64_t size, uint32_t rounds) {
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t crc = rp_crc32(i, data, size);
        keep(&crc);
    }
    return now_ns() - begin;
}

uint64_t bench_crc_portable(const uint8_t *data, uint64_t size, uint32_t rounds) {
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t crc = rp_crc32_portable(i, data, size);
        keep(&crc);
    }
    return now_ns() - begin;
}

uint64_t bench_crc_copy(uint8_t *target, const uint8_t *data, uint64_t size, uint32_t rounds) {
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t crc = rp_crc32_copy(i, target, data, size);
        keep(&crc);
    }
    return now_ns() - begin;
}

uint64_t bench_copy(uint8_t *target, const uint8_t *data, uint64_t size, uint32_t rounds) {
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        memcpy(target, data, size);
        keep(target);
    }
    return now_ns() - begin;
}

/* Only loads every byte, into registers as wide as the processor has. size is a multiple of 256. */
typedef uint64_t wide __attribute__((vector_size(64), aligned(1)));
__attribute__((target_clones("avx512f", "avx2", "default"))) uint64_t bench_read(const uint8_t *data, uint64_t size, uint32_t rounds) {
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        wide sums[4] = {{0}};
        for (uint64_t at = 0; at < size; at += 256) {
            const wide *words = (const wide *)(const void *)(data + at);
            sums[0] ^= words[0];
            sums[1] ^= words[1];
            sums[2] ^= words[2];
            sums[3] ^= words[3];
        }
        keep(sums);
    }
    return now_ns() - begin;
}

/* Returns 0 if the frame cannot be decoded. */
uint64_t bench_decode(const uint8_t *frame, uint32_t size, uint32_t rounds) {
    rp_arena *arena = rp_arena_create(ARENA_BYTES, ARENA_BYTES);
    static _Thread_local rp_command command;
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        if (rp_command_decode(frame, size, arena, &command, NULL) != RP_OK)
            return 0;
        keep(&command);
        rp_arena_reset(arena);
    }
    uint64_t elapsed = now_ns() - begin;
    rp_arena_destroy(arena);
    return elapsed;
}

/* Decodes the frame once, then encodes it repeatedly. Returns 0 if it cannot be decoded. */
uint64_t bench_encode(const uint8_t *frame, uint32_t size, uint32_t rounds) {
    rp_arena *arena = rp_arena_create(ARENA_BYTES, ARENA_BYTES);
    static _Thread_local rp_command command;
    if (rp_command_decode(frame, size, arena, &command, NULL) != RP_OK)
        return 0;
    size_t target_size = rp_command_size_max(&command);
    uint8_t *target = malloc(target_size);
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        if (rp_command_encode(&command, target, target_size) <= 0)
            return 0;
        keep(target);
    }
    uint64_t elapsed = now_ns() - begin;
    free(target);
    rp_arena_destroy(arena);
    return elapsed;
}

/* Appends count messages to 16 queues of a new store at path, `batch` of them for each time the lock is taken. Returns 0 on failure. */
uint64_t bench_append(const char *path, uint32_t body_size, uint32_t batch, uint32_t count) {
    rp_message_store_options options;
    rp_message_store_options_default(&options);
    options.root_path = path;
    rp_message_store *store = NULL;
    if (batch == 0 || batch > BATCH_MAX || rp_message_store_open(&options, &store, NULL) != RP_OK)
        return 0;
    const rp_slice topic = {(const uint8_t *)"bench", 5}, properties = {(const uint8_t *)"TAGS\1a\2WAIT\1true\2", 17};
    uint8_t *body = malloc(body_size);
    memset(body, 'x', body_size);
    rp_append_item items[BATCH_MAX];
    memset(items, 0, sizeof items);
    uint64_t elapsed = 0;
    int good = 1;
    for (int32_t i = 0; i < (int32_t)batch; i++) {
        items[i].queue = rp_message_store_queue(store, topic, i % 16, 1, NULL);
        items[i].body = (rp_slice){body, body_size};
        items[i].properties[0] = properties;
        good = good && items[i].queue != NULL;
    }
    uint64_t begin = now_ns();
    for (uint32_t done = 0; good && done < count; done += batch)
        good = rp_commit_log_append(rp_message_store_commit_log(store), items, batch) == (int64_t)batch;
    elapsed = now_ns() - begin;
    free(body);
    return rp_message_store_close(store, NULL) == RP_OK && good ? elapsed : 0;
}

/* The limit of bench_append: the same bytes copied by memcpy into a mapped file whose pages are present. */
uint64_t bench_mapped_copy(const char *path, uint32_t record_size, uint32_t count) {
    uint64_t size = (uint64_t)record_size * count;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)size) != 0)
        return 0;
    uint8_t *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return 0;
    memset(map, 0, size);
    uint8_t *record = malloc(record_size);
    memset(record, 'x', record_size);
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < count; i++)
        memcpy(map + (uint64_t)i * record_size, record, record_size);
    uint64_t elapsed = now_ns() - begin;
    free(record);
    munmap(map, size);
    unlink(path);
    return elapsed;
}
