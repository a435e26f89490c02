/* column.c: see column.h. Buffers grow by doubling; the release of an exported array gives them back to the pool. */
#include "column.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "column_inl.h"

#define BUFFERS_MAX 3

int rp_bytes_reserve(rp_bytes *bytes, uint64_t needed) {
    if (needed <= bytes->capacity)
        return RP_OK;
    uint64_t capacity = bytes->capacity == 0 ? 4096 : bytes->capacity;
    while (capacity < needed)
        capacity *= 2;
    uint8_t *grown = bytes->pool == NULL ? realloc(bytes->data, capacity) : rp_buffer_pool_take(bytes->pool, &capacity);
    if (grown == NULL)
        return RP_E_NO_MEMORY;
    if (bytes->pool != NULL) {
        if (bytes->size > 0)
            memcpy(grown, bytes->data, bytes->size);
        rp_buffer_pool_give(bytes->pool, bytes->data, bytes->capacity);
    }
    bytes->data = grown;
    bytes->capacity = capacity;
    return RP_OK;
}

int rp_bytes_put(rp_bytes *bytes, const void *data, uint64_t size) {
    int status = rp_bytes_reserve(bytes, bytes->size + size);
    if (status < 0)
        return status;
    if (size > 0)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return RP_OK;
}

void rp_bytes_free(rp_bytes *bytes) {
    if (bytes->pool == NULL)
        free(bytes->data);
    else
        rp_buffer_pool_give(bytes->pool, bytes->data, bytes->capacity);
    *bytes = (rp_bytes){.pool = bytes->pool};
}

/* Extends the bits to `count`; the new ones are set. */
static int fill_bits(rp_bytes *bits, int64_t count) {
    uint64_t needed = (uint64_t)(count + 7) / 8;
    if (bits->size >= needed)
        return RP_OK;
    int status = rp_bytes_reserve(bits, needed);
    if (status < 0)
        return status;
    memset(bits->data + bits->size, 0xFF, needed - bits->size);
    bits->size = needed;
    return RP_OK;
}

static int put_bit(rp_bytes *bits, int64_t index, int value) {
    int status = fill_bits(bits, index + 1);
    if (status == RP_OK && !value)
        bits->data[index / 8] &= (uint8_t)~(1u << (index % 8));
    return status;
}

static void clear_bits(rp_bytes *bits, int64_t begin, int64_t end) {
    while (begin < end) {
        if (begin % 8 == 0 && end - begin >= 8) {
            bits->data[begin / 8] = 0;
            begin += 8;
        } else {
            bits->data[begin / 8] &= (uint8_t)~(1u << (begin % 8));
            begin++;
        }
    }
}

static int has_offsets(const rp_column *column) {
    return column->kind == RP_COLUMN_TEXT || column->kind == RP_COLUMN_BINARY || column->kind == RP_COLUMN_MAP;
}

int rp_column_init(rp_column *column, int kind, int is_nullable, rp_buffer_pool *pool) {
    const rp_bytes empty = {.pool = pool};
    *column = (rp_column){.kind = kind, .is_nullable = is_nullable, .validity = empty, .offsets = empty, .values = empty};
    static const int32_t first = 0;
    if (has_offsets(column)) {
        int status = rp_bytes_put(&column->offsets, &first, sizeof first);
        if (status < 0)
            return status;
    }
    if (kind != RP_COLUMN_MAP)
        return RP_OK;
    column->keys = calloc(1, sizeof *column->keys);
    column->items = calloc(1, sizeof *column->items);
    if (column->keys == NULL || column->items == NULL)
        return RP_E_NO_MEMORY;
    int status = rp_column_init(column->keys, RP_COLUMN_TEXT, 0, pool);
    return status < 0 ? status : rp_column_init(column->items, RP_COLUMN_TEXT, 1, pool);
}

void rp_column_free(rp_column *column) {
    rp_bytes_free(&column->validity);
    rp_bytes_free(&column->offsets);
    rp_bytes_free(&column->values);
    rp_column *children[2] = {column->keys, column->items};
    for (int i = 0; i < 2; i++) {
        if (children[i] == NULL)
            continue;
        rp_column_free(children[i]);
        free(children[i]);
    }
    const rp_bytes empty = {.pool = column->validity.pool};
    *column = (rp_column){.kind = column->kind, .is_nullable = column->is_nullable, .validity = empty, .offsets = empty, .values = empty};
}

static int end_offset(rp_column *column, uint64_t end) {
    if (end > INT32_MAX)
        return RP_E_TOO_LARGE;
    int32_t offset = (int32_t)end;
    return rp_bytes_put(&column->offsets, &offset, sizeof offset);
}

int rp_column_reserve(rp_column *column, uint32_t rows, uint64_t bytes) {
    if (column->kind == RP_COLUMN_INT32 || column->kind == RP_COLUMN_INT64)
        return rp_bytes_reserve(&column->values, column->values.size + (uint64_t)rows * (column->kind == RP_COLUMN_INT32 ? 4 : 8));
    if (bytes > INT32_MAX || column->values.size + bytes > INT32_MAX)
        return RP_E_TOO_LARGE;
    int status = rp_bytes_reserve(&column->offsets, column->offsets.size + (uint64_t)rows * sizeof(int32_t));
    return status < 0 ? status : rp_bytes_reserve(&column->values, column->values.size + bytes + 1);
}

int rp_column_put_bit(rp_column *column, int value) {
    int status = put_bit(&column->values, column->rows, value);
    column->rows += status == RP_OK;
    return status;
}

int rp_column_put_bytes(rp_column *column, const void *data, uint32_t size) {
    int status = rp_column_reserve(column, 1, size);
    if (status < 0)
        return status;
    rp_column_add_text(column, (rp_slice){data, size});
    return RP_OK;
}

/* Appends `size` zero bytes. */
static int put_zeros(rp_bytes *bytes, uint64_t size) {
    int status = rp_bytes_reserve(bytes, bytes->size + size);
    if (status < 0)
        return status;
    memset(bytes->data + bytes->size, 0, size);
    bytes->size += size;
    return RP_OK;
}

static int put_null_values(rp_column *column, uint32_t count) {
    if (column->kind == RP_COLUMN_INT32 || column->kind == RP_COLUMN_INT64)
        return put_zeros(&column->values, (uint64_t)count * (column->kind == RP_COLUMN_INT32 ? 4 : 8));
    int status = RP_OK;
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        if (column->kind == RP_COLUMN_BIT)
            status = put_bit(&column->values, column->rows + i, 0);
        else
            status = end_offset(column, column->kind == RP_COLUMN_MAP ? (uint64_t)column->keys->rows : column->values.size);
    }
    return status;
}

int rp_column_put_nulls(rp_column *column, uint32_t count) {
    int status = put_null_values(column, count);
    int64_t end = column->rows + count;
    if (status == RP_OK)
        status = fill_bits(&column->validity, end);
    if (status < 0)
        return status;
    clear_bits(&column->validity, column->rows, end);
    column->rows = end;
    column->null_count += count;
    return RP_OK;
}

int rp_column_put_repeated(rp_column *column, rp_slice text, uint32_t count) {
    int status = rp_column_reserve(column, count, (uint64_t)count * text.size);
    for (uint32_t i = 0; i < count && status == RP_OK; i++)
        rp_column_add_text(column, text);
    return status;
}

int rp_column_end_map(rp_column *column) {
    int status = end_offset(column, (uint64_t)column->keys->rows);
    column->rows += status == RP_OK;
    return status;
}

/* ---- export ---- */

typedef struct exported {
    rp_bytes owned[BUFFERS_MAX];
    rp_buffer_pool *pool; /* held; NULL when nothing is owned */
    const void *buffers[BUFFERS_MAX];
    struct ArrowArray *children[2];
    struct ArrowArray child_arrays[2];
} exported;

static void release_array(struct ArrowArray *array) {
    exported *held = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release != NULL)
            array->children[i]->release(array->children[i]);
    for (int i = 0; i < BUFFERS_MAX; i++)
        rp_bytes_free(&held->owned[i]);
    rp_buffer_pool_drop(held->pool);
    free(held);
    array->release = NULL;
}

static const void *move_buffer(rp_bytes *target, rp_bytes *bytes) {
    *target = *bytes;
    *bytes = (rp_bytes){.pool = bytes->pool};
    return target->data;
}

/* Exports the map's one child, a struct of keys and items, which owns their exports. */
static int export_pairs(rp_column *column, struct ArrowArray *array) {
    exported *held = calloc(1, sizeof *held);
    if (held == NULL)
        return RP_E_NO_MEMORY;
    int64_t rows = column->keys->rows;
    int status = rp_column_export(column->keys, &held->child_arrays[0]);
    if (status == RP_OK) {
        status = rp_column_export(column->items, &held->child_arrays[1]);
        if (status < 0)
            held->child_arrays[0].release(&held->child_arrays[0]);
    }
    if (status < 0) {
        free(held);
        return status;
    }
    for (int i = 0; i < 2; i++)
        held->children[i] = &held->child_arrays[i];
    *array = (struct ArrowArray){.length = rows,
                                 .n_buffers = 1,
                                 .n_children = 2,
                                 .buffers = held->buffers,
                                 .children = held->children,
                                 .release = release_array,
                                 .private_data = held};
    return RP_OK;
}

int rp_column_export(rp_column *column, struct ArrowArray *array) {
    if (column->null_count > 0 && fill_bits(&column->validity, column->rows) < 0)
        return RP_E_NO_MEMORY;
    exported *held = calloc(1, sizeof *held);
    if (held == NULL)
        return RP_E_NO_MEMORY;
    if (column->kind == RP_COLUMN_MAP) {
        int status = export_pairs(column, &held->child_arrays[0]);
        if (status < 0) {
            free(held);
            return status;
        }
        held->children[0] = &held->child_arrays[0];
    }
    *array = (struct ArrowArray){.length = column->rows,
                                 .null_count = column->null_count,
                                 .n_buffers = 2,
                                 .n_children = column->kind == RP_COLUMN_MAP,
                                 .buffers = held->buffers,
                                 .children = held->children,
                                 .release = release_array,
                                 .private_data = held};
    held->pool = column->validity.pool;
    if (held->pool != NULL)
        rp_buffer_pool_hold(held->pool);
    const void *validity = move_buffer(&held->owned[0], &column->validity);
    held->buffers[0] = column->null_count > 0 ? validity : NULL;
    held->buffers[1] = move_buffer(&held->owned[1], has_offsets(column) ? &column->offsets : &column->values);
    if (column->kind == RP_COLUMN_TEXT || column->kind == RP_COLUMN_BINARY) {
        held->buffers[2] = move_buffer(&held->owned[2], &column->values);
        array->n_buffers = 3;
    }
    rp_column_free(column);
    return RP_OK;
}
