/* record_batch.c: see record_batch.h. Rows are collected in a block, so that each column takes a whole block in one loop. */
#include "record_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/slice_inl.h"
#include "column.h"
#include "record_columns.h"

/* The columns that show one property each. */
#define NAME_COLUMNS (1u << RP_RECORD_TAGS | 1u << RP_RECORD_KEYS | 1u << RP_RECORD_MSG_ID)

struct rp_record_batch {
    rp_record_batch_options options;
    char broker_name[256];
    rp_record_context context;
    rp_buffer_pool *pool;                      /* held; for all columns */
    rp_column columns[RP_RECORD_COLUMN_COUNT]; /* initialised if their bit is in the mask */
    uint64_t last_bytes[RP_RECORD_COLUMN_COUNT]; /* size of each column's values in the last batch: the next one reserves as much */
    uint32_t last_rows;
    rp_message block[RP_RECORD_BLOCK_ROWS];
    uint32_t block_rows; /* rows that are counted, but not yet in the columns */
    int32_t broken;      /* a column could not grow: the columns no longer have one length */
    int32_t sys_flags;   /* of all rows, ORed */
    int64_t rows;
    int64_t last_queue_offset;
    uint64_t bytes; /* of the rows' records: cheap to count, and close to what the columns take */
};

static int is_picked(const rp_record_batch *batch, int column) { return (batch->options.column_mask >> column) & 1u; }

static int kind_of(const rp_record_batch *batch, int column) {
    return column == RP_RECORD_PROPERTIES && batch->options.properties_as_map ? RP_COLUMN_MAP : rp_record_columns[column].kind;
}

static int init_columns(rp_record_batch *batch) {
    int status = RP_OK;
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT && status == RP_OK; i++)
        if (is_picked(batch, i)) {
            int kind = kind_of(batch, i);
            status = rp_column_init(&batch->columns[i], kind, 1, batch->pool);
            if (status == RP_OK && batch->last_rows > 0 && kind != RP_COLUMN_MAP && kind != RP_COLUMN_BIT)
                status = rp_column_reserve(&batch->columns[i], batch->last_rows + RP_RECORD_BLOCK_ROWS, batch->last_bytes[i]);
        }
    batch->rows = 0;
    batch->bytes = 0;
    batch->sys_flags = 0;
    batch->last_queue_offset = -1;
    return status;
}

static void free_columns(rp_record_batch *batch) {
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT; i++)
        if (is_picked(batch, i))
            rp_column_free(&batch->columns[i]);
}

void rp_record_batch_options_default(rp_record_batch_options *options) {
    *options = (rp_record_batch_options){
        .column_mask = (1u << RP_RECORD_VALID) - 1,
        .broker_name = "",
        .rows_max = 10000,
        .bytes_max = 16u << 20,
    };
}

int rp_record_batch_create(const rp_record_batch_options *options, rp_buffer_pool *pool, rp_record_batch **created, rp_error *error) {
    if (options->rows_max < 1 || options->bytes_max < 1 || options->column_mask >> RP_RECORD_COLUMN_COUNT != 0)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                            "a record batch needs rows_max and bytes_max of at least 1 and known columns");
    rp_record_batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a record batch");
    batch->options = *options;
    snprintf(batch->broker_name, sizeof batch->broker_name, "%s", options->broker_name == NULL ? "" : options->broker_name);
    batch->options.broker_name = batch->broker_name;
    batch->context.broker_name = rp_slice_of(batch->broker_name);
    batch->context.properties_as_map = options->properties_as_map;
    batch->pool = pool != NULL ? pool : rp_buffer_pool_create();
    if (pool != NULL)
        rp_buffer_pool_hold(pool);
    if (batch->pool == NULL || init_columns(batch) < 0) {
        rp_record_batch_destroy(batch);
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a record batch");
    }
    *created = batch;
    return RP_OK;
}

void rp_record_batch_destroy(rp_record_batch *batch) {
    if (batch == NULL)
        return;
    free_columns(batch);
    rp_buffer_pool_drop(batch->pool);
    free(batch);
}

int64_t rp_record_batch_rows(const rp_record_batch *batch) { return batch->rows; }
int32_t rp_record_batch_sys_flags(const rp_record_batch *batch) { return batch->sys_flags; }
int64_t rp_record_batch_last_queue_offset(const rp_record_batch *batch) { return batch->last_queue_offset; }
int rp_record_batch_is_full(const rp_record_batch *batch) {
    return batch->rows >= batch->options.rows_max || batch->bytes >= batch->options.bytes_max;
}

const char *rp_record_batch_cause(int status) {
    return status == RP_E_NO_MEMORY ? "no memory for an Arrow batch; lower batchBytes or batchRows, or give the process more"
                                    : "a record does not fit into an Arrow batch, whose columns hold 2 GiB each; lower batchBytes";
}

int rp_record_batch_settle(rp_record_batch *batch) {
    uint32_t count = batch->block_rows;
    batch->block_rows = 0;
    /* The column of JSON texts finds them in its own pass. */
    int finds_names = is_picked(batch, RP_RECORD_PROPERTIES) && !batch->options.properties_as_map;
    if ((batch->options.column_mask & NAME_COLUMNS) && !finds_names)
        rp_record_context_find_names(&batch->context, batch->block, count);
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT && count > 0 && batch->broken == RP_OK; i++) {
        const rp_record_column_row *row = &rp_record_columns[i];
        if (is_picked(batch, i))
            batch->broken = row->fill(&batch->columns[i], &batch->context, row->member, batch->block, count);
    }
    return batch->broken;
}

/* Counts the message that was decoded behind the block's last one. */
static int take_row(rp_record_batch *batch) {
    const rp_message *message = &batch->block[batch->block_rows++];
    batch->rows++;
    batch->bytes += message->size;
    batch->sys_flags |= message->sys_flag;
    batch->last_queue_offset = message->queue_offset;
    return batch->block_rows == RP_RECORD_BLOCK_ROWS ? rp_record_batch_settle(batch) : batch->broken;
}

int rp_record_batch_put(rp_record_batch *batch, const rp_message *message) {
    if (rp_record_batch_is_full(batch))
        return RP_E_BUSY;
    batch->block[batch->block_rows] = *message;
    return take_row(batch);
}

int rp_record_batch_put_damage(rp_record_batch *batch, int64_t commit_log_offset, const char *damage) {
    if (rp_record_batch_is_full(batch))
        return RP_E_BUSY;
    int status = rp_record_batch_settle(batch);
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT && status == RP_OK; i++) {
        rp_column *column = &batch->columns[i];
        if (!is_picked(batch, i))
            continue;
        if (i == RP_RECORD_COMMIT_LOG_OFFSET) {
            const rp_message message = {.physical_offset = commit_log_offset};
            status = rp_record_columns[i].fill(column, &batch->context, rp_record_columns[i].member, &message, 1);
        } else if (i == RP_RECORD_VALID) {
            status = rp_column_put_bit(column, 0);
        } else if (i == RP_RECORD_DAMAGE) {
            status = rp_column_put_bytes(column, damage, (uint32_t)strlen(damage));
        } else {
            status = rp_column_put_nulls(column, 1);
        }
    }
    batch->broken = status;
    batch->rows += status == RP_OK;
    return status;
}

int64_t rp_record_batch_put_records(rp_record_batch *batch, const uint8_t *data, uint64_t size, int check_crc, int64_t first_queue_offset,
                                    int64_t last_queue_offset, rp_error *error) {
    uint64_t position = 0;
    int status = RP_OK, kind = RP_RECORD_MESSAGE;
    while (status == RP_OK && size - position >= 8 && !rp_record_batch_is_full(batch)) {
        uint32_t record_size = rp_get_u32(data + position);
        if (record_size > size - position)
            break; /* the rest of the record comes with the next piece */
        rp_message *message = &batch->block[batch->block_rows];
        kind = rp_message_decode(data + position, size - position, check_crc, message, error);
        if (kind != RP_RECORD_MESSAGE)
            break;
        uint32_t used = message->size;
        if (message->queue_offset >= first_queue_offset && message->queue_offset <= last_queue_offset)
            status = take_row(batch);
        position += used;
    }
    if (status == RP_OK)
        status = rp_record_batch_settle(batch);
    if (status < 0)
        return rp_error_set(error, status, 0, NULL, (int64_t)position, "%s", rp_record_batch_cause(status));
    if (kind < 0 && error != NULL)
        error->offset = (int64_t)position;
    if (kind < 0)
        return kind;
    return kind == RP_RECORD_MESSAGE ? (int64_t)position : (int64_t)size; /* padding or unwritten space: nothing follows */
}

/* ---- export ---- */

typedef struct exported_schema {
    struct ArrowSchema children[RP_RECORD_COLUMN_COUNT];
    struct ArrowSchema *pointers[RP_RECORD_COLUMN_COUNT];
    struct ArrowSchema map_pairs, map_fields[2];
    struct ArrowSchema *map_pointer, *map_field_pointers[2];
} exported_schema;

typedef struct exported_array {
    struct ArrowArray children[RP_RECORD_COLUMN_COUNT];
    struct ArrowArray *pointers[RP_RECORD_COLUMN_COUNT];
    const void *buffers[1];
} exported_array;

/* A receiver may have moved children out (their release is then NULL). All memory is one block, freed with the parent. */
static void release_child_schema(struct ArrowSchema *schema) { schema->release = NULL; }

static void release_schema(struct ArrowSchema *schema) {
    free(schema->private_data);
    schema->release = NULL;
}

static void release_batch(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release != NULL)
            array->children[i]->release(array->children[i]);
    free(array->private_data);
    array->release = NULL;
}

static struct ArrowSchema leaf(const char *name, const char *format, int is_nullable) {
    return (struct ArrowSchema){
        .format = format, .name = name, .flags = is_nullable ? RP_ARROW_FLAG_NULLABLE : 0, .release = release_child_schema};
}

static void describe_map(exported_schema *held, struct ArrowSchema *schema) {
    held->map_fields[0] = leaf("key", "u", 0);
    held->map_fields[1] = leaf("value", "u", 1);
    for (int i = 0; i < 2; i++)
        held->map_field_pointers[i] = &held->map_fields[i];
    held->map_pairs = leaf("entries", "+s", 0);
    held->map_pairs.n_children = 2;
    held->map_pairs.children = held->map_field_pointers;
    held->map_pointer = &held->map_pairs;
    schema->format = "+m";
    schema->n_children = 1;
    schema->children = &held->map_pointer;
}

static exported_schema *describe(const rp_record_batch *batch, struct ArrowSchema *schema) {
    exported_schema *held = calloc(1, sizeof *held);
    if (held == NULL)
        return NULL;
    int64_t count = 0;
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT; i++) {
        if (!is_picked(batch, i))
            continue;
        held->children[count] = leaf(rp_record_columns[i].name, rp_record_columns[i].format, 1);
        if (kind_of(batch, i) == RP_COLUMN_MAP)
            describe_map(held, &held->children[count]);
        held->pointers[count] = &held->children[count];
        count++;
    }
    *schema = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = count, .children = held->pointers, .release = release_schema, .private_data = held};
    return held;
}

int rp_record_batch_export(rp_record_batch *batch, struct ArrowArray *array, struct ArrowSchema *schema) {
    if (rp_record_batch_settle(batch) < 0)
        return batch->broken;
    exported_array *held = calloc(1, sizeof *held);
    if (held == NULL || describe(batch, schema) == NULL) {
        free(held);
        return RP_E_NO_MEMORY;
    }
    *array = (struct ArrowArray){.length = batch->rows,
                                 .n_buffers = 1,
                                 .buffers = held->buffers,
                                 .children = held->pointers,
                                 .release = release_batch,
                                 .private_data = held};
    batch->last_rows = (uint32_t)batch->rows;
    int status = RP_OK;
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT && status == RP_OK; i++) {
        if (!is_picked(batch, i))
            continue;
        batch->last_bytes[i] = batch->columns[i].values.size;
        held->pointers[array->n_children] = &held->children[array->n_children];
        status = rp_column_export(&batch->columns[i], &held->children[array->n_children]);
        if (status == RP_OK)
            array->n_children++;
    }
    if (status == RP_OK)
        status = init_columns(batch);
    if (status < 0) {
        array->release(array);
        schema->release(schema);
    }
    return status;
}
