/* sink_message.h: makes one message of a send-batch request from one row of a sink's batch. Private to csrc/arrow.
 * RocketMQ: MessageDecoder.encodeMessage, MessageConst (5.3.3 common/message/).
 *
 * Layout   [4 size][4 0][4 0][4 flag][4 body size][body][2 properties size][properties] properties: UNIQ_KEY (id prefix and row number
 *          in eight hex digits), then the pairs of the map or JSON, then the properties that have a column: TAGS, KEYS, __SHARDINGKEY,
 *          DELAY or TIMER_DELIVER_MS. Pairs of the map or JSON are left out if a column sets the same property, or if brokers or clients
 *          write the property themselves.
 * Threads  one owner.
 * Owns     its buffers.
 */
#ifndef RP_ARROW_SINK_MESSAGE_H
#define RP_ARROW_SINK_MESSAGE_H

#include <stdint.h>

#include "column.h"
#include "message_rows.h"

#define RP_ID_PREFIX_SIZE 24

typedef struct rp_sink_message {
    rp_bytes bytes; /* the message made last; the caller may take the buffer and leave an empty one */
    int32_t flag;
    int32_t is_delayed; /* RocketMQ accepts it only alone */
    rp_bytes scratch;
} rp_sink_message;

void rp_sink_message_free(rp_sink_message *message);

/* Makes the message of a row. number: names the row in ids and errors. group: the row's message group, data NULL: none. RP_OK;
 * RP_E_INVALID,
 * RP_E_TOO_LARGE, RP_E_NO_MEMORY, with the row in error. */
int rp_sink_message_make(rp_sink_message *message, const rp_message_rows *rows, int64_t row, int64_t number,
                         const uint8_t id_prefix[RP_ID_PREFIX_SIZE], rp_slice group, rp_error *error);

/* Fills error with "row number: …" and returns status. */
int rp_sink_row_refuse(rp_error *error, int64_t number, int status, const char *format, ...);

#endif
