/* large_pages.h: simulates a kernel with pages of 64 KiB: replaces the library's rp_page_size and the C library's mapping calls in this
 * program. Like such a kernel, it refuses addresses that are not at a page boundary, and always acts on whole pages. */
#ifndef RP_TESTS_LARGE_PAGES_H
#define RP_TESTS_LARGE_PAGES_H

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "../../../csrc/base/page.h"

#define LARGE_PAGE ((size_t)64 * 1024)

size_t rp_page_size(void) { return LARGE_PAGE; }

static inline int is_refused(const void *address) {
    errno = EINVAL;
    return (uintptr_t)address % LARGE_PAGE != 0;
}

#if defined __SANITIZE_THREAD__ /* it calls mmap before it is ready for instrumented code */
#define HAS_LARGE_PAGES 0
#else
#define HAS_LARGE_PAGES 1
#endif

static inline size_t whole_pages(size_t size) { return (size + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE; }

#if HAS_LARGE_PAGES
/* Aligned to large pages, in whole ones: memory follows the last small page, and stays when the mapping is removed. */
void *mmap(void *wanted, size_t size, int protection, int flags, int fd, off_t offset) {
    (void)wanted;
    size_t room_size = whole_pages(size) + LARGE_PAGE;
    uint8_t *room =
        (uint8_t *)syscall(SYS_mmap, NULL, room_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        return MAP_FAILED;
    }
    uint8_t *start = (uint8_t *)whole_pages((uintptr_t)room), *end = start + whole_pages(size);
    void *map = (void *)syscall(SYS_mmap, start, size, protection, flags | MAP_FIXED, fd, offset);
    for (uint8_t *at = start + (size + RP_PAGE_SIZE_MIN - 1) / RP_PAGE_SIZE_MIN * RP_PAGE_SIZE_MIN; at < end; at += RP_PAGE_SIZE_MIN) {
        *at = 0;
    }
    if (start > room) {
        munmap(room, (size_t)(start - room));
    }
    if (room + room_size > end) {
        munmap(end, (size_t)(room + room_size - end));
    }
    return map;
}
#endif

static _Atomic int advice_refused, times_dropped;
static _Atomic size_t bytes_dropped; /* by the last of those times, as it was asked */

int madvise(void *address, size_t size, int advice) {
    if (is_refused(address)) {
        atomic_fetch_add(&advice_refused, 1);
        return -1;
    }
    if (advice == MADV_DONTNEED) {
        atomic_store(&bytes_dropped, size);
        atomic_fetch_add(&times_dropped, 1);
    }
    for (size_t at = 0; at < whole_pages(size); at += RP_PAGE_SIZE_MIN) {
        if (syscall(SYS_madvise, (uint8_t *)address + at, RP_PAGE_SIZE_MIN, advice) != 0) {
            return -1;
        }
    }
    return 0;
}

int mincore(void *address, size_t size, unsigned char *pages) {
    if (is_refused(address)) {
        return -1;
    }
    for (size_t page = 0; page < whole_pages(size) / LARGE_PAGE; page++) {
        pages[page] = 1;
        for (size_t at = 0; at < LARGE_PAGE; at += RP_PAGE_SIZE_MIN) {
            unsigned char small = 1;
            if (syscall(SYS_mincore, (uint8_t *)address + page * LARGE_PAGE + at, RP_PAGE_SIZE_MIN, &small) == 0) {
                pages[page] &= small;
            }
        }
    }
    return 0;
}

int msync(void *address, size_t size, int flags) {
    return is_refused(address)
               ? -1
               : (int)syscall(SYS_msync, address, (size + RP_PAGE_SIZE_MIN - 1) / RP_PAGE_SIZE_MIN * RP_PAGE_SIZE_MIN, flags);
}

#endif
