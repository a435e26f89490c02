/* sql_program_inl.h: the program that an expression is compiled to. C only. Private to sql_compile.c and sql_evaluate.c.
 *
 *   words  0 properties  1 where the code begins  2 where the texts begin  3 words in all
 *          then place and size of each property's name among the texts, the code, and the texts, packed
 *
 * It runs on a stack machine: an instruction is a word with the operation in its low bits and the argument above, followed by the
 * operation's own words.
 */
#ifndef RP_BROKER_SQL_PROGRAM_INL_H
#define RP_BROKER_SQL_PROGRAM_INL_H

#define RP_SQL_HEAD_WORDS 4u
#define RP_SQL_PROPERTIES_MAX 128u /* different ones in an expression */
#define RP_SQL_STACK_MAX 128u      /* values that wait for others */
#define RP_SQL_ARGUMENT_MAX ((1 << 23) - 1)

enum rp_sql_operation {
    RP_SQL_PUSH_PROPERTY, /* argument: which */
    RP_SQL_PUSH_TEXT,     /* place, size */
    RP_SQL_PUSH_INT,      /* two halves, the lower one first */
    RP_SQL_PUSH_LONG,
    RP_SQL_PUSH_REAL,
    RP_SQL_PUSH_TRUTH,   /* argument: 0 or 1 */
    RP_SQL_PUSH_NOTHING, /* null */
    RP_SQL_NEGATE,
    RP_SQL_INVERT,       /* NOT */
    RP_SQL_TO_TRUTH,     /* for a property where a truth value is wanted */
    RP_SQL_IS_NOTHING,
    RP_SQL_EQUALS,
    RP_SQL_COMPARE,      /* argument: rp_sql_relation; value, other -> truth */
    RP_SQL_COMPARE_KEEP, /* value, other -> value, truth */
    RP_SQL_COMPARE_OVER, /* value, truth, other -> value, truth, truth of value and other */
    RP_SQL_BOTH,
    RP_SQL_EITHER,
    RP_SQL_DROP_BELOW,   /* value, truth -> truth */
    RP_SQL_SKIP_IF_FALSE, /* argument: number of words; the truth value stays */
    RP_SQL_SKIP_IF_TRUE,
    RP_SQL_SKIP_IF_NOTHING,
    RP_SQL_SEARCH,       /* argument: rp_sql_search; place, size */
    RP_SQL_AMONG         /* argument: 1 for NOT IN; count, then place and size of each, ascending by size, then by bytes */
};

enum rp_sql_relation { RP_SQL_IS_GREATER, RP_SQL_IS_GREATER_EQUAL, RP_SQL_IS_LESS, RP_SQL_IS_LESS_EQUAL };

enum rp_sql_search { RP_SQL_ANYWHERE, RP_SQL_AT_START, RP_SQL_AT_END, RP_SQL_NOT_FOUND = 4 /* added: the result is inverted */ };

#endif
