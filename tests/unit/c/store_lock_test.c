/* store_lock_test.c: one process per store, also against RocketMQ, whatever else the holder's process does with the lock file. */
#include "../../../csrc/store/store_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static char directory[64], path[80];

static void make_directory(void) {
    snprintf(directory, sizeof directory, "/tmp/rp-store-lock-XXXXXX");
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/lock", directory);
}

static void remove_directory(void) { CHECK(unlink(path) == 0 && rmdir(directory) == 0); }

/* As FileChannel.tryLock(0, 1, false). 0, or -1 with errno. */
static int lock_as_rocketmq(void) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    CHECK(fd >= 0);
    return fcntl(fd, F_SETLK, &lock);
}

static int takes(int shared) {
    rp_error error = {0};
    int fd = rp_store_lock_take(path, shared, &error);
    CHECK(fd >= 0 || fd == RP_E_LOCKED);
    return fd >= 0;
}

static int rocketmq_takes(void) {
    int taken = lock_as_rocketmq() == 0;
    CHECK(taken || errno == EAGAIN || errno == EACCES);
    return taken;
}

/* Runs `ask` in another process, and returns what it says. */
static int elsewhere(int (*ask)(int), int argument) {
    pid_t child = fork();
    if (child == 0)
        _exit(ask(argument));
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int ask_rocketmq(int unused) {
    (void)unused;
    return rocketmq_takes();
}

/* Closing any descriptor of a file gives back the locks that Java's are: a second open, or a copy of the directory, would. */
static void a_second_open_gives_nothing_back(void) {
    rp_error error = {0};
    make_directory();
    int fd = rp_store_lock_take(path, 0, &error);
    CHECK(fd >= 0 && elsewhere(ask_rocketmq, 0) == 0 && elsewhere(takes, 0) == 0 && elsewhere(takes, 1) == 0);
    CHECK(rp_store_lock_take(path, 0, &error) == RP_E_LOCKED && strstr(error.message, "in this process") != NULL);
    CHECK(rp_store_lock_take(path, 1, &error) == RP_E_LOCKED);
    int copied = open(path, O_RDONLY);
    CHECK(copied >= 0 && close(copied) == 0);
    CHECK(elsewhere(ask_rocketmq, 0) == 0 && elsewhere(takes, 0) == 0 && elsewhere(takes, 1) == 0);
    rp_store_lock_release(fd);
    CHECK(elsewhere(ask_rocketmq, 0) == 1 && elsewhere(takes, 0) == 1);
    remove_directory();
}

static void readers_share_it(void) {
    rp_error error = {0};
    make_directory();
    CHECK(elsewhere(takes, 0) == 1);
    int fd = rp_store_lock_take(path, 1, &error);
    CHECK(fd >= 0 && elsewhere(takes, 1) == 1 && elsewhere(takes, 0) == 0 && elsewhere(ask_rocketmq, 0) == 0);
    rp_store_lock_release(fd);
    remove_directory();
}

/* The holder is named: RocketMQ, and one of ours. */
static void the_holder_is_named(int is_rocketmq) {
    rp_error error = {0};
    char name[32], byte;
    int ready[2], over[2];
    make_directory();
    CHECK(pipe(ready) == 0 && pipe(over) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(over[1]);
        byte = is_rocketmq ? (char)rocketmq_takes() : (char)takes(0);
        CHECK(write(ready[1], &byte, 1) == 1 && read(over[0], &byte, 1) == 0);
        _exit(0);
    }
    close(over[0]);
    CHECK(child > 0 && read(ready[0], &byte, 1) == 1 && byte == 1);
    snprintf(name, sizeof name, "process %d;", (int)child);
    CHECK(rp_store_lock_take(path, 0, &error) == RP_E_LOCKED && strstr(error.message, name) != NULL);
    CHECK(rp_store_lock_take(path, 1, &error) == RP_E_LOCKED && strstr(error.message, name) != NULL);
    close(over[1]);
    close(ready[0]);
    close(ready[1]);
    CHECK(waitpid(child, NULL, 0) == child);
    remove_directory();
}

static void rocketmq_is_named(void) { the_holder_is_named(1); }
static void a_broker_of_ours_is_named(void) { the_holder_is_named(0); }

int main(void) {
    RUN(a_second_open_gives_nothing_back);
    RUN(readers_share_it);
    RUN(rocketmq_is_named);
    RUN(a_broker_of_ours_is_named);
    return 0;
}
