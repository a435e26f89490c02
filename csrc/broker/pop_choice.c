/* pop_choice.c: see pop_choice.h. */
#include "pop_choice.h"

#include <stdlib.h>

#include "../base/clock.h"
#include "../base/log_inl.h"
#include "../store/light_queue.h"
#include "inner_messages.h"
#include "lane.h"
#include "offset_requests.h"
#include "pop_escape.h"
#include "pop_extra_info.h"
#include "pop_log.h"
#include "pop_order.h"
#include "pull_path.h"
#include "response_writer_inl.h"

#define ROUNDS_MAX 4 /* reads of one queue whose messages do not match; the rest is for the next turn */

#define ESCAPING_MS 20 /* until a queue is tried again whose last pop waits for another master; nothing reports the end of that wait */
#define UNREADABLE_MS 100 /* until a queue that could not be read is tried again */

/* One queue during a look at it. */
typedef struct choice {
    rp_lane *lane;
    rp_pop *pop;
    rp_pop_catch *caught;
    rp_topic *topic;
    rp_consumption *consumption;
    rp_offset_cell *cell;
    rp_consume_queue *queue;
    int32_t queue_id;
    int32_t is_light; /* a lite topic's queue: what is out is kept in memory only, and counted for the parent topic */
    int32_t is_escaping; /* the queue is claimed for a checkpoint that goes to another master */
    int64_t offset;
    int64_t offsets[RP_POP_MESSAGES_MAX];
} choice;

pthread_mutex_t *rp_pop_lock_of(rp_broker *broker, const rp_offset_cell *cell) {
    return &broker->pop_locks[((uintptr_t)cell * UINT64_C(0x9E3779B97F4A7C15)) >> 56];
}
_Static_assert(RP_POP_LOCKS == 256, "the hash has eight bits");

static int64_t committed_of(const rp_offset_cell *cell) { return atomic_load_explicit(&cell->committed, memory_order_relaxed); }

static void commit(const choice *choice, int64_t offset) {
    if (rp_offset_cell_commit(choice->cell, offset))
        rp_note_change(&choice->lane->broker->offset_version);
}

/* Finds the offset cell of the group and the queue, which also selects the lock. 0: it cannot be created, for want of memory or beyond a
 * bound. */
static int find_cell(choice *choice) {
    rp_broker *broker = choice->lane->broker;
    choice->consumption = rp_group_table_consumption_entry(broker->groups, choice->pop->group, choice->topic);
    choice->cell = choice->consumption != NULL ? rp_offset_cells_open(&choice->consumption->offsets, choice->queue_id) : NULL;
    return choice->cell != NULL;
}

static int open_queue(choice *choice) {
    return rp_topic_open_queue(choice->lane->broker->topics, choice->topic, choice->queue_id, &choice->queue) != NULL;
}

/* ---- where to begin ---- */

/* Where a group without an offset begins: with the oldest message or with the last one, as RocketMQ decides for consumers in POP mode. */
static int64_t first_offset(const choice *choice) {
    const rp_broker *broker = choice->lane->broker;
    if (choice->pop->from_min || rp_pop_retry_kind(choice->topic->head.name) != '0')
        return rp_message_store_first_offset(choice->queue);
    if (atomic_load_explicit(&broker->settings.pop_begins_in_memory, memory_order_relaxed) &&
        rp_queue_begins_at_zero(broker, choice->queue))
        return 0;
    int64_t last = rp_consume_queue_max_offset(choice->queue) - 1;
    return last > 0 ? last : 0;
}

/* Marks the file of orders as out of date. What is out of light queues is kept in memory only, so for them there is nothing to write. */
static void order_changed(const choice *choice) {
    if (!choice->is_light)
        rp_note_change(&choice->lane->broker->pop_order_version);
}

static int64_t begin(const choice *choice) {
    rp_offset_cell *cell = choice->cell;
    int64_t offset = RP_OFFSET_NONE;
    if (atomic_load_explicit(&cell->reset, memory_order_relaxed) != RP_OFFSET_NONE)
        offset = atomic_exchange_explicit(&cell->reset, RP_OFFSET_NONE, memory_order_relaxed);
    if (offset != RP_OFFSET_NONE) {
        if (cell->order != NULL) {
            cell->order->count = 0;
            order_changed(choice);
        }
        commit(choice, offset);
        return offset;
    }
    offset = committed_of(cell);
    if (offset < 0) {
        offset = first_offset(choice);
        commit(choice, offset);
    }
    return offset;
}

/* As begin, for a peek, which changes neither offset nor reset. */
static int64_t begin_of_peek(const choice *choice) {
    int64_t offset = committed_of(choice->cell);
    return offset >= 0 ? offset : rp_message_store_first_offset(choice->queue);
}

/* ---- what an order consumer has ---- */

static void look_again_at(rp_pop *pop, int64_t wall_ms) {
    if (pop->look_ms == 0 || wall_ms < pop->look_ms)
        pop->look_ms = wall_ms;
}

static int64_t blocked_until(const choice *choice) {
    const rp_pop *pop = choice->pop;
    rp_pop_order_pass(choice->cell->order, committed_of(choice->cell));
    return rp_pop_order_blocked_until(choice->cell->order, pop->attempt_id, pop->invisible_ms, rp_clock_wall_ms(rp_clock_system()));
}

static int is_blocked(const choice *choice) {
    rp_pop *pop = choice->pop;
    int64_t free_ms = blocked_until(choice);
    if (free_ms != 0)
        look_again_at(pop, free_ms);
    return free_ms != 0;
}

static uint8_t *put_count(uint8_t *at, char kind, int32_t queue_id, int64_t offset, int32_t times) {
    *at++ = (uint8_t)kind;
    *at++ = ' ';
    if (offset >= 0) {
        memcpy(at, "qo", 2);
        at += 2;
    }
    at = rp_decimal(at, queue_id);
    if (offset >= 0) {
        *at++ = '%';
        at = rp_decimal(at, offset);
    }
    *at++ = ' ';
    return rp_decimal(at, times);
}

/* Writes how often each message was consumed before, then the smallest of these numbers, for old clients, which know one number per
 * queue. */
static void put_counts(const choice *choice, const rp_pop_order *order) {
    rp_pop_catch *caught = choice->caught;
    char kind = rp_pop_retry_kind(choice->topic->head.name);
    uint8_t *at = caught->order_text + caught->order_size;
    int32_t least = INT32_MAX;
    for (uint32_t i = 0; i < order->count; i++) {
        least = order->times[i] < least ? order->times[i] : least;
        if (order->times[i] == 0)
            continue;
        if (at > caught->order_text)
            *at++ = ';';
        at = put_count(at, kind, choice->queue_id, order->offsets[i], order->times[i]);
    }
    if (at > caught->order_text)
        *at++ = ';';
    caught->order_size = (uint32_t)(put_count(at, kind, choice->queue_id, -1, least) - caught->order_text);
}

/* The same for a light queue: numbers alone, in the order of the messages. */
static void put_light_counts(const choice *choice, const rp_pop_order *order) {
    rp_pop_catch *caught = choice->caught;
    uint8_t *at = caught->order_text + caught->order_size;
    for (uint32_t i = 0; i < order->count; i++) {
        if (at > caught->order_text)
            *at++ = ';';
        at = rp_decimal(at, order->times[i]);
    }
    caught->order_size = (uint32_t)(at - caught->order_text);
}

static int note_order(const choice *choice, uint32_t count) {
    rp_offset_cell *cell = choice->cell;
    if (cell->order == NULL && (cell->order = calloc(1, sizeof *cell->order)) == NULL)
        return RP_E_NO_MEMORY;
    rp_pop_order_update(cell->order, choice->pop->attempt_id, choice->caught->pop_time_ms, choice->pop->invisible_ms, choice->offsets,
                        count);
    order_changed(choice);
    commit(choice, choice->offset);
    if (choice->is_light)
        put_light_counts(choice, cell->order);
    else
        put_counts(choice, cell->order);
    return RP_OK;
}

/* ---- the checkpoint ---- */

/* For an acting slave: the checkpoint is kept in the catch and sent later. */
static int escape_checkpoint(const choice *choice, const rp_pop_checkpoint *checkpoint, int64_t next_offset) {
    rp_pop_catch *caught = choice->caught;
    rp_pop_escape *escape = rp_pop_escape_create(choice->lane, 1, NULL);
    int status = escape != NULL ? rp_pop_escape_add_checkpoint(escape, caught->revive_queue_id, checkpoint) : RP_E_NO_MEMORY;
    if (status != RP_OK) {
        rp_pop_escape_free(escape);
        return status;
    }
    caught->escape = escape;
    caught->escape_topic = choice->topic;
    caught->escape_cell = choice->cell;
    caught->escape_from = committed_of(choice->cell);
    caught->escape_next = next_offset;
    return RP_OK;
}

static int put_checkpoint(const choice *choice, const rp_get_result *result) {
    const rp_broker_options *options = &choice->lane->broker->options;
    rp_pop_checkpoint checkpoint = {
        .topic = choice->topic->head.name,
        .group = choice->pop->group->head.name,
        .broker_name = {(const uint8_t *)options->broker_name, (uint32_t)strlen(options->broker_name)},
        .start_offset = choice->offset,
        .pop_time_ms = choice->caught->pop_time_ms,
        .invisible_ms = choice->pop->invisible_ms,
        .queue_id = choice->queue_id,
        .count = result->count,
        .diff_count = result->count,
    };
    for (uint32_t i = 0; i < result->count; i++)
        checkpoint.diffs[i] = (int32_t)(choice->offsets[i] - choice->offset); /* of at most filter_bytes_max / 20 entries */
    if (choice->is_escaping)
        return escape_checkpoint(choice, &checkpoint, result->next_offset);
    return rp_pop_log_put_checkpoint(choice->lane->broker, choice->caught->revive_queue_id, &checkpoint);
}

/* ---- what was found ---- */

static void put_places(const choice *choice, uint32_t count) {
    rp_pop_catch *caught = choice->caught;
    uint8_t *start = caught->start_text + caught->start_size, *at = caught->offset_text + caught->offset_size;
    uint8_t kind = (uint8_t)rp_pop_retry_kind(choice->topic->head.name);
    if (caught->start_size > 0) {
        *start++ = ';';
        *at++ = ';';
    }
    *start++ = *at++ = kind;
    *start++ = *at++ = ' ';
    start = rp_decimal(start, choice->queue_id);
    at = rp_decimal(at, choice->queue_id);
    *start++ = *at++ = ' ';
    start = rp_decimal(start, choice->offset);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            *at++ = ',';
        at = rp_decimal(at, choice->offsets[i]);
    }
    caught->start_size = (uint32_t)(start - caught->start_text);
    caught->offset_size = (uint32_t)(at - caught->offset_text);
}

static void count_out(const choice *choice, const rp_get_result *result) {
    rp_topic *topic = choice->is_light ? choice->pop->topic : choice->topic; /* lite topics are too many to be counted individually */
    rp_consumption *consumption = choice->consumption;
    if (choice->is_light)
        consumption = rp_group_table_consumption_entry(choice->lane->broker->groups, choice->pop->group, topic);
    rp_count(&choice->lane->counters.messages_out, result->count);
    rp_count(&choice->lane->counters.bytes_out, result->bytes);
    if (consumption != NULL) {
        atomic_fetch_add_explicit(&consumption->messages_out, result->count, memory_order_relaxed);
        atomic_fetch_add_explicit(&consumption->bytes_out, result->bytes, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&topic->messages_out, result->count, memory_order_relaxed);
    atomic_fetch_add_explicit(&topic->bytes_out, result->bytes, memory_order_relaxed);
}

/* Gives the messages found to the pop. First it is recorded who has them: by a checkpoint in the log, or in the order of an orderly
 * consumer. */
static void take(const choice *choice, const rp_get_result *result) {
    rp_pop_catch *caught = choice->caught;
    int status = RP_OK;
    if (!caught->is_peek)
        status = choice->pop->order ? note_order(choice, result->count) : put_checkpoint(choice, result);
    if (status != RP_OK) {
        rp_get_release(&choice->lane->scratch, result);
        caught->status = status;
        caught->rest += result->max_offset - choice->offset;
        return;
    }
    if (!caught->is_peek && !choice->pop->order && !choice->is_escaping)
        commit(choice, result->next_offset);
    memcpy(caught->ranges + caught->range_count, choice->lane->scratch.ranges, result->range_count * sizeof *caught->ranges);
    if (!choice->is_light)
        put_places(choice, result->count);
    caught->range_count += result->range_count;
    caught->count += result->count;
    caught->bytes += result->bytes;
    caught->rest += result->max_offset - (caught->is_peek ? choice->offset : result->next_offset); /* messages that are only shown remain */
    count_out(choice, result);
}

/* The first record cannot be taken apart: the next turn begins behind its entry. A peek changes no offset, so it would come back to it. */
static void pass_over(choice *choice) {
    rp_queue_entry entry;
    if (choice->caught->is_peek || rp_consume_queue_read(choice->queue, choice->offset, &entry, 1) != 1)
        return;
    choice->offset = entry.queue_offset + entry.messages;
    commit(choice, choice->offset);
    choice->pop->more = 1;
}

/* Splits what was read of a batch queue into its messages. */
static void take_apart(choice *choice, rp_get_result *result) {
    rp_get_scratch *scratch = &choice->lane->scratch;
    uint32_t most = (uint32_t)choice->pop->max_messages - choice->caught->count;
    if (rp_consume_queue_is_batch(choice->queue) &&
        rp_inner_messages_got(&choice->lane->inner_places, scratch, result, choice->offset, most, choice->offsets) != RP_OK) {
        rp_get_release(scratch, result);
        choice->caught->status = RP_E_NO_MEMORY;
        choice->caught->rest += result->max_offset - choice->offset;
        return;
    }
    if (result->count > 0) {
        take(choice, result);
    } else {
        rp_get_release(scratch, result);
        pass_over(choice);
    }
}

/* ---- looking ---- */

/* What the last look missed is on disk only. 1: the pop waits until it has been read in, and is then woken as by an arrival in its
 * queue. 0: the reader of cold messages is too busy, or has had its time, so the reactor reads here. */
static int waits_for_disk(const choice *choice, int has_moved) {
    rp_lane *lane = choice->lane;
    rp_pop *pop = choice->pop;
    if (pop->cold_over)
        return 0;
    if (!(pop->cold_asked & lane->looks.kind) || has_moved) {
        if (!rp_cold_reads_ask(lane->broker->cold_reads, &lane->looks, choice->queue, lane->index, NULL))
            return 0;
        pop->cold_ns = rp_reactor_now_ns(lane->reactor);
        pop->cold_kinds = (uint8_t)((has_moved ? 0 : pop->cold_kinds) | lane->looks.kind);
    }
    look_again_at(pop, rp_clock_wall_ms(rp_clock_system()) + lane->broker->options.cold_wait_ms);
    return 1;
}

static int is_sql(const rp_pop *pop) { return pop->filter.kind == RP_FILTER_SQL; }

static void get(choice *choice, uint32_t disk_looks, rp_get_result *result) {
    rp_lane *lane = choice->lane;
    rp_get_request request = {
        .commit_log = lane->broker->commit_log,
        .queue = choice->queue,
        .offset = choice->offset,
        .max_messages = choice->pop->max_messages - (int32_t)choice->caught->count,
        .max_bytes = choice->caught->limits.transfer_bytes_memory,
        .filter = &choice->pop->filter,
        .is_in_memory = rp_cold_reads_saw,
        .is_on_disk = rp_cold_reads_look_at_message,
        .context = lane,
        .disk_looks = disk_looks,
        .offsets = choice->offsets,
        .takes_part = rp_consume_queue_is_batch(choice->queue),
    };
    rp_get_scratch_reserve(&lane->scratch, &choice->caught->limits);
    int64_t begun_ns = is_sql(choice->pop) ? rp_clock_monotonic_ns(rp_clock_system()) : 0;
    rp_get_message(&request, &choice->caught->limits, &lane->scratch, result);
    lane->filter_ns += is_sql(choice->pop) ? rp_clock_monotonic_ns(rp_clock_system()) - begun_ns : 0;
}

/* Has this turn spent its time on filters that read records? Senders of the same reactor wait for the end of the turn. */
static int is_for_later(rp_lane *lane, const rp_pop *pop) {
    if (!is_sql(pop))
        return 0;
    int64_t turn_ns = rp_reactor_now_ns(lane->reactor);
    if (lane->filter_turn_ns != turn_ns) {
        lane->filter_turn_ns = turn_ns;
        lane->filter_ns = 0;
    }
    return lane->filter_ns >= RP_FILTER_TURN_NS;
}

/* Moves on behind messages that do not match, or to where the queue begins or ends. 1: the queue is to be read again from there. */
static int moves_on(choice *choice, const rp_get_result *result) {
    switch (result->status) {
    case RP_GET_OFFSET_TOO_SMALL:
    case RP_GET_OFFSET_OVERFLOW_BADLY:
    case RP_GET_OFFSET_FOUND_NULL:
    case RP_GET_NO_MATCHED_MESSAGE:
    case RP_GET_MESSAGE_WAS_REMOVING:
    case RP_GET_ON_DISK:
        break;
    default:
        return 0;
    }
    if (result->next_offset == choice->offset)
        return 0;
    choice->offset = result->next_offset;
    if (!choice->caught->is_peek)
        commit(choice, choice->offset);
    return result->status != RP_GET_ON_DISK;
}

static void look(choice *choice) {
    rp_pop *pop = choice->pop;
    int64_t first = choice->offset;
    int64_t entries = rp_get_entries_max(&choice->caught->limits, pop->max_messages);
    rp_get_result result = {.status = RP_GET_NO_MATCHED_MESSAGE};
    if (!pop->cold_over &&
        rp_cold_reads_look_at_entries(choice->lane, choice->queue, choice->offset, entries, pop->cold_asked & RP_COLD_ENTRIES) &&
        waits_for_disk(choice, 0))
        return;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (is_for_later(choice->lane, pop)) {
            pop->more = 1;
            return;
        }
        get(choice, 0, &result);
        if (result.status == RP_GET_FOUND || !moves_on(choice, &result))
            break;
    }
    int waits = result.status == RP_GET_ON_DISK && waits_for_disk(choice, choice->offset > first);
    if (result.status == RP_GET_ON_DISK && !waits && choice->offset == first) {
        get(choice, RP_POP_MESSAGES_MAX, &result);
        (void)moves_on(choice, &result);
    }
    if (result.status == RP_GET_FOUND) {
        if (!pop->cold_over && rp_cold_reads_look(choice->lane, &result, choice->offset == first && (pop->cold_asked & RP_COLD_MESSAGES)) &&
            waits_for_disk(choice, choice->offset > first)) {
            rp_get_release(&choice->lane->scratch, &result);
            return;
        }
        take_apart(choice, &result);
        return;
    }
    if (result.max_offset > choice->offset) {
        choice->caught->rest += result.max_offset - choice->offset;
        if (choice->offset > first && !waits) {
            pop->more = 1;
            rp_pop_forget_disk(pop);
        } else if (!waits) {
            look_again_at(pop, rp_clock_wall_ms(rp_clock_system()) + UNREADABLE_MS);
        }
    }
}

/* An acting slave gives messages of one queue only: of two checkpoints one might not be accepted. */
static int is_full(const rp_pop *pop, const rp_pop_catch *caught) {
    if (caught->escape != NULL)
        return 1;
    return caught->count >= (uint32_t)pop->max_messages || (caught->count > 0 && caught->bytes >= caught->limits.transfer_bytes_memory);
}

/* 0: the queue's last pop is still under way. */
static int claim(choice *choice) {
    rp_broker *broker = choice->lane->broker;
    if (choice->pop->order || choice->caught->is_peek || !rp_pop_escapes(broker))
        return 1;
    choice->is_escaping = rp_escape_claim(broker, choice->cell);
    return choice->is_escaping;
}

/* Under the lock, so that a deletion of the topic or the group either comes later and forgets our offset, or is seen here. */
static void choose(choice *choice) {
    rp_pop_catch *caught = choice->caught;
    if (!rp_topic_is_live(choice->topic) || !rp_group_is_live(choice->pop->group) || !open_queue(choice))
        return;
    if (!claim(choice)) {
        look_again_at(choice->pop, rp_clock_wall_ms(rp_clock_system()) + ESCAPING_MS);
        return;
    }
    choice->offset = caught->is_peek ? begin_of_peek(choice) : begin(choice);
    if (choice->pop->order && !caught->is_peek && is_blocked(choice))
        return;
    int64_t max = rp_consume_queue_max_offset(choice->queue);
    if (!is_full(choice->pop, caught) && caught->status == RP_OK)
        look(choice);
    else
        caught->rest += max > choice->offset ? max - choice->offset : 0;
}

void rp_pop_choose(rp_lane *lane, rp_pop *pop, rp_topic *topic, int32_t queue_id, rp_pop_catch *caught) {
    choice one = {.lane = lane, .pop = pop, .caught = caught, .topic = topic, .queue_id = queue_id};
    if (!find_cell(&one))
        return;
    pthread_mutex_t *lock = rp_pop_lock_of(lane->broker, one.cell);
    pthread_mutex_lock(lock);
    choose(&one);
    if (one.is_escaping && caught->escape_cell != one.cell)
        rp_escape_unclaim(lane->broker, one.cell);
    pthread_mutex_unlock(lock);
}

void rp_pop_escaped(rp_broker *broker, const rp_pop *pop, rp_pop_catch *caught, int status) {
    pthread_mutex_t *lock = rp_pop_lock_of(broker, caught->escape_cell);
    pthread_mutex_lock(lock);
    int is_unchanged = committed_of(caught->escape_cell) == caught->escape_from; /* otherwise somebody set it meanwhile */
    if (status == RP_OK && is_unchanged && rp_topic_is_live(caught->escape_topic) && rp_group_is_live(pop->group) &&
        rp_offset_cell_commit(caught->escape_cell, caught->escape_next))
        rp_note_change(&broker->offset_version);
    rp_escape_unclaim(broker, caught->escape_cell);
    pthread_mutex_unlock(lock);
    caught->escape = NULL;
    caught->escape_cell = NULL;
    if (status != RP_OK)
        rp_pop_catch_release(caught);
}

/* Under the lock. */
static enum rp_light_choice choose_light(choice *choice, int64_t *free_ms) {
    rp_pop *pop = choice->pop;
    rp_pop_catch *caught = choice->caught;
    uint32_t before = caught->count;
    choice->offset = begin(choice);
    *free_ms = blocked_until(choice);
    if (*free_ms != 0)
        return RP_LIGHT_BLOCKED;
    look(choice);
    if (caught->count == before)
        return rp_consume_queue_max_offset(choice->queue) > choice->offset ? RP_LIGHT_LATER : RP_LIGHT_NOTHING;
    *free_ms = caught->pop_time_ms + pop->invisible_ms;
    return RP_LIGHT_TAKEN;
}

enum rp_light_choice rp_pop_choose_light(rp_lane *lane, rp_pop *pop, rp_topic *topic, rp_consume_queue *queue, rp_pop_catch *caught,
                                         int64_t *free_ms) {
    choice one = {.lane = lane, .pop = pop, .caught = caught, .topic = topic, .queue = queue, .queue_id = RP_LIGHT_QUEUE_ID, .is_light = 1};
    if (!find_cell(&one))
        return RP_LIGHT_LATER;
    pthread_mutex_t *lock = rp_pop_lock_of(lane->broker, one.cell);
    pthread_mutex_lock(lock);
    enum rp_light_choice chosen = choose_light(&one, free_ms);
    pthread_mutex_unlock(lock);
    return chosen;
}

int64_t rp_pop_rest(rp_lane *lane, rp_pop *pop, rp_topic *topic, int32_t queue_id) {
    choice one = {.lane = lane, .pop = pop, .topic = topic, .queue_id = queue_id};
    if (!find_cell(&one) || !open_queue(&one))
        return -1;
    if (pop->order) {
        pthread_mutex_t *lock = rp_pop_lock_of(lane->broker, one.cell);
        pthread_mutex_lock(lock);
        int blocked = is_blocked(&one);
        pthread_mutex_unlock(lock);
        if (blocked)
            return -1;
    }
    int64_t rest = rp_consume_queue_max_offset(one.queue) - begin_of_peek(&one);
    return rest > 0 ? rest : 0;
}

void rp_pop_catch_release(rp_pop_catch *caught) {
    for (uint32_t i = 0; i < caught->range_count; i++)
        caught->ranges[i].release(caught->ranges[i].owner);
    caught->range_count = 0;
}
