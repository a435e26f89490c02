/* map_hold_test.c: a thread that holds bytes of a mapped file is told which of them the disk fails to give; without a hold, such a fault
 * still ends the process. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../csrc/base/fault_report.h"
#include "../../../csrc/base/map_hold.h"
#include "check.h"

#define PAGE_SIZE 4096
#define PAGES 4
#if defined(__SANITIZE_THREAD__) /* it believes that a thread which jumped out of a signal handler stays in it */
#define IS_TSAN 1
#else
#define IS_TSAN 0
#endif

/* A map of PAGES pages, of which the file has all but the last two. */
static uint8_t *map_cut_short(void) {
    char path[] = "/tmp/map_hold_test_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, (off_t)PAGES * PAGE_SIZE) == 0);
    uint8_t *map = mmap(NULL, (size_t)PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    memset(map, 7, (size_t)PAGES * PAGE_SIZE);
    CHECK(ftruncate(fd, 2 * PAGE_SIZE) == 0);
    close(fd);
    return map;
}

static void what_the_disk_does_not_give_is_told_each_time(void) {
    uint8_t *map = map_cut_short();
    for (int round = 0; round < 3; round++) {
        CHECK(rp_map_hold(map + 10, 2 * PAGE_SIZE - 10) == 2 * PAGE_SIZE - 10);
        CHECK(rp_map_hold(map + 10, 2 * PAGE_SIZE - 9) == 2 * PAGE_SIZE - 10);
        CHECK(rp_map_hold(map + 3 * PAGE_SIZE + 5, 20) == 0);
        CHECK(rp_map_hold(map, 0) == 0);
    }
    for (int i = 0; i < 2 * PAGE_SIZE; i++) {
        CHECK(map[i] == 7);
    }
}

static void store_to_all(void *map) {
    for (int i = 0; i < PAGES; i++) {
        *(volatile uint8_t *)((uint8_t *)map + i * PAGE_SIZE) = 9;
    }
}

/* Also behind a hold that was answered, as when the kernel took the space back since. */
static void a_store_is_left_where_the_disk_gives_no_more(void) {
    uint8_t *map = map_cut_short(), *whole = mmap(NULL, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(whole != MAP_FAILED);
    for (int round = 0; round < 3; round++) {
        CHECK(rp_map_hold(map, 2 * PAGE_SIZE) == 2 * PAGE_SIZE);
        CHECK(!rp_map_store(map, PAGES * PAGE_SIZE, store_to_all, map));
        CHECK(map[0] == 9 && map[PAGE_SIZE] == 9);
        CHECK(rp_map_store(whole, PAGES * PAGE_SIZE, store_to_all, whole) && whole[3 * PAGE_SIZE] == 9);
    }
}

/* Bytes beyond the named ones are not held: a fault there is not caught. */
static void a_store_beside_what_was_named_ends_the_process(void) {
    pid_t child = fork();
    if (child == 0) {
        uint8_t *map = map_cut_short();
        _exit(rp_map_store(map, 2 * PAGE_SIZE, store_to_all, map));
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void *hold_what_is_cut_off(void *map) {
    for (int i = 0; i < 1000; i++) {
        CHECK(rp_map_hold((uint8_t *)map + PAGE_SIZE, 3 * PAGE_SIZE) == PAGE_SIZE);
    }
    return NULL;
}

static void threads_are_told_of_their_own_bytes(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, hold_what_is_cut_off, map_cut_short()) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

/* The program that stores without holding ends by the signal, also behind a hold that was answered. */
static void a_store_that_held_nothing_ends_the_process(void) {
    pid_t child = fork();
    if (child == 0) {
        uint8_t *map = map_cut_short();
        CHECK(rp_map_hold(map + 2 * PAGE_SIZE, 1) == 0);
        *(volatile uint8_t *)(map + 2 * PAGE_SIZE) = 1;
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int main(void) {
    CHECK(rp_fault_report_install() == 0);
    if (!IS_TSAN) {
        RUN(what_the_disk_does_not_give_is_told_each_time);
        RUN(threads_are_told_of_their_own_bytes);
        RUN(a_store_is_left_where_the_disk_gives_no_more);
    }
    RUN(a_store_beside_what_was_named_ends_the_process);
    RUN(a_store_that_held_nothing_ends_the_process);
    return 0;
}
