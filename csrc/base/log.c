/* log.c: a ring of lines under a mutex, and an eventfd that is readable while lines wait.
 *
 * Logging is rare on the data plane (a bad frame, a failed sync), so a plain lock is enough; the text is formatted outside of it.
 * Lock order: `lock` is a leaf.
 */
#include "log_inl.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "clock_inl.h"
#include "error.h"

#define LINES_MAX 1024u

struct rp_log {
    pthread_mutex_t lock;
    int event_fd;      /* fixed after create */
    uint64_t head;     /* lock: next line to take */
    uint64_t tail;     /* lock: next line to fill */
    uint64_t dropped;  /* lock */
    rp_log_line lines[LINES_MAX]; /* lock */
};

int rp_log_create(rp_log **log_out) {
    rp_log *log = calloc(1, sizeof *log);
    if (log == NULL) {
        return RP_E_NO_MEMORY;
    }
    log->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (log->event_fd < 0) {
        free(log);
        return RP_E_IO;
    }
    pthread_mutex_init(&log->lock, NULL);
    *log_out = log;
    return RP_OK;
}

void rp_log_destroy(rp_log *log) {
    if (log != NULL) {
        pthread_mutex_destroy(&log->lock);
        close(log->event_fd);
        free(log);
    }
}

static void signal_event(int event_fd) {
    const uint64_t one = 1;
    while (write(event_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void rp_log_write(rp_log *log, int level, const char *format, ...) {
    char text[RP_LOG_LINE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return;
    }
    if (log == NULL) {
        if (level >= RP_LOG_WARNING) {
            fprintf(stderr, "rocketpy: %s\n", text);
        }
        return;
    }
    int64_t wall_ms = rp_clock_wall_ms(NULL);
    pthread_mutex_lock(&log->lock);
    if (log->tail - log->head == LINES_MAX) {
        log->dropped++;
    } else {
        rp_log_line *line = &log->lines[log->tail % LINES_MAX];
        line->level = level;
        line->wall_ms = wall_ms;
        snprintf(line->text, sizeof line->text, "%s", text);
        if (log->tail++ == log->head) {
            signal_event(log->event_fd);
        }
    }
    pthread_mutex_unlock(&log->lock);
}

uint32_t rp_log_take(rp_log *log, rp_log_line *lines, uint32_t lines_max) {
    uint32_t taken = 0;
    pthread_mutex_lock(&log->lock);
    while (taken < lines_max && log->head != log->tail) {
        lines[taken++] = log->lines[log->head++ % LINES_MAX];
    }
    if (log->head == log->tail) {
        uint64_t count;
        while (read(log->event_fd, &count, sizeof count) < 0 && errno == EINTR) {
        }
    }
    pthread_mutex_unlock(&log->lock);
    return taken;
}

int rp_log_event_fd(const rp_log *log) { return log->event_fd; }

uint64_t rp_log_dropped(rp_log *log) {
    pthread_mutex_lock(&log->lock);
    uint64_t dropped = log->dropped;
    pthread_mutex_unlock(&log->lock);
    return dropped;
}

int rp_log_is_due(_Atomic int64_t *due_ns) {
    int64_t now_ns = rp_clock_monotonic_ns(NULL), due = atomic_load_explicit(due_ns, memory_order_relaxed);
    return now_ns >= due && atomic_compare_exchange_strong(due_ns, &due, now_ns + RP_LOG_AGAIN_MS * RP_NS_PER_MS);
}
