/* message_packer.c: see message_packer.h. */
#include "message_packer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"
#include "message_rows.h"
#include "sink_message.h"

typedef struct open_parcel {
    rp_bytes bytes;
    int32_t rows, flag, is_ordered;
    int64_t first_row, last_row;
    uint64_t usual_bytes; /* size of the parcel before: the next one reserves as much */
} open_parcel;

typedef struct topic_queues {
    uint8_t *name;
    uint32_t name_size;
    uint32_t queue_count;
    int32_t *queue_ids;
    open_parcel *parcels; /* one for each queue, then one for any queue */
} topic_queues;

struct rp_message_packer {
    uint32_t rows_max, bytes_max;
    uint8_t id_prefix[RP_ID_PREFIX_SIZE];
    uint8_t *topic; /* of every row; NULL: the column says */
    uint32_t topic_size;
    topic_queues *topics;
    int32_t topic_count, last_topic;
    rp_message_rows rows;
    int64_t first_row, position; /* number of the batch's first row; index of its next row */
    rp_slice wanted_topic;
    rp_buffer_pool *pool; /* held; for all parcels */
    rp_sink_message message;
    int64_t message_position; /* the row that `message` was made of; -1: no row of this batch */
    uint64_t open_bytes;
    int32_t flush_topic;
    uint32_t flush_queue;
};

void rp_message_packer_options_default(rp_message_packer_options *options) {
    *options = (rp_message_packer_options){.id_prefix = "000000000000000000000000", .rows_max = 256, .bytes_max = 1u << 20};
}

int rp_message_packer_open(const rp_message_packer_options *options, rp_message_packer **opened, rp_error *error) {
    if (options->id_prefix == NULL || strlen(options->id_prefix) != RP_ID_PREFIX_SIZE || options->rows_max < 1 ||
        options->rows_max > INT32_MAX || options->bytes_max < 1)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "a packer takes an id prefix of 24 digits and bounds of at least 1");
    rp_message_packer *packer = calloc(1, sizeof *packer);
    if (packer == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a packer");
    packer->rows_max = options->rows_max;
    packer->bytes_max = options->bytes_max;
    memcpy(packer->id_prefix, options->id_prefix, RP_ID_PREFIX_SIZE);
    packer->topics = calloc(RP_PACKER_TOPICS_MAX, sizeof *packer->topics);
    if (options->topic != NULL) {
        packer->topic = (uint8_t *)strdup(options->topic);
        packer->topic_size = (uint32_t)strlen(options->topic);
    }
    packer->pool = rp_buffer_pool_create();
    if (packer->topics == NULL || packer->pool == NULL || (options->topic != NULL && packer->topic == NULL)) {
        rp_message_packer_close(packer);
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a packer");
    }
    packer->message.bytes.pool = packer->pool;
    *opened = packer;
    return RP_OK;
}

void rp_message_packer_close(rp_message_packer *packer) {
    if (packer == NULL)
        return;
    for (int32_t i = 0; i < packer->topic_count; i++) {
        topic_queues *topic = &packer->topics[i];
        for (uint32_t queue = 0; queue <= topic->queue_count; queue++)
            rp_bytes_free(&topic->parcels[queue].bytes);
        free(topic->parcels);
        free(topic->queue_ids);
        free(topic->name);
    }
    free(packer->topics);
    free(packer->topic);
    rp_sink_message_free(&packer->message);
    rp_buffer_pool_drop(packer->pool);
    free(packer);
}

/* ---- topics ---- */

static int32_t find_topic(rp_message_packer *packer, rp_slice name) {
    for (int32_t turn = 0; turn < packer->topic_count; turn++) {
        int32_t index = (packer->last_topic + turn) % packer->topic_count;
        const topic_queues *topic = &packer->topics[index];
        if (topic->name_size == name.size && memcmp(topic->name, name.data, name.size) == 0)
            return packer->last_topic = index;
    }
    return -1;
}

int rp_message_packer_put_topic(rp_message_packer *packer, rp_slice name, const int32_t *queue_ids, uint32_t queue_count) {
    if (name.size == 0 || queue_count == 0 || queue_count > RP_PACKER_QUEUES_MAX)
        return RP_E_INVALID;
    if (packer->topic_count == RP_PACKER_TOPICS_MAX)
        return RP_E_BUSY;
    if (find_topic(packer, name) >= 0)
        return RP_E_EXISTS;
    topic_queues topic = {
        .name = malloc(name.size),
        .name_size = name.size,
        .queue_count = queue_count,
        .queue_ids = malloc(queue_count * sizeof *queue_ids),
        .parcels = calloc((size_t)queue_count + 1, sizeof *topic.parcels),
    };
    if (topic.name == NULL || topic.queue_ids == NULL || topic.parcels == NULL) {
        free(topic.name);
        free(topic.queue_ids);
        free(topic.parcels);
        return RP_E_NO_MEMORY;
    }
    for (uint32_t queue = 0; queue <= queue_count; queue++)
        topic.parcels[queue].bytes.pool = packer->pool;
    memcpy(topic.name, name.data, name.size);
    memcpy(topic.queue_ids, queue_ids, queue_count * sizeof *queue_ids);
    packer->topics[packer->topic_count] = topic;
    packer->wanted_topic = (rp_slice){NULL, 0};
    return packer->topic_count++;
}

rp_slice rp_message_packer_wanted_topic(const rp_message_packer *packer) { return packer->wanted_topic; }

static int64_t row_number(const rp_message_packer *packer) { return packer->first_row + packer->position; }

/* ---- parcels ---- */

/* Finds the row's topic, as its number in *topic. RP_E_NOT_FOUND without an error text: the topic is not known yet. */
static int topic_of_row(rp_message_packer *packer, int32_t *topic, rp_error *error) {
    rp_slice name = {packer->topic, packer->topic_size};
    if (packer->topic == NULL) {
        if (rp_message_rows_text(&packer->rows, RP_SINK_TOPIC, packer->position, &name) < 0)
            return rp_sink_row_refuse(error, row_number(packer), RP_E_INVALID, "topic cannot be read");
        if (name.data == NULL || name.size == 0)
            return rp_sink_row_refuse(error, row_number(packer), RP_E_INVALID, "topic is null or empty, and there is no option 'topic'");
    }
    *topic = find_topic(packer, name);
    if (*topic >= 0)
        return RP_OK;
    packer->wanted_topic = name;
    return RP_E_NOT_FOUND;
}

/* Decides which of the topic's parcels takes the row: that of one queue, or the last one, for any queue. */
static int queue_of_row(rp_message_packer *packer, int32_t topic_number, rp_slice *group, uint32_t *queue, rp_error *error) {
    const topic_queues *topic = &packer->topics[topic_number];
    int64_t wanted = 0;
    if (rp_message_rows_text(&packer->rows, RP_SINK_MESSAGE_GROUP, packer->position, group) < 0)
        return rp_sink_row_refuse(error, row_number(packer), RP_E_INVALID, "messageGroup cannot be read");
    if (rp_message_rows_number(&packer->rows, RP_SINK_QUEUE_ID, packer->position, &wanted)) {
        uint32_t start = (uint32_t)((uint64_t)row_number(packer) % topic->queue_count);
        for (uint32_t turn = 0; turn < topic->queue_count; turn++) { /* several brokers may have a queue of this queueId: they take turns */
            *queue = (start + turn) % topic->queue_count;
            if (topic->queue_ids[*queue] == wanted)
                return RP_OK;
        }
        return rp_sink_row_refuse(error, row_number(packer), RP_E_NOT_FOUND, "topic '%.*s' has no writable queue %" PRId64,
                                  (int)(topic->name_size < 200 ? topic->name_size : 200), (const char *)topic->name, wanted);
    }
    *queue = topic->queue_count;
    if (group->data != NULL)
        *queue = (uint32_t)llabs((long long)rp_hash_java(group->data, group->size)) % topic->queue_count;
    return RP_OK;
}

void rp_message_parcel_release(rp_message_parcel *parcel) {
    if (parcel->pool == NULL)
        return;
    rp_buffer_pool_give(parcel->pool, parcel->data, parcel->capacity);
    rp_buffer_pool_drop(parcel->pool);
    *parcel = (rp_message_parcel){.data = NULL};
}

/* Makes a parcel of the bytes, which it takes over. */
static rp_message_parcel fill_parcel(rp_message_packer *packer, int32_t topic, uint32_t queue, rp_bytes *bytes) {
    rp_buffer_pool_hold(packer->pool);
    rp_message_parcel parcel = {
        .topic = topic,
        .queue = queue == packer->topics[topic].queue_count ? -1 : (int32_t)queue,
        .data = bytes->data,
        .size = bytes->size,
        .capacity = bytes->capacity,
        .pool = packer->pool,
    };
    *bytes = (rp_bytes){.pool = packer->pool};
    return parcel;
}

static void give_out(rp_message_packer *packer, int32_t topic, uint32_t queue, rp_message_parcel *parcel) {
    open_parcel *from = &packer->topics[topic].parcels[queue];
    packer->open_bytes -= from->bytes.size;
    from->usual_bytes = from->bytes.size;
    *parcel = fill_parcel(packer, topic, queue, &from->bytes);
    parcel->rows = from->rows;
    parcel->flag = from->flag;
    parcel->is_ordered = from->is_ordered;
    parcel->first_row = from->first_row;
    parcel->last_row = from->last_row;
    from->rows = 0;
}

static void give_row_alone(rp_message_packer *packer, int32_t topic, uint32_t queue, rp_message_parcel *parcel) {
    int64_t row = row_number(packer);
    *parcel = fill_parcel(packer, topic, queue, &packer->message.bytes);
    parcel->rows = 1;
    parcel->flag = packer->message.flag;
    parcel->is_delayed = 1;
    parcel->first_row = row;
    parcel->last_row = row;
}

static void give_largest(rp_message_packer *packer, rp_message_parcel *parcel) {
    int32_t topic = 0;
    uint32_t queue = 0;
    uint64_t size = 0;
    for (int32_t i = 0; i < packer->topic_count; i++) {
        for (uint32_t j = 0; j <= packer->topics[i].queue_count; j++) {
            if (packer->topics[i].parcels[j].bytes.size > size) {
                size = packer->topics[i].parcels[j].bytes.size;
                topic = i;
                queue = j;
            }
        }
    }
    give_out(packer, topic, queue, parcel);
}

static int append_row(rp_message_packer *packer, open_parcel *target, int is_ordered) {
    int status = target->rows == 0 ? rp_bytes_reserve(&target->bytes, target->usual_bytes) : RP_OK;
    if (status == RP_OK)
        status = rp_bytes_put(&target->bytes, packer->message.bytes.data, packer->message.bytes.size);
    if (status < 0)
        return status;
    packer->open_bytes += packer->message.bytes.size;
    if (target->rows == 0) {
        target->first_row = row_number(packer);
        target->flag = packer->message.flag;
        target->is_ordered = 0;
    }
    target->rows++;
    target->is_ordered |= is_ordered;
    target->last_row = row_number(packer);
    return RP_OK;
}

int rp_message_packer_begin(rp_message_packer *packer, const struct ArrowSchema *schema, const struct ArrowArray *array, rp_error *error) {
    if (packer->position < packer->rows.count)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "rows of the batch before have not been taken");
    packer->first_row += packer->rows.count;
    packer->position = 0;
    packer->message_position = -1;
    packer->wanted_topic = (rp_slice){NULL, 0};
    int status = rp_message_rows_bind(&packer->rows, schema, array, error);
    if (status == RP_OK && packer->rows.count > RP_PACKER_ROWS_MAX - packer->first_row)
        status = rp_error_set(error, RP_E_TOO_LARGE, 0, NULL, -1,
                              "rows %" PRId64 " to %" PRId64 " of a task: an id has eight hex digits for the row, so a task writes at most "
                              "%" PRId64 "; repartition into more tasks",
                              packer->first_row, packer->first_row + packer->rows.count - 1, (int64_t)RP_PACKER_ROWS_MAX);
    if (status < 0)
        packer->rows.count = 0;
    return status;
}

/* Makes the message of the row at position, unless it was made before: it may have waited for another parcel to be given out. */
static int make_message(rp_message_packer *packer, rp_slice group, rp_error *error) {
    if (packer->message_position == packer->position)
        return RP_OK;
    int status =
        rp_sink_message_make(&packer->message, &packer->rows, packer->position, row_number(packer), packer->id_prefix, group, error);
    packer->message_position = status == RP_OK ? packer->position : -1;
    return status;
}

int rp_message_packer_next(rp_message_packer *packer, rp_message_parcel *parcel, rp_error *error) {
    packer->wanted_topic = (rp_slice){NULL, 0};
    for (; packer->position < packer->rows.count; packer->position++) {
        int32_t topic = 0;
        uint32_t queue = 0;
        rp_slice group = {NULL, 0};
        int status = topic_of_row(packer, &topic, error);
        if (status == RP_OK)
            status = queue_of_row(packer, topic, &group, &queue, error);
        if (status == RP_OK)
            status = make_message(packer, group, error);
        if (status < 0)
            return status;
        if (packer->message.is_delayed) {
            give_row_alone(packer, topic, queue, parcel);
            packer->position++;
            return 1;
        }
        open_parcel *target = &packer->topics[topic].parcels[queue];
        if (target->rows > 0 && target->bytes.size + packer->message.bytes.size > packer->bytes_max) {
            give_out(packer, topic, queue, parcel);
            return 1;
        }
        if (packer->open_bytes + packer->message.bytes.size > RP_PACKER_OPEN_BYTES_MAX && packer->open_bytes > 0) {
            give_largest(packer, parcel);
            return 1;
        }
        if (append_row(packer, target, group.data != NULL) < 0)
            return rp_sink_row_refuse(error, row_number(packer), RP_E_NO_MEMORY, "no memory for a parcel");
        if ((uint32_t)target->rows >= packer->rows_max) {
            give_out(packer, topic, queue, parcel);
            packer->position++;
            return 1;
        }
    }
    return 0;
}

int rp_message_packer_flush(rp_message_packer *packer, rp_message_parcel *parcel) {
    for (; packer->flush_topic < packer->topic_count; packer->flush_topic++, packer->flush_queue = 0) {
        topic_queues *topic = &packer->topics[packer->flush_topic];
        for (; packer->flush_queue <= topic->queue_count; packer->flush_queue++) {
            if (topic->parcels[packer->flush_queue].rows > 0) {
                give_out(packer, packer->flush_topic, packer->flush_queue, parcel);
                return 1;
            }
        }
    }
    packer->flush_topic = 0;
    packer->flush_queue = 0;
    return 0;
}
