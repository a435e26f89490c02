/* pending_replies.c: see pending_replies.h. */
#include "pending_replies.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../base/hex_inl.h"
#include "../base/log_inl.h"
#include "../base/slice_inl.h"
#include "lane.h"
#include "response_writer_inl.h"

/* ---- stacks between lanes ---- */

static void put(_Atomic(rp_reply *) *stack, rp_reply *reply) {
    reply->next = atomic_load_explicit(stack, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(stack, &reply->next, reply, memory_order_release, memory_order_relaxed)) {
    }
}

/* Takes the whole stack, in the order in which it was filled. */
static rp_reply *take_all(_Atomic(rp_reply *) *stack) {
    rp_reply *reversed = NULL;
    if (atomic_load_explicit(stack, memory_order_relaxed) == NULL)
        return NULL;
    for (rp_reply *reply = atomic_exchange_explicit(stack, NULL, memory_order_acquire), *next; reply != NULL; reply = next) {
        next = reply->next;
        reply->next = reversed;
        reversed = reply;
    }
    return reversed;
}

/* ---- frames ---- */

static void free_frame(rp_push_frame *frame) {
    if (frame != NULL) {
        atomic_fetch_sub_explicit(&frame->broker->push_bytes, frame->size, memory_order_relaxed);
        free(frame);
    }
}

int rp_push_frame_create(rp_broker *broker, rp_command *push, rp_push_frame **out) {
    size_t size_max = rp_command_size_max(push);
    if (size_max == 0)
        return RP_E_TOO_LARGE;
    rp_push_frame *frame = malloc(sizeof *frame + size_max);
    if (frame == NULL)
        return RP_E_NO_MEMORY;
    uint32_t serial = atomic_fetch_add_explicit(&broker->push_serial, 1, memory_order_relaxed);
    push->opaque = RP_PUSH_OPAQUE | (int32_t)(serial & (RP_PUSH_OPAQUE - 1));
    int64_t size = rp_command_encode(push, frame->bytes, size_max);
    if (size < 0) {
        free(frame);
        return (int)size;
    }
    rp_push_frame *fitted = realloc(frame, sizeof *frame + (size_t)size);
    frame = fitted != NULL ? fitted : frame;
    frame->broker = broker;
    frame->size = (uint32_t)size;
    if (atomic_fetch_add_explicit(&broker->push_bytes, frame->size, memory_order_relaxed) + frame->size > RP_PUSH_BYTES_MAX) {
        free_frame(frame);
        return RP_E_BUSY;
    }
    *out = frame;
    return RP_OK;
}

static void release_frame(void *owner) { free_frame(owner); }

/* ---- lane A ---- */

void rp_replies_free(rp_lane *lane) {
    for (rp_reply *reply = lane->replies.all, *before; reply != NULL; reply = before) {
        before = reply->made_before;
        free_frame(reply->frame);
        free(reply);
    }
    lane->replies.all = lane->replies.free = NULL;
}

rp_reply *rp_reply_take(rp_lane *lane, rp_answer_to replier, int32_t queue_id) {
    rp_replies *replies = &lane->replies;
    rp_reply *reply = replies->free;
    if (reply != NULL) {
        replies->free = reply->next;
    } else if (replies->made == RP_REPLIES_MAX || (reply = malloc(sizeof *reply)) == NULL) {
        return NULL;
    } else {
        reply->lane = lane;
        reply->made_before = replies->all;
        replies->all = reply;
        replies->made++;
    }
    reply->replier_id = rp_connection_id(replier.connection);
    reply->arrived_ns = replier.arrived_ns;
    reply->request_code = replier.request_code;
    reply->opaque = replier.opaque;
    reply->serialize_type = replier.serialize_type;
    reply->oneway = replier.oneway;
    reply->queue_id = queue_id;
    reply->frame = NULL;
    reply->waits_for_push = reply->waits_for_store = reply->is_stored = 0;
    reply->outcome = RP_PUSH_NO_REQUESTER;
    reply->requester[0] = 0;
    rp_count(&lane->counters.replies_pending, 1);
    return reply;
}

/* RocketMQ's text, without the space that it has before "fail". */
static int answer_not_pushed(const rp_reply *reply, rp_answer_to to, const rp_field *fields, uint16_t count) {
    switch (reply->outcome) {
    case RP_PUSH_NOT_FOUND:
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, fields, count, "push reply message fail, channel of <%s> not found.",
                         reply->requester);
    case RP_PUSH_NO_REQUESTER:
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, fields, count, "reply message properties[REPLY_TO_CLIENT] is null");
    default:
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, fields, count, "push reply message to %sfail.", reply->requester);
    }
}

static rp_slice number_text(int64_t number, uint8_t room[24]) { return (rp_slice){room, (uint32_t)(rp_decimal(room, number) - room)}; }

/* Writes the ids of a stored reply; msgId 0 for one that was only pushed, because clients require one; nothing otherwise. */
static uint16_t id_fields(const rp_reply *reply, rp_field *fields, uint8_t room[3][64]) {
    const rp_send_template *template = &reply->lane->broker->send_template;
    if (!reply->is_stored && reply->outcome != RP_PUSH_DONE)
        return 0;
    rp_slice id = rp_slice_of("0");
    if (reply->is_stored) {
        memcpy(room[0], template->store_host_hex, template->store_host_hex_size);
        rp_put_hex_u64(room[0] + template->store_host_hex_size, (uint64_t)reply->commit_log_offset);
        id = (rp_slice){room[0], template->store_host_hex_size + 16};
    }
    fields[0] = (rp_field){rp_slice_of("msgId"), id};
    fields[1] = (rp_field){rp_slice_of("queueId"), number_text(reply->queue_id, room[1])};
    fields[2] = (rp_field){rp_slice_of("queueOffset"), number_text(reply->is_stored ? reply->queue_offset : 0, room[2])};
    return 3;
}

static int answer(const rp_reply *reply, rp_connection *connection) {
    rp_answer_to to = {connection,    &reply->lane->answer_times, reply->arrived_ns, reply->request_code,
                       reply->opaque, reply->serialize_type,      reply->oneway};
    rp_field fields[3 + RP_SEND_FIELD_COUNT];
    uint8_t room[3][64];
    uint16_t count = id_fields(reply, fields, room);
    for (uint16_t i = 0; i < RP_SEND_FIELD_COUNT; i++)
        fields[count++] = reply->lane->broker->send_fields[i];
    if (reply->outcome == RP_PUSH_DONE)
        return rp_answer(to, RP_RESPONSE_SUCCESS, fields, count, NULL);
    return answer_not_pushed(reply, to, fields, count);
}

void rp_reply_drop(rp_reply *reply) {
    rp_lane *lane = reply->lane;
    rp_count(&lane->counters.replies_pending, UINT64_MAX); /* adds -1 */
    reply->next = lane->replies.free;
    lane->replies.free = reply;
}

static void log_not_pushed(const rp_reply *reply) {
    static const char *const reasons[] = {
        [RP_PUSH_NO_REQUESTER] = "it has no property REPLY_TO_CLIENT",
        [RP_PUSH_NOT_FOUND] = "no producer with that client id is connected",
        [RP_PUSH_TOO_LARGE] = "with its properties it is no frame that clients take",
        [RP_PUSH_CLOSED] = "the client's connection ended, or is not read",
        [RP_PUSH_REFUSED] = "the client could not process it",
        [RP_PUSH_TIMED_OUT] = "the client did not answer",
    };
    rp_log_write(reply->lane->broker->options.log, RP_LOG_WARNING, "a reply was not pushed to client <%s>: %s", reply->requester,
                 reasons[reply->outcome]);
}

/* Answers the replier and frees the reply, unless it still waits for something. */
static void finish(rp_reply *reply) {
    rp_lane *lane = reply->lane;
    if (reply->waits_for_push || reply->waits_for_store)
        return;
    if (reply->outcome != RP_PUSH_DONE)
        log_not_pushed(reply);
    rp_connection *connection = rp_reactor_connection(lane->reactor, reply->replier_id);
    if (connection != NULL && answer(reply, connection) < 0) /* without an answer the replier would wait for its time-out */
        rp_server_close_connection(lane->server, reply->replier_id);
    rp_count(reply->outcome == RP_PUSH_DONE ? &lane->counters.replies : &lane->counters.replies_failed, 1);
    rp_reply_drop(reply);
}

void rp_reply_stored(rp_reply *reply, int is_stored) {
    reply->waits_for_store = 0;
    reply->is_stored = is_stored != 0;
    finish(reply);
}

void rp_replies_drain(rp_lane *lane) {
    for (rp_reply *reply = take_all(&lane->replies.settled), *next; reply != NULL; reply = next) {
        next = reply->next;
        reply->waits_for_push = 0;
        finish(reply);
    }
}

/* ---- lane B ---- */

/* Gives the reply back to its lane; wakes that unless it will look at its stack in this turn anyway. */
static void settle(rp_reply *reply, enum rp_push_outcome outcome, const rp_lane *drains_soon) {
    rp_lane *lane = reply->lane;
    reply->outcome = (uint8_t)outcome;
    put(&lane->replies.settled, reply);
    if (lane != drains_soon)
        rp_reactor_wake(lane->reactor);
}

static rp_reply **chain_of(rp_pushes *pushes, int32_t opaque) { return &pushes->chains[(uint32_t)opaque % RP_PUSH_CHAINS]; }

static void list(rp_pushes *pushes, rp_reply *reply) {
    rp_reply **chain = chain_of(pushes, reply->push_opaque);
    reply->next_in_chain = *chain;
    *chain = reply;
    reply->next = NULL;
    reply->previous = pushes->last;
    *(pushes->last != NULL ? &pushes->last->next : &pushes->first) = reply;
    pushes->last = reply;
}

static void unlist(rp_pushes *pushes, rp_reply *reply) {
    rp_reply **link = chain_of(pushes, reply->push_opaque);
    while (*link != reply)
        link = &(*link)->next_in_chain;
    *link = reply->next_in_chain;
    *(reply->previous != NULL ? &reply->previous->next : &pushes->first) = reply->next;
    *(reply->next != NULL ? &reply->next->previous : &pushes->last) = reply->previous;
}

/* Writes the frame to the requester's connection, if that exists and its client reads. */
static void write_push(rp_lane *lane, rp_reply *reply) {
    rp_connection *connection = rp_reactor_connection(lane->reactor, reply->requester_id);
    rp_file_range range = {
        .address = reply->frame->bytes, .size = reply->frame->size, .fd = -1, .release = release_frame, .owner = reply->frame};
    if (connection == NULL || rp_connection_unsent_bytes(connection) >= RP_PUSH_UNSENT_MAX ||
        rp_connection_send_ranges(connection, &range, 1) != RP_OK) {
        free_frame(reply->frame);
        reply->frame = NULL;
        settle(reply, RP_PUSH_CLOSED, lane);
        return;
    }
    reply->frame = NULL;
    reply->deadline_ns = rp_reactor_now_ns(lane->reactor) + lane->broker->options.push_timeout_ms * RP_NS_PER_MS;
    list(&lane->pushes, reply);
    if (lane->pushes.first == reply)
        rp_lane_schedule(lane);
}

void rp_reply_push(rp_reply *reply, rp_producer_place to, rp_push_frame *frame, int32_t push_opaque) {
    rp_lane *lane = reply->lane->broker->lanes[to.lane];
    reply->requester_id = to.connection_id;
    reply->frame = frame;
    reply->push_opaque = push_opaque;
    reply->waits_for_push = 1;
    if (lane == reply->lane) {
        write_push(lane, reply);
    } else {
        put(&lane->pushes.arriving, reply);
        rp_reactor_wake(lane->reactor);
    }
}

void rp_pushes_drain(rp_lane *lane) {
    for (rp_reply *reply = take_all(&lane->pushes.arriving), *next; reply != NULL; reply = next) {
        next = reply->next;
        write_push(lane, reply);
    }
}

int rp_pushes_response(rp_lane *lane, const rp_connection *connection, const rp_command *response) {
    if (response->opaque < RP_PUSH_OPAQUE)
        return RP_PUNT;
    rp_reply *reply = *chain_of(&lane->pushes, response->opaque);
    while (reply != NULL && (reply->push_opaque != response->opaque || reply->requester_id != rp_connection_id(connection)))
        reply = reply->next_in_chain;
    if (reply != NULL) { /* otherwise it is late, or answers nothing we asked */
        unlist(&lane->pushes, reply);
        settle(reply, response->code == RP_RESPONSE_SUCCESS ? RP_PUSH_DONE : RP_PUSH_REFUSED, lane);
    }
    return RP_HANDLED;
}

void rp_pushes_connection_closed(rp_lane *lane, uint64_t connection_id) {
    for (rp_reply *reply = lane->pushes.first, *next; reply != NULL; reply = next) {
        next = reply->next;
        if (reply->requester_id != connection_id)
            continue;
        unlist(&lane->pushes, reply);
        settle(reply, RP_PUSH_CLOSED, NULL); /* handled after this turn's end */
    }
}

void rp_pushes_expire(rp_lane *lane, int64_t now_ns) {
    for (rp_reply *reply; (reply = lane->pushes.first) != NULL && reply->deadline_ns <= now_ns;) {
        unlist(&lane->pushes, reply);
        settle(reply, RP_PUSH_TIMED_OUT, lane);
    }
}

int64_t rp_pushes_deadline(const rp_pushes *pushes) { return pushes->first != NULL ? pushes->first->deadline_ns : INT64_MAX; }
