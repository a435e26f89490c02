/* record_batch.c: see record_batch.h. A table of columns: name, kind, and the function that puts one message's value. */
#include "record_batch.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "column.h"
#include "record_text.h"

struct rp_record_batch {
    rp_record_batch_options options;
    char broker_name[256];
    rp_slice broker;
    rp_column columns[RP_RECORD_COLUMN_COUNT]; /* those of the mask are initialised */
    int64_t rows;
    int64_t last_queue_offset;
    uint64_t bytes; /* a cheap running estimate against bytes_max: record sizes, not buffer sizes */
};

typedef struct put_context {
    rp_record_batch *batch;
    const rp_message *message;
    const char *damage;
} put_context;

typedef int put_function(rp_column *column, const put_context *context);

static int put_slice(rp_column *column, rp_slice slice) { return rp_column_put_bytes(column, slice.data, slice.size); }

static int put_property(rp_column *column, const put_context *context, const char *name) {
    rp_slice value = rp_message_property(context->message->properties, name);
    return value.data == NULL ? rp_column_put_null(column) : put_slice(column, value);
}

static int put_topic(rp_column *column, const put_context *context) { return put_slice(column, context->message->topic); }
static int put_flag(rp_column *column, const put_context *context) { return rp_column_put_i32(column, context->message->flag); }
static int put_body(rp_column *column, const put_context *context) { return put_slice(column, context->message->body); }

static int put_properties(rp_column *column, const put_context *context) {
    rp_slice properties = context->message->properties;
    if (context->batch->options.properties_as_map) {
        rp_slice name, value;
        while (rp_properties_next(&properties, &name, &value)) {
            int status = rp_column_put_map_pair(column, name, value);
            if (status < 0)
                return status;
        }
        return rp_column_end_map(column);
    }
    uint8_t json[RP_PROPERTIES_JSON_MAX];
    return rp_column_put_bytes(column, json, rp_properties_to_json(properties, json));
}

static int put_broker_name(rp_column *column, const put_context *context) { return put_slice(column, context->batch->broker); }
static int put_queue_id(rp_column *column, const put_context *context) { return rp_column_put_i32(column, context->message->queue_id); }
static int put_queue_offset(rp_column *column, const put_context *context) {
    return rp_column_put_i64(column, context->message->queue_offset);
}

/* Arrow timestamps here are microseconds; a damaged record's nonsense must not overflow. */
static int put_ms(rp_column *column, int64_t ms) {
    return ms > INT64_MAX / 1000 || ms < INT64_MIN / 1000 ? rp_column_put_null(column) : rp_column_put_i64(column, ms * 1000);
}
static int put_born_timestamp(rp_column *column, const put_context *context) { return put_ms(column, context->message->born_timestamp_ms); }
static int put_store_timestamp(rp_column *column, const put_context *context) {
    return put_ms(column, context->message->store_timestamp_ms);
}
static int put_tags(rp_column *column, const put_context *context) { return put_property(column, context, "TAGS"); }
static int put_keys(rp_column *column, const put_context *context) { return put_property(column, context, "KEYS"); }

static int put_offset_msg_id(rp_column *column, const put_context *context) {
    char id[RP_OFFSET_MSG_ID_MAX];
    return rp_column_put_bytes(column, id, rp_offset_msg_id(context->message->store_host, context->message->physical_offset, id));
}

/* As a Java client shows it: the client's id when there is one, else the broker's. */
static int put_msg_id(rp_column *column, const put_context *context) {
    rp_slice value = rp_message_property(context->message->properties, "UNIQ_KEY");
    return value.data == NULL ? put_offset_msg_id(column, context) : put_slice(column, value);
}

static int put_body_crc(rp_column *column, const put_context *context) {
    return rp_column_put_i32(column, (int32_t)context->message->body_crc);
}
static int put_commit_log_offset(rp_column *column, const put_context *context) {
    return rp_column_put_i64(column, context->message->physical_offset);
}
static int put_sys_flag(rp_column *column, const put_context *context) { return rp_column_put_i32(column, context->message->sys_flag); }
static int put_reconsume_times(rp_column *column, const put_context *context) {
    return rp_column_put_i32(column, context->message->reconsume_times);
}

static int put_host(rp_column *column, rp_slice host) {
    char text[RP_HOST_TEXT_MAX];
    uint32_t size = rp_host_to_text(host, text);
    return size == 0 ? rp_column_put_null(column) : rp_column_put_bytes(column, text, size);
}
static int put_born_host(rp_column *column, const put_context *context) { return put_host(column, context->message->born_host); }
static int put_store_host(rp_column *column, const put_context *context) { return put_host(column, context->message->store_host); }
static int put_prepared(rp_column *column, const put_context *context) {
    return rp_column_put_i64(column, context->message->prepared_transaction_offset);
}
static int put_valid(rp_column *column, const put_context *context) { return rp_column_put_bit(column, context->damage == NULL); }
static int put_damage(rp_column *column, const put_context *context) {
    return context->damage == NULL ? rp_column_put_null(column)
                                   : rp_column_put_bytes(column, context->damage, (uint32_t)strlen(context->damage));
}

typedef struct column_row {
    const char *name;
    const char *format; /* of the Arrow C data interface */
    int32_t kind;
    put_function *put;
} column_row;

static const column_row COLUMNS[RP_RECORD_COLUMN_COUNT] = {
    [RP_RECORD_TOPIC] = {"topic", "u", RP_COLUMN_TEXT, put_topic},
    [RP_RECORD_FLAG] = {"flag", "i", RP_COLUMN_INT32, put_flag},
    [RP_RECORD_BODY] = {"body", "z", RP_COLUMN_BINARY, put_body},
    [RP_RECORD_PROPERTIES] = {"properties", "u", RP_COLUMN_TEXT, put_properties},
    [RP_RECORD_BROKER_NAME] = {"brokerName", "u", RP_COLUMN_TEXT, put_broker_name},
    [RP_RECORD_QUEUE_ID] = {"queueId", "i", RP_COLUMN_INT32, put_queue_id},
    [RP_RECORD_QUEUE_OFFSET] = {"queueOffset", "l", RP_COLUMN_INT64, put_queue_offset},
    [RP_RECORD_BORN_TIMESTAMP] = {"bornTimestamp", "tsu:UTC", RP_COLUMN_INT64, put_born_timestamp},
    [RP_RECORD_STORE_TIMESTAMP] = {"storeTimestamp", "tsu:UTC", RP_COLUMN_INT64, put_store_timestamp},
    [RP_RECORD_TAGS] = {"tags", "u", RP_COLUMN_TEXT, put_tags},
    [RP_RECORD_KEYS] = {"keys", "u", RP_COLUMN_TEXT, put_keys},
    [RP_RECORD_MSG_ID] = {"msgId", "u", RP_COLUMN_TEXT, put_msg_id},
    [RP_RECORD_OFFSET_MSG_ID] = {"offsetMsgId", "u", RP_COLUMN_TEXT, put_offset_msg_id},
    [RP_RECORD_BODY_CRC] = {"bodyCrc", "i", RP_COLUMN_INT32, put_body_crc},
    [RP_RECORD_COMMIT_LOG_OFFSET] = {"commitLogOffset", "l", RP_COLUMN_INT64, put_commit_log_offset},
    [RP_RECORD_SYS_FLAG] = {"sysFlag", "i", RP_COLUMN_INT32, put_sys_flag},
    [RP_RECORD_RECONSUME_TIMES] = {"reconsumeTimes", "i", RP_COLUMN_INT32, put_reconsume_times},
    [RP_RECORD_BORN_HOST] = {"bornHost", "u", RP_COLUMN_TEXT, put_born_host},
    [RP_RECORD_STORE_HOST] = {"storeHost", "u", RP_COLUMN_TEXT, put_store_host},
    [RP_RECORD_PREPARED_TRANSACTION_OFFSET] = {"preparedTransactionOffset", "l", RP_COLUMN_INT64, put_prepared},
    [RP_RECORD_VALID] = {"valid", "b", RP_COLUMN_BIT, put_valid},
    [RP_RECORD_DAMAGE] = {"damage", "u", RP_COLUMN_TEXT, put_damage},
};

static int is_picked(const rp_record_batch *batch, int column) { return (batch->options.column_mask >> column) & 1u; }

static int kind_of(const rp_record_batch *batch, int column) {
    return column == RP_RECORD_PROPERTIES && batch->options.properties_as_map ? RP_COLUMN_MAP : COLUMNS[column].kind;
}

static int init_columns(rp_record_batch *batch) {
    int status = RP_OK;
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT && status == RP_OK; i++)
        if (is_picked(batch, i))
            status = rp_column_init(&batch->columns[i], kind_of(batch, i), 1);
    batch->rows = 0;
    batch->bytes = 0;
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

int rp_record_batch_create(const rp_record_batch_options *options, rp_record_batch **created, rp_error *error) {
    if (options->rows_max < 1 || options->bytes_max < 1 || options->column_mask >> RP_RECORD_COLUMN_COUNT != 0)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                            "a record batch needs rows_max and bytes_max of at least 1 and known columns");
    rp_record_batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a record batch");
    batch->options = *options;
    snprintf(batch->broker_name, sizeof batch->broker_name, "%s", options->broker_name == NULL ? "" : options->broker_name);
    batch->options.broker_name = batch->broker_name;
    batch->broker = (rp_slice){(const uint8_t *)batch->broker_name, (uint32_t)strlen(batch->broker_name)};
    if (init_columns(batch) < 0) {
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
    free(batch);
}

int64_t rp_record_batch_rows(const rp_record_batch *batch) { return batch->rows; }
int64_t rp_record_batch_last_queue_offset(const rp_record_batch *batch) { return batch->last_queue_offset; }
int rp_record_batch_is_full(const rp_record_batch *batch) {
    return batch->rows >= batch->options.rows_max || batch->bytes >= batch->options.bytes_max;
}

int rp_record_batch_put(rp_record_batch *batch, const rp_message *message, const char *damage) {
    if (rp_record_batch_is_full(batch))
        return RP_E_BUSY;
    put_context context = {batch, message, damage};
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT; i++) {
        if (!is_picked(batch, i))
            continue;
        int status = COLUMNS[i].put(&batch->columns[i], &context);
        if (status < 0)
            return status;
    }
    batch->rows++;
    batch->bytes += message->size;
    batch->last_queue_offset = message->queue_offset;
    return RP_OK;
}

int rp_record_batch_put_damage(rp_record_batch *batch, int64_t commit_log_offset, const char *damage) {
    if (rp_record_batch_is_full(batch))
        return RP_E_BUSY;
    const rp_message message = {.physical_offset = commit_log_offset};
    put_context context = {batch, &message, damage};
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT; i++) {
        if (!is_picked(batch, i))
            continue;
        int is_known = i == RP_RECORD_COMMIT_LOG_OFFSET || i == RP_RECORD_VALID || i == RP_RECORD_DAMAGE;
        int status = is_known ? COLUMNS[i].put(&batch->columns[i], &context) : rp_column_put_null(&batch->columns[i]);
        if (status < 0)
            return status;
    }
    batch->rows++;
    return RP_OK;
}

int64_t rp_record_batch_put_records(rp_record_batch *batch, const uint8_t *data, uint64_t size, int check_crc, int64_t first_queue_offset,
                                    int64_t last_queue_offset, rp_error *error) {
    uint64_t position = 0;
    while (size - position >= 8 && !rp_record_batch_is_full(batch)) {
        uint32_t record_size = rp_get_u32(data + position);
        if (record_size > size - position)
            break; /* the rest of it comes with the next piece */
        rp_message message;
        int kind = rp_message_decode(data + position, size - position, check_crc, &message, error);
        if (kind < 0) {
            if (error != NULL)
                error->offset = (int64_t)position;
            return kind;
        }
        if (kind != RP_RECORD_MESSAGE)
            return (int64_t)size; /* padding or unwritten space: nothing behind it */
        if (message.queue_offset >= first_queue_offset && message.queue_offset <= last_queue_offset) {
            int status = rp_record_batch_put(batch, &message, NULL);
            if (status < 0)
                return rp_error_set(error, status, 0, NULL, (int64_t)position, "a record does not fit into an Arrow batch");
        }
        position += message.size;
    }
    return (int64_t)position;
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

/* A receiver may move children out (then their release is NULL) but the block is one: freed with the parent. */
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
        held->children[count] = leaf(COLUMNS[i].name, COLUMNS[i].format, 1);
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
    int status = RP_OK;
    for (int i = 0; i < RP_RECORD_COLUMN_COUNT && status == RP_OK; i++) {
        if (!is_picked(batch, i))
            continue;
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
