/* timer_files_fixture.h: the files of timed messages in a temporary directory, with small log files, and a file layer whose n-th call
 * fails. */
#ifndef RP_TESTS_TIMER_FILES_FIXTURE_H
#define RP_TESTS_TIMER_FILES_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>

#include "../../../csrc/base/log.h"
#include "../../../csrc/store/timer_chain.h"
#include "../../../csrc/store/timer_files.h"
#include "check.h"
#include "store_fixture.h"

#define TIMER_LOG_FILE 4096
#define TIMER_RECORDS_A_FILE ((TIMER_LOG_FILE - RP_TIMER_BLANK_SIZE) / RP_TIMER_RECORD_SIZE)
#define TIMER_NOW 1700000000000

static inline void timer_path(char *path, const char *directory, const char *name) { snprintf(path, 512, "%s/%s", directory, name); }

static inline void timer_options(rp_timer_files_options *options, const char *directory, rp_log *log) {
    *options = (rp_timer_files_options){.root_path = directory,
                                        .log_file_size = TIMER_LOG_FILE,
                                        .precision_ms = 1000,
                                        .commit_log_max_offset = INT64_MAX,
                                        .queue_max_offset = INT64_MAX,
                                        .now_ms = TIMER_NOW,
                                        .log = log};
}

static inline rp_timer_files *timer_open(const rp_timer_files_options *options) {
    rp_timer_files *files = NULL;
    rp_error error = {0};
    int rc = rp_timer_files_open(options, &files, &error);
    if (rc != RP_OK) {
        fprintf(stderr, "open: %s: %s [%s]\n", rp_status_name(rc), error.message, error.file);
        exit(1);
    }
    return files;
}

/* Message i: due i % spread seconds from now, at 1000 * i in the commit log. */
static inline rp_timer_entry timer_entry(int64_t i, int64_t spread) {
    return (rp_timer_entry){.due_ms = TIMER_NOW + 1000 * (i % spread) + 500,
                            .write_time_ms = TIMER_NOW,
                            .commit_log_offset = 1000 * i,
                            .size = 200,
                            .magic = RP_TIMER_DEFAULT,
                            .topic_hash = (int32_t)i};
}

static inline void timer_enter(rp_timer_files *files, int64_t begin, int64_t end, int64_t spread) {
    for (int64_t i = begin; i < end; i++) {
        rp_timer_entry entry = timer_entry(i, spread);
        rp_error error = {0};
        CHECK(rp_timer_files_enter(files, &entry, &error) == RP_OK);
    }
}

static inline int timer_flush(rp_timer_files *files, int64_t read_time_ms, int64_t queue_offset, int is_clean) {
    rp_timer_progress progress = {.read_time_ms = read_time_ms, .queue_offset = queue_offset, .master_queue_offset = queue_offset};
    rp_error error = {0};
    int rc = rp_timer_files_flush(files, &progress, is_clean, &error);
    CHECK(rc == RP_OK || (error.status == rc && error.message[0] != 0));
    return rc;
}

/* Reads a slot to its end, with the messages' numbers into seen, oldest first; negative: an error. */
static inline int64_t timer_read_slot(rp_timer_files *files, int64_t time_ms, int kind, int64_t *seen, int64_t room) {
    rp_timer_slot slot;
    if (!rp_timing_wheel_slot(rp_timer_files_wheel(files), time_ms, &slot)) {
        return 0;
    }
    rp_timer_chain *chain;
    rp_error error = {0};
    CHECK(rp_timer_chain_open(rp_timer_files_log(files), &slot, 1000, &chain, &error) == RP_OK);
    int64_t count = 0, got = 0;
    while (got >= 0 && !rp_timer_chain_is_at_end(chain)) {
        rp_timer_chain_record records[7];
        got = rp_timer_chain_read(chain, kind, records, 7, &error);
        for (int64_t i = 0; i < got; i++) {
            CHECK(count < room);
            seen[count++] = records[i].record.commit_log_offset / 1000;
        }
    }
    rp_timer_chain_close(chain);
    return got < 0 ? got : count;
}

/* Checks that messages begin, begin + spread, … below end are in the slot of second begin % spread, in this order. */
static inline void timer_slot_holds(rp_timer_files *files, int64_t begin, int64_t end, int64_t spread) {
    int64_t seen[4096];
    int64_t count = timer_read_slot(files, TIMER_NOW + 1000 * (begin % spread), RP_TIMER_CHAIN_OTHERS, seen, 4096);
    CHECK(count == (end - begin + spread - 1) / spread);
    for (int64_t i = 0; i < count; i++) {
        CHECK(seen[i] == begin + i * spread);
    }
}

static inline void timer_all_wait(rp_timer_files *files, int64_t end, int64_t spread) {
    for (int64_t i = 0; i < spread && i < end; i++) {
        timer_slot_holds(files, i, end, spread);
    }
    CHECK(rp_timing_wheel_count(rp_timer_files_wheel(files)) == end);
}

/* Overwrites size bytes of a file; bytes NULL: sets its length to size. */
static inline void timer_spoil(const char *directory, const char *name, const void *bytes, size_t size, int64_t offset) {
    char path[512];
    timer_path(path, directory, name);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    CHECK(bytes == NULL ? ftruncate(fd, (off_t)size) == 0 : pwrite(fd, bytes, size, offset) == (ssize_t)size);
    close(fd);
}

/* The kernel's calls, of which number fail_at fails and, with fail_forever, all after it. */
typedef struct failing_ops {
    rp_file_ops ops;
    int64_t calls, fail_at;
    int fail_errno, fail_forever;
    int writes_are_short; /* half of each is written */
} failing_ops;

static inline int failing_fails(failing_ops *failing) {
    int64_t call = ++failing->calls;
    if (failing->fail_at > 0 && (call == failing->fail_at || (failing->fail_forever && call > failing->fail_at))) {
        errno = failing->fail_errno;
        return 1;
    }
    return 0;
}

static inline int failing_open(void *context, const char *path, int flags, uint32_t mode) {
    return failing_fails(context) ? -1 : open(path, flags, mode);
}
static inline int failing_close(void *context, int fd) {
    (void)context;
    return close(fd);
}
static inline int failing_truncate(void *context, int fd, int64_t size) { return failing_fails(context) ? -1 : ftruncate(fd, size); }
static inline int failing_clear(void *context, int fd, int64_t offset, int64_t size) {
    return failing_fails(context) ? -1 : rp_file_ops_system()->clear(NULL, fd, offset, size);
}
static inline int64_t failing_read_at(void *context, int fd, void *target, size_t size, int64_t offset) {
    return failing_fails(context) ? -1 : pread(fd, target, size, offset);
}
static inline int64_t failing_write_at(void *context, int fd, const void *source, size_t size, int64_t offset) {
    const failing_ops *failing = context;
    return failing_fails(context) ? -1 : pwrite(fd, source, failing->writes_are_short && size > 1 ? size / 2 : size, offset);
}
/* No test here needs to survive a power cut. */
static inline int failing_sync_data(void *context, int fd) {
    (void)fd;
    return failing_fails(context) ? -1 : 0;
}
static inline int failing_rename(void *context, const char *source, const char *target) {
    return failing_fails(context) ? -1 : rename(source, target);
}
static inline int failing_unlink(void *context, const char *path) { return failing_fails(context) ? -1 : unlink(path); }
static inline int failing_sync_directory(void *context, const char *path) {
    (void)path;
    return failing_fails(context) ? -1 : 0;
}

static inline void failing_init(failing_ops *failing, int64_t fail_at, int fail_errno, int fail_forever) {
    *failing = (failing_ops){.fail_at = fail_at, .fail_errno = fail_errno, .fail_forever = fail_forever};
    failing->ops = (rp_file_ops){.context = failing,
                                 .open = failing_open,
                                 .close = failing_close,
                                 .truncate = failing_truncate,
                                 .clear = failing_clear,
                                 .read_at = failing_read_at,
                                 .write_at = failing_write_at,
                                 .sync_data = failing_sync_data,
                                 .rename = failing_rename,
                                 .unlink = failing_unlink,
                                 .sync_directory = failing_sync_directory};
}

#endif
