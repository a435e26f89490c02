/* flush_backend_test.c: syncs through io_uring keep what they promise, also when the power goes; where it is forbidden the system calls
 * take over, and who insists is told what to do. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../../../csrc/base/uring.h"
#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { MESSAGES = 300 };

/* Over a file layer that loses power: what was waited for through the ring is in the image. */
static void a_power_cut_takes_nothing_that_the_ring_has_synced(int flush_mode) {
    char base[400], live[512], durable[512], image[512];
    rp_uring *ring = NULL;
    rp_error error = {0};
    if (rp_uring_open(&ring, &error) != RP_OK) {
        printf("%s: not tried\n", error.message);
        return;
    }
    fixture_directory(base, sizeof base);
    snprintf(live, sizeof live, "%s/live", base);
    snprintf(durable, sizeof durable, "%s/durable", base);
    snprintf(image, sizeof image, "%s/image", base);
    mkdir(live, 0755);
    mkdir(durable, 0755);
    power_cut *cut = malloc(sizeof *cut);
    power_cut_init(cut, live, durable);
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
    free(cut);
    rp_uring_close(ring);
    fixture_remove(base);
}

/* One store, each backend in turn, by the option. */
static void each_backend_serves_the_same_store(int has_io_uring) {
    char path[400];
    rp_message_store_options options;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    options.flush_mode = RP_FLUSH_SYNC;
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

/* As a container's filter does it. 0 when that works here. */
static int forbid_io_uring(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

static void where_io_uring_is_forbidden_the_system_calls_sync(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        rp_uring *ring = NULL;
        rp_error error = {0};
        rp_sync_times times;
        if (forbid_io_uring() != 0) {
            printf("no seccomp here: not tried\n");
            exit(0);
        }
        CHECK(rp_uring_open(&ring, &error) == RP_E_UNSUPPORTED && error.os_errno == EPERM);
        CHECK(rp_flush_backend_measure("/tmp", &times, &error) == RP_OK);
        CHECK(times.syscall_ns > 0 && times.io_uring_ns == -1 && times.io_uring_errno == EPERM);
        each_backend_serves_the_same_store(0);
        exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    where_io_uring_is_forbidden_the_system_calls_sync(); /* first: it forks */
    rp_uring *ring = NULL;
    int has_io_uring = rp_uring_open(&ring, NULL) == RP_OK;
    rp_uring_close(ring);
    each_backend_serves_the_same_store(has_io_uring);
    a_power_cut_takes_nothing_that_the_ring_has_synced(RP_FLUSH_SYNC);
    a_power_cut_takes_nothing_that_the_ring_has_synced(RP_FLUSH_ASYNC);
    return 0;
}
