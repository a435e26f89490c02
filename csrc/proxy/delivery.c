/* delivery.c: see delivery.h. */
#include "delivery.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "received_message.h"
#include "tag_filter.h"

#define PREFIX 5u /* gRPC's, of a message */

/* A message that is for this client. */
typedef struct said_message {
    rp_received_message message;
    rp_slice handle;
} said_message;

/* What a client has been sent, until it has taken it. The array of messages follows, then the texts that the slices point to. */
typedef struct delivery {
    rp_slice client_id, group, topic;
    int32_t is_renewed;
    uint32_t count;
    uint64_t size; /* bytes of the whole answer */
    struct {
        uint64_t end; /* where its message ends in the answer */
        rp_slice handle;
    } messages[];
} delivery;

/* ---- messages that do not reach the client ---- */

static void put_back(rp_lane *lane, const rp_receive *own, rp_slice handle) {
    const rp_errand errand = {own->group, own->topic, handle, {NULL, 0}};
    const rp_held_key key = {own->client_id, own->group, handle};
    if (own->is_renewed)
        rp_held_handles_forget(lane->proxy->held, &key);
    rp_errand_put_back(lane, own->reactor, &errand);
}

void rp_delivery_put_all_back(rp_lane *lane, const rp_receive *own, rp_pop_answer *answer) {
    rp_popped_message popped;
    while (rp_pop_answer_next(answer, rp_reactor_arena(own->reactor), &popped))
        put_back(lane, own, (rp_slice){popped.handle, popped.handle_size});
}

/* Brokers filter by the hashes of tags, so a message with another tag of the same hash is acknowledged here. A message that has been
 * tried too often becomes a dead letter. */
static bool is_for(rp_lane *lane, const rp_receive *own, const rp_popped_message *popped) {
    const rp_errand errand = {own->group, own->topic, {popped->handle, popped->handle_size}, popped->shown.message_id};
    if (own->filter.data != NULL && !rp_tag_filter_takes(own->filter, popped->shown.tag)) {
        rp_errand_ack(lane, own->reactor, &errand);
        return false;
    }
    if (popped->attempts > own->retries) {
        rp_errand_bury(lane, own->reactor, &errand);
        return false;
    }
    return true;
}

/* ---- to the client ---- */

static bool say(rp_grpc_call *call, const rp_answer_status *status) {
    uint32_t size = rp_received_status_size(status);
    uint8_t *target = rp_grpc_call_reserve(call, size);
    if (target == NULL)
        return false;
    rp_received_status_write(status, target);
    rp_grpc_call_commit(call, size);
    return true;
}

/* told: the delivery to watch until the client has taken it, whose size is complete now; NULL: none. */
static void end_call(rp_lane *lane, rp_grpc_call *call, int32_t code, delivery *told) {
    static const char no_memory[] = "memory is out";
    uint8_t *target = rp_grpc_call_reserve(call, RP_DELIVERED_SIZE_MAX);
    rp_lane_count_answer(lane, call, RP_PROXY_RECEIVE, code);
    if (target == NULL) {
        rp_grpc_call_end(call, RP_GRPC_RESOURCE_EXHAUSTED, (rp_slice){(const uint8_t *)no_memory, sizeof no_memory - 1});
        return;
    }
    uint32_t size = rp_delivered_write(rp_clock_wall_ms(lane->proxy->clock), target);
    if (told != NULL)
        told->size += PREFIX + size;
    rp_grpc_call_commit(call, size);
    rp_grpc_call_end(call, RP_GRPC_OK, (rp_slice){NULL, 0});
}

void rp_delivery_refuse(rp_lane *lane, rp_grpc_call *call, const rp_answer_status *status) {
    say(call, status); /* if this fails for want of memory, so does end_call, which reports it */
    end_call(lane, call, status->code, NULL);
}

/* Collects the messages that are for this client in *said, and returns their number. Their bytes lie in the arena. */
static uint32_t sort_out(rp_lane *lane, const rp_receive *own, rp_pop_answer *answer, said_message *said) {
    rp_arena *arena = rp_reactor_arena(own->reactor);
    int64_t now_ms = rp_clock_wall_ms(lane->proxy->clock);
    rp_popped_message popped;
    uint32_t count = 0;
    while (rp_pop_answer_next(answer, arena, &popped)) {
        if (!is_for(lane, own, &popped))
            continue;
        uint8_t *handle = rp_arena_take(arena, popped.handle_size);
        said_message *each = &said[count];
        if (handle == NULL || !rp_received_message_fill(&each->message, &popped, own->topic, now_ms, arena)) {
            put_back(lane, own, (rp_slice){popped.handle, popped.handle_size});
            continue;
        }
        memcpy(handle, popped.handle, popped.handle_size);
        each->handle = (rp_slice){handle, popped.handle_size};
        const rp_held_message held = {
            {own->client_id, own->group, each->handle}, own->topic, popped.shown.message_id, now_ms, popped.attempts};
        if (own->is_renewed)
            /* If this fails, it is not renewed, and comes again when its time is over. */
            rp_held_handles_hold_received(lane->proxy->held, &held);
        count++;
    }
    return count;
}

/* NULL: out of memory; then messages that are not taken come again when their time is over. */
static delivery *make_delivery(const rp_receive *own, const said_message *said, uint32_t count) {
    size_t texts = own->client_id.size + own->group.size + own->topic.size;
    for (uint32_t i = 0; i < count; i++)
        texts += said[i].handle.size;
    delivery *made = malloc(sizeof *made + count * sizeof *made->messages + texts);
    if (made == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)&made->messages[count];
    *made = (delivery){.is_renewed = own->is_renewed, .count = count};
    made->client_id = rp_slice_copy(&at, own->client_id);
    made->group = rp_slice_copy(&at, own->group);
    made->topic = rp_slice_copy(&at, own->topic);
    for (uint32_t i = 0; i < count; i++)
        made->messages[i].handle = rp_slice_copy(&at, said[i].handle);
    return made;
}

/* Sends the status and as many messages as there is memory for, puts back the others, and returns the number sent. */
static uint32_t say_messages(rp_lane *lane, const rp_receive *own, rp_grpc_call *call, const rp_answer_status *status,
                             const said_message *said, uint32_t count) {
    uint32_t told = 0;
    uint8_t *target;
    bool has_begun = say(call, status);
    while (has_begun && told < count && (target = rp_grpc_call_reserve(call, said[told].message.size)) != NULL) {
        rp_received_message_write(&said[told].message, target);
        rp_grpc_call_commit(call, said[told].message.size);
        told++;
    }
    for (uint32_t i = told; i < count; i++)
        put_back(lane, own, said[i].handle);
    return told;
}

static delivery *watch(const rp_receive *own, rp_grpc_call *call, const said_message *said, uint32_t count, uint32_t status_size) {
    delivery *told = count > 0 ? make_delivery(own, said, count) : NULL;
    if (told == NULL)
        return NULL;
    uint64_t end = PREFIX + status_size;
    for (uint32_t i = 0; i < count; i++) {
        end += PREFIX + said[i].message.size;
        told->messages[i].end = end;
    }
    told->size = end;
    rp_grpc_call_watch(call, told);
    return told;
}

void rp_delivery_begin(rp_lane *lane, const rp_receive *own, rp_grpc_call *call, rp_pop_answer *answer) {
    rp_answer_status status;
    said_message *said = rp_arena_take(rp_reactor_arena(own->reactor), (answer->count + 1) * sizeof *said);
    if (said == NULL) {
        rp_delivery_put_all_back(lane, own, answer);
        rp_answer_status_set(&status, RP_CODE_TOO_MANY_REQUESTS, "memory is out");
        rp_delivery_refuse(lane, call, &status);
        return;
    }
    uint32_t count = sort_out(lane, own, answer, said);
    if (count > 0)
        rp_answer_status_name(&status, RP_CODE_OK);
    else
        rp_answer_status_set(&status, RP_CODE_MESSAGE_NOT_FOUND, "no match message");
    uint32_t told = say_messages(lane, own, call, &status, said, count);
    end_call(lane, call, status.code, watch(own, call, said, told, rp_received_status_size(&status)));
}

/* ---- after the answer ---- */

void rp_delivery_end(rp_lane *lane, rp_reactor *reactor, void *watched, uint64_t untaken_bytes) {
    delivery *told = watched;
    const rp_receive own = {
        .reactor = reactor, .client_id = told->client_id, .group = told->group, .topic = told->topic, .is_renewed = told->is_renewed};
    for (uint32_t i = 0; i < told->count && untaken_bytes > 0; i++) {
        if (told->messages[i].end + untaken_bytes > told->size)
            put_back(lane, &own, told->messages[i].handle);
    }
    free(told);
}
