/* log_inl.h: rp_log_write declared again with its printf attribute, so that gcc checks the arguments. C only. */
#ifndef RP_BASE_LOG_INL_H
#define RP_BASE_LOG_INL_H

#include "log.h"

void rp_log_write(rp_log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
