/* floor_relay.c: the bare replicated send: client, master and slave in three blocking threads, two TCP connections, two copies with CRC.
 *
 *     client ── size bytes ─► master: append ── size bytes ─► slave: append
 *            ◄── 160 bytes ──                ◄── 8 bytes ────
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "../base/crc32.h"
#include "../base/thread.h"
#include "floor_parts.h"

#define LOG_BYTES (UINT64_C(32) << 20) /* of each: all its pages are present before the first round */
#define ANSWER_BYTES 160
#define ACK_BYTES 8
#define SIZE_MAX_BYTES (1u << 20)

typedef struct replica {
    int near_fd, far_fd; /* towards the client; towards the slave, where it is -1 */
    uint8_t *log;
    uint64_t at;
    uint32_t size, crc;
    uint8_t *input;
} replica;

static int receive_whole(int fd, uint8_t *target, size_t size) { return recv(fd, target, size, MSG_WAITALL) == (ssize_t)size; }

static int send_whole(int fd, const uint8_t *source, size_t size) {
    while (size > 0) {
        ssize_t put = send(fd, source, size, MSG_NOSIGNAL);
        if (put <= 0)
            return 0;
        source += put;
        size -= (size_t)put;
    }
    return 1;
}

static void append(replica *one) {
    if (LOG_BYTES - one->at < one->size)
        one->at = 0;
    one->crc = rp_crc32_copy(one->crc, one->log + one->at, one->input, one->size);
    one->at += one->size;
}

static void run_slave(void *context) {
    replica *slave = context;
    uint8_t ack[ACK_BYTES] = {0};
    do {
        if (!receive_whole(slave->near_fd, slave->input, slave->size))
            break;
        append(slave);
    } while (send_whole(slave->near_fd, ack, sizeof ack));
}

static void run_master(void *context) {
    replica *master = context;
    uint8_t answer[ANSWER_BYTES] = {0}, ack[ACK_BYTES];
    do {
        if (!receive_whole(master->near_fd, master->input, master->size))
            break;
        append(master);
    } while (send_whole(master->far_fd, master->input, master->size) && receive_whole(master->far_fd, ack, sizeof ack) &&
             send_whole(master->near_fd, answer, sizeof answer));
    shutdown(master->far_fd, SHUT_RDWR); /* ends the slave */
}

static int run_rounds(int fd, const uint8_t *message, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate) {
    rp_histogram *rounds = rp_histogram_create();
    if (rounds == NULL)
        return 0;
    int64_t start_ns = rp_clock_monotonic_ns(rp_clock_system()), end_ns = start_ns + duration_ms * RP_NS_PER_MS, last_ns = start_ns;
    uint8_t answer[ANSWER_BYTES];
    int good = 1;
    while (good && last_ns < end_ns) {
        good = send_whole(fd, message, size) && receive_whole(fd, answer, sizeof answer);
        int64_t now = rp_clock_monotonic_ns(rp_clock_system());
        rp_histogram_record(rounds, (uint64_t)(now - last_ns));
        last_ns = now;
    }
    rp_floor_fill_rate(rate, rounds, rp_histogram_count(rounds) * size, last_ns - start_ns);
    rp_histogram_destroy(rounds);
    return good;
}

static void without_delay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Returns NULL with errno. The file has no name any more when this returns; it lives as long as its mapping. */
static uint8_t *map_logs(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return NULL;
    unlink(path); /* here, because a file that could not be opened is not ours to remove */
    int failed = posix_fallocate(fd, 0, (off_t)(2 * LOG_BYTES)); /* does not set errno */
    void *map = failed == 0 ? mmap(NULL, 2 * LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0) : MAP_FAILED;
    failed = failed == 0 && map == MAP_FAILED ? errno : failed;
    close(fd);
    errno = failed;
    if (map == MAP_FAILED)
        return NULL;
    memset(map, 0, 2 * LOG_BYTES);
    return map;
}

/* Runs the loop over its open sockets. */
static int run_chain(int client_fd, replica *master, replica *slave, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error) {
    rp_thread *master_thread = NULL, *slave_thread = NULL;
    uint8_t *message = calloc(1, master->size);
    int status = RP_OK;
    if (message == NULL || rp_thread_start(&slave_thread, "floor-slave", run_slave, slave) != RP_OK ||
        rp_thread_start(&master_thread, "floor-master", run_master, master) != RP_OK)
        status = rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory or thread for the relay");
    else if (!run_rounds(client_fd, message, master->size, duration_ms, rate))
        status = rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "the relay's connections broke");
    shutdown(client_fd, SHUT_RDWR); /* ends the master, which ends the slave */
    shutdown(slave->near_fd, SHUT_RDWR);
    rp_thread_join(master_thread);
    rp_thread_join(slave_thread);
    free(message);
    return status;
}

int rp_floor_replicated(const char *path, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error) {
    if (size == 0 || size > SIZE_MAX_BYTES)
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "size must be 1 byte to 1 MB");
    int fds[4] = {-1, -1, -1, -1};
    uint8_t *logs = map_logs(path), *inputs = malloc((size_t)2 * size);
    int status = RP_OK;
    if (logs == NULL || inputs == NULL)
        status = rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot be made and mapped: %s", strerror(errno));
    else if (rp_floor_tcp_pair(&fds[0], &fds[1]) != 0 || rp_floor_tcp_pair(&fds[2], &fds[3]) != 0)
        status = rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "no loopback connections: %s", strerror(errno));
    if (status == RP_OK) {
        replica master = {.near_fd = fds[1], .far_fd = fds[2], .log = logs, .size = size, .input = inputs};
        replica slave = {.near_fd = fds[3], .far_fd = -1, .log = logs + LOG_BYTES, .size = size, .input = inputs + size};
        for (int i = 0; i < 4; i++)
            without_delay(fds[i]);
        status = run_chain(fds[0], &master, &slave, duration_ms, rate, error);
    }
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (logs != NULL)
        munmap(logs, 2 * LOG_BYTES);
    free(inputs);
    return status;
}
