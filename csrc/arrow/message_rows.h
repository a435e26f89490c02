/* message_rows.h: the rows of an Arrow record batch as the parts of messages: the columns of the Spark sink. Private to csrc/arrow.
 *
 * Columns  body (binary or text, the only one that must be there); text: topic, tags, keys, messageGroup; properties, a
 *          map<string,string> or a JSON object as text; 32-bit: flag, queueId, delayLevel; 64- or 32-bit: deliverTimeMs.
 *          Others are left alone: a table that was read may be written as it is.
 * Layouts  text and binary with 32- or 64-bit offsets, slices of longer arrays included.
 * Threads  pure; slices point into the batch, which the caller keeps.
 */
#ifndef RP_ARROW_MESSAGE_ROWS_H
#define RP_ARROW_MESSAGE_ROWS_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"
#include "arrow_abi.h"

enum rp_sink_column {
    RP_SINK_BODY = 0,
    RP_SINK_TOPIC = 1,
    RP_SINK_TAGS = 2,
    RP_SINK_KEYS = 3,
    RP_SINK_PROPERTIES = 4,
    RP_SINK_MESSAGE_GROUP = 5,
    RP_SINK_FLAG = 6,
    RP_SINK_QUEUE_ID = 7,
    RP_SINK_DELAY_LEVEL = 8,
    RP_SINK_DELIVER_TIME_MS = 9
};
#define RP_SINK_COLUMN_COUNT 10

typedef struct rp_array_view {
    char type;            /* 'u' bytes with 32-bit offsets, 'U' with 64-bit ones, 'i' int32, 'l' int64, 'm' map, 0: not there */
    int64_t offset;       /* of row 0 in the buffers */
    const uint8_t *validity; /* NULL: no row is null */
    const void *offsets;
    const uint8_t *values;
} rp_array_view;

typedef struct rp_message_rows {
    int64_t count;
    rp_array_view columns[RP_SINK_COLUMN_COUNT];
    rp_array_view map_keys, map_items; /* of properties */
} rp_message_rows;

/* RP_OK, or RP_E_INVALID: no struct array, no body, a layout that is not known. */
int rp_message_rows_bind(rp_message_rows *rows, const struct ArrowSchema *schema, const struct ArrowArray *array, rp_error *error);

/* A text or binary column of one row; data NULL when it is null or not there. Past 2 GiB the row is RP_E_TOO_LARGE. */
int rp_message_rows_text(const rp_message_rows *rows, enum rp_sink_column column, int64_t row, rp_slice *text);
/* A number of one row: 1, or 0 when it is null or not there. */
int rp_message_rows_number(const rp_message_rows *rows, enum rp_sink_column column, int64_t row, int64_t *number);

int rp_message_rows_has_map(const rp_message_rows *rows);
/* The pairs of the map of one row: first..end-1 (none when it is null). RP_E_INVALID when the offsets run backwards. */
int rp_message_rows_map(const rp_message_rows *rows, int64_t row, int64_t *first, int64_t *end);
/* One pair; value->data NULL: null. */
int rp_message_rows_pair(const rp_message_rows *rows, int64_t pair, rp_slice *name, rp_slice *value);

#endif
