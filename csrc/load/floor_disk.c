/* floor_disk.c: the bare disk loops: pwrite + fdatasync, and sendfile from the page cache into a socket. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "../base/file_ops.h"
#include "../base/thread.h"
#include "floor_parts.h"

/* The sync loop wraps around here: allocated and written before, so that a sync has only data to write */
#define FILE_SIZE (INT64_C(64) << 20)
#define DISCARD_BYTES (1u << 20)

static int failed_on(rp_error *error, const char *path, const char *what) {
    return rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "%s: %s", what, strerror(errno));
}

static int sync_rounds(int fd, const uint8_t *data, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate) {
    rp_histogram *rounds = rp_histogram_create();
    if (rounds == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int64_t start_ns = rp_clock_monotonic_ns(rp_clock_system()), end_ns = start_ns + duration_ms * RP_NS_PER_MS, last_ns = start_ns, at = 0;
    uint64_t bytes = 0;
    int status = 0;
    while (status == 0 && last_ns < end_ns) {
        if (at + size > FILE_SIZE)
            at = 0;
        status = rp_file_write_all(rp_file_ops_system(), fd, data, size, at) != 0 || fdatasync(fd) != 0 ? -1 : 0;
        int64_t now = rp_clock_monotonic_ns(rp_clock_system());
        rp_histogram_record(rounds, (uint64_t)(now - last_ns));
        last_ns = now;
        at += size;
        bytes += size;
    }
    rp_floor_fill_rate(rate, rounds, bytes, last_ns - start_ns);
    rp_histogram_destroy(rounds);
    return status;
}

/* Writes data, FILE_SIZE bytes, over the whole file. */
static int fill_file(int fd, uint8_t *data) {
    memset(data, 'x', FILE_SIZE);
    return rp_file_write_all(rp_file_ops_system(), fd, data, FILE_SIZE, 0) != 0 || fsync(fd) != 0 ? -1 : 0;
}

int rp_floor_sync(const char *path, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error) {
    if (size == 0 || size > FILE_SIZE)
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "size must be 1 byte to 64 MB");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return failed_on(error, path, "cannot be created");
    uint8_t *data = malloc(FILE_SIZE);
    int status = RP_OK;
    if (data == NULL) {
        errno = ENOMEM;
        status = failed_on(error, path, "no memory");
    } else if (fill_file(fd, data) != 0) {
        status = failed_on(error, path, "cannot be filled");
    }
    if (status == RP_OK && sync_rounds(fd, data, size, duration_ms, rate) != 0)
        status = failed_on(error, path, "write or sync failed");
    free(data);
    close(fd);
    unlink(path);
    return status;
}

typedef struct discarder {
    int fd;
    uint8_t *buffer;
} discarder;

static void discard(void *context) {
    const discarder *reader = context;
    ssize_t got;
    do {
        got = recv(reader->fd, reader->buffer, DISCARD_BYTES, 0);
    } while (got > 0 || (got < 0 && errno == EINTR));
}

static int send_rounds(int fd, int64_t file_size, int socket_fd, uint32_t chunk, uint32_t duration_ms, rp_floor_rate *rate) {
    rp_histogram *rounds = rp_histogram_create();
    if (rounds == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int64_t start_ns = rp_clock_monotonic_ns(rp_clock_system()), end_ns = start_ns + duration_ms * RP_NS_PER_MS, last_ns = start_ns;
    uint64_t bytes = 0;
    off_t at = 0;
    int status = 0;
    for (;;) {
        ssize_t put = sendfile(socket_fd, fd, &at, chunk);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            status = -1;
            break;
        }
        int64_t now = rp_clock_monotonic_ns(rp_clock_system());
        rp_histogram_record(rounds, (uint64_t)(now - last_ns));
        last_ns = now;
        bytes += (uint64_t)put;
        if (put == 0 || at >= file_size) {
            if (duration_ms == 0)
                break;
            at = 0;
        }
        if (duration_ms != 0 && now >= end_ns)
            break;
    }
    rp_floor_fill_rate(rate, rounds, bytes, last_ns - start_ns);
    rp_histogram_destroy(rounds);
    return status;
}

int rp_floor_sendfile(const char *path, uint32_t chunk, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error) {
    if (chunk == 0)
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "chunk must be at least 1 byte");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size == 0) {
        if (fd >= 0) {
            close(fd);
            errno = ENODATA;
        }
        return failed_on(error, path, "cannot be read, or is empty");
    }
    int writer = -1;
    discarder reader = {-1, malloc(DISCARD_BYTES)};
    rp_thread *thread = NULL;
    int result = RP_OK;
    if (reader.buffer == NULL || rp_floor_tcp_pair(&writer, &reader.fd) != 0)
        result = failed_on(error, path, "no loopback connection");
    if (result == RP_OK && rp_thread_start(&thread, "rp-discard", discard, &reader) != RP_OK)
        result = rp_error_set(error, RP_E_BUSY, 0, NULL, -1, "the reader's thread cannot be started");
    if (result == RP_OK && send_rounds(fd, status.st_size, writer, chunk, duration_ms, rate) != 0)
        result = failed_on(error, path, "sendfile failed");
    if (writer >= 0)
        close(writer); /* ends the reader */
    rp_thread_join(thread);
    if (reader.fd >= 0)
        close(reader.fd);
    free(reader.buffer);
    close(fd);
    return result;
}
