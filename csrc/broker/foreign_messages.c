/* foreign_messages.c: see foreign_messages.h. */
#include "foreign_messages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/slice_inl.h"
#include "lane.h"

enum foreign_state { FREE, WANTED, TAKEN, HERE, GONE };

typedef struct foreign_message {
    rp_foreign_wanted is; /* id 0: the place is free */
    enum foreign_state state;
    int64_t asked_ms; /* when the revive thread asked last */
    uint8_t *record;  /* owned; the record, once it has arrived */
    uint32_t size;
} foreign_message;

struct rp_foreign_messages {
    pthread_mutex_t lock;
    uint64_t next_id; /* guarded by lock, like the next */
    uint64_t bytes;   /* of all records held */
    uint32_t take_at; /* the place behind the one taken last */
    foreign_message of[RP_FOREIGN_MAX];
};

rp_foreign_messages *rp_foreign_messages_create(void) {
    rp_foreign_messages *messages = calloc(1, sizeof *messages);
    if (messages != NULL)
        pthread_mutex_init(&messages->lock, NULL);
    return messages;
}

static void clear(rp_foreign_messages *messages, foreign_message *message) {
    messages->bytes -= message->size;
    message->size = 0;
    free(message->record);
    message->record = NULL;
    message->state = FREE;
    message->is.id = 0;
}

void rp_foreign_messages_destroy(rp_foreign_messages *messages) {
    if (messages == NULL)
        return;
    for (uint32_t i = 0; i < RP_FOREIGN_MAX; i++)
        clear(messages, &messages->of[i]);
    pthread_mutex_destroy(&messages->lock);
    free(messages);
}

static int is_it(const rp_foreign_wanted *is, rp_slice broker_name, rp_slice topic, int32_t queue_id, int64_t offset) {
    return is->offset == offset && is->queue_id == queue_id && rp_slice_equals((rp_slice){is->topic, is->topic_size}, topic) &&
           rp_slice_equals((rp_slice){is->broker_name, is->broker_name_size}, broker_name);
}

static int is_stale(const foreign_message *message, int64_t now_ms) {
    return message->state != FREE && (now_ms - message->asked_ms > RP_FOREIGN_KEPT_MS || message->asked_ms > now_ms);
}

/* Returns the message's place, or a free one; NULL: all are in use, or as many as one broker may have. Messages that nobody asks for any
 * more are removed. */
static foreign_message *place_of(rp_foreign_messages *messages, rp_slice broker_name, rp_slice topic, int32_t queue_id, int64_t offset,
                                 int64_t now_ms) {
    foreign_message *found = NULL, *spare = NULL;
    uint32_t of_broker = 0;
    for (uint32_t i = 0; i < RP_FOREIGN_MAX; i++) {
        foreign_message *message = &messages->of[i];
        if (message->state != FREE && is_it(&message->is, broker_name, topic, queue_id, offset))
            found = message;
        else if (is_stale(message, now_ms))
            clear(messages, message);
        if (message->state == FREE)
            spare = message;
        else
            of_broker += rp_slice_equals((rp_slice){message->is.broker_name, message->is.broker_name_size}, broker_name);
    }
    return found != NULL || of_broker >= RP_FOREIGN_OF_BROKER_MAX ? found : spare;
}

static void want(rp_foreign_messages *messages, foreign_message *message, rp_slice broker_name, rp_slice topic, int32_t queue_id,
                 int64_t offset) {
    message->state = WANTED;
    message->is.id = ++messages->next_id;
    message->is.queue_id = queue_id;
    message->is.offset = offset;
    message->is.broker_name_size = broker_name.size;
    message->is.topic_size = topic.size;
    memcpy(message->is.broker_name, broker_name.data, broker_name.size);
    memcpy(message->is.topic, topic.data, topic.size);
}

int rp_foreign_messages_find(rp_foreign_messages *messages, rp_slice broker_name, rp_slice topic, int32_t queue_id, int64_t offset,
                             int64_t now_ms, uint8_t **record, uint32_t *size) {
    if (broker_name.size > RP_FOREIGN_NAME_MAX || topic.size > RP_FOREIGN_NAME_MAX)
        return RP_E_INVALID;
    pthread_mutex_lock(&messages->lock);
    foreign_message *message = place_of(messages, broker_name, topic, queue_id, offset, now_ms);
    int status = RP_E_BUSY;
    if (message != NULL && message->state == FREE)
        want(messages, message, broker_name, topic, queue_id, offset);
    if (message != NULL)
        message->asked_ms = now_ms;
    if (message != NULL && message->state == HERE) {
        *record = message->record;
        *size = message->size;
        message->record = NULL;
        status = RP_OK;
    } else if (message != NULL && message->state == GONE) {
        status = RP_E_NOT_FOUND;
    }
    if (status != RP_E_BUSY)
        clear(messages, message);
    pthread_mutex_unlock(&messages->lock);
    return status;
}

int rp_broker_take_foreign(rp_broker *broker, rp_foreign_wanted *wanted) {
    rp_foreign_messages *messages = broker->foreign;
    int64_t now_ms = rp_clock_wall_ms(rp_clock_system());
    int status = RP_E_NOT_FOUND;
    pthread_mutex_lock(&messages->lock);
    for (uint32_t i = 0; i < RP_FOREIGN_MAX && status != RP_OK; i++) {
        foreign_message *message = &messages->of[messages->take_at];
        messages->take_at = (messages->take_at + 1) % RP_FOREIGN_MAX;
        if (is_stale(message, now_ms))
            clear(messages, message);
        if (message->state != WANTED)
            continue;
        message->state = TAKEN;
        *wanted = message->is;
        status = RP_OK;
    }
    pthread_mutex_unlock(&messages->lock);
    return status;
}

int rp_broker_put_foreign(rp_broker *broker, uint64_t id, int status, rp_slice record) {
    rp_foreign_messages *messages = broker->foreign;
    uint8_t *copy = status == RP_OK ? malloc(record.size > 0 ? record.size : 1) : NULL;
    if (status == RP_OK && copy == NULL)
        status = RP_E_NO_MEMORY;
    if (copy != NULL && record.size > 0)
        memcpy(copy, record.data, record.size);
    pthread_mutex_lock(&messages->lock);
    for (uint32_t i = 0; i < RP_FOREIGN_MAX; i++) {
        foreign_message *message = &messages->of[i];
        if (message->state != TAKEN || message->is.id != id)
            continue;
        if (status == RP_OK && messages->bytes > 0 && messages->bytes + record.size > RP_FOREIGN_BYTES_MAX)
            status = RP_E_BUSY;
        message->state = status == RP_OK ? HERE : status == RP_E_NOT_FOUND ? GONE : WANTED;
        if (status != RP_OK)
            continue;
        message->record = copy;
        message->size = record.size;
        messages->bytes += record.size;
        copy = NULL;
    }
    pthread_mutex_unlock(&messages->lock);
    free(copy);
    return status == RP_E_NO_MEMORY || status == RP_E_BUSY ? status : RP_OK;
}
