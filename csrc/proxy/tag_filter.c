/* tag_filter.c: see tag_filter.h. */
#include "tag_filter.h"

#include <stdbool.h>

#include "../base/slice_inl.h"

/* Removes the next tag, without the blanks around it, from the front of *filter; false: none is left. */
static bool next_tag(rp_slice *filter, rp_slice *tag) {
    if (filter->data == NULL)
        return false;
    uint32_t end = 0;
    while (end < filter->size && !(filter->data[end] == '|' && end + 1 < filter->size && filter->data[end + 1] == '|'))
        end++;
    *tag = (rp_slice){filter->data, end};
    *filter = end < filter->size ? (rp_slice){filter->data + end + 2, filter->size - end - 2} : (rp_slice){NULL, 0};
    while (tag->size > 0 && tag->data[0] == ' ')
        *tag = (rp_slice){tag->data + 1, tag->size - 1};
    while (tag->size > 0 && tag->data[tag->size - 1] == ' ')
        tag->size--;
    return true;
}

int rp_tag_filter_is_one(rp_slice filter) {
    rp_slice each;
    while (next_tag(&filter, &each)) {
        if (each.size > 0)
            return 1;
    }
    return 0;
}

int rp_tag_filter_takes(rp_slice filter, rp_slice tag) {
    rp_slice each;
    while (next_tag(&filter, &each)) {
        if (each.size > 0 && rp_slice_equals(each, tag))
            return 1;
    }
    return 0;
}
