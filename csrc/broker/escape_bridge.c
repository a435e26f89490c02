/* escape_bridge.c: see escape_bridge.h and escaping_messages.h. */
#include "escape_bridge.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../store/message_encode.h"
#include "escaping_messages.h"
#include "lane.h"

#define WAITS 1 /* an item's status until it is settled */

enum escape_state { SHUT, OPEN, REFUSING };

struct rp_escape_bridge {
    int event_fd; /* fixed; eventfd */
    _Atomic int32_t state; /* written under lock */
    pthread_mutex_t lock;
    pthread_cond_t settled;
    /* Guarded by lock, like the next; in order of arrival; a batch lies on the stack of the thread that sleeps for it. */
    rp_escape_batch *batches;
    uint64_t next_id;
    uint32_t begun;   /* batches of rp_escape_begin */
    uint32_t claimed; /* used places of `claims`, without gaps */
    const void *claims[RP_ESCAPE_WAITING_MAX];
};

rp_escape_bridge *rp_escape_bridge_create(void) {
    rp_escape_bridge *bridge = calloc(1, sizeof *bridge);
    if (bridge == NULL)
        return NULL;
    pthread_mutex_init(&bridge->lock, NULL);
    pthread_cond_init(&bridge->settled, NULL);
    bridge->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (bridge->event_fd >= 0)
        return bridge;
    rp_escape_bridge_destroy(bridge);
    return NULL;
}

void rp_escape_bridge_destroy(rp_escape_bridge *bridge) {
    if (bridge == NULL)
        return;
    if (bridge->event_fd >= 0)
        close(bridge->event_fd);
    pthread_cond_destroy(&bridge->settled);
    pthread_mutex_destroy(&bridge->lock);
    free(bridge);
}

static int32_t state_of(const rp_escape_bridge *bridge) { return atomic_load_explicit(&bridge->state, memory_order_acquire); }

int rp_escape_is_on(const rp_broker *broker) { return state_of(broker->escape) != SHUT; }

int rp_escape_is_open(const rp_broker *broker) { return state_of(broker->escape) == OPEN; }

int rp_broker_escape_fd(const rp_broker *broker) { return broker->escape->event_fd; }

/* ---- who waits ---- */

static void link_batch(rp_escape_bridge *bridge, rp_escape_batch *batch) {
    rp_escape_batch **last = &bridge->batches;
    while (*last != NULL)
        last = &(*last)->next;
    *last = batch;
    batch->next = NULL;
    batch->first_id = bridge->next_id;
    bridge->next_id += batch->count;
}

static void unlink_batch(rp_escape_bridge *bridge, const rp_escape_batch *batch) {
    rp_escape_batch **at = &bridge->batches;
    while (*at != batch)
        at = &(*at)->next;
    *at = batch->next;
}

/* Settles one item. 1: nothing of the batch waits any more, and the batch may be gone. */
static int settle(rp_escape_bridge *bridge, rp_escape_batch *batch, uint32_t index, int status) {
    if (index >= batch->count || batch->items[index].status != WAITS)
        return 0;
    batch->items[index].status = status;
    if (--batch->left > 0)
        return 0;
    unlink_batch(bridge, batch);
    if (batch->settled == NULL) {
        pthread_cond_broadcast(&bridge->settled);
    } else {
        bridge->begun--;
        batch->settled(batch);
    }
    return 1;
}

/* Initializes a new batch; status is what it gets at once. */
static void begin(rp_escape_batch *batch, int status) {
    batch->taken = 0;
    batch->left = batch->count;
    for (uint32_t i = 0; i < batch->count; i++) {
        batch->items[i].status = status;
        batch->items[i].size = 0;
    }
}

static void wait_settled(rp_escape_bridge *bridge, rp_escape_batch *batch) {
    link_batch(bridge, batch);
    (void)eventfd_write(bridge->event_fd, 1);
    while (batch->left > 0)
        pthread_cond_wait(&bridge->settled, &bridge->lock);
}

int64_t rp_escape_append(rp_broker *broker, rp_append_item *items, uint32_t count) {
    rp_escape_bridge *bridge = broker->escape;
    if (state_of(bridge) == SHUT)
        return rp_commit_log_append(broker->commit_log, items, count);
    rp_escape_batch batch = {.items = items, .count = count};
    int64_t passed_on = 0;
    pthread_mutex_lock(&bridge->lock);
    int is_open = state_of(bridge) == OPEN;
    begin(&batch, is_open ? WAITS : RP_E_CLOSED);
    if (is_open && count > 0)
        wait_settled(bridge, &batch);
    pthread_mutex_unlock(&bridge->lock);
    for (uint32_t i = 0; i < count; i++)
        passed_on += items[i].status == RP_OK;
    return passed_on;
}

int rp_escape_begin(rp_broker *broker, rp_escape_batch *batch) {
    rp_escape_bridge *bridge = broker->escape;
    pthread_mutex_lock(&bridge->lock);
    int status = state_of(bridge) != OPEN ? RP_E_CLOSED : bridge->begun >= RP_ESCAPE_WAITING_MAX ? RP_E_BUSY : RP_OK;
    if (status == RP_OK) {
        bridge->begun++;
        begin(batch, WAITS);
        link_batch(bridge, batch);
        (void)eventfd_write(bridge->event_fd, 1);
    }
    pthread_mutex_unlock(&bridge->lock);
    return status;
}

int rp_escape_claim(rp_broker *broker, const void *cell) {
    rp_escape_bridge *bridge = broker->escape;
    pthread_mutex_lock(&bridge->lock);
    int is_free = bridge->claimed < RP_ESCAPE_WAITING_MAX;
    for (uint32_t i = 0; i < bridge->claimed; i++)
        is_free &= bridge->claims[i] != cell;
    if (is_free)
        bridge->claims[bridge->claimed++] = cell;
    pthread_mutex_unlock(&bridge->lock);
    return is_free;
}

void rp_escape_unclaim(rp_broker *broker, const void *cell) {
    rp_escape_bridge *bridge = broker->escape;
    pthread_mutex_lock(&bridge->lock);
    for (uint32_t i = 0; i < bridge->claimed; i++) {
        if (bridge->claims[i] == cell)
            bridge->claims[i] = bridge->claims[--bridge->claimed];
    }
    pthread_mutex_unlock(&bridge->lock);
}

/* ---- who sends ---- */

/* Describes the item as a record of the topic it goes to. Its positions refer to no log. */
static rp_encode_source source_of(const rp_broker *broker, const rp_append_item *item) {
    int32_t store_v6 = broker->options.store_host_is_v6 ? RP_SYSFLAG_STORE_V6 : 0;
    return (rp_encode_source){
        .queue_id = rp_consume_queue_id(item->queue),
        .flag = item->flag,
        .sys_flag = (item->sys_flag & ~RP_SYSFLAG_STORE_V6) | store_v6,
        .reconsume_times = item->reconsume_times,
        .born_timestamp_ms = item->born_timestamp_ms,
        .born_host = item->born_host,
        .store_host = broker->options.store_host,
        .topic = rp_consume_queue_topic(item->queue),
        .body = item->body,
        .properties = {item->properties[0], item->properties[1], item->properties[2]},
    };
}

static int encode(const rp_broker *broker, const rp_append_item *item, rp_escaping_message *message) {
    rp_encode_source source = source_of(broker, item);
    int64_t size = rp_message_encoded_size(&source);
    if (size < 0)
        return (int)size;
    message->record = malloc((size_t)size);
    if (message->record == NULL)
        return RP_E_NO_MEMORY;
    message->size = (uint32_t)size;
    rp_message_encode(&source, message->record, message->size);
    return RP_OK;
}

/* Takes the batch's next item that nobody has taken. RP_OK; RP_E_NOT_FOUND; RP_E_NO_MEMORY: it continues to wait. */
static int take_of(rp_broker *broker, rp_escape_batch *batch, rp_escaping_message *message) {
    while (batch->taken < batch->count) {
        uint32_t index = batch->taken;
        int status = batch->items[index].status == WAITS ? encode(broker, &batch->items[index], message) : RP_E_NOT_FOUND;
        if (status == RP_E_NO_MEMORY)
            return status;
        batch->taken++;
        message->id = batch->first_id + index;
        if (status == RP_OK)
            return status;
        if (status != RP_E_NOT_FOUND && settle(broker->escape, batch, index, status)) /* it fits into no record, now or later */
            break;
    }
    return RP_E_NOT_FOUND;
}

int rp_broker_take_escaping(rp_broker *broker, rp_escaping_message *message) {
    rp_escape_bridge *bridge = broker->escape;
    int status = RP_E_NOT_FOUND;
    *message = (rp_escaping_message){0};
    pthread_mutex_lock(&bridge->lock);
    for (rp_escape_batch *batch = bridge->batches, *next; batch != NULL && status == RP_E_NOT_FOUND; batch = next) {
        next = batch->next;
        status = take_of(broker, batch, message);
    }
    pthread_mutex_unlock(&bridge->lock);
    return status;
}

void rp_broker_settle_escaping(rp_broker *broker, uint64_t id, int status) {
    rp_escape_bridge *bridge = broker->escape;
    pthread_mutex_lock(&bridge->lock);
    for (rp_escape_batch *batch = bridge->batches, *next; batch != NULL; batch = next) {
        next = batch->next;
        if (id >= batch->first_id && id - batch->first_id < batch->count)
            (void)settle(bridge, batch, (uint32_t)(id - batch->first_id), status <= RP_OK ? status : RP_E_INVALID);
    }
    pthread_mutex_unlock(&bridge->lock);
}

/* ---- the owner ---- */

static void set_state(rp_escape_bridge *bridge, enum escape_state state) {
    pthread_mutex_lock(&bridge->lock);
    atomic_store_explicit(&bridge->state, state, memory_order_release);
    for (rp_escape_batch *batch = bridge->batches, *next; state != OPEN && batch != NULL; batch = next) {
        next = batch->next;
        uint32_t count = batch->count;
        for (uint32_t i = 0; i < count && !settle(bridge, batch, i, RP_E_CLOSED); i++)
            ;
    }
    pthread_mutex_unlock(&bridge->lock);
}

void rp_broker_open_escape(rp_broker *broker) { set_state(broker->escape, OPEN); }

void rp_broker_refuse_escape(rp_broker *broker) {
    if (rp_escape_is_on(broker))
        set_state(broker->escape, REFUSING);
}

void rp_broker_shut_escape(rp_broker *broker) { set_state(broker->escape, SHUT); }
