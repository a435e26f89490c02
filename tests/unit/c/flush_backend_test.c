/* flush_backend_test.c: syncs through io_uring are durable, also across a power cut. If io_uring is forbidden, or liburing is missing or an
 * unsuitable one, system calls replace it, and a configuration that insists on io_uring is told the remedy. */
#include <errno.h>
#include <linux/io_uring.h>
#include <stddef.h>
#include <sys/wait.h>

#include "../../../csrc/base/uring.h"
#include "check.h"
#include "forbid_call.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { MESSAGES = 300 };

/* pyuring's, as Python tells a broker; NULL where it is not installed. */
static const char *liburing_path(void) {
    const char *path = getenv("ROCKETPY_TEST_LIBURING");
    return path != NULL && path[0] != 0 ? path : NULL;
}

static int opens_ring(rp_liburing *library, rp_uring **ring) {
    rp_error error = {0};
    int rc = rp_liburing_load(liburing_path(), library, &error);
    rc = rc == RP_OK ? rp_uring_open(library, ring, &error) : rc;
    if (rc != RP_OK) {
        printf("%s: not tried\n", error.message);
        rp_liburing_unload(library);
    }
    return rc == RP_OK;
}

/* Over a file layer that loses power: what was waited for through the ring is in the image. */
static void a_power_cut_takes_nothing_that_the_ring_has_synced(int flush_mode) {
    char base[400], live[512], image[512];
    rp_liburing library;
    rp_uring *ring = NULL;
    rp_error error = {0};
    if (!opens_ring(&library, &ring)) {
        return;
    }
    fixture_directory(base, sizeof base);
    snprintf(live, sizeof live, "%s/live", base);
    snprintf(image, sizeof image, "%s/image", base);
    power_cut *cut = power_cut_create(live);
    cut->base = rp_uring_file_ops(ring);
    rp_message_store_options options;
    fixture_options(&options, live);
    options.flush_mode = flush_mode;
    options.file_ops = &cut->ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Ring", 0);
    int64_t acknowledged = 0;
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_append(store, queue, i) == RP_OK);
        if (i % 9 == 0 && i < MESSAGES - 40) {
            int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
            CHECK(rp_message_store_wait_flushed(store, end, 60000) == RP_OK);
            acknowledged = i + 1;
        }
    }
    power_cut_now(cut);
    CHECK(rp_message_store_close(store, &error) != RP_OK);
    uint64_t seed = 7;
    power_cut_image(cut, "", image, &seed);
    fixture_options(&options, image);
    store = fixture_open(&options);
    queue = fixture_queue(store, "Ring", 0);
    int64_t found = rp_consume_queue_max_offset(queue);
    CHECK(found >= acknowledged && found <= MESSAGES);
    for (int64_t i = 0; i < found; i++) {
        CHECK(fixture_check(store, queue, i) == 0);
    }
    fixture_close(store);
    power_cut_destroy(cut);
    rp_uring_close(ring);
    rp_liburing_unload(&library);
    fixture_remove(base);
}

/* One store, each backend in turn, by the option. */
static void each_backend_serves_the_same_store(int has_io_uring) {
    char path[400];
    rp_message_store_options options;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    options.flush_mode = RP_FLUSH_SYNC;
    options.liburing_path = liburing_path();
    int64_t next = 0;
    for (int32_t kind = RP_FLUSH_BACKEND_AUTO; kind <= RP_FLUSH_BACKEND_IO_URING; kind++) {
        rp_message_store *store = NULL;
        rp_error error = {0};
        options.flush_backend = kind;
        int rc = rp_message_store_open(&options, &store, &error);
        if (kind == RP_FLUSH_BACKEND_IO_URING && !has_io_uring) {
            CHECK(rc == RP_E_UNSUPPORTED && strstr(error.message, "flushBackend=AUTO") != NULL);
            break;
        }
        CHECK(rc == RP_OK);
        rp_message_store_stats stats;
        rp_message_store_read_stats(store, &stats);
        CHECK(kind == RP_FLUSH_BACKEND_AUTO ? stats.flush_backend != RP_FLUSH_BACKEND_AUTO : stats.flush_backend == kind);
        CHECK(has_io_uring || stats.flush_backend == RP_FLUSH_BACKEND_SYSCALL);
        rp_consume_queue *queue = fixture_queue(store, "Backend", 0);
        for (int i = 0; i < 50; i++) {
            CHECK(fixture_append(store, queue, next++) == RP_OK);
            int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
            CHECK(rp_message_store_wait_flushed(store, end, 60000) == RP_OK);
        }
        for (int64_t i = 0; i < next; i++) {
            CHECK(fixture_check(store, queue, i) == 0);
        }
        fixture_close(store);
    }
    fixture_remove(path);
}

static void where_io_uring_is_forbidden_the_system_calls_sync(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        rp_liburing library;
        rp_uring *ring = NULL;
        rp_error error = {0};
        rp_sync_times times;
        if (forbid_call(SYS_io_uring_setup) != 0 || rp_liburing_load(liburing_path(), &library, NULL) != RP_OK) {
            printf("no seccomp or no liburing here: not tried\n");
            exit(0);
        }
        CHECK(rp_uring_open(&library, &ring, &error) == RP_E_UNSUPPORTED && error.os_errno == EPERM);
        rp_liburing_unload(&library);
        CHECK(rp_flush_backend_measure("/tmp", liburing_path(), &times, &error) == RP_OK);
        CHECK(times.syscall_ns > 0 && times.io_uring_ns == -1 && times.taken == RP_FLUSH_BACKEND_SYSCALL);
        CHECK(strstr(times.refusal, strerror(EPERM)) != NULL && strstr(times.refusal, "seccomp") != NULL);
        each_backend_serves_the_same_store(0);
        exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The system's way, which both backends share for what is mapped. */
static void sync_of_many_bytes(int is_allowed) {
    enum { SIZE = 40 << 20 };
    char directory[400], path[480];
    fixture_directory(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/large", directory);
    const rp_file_ops *ops = rp_file_ops_system();
    int fd = ops->open(NULL, path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ops->truncate(NULL, fd, SIZE) == 0);
    uint8_t *address = ops->map(NULL, fd, SIZE, 1);
    CHECK(address != NULL);
    memset(address, 7, SIZE);
    CHECK(ops->sync_range(NULL, fd, address, 0, SIZE) == 0);
    CHECK(ops->sync_range(NULL, -1, address, 0, SIZE) == 0); /* a queue's file is not open */
    uint8_t last = 0;
    CHECK(address[0] == 7 && ops->read_at(NULL, fd, &last, 1, SIZE - 1) == 1 && last == 7);
    CHECK(ops->close(NULL, fd) == 0);
    CHECK((ops->sync_range(NULL, fd, address, 0, SIZE) == 0) == !is_allowed); /* what the steps say is not lost: EBADF */
    CHECK(ops->unmap(NULL, address, SIZE) == 0);
    fixture_remove(directory);
}

static void a_large_range_is_synced_in_steps_and_at_once_where_steps_are_forbidden(void) {
    sync_of_many_bytes(1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (forbid_call(SYS_sync_file_range) == 0)
            sync_of_many_bytes(0);
        exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* AUTO takes the system calls and says why; IO_URING is refused with the cause and both remedies. */
static void a_library_that_is_of_no_use_is_named(const char *path, const char *cause) {
    rp_flush_backend *backend = NULL;
    rp_error error = {0};
    rp_sync_times times;
    rp_log_line line = {0};
    rp_log *log = NULL;
    CHECK(rp_log_create(&log) == RP_OK);
    rp_flush_backend_setup setup = {.wanted = RP_FLUSH_BACKEND_AUTO, .directory = "/tmp", .liburing_path = path, .log = log};
    CHECK(rp_flush_backend_open(&setup, &backend, &error) == RP_OK);
    CHECK(rp_flush_backend_kind_of(backend) == RP_FLUSH_BACKEND_SYSCALL);
    CHECK(rp_flush_backend_ops(backend) == rp_file_ops_system());
    rp_flush_backend_close(backend);
    CHECK(rp_log_take(log, &line, 1) == 1 && strstr(line.text, cause) != NULL);
    setup.wanted = RP_FLUSH_BACKEND_IO_URING;
    CHECK(rp_flush_backend_open(&setup, &backend, &error) == RP_E_UNSUPPORTED);
    CHECK(strstr(error.message, cause) != NULL && strstr(error.message, "pip install") != NULL);
    CHECK(strstr(error.message, "flushBackend=AUTO") != NULL);
    CHECK(rp_flush_backend_measure("/tmp", path, &times, &error) == RP_OK);
    CHECK(times.syscall_ns > 0 && times.io_uring_ns == -1 && times.taken == RP_FLUSH_BACKEND_SYSCALL);
    CHECK(strstr(times.refusal, cause) != NULL);
    rp_log_destroy(log);
}

/* liburing with one call replaced by one that fails as the kernel may. */
static rp_liburing real;
static int submissions, exits;

static int submit_nothing(struct io_uring *ring, unsigned wait_count) {
    (void)ring, (void)wait_count;
    submissions++;
    return -EAGAIN;
}

static int lose_the_result(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned submitted, unsigned wait_count, sigset_t *mask) {
    real.get_cqe(ring, cqe, submitted, wait_count, mask);
    *cqe = NULL;
    return -EBADF;
}

static int fail_the_sync(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned submitted, unsigned wait_count, sigset_t *mask) {
    int rc = real.get_cqe(ring, cqe, submitted, wait_count, mask);
    (*cqe)->res = -EIO;
    return rc;
}

static int lay_out_otherwise(unsigned entries, struct io_uring *ring, struct io_uring_params *params) {
    int rc = real.queue_init_params(entries, ring, params);
    params->cq_off.head += 64;
    return rc;
}

static void count_exit(struct io_uring *ring) {
    exits++;
    real.queue_exit(ring);
}

/* Two syncs by a ring of this library, and the errno of each. */
static void sync_twice(const rp_liburing *library, int *first, int *second) {
    char path[] = "/tmp/rp_flush_backend_XXXXXX";
    rp_uring *ring = NULL;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, path, sizeof path) == sizeof path);
    CHECK(rp_uring_open(library, &ring, NULL) == RP_OK);
    const rp_file_ops *ops = rp_uring_file_ops(ring);
    *first = ops->sync_data(ops->context, fd) == 0 ? 0 : errno;
    *second = ops->sync_data(ops->context, fd) == 0 ? 0 : errno;
    rp_uring_close(ring);
    close(fd);
    unlink(path);
}

static void what_the_ring_cannot_do_is_done_by_system_calls_and_what_failed_has_failed(void) {
    rp_uring *ring = NULL;
    rp_error error = {0};
    int first = -1, second = -1;
    if (!opens_ring(&real, &ring)) {
        return;
    }
    rp_uring_close(ring);
    sync_twice(&real, &first, &second);
    CHECK(first == 0 && second == 0);

    rp_liburing library = real;
    library.submit_and_wait = submit_nothing;
    sync_twice(&library, &first, &second);
    CHECK(first == 0 && second == 0 && submissions == 1); /* not asked again */

    library = real;
    library.get_cqe = lose_the_result;
    sync_twice(&library, &first, &second);
    CHECK(first == EBADF && second == 0); /* the second by fdatasync */

    library = real;
    library.get_cqe = fail_the_sync;
    sync_twice(&library, &first, &second);
    CHECK(first == EIO && second == EIO); /* never retried into a success */

    library = real;
    library.queue_init_params = lay_out_otherwise;
    library.queue_exit = count_exit;
    CHECK(rp_uring_open(&library, &ring, &error) == RP_E_UNSUPPORTED && strstr(error.message, "lays its rings out") != NULL);
    CHECK(exits == 1);
    rp_liburing_unload(&real);
}

static int refusal;

static int refuse(unsigned entries, struct io_uring *queue, struct io_uring_params *params) {
    (void)entries, (void)queue, (void)params;
    return -refusal;
}

static void a_refusal_is_told_with_what_helps(int code, const char *remedy) {
    const rp_liburing library = {.queue_init_params = refuse};
    rp_uring *ring = NULL;
    rp_error error = {0};
    refusal = code;
    CHECK(rp_uring_open(&library, &ring, &error) == RP_E_UNSUPPORTED && ring == NULL && strstr(error.message, remedy) != NULL);
}

int main(void) {
    where_io_uring_is_forbidden_the_system_calls_sync(); /* first: it forks, as the next one */
    a_large_range_is_synced_in_steps_and_at_once_where_steps_are_forbidden();
    rp_liburing library;
    rp_uring *ring = NULL;
    int has_io_uring = opens_ring(&library, &ring);
    rp_uring_close(ring);
    rp_liburing_unload(&library);
    each_backend_serves_the_same_store(has_io_uring);
    a_power_cut_takes_nothing_that_the_ring_has_synced(RP_FLUSH_SYNC);
    a_power_cut_takes_nothing_that_the_ring_has_synced(RP_FLUSH_ASYNC);
    a_library_that_is_of_no_use_is_named(NULL, "no liburing is known");
    a_library_that_is_of_no_use_is_named("/nonexistent/liburingwrap.so", "/nonexistent/liburingwrap.so: cannot open shared object file");
    a_library_that_is_of_no_use_is_named("libm.so.6", "has no io_uring_queue_init_params");
    what_the_ring_cannot_do_is_done_by_system_calls_and_what_failed_has_failed();
    a_refusal_is_told_with_what_helps(EPERM, "sysctl kernel.io_uring_disabled=0");
    a_refusal_is_told_with_what_helps(ENOMEM, "ulimit -l");
    a_refusal_is_told_with_what_helps(EMFILE, "ulimit -n");
    a_refusal_is_told_with_what_helps(ENOSYS, "seccomp");
    return 0;
}
