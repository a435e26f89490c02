/* pop_revive_read.c: reads checkpoints and acks of a revive queue (pop_revive.h).
 *
 *   position ─► ck ─► kept; no room: skipped_from ─┐ read once more when there is some
 *             └ ack ─► marks what is kept          ▼
 *               ◄──────────────────────── skipped_from … position
 */
#include <inttypes.h>

#include "../base/log_inl.h"
#include "../base/slice_inl.h"
#include "../store/message.h"
#include "pop_revive_inl.h"
#include "stored_message.h"

#define ENTRIES 256
#define INVISIBLE_MS_MAX (INT64_C(10) * 365 * 24 * 3600 * 1000)

/* A pass over records: which kinds of checkpoints it keeps, and where the first lies that found no room. */
typedef struct record_pass {
    rp_pop_revive *revive;
    revive_queue *state;
    int64_t now_ms;
    bool takes[RP_KEPT_KINDS];
    int64_t skipped_from[RP_KEPT_KINDS];
} record_pass;

static void tell_odd(rp_pop_revive *revive, const rp_message *message, const char *why) {
    if (rp_log_is_due(&revive->line_due_ns))
        rp_log_write(revive->broker->options.log, RP_LOG_WARNING,
                     "pop: the record at log offset %" PRId64 " of the revive topic is passed over: %s", message->physical_offset, why);
}

static int64_t within(int64_t value, int64_t min, int64_t max) { return value < min ? min : value > max ? max : value; }

/* A pop time in the future is from before the clock was set back: the invisible time counts from now. */
static int64_t look_ms(const rp_pop_checkpoint *checkpoint, int64_t now_ms) {
    return within(checkpoint->pop_time_ms, 0, now_ms) + checkpoint->invisible_ms + REVIVE_GRACE_MS;
}

static bool has_messages(const rp_pop_checkpoint *checkpoint) {
    uint32_t all = (uint32_t)((UINT64_C(1) << checkpoint->count) - 1);
    return ((uint32_t)checkpoint->bits & all) != all;
}

/* RP_OK, or RP_E_NO_MEMORY: to be read again. */
static int keep(record_pass *pass, int64_t revive_offset, const rp_message *message) {
    rp_pop_revive *revive = pass->revive;
    rp_pop_checkpoint checkpoint;
    int status = rp_pop_checkpoint_read(message->body, revive->arena, &checkpoint);
    if (status == RP_E_NO_MEMORY)
        return status;
    if (status != RP_OK || checkpoint.queue_id < 0 || checkpoint.queue_id >= RP_TOPIC_QUEUES_MAX) {
        tell_odd(revive, message, "it is not a checkpoint");
        return RP_OK;
    }
    checkpoint.invisible_ms = within(checkpoint.invisible_ms, 0, INVISIBLE_MS_MAX);
    enum rp_kept_kind kind = rp_kept_kind_of(&checkpoint);
    if (!pass->takes[kind] || pass->skipped_from[kind] >= 0 || !has_messages(&checkpoint))
        return RP_OK;
    status = rp_kept_add(&revive->kept, &pass->state->kept, &checkpoint, revive_broker_name(revive), revive_offset,
                         message->physical_offset, look_ms(&checkpoint, pass->now_ms));
    if (status == RP_E_EXISTS)
        tell_odd(revive, message, "there are too many checkpoints of one pop");
    else if (status != RP_OK)
        pass->skipped_from[kind] = revive_offset;
    return RP_OK;
}

/* An ack without a checkpoint belongs to one that is over: it came too late. */
static int mark(record_pass *pass, const rp_message *message, int is_batch) {
    rp_pop_revive *revive = pass->revive;
    rp_pop_ack ack;
    int status = rp_pop_ack_read(message->body, is_batch, revive->arena, &ack);
    if (status == RP_E_NO_MEMORY)
        return status;
    if (status != RP_OK)
        tell_odd(revive, message, "it is no ack");
    else
        rp_kept_ack(&revive->kept, &ack, revive_broker_name(revive));
    return RP_OK;
}

static int read_record(record_pass *pass, int64_t revive_offset, const rp_message *message) {
    rp_slice tag = rp_message_property(message->properties, "TAGS");
    if (message->body.size > REVIVE_RECORD_MAX) {
        tell_odd(pass->revive, message, "it is too large");
        return RP_OK;
    }
    rp_arena_reset(pass->revive->arena);
    if (rp_slice_is(tag, RP_POP_CK_TAG))
        return keep(pass, revive_offset, message);
    if (rp_slice_is(tag, RP_POP_ACK_TAG) || rp_slice_is(tag, RP_POP_BATCH_ACK_TAG))
        return mark(pass, message, rp_slice_is(tag, RP_POP_BATCH_ACK_TAG));
    return RP_OK;
}

/* A record that is gone or damaged is skipped; its messages are not revived. RP_OK, or an error that will pass: RP_E_IO, RP_E_NO_MEMORY. */
static int read_entry(record_pass *pass, int64_t revive_offset, const rp_queue_entry *entry) {
    rp_pop_revive *revive = pass->revive;
    rp_stored_message stored;
    int status = rp_stored_message_open(revive->broker->commit_log, entry->commit_log_offset, &stored);
    if (rp_status_is_passing(status))
        return status;
    if (status != RP_OK) {
        if (rp_log_is_due(&revive->line_due_ns))
            rp_log_write(revive->broker->options.log, RP_LOG_ERROR,
                         "pop: the record at log offset %" PRId64 " of the revive topic cannot be read: what it stands for is not revived",
                         entry->commit_log_offset);
        return RP_OK;
    }
    status = read_record(pass, revive_offset, &stored.message);
    rp_stored_message_close(&stored);
    return status;
}

/* Returns where the pass ended: `end`, or where it must continue. */
static int64_t read_range(record_pass *pass, rp_consume_queue *queue, int64_t from, int64_t end) {
    rp_queue_entry entries[ENTRIES];
    while (from < end && !revive_is_stopping(pass->revive)) {
        int64_t count = rp_consume_queue_read(queue, from, entries, ENTRIES);
        if (count == RP_E_NOT_FOUND) { /* somebody removed a file */
            from++;
            continue;
        }
        if (count <= 0)
            return from;
        for (int64_t i = 0; i < count && from < end; i++, from++) {
            if (read_entry(pass, from, &entries[i]) != RP_OK)
                return from;
        }
    }
    return from;
}

/* Reads again what found no room, once a quarter of the room is free. 1: nothing is left that must be read before messages are put. */
static bool catch_up(rp_pop_revive *revive, rp_consume_queue *queue, revive_queue *state, enum rp_kept_kind kind, int64_t now_ms) {
    uint32_t max = revive->kept.count_max[kind];
    if (state->skipped_from[kind] < 0 || revive->kept.count[kind] > max - max / 4)
        return true;
    record_pass pass = {.revive = revive, .state = state, .now_ms = now_ms, .skipped_from = {-1, -1}};
    pass.takes[kind] = true;
    int64_t reached = read_range(&pass, queue, state->skipped_from[kind], state->position);
    bool is_whole = reached == state->position;
    state->skipped_from[kind] = pass.skipped_from[kind] >= 0 ? pass.skipped_from[kind] : is_whole ? -1 : reached;
    state->acks_from = is_whole ? -1 : reached;
    return is_whole;
}

/* Reads again what a pass was to read that did not complete. */
static bool read_acks_again(rp_pop_revive *revive, rp_consume_queue *queue, revive_queue *state, int64_t now_ms) {
    if (state->acks_from < 0)
        return true;
    record_pass pass = {.revive = revive, .state = state, .now_ms = now_ms};
    int64_t reached = read_range(&pass, queue, state->acks_from, state->position);
    state->acks_from = reached == state->position ? -1 : reached;
    return state->acks_from < 0;
}

/* Records below were deleted; records above were lost with the log's end. */
static void correct_position(rp_pop_revive *revive, rp_consume_queue *queue, revive_queue *state) {
    int64_t min = rp_consume_queue_min_offset(queue), max = rp_consume_queue_max_offset(queue);
    int64_t corrected = within(state->position, min, max);
    for (uint32_t kind = 0; kind < RP_KEPT_KINDS; kind++) {
        if (state->skipped_from[kind] >= 0)
            state->skipped_from[kind] = within(state->skipped_from[kind], min, max);
    }
    if (state->acks_from >= 0)
        state->acks_from = within(state->acks_from, min, max);
    if (corrected == state->position)
        return;
    rp_log_write(revive->broker->options.log, RP_LOG_ERROR,
                 "pop: revive queue %d is read on at offset %" PRId64 " instead of %" PRId64 ": it has %" PRId64 " to %" PRId64,
                 rp_consume_queue_id(queue), corrected, state->position, min, max);
    state->position = corrected;
}

bool revive_read(rp_pop_revive *revive, rp_consume_queue *queue, revive_queue *state, int64_t now_ms) {
    correct_position(revive, queue, state);
    if (!read_acks_again(revive, queue, state, now_ms))
        return false;
    for (uint32_t kind = 0; kind < RP_KEPT_KINDS; kind++) {
        if (!catch_up(revive, queue, state, (enum rp_kept_kind)kind, now_ms))
            return false;
    }
    int64_t end = rp_consume_queue_max_offset(queue);
    record_pass pass = {.revive = revive, .state = state, .now_ms = now_ms, .takes = {true, true}};
    memcpy(pass.skipped_from, state->skipped_from, sizeof pass.skipped_from);
    state->position = read_range(&pass, queue, state->position, end);
    memcpy(state->skipped_from, pass.skipped_from, sizeof state->skipped_from);
    return state->position == end;
}
