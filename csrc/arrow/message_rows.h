/* message_rows.h: reads the rows of an Arrow record batch as parts of messages: the columns of the Spark sink. Private to csrc/arrow.
 *
 * Columns  body (binary or text, the only one that is required); text: topic, tags, keys, messageGroup; properties, a
 *          map<string,string> or a JSON object as text; 32-bit: flag, queueId, delayLevel; 64- or 32-bit: deliverTimeMs.
 *          Others are ignored, so that a table that was read can be written as it is.
 * Layouts  text and binary with 32- or 64-bit offsets, also as slices of longer arrays.
 * Threads  pure functions; slices point into the batch, which the caller keeps.
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
    char type;            /* 'u' bytes with 32-bit offsets, 'U' with 64-bit ones, 'i' int32, 'l' int64, 'm' map, 0: no such column */
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

/* RP_OK; RP_E_INVALID: not a struct array, no body, or an unsupported layout. */
int rp_message_rows_bind(rp_message_rows *rows, const struct ArrowSchema *schema, const struct ArrowArray *array, rp_error *error);

/* Reads text or binary of one row; data NULL: it is null, or there is no such column. RP_OK; RP_E_TOO_LARGE: more than 2 GiB. */
int rp_message_rows_text(const rp_message_rows *rows, enum rp_sink_column column, int64_t row, rp_slice *text);
/* Reads a number of one row. Returns 1; 0: it is null, or there is no such column. */
int rp_message_rows_number(const rp_message_rows *rows, enum rp_sink_column column, int64_t row, int64_t *number);

int rp_message_rows_has_map(const rp_message_rows *rows);
/* Finds the pairs of one row's map: from *first to before *end, none if it is null. RP_OK; RP_E_INVALID: the offsets run backwards. */
int rp_message_rows_map(const rp_message_rows *rows, int64_t row, int64_t *first, int64_t *end);
/* Reads one pair; value->data NULL: its value is null. */
int rp_message_rows_pair(const rp_message_rows *rows, int64_t pair, rp_slice *name, rp_slice *value);

#endif
