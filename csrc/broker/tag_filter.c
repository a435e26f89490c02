/* tag_filter.c: see tag_filter.h. Splits like Java's String.split("\\|\\|"): pieces are cut at each "||" from the left, and trailing
 * empty pieces do not count; String.trim cuts every character up to a blank. */
#include "tag_filter.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "broker.h"

static rp_slice trim(rp_slice piece) {
    while (piece.size > 0 && piece.data[0] <= ' ') {
        piece.data++;
        piece.size--;
    }
    while (piece.size > 0 && piece.data[piece.size - 1] <= ' ')
        piece.size--;
    return piece;
}

/* Cuts the next piece off *rest; *last is 1 when no separator follows it. */
static rp_slice next_piece(rp_slice *rest, int *last) {
    for (uint32_t i = 0; i + 1 < rest->size; i++) {
        if (rest->data[i] != '|' || rest->data[i + 1] != '|')
            continue;
        rp_slice piece = {rest->data, i};
        rest->data += i + 2;
        rest->size -= i + 2;
        *last = 0;
        return piece;
    }
    *last = 1;
    return *rest;
}

static uint32_t count_pieces(rp_slice expression) {
    uint32_t count = 1;
    for (uint32_t i = 0; i + 1 < expression.size; i++) {
        if (expression.data[i] == '|' && expression.data[i + 1] == '|') {
            count++;
            i++;
        }
    }
    return count;
}

int rp_tag_filter_parse(rp_slice expression, rp_arena *arena, rp_message_filter *filter) {
    *filter = (rp_message_filter){.kind = RP_FILTER_ALL};
    if (expression.data == NULL || expression.size == 0 || (expression.size == 1 && expression.data[0] == '*'))
        return RP_OK;
    uint32_t pieces = count_pieces(expression);
    if (pieces > RP_SUBSCRIPTION_CODES_MAX)
        return RP_E_TOO_LARGE;
    int32_t *codes = rp_arena_take(arena, pieces * sizeof *codes);
    if (codes == NULL)
        return RP_E_NO_MEMORY;
    uint32_t count = 0;
    int any = 0, last = 0;
    while (!last) {
        rp_slice piece = next_piece(&expression, &last);
        any |= piece.size > 0;
        piece = trim(piece);
        if (piece.size > 0)
            codes[count++] = rp_hash_java(piece.data, piece.size);
    }
    if (!any)
        return RP_E_PROTOCOL;
    rp_tag_codes_sort(codes, count);
    *filter = (rp_message_filter){.kind = RP_FILTER_TAGS, .words = codes, .count = count};
    return RP_OK;
}

static int compare_codes(const void *left, const void *right) {
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

void rp_tag_codes_sort(int32_t *codes, uint32_t count) {
    if (count > 1)
        qsort(codes, count, sizeof *codes, compare_codes);
}

int rp_tag_filter_matches(const rp_message_filter *filter, int64_t tags_code) {
    if (filter->kind != RP_FILTER_TAGS || tags_code < INT32_MIN)
        return 1;
    int32_t code = (int32_t)tags_code;
    if (filter->count > 8)
        return bsearch(&code, filter->words, filter->count, sizeof code, compare_codes) != NULL;
    for (uint32_t i = 0; i < filter->count; i++) {
        if (filter->words[i] == code)
            return 1;
    }
    return 0;
}
