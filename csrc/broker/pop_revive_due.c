/* pop_revive_due.c: handles the checkpoints of a revive queue that are due, and those that hold back its offset (pop_revive.h).
 *
 *   due ─ its record, once more ─ topic, group, retry topic ─ each message that is left ─► batch ─┬─ none is: an ack of what went, done
 *                                                                                                 └─ else looked at again;
 *                                              after PATIENCE_MS: a new checkpoint of each message that is left ◄─────┘
 *   not due for long, and far behind the reading position: appended again at the end of the queue, so that the group's offset can move
 */
#include <inttypes.h>
#include <string.h>

#include "../base/hash.h"
#include "../base/log_inl.h"
#include "escape_bridge.h"
#include "pop_revive_inl.h"

#define DUE_MAX 32u /* checkpoints in one batch */
#define PATIENCE_MS 30000
#define CARRY_EARLY_MS 60000  /* one that is due so soon is not appended again */
#define CARRY_MAX 256u        /* in a round */

/* A checkpoint that is being handled. */
typedef struct due_checkpoint {
    rp_pop_checkpoint record; /* its texts are in `stored` or the arena */
    rp_stored_message stored;
} due_checkpoint;

/* ---- one checkpoint ---- */

/* Reads the checkpoint's record. RP_OK; RP_E_NOT_FOUND: it is gone; RP_E_IO, RP_E_NO_MEMORY. To be closed. */
static int open_checkpoint(rp_pop_revive *revive, const rp_kept_checkpoint *kept, due_checkpoint *due) {
    *due = (due_checkpoint){0};
    int status = rp_stored_message_open(revive->broker->commit_log, kept->log_offset, &due->stored);
    if (status != RP_OK)
        return status;
    rp_arena_reset(revive->arena);
    status = rp_pop_checkpoint_read(due->stored.message.body, revive->arena, &due->record);
    if (status != RP_OK)
        rp_stored_message_close(&due->stored);
    return status == RP_OK || status == RP_E_NO_MEMORY ? status : RP_E_NOT_FOUND;
}

/* Clips the length of a name shown in the log. */
static int shown(rp_slice name) { return (int)(name.size < RP_TOPIC_NAME_MAX ? name.size : RP_TOPIC_NAME_MAX); }

static void drop(rp_pop_revive *revive, rp_kept_checkpoint *kept, rp_slice topic, rp_slice group, const char *why) {
    kept->over = UINT32_MAX;
    kept->is_dropped = 1;
    revive_count(&revive->dropped);
    if (rp_log_is_due(&revive->line_due_ns))
        rp_log_write(revive->broker->options.log, RP_LOG_WARNING,
                     "pop: messages that group %.*s has not acked of topic %.*s are not revived: %s", shown(group),
                     (const char *)group.data, shown(topic), (const char *)topic.data, why);
}

/* Takes its messages into the batch. If it is not over afterwards it is tried again. */
static void revive_checkpoint(revive_batch *batch, rp_kept_checkpoint *kept) {
    rp_pop_revive *revive = batch->revive;
    due_checkpoint due;
    int status = open_checkpoint(revive, kept, &due);
    if (status == RP_E_NOT_FOUND)
        drop(revive, kept, (rp_slice){(const uint8_t *)"?", 1}, (rp_slice){(const uint8_t *)"?", 1}, "their checkpoint is gone");
    if (status != RP_OK)
        return;
    const rp_pop_checkpoint *record = &due.record;
    rp_group *group = rp_group_table_find(revive->broker->groups, record->group);
    const rp_topic *normal = rp_topic_table_find(revive->broker->topics, revive_normal_topic(record->topic, record->group));
    /* Otherwise the slave may lack what its master created last, and the checkpoint waits. */
    bool is_copied = !rp_escape_is_on(revive->broker);
    if (group == NULL && is_copied)
        drop(revive, kept, record->topic, record->group, "the group was deleted");
    else if (normal == NULL && is_copied)
        drop(revive, kept, record->topic, record->group, "the topic was deleted");
    rp_topic *target = group != NULL && normal != NULL ? revive_target(revive, record, normal) : NULL;
    for (uint32_t i = 0; target != NULL && i < record->count && !batch->is_refused; i++) {
        if ((kept->over >> i & 1) == 0)
            (void)revive_take(batch, kept, record, group, target, i); /* a failure leaves the message not over */
    }
    rp_stored_message_close(&due.stored);
}

/* Names with the same hash share an entry. */
static int64_t *brought_ms(rp_pop_revive *revive, rp_slice broker_name) {
    return &revive->brought_ms[rp_hash_bytes(broker_name.data, broker_name.size, 0) % REVIVE_BROUGHT_MAX];
}

/* True if it belongs to another broker of which messages arrived meanwhile: it waits for its turn, and its failure counts from the last
 * arrival at the earliest. */
static bool is_being_brought(rp_pop_revive *revive, const rp_pop_checkpoint *record, rp_kept_checkpoint *kept, int64_t now_ms) {
    int64_t last_ms = *brought_ms(revive, record->broker_name);
    if (record->broker_name.size == 0 || rp_slice_equals(record->broker_name, revive_broker_name(revive)))
        return false;
    if (last_ms <= now_ms && kept->failing_ms < last_ms)
        kept->failing_ms = last_ms;
    return now_ms - kept->failing_ms < PATIENCE_MS;
}

/* Appends a checkpoint of its own for each message that is left, with an invisible time that grows each time, so that the group's offset
 * need not wait. RocketMQ: PopReviveService.rePutCK. It gets another pop time: the ack of what is over, which follows, does not apply to
 * it. */
static void put_again(rp_pop_revive *revive, int32_t queue_id, rp_kept_checkpoint *kept, int64_t now_ms) {
    static const uint16_t longer_s[] = {10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200};
    const int32_t last = sizeof longer_s / sizeof longer_s[0] - 1;
    due_checkpoint due;
    if (open_checkpoint(revive, kept, &due) != RP_OK)
        return;
    const rp_pop_checkpoint *record = &due.record;
    if (is_being_brought(revive, record, kept, now_ms)) {
        rp_stored_message_close(&due.stored);
        return;
    }
    if (rp_log_is_due(&revive->line_due_ns))
        rp_log_write(revive->broker->options.log, RP_LOG_WARNING,
                     "pop: messages that group %.*s has not acked of topic %.*s cannot be revived just now: it is tried again later",
                     shown(record->group), (const char *)record->group.data, shown(record->topic), (const char *)record->topic.data);
    for (uint32_t i = 0; i < record->count; i++) {
        if (kept->over >> i & 1)
            continue;
        int32_t times = record->re_puts;
        rp_pop_checkpoint again = {
            .topic = record->topic,
            .group = record->group,
            .broker_name = record->broker_name,
            .start_offset = rp_pop_checkpoint_offset(record, i),
            .pop_time_ms = record->pop_time_ms < INT64_MAX ? record->pop_time_ms + 1 : 0,
            .queue_id = record->queue_id,
            .re_puts = times < RP_POP_RE_PUTS_MAX ? times + 1 : times,
            .count = 1,
            .diff_count = 1,
        };
        if (__builtin_add_overflow(record->invisible_ms, INT64_C(1000) * longer_s[times < last ? times : last], &again.invisible_ms))
            again.invisible_ms = record->invisible_ms;
        if (rp_pop_log_put_checkpoint(revive->broker, queue_id, &again) != RP_OK) {
            revive_count(&revive->append_failures);
            break;
        }
        revive_count(&revive->put_again);
        revive_is_over(kept, i);
    }
    rp_stored_message_close(&due.stored);
}

/* Acks, in the group's name, what has gone to the retry topic or into a checkpoint of its own, so that reading the queue again, from
 * before a checkpoint that is not due for long, does not revive it twice. If this fails, that happens. over_ms: now, if messages were
 * revived or are gone; 0: they have checkpoints of their own. */
static void ack_over(rp_pop_revive *revive, int32_t queue_id, const rp_kept_checkpoint *kept, uint32_t over, int64_t over_ms) {
    due_checkpoint due;
    int64_t offsets[RP_POP_MESSAGES_MAX];
    if (open_checkpoint(revive, kept, &due) != RP_OK)
        return;
    const rp_pop_checkpoint *record = &due.record;
    rp_pop_ack ack = {
        .topic = record->topic,
        .group = record->group,
        .broker_name = record->broker_name,
        .start_offset = record->start_offset,
        .pop_time_ms = record->pop_time_ms,
        .queue_id = record->queue_id,
        .is_batch = 1,
        .offsets = offsets,
    };
    if (over_ms > 0)
        *brought_ms(revive, record->broker_name) = over_ms;
    for (uint32_t i = 0; i < record->count; i++) {
        if (over >> i & 1)
            offsets[ack.offset_count++] = rp_pop_checkpoint_offset(record, i);
    }
    if (ack.offset_count > 0 && rp_pop_log_put_ack(revive->broker, queue_id, &ack) != RP_OK)
        revive_count(&revive->append_failures);
    rp_stored_message_close(&due.stored);
}

/* After the batch: the checkpoint is done, or looked at again. `before`: what was over already. */
static void settle(revive_batch *batch, int32_t queue_id, revive_queue *state, rp_kept_checkpoint *kept, uint32_t before, int64_t now_ms) {
    rp_pop_revive *revive = batch->revive;
    int64_t over_ms = kept->over != before ? now_ms : 0;
    if (!rp_kept_is_over(kept)) {
        if (kept->failing_ms == 0 || kept->failing_ms > now_ms)
            kept->failing_ms = now_ms;
        if (now_ms - kept->failing_ms >= PATIENCE_MS && !batch->is_refused)
            put_again(revive, queue_id, kept, now_ms);
    }
    if (!kept->is_dropped && kept->over != before)
        ack_over(revive, queue_id, kept, kept->over & ~before, over_ms);
    if (!rp_kept_is_over(kept)) {
        rp_kept_put_off(&state->kept, kept, now_ms + REVIVE_AGAIN_MS);
        return;
    }
    revive_count(&revive->done);
    rp_kept_remove(&revive->kept, &state->kept, kept);
}

/* ---- what is due ---- */

static void tell(revive_batch *batch) {
    rp_pop_revive *revive = batch->revive;
    if (batch->is_refused != revive->is_refused)
        rp_log_write(revive->broker->options.log, RP_LOG_WARNING, "pop: messages that were not acked %s",
                     batch->is_refused ? "cannot be put into their retry topics; it is tried again" : "go to their retry topics again");
    revive->is_refused = batch->is_refused;
}

/* Returns the next checkpoint if it is due. */
static rp_kept_checkpoint *next_due(const revive_queue *state, int64_t due_ms) {
    rp_kept_checkpoint *kept = rp_kept_next(&state->kept);
    return kept != NULL && kept->look_ms <= due_ms ? kept : NULL;
}

bool revive_put_due(rp_pop_revive *revive, int32_t queue_id, revive_queue *state, int64_t due_ms, int64_t now_ms) {
    rp_kept_checkpoint *due[DUE_MAX];
    uint32_t before[DUE_MAX];
    revive_batch batch;
    batch.revive = revive;
    batch.count = 0;
    batch.bytes = 0;
    batch.is_refused = false;
    batch.whole.pin = NULL;
    while (!batch.is_refused && !revive_is_stopping(revive)) {
        uint32_t count = 0;
        for (; count < DUE_MAX && (due[count] = next_due(state, due_ms)) != NULL; count++) {
            before[count] = due[count]->over;
            rp_kept_put_off(&state->kept, due[count], INT64_MAX);
        }
        if (count == 0)
            break;
        for (uint32_t i = 0; i < count; i++) {
            if (!rp_kept_is_over(due[i]))
                revive_checkpoint(&batch, due[i]);
        }
        revive_flush(&batch);
        for (uint32_t i = 0; i < count; i++)
            settle(&batch, queue_id, state, due[i], before[i], now_ms);
        tell(&batch);
    }
    revive_end(&batch);
    return !batch.is_refused;
}

/* ---- what is not due for long ---- */

/* Appends the checkpoint again, with what is over. 1: it now lies at the end of the queue. */
static bool write_again(rp_pop_revive *revive, int32_t queue_id, const rp_kept_checkpoint *kept) {
    due_checkpoint due;
    if (open_checkpoint(revive, kept, &due) != RP_OK)
        return false;
    due.record.bits = (int32_t)kept->over;
    bool is_put = rp_pop_log_put_checkpoint(revive->broker, queue_id, &due.record) == RP_OK;
    rp_stored_message_close(&due.stored);
    return is_put;
}

/* Appends those of one kind again. They stay until they are read again: an ack may come in between. Returns how much of count_max is
 * left. */
static uint32_t carry_kind(rp_pop_revive *revive, int32_t queue_id, const revive_queue *state, enum rp_kept_kind kind, int64_t now_ms,
                           uint32_t count_max) {
    for (rp_kept_checkpoint *kept = state->kept.oldest[kind]; kept != NULL && count_max > 0; kept = kept->newer) {
        if (state->position - kept->revive_offset < revive->carry_records || kept->look_ms - now_ms < CARRY_EARLY_MS)
            break;
        if (kept->is_carried)
            continue;
        if (!write_again(revive, queue_id, kept))
            return 0;
        kept->is_carried = 1;
        count_max--;
    }
    return count_max;
}

void revive_carry(rp_pop_revive *revive, int32_t queue_id, revive_queue *state, int64_t now_ms) {
    if (state->skipped_from[RP_KEPT_SHORT] >= 0 || state->skipped_from[RP_KEPT_LONG] >= 0)
        return; /* the offset must wait for it */
    uint32_t left = CARRY_MAX;
    for (uint32_t kind = 0; kind < RP_KEPT_KINDS; kind++)
        left = carry_kind(revive, queue_id, state, (enum rp_kept_kind)kind, now_ms, left);
}
