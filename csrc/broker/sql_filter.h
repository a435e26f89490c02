/* sql_filter.h: SQL92 expressions over the properties of messages. Private to csrc/broker.
 * RocketMQ: SqlFilter, SelectorParser, the classes of filter/expression/ (5.3.3 filter/).
 *
 *   NOT, AND, OR, parentheses; = <> > >= < <=; [NOT] BETWEEN x AND y; [NOT] IN ('a', …); IS [NOT] NULL;
 *   [NOT] CONTAINS, STARTSWITH, ENDSWITH 'text'; TRUE, FALSE; integers, reals, 'texts', names of properties
 *
 * Values    a property is a text or, if the message lacks it, null; a comparison reads it as the number or truth value it is compared
 *           with. Most operations on null give null, and a message passes only for TRUE. A text that is not the number wanted ends the
 *           evaluation, and the message does not pass, as in RocketMQ.
 * Quirks    kept from RocketMQ: of what follows a complete expression only the first token is read; `NOT a = 1` means `(NOT a) = 1`; 0.0
 *           is no constant.
 * Threads   pure functions; a filter is a view of words.
 * Bounds    RP_SQL_EXPRESSION_MAX bytes; the compiler refuses expressions that are nested too deeply or name too many properties.
 */
#ifndef RP_BROKER_SQL_FILTER_H
#define RP_BROKER_SQL_FILTER_H

#include <stdint.h>

#include "../base/arena.h"
#include "../base/slice.h"
#include "message_filter.h"

#define RP_SQL_EXPRESSION_MAX 16384u /* limits the time for a message, which may be milliseconds */

/* Where an expression is invalid, and why. */
typedef struct rp_sql_fault {
    uint32_t at;      /* byte of the expression, from 0 */
    const char *what; /* static */
} rp_sql_fault;

/* Compiles the expression into words in the arena. RP_OK; RP_E_INVALID with the fault; RP_E_NO_MEMORY. *end (end may be NULL): where the
 * expression ends, which is before the text's end if more follows. */
int rp_sql_filter_compile(rp_slice expression, rp_arena *arena, rp_message_filter *filter, uint32_t *end, rp_sql_fault *fault);

/* 1 if a message with these properties (name\1value\2…) passes. */
int rp_sql_filter_matches(const rp_message_filter *filter, rp_slice properties);

#endif
