/* java_number.c: see java_number.h. The syntax of a real number is checked here, because strtod accepts others; its value is strtod's. */
#include "java_number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int rp_java_integer(rp_slice text, int64_t min, int64_t max, int64_t *value) {
    uint32_t at = text.size > 0 && (text.data[0] == '-' || text.data[0] == '+');
    int is_negative = at == 1 && text.data[0] == '-';
    int64_t number = 0; /* summed as a negative number, whose range is larger by one */
    if (at == text.size)
        return 0;
    for (; at < text.size; at++) {
        unsigned digit = (unsigned)text.data[at] - '0';
        if (digit > 9 || __builtin_mul_overflow(number, 10, &number) || __builtin_sub_overflow(number, (int64_t)digit, &number))
            return 0;
    }
    if (!is_negative && __builtin_sub_overflow(0, number, &number))
        return 0;
    *value = number;
    return number >= min && number <= max;
}

static int is_digit(char c, int is_hexadecimal) {
    return (c >= '0' && c <= '9') || (is_hexadecimal && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
}

static const char *skip_digits(const char *at, int is_hexadecimal) {
    while (is_digit(*at, is_hexadecimal))
        at++;
    return at;
}

/* Returns the end of the exponent; NULL: it begins like an exponent and is not one. */
static const char *skip_exponent(const char *at) {
    at += at[1] == '-' || at[1] == '+' ? 2 : 1;
    const char *end = skip_digits(at, 0);
    return end > at ? end : NULL;
}

/* Returns the end of the unsigned number at `at`; NULL: there is none. */
static const char *end_of_number(const char *at) {
    int is_hexadecimal = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    at += is_hexadecimal ? 2 : 0;
    const char *point = skip_digits(at, is_hexadecimal), *end = *point == '.' ? skip_digits(point + 1, is_hexadecimal) : point;
    if (end == at || (*point == '.' && end == at + 1))
        return NULL;
    int has_exponent = is_hexadecimal ? *end == 'p' || *end == 'P' : *end == 'e' || *end == 'E';
    if (has_exponent)
        return skip_exponent(end);
    return is_hexadecimal ? NULL : end;
}

/* Converts a number that ends at `end`. Python leaves the locale's decimal point as in C; if a program has set another, strtod stops at
 * ours. */
static double value_of(const char *number, const char *end) {
    char *stop;
    double value = strtod(number, &stop);
    locale_t c_locale = stop == end ? (locale_t)0 : newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (c_locale != (locale_t)0) {
        value = strtod_l(number, NULL, c_locale);
        freelocale(c_locale);
    }
    return value;
}

int rp_java_real(rp_slice text, double *value) {
    char copy[RP_JAVA_REAL_SIZE_MAX + 1];
    while (text.size > 0 && text.data[0] <= ' ')
        text = (rp_slice){text.data + 1, text.size - 1};
    while (text.size > 0 && text.data[text.size - 1] <= ' ')
        text.size--;
    if (text.size == 0 || text.size > RP_JAVA_REAL_SIZE_MAX || memchr(text.data, 0, text.size) != NULL)
        return 0;
    memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    const char *number = copy + (copy[0] == '-' || copy[0] == '+');
    if (strcmp(number, "NaN") == 0) {
        *value = NAN;
    } else if (strcmp(number, "Infinity") == 0) {
        *value = copy[0] == '-' ? -INFINITY : INFINITY;
    } else {
        const char *end = end_of_number(number);
        if (end == NULL)
            return 0;
        int has_suffix = *end != 0 && strchr("dDfF", *end) != NULL;
        if (end[has_suffix] != 0)
            return 0;
        *value = value_of(copy, end);
    }
    return 1;
}

int rp_java_compare_reals(double left, double right) {
    if (left < right)
        return -1;
    if (left > right)
        return 1;
    if (isnan(left) || isnan(right))
        return (isnan(left) != 0) - (isnan(right) != 0);
    return (signbit(right) != 0) - (signbit(left) != 0); /* equal, except for the sign of zeros */
}
