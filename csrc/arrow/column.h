/* column.h: one growing Arrow column: validity bits, 32-bit offsets, bytes. Private to csrc/arrow.
 *
 * Nulls    validity has bits up to the last null only; the export fills in the rest, or leaves validity out if there is no null.
 * Layout   fixed: values side by side; text and binary: offsets[rows+1] + bytes; bits: one bit a row, least significant first;
 *          map: offsets[rows+1] into two text children (keys, values).
 * Threads  one owner.
 * Owns     its buffers until rp_column_export hands them to an ArrowArray, whose release gives them back to their pool.
 */
#ifndef RP_ARROW_COLUMN_H
#define RP_ARROW_COLUMN_H

#include <stdint.h>

#include "../base/slice.h"
#include "arrow_abi.h"
#include "buffer_pool.h"

enum rp_column_kind {
    RP_COLUMN_INT32 = 0,
    RP_COLUMN_INT64 = 1,
    RP_COLUMN_TEXT = 2,
    RP_COLUMN_BINARY = 3,
    RP_COLUMN_BIT = 4,
    RP_COLUMN_MAP = 5
};

typedef struct rp_bytes {
    uint8_t *data;
    uint64_t size, capacity;
    rp_buffer_pool *pool; /* where the buffer comes from; NULL: malloc. Not owned */
} rp_bytes;

/* Make room for `needed` bytes in all, growing by doubling; append `size` bytes. RP_OK; RP_E_NO_MEMORY: nothing has changed. */
int rp_bytes_reserve(rp_bytes *bytes, uint64_t needed);
int rp_bytes_put(rp_bytes *bytes, const void *data, uint64_t size);
void rp_bytes_free(rp_bytes *bytes); /* empty afterwards, without a pool */

typedef struct rp_column {
    int32_t kind;
    int32_t is_nullable;
    int64_t rows, null_count;
    rp_bytes validity, offsets, values;
    struct rp_column *keys, *items; /* of a map */
} rp_column;

/* pool: must live as long as the column; an exported array holds a reference of its own. RP_OK or RP_E_NO_MEMORY. Call rp_column_free
 * also after a failure. */
int rp_column_init(rp_column *column, int kind, int is_nullable, rp_buffer_pool *pool);
void rp_column_free(rp_column *column);

/* Makes room for `rows` more rows whose text or binary values have `bytes` bytes together (0 for the fixed kinds), so that the functions
 * of column_inl.h may append unchecked. RP_OK, RP_E_NO_MEMORY, or RP_E_TOO_LARGE if 32-bit offsets would overflow. */
int rp_column_reserve(rp_column *column, uint32_t rows, uint64_t bytes);

/* These append one row, or `count` equal rows. RP_OK, RP_E_NO_MEMORY, or RP_E_TOO_LARGE as above. */
int rp_column_put_bit(rp_column *column, int value);
int rp_column_put_bytes(rp_column *column, const void *data, uint32_t size);
int rp_column_put_repeated(rp_column *column, rp_slice text, uint32_t count); /* text and binary only */
int rp_column_put_nulls(rp_column *column, uint32_t count);
/* Ends a row of a map, for which the caller has appended as many texts to keys as to items. */
int rp_column_end_map(rp_column *column);

/* Moves the buffers into `array` and sets all of its fields; the column is empty afterwards. RP_OK; RP_E_NO_MEMORY: `array` is
 * unchanged, and the column can only be freed (a map may have lost its keys). */
int rp_column_export(rp_column *column, struct ArrowArray *array);

#endif
