/* lite_acks.c: acks of messages of lite topics, and changes of their invisible time (lite_path.h). The checks are in RocketMQ's order.
 *
 * Which messages are out is kept in memory only. An ack of a message that this broker, having been restarted, does not know to be out
 * moves the offset only if it is the next one: RocketMQ moves the offset behind any, and the messages before it are never consumed.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "../store/light_queue.h"
#include "lane.h"
#include "lite_path.h"
#include "lite_readers.h"
#include "pop_choice.h"
#include "pop_extra_info.h"
#include "pop_log.h"
#include "pop_order.h"

/* One acked message. */
typedef struct acking {
    rp_lane *lane;
    rp_answer_to to;
    const rp_pop_ack_header *header;
    rp_group *group; /* NULL: there is none */
    rp_slice name;   /* name of the lite queue; size 0: there is none */
    int64_t max;     /* end of that queue */
    rp_offset_cell *cell; /* NULL: the group never had any of its messages */
    rp_pop_extra_info info;
    uint8_t name_bytes[RP_LITE_NAME_MAX];
} acking;

static int64_t wall_ms(void) { return rp_clock_wall_ms(rp_clock_system()); }

static void find(acking *acking, const rp_topic *parent) {
    rp_broker *broker = acking->lane->broker;
    const rp_pop_ack_header *header = acking->header;
    acking->group = rp_group_table_find(broker->groups, header->group);
    acking->name = (rp_slice){acking->name_bytes, rp_lite_queue_name(parent->head.name, header->lite_topic, acking->name_bytes)};
    if (acking->name.size == 0)
        return;
    const rp_consume_queue *queue = rp_message_store_queue(broker->store, acking->name, RP_LIGHT_QUEUE_ID, 0, NULL);
    acking->max = queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
    const rp_topic *topic = rp_topic_table_known(broker->topics, acking->name);
    rp_consumption *consumption =
        topic != NULL && acking->group != NULL ? rp_group_table_consumption(broker->groups, acking->group, topic) : NULL;
    acking->cell = consumption != NULL ? rp_offset_cells_find(&consumption->offsets, RP_LIGHT_QUEUE_ID) : NULL;
}

static int read_handle(acking *acking) {
    rp_slice text = acking->header->extra_info;
    if (rp_pop_extra_info_read(text, &acking->info) == RP_OK)
        return RP_OK;
    return rp_answer(acking->to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "extraInfo[%.*s] is not the handle of a popped message",
                     (int)(text.size > 64 ? 64 : text.size), (const char *)text.data);
}

/* Under the lock: frees the memory if no message is out. Returns 0 if the queue is not blocked, else the time until which it is. */
static int64_t blocked_until(rp_offset_cell *cell) {
    if (!rp_pop_order_is_over(cell->order))
        return rp_pop_order_blocked_until(cell->order, (rp_slice){NULL, 0}, RP_POP_ORDER_NO_POP, wall_ms());
    free(cell->order);
    cell->order = NULL;
    return 0;
}

/* ---- acks ---- */

static int64_t next_of(const acking *acking) {
    const rp_pop_order *order = acking->cell->order;
    int64_t offset = acking->header->offset;
    if (order != NULL && order->count > 0)
        return rp_pop_order_ack(acking->cell->order, offset, acking->info.pop_time_ms);
    int is_next = offset == atomic_load_explicit(&acking->cell->committed, memory_order_relaxed) && offset < acking->max;
    return is_next ? offset + 1 : RP_POP_ORDER_STALE;
}

/* Under the cell's lock. RP_OK: *is_free says whether messages behind it can be popped, from *next on; RP_E_RANGE: it is not among those
 * that are out. */
static int ack_in_order(const acking *acking, int64_t *next, int *is_free) {
    rp_broker *broker = acking->lane->broker;
    rp_offset_cell *cell = acking->cell;
    int64_t committed = atomic_load_explicit(&cell->committed, memory_order_relaxed);
    if (acking->header->offset < committed || acking->header->offset < 0) /* the smallest number stands for no offset */
        return RP_OK;
    rp_pop_order_pass(cell->order, committed);
    *next = next_of(acking);
    if (*next == RP_POP_ORDER_ILLEGAL)
        return RP_E_RANGE;
    if (*next == RP_POP_ORDER_STALE)
        return RP_OK;
    if (atomic_load_explicit(&cell->reset, memory_order_relaxed) == RP_OFFSET_NONE && rp_offset_cell_commit(cell, *next))
        rp_note_change(&broker->offset_version);
    *is_free = blocked_until(cell) == 0;
    return RP_OK;
}

static int ack(acking *acking, const rp_topic *parent) {
    rp_broker *broker = acking->lane->broker;
    const rp_pop_ack_header *header = acking->header;
    if (acking->group == NULL || atomic_load_explicit(&acking->group->lite_topic, memory_order_acquire) != parent)
        return rp_answer(acking->to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "group type or bind topic not match.");
    if (header->offset > acking->max)
        return rp_answer(acking->to, RP_RESPONSE_NO_MESSAGE, NULL, 0, "ack offset illegal.");
    int outcome = read_handle(acking), status = RP_OK, is_free = 0;
    int64_t next = 0;
    if (outcome != RP_OK)
        return outcome;
    if (header->queue_id != RP_LIGHT_QUEUE_ID || acking->info.revive_queue_id != RP_POP_ORDER_QUEUE)
        return rp_answer(acking->to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "ack queue illegal.");
    if (acking->cell != NULL) {
        pthread_mutex_t *lock = rp_pop_lock_of(broker, acking->cell);
        pthread_mutex_lock(lock);
        status = ack_in_order(acking, &next, &is_free);
        pthread_mutex_unlock(lock);
    }
    if (status != RP_OK) {
        rp_count(&acking->lane->counters.acks_failed, 1);
        return rp_answer(acking->to, RP_RESPONSE_MESSAGE_ILLEGAL, NULL, 0, "ack offset illegal.");
    }
    if (is_free)
        rp_lite_freed(broker->lite, acking->group, acking->name, next);
    return rp_answer(acking->to, RP_RESPONSE_SUCCESS, NULL, 0, NULL);
}

/* ---- invisible time ---- */

/* Under the cell's lock. 1: something changed, and *free_ms is until when the queue is blocked, 0: it is not. */
static int change_in_order(const acking *acking, int64_t invisible_ms, int64_t now_ms, int64_t *free_ms) {
    const rp_pop_ack_header *header = acking->header;
    rp_pop_order *order = acking->cell->order;
    int64_t pop_time_ms = acking->info.pop_time_ms;
    int is_changed = header->suspend ? rp_pop_order_suspend(order, pop_time_ms, invisible_ms, now_ms)
                                     : rp_pop_order_change(order, header->offset, pop_time_ms, invisible_ms, now_ms);
    *free_ms = is_changed ? blocked_until(acking->cell) : 0;
    return is_changed;
}

static void tell_changed(const acking *acking, int64_t free_ms) {
    rp_lane *lane = acking->lane;
    rp_lite_readers *readers = lane->broker->lite;
    int64_t wait_ms = free_ms - wall_ms();
    if (free_ms == 0)
        rp_lite_look_again(readers, acking->group, acking->name);
    else if (rp_lite_hold(readers, acking->group, acking->name,
                          rp_reactor_now_ns(lane->reactor) + (wait_ms > 0 ? wait_ms : 0) * RP_NS_PER_MS))
        rp_lite_tell_due(lane);
}

static int change(acking *acking) {
    const rp_pop_ack_header *header = acking->header;
    if (header->offset > acking->max)
        return rp_answer(acking->to, RP_RESPONSE_NO_MESSAGE, NULL, 0, "there is no message at offset %" PRId64, header->offset);
    int outcome = read_handle(acking), is_out = 0, is_changed = 0;
    if (outcome != RP_OK)
        return outcome;
    int64_t now_ms = wall_ms(), invisible_ms = rp_pop_invisible_ms(header->invisible_ms), free_ms = 0;
    if (acking->cell != NULL) {
        pthread_mutex_t *lock = rp_pop_lock_of(acking->lane->broker, acking->cell);
        pthread_mutex_lock(lock);
        now_ms = wall_ms(); /* an earlier time than another's before it would count as a clock that was set back */
        is_out = header->offset >= atomic_load_explicit(&acking->cell->committed, memory_order_relaxed);
        is_changed = is_out && change_in_order(acking, invisible_ms, now_ms, &free_ms);
        pthread_mutex_unlock(lock);
    }
    if (is_changed)
        tell_changed(acking, free_ms);
    if (!is_out && acking->cell != NULL)
        return rp_pop_answer_change(acking->to, 0, 0, 0);
    int64_t told_ms =
        (int64_t)((uint64_t)(now_ms + invisible_ms) - (uint64_t)acking->info.pop_time_ms); /* the pop time may be a stranger's */
    return rp_pop_answer_change(acking->to, acking->info.pop_time_ms, told_ms, acking->info.revive_queue_id);
}

int rp_lite_acked(rp_lane *lane, rp_answer_to to, const rp_topic *parent, const rp_pop_ack_header *header) {
    acking acking = {.lane = lane, .to = to, .header = header};
    find(&acking, parent);
    return header->request_code == RP_CODE_ACK_MESSAGE ? ack(&acking, parent) : change(&acking);
}
