/* sql_token.h: splits a SQL92 expression into tokens. Private to csrc/broker.
 * RocketMQ: SelectorParser.jj (5.3.3 filter/parser/): the longest token at a place wins, and a line comment needs the end of its line.
 *
 * Threads  pure functions; a token's text points into the expression.
 */
#ifndef RP_BROKER_SQL_TOKEN_H
#define RP_BROKER_SQL_TOKEN_H

#include <stdint.h>

#include "../base/slice.h"

enum rp_sql_token_kind {
    RP_SQL_END, /* end of the expression */
    RP_SQL_BAD, /* not the begin of any token, or a text or comment without an end */
    RP_SQL_NOT,
    RP_SQL_AND,
    RP_SQL_OR,
    RP_SQL_BETWEEN,
    RP_SQL_IN,
    RP_SQL_TRUE,
    RP_SQL_FALSE,
    RP_SQL_NULL,
    RP_SQL_IS,
    RP_SQL_CONTAINS,
    RP_SQL_STARTS_WITH,
    RP_SQL_ENDS_WITH,
    RP_SQL_INTEGER, /* text: its digits, without a suffix of l */
    RP_SQL_REAL,
    RP_SQL_TEXT, /* text: between its quotes, with quotes inside still doubled */
    RP_SQL_NAME,
    RP_SQL_EQUAL,
    RP_SQL_NOT_EQUAL,
    RP_SQL_GREATER,
    RP_SQL_GREATER_EQUAL,
    RP_SQL_LESS,
    RP_SQL_LESS_EQUAL,
    RP_SQL_OPEN,
    RP_SQL_CLOSE,
    RP_SQL_COMMA,
    RP_SQL_PLUS,
    RP_SQL_MINUS
};

typedef struct rp_sql_token {
    int32_t kind; /* rp_sql_token_kind */
    uint32_t at;  /* where it begins in the expression */
    uint32_t end; /* and ends */
    rp_slice text;
} rp_sql_token;

/* Returns the first token from `at` on, behind blanks and comments. */
rp_sql_token rp_sql_token_at(rp_slice expression, uint32_t at);

#endif
