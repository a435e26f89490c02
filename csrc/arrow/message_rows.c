/* message_rows.c: see message_rows.h. */
#include "message_rows.h"

#include <string.h>

/* What an empty text points at, because the buffer of empty rows may be NULL. */
static const uint8_t NOTHING[1];

static const struct sink_column {
    const char *name;
    const char *types; /* of rp_array_view */
    const char *wanted;
} COLUMNS[RP_SINK_COLUMN_COUNT] = {
    [RP_SINK_BODY] = {"body", "uU", "binary or text"},
    [RP_SINK_TOPIC] = {"topic", "uU", "text"},
    [RP_SINK_TAGS] = {"tags", "uU", "text"},
    [RP_SINK_KEYS] = {"keys", "uU", "text"},
    [RP_SINK_PROPERTIES] = {"properties", "uUm", "a map of texts, or JSON text"},
    [RP_SINK_MESSAGE_GROUP] = {"messageGroup", "uU", "text"},
    [RP_SINK_FLAG] = {"flag", "i", "a 32-bit number"},
    [RP_SINK_QUEUE_ID] = {"queueId", "i", "a 32-bit number"},
    [RP_SINK_DELAY_LEVEL] = {"delayLevel", "i", "a 32-bit number"},
    [RP_SINK_DELIVER_TIME_MS] = {"deliverTimeMs", "il", "a 64- or 32-bit number"},
};

static char type_of(const struct ArrowSchema *schema) {
    const char *format = schema->format;
    if (schema->dictionary != NULL)
        return '?';
    if (strcmp(format, "u") == 0 || strcmp(format, "z") == 0)
        return 'u';
    if (strcmp(format, "U") == 0 || strcmp(format, "Z") == 0)
        return 'U';
    if (strcmp(format, "i") == 0 || strcmp(format, "l") == 0)
        return format[0];
    return strcmp(format, "+m") == 0 ? 'm' : '?';
}

static int64_t buffers_of(char type) { return type == 'u' || type == 'U' ? 3 : 2; }

/* skipped: rows of the parent before its row 0. */
static int view(rp_array_view *target, const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t skipped) {
    char type = type_of(schema);
    if (type == '?' || array->n_buffers != buffers_of(type) || array->offset < 0 || skipped < 0 ||
        (array->length > 0 && array->buffers[1] == NULL))
        return RP_E_INVALID;
    *target = (rp_array_view){.type = type, .offset = array->offset + skipped, .validity = array->buffers[0]};
    if (type == 'i' || type == 'l') {
        target->values = array->buffers[1];
    } else {
        target->offsets = array->buffers[1];
        target->values = type == 'm' || array->buffers[2] == NULL ? NOTHING : array->buffers[2];
    }
    return RP_OK;
}

static int view_map(rp_message_rows *rows, const struct ArrowSchema *schema, const struct ArrowArray *array) {
    if (schema->n_children != 1 || array->n_children != 1 || schema->children[0]->n_children != 2 || array->children[0]->n_children != 2)
        return RP_E_INVALID;
    const struct ArrowSchema *pair_schema = schema->children[0];
    const struct ArrowArray *pairs = array->children[0];
    int status = view(&rows->map_keys, pair_schema->children[0], pairs->children[0], pairs->offset);
    if (status == RP_OK)
        status = view(&rows->map_items, pair_schema->children[1], pairs->children[1], pairs->offset);
    int is_text = (rows->map_keys.type | 0x20) == 'u' && (rows->map_items.type | 0x20) == 'u';
    return status == RP_OK && is_text ? RP_OK : RP_E_INVALID;
}

int rp_message_rows_bind(rp_message_rows *rows, const struct ArrowSchema *schema, const struct ArrowArray *array, rp_error *error) {
    *rows = (rp_message_rows){.count = array->length};
    if (strcmp(schema->format, "+s") != 0 || schema->n_children != array->n_children)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "rows come as an Arrow record batch, not as an array of format %s",
                            schema->format);
    for (int64_t child = 0; child < schema->n_children; child++) {
        for (int column = 0; column < RP_SINK_COLUMN_COUNT; column++) {
            const char *name = schema->children[child]->name; /* may be NULL: a column needs no name */
            if (name == NULL || strcmp(name, COLUMNS[column].name) != 0)
                continue;
            rp_array_view *target = &rows->columns[column];
            int status = view(target, schema->children[child], array->children[child], array->offset);
            if (status == RP_OK && target->type == 'm')
                status = view_map(rows, schema->children[child], array->children[child]);
            if (status < 0 || strchr(COLUMNS[column].types, target->type) == NULL)
                return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "column `%s` is of Arrow format %s; a sink takes %s",
                                    COLUMNS[column].name, schema->children[child]->format, COLUMNS[column].wanted);
        }
    }
    if (rows->columns[RP_SINK_BODY].type == 0)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "the column `body` is required (binary or string)");
    return RP_OK;
}

static int is_null(const rp_array_view *array, int64_t index) {
    return array->validity != NULL && (array->validity[index / 8] >> (index % 8) & 1) == 0;
}

static int text_at(const rp_array_view *array, int64_t index, rp_slice *text) {
    *text = (rp_slice){NULL, 0};
    if (is_null(array, index))
        return RP_OK;
    int64_t begin = 0, end = 0;
    if (array->type == 'u') {
        const int32_t *offsets = (const int32_t *)array->offsets + index;
        begin = offsets[0];
        end = offsets[1];
    } else {
        const int64_t *offsets = (const int64_t *)array->offsets + index;
        begin = offsets[0];
        end = offsets[1];
    }
    if (begin < 0 || end < begin)
        return RP_E_INVALID;
    if (end - begin > INT32_MAX)
        return RP_E_TOO_LARGE;
    *text = (rp_slice){array->values + begin, (uint32_t)(end - begin)};
    return RP_OK;
}

int rp_message_rows_text(const rp_message_rows *rows, enum rp_sink_column column, int64_t row, rp_slice *text) {
    const rp_array_view *array = &rows->columns[column];
    *text = (rp_slice){NULL, 0};
    return array->type == 0 ? RP_OK : text_at(array, array->offset + row, text);
}

int rp_message_rows_number(const rp_message_rows *rows, enum rp_sink_column column, int64_t row, int64_t *number) {
    const rp_array_view *array = &rows->columns[column];
    int64_t index = array->offset + row;
    if (array->type == 0 || is_null(array, index))
        return 0;
    *number =
        array->type == 'i' ? ((const int32_t *)(const void *)array->values)[index] : ((const int64_t *)(const void *)array->values)[index];
    return 1;
}

int rp_message_rows_has_map(const rp_message_rows *rows) { return rows->columns[RP_SINK_PROPERTIES].type == 'm'; }

int rp_message_rows_map(const rp_message_rows *rows, int64_t row, int64_t *first, int64_t *end) {
    const rp_array_view *array = &rows->columns[RP_SINK_PROPERTIES];
    int64_t index = array->offset + row;
    *first = *end = 0;
    if (is_null(array, index))
        return RP_OK;
    const int32_t *offsets = (const int32_t *)array->offsets + index;
    *first = offsets[0];
    *end = offsets[1];
    return *first < 0 || *end < *first ? RP_E_INVALID : RP_OK;
}

int rp_message_rows_pair(const rp_message_rows *rows, int64_t pair, rp_slice *name, rp_slice *value) {
    int status = text_at(&rows->map_keys, rows->map_keys.offset + pair, name);
    return status < 0 ? status : text_at(&rows->map_items, rows->map_items.offset + pair, value);
}
