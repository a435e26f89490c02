/* sql_evaluate.c: see sql_filter.h. One pass over the properties finds those that the expression names; then its code runs on a stack. */
#include <string.h>

#include "../base/ascii_inl.h"
#include "../base/java_number.h"
#include "../base/slice_inl.h"
#include "property_pair_inl.h"
#include "sql_filter.h"
#include "sql_program_inl.h"

enum value_kind { NOTHING, TRUTH, INT, LONG, REAL, TEXT };

typedef struct value {
    int32_t kind; /* value_kind */
    union {
        int truth;
        int64_t integer;
        double real;
        rp_slice text;
    };
} value;

static const value nothing = {.kind = NOTHING};

static value truth_of(int truth) { return (value){.kind = TRUTH, .truth = truth != 0}; }

/* ---- comparing ---- */

static int read_as(int32_t kind, rp_slice text, value *read) {
    read->kind = kind;
    switch (kind) {
    case INT:
        return rp_java_integer(text, INT32_MIN, INT32_MAX, &read->integer);
    case LONG:
        return rp_java_integer(text, INT64_MIN, INT64_MAX, &read->integer);
    case REAL:
        return rp_java_real(text, &read->real);
    default: /* "true" is true, anything else is not */
        read->truth = text.size == 4 && rp_is_ascii_word(text.data, "TRUE", 4);
        return 1;
    }
}

static double real_of(const value *of) { return of->kind == REAL ? of->real : (double)of->integer; }

static int compare_texts(rp_slice left, rp_slice right) {
    int order = memcmp(left.data, right.data, left.size < right.size ? left.size : right.size);
    return order != 0 ? order : (left.size > right.size) - (left.size < right.size);
}

/* Values of two kinds: a text is converted to the other kind, an integer to a real. Of a truth value and a number the left one counts as
 * smaller, whichever it is. 0: the text cannot be converted. */
static int compare(const value *left, const value *right, int *order) {
    value read;
    if (left->kind == TEXT && right->kind == TEXT) {
        *order = compare_texts(left->text, right->text);
        return 1;
    }
    if (left->kind == TEXT || right->kind == TEXT) {
        const value *text = left->kind == TEXT ? left : right, *other = left->kind == TEXT ? right : left;
        if (left->kind == TRUTH || !read_as(other->kind, text->text, &read)) /* in RocketMQ (TRUE = text) ends in a cast that fails */
            return 0;
        return left == text ? compare(&read, right, order) : compare(left, &read, order);
    }
    if (left->kind == TRUTH || right->kind == TRUTH)
        *order = left->kind == right->kind ? left->truth - right->truth : -1;
    else if (left->kind == REAL || right->kind == REAL)
        *order = rp_java_compare_reals(real_of(left), real_of(right));
    else
        *order = (left->integer > right->integer) - (left->integer < right->integer);
    return 1;
}

static int equals(const value *left, const value *right, value *result) {
    int order;
    if (left->kind == NOTHING || right->kind == NOTHING) {
        *result = left->kind != NOTHING ? truth_of(0) : right->kind == NOTHING ? truth_of(1) : nothing;
        return 1;
    }
    if (!compare(left, right, &order))
        return 0;
    *result = truth_of(order == 0);
    return 1;
}

static int holds(int relation, int order) {
    switch (relation) {
    case RP_SQL_IS_GREATER:
        return order > 0;
    case RP_SQL_IS_GREATER_EQUAL:
        return order >= 0;
    case RP_SQL_IS_LESS:
        return order < 0;
    default:
        return order <= 0;
    }
}

/* Two texts are compared as real numbers: texts have no order. */
static int relate(int relation, const value *left, const value *right, value *result) {
    value left_read, right_read;
    int order;
    *result = nothing;
    if (left->kind == NOTHING || right->kind == NOTHING)
        return 1;
    if (left->kind == TEXT && right->kind == TEXT) {
        if (!read_as(REAL, left->text, &left_read) || !read_as(REAL, right->text, &right_read))
            return 0;
        left = &left_read;
        right = &right_read;
    }
    if (!compare(left, right, &order))
        return 0;
    *result = truth_of(holds(relation, order));
    return 1;
}

static value negated(const value *of) {
    switch (of->kind) {
    case INT:
        return (value){.kind = INT, .integer = (int32_t)(0u - (uint32_t)of->integer)};
    case LONG:
        return (value){.kind = LONG, .integer = (int64_t)(UINT64_C(0) - (uint64_t)of->integer)};
    case REAL:
        return (value){.kind = REAL, .real = -of->real};
    default:
        return nothing;
    }
}

static value joined(const value *left, const value *right, int decides) {
    if ((left->kind == TRUTH && left->truth == decides) || (right->kind == TRUTH && right->truth == decides))
        return truth_of(decides);
    return left->kind == NOTHING || right->kind == NOTHING ? nothing : truth_of(!decides);
}

/* ---- texts ---- */

/* A value that is no text, or null, and an empty search text are never found; NOT CONTAINS and the like do not match them either. */
static value searched(const value *in, rp_slice wanted, int32_t how) {
    if (in->kind != TEXT || wanted.size == 0)
        return truth_of(0);
    rp_slice text = in->text;
    int found;
    switch (how & ~RP_SQL_NOT_FOUND) {
    case RP_SQL_AT_START:
        found = text.size >= wanted.size && memcmp(text.data, wanted.data, wanted.size) == 0;
        break;
    case RP_SQL_AT_END:
        found = text.size >= wanted.size && memcmp(text.data + text.size - wanted.size, wanted.data, wanted.size) == 0;
        break;
    default:
        found = memmem(text.data, text.size, wanted.data, wanted.size) != NULL;
    }
    return truth_of(found == !(how & RP_SQL_NOT_FOUND));
}

static rp_slice text_at(const int32_t *words, const int32_t *place_and_size) {
    return (rp_slice){(const uint8_t *)(words + words[2]) + place_and_size[0], (uint32_t)place_and_size[1]};
}

static int is_member(const int32_t *words, const int32_t *members, int32_t count, rp_slice text) {
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        rp_slice member = text_at(words, members + 2 * middle);
        int order =
            member.size != text.size ? (member.size > text.size) - (member.size < text.size) : memcmp(member.data, text.data, text.size);
        if (order == 0)
            return 1;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* ---- the machine ---- */

/* Of a repeated name the later value counts, as in RocketMQ's parser. */
static void find_properties(const int32_t *words, rp_slice properties, value *found) {
    int32_t count = words[0];
    for (int32_t i = 0; i < count; i++)
        found[i] = nothing;
    uint32_t position = 0;
    while (position < properties.size) {
        rp_slice pair = rp_next_pair(properties, &position), name, text;
        if (!rp_split_pair(pair, &name, &text))
            continue;
        for (int32_t i = 0; i < count; i++) {
            if (rp_slice_equals(text_at(words, words + RP_SQL_HEAD_WORDS + 2 * i), name))
                found[i] = (value){.kind = TEXT, .text = text};
        }
    }
}

static value constant(int operation, int32_t argument, const int32_t *words, const int32_t *operands) {
    value made = nothing;
    switch (operation) {
    case RP_SQL_PUSH_TEXT:
        return (value){.kind = TEXT, .text = text_at(words, operands)};
    case RP_SQL_PUSH_INT:
    case RP_SQL_PUSH_LONG:
        made.kind = operation == RP_SQL_PUSH_INT ? INT : LONG;
        memcpy(&made.integer, operands, sizeof made.integer);
        return made;
    case RP_SQL_PUSH_REAL:
        made.kind = REAL;
        memcpy(&made.real, operands, sizeof made.real);
        return made;
    case RP_SQL_PUSH_TRUTH:
        return truth_of(argument);
    default:
        return made;
    }
}

/* Returns how many words follow an operation. */
static int32_t operand_words(int operation, const int32_t *operands) {
    switch (operation) {
    case RP_SQL_PUSH_TEXT:
    case RP_SQL_PUSH_INT:
    case RP_SQL_PUSH_LONG:
    case RP_SQL_PUSH_REAL:
    case RP_SQL_SEARCH:
        return 2;
    case RP_SQL_AMONG:
        return 1 + 2 * operands[0];
    default:
        return 0;
    }
}

/* Applies one operation to the last values of the stack, whose top is `top`. Returns the new top; NULL: a text was not a number. */
static value *apply(int operation, int32_t argument, const int32_t *words, const int32_t *operands, value *top) {
    value result;
    switch (operation) {
    case RP_SQL_NEGATE:
        *top = negated(top);
        return top;
    case RP_SQL_INVERT:
        *top = top->kind == TRUTH ? truth_of(!top->truth) : nothing;
        return top;
    case RP_SQL_TO_TRUTH: /* a property is a text, and no text is true */
        *top = top->kind == NOTHING ? nothing : truth_of(0);
        return top;
    case RP_SQL_IS_NOTHING:
        *top = truth_of(top->kind == NOTHING);
        return top;
    case RP_SQL_EQUALS:
        if (!equals(top - 1, top, &result))
            return NULL;
        *--top = result;
        return top;
    case RP_SQL_COMPARE:
    case RP_SQL_COMPARE_KEEP:
        if (!relate(argument, top - 1, top, &result))
            return NULL;
        top -= operation == RP_SQL_COMPARE;
        *top = result;
        return top;
    case RP_SQL_COMPARE_OVER:
        if (!relate(argument, top - 2, top, &result))
            return NULL;
        *top = result;
        return top;
    case RP_SQL_BOTH:
    case RP_SQL_EITHER:
        top--;
        *top = joined(top, top + 1, operation == RP_SQL_EITHER);
        return top;
    case RP_SQL_DROP_BELOW:
        top[-1] = *top;
        return top - 1;
    case RP_SQL_SEARCH:
        *top = searched(top, text_at(words, operands), argument);
        return top;
    case RP_SQL_AMONG:
        if (top->kind == TEXT)
            *top = truth_of(is_member(words, operands + 1, operands[0], top->text) != argument);
        return top;
    default: /* skips */
        return top;
    }
}

static int skips(int operation, const value *top) {
    switch (operation) {
    case RP_SQL_SKIP_IF_FALSE:
        return top->kind == TRUTH && !top->truth;
    case RP_SQL_SKIP_IF_TRUE:
        return top->kind == TRUTH && top->truth;
    case RP_SQL_SKIP_IF_NOTHING:
        return top->kind == NOTHING;
    default:
        return 0;
    }
}

int rp_sql_filter_matches(const rp_message_filter *filter, rp_slice properties) {
    const int32_t *words = filter->words, *at = words + words[1], *end = words + words[2];
    value found[RP_SQL_PROPERTIES_MAX], stack[RP_SQL_STACK_MAX + 1], *top = stack; /* stack[0] is never used: top points to a value */
    find_properties(words, properties, found);
    while (at < end) {
        int operation = *at & 0xff;
        int32_t argument = *at >> 8;
        at++;
        if (operation == RP_SQL_PUSH_PROPERTY)
            *++top = found[argument];
        else if (operation <= RP_SQL_PUSH_NOTHING)
            *++top = constant(operation, argument, words, at);
        else if ((top = apply(operation, argument, words, at, top)) == NULL)
            return 0;
        at += operand_words(operation, at);
        if (skips(operation, top))
            at += argument;
    }
    return top->kind == TRUTH && top->truth;
}
