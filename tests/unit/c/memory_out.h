/* memory_out.h: an allocator for this program that fails from the n-th call on, for a number of calls. Counts calls of a thread between
 * counts_here = 1 and 0, and all calls of threads but the first whose names begin with counted_threads. Under sanitizers their own
 * allocator is used, and nothing is counted. */
#ifndef RP_TESTS_MEMORY_OUT_H
#define RP_TESTS_MEMORY_OUT_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Counted calls; the first one that fails; the first one after those that fail */
static _Atomic int64_t allocations, fail_from, fail_behind;
static _Atomic(const char *) counted_threads;         /* NULL: none */
static _Thread_local int counts_here;

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__

#define HAS_OWN_MEMORY 0

#else

#define HAS_OWN_MEMORY 1

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static bool is_counted(void) {
    char name[16] = "";
    const char *prefix = atomic_load(&counted_threads);
    if (counts_here != 0 || prefix == NULL || gettid() == getpid()) /* the first thread's name is the program's */
        return counts_here != 0;
    return prctl(PR_GET_NAME, name) == 0 && strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_out(void) {
    if (!is_counted())
        return false;
    int64_t call = atomic_fetch_add(&allocations, 1) + 1;
    bool fails = call >= atomic_load(&fail_from) && call < atomic_load(&fail_behind);
    if (fails)
        errno = ENOMEM;
    return fails;
}

void *malloc(size_t size) { return is_out() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_out() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return is_out() ? NULL : __libc_realloc(old, size); }

#endif

/* Makes the number-th call of the other threads fail, from now on. */
static inline void fail_in_others(int64_t number) {
    counts_here = 0;
    atomic_store(&allocations, 0);
    atomic_store(&fail_from, number);
    atomic_store(&fail_behind, number + 1);
    atomic_store(&counted_threads, "");
}

/* Ends the failures. Returns whether there was one. */
static inline bool end_failing(void) {
    atomic_store(&counted_threads, NULL);
    return atomic_load(&allocations) >= atomic_load(&fail_from);
}

#endif
