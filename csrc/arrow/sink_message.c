/* sink_message.c: see sink_message.h. */
#include "sink_message.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hex_inl.h"
#include "../base/slice_inl.h"
#include "json_object.h"

#define PROPERTIES_SIZE_MAX 32767u
#define MESSAGE_HEAD 20 /* up to the body */
#define DELAY_LEVEL_MAX 18
#define NAME_END 1
#define VALUE_END 2
#define NAME_SHOWN_MAX 100

/* Properties that brokers and clients write themselves: they are not copied from a message that was read. */
static const rp_slice OWN_PROPERTIES[] = {
#define TEXT(text) {(const uint8_t *)text, sizeof text - 1}
    TEXT("UNIQ_KEY"), TEXT("WAIT"),    TEXT("MIN_OFFSET"), TEXT("MAX_OFFSET"), TEXT("MSG_REGION"),
    TEXT("TRACE_ON"), TEXT("CLUSTER"), TEXT("__CRC32#"),   TEXT("TRAN_MSG"),   TEXT("REAL_QID"),
};

/* Properties that ask a broker for a delay, and those that mark a message as delivered after one. With such a mark the delay is over,
 * though
 * RocketMQ leaves DELAY in the message. */
static const rp_slice DELAYS[] = {TEXT("DELAY"), TEXT("TIMER_DELIVER_MS"), TEXT("TIMER_DELAY_SEC"), TEXT("TIMER_DELAY_MS")};
static const rp_slice DELAY_MARKS[] = {TEXT("TIMER_OUT_MS"), TEXT("TIMER_ENQUEUE_MS"), TEXT("TIMER_DEQUEUE_MS"), TEXT("TIMER_ROLL_TIMES"),
                                       TEXT("REAL_TOPIC")};
#undef TEXT
#define COUNT(names) (sizeof names / sizeof *names)

/* The state while one row is made. */
typedef struct making {
    rp_sink_message *message;
    const rp_message_rows *rows;
    int64_t row, number;
    rp_slice tags, keys, group; /* from columns of their own; data NULL: the map or JSON decides */
    int has_delay;              /* from a column of its own: DELAY and the like in the map or JSON are left out */
    int was_delayed;            /* the message was delivered after a delay: its delays are left out */
    rp_error *error;
} making;

void rp_sink_message_free(rp_sink_message *message) {
    rp_bytes_free(&message->bytes);
    rp_bytes_free(&message->scratch);
    *message = (rp_sink_message){.flag = 0};
}

__attribute__((format(printf, 4, 5))) int rp_sink_row_refuse(rp_error *error, int64_t number, int status, const char *format, ...) {
    char cause[RP_ERROR_MESSAGE_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(cause, sizeof cause, format, values);
    va_end(values);
    return rp_error_set(error, status, 0, NULL, -1, "row %" PRId64 ": %s", number, cause);
}

static int shown_size(rp_slice name) { return (int)(name.size < NAME_SHOWN_MAX ? name.size : NAME_SHOWN_MAX); }

static int is_one_of(rp_slice name, const rp_slice *names, size_t count) {
    size_t i = 0;
    while (i < count && !rp_slice_equals(name, names[i]))
        i++;
    return i < count;
}

static int has_separator(rp_slice text) {
    return text.size > 0 && (memchr(text.data, NAME_END, text.size) != NULL || memchr(text.data, VALUE_END, text.size) != NULL);
}

static int put_property(making *make, rp_slice name, rp_slice value) {
    static const uint8_t name_end = NAME_END, value_end = VALUE_END;
    if (has_separator(name) || has_separator(value))
        return rp_sink_row_refuse(make->error, make->number, RP_E_INVALID, "property '%.*s' holds a separator byte (1 or 2)",
                                  shown_size(name), (const char *)name.data);
    rp_bytes *bytes = &make->message->bytes;
    if (rp_bytes_put(bytes, name.data, name.size) < 0 || rp_bytes_put(bytes, &name_end, 1) < 0 ||
        rp_bytes_put(bytes, value.data, value.size) < 0 || rp_bytes_put(bytes, &value_end, 1) < 0)
        return rp_sink_row_refuse(make->error, make->number, RP_E_NO_MEMORY, "no memory");
    return RP_OK;
}

/* Appends one pair of the column properties, unless it is to be left out. */
static int put_given(making *make, rp_slice name, rp_slice value) {
    if (value.data == NULL || (make->tags.data != NULL && rp_slice_is(name, "TAGS")) ||
        (make->keys.data != NULL && rp_slice_is(name, "KEYS")) || (make->group.data != NULL && rp_slice_is(name, "__SHARDINGKEY")))
        return RP_OK;
    int is_delay = is_one_of(name, DELAYS, COUNT(DELAYS)), is_mark = is_one_of(name, DELAY_MARKS, COUNT(DELAY_MARKS));
    make->was_delayed |= is_mark;
    if (is_mark || (is_delay && (make->was_delayed || make->has_delay)) || is_one_of(name, OWN_PROPERTIES, COUNT(OWN_PROPERTIES)))
        return RP_OK;
    make->message->is_delayed |= is_delay;
    return put_property(make, name, value);
}

static int put_map(making *make) {
    int64_t pair = 0, end = 0;
    int status = rp_message_rows_map(make->rows, make->row, &pair, &end);
    for (; status == RP_OK && pair < end; pair++) {
        rp_slice name, value;
        status = rp_message_rows_pair(make->rows, pair, &name, &value);
        int put_status = status == RP_OK && name.data != NULL ? put_given(make, name, value) : RP_OK;
        if (put_status < 0)
            return put_status;
    }
    return status == RP_OK ? RP_OK : rp_sink_row_refuse(make->error, make->number, status, "properties cannot be read");
}

static int put_json(making *make) {
    rp_slice text, name = {NULL, 0}, value;
    rp_bytes *scratch = &make->message->scratch;
    int status = rp_message_rows_text(make->rows, RP_SINK_PROPERTIES, make->row, &text);
    if (status == RP_OK && text.data == NULL)
        return RP_OK;
    if (status == RP_OK)
        status = rp_bytes_reserve(scratch, (uint64_t)text.size + 1);
    if (status < 0)
        return rp_sink_row_refuse(make->error, make->number, status, "properties cannot be read");
    rp_json_object object;
    status = rp_json_object_begin(&object, text, scratch->data);
    while (status >= 0 && (status = rp_json_object_next(&object, &name, &value)) == 1) {
        int put_status = put_given(make, name, value);
        if (put_status < 0)
            return put_status;
    }
    if (status == RP_E_UNSUPPORTED)
        return rp_sink_row_refuse(make->error, make->number, RP_E_INVALID, "property '%.*s' is an array or object; a property is a text",
                                  shown_size(name), (const char *)name.data);
    return status == 0 ? RP_OK : rp_sink_row_refuse(make->error, make->number, RP_E_INVALID, "properties are no JSON object");
}

static int put_delay(making *make) {
    int64_t level = 0, deliver_ms = 0;
    char digits[24];
    int has_level = rp_message_rows_number(make->rows, RP_SINK_DELAY_LEVEL, make->row, &level);
    int has_time = rp_message_rows_number(make->rows, RP_SINK_DELIVER_TIME_MS, make->row, &deliver_ms);
    if (has_level && has_time)
        return rp_sink_row_refuse(make->error, make->number, RP_E_INVALID, "delayLevel and deliverTimeMs exclude each other");
    if (!has_time && (!has_level || level == 0))
        return RP_OK;
    if (has_level && (level < 1 || level > DELAY_LEVEL_MAX))
        return rp_sink_row_refuse(make->error, make->number, RP_E_INVALID, "delayLevel %" PRId64 " is not 1 to %d", level, DELAY_LEVEL_MAX);
    make->message->is_delayed = 1;
    int size = snprintf(digits, sizeof digits, "%" PRId64, has_level ? level : deliver_ms);
    return put_property(make, rp_slice_of(has_level ? "DELAY" : "TIMER_DELIVER_MS"), (rp_slice){(const uint8_t *)digits, (uint32_t)size});
}

static int put_id(making *make, const uint8_t *id_prefix) {
    uint8_t id[RP_ID_PREFIX_SIZE + 8];
    memcpy(id, id_prefix, RP_ID_PREFIX_SIZE);
    rp_put_hex_u32(id + RP_ID_PREFIX_SIZE, (uint32_t)make->number); /* below RP_PACKER_ROWS_MAX */
    return put_property(make, rp_slice_of("UNIQ_KEY"), (rp_slice){id, sizeof id});
}

static int put_all_given(making *make) {
    uint64_t begin = make->message->bytes.size;
    int status = rp_message_rows_has_map(make->rows) ? put_map(make) : put_json(make);
    if (status < 0 || !make->was_delayed || !make->message->is_delayed)
        return status;
    make->message->bytes.size = begin; /* start over: a mark came after the delay */
    make->message->is_delayed = 0;
    return rp_message_rows_has_map(make->rows) ? put_map(make) : put_json(make);
}

static int put_properties(making *make, const uint8_t *id_prefix) {
    int status = put_id(make, id_prefix);
    if (status == RP_OK)
        status = put_all_given(make);
    if (status == RP_OK && make->tags.data != NULL)
        status = put_property(make, rp_slice_of("TAGS"), make->tags);
    if (status == RP_OK && make->keys.data != NULL)
        status = put_property(make, rp_slice_of("KEYS"), make->keys);
    if (status == RP_OK && make->group.data != NULL)
        status = put_property(make, rp_slice_of("__SHARDINGKEY"), make->group);
    return status == RP_OK ? put_delay(make) : status;
}

int rp_sink_message_make(rp_sink_message *message, const rp_message_rows *rows, int64_t row, int64_t number,
                         const uint8_t id_prefix[RP_ID_PREFIX_SIZE], rp_slice group, rp_error *error) {
    making make = {.message = message, .rows = rows, .row = row, .number = number, .group = group, .error = error};
    rp_slice body;
    int64_t flag = 0, number_of_delay;
    int status = rp_message_rows_text(rows, RP_SINK_BODY, row, &body);
    if (status == RP_OK)
        status = rp_message_rows_text(rows, RP_SINK_TAGS, row, &make.tags);
    if (status == RP_OK)
        status = rp_message_rows_text(rows, RP_SINK_KEYS, row, &make.keys);
    if (status < 0)
        return rp_sink_row_refuse(error, number, status, "body, tags or keys cannot be read");
    if (body.data == NULL)
        return rp_sink_row_refuse(error, number, RP_E_INVALID, "body is null");
    rp_message_rows_number(rows, RP_SINK_FLAG, row, &flag);
    make.has_delay = rp_message_rows_number(rows, RP_SINK_DELAY_LEVEL, row, &number_of_delay) ||
                     rp_message_rows_number(rows, RP_SINK_DELIVER_TIME_MS, row, &number_of_delay);
    message->flag = (int32_t)flag;
    message->is_delayed = 0;

    uint8_t head[MESSAGE_HEAD] = {0};
    rp_put_u32(head + 12, (uint32_t)flag);
    rp_put_u32(head + 16, body.size);
    rp_bytes *bytes = &message->bytes;
    bytes->size = 0;
    if (rp_bytes_put(bytes, head, sizeof head) < 0 || rp_bytes_put(bytes, body.data, body.size) < 0 || rp_bytes_put(bytes, head, 2) < 0)
        return rp_sink_row_refuse(error, number, RP_E_NO_MEMORY, "no memory for a message of %u bytes", body.size);
    uint64_t properties_at = bytes->size;
    status = put_properties(&make, id_prefix);
    if (status < 0)
        return status;
    uint64_t properties_size = bytes->size - properties_at;
    if (properties_size > PROPERTIES_SIZE_MAX)
        return rp_sink_row_refuse(error, number, RP_E_TOO_LARGE, "properties of %" PRIu64 " bytes; a message takes %u", properties_size,
                                  PROPERTIES_SIZE_MAX);
    rp_put_u16(bytes->data + properties_at - 2, (uint16_t)properties_size);
    rp_put_u32(bytes->data, (uint32_t)bytes->size);
    return RP_OK;
}
