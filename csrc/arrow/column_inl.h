/* column_inl.h: appends rows to a column that has room for them (rp_column_reserve). C only; private to csrc/arrow. */
#ifndef RP_ARROW_COLUMN_INL_H
#define RP_ARROW_COLUMN_INL_H

#include <string.h>

#include "column.h"

static inline void rp_column_add_i32(rp_column *column, int32_t value) {
    memcpy(column->values.data + column->values.size, &value, sizeof value);
    column->values.size += sizeof value;
    column->rows++;
}

static inline void rp_column_add_i64(rp_column *column, int64_t value) {
    memcpy(column->values.data + column->values.size, &value, sizeof value);
    column->values.size += sizeof value;
    column->rows++;
}

/* Ends a row of text or binary whose `size` bytes the caller has written behind the values. */
static inline void rp_column_end_text(rp_column *column, uint32_t size) {
    column->values.size += size;
    int32_t end = (int32_t)column->values.size;
    memcpy(column->offsets.data + column->offsets.size, &end, sizeof end);
    column->offsets.size += sizeof end;
    column->rows++;
}

static inline void rp_column_add_text(rp_column *column, rp_slice text) {
    memcpy(column->values.data + column->values.size, text.data, text.size);
    rp_column_end_text(column, text.size);
}

#endif
