/* sql_token.c: see sql_token.h. */
#include "sql_token.h"

#include <string.h>

#include "../base/ascii_inl.h"

static int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static int begins_name(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$'; }
static int is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

/* Returns the byte at `at`, 0 behind the end. */
static uint8_t byte_at(rp_slice text, uint32_t at) { return at < text.size ? text.data[at] : 0; }

/* NULL: there is none. Searches in large steps, because each of thousands of signs in a row searches to the end of a one-line
 * expression. */
static const uint8_t *end_of_line(const uint8_t *at, uint32_t size) {
    const uint8_t *feed = memchr(at, '\n', size);
    const uint8_t *carriage = memchr(at, '\r', feed != NULL ? (size_t)(feed - at) : size);
    return carriage != NULL ? carriage : feed;
}

/* Returns the end of the comment that begins at `at`; `at` itself if there is none. */
static uint32_t skip_comment(rp_slice text, uint32_t at) {
    if (byte_at(text, at) == '-' && byte_at(text, at + 1) == '-') {
        const uint8_t *end = end_of_line(text.data + at + 2, text.size - at - 2);
        if (end != NULL)
            return (uint32_t)(end - text.data) + 1;
    } else if (byte_at(text, at) == '/' && byte_at(text, at + 1) == '*') {
        for (uint32_t end = at + 2; end + 1 < text.size; end++) {
            if (text.data[end] == '*' && text.data[end + 1] == '/')
                return end + 2;
        }
    }
    return at;
}

static uint32_t skip_what_says_nothing(rp_slice text, uint32_t at) {
    for (;;) {
        uint32_t begin = at;
        while (at < text.size && is_blank(text.data[at]))
            at++;
        at = skip_comment(text, at);
        if (at == begin)
            return at;
    }
}

static uint32_t skip_digits(rp_slice text, uint32_t at) {
    while (is_digit(byte_at(text, at)))
        at++;
    return at;
}

static uint32_t skip_exponent(rp_slice text, uint32_t at) {
    if (byte_at(text, at) != 'e' && byte_at(text, at) != 'E')
        return at;
    uint32_t digits = at + (byte_at(text, at + 1) == '+' || byte_at(text, at + 1) == '-' ? 2 : 1), end = skip_digits(text, digits);
    return end > digits ? end : at;
}

/* Makes a token whose kind and begin are known. */
static rp_sql_token token_of(int32_t kind, rp_slice expression, uint32_t at, uint32_t end) {
    return (rp_sql_token){kind, at, end, {expression.data + at, end - at}};
}

/* An integer has no leading zeros: "05" is two integers. */
static rp_sql_token number_at(rp_slice expression, uint32_t at) {
    uint32_t digits = skip_digits(expression, at), end = digits;
    if (byte_at(expression, digits) == '.' && (digits > at || is_digit(byte_at(expression, digits + 1))))
        end = skip_exponent(expression, skip_digits(expression, digits + 1));
    else if (digits > at)
        end = skip_exponent(expression, digits);
    if (end > digits)
        return token_of(RP_SQL_REAL, expression, at, end);
    if (digits == at)
        return token_of(RP_SQL_BAD, expression, at, at);
    if (expression.data[at] == '0')
        return token_of(RP_SQL_INTEGER, expression, at, at + 1);
    rp_sql_token token = token_of(RP_SQL_INTEGER, expression, at, digits);
    token.end += byte_at(expression, digits) == 'l' || byte_at(expression, digits) == 'L';
    return token;
}

/* If no quote closes the text, the first quote of the last pair does. */
static rp_sql_token text_at(rp_slice expression, uint32_t at) {
    uint32_t last = 0;
    for (uint32_t end = at + 1; end < expression.size; end++) {
        if (expression.data[end] != '\'')
            continue;
        if (byte_at(expression, end + 1) == '\'') {
            last = end++;
            continue;
        }
        last = end;
        break;
    }
    if (last == 0)
        return token_of(RP_SQL_BAD, expression, at, at);
    return (rp_sql_token){RP_SQL_TEXT, at, last + 1, {expression.data + at + 1, last - at - 1}};
}

static const struct {
    const char *word;
    int32_t kind;
} keywords[] = {
    {"NOT", RP_SQL_NOT},
    {"AND", RP_SQL_AND},
    {"OR", RP_SQL_OR},
    {"BETWEEN", RP_SQL_BETWEEN},
    {"IN", RP_SQL_IN},
    {"TRUE", RP_SQL_TRUE},
    {"FALSE", RP_SQL_FALSE},
    {"NULL", RP_SQL_NULL},
    {"IS", RP_SQL_IS},
    {"CONTAINS", RP_SQL_CONTAINS},
    {"STARTSWITH", RP_SQL_STARTS_WITH},
    {"ENDSWITH", RP_SQL_ENDS_WITH},
};

static rp_sql_token name_at(rp_slice expression, uint32_t at) {
    uint32_t end = at + 1;
    while (begins_name(byte_at(expression, end)) || is_digit(byte_at(expression, end)))
        end++;
    rp_sql_token token = token_of(RP_SQL_NAME, expression, at, end);
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strlen(keywords[i].word) == token.text.size && rp_is_ascii_word(token.text.data, keywords[i].word, token.text.size))
            token.kind = keywords[i].kind;
    }
    return token;
}

static rp_sql_token sign_at(rp_slice expression, uint32_t at) {
    uint8_t next = byte_at(expression, at + 1);
    switch (expression.data[at]) {
    case '=':
        return token_of(RP_SQL_EQUAL, expression, at, at + 1);
    case '>':
        return next == '=' ? token_of(RP_SQL_GREATER_EQUAL, expression, at, at + 2) : token_of(RP_SQL_GREATER, expression, at, at + 1);
    case '<':
        if (next == '>')
            return token_of(RP_SQL_NOT_EQUAL, expression, at, at + 2);
        return next == '=' ? token_of(RP_SQL_LESS_EQUAL, expression, at, at + 2) : token_of(RP_SQL_LESS, expression, at, at + 1);
    case '(':
        return token_of(RP_SQL_OPEN, expression, at, at + 1);
    case ')':
        return token_of(RP_SQL_CLOSE, expression, at, at + 1);
    case ',':
        return token_of(RP_SQL_COMMA, expression, at, at + 1);
    case '+':
        return token_of(RP_SQL_PLUS, expression, at, at + 1);
    case '-':
        return token_of(RP_SQL_MINUS, expression, at, at + 1);
    default:
        return token_of(RP_SQL_BAD, expression, at, at);
    }
}

rp_sql_token rp_sql_token_at(rp_slice expression, uint32_t at) {
    at = skip_what_says_nothing(expression, at);
    uint8_t first = byte_at(expression, at);
    if (at >= expression.size)
        return token_of(RP_SQL_END, expression, at, at);
    if (is_digit(first) || first == '.')
        return number_at(expression, at);
    if (first == '\'')
        return text_at(expression, at);
    return begins_name(first) ? name_at(expression, at) : sign_at(expression, at);
}
