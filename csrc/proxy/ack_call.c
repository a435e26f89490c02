/* ack_call.c: AckMessage, from the client to brokers and back. RocketMQ: AckMessageActivity, ConsumerProcessor (5.3.3 proxy/).
 *
 *   its messages ── taken, all or none ──► one request each, to its broker ──► each outcome is noted ──► the last one answers the call
 *
 * A message whose invisible time is renewed is acknowledged by its current handle, and its renewals end. Once a broker has been asked,
 * the call stays here, because Python could not take over the rest of it alone. */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "ack_answer.h"
#include "ack_command.h"
#include "calls.h"

/* One of a call's messages. */
typedef struct acked_one {
    struct acking *all;
    rp_waiting_call *waiting; /* NULL: its outcome is known */
    rp_held_handle *held;     /* NULL: it was not renewed */
    const rp_answer_status *failed; /* NULL: it has not failed, at least not yet */
    bool is_asked_again;      /* its broker was going away */
} acked_one;

typedef struct acking {
    rp_reactor *reactor;
    uint32_t count, left;
    acked_one each[];
} acking;

/* What a message's broker is asked, and where. */
typedef struct aim {
    rp_receipt_handle handle;
    rp_slice today;
    rp_address address;
} aim;

static const rp_answer_status no_memory = {RP_CODE_INTERNAL_SERVER_ERROR, sizeof "memory is out" - 1, "memory is out"};

static void free_all(acking *own) {
    for (uint32_t i = 0; i < own->count; i++) {
        rp_held_handle_free(own->each[i].held);
        if (own->each[i].failed != &no_memory)
            free((void *)(uintptr_t)own->each[i].failed);
    }
    free(own);
}

/* For a call of which no broker has been asked yet. */
static void give_back_all(rp_held_handles *held, acking *own) {
    for (uint32_t i = 0; i < own->count; i++) {
        if (own->each[i].held != NULL)
            rp_held_handles_give_back(held, own->each[i].held);
        own->each[i].held = NULL;
    }
    free_all(own);
}

static bool aim_at(const rp_proxy *proxy, const rp_held_key *key, acked_one *one, aim *aimed) {
    if (rp_held_handles_take(proxy->held, key, &one->held) == RP_HELD_RENEWED)
        return false;
    aimed->today = one->held != NULL ? rp_held_handle_today(one->held) : key->first;
    return rp_receipt_handle_read(aimed->today, &aimed->handle) && aimed->handle.visible_ms > rp_clock_wall_ms(proxy->clock) &&
           rp_broker_addresses_find(proxy->brokers, aimed->handle.broker, &aimed->address);
}

static rp_waiting_call *ask(rp_lane *lane, acked_one *one, const rp_acked_messages *acked, const aim *aimed, rp_grpc_call *call,
                            int64_t deadline_ns) {
    rp_ack_command ack;
    rp_ack_command_fill(&ack, acked->topic, acked->group, aimed->today, &aimed->handle);
    one->waiting = rp_lane_ask(lane, one->all->reactor, &aimed->address, &ack.command, deadline_ns);
    if (one->waiting != NULL) {
        one->waiting->asker = call;
        one->waiting->taken = one;
        one->waiting->method = RP_PROXY_ACK;
    }
    return one->waiting;
}

static void note_failure(acked_one *one, const rp_answer_status *status) {
    /* Copied without the unused room: most texts are short, and it is kept while the others are awaited. */
    size_t size = offsetof(rp_answer_status, text) + status->size;
    rp_answer_status *copy = malloc(size);
    if (copy != NULL)
        memcpy(copy, status, size);
    one->failed = copy != NULL ? copy : &no_memory;
}

/* Fails a message, not the first of its call, whose broker cannot be asked: it is held as before, and its client may acknowledge it
 * again. */
static void refuse(rp_lane *lane, acked_one *one) {
    rp_answer_status status;
    rp_answer_status_set(&status, RP_CODE_TOO_MANY_REQUESTS, "its broker could not be asked just now: say it again");
    note_failure(one, &status);
    if (one->held != NULL)
        rp_held_handles_give_back(lane->proxy->held, one->held);
    one->held = NULL;
    one->all->left--;
}

static rp_waiting_call *ask_all(rp_lane *lane, acking *own, const rp_acked_messages *acked, const aim aims[], rp_grpc_call *call) {
    int64_t deadline_ns = rp_reactor_now_ns(own->reactor) + RP_PATIENCE_NS;
    if (ask(lane, &own->each[0], acked, &aims[0], call, deadline_ns) == NULL)
        return NULL;
    for (uint32_t i = 1; i < own->count; i++) {
        if (ask(lane, &own->each[i], acked, &aims[i], call, deadline_ns) == NULL)
            refuse(lane, &own->each[i]);
    }
    return own->each[0].waiting;
}

rp_waiting_call *rp_ack_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id) {
    rp_acked_messages acked;
    aim aims[RP_ACKED_MAX];
    rp_lane *lane = &proxy->lanes[rp_reactor_index(reactor)];
    if (!rp_acked_messages_read(rp_grpc_call_message(call), &acked) || !rp_upstreams_have_room(lane->upstreams, acked.count))
        return NULL;
    const rp_asked_right rights[] = {{RP_RESOURCE_GROUP, RP_ACTION_SUB, acked.group}, {RP_RESOURCE_TOPIC, RP_ACTION_SUB, acked.topic}};
    if (!rp_call_is_admitted(proxy->gate, reactor, call, rights, 2))
        return NULL;
    acking *own = calloc(1, sizeof *own + acked.count * sizeof *own->each);
    if (own == NULL)
        return NULL;
    own->reactor = reactor;
    own->count = own->left = acked.count;
    bool is_aimed = true;
    for (uint32_t i = 0; i < acked.count && is_aimed; i++) {
        const rp_held_key key = {client_id, acked.group, acked.messages[i].handle};
        own->each[i].all = own;
        is_aimed = aim_at(proxy, &key, &own->each[i], &aims[i]);
    }
    rp_waiting_call *waiting = is_aimed ? ask_all(lane, own, &acked, aims, call) : NULL;
    if (waiting == NULL)
        give_back_all(proxy->held, own);
    return waiting;
}

/* ---- outcomes ---- */

static void answer_call(rp_lane *lane, rp_waiting_call *waiting, acking *own) {
    const rp_answer_status *failed[RP_ACKED_MAX];
    rp_acked_messages acked;
    rp_acked_messages_read(rp_grpc_call_message(waiting->asker), &acked); /* cannot fail: it was read before */
    for (uint32_t i = 0; i < own->count; i++)
        failed[i] = own->each[i].failed;
    uint32_t size = rp_ack_answer_size(&acked, failed);
    uint8_t *target = rp_lane_begin_answer(lane, waiting, rp_ack_answer_code(acked.count, failed), size);
    if (target != NULL) {
        rp_ack_answer_write(&acked, failed, target);
        rp_lane_end_answer(waiting, size);
    }
    free_all(own);
}

/* A call is found by one of its waiting requests: returns the first one left. */
static rp_waiting_call *next_waiting(const acking *own) {
    uint32_t at = 0;
    while (own->each[at].waiting == NULL)
        at++;
    return own->each[at].waiting;
}

void rp_ack_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    acked_one *one = waiting->taken;
    acking *own = one->all;
    one->waiting = NULL;
    if (status->code != RP_CODE_OK)
        note_failure(one, status);
    if (--own->left == 0)
        answer_call(lane, waiting, own);
    else
        rp_grpc_call_keep(waiting->asker, next_waiting(own));
}

void rp_ack_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response) {
    rp_answer_status status;
    rp_ack_status_of(&status, response);
    rp_ack_call_end(lane, waiting, &status);
}

int rp_ack_call_again(rp_lane *lane, rp_waiting_call *waiting) {
    acked_one *one = waiting->taken;
    acking *own = one->all;
    rp_acked_messages acked;
    aim aimed;
    if (one->is_asked_again)
        return 0;
    one->is_asked_again = true;
    rp_acked_messages_read(rp_grpc_call_message(waiting->asker), &acked); /* cannot fail: it was read before */
    aimed.today = one->held != NULL ? rp_held_handle_today(one->held) : acked.messages[one - own->each].handle;
    if (!rp_receipt_handle_read(aimed.today, &aimed.handle) ||
        !rp_broker_addresses_find(lane->proxy->brokers, aimed.handle.broker, &aimed.address) ||
        ask(lane, one, &acked, &aimed, waiting->asker, waiting->deadline_ns) == NULL)
        return 0;
    rp_grpc_call_keep(waiting->asker, one->waiting);
    return 1;
}

void rp_ack_call_drop(rp_lane *lane, rp_waiting_call *waiting) {
    acking *own = ((acked_one *)waiting->taken)->all;
    for (uint32_t i = 0; i < own->count; i++) {
        rp_waiting_call *other = own->each[i].waiting;
        if (other != NULL && other != waiting)
            rp_upstreams_forget(lane->upstreams, other);
    }
    free_all(own);
}
