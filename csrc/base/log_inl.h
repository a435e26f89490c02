/* log_inl.h: declares rp_log_write again with its printf attribute, so that gcc checks the arguments; and limits how often a line is
 * written. C only. */
#ifndef RP_BASE_LOG_INL_H
#define RP_BASE_LOG_INL_H

#include <stdatomic.h>

#include "log.h"

#define RP_LOG_AGAIN_MS 10000

void rp_log_write(rp_log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* For events that may come thousands of times a second: returns 1 at most once in RP_LOG_AGAIN_MS for a given due_ns, which starts at 0.
 * Any thread. */
int rp_log_is_due(_Atomic int64_t *due_ns);

#endif
