/* pop_escape.c: see pop_escape.h. */
#include "pop_escape.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "lane.h"
#include "pop_log.h"

int rp_pop_escapes(const rp_broker *broker) {
    return atomic_load_explicit(&broker->settings.role, memory_order_relaxed) == RP_ROLE_SLAVE && rp_escape_is_open(broker);
}

/* Under the bridge's lock. */
static void settled(rp_escape_batch *batch) {
    rp_pop_escape *escape = (rp_pop_escape *)batch;
    rp_lane *lane = escape->lane;
    escape->next = atomic_load_explicit(&lane->escaped, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&lane->escaped, &escape->next, escape, memory_order_release, memory_order_relaxed))
        ;
    rp_reactor_wake(lane->reactor);
}

rp_pop_escape *rp_pop_escape_create(rp_lane *lane, uint32_t records_max, void *context) {
    rp_pop_escape *escape = calloc(1, sizeof *escape);
    rp_append_item *items = calloc(records_max, sizeof *items);
    uint8_t **texts = calloc(records_max, sizeof *texts);
    if (escape == NULL || items == NULL || texts == NULL) {
        free(escape);
        free(items);
        free(texts);
        free(context);
        return NULL;
    }
    *escape = (rp_pop_escape){
        .batch = {.items = items, .settled = settled},
        .lane = lane,
        .context = context,
        .records_max = records_max,
        .texts = texts,
    };
    return escape;
}

void rp_pop_escape_free(rp_pop_escape *escape) {
    if (escape == NULL)
        return;
    for (uint32_t i = 0; i < escape->batch.count; i++)
        free(escape->texts[i]);
    free(escape->texts);
    free(escape->batch.items);
    free(escape->context);
    free(escape);
}

/* Adds a record; takes over its text in any case. */
static int add(rp_pop_escape *escape, int32_t revive_queue_id, const rp_pop_record *record, uint8_t *text) {
    rp_consume_queue *queue;
    int status = escape->batch.count < escape->records_max ? RP_OK : RP_E_RANGE;
    if (status == RP_OK)
        status = rp_pop_log_find_queue(escape->lane->broker, revive_queue_id, &queue);
    if (status != RP_OK) {
        free(text);
        return status;
    }
    rp_pop_log_fill_item(escape->lane->broker, queue, record, &escape->batch.items[escape->batch.count]);
    escape->texts[escape->batch.count++] = text;
    return RP_OK;
}

int rp_pop_escape_add_checkpoint(rp_pop_escape *escape, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint) {
    uint8_t *text = malloc(rp_pop_checkpoint_room(checkpoint));
    rp_pop_record record;
    if (text == NULL)
        return RP_E_NO_MEMORY;
    rp_pop_checkpoint_write(checkpoint, rp_clock_wall_ms(rp_clock_system()), text, &record);
    return add(escape, revive_queue_id, &record, text);
}

int rp_pop_escape_add_ack(rp_pop_escape *escape, int32_t revive_queue_id, const rp_pop_ack *ack) {
    uint8_t *text = malloc(rp_pop_ack_room(ack));
    rp_pop_record record;
    if (text == NULL)
        return RP_E_NO_MEMORY;
    rp_pop_ack_write(ack, rp_clock_wall_ms(rp_clock_system()), text, &record);
    return add(escape, revive_queue_id, &record, text);
}

int rp_pop_escape_send(rp_pop_escape *escape, rp_answer_to to, void (*finish)(rp_pop_escape *escape, int status)) {
    if (to.connection != NULL)
        escape->connection_id = rp_connection_id(to.connection);
    escape->to = to;
    escape->to.connection = NULL;
    escape->finish = finish;
    return rp_escape_begin(escape->lane->broker, &escape->batch);
}

rp_answer_to rp_pop_escape_answer_to(const rp_pop_escape *escape) {
    rp_answer_to to = escape->to;
    to.connection = rp_reactor_connection(escape->lane->reactor, escape->connection_id);
    return to;
}

static int status_of(const rp_pop_escape *escape) {
    int status = RP_OK;
    for (uint32_t i = 0; i < escape->batch.count && status == RP_OK; i++)
        status = escape->batch.items[i].status;
    return status;
}

void rp_pop_escape_drain(rp_lane *lane) {
    if (atomic_load_explicit(&lane->escaped, memory_order_relaxed) == NULL)
        return;
    rp_pop_escape *taken = atomic_exchange_explicit(&lane->escaped, NULL, memory_order_acquire), *oldest = NULL;
    for (rp_pop_escape *next; taken != NULL; taken = next) {
        next = taken->next;
        taken->next = oldest;
        oldest = taken;
    }
    for (rp_pop_escape *next; oldest != NULL; oldest = next) {
        next = oldest->next;
        oldest->finish(oldest, status_of(oldest));
        rp_pop_escape_free(oldest);
    }
}

void rp_pop_escape_free_all(rp_lane *lane) {
    rp_pop_escape *taken = atomic_exchange_explicit(&lane->escaped, NULL, memory_order_acquire);
    for (rp_pop_escape *next; taken != NULL; taken = next) {
        next = taken->next;
        if (taken->drop != NULL)
            taken->drop(taken);
        rp_pop_escape_free(taken);
    }
}
