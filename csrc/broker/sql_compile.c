/* sql_compile.c: see sql_filter.h. A recursive descent parser with a function for each rule of the grammar, which emits code as it goes.
 * How an operand may be used depends on its form in the text, as in RocketMQ on the class of its node. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/java_number.h"
#include "../base/slice_inl.h"
#include "sql_filter.h"
#include "sql_program_inl.h"
#include "sql_token.h"

#define NESTED_MAX 100u
#define WORDS_A_BYTE 4u /* for each byte of the expression: more than its code takes; the amount added below is for the shortest */
#define WORDS_RESERVED 16u

/* A part of the expression that has been read. */
typedef struct operand {
    uint32_t at;
    int is_property; /* a name and nothing else */
    int is_truth;    /* true, false or null, whatever the message has */
    int constant;    /* 0, or the operation that pushes it */
    int64_t integer; /* of PUSH_INT, PUSH_LONG */
    double real;     /* of these and of PUSH_REAL */
} operand;

typedef struct compiler {
    rp_slice expression;
    rp_sql_token token; /* the next token */
    rp_sql_fault *fault;
    int failed;
    int32_t *code;
    uint32_t code_count, code_max;
    uint8_t *texts;
    uint32_t texts_size;
    rp_slice names[RP_SQL_PROPERTIES_MAX]; /* the properties named in the expression */
    uint32_t name_count;
    uint32_t values; /* number of values on the stack at this point of the code */
    uint32_t nested;
} compiler;

/* The first fault counts; nothing more is read after it. */
static void fail(compiler *c, uint32_t at, const char *what) {
    if (!c->failed)
        *c->fault = (rp_sql_fault){at, what};
    c->failed = 1;
    c->token = (rp_sql_token){.kind = RP_SQL_END, .at = at, .end = at};
}

static void take(compiler *c) {
    if (c->failed)
        return;
    c->token = rp_sql_token_at(c->expression, c->token.end);
    if (c->token.kind == RP_SQL_BAD)
        fail(c, c->token.at, "a character that begins nothing, or a text or comment without an end");
}

static void expect(compiler *c, int32_t kind, const char *what) {
    if (c->token.kind != kind)
        fail(c, c->token.at, what);
    else
        take(c);
}

/* ---- code ---- */

static void put_word(compiler *c, int32_t word) {
    if (c->code_count == c->code_max)
        fail(c, c->token.at, "the expression is too large");
    else
        c->code[c->code_count++] = word;
}

/* Emits an operation; `values`: how many more values are on the stack behind it. */
static void put(compiler *c, int operation, int32_t argument, int values) {
    put_word(c, operation | (int32_t)((uint32_t)argument << 8));
    c->values += (uint32_t)values;
    if (c->values > RP_SQL_STACK_MAX)
        fail(c, c->token.at, "the expression is nested too deeply");
}

static void put_half_words(compiler *c, const void *eight_bytes) {
    int32_t halves[2];
    memcpy(halves, eight_bytes, sizeof halves);
    put_word(c, halves[0]);
    put_word(c, halves[1]);
}

/* Emits a skip whose length is not known yet; returns its place. */
static uint32_t put_skip(compiler *c, int operation) {
    put(c, operation, 0, 0);
    return c->code_count;
}

static void end_skip(compiler *c, uint32_t from) {
    if (c->failed)
        return;
    if (c->code_count - from > RP_SQL_ARGUMENT_MAX)
        fail(c, c->token.at, "the expression is too large");
    c->code[from - 1] |= (int32_t)((c->code_count - from) << 8);
}

/* Keeps the token's text, with each pair of quotes as one. Returns its place and size. */
static void keep_text(compiler *c, uint32_t *place, uint32_t *size) {
    rp_slice text = c->token.text;
    *place = c->texts_size;
    for (uint32_t i = 0; i < text.size; i++) {
        c->texts[c->texts_size++] = text.data[i];
        i += text.data[i] == '\'';
    }
    *size = c->texts_size - *place;
}

/* ---- what is allowed ---- */

static operand truth_at(uint32_t at) { return (operand){.at = at, .is_truth = 1}; }

static void want_truth(compiler *c, const operand *of) {
    if (of->is_property)
        put(c, RP_SQL_TO_TRUTH, 0, 0);
    else if (!of->is_truth)
        fail(c, of->at, "something that is true or false is expected here");
}

static int is_number(const operand *of) {
    return of->constant == RP_SQL_PUSH_INT || of->constant == RP_SQL_PUSH_LONG || of->constant == RP_SQL_PUSH_REAL;
}

static void want_order(compiler *c, const operand *of) {
    if (of->is_truth || (of->constant && !is_number(of)))
        fail(c, of->at, "only numbers have an order: not texts, not truths");
}

static void want_equals(compiler *c, const operand *left, const operand *right) {
    const operand *null = left->constant == RP_SQL_PUSH_NOTHING ? left : right;
    if (null->constant == RP_SQL_PUSH_NOTHING)
        fail(c, null->at, "NULL equals nothing: IS NULL and IS NOT NULL ask for it");
    if (left->constant && right->constant && left->is_truth && !right->is_truth)
        fail(c, right->at, "a truth can be compared with a truth only");
}

static void want_range(compiler *c, const operand *low, const operand *high) {
    if (!is_number(low) || !is_number(high))
        return; /* only known when it is evaluated; or not a number at all, which want_order reports */
    int both_real = low->constant == RP_SQL_PUSH_REAL || high->constant == RP_SQL_PUSH_REAL;
    if (both_real ? rp_java_compare_reals(high->real, low->real) < 0 : high->integer < low->integer)
        fail(c, low->at, "the first value of BETWEEN is above the second");
}

/* ---- the grammar, from its leaves up ---- */

static operand or_expression(compiler *c);
static operand unary(compiler *c);

static operand integer(compiler *c) {
    operand made = {.at = c->token.at};
    if (!rp_java_integer(c->token.text, 0, INT64_MAX, &made.integer))
        fail(c, made.at, "the number is too large for 64 bits");
    made.real = (double)made.integer;
    made.constant = made.integer <= INT32_MAX ? RP_SQL_PUSH_INT : RP_SQL_PUSH_LONG;
    put(c, made.constant, 0, 1);
    put_half_words(c, &made.integer);
    return made;
}

static operand real(compiler *c) {
    operand made = {.at = c->token.at, .constant = RP_SQL_PUSH_REAL};
    if (!rp_java_real(c->token.text, &made.real) || made.real > DBL_MAX)
        fail(c, made.at, "the number is too large");
    else if (made.real <= 0)
        fail(c, made.at, "a number with a point must be above 0, which RocketMQ demands: write 0");
    put(c, RP_SQL_PUSH_REAL, 0, 1);
    put_half_words(c, &made.real);
    return made;
}

static operand text(compiler *c) {
    uint32_t place, size;
    keep_text(c, &place, &size);
    put(c, RP_SQL_PUSH_TEXT, 0, 1);
    put_word(c, (int32_t)place);
    put_word(c, (int32_t)size);
    return (operand){.at = c->token.at, .constant = RP_SQL_PUSH_TEXT};
}

static operand truth(compiler *c) {
    operand made = {.at = c->token.at, .is_truth = 1};
    made.constant = c->token.kind == RP_SQL_NULL ? RP_SQL_PUSH_NOTHING : RP_SQL_PUSH_TRUTH;
    put(c, made.constant, c->token.kind == RP_SQL_TRUE, 1);
    return made;
}

static operand property(compiler *c) {
    rp_slice name = c->token.text;
    uint32_t which = 0;
    while (which < c->name_count && !rp_slice_equals(c->names[which], name))
        which++;
    if (which == RP_SQL_PROPERTIES_MAX)
        fail(c, c->token.at, "the expression names too many different properties");
    else if (which == c->name_count)
        c->names[c->name_count++] = name;
    put(c, RP_SQL_PUSH_PROPERTY, (int32_t)which, 1);
    return (operand){.at = c->token.at, .is_property = 1};
}

static operand primary(compiler *c) {
    operand made = {.at = c->token.at};
    switch (c->token.kind) {
    case RP_SQL_TEXT:
        made = text(c);
        break;
    case RP_SQL_INTEGER:
        made = integer(c);
        break;
    case RP_SQL_REAL:
        made = real(c);
        break;
    case RP_SQL_TRUE:
    case RP_SQL_FALSE:
    case RP_SQL_NULL:
        made = truth(c);
        break;
    case RP_SQL_NAME:
        made = property(c);
        break;
    case RP_SQL_OPEN:
        take(c);
        made = or_expression(c);
        if (c->token.kind != RP_SQL_CLOSE)
            fail(c, c->token.at, "a parenthesis is not closed");
        break;
    default:
        fail(c, c->token.at, "a property, a number, a 'text', TRUE, FALSE, NULL, NOT or a parenthesis is expected here");
    }
    take(c);
    return made;
}

static operand unary_unless_too_deep(compiler *c) {
    operand made = {.at = c->token.at};
    switch (c->token.kind) {
    case RP_SQL_PLUS:
        take(c);
        return unary(c);
    case RP_SQL_MINUS:
        take(c);
        unary(c);
        put(c, RP_SQL_NEGATE, 0, 0);
        return made;
    case RP_SQL_NOT:
        take(c);
        made = unary(c);
        want_truth(c, &made);
        put(c, RP_SQL_INVERT, 0, 0);
        return truth_at(made.at);
    default:
        return primary(c);
    }
}

/* Every recursion passes through here. */
static operand unary(compiler *c) {
    operand made = {.at = c->token.at};
    if (c->nested == NESTED_MAX) {
        fail(c, c->token.at, "the expression is nested too deeply");
        return made;
    }
    c->nested++;
    made = unary_unless_too_deep(c);
    c->nested--;
    return made;
}

/* An operand compared with null is not read. */
static void order(compiler *c, const operand *left, int relation) {
    uint32_t skip = put_skip(c, RP_SQL_SKIP_IF_NOTHING);
    take(c);
    operand right = unary(c);
    want_order(c, left);
    want_order(c, &right);
    put(c, RP_SQL_COMPARE, relation, -1);
    end_skip(c, skip);
}

/* Emits (value >= low AND value <= high), or (value < low OR value > high), with the value read once. */
static void between(compiler *c, const operand *value, int is_not) {
    uint32_t skip_all = put_skip(c, RP_SQL_SKIP_IF_NOTHING);
    take(c);
    operand low = unary(c);
    put(c, RP_SQL_COMPARE_KEEP, is_not ? RP_SQL_IS_LESS : RP_SQL_IS_GREATER_EQUAL, 0);
    uint32_t skip = put_skip(c, is_not ? RP_SQL_SKIP_IF_TRUE : RP_SQL_SKIP_IF_FALSE);
    expect(c, RP_SQL_AND, "AND and the second value of BETWEEN are expected here");
    operand high = unary(c);
    put(c, RP_SQL_COMPARE_OVER, is_not ? RP_SQL_IS_GREATER : RP_SQL_IS_LESS_EQUAL, 0);
    put(c, is_not ? RP_SQL_EITHER : RP_SQL_BOTH, 0, -1);
    end_skip(c, skip);
    put(c, RP_SQL_DROP_BELOW, 0, -1);
    end_skip(c, skip_all);
    want_order(c, value);
    want_order(c, &low);
    want_order(c, &high);
    if (!is_not)
        want_range(c, &low, &high);
}

/* `value_at`: where the code of the searched value begins. An empty text is found nowhere, so nothing is searched. */
static void search(compiler *c, uint32_t value_at, int how, int is_not) {
    uint32_t place, size;
    take(c);
    if (c->token.kind != RP_SQL_TEXT) {
        fail(c, c->token.at, "a 'text' is expected here");
        return;
    }
    keep_text(c, &place, &size);
    if (size == 0) {
        c->code_count = value_at;
        put(c, RP_SQL_PUSH_TRUTH, 0, 0);
        take(c);
        return;
    }
    put(c, RP_SQL_SEARCH, how + (is_not ? RP_SQL_NOT_FOUND : 0), 0);
    put_word(c, (int32_t)place);
    put_word(c, (int32_t)size);
    take(c);
}

/* Compares by size, then by bytes; the context holds the texts that places refer to. */
static int compare_members(const void *left, const void *right, void *texts) {
    const uint32_t *a = left, *b = right;
    if (a[1] != b[1])
        return a[1] < b[1] ? -1 : 1;
    return memcmp((const uint8_t *)texts + a[0], (const uint8_t *)texts + b[0], a[1]);
}

static void among(compiler *c, const operand *value, int is_not) {
    put(c, RP_SQL_AMONG, is_not, 0);
    put_word(c, 0);
    uint32_t first = c->code_count, count = 0;
    take(c);
    expect(c, RP_SQL_OPEN, "a list in parentheses is expected behind IN");
    for (int is_more = 1; is_more; count++) {
        uint32_t place = 0, size = 0;
        if (c->token.kind == RP_SQL_TEXT)
            keep_text(c, &place, &size);
        expect(c, RP_SQL_TEXT, "a 'text' is expected here: IN takes no numbers");
        put_word(c, (int32_t)place);
        put_word(c, (int32_t)size);
        is_more = c->token.kind == RP_SQL_COMMA;
        if (is_more)
            take(c);
    }
    expect(c, RP_SQL_CLOSE, "a comma or the end of the list is expected here");
    if (!value->is_property)
        fail(c, value->at, "only a property can be asked for by IN");
    if (c->failed)
        return;
    qsort_r(c->code + first, count, 2 * sizeof *c->code, compare_members, c->texts);
    c->code[first - 1] = (int32_t)count;
}

/* Returns the operator at this place; 0: there is none. `a NOT b` has no operator. */
static int32_t operator_at(compiler *c, int *is_not) {
    *is_not = c->token.kind == RP_SQL_NOT;
    if (*is_not)
        take(c);
    switch (c->token.kind) {
    case RP_SQL_BETWEEN:
    case RP_SQL_IN:
    case RP_SQL_CONTAINS:
    case RP_SQL_STARTS_WITH:
    case RP_SQL_ENDS_WITH:
        return c->token.kind;
    case RP_SQL_GREATER:
    case RP_SQL_GREATER_EQUAL:
    case RP_SQL_LESS:
    case RP_SQL_LESS_EQUAL:
        if (!*is_not)
            return c->token.kind;
        break;
    default:
        break;
    }
    if (*is_not)
        fail(c, c->token.at, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH is expected behind NOT");
    return 0;
}

static operand comparison(compiler *c) {
    uint32_t begin = c->code_count;
    operand left = unary(c);
    int is_not;
    for (int32_t kind; (kind = operator_at(c, &is_not)) != 0; left = truth_at(left.at)) {
        switch (kind) {
        case RP_SQL_BETWEEN:
            between(c, &left, is_not);
            break;
        case RP_SQL_IN:
            among(c, &left, is_not);
            break;
        case RP_SQL_CONTAINS:
            search(c, begin, RP_SQL_ANYWHERE, is_not);
            break;
        case RP_SQL_STARTS_WITH:
            search(c, begin, RP_SQL_AT_START, is_not);
            break;
        case RP_SQL_ENDS_WITH:
            search(c, begin, RP_SQL_AT_END, is_not);
            break;
        default:
            order(c, &left, kind - RP_SQL_GREATER + RP_SQL_IS_GREATER);
        }
    }
    return left;
}

static void is_null(compiler *c) {
    take(c);
    int is_not = c->token.kind == RP_SQL_NOT;
    if (is_not)
        take(c);
    expect(c, RP_SQL_NULL, "NULL or NOT NULL is expected behind IS");
    put(c, RP_SQL_IS_NOTHING, 0, 0);
    if (is_not)
        put(c, RP_SQL_INVERT, 0, 0);
}

static operand equality(compiler *c) {
    operand left = comparison(c);
    for (;; left = truth_at(left.at)) {
        int32_t kind = c->token.kind;
        if (kind == RP_SQL_IS) {
            is_null(c);
        } else if (kind == RP_SQL_EQUAL || kind == RP_SQL_NOT_EQUAL) {
            take(c);
            operand right = comparison(c);
            want_equals(c, &left, &right);
            put(c, RP_SQL_EQUALS, 0, -1);
            if (kind == RP_SQL_NOT_EQUAL)
                put(c, RP_SQL_INVERT, 0, 0);
        } else {
            return left;
        }
    }
}

/* Parses parts joined by `joint`: if the first one decides, the rest is skipped. */
static operand joined(compiler *c, operand (*part)(compiler *), int32_t joint, int skip_if, int join) {
    operand left = part(c);
    while (c->token.kind == joint) {
        want_truth(c, &left);
        uint32_t skip = put_skip(c, skip_if);
        take(c);
        operand right = part(c);
        want_truth(c, &right);
        put(c, join, 0, -1);
        end_skip(c, skip);
        left = truth_at(left.at);
    }
    return left;
}

static operand and_expression(compiler *c) { return joined(c, equality, RP_SQL_AND, RP_SQL_SKIP_IF_FALSE, RP_SQL_BOTH); }

static operand or_expression(compiler *c) { return joined(c, and_expression, RP_SQL_OR, RP_SQL_SKIP_IF_TRUE, RP_SQL_EITHER); }

/* ---- the program ---- */

static int assemble(compiler *c, rp_arena *arena, rp_message_filter *filter) {
    uint32_t names_size = 0;
    for (uint32_t i = 0; i < c->name_count; i++)
        names_size += c->names[i].size;
    uint32_t code_at = RP_SQL_HEAD_WORDS + 2 * c->name_count, texts_at = code_at + c->code_count,
             count = texts_at + (c->texts_size + names_size + 3) / 4;
    int32_t *words = rp_arena_take(arena, count * sizeof *words);
    if (words == NULL)
        return RP_E_NO_MEMORY;
    words[0] = (int32_t)c->name_count;
    words[1] = (int32_t)code_at;
    words[2] = (int32_t)texts_at;
    words[3] = (int32_t)count;
    memcpy(words + code_at, c->code, c->code_count * sizeof *words);
    if (texts_at < count)
        words[count - 1] = 0; /* bytes behind the last text */
    uint8_t *texts = (uint8_t *)(words + texts_at);
    memcpy(texts, c->texts, c->texts_size);
    uint32_t place = c->texts_size;
    for (uint32_t i = 0; i < c->name_count; i++) {
        memcpy(texts + place, c->names[i].data, c->names[i].size);
        words[RP_SQL_HEAD_WORDS + 2 * i] = (int32_t)place;
        words[RP_SQL_HEAD_WORDS + 2 * i + 1] = (int32_t)c->names[i].size;
        place += c->names[i].size;
    }
    *filter = (rp_message_filter){.words = words, .count = count, .kind = RP_FILTER_SQL};
    return RP_OK;
}

int rp_sql_filter_compile(rp_slice expression, rp_arena *arena, rp_message_filter *filter, uint32_t *end, rp_sql_fault *fault) {
    if (expression.size > RP_SQL_EXPRESSION_MAX) {
        *fault = (rp_sql_fault){RP_SQL_EXPRESSION_MAX, "the expression is too large"};
        return RP_E_INVALID;
    }
    compiler c = {.expression = expression, .fault = fault, .code_max = WORDS_A_BYTE * expression.size + WORDS_RESERVED};
    c.code = rp_arena_take(arena, c.code_max * sizeof *c.code);
    c.texts = rp_arena_take(arena, expression.size + 1);
    if (c.code == NULL || c.texts == NULL)
        return RP_E_NO_MEMORY;
    take(&c);
    operand whole = or_expression(&c);
    want_truth(&c, &whole);
    if (c.failed)
        return RP_E_INVALID;
    if (end != NULL)
        *end = c.token.at;
    return assemble(&c, arena, filter);
}
