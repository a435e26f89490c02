/* pop_revive.c: see pop_revive.h. The rounds, the thread, and the offset of the revive group. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "../base/log_inl.h"
#include "escape_bridge.h"
#include "pop_revive_inl.h"
#include "timer_service.h"

#define CARRY_RECORDS 1000000
#define ARENA_KEEP ((size_t)64 << 10)
#define ARENA_MAX ((size_t)8 * REVIVE_RECORD_MAX)

/* ---- how far the group is ---- */

/* RocketMQ's meaning: the offset of the last finished record, not of the next one. NULL: no memory. */
static rp_offset_cell *group_offset(rp_pop_revive *revive, rp_topic *topic, int32_t queue_id) {
    static const rp_slice name = {(const uint8_t *)RP_POP_REVIVE_GROUP, sizeof RP_POP_REVIVE_GROUP - 1};
    rp_group *group = rp_group_table_entry(revive->broker->groups, name);
    rp_consumption *consumption = group != NULL ? rp_group_table_consumption_entry(revive->broker->groups, group, topic) : NULL;
    return consumption != NULL ? rp_offset_cells_open(&consumption->offsets, queue_id) : NULL;
}

/* Any client may set it to any number, so the next number must exist. */
static int64_t committed_of(const rp_offset_cell *cell) {
    int64_t committed = atomic_load_explicit(&cell->committed, memory_order_relaxed);
    return committed < 0 ? -1 : committed < INT64_MAX ? committed : INT64_MAX - 1;
}

static void forget_below(rp_pop_revive *revive, revive_queue *state, int64_t revive_offset) {
    for (uint32_t kind = 0; kind < RP_KEPT_KINDS; kind++) {
        rp_kept_checkpoint *oldest;
        while ((oldest = state->kept.oldest[kind]) != NULL && oldest->revive_offset < revive_offset)
            rp_kept_remove(&revive->kept, &state->kept, oldest);
        if (state->skipped_from[kind] >= 0 && state->skipped_from[kind] < revive_offset)
            state->skipped_from[kind] = revive_offset;
    }
    state->position = state->position > revive_offset ? state->position : revive_offset;
}

/* Follows an offset that somebody, an operator, has moved forward to skip records. */
static void look_at_offset(rp_pop_revive *revive, const rp_offset_cell *cell, revive_queue *state) {
    int64_t committed = committed_of(cell);
    if (committed <= state->committed)
        return;
    rp_log_write(revive->broker->options.log, RP_LOG_WARNING,
                 "pop: a revive queue is passed over up to offset %" PRId64 ", as its group's offset says", committed);
    forget_below(revive, state, committed + 1);
    state->committed = committed;
}

static void commit(rp_pop_revive *revive, rp_offset_cell *cell, revive_queue *state) {
    int64_t needed = rp_kept_oldest(&state->kept);
    for (uint32_t kind = 0; kind < RP_KEPT_KINDS; kind++) {
        if (state->skipped_from[kind] >= 0 && state->skipped_from[kind] < needed)
            needed = state->skipped_from[kind];
    }
    needed = needed < state->position ? needed : state->position;
    if (needed - 1 == state->committed)
        return;
    state->committed = needed - 1;
    if (rp_offset_cell_commit(cell, state->committed))
        rp_note_change(&revive->broker->offset_version);
}

/* ---- rounds ---- */

/* Creates states for as many queues as the topic has; reading begins at the group's offset. RP_OK, RP_E_NO_MEMORY. */
static int open_queues(rp_pop_revive *revive, rp_topic *topic) {
    int32_t readable = atomic_load_explicit(&topic->read_queues, memory_order_relaxed);
    int32_t writable = atomic_load_explicit(&topic->write_queues, memory_order_relaxed), wanted = readable > writable ? readable : writable;
    if (wanted <= (int32_t)revive->queue_count)
        return RP_OK;
    revive_queue *queues = realloc(revive->queues, (size_t)wanted * sizeof *queues);
    if (queues == NULL)
        return RP_E_NO_MEMORY;
    revive->queues = queues;
    for (; revive->queue_count < (uint32_t)wanted; revive->queue_count++) {
        const rp_offset_cell *cell = group_offset(revive, topic, (int32_t)revive->queue_count);
        if (cell == NULL)
            return RP_E_NO_MEMORY;
        int64_t committed = committed_of(cell);
        queues[revive->queue_count] =
            (revive_queue){.position = committed + 1, .skipped_from = {-1, -1}, .acks_from = -1, .committed = committed};
    }
    return RP_OK;
}

/* Acks in a store written by RocketMQ are timed messages, due with their checkpoints: while the timers are behind, so is the revive. */
static int64_t due_until(const rp_pop_revive *revive, int64_t now_ms) {
    int64_t delivered_ms = rp_timer_delivered_until(revive->broker->timers);
    return delivered_ms < now_ms - REVIVE_GRACE_MS ? delivered_ms + REVIVE_GRACE_MS - 1 : now_ms;
}

/* 0: the log accepts no more now. */
static bool turn_queue(rp_pop_revive *revive, rp_topic *topic, int32_t queue_id, int64_t now_ms) {
    revive_queue *state = &revive->queues[queue_id];
    rp_consume_queue *queue = rp_message_store_queue(revive->broker->store, topic->head.name, queue_id, 0, NULL);
    rp_offset_cell *cell = group_offset(revive, topic, queue_id);
    if (queue == NULL || cell == NULL)
        return true;
    look_at_offset(revive, cell, state);
    bool is_writable = atomic_load_explicit(&revive->broker->settings.store_writable, memory_order_relaxed) != 0;
    bool goes_on = true;
    int64_t due_ms = due_until(revive, now_ms); /* before reading, so that everything that arrived until then is read */
    bool knows_acks = revive->has_read || !rp_escape_is_on(revive->broker); /* noted acks are applied once everything is read */
    if (revive_read(revive, queue, state, now_ms) && is_writable && knows_acks) {
        goes_on = revive_put_due(revive, queue_id, state, due_ms, now_ms);
        revive_carry(revive, queue_id, state, now_ms);
    }
    commit(revive, cell, state);
    return goes_on;
}

/* Returns when the next checkpoint is due; INT64_MAX: none is kept. */
static int64_t next_look(const rp_pop_revive *revive) {
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < revive->queue_count; i++) {
        const rp_kept_checkpoint *kept = rp_kept_next(&revive->queues[i].kept);
        if (kept != NULL && kept->look_ms < next)
            next = kept->look_ms;
    }
    return next;
}

/* Applies the acks that an acting slave noted; those of checkpoints not kept here belong to another master. */
static void take_notes(rp_pop_revive *revive) {
    rp_noted_ack *noted = revive->has_read ? rp_noted_acks_take(&revive->noted) : NULL;
    for (rp_noted_ack *next; noted != NULL; noted = next) {
        next = noted->next;
        (void)rp_kept_ack(&revive->kept, &noted->ack, revive_broker_name(revive));
        free(noted);
    }
}

int64_t rp_pop_revive_round(rp_pop_revive *revive, int64_t now_ms) {
    rp_topic *topic = rp_pop_log_topic(revive->broker);
    if (topic == NULL || open_queues(revive, topic) != RP_OK)
        return REVIVE_AGAIN_MS;
    bool goes_on = true;
    for (uint32_t i = 0; now_ms < revive->now_ms && i < revive->queue_count; i++)
        rp_kept_clock_set_back(&revive->queues[i].kept, now_ms, REVIVE_GRACE_MS);
    revive->now_ms = now_ms;
    take_notes(revive);
    for (uint32_t i = 0; goes_on && i < revive->queue_count && !revive_is_stopping(revive); i++)
        goes_on = turn_queue(revive, topic, (int32_t)i, now_ms);
    revive->has_read |= goes_on;
    int64_t next = next_look(revive), wait_ms = next == INT64_MAX ? REVIVE_ROUND_MS : next - now_ms;
    atomic_store_explicit(&revive->oldest_due_ms, next == INT64_MAX ? 0 : next - REVIVE_GRACE_MS, memory_order_relaxed);
    atomic_store_explicit(&revive->kept_now, (uint64_t)revive->kept.count[RP_KEPT_SHORT] + revive->kept.count[RP_KEPT_LONG],
                          memory_order_relaxed);
    bool is_blocked = !goes_on || wait_ms <= 0; /* something that is due is blocked */
    return is_blocked || wait_ms > REVIVE_ROUND_MS ? REVIVE_ROUND_MS : wait_ms;
}

/* ---- the thread ---- */

static bool rest(rp_pop_revive *revive, int64_t wait_ms) {
    struct timespec until = rp_deadline_after(CLOCK_MONOTONIC, (uint64_t)wait_ms);
    pthread_mutex_lock(&revive->lock);
    while (!revive->stopping && pthread_cond_timedwait(&revive->woken, &revive->lock, &until) == 0)
        ;
    bool goes_on = !revive->stopping;
    pthread_mutex_unlock(&revive->lock);
    return goes_on;
}

static void run(void *context) {
    rp_pop_revive *revive = context;
    while (rest(revive, rp_pop_revive_round(revive, rp_clock_wall_ms(rp_clock_system()))))
        ;
}

static void set_stopping(rp_pop_revive *revive, bool stopping) {
    pthread_mutex_lock(&revive->lock);
    revive->stopping = stopping;
    atomic_store_explicit(&revive->is_stopping, stopping, memory_order_relaxed);
    pthread_cond_signal(&revive->woken);
    pthread_mutex_unlock(&revive->lock);
}

/* What was kept is read again at the next start, from the group's offset at that time. */
static void forget(rp_pop_revive *revive) {
    for (uint32_t i = 0; i < revive->queue_count; i++)
        rp_kept_queue_free(&revive->kept, &revive->queues[i].kept);
    free(revive->queues);
    revive->queues = NULL;
    revive->queue_count = 0;
    revive->is_refused = revive->has_read = false;
    pthread_mutex_lock(&revive->lock);
    revive->wanted_count = 0;
    pthread_mutex_unlock(&revive->lock);
    atomic_store_explicit(&revive->oldest_due_ms, 0, memory_order_relaxed);
    atomic_store_explicit(&revive->kept_now, 0, memory_order_relaxed);
}

/* Not done at a start: acks arrive as soon as the slave acts, which is before. */
static void forget_notes(rp_pop_revive *revive) {
    for (rp_noted_ack *noted = rp_noted_acks_take(&revive->noted), *next; noted != NULL; noted = next) {
        next = noted->next;
        free(noted);
    }
}

int rp_pop_revive_start(rp_pop_revive *revive, rp_error *error) {
    if (revive->thread != NULL)
        return RP_OK;
    forget(revive);
    set_stopping(revive, false);
    int status = rp_thread_start(&revive->thread, "pop-revive", run, revive);
    return status == RP_OK ? RP_OK
                           : rp_error_set(error, status, 0, NULL, -1, "no thread to revive popped messages: %s", rp_thread_refusal(status));
}

void rp_pop_revive_stop(rp_pop_revive *revive) {
    if (revive == NULL || revive->thread == NULL)
        return;
    set_stopping(revive, true);
    rp_thread_join(revive->thread);
    revive->thread = NULL;
    set_stopping(revive, false);
    forget(revive);
    forget_notes(revive);
}

rp_pop_revive *rp_pop_revive_create(rp_broker *broker) {
    rp_pop_revive *revive = calloc(1, sizeof *revive);
    if (revive == NULL)
        return NULL;
    revive->broker = broker;
    revive->carry_records = CARRY_RECORDS;
    pthread_mutex_init(&revive->lock, NULL);
    rp_monotonic_cond_init(&revive->woken);
    revive->arena = rp_arena_create(ARENA_KEEP, ARENA_MAX);
    if (revive->arena == NULL || rp_kept_table_init(&revive->kept, RP_POP_KEPT_MAX) != RP_OK) {
        rp_pop_revive_destroy(revive);
        return NULL;
    }
    return revive;
}

void rp_pop_revive_destroy(rp_pop_revive *revive) {
    if (revive == NULL)
        return;
    rp_pop_revive_stop(revive);
    forget(revive);
    forget_notes(revive);
    rp_kept_table_free(&revive->kept);
    rp_arena_destroy(revive->arena);
    pthread_cond_destroy(&revive->woken);
    pthread_mutex_destroy(&revive->lock);
    free(revive);
}

/* ---- for others ---- */

void rp_pop_revive_note(rp_pop_revive *revive, rp_noted_ack *noted) { rp_noted_acks_add(&revive->noted, noted); }

uint32_t rp_pop_revive_wanted_topic(rp_pop_revive *revive, uint8_t *name, int32_t *queues) {
    uint32_t size = 0;
    pthread_mutex_lock(&revive->lock);
    while (size == 0 && revive->wanted_count > 0) {
        const revive_wanted *wanted = &revive->wanted[--revive->wanted_count];
        const rp_topic *topic = rp_topic_table_find(revive->broker->topics, (rp_slice){wanted->name, wanted->size});
        if (topic != NULL && (wanted->queues == 1 || rp_pop_retry_width(topic) >= wanted->queues))
            continue; /* it exists now */
        *queues = wanted->queues;
        size = wanted->size;
        memcpy(name, wanted->name, size);
    }
    pthread_mutex_unlock(&revive->lock);
    return size;
}

void rp_pop_revive_read_stats(const rp_pop_revive *revive, rp_pop_revive_stats *stats) {
    *stats = (rp_pop_revive_stats){
        .checkpoints_kept = atomic_load_explicit(&revive->kept_now, memory_order_relaxed),
        .checkpoints_done = atomic_load_explicit(&revive->done, memory_order_relaxed),
        .revived = atomic_load_explicit(&revive->revived, memory_order_relaxed),
        .put_again = atomic_load_explicit(&revive->put_again, memory_order_relaxed),
        .dropped = atomic_load_explicit(&revive->dropped, memory_order_relaxed),
        .append_failures = atomic_load_explicit(&revive->append_failures, memory_order_relaxed),
        .oldest_due_ms = atomic_load_explicit(&revive->oldest_due_ms, memory_order_relaxed),
    };
}
