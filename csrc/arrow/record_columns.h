/* record_columns.h: the columns of a record table: the name and Arrow type of each, and how messages fill it. Private to csrc/arrow.
 *
 * Messages come in blocks: a column takes the same member of all of them in one loop.
 */
#ifndef RP_ARROW_RECORD_COLUMNS_H
#define RP_ARROW_RECORD_COLUMNS_H

#include <stdint.h>

#include "../base/slice.h"
#include "../store/message.h"
#include "column.h"
#include "record_batch.h"
#include "record_text.h"

#define RP_RECORD_BLOCK_ROWS 64

/* A host as text. Neighbouring records usually have the same host. */
typedef struct rp_host_memo {
    uint8_t host[20];
    uint32_t host_size;
    char text[RP_HOST_TEXT_MAX];
    uint32_t text_size; /* 0: not a host */
} rp_host_memo;

typedef struct rp_record_context {
    rp_slice broker_name;
    int32_t properties_as_map;
    rp_host_memo born_host, store_host;
    /* Of the block's rows; filled by the column of JSON texts or, without that, by rp_record_context_find_names. */
    rp_record_names names[RP_RECORD_BLOCK_ROWS];
} rp_record_context;

/* Fills context->names for a block of at most RP_RECORD_BLOCK_ROWS messages. To be called before the columns, unless properties are JSON
 * texts. */
void rp_record_context_find_names(rp_record_context *context, const rp_message *messages, uint32_t count);

typedef struct rp_record_column_row {
    const char *name;
    const char *format; /* of the Arrow C data interface */
    int32_t kind;
    /* Appends a row for each message. RP_OK, RP_E_NO_MEMORY, RP_E_TOO_LARGE. member: offset in rp_message or rp_record_names, for
     * columns that show a single member. */
    int (*fill)(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count);
    uint32_t member;
} rp_record_column_row;

extern const rp_record_column_row rp_record_columns[RP_RECORD_COLUMN_COUNT];

#endif
