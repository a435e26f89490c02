/* log_inl.h: rp_log_write declared again with its printf attribute, so that gcc checks the arguments; and how often a line may come. C
 * only. */
#ifndef RP_BASE_LOG_INL_H
#define RP_BASE_LOG_INL_H

#include <stdatomic.h>

#include "log.h"

#define RP_LOG_AGAIN_MS 10000

void rp_log_write(rp_log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* For what may happen thousands of times a second: 1 at most once in RP_LOG_AGAIN_MS for one due_ns, which begins with 0. Any thread. */
int rp_log_is_due(_Atomic int64_t *due_ns);

#endif
