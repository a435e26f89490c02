/* log.h: log lines from C threads, kept in a bounded ring until Python's logging takes them (asyncio, through the event fd).
 *
 * Threads  write from any thread; take from one. Bounds: 1,024 lines; further ones are dropped and counted.
 */
#ifndef RP_BASE_LOG_H
#define RP_BASE_LOG_H

#include <stdint.h>

/* logging's levels. NOTICE: nothing is wrong, but a user at a terminal wants to see it. */
enum rp_log_level { RP_LOG_DEBUG = 10, RP_LOG_INFO = 20, RP_LOG_NOTICE = 25, RP_LOG_WARNING = 30, RP_LOG_ERROR = 40 };

#define RP_LOG_LINE_MAX 512

typedef struct rp_log rp_log;
typedef struct rp_log_line {
    int32_t level;
    int64_t wall_ms;
    char text[RP_LOG_LINE_MAX];
} rp_log_line;

int rp_log_create(rp_log **log);
void rp_log_destroy(rp_log *log);
/* Writes a line; format is printf's (C files include log_inl.h and have it checked). log may be NULL: then warnings and errors go to
 * stderr, other levels nowhere. */
void rp_log_write(rp_log *log, int level, const char *format, ...);
/* Takes up to lines_max of the oldest lines; if none is left the event fd is cleared. One consumer thread. */
uint32_t rp_log_take(rp_log *log, rp_log_line *lines, uint32_t lines_max);
int rp_log_event_fd(const rp_log *log); /* readable while lines wait */
uint64_t rp_log_dropped(rp_log *log);

#endif
