/* receive_call.c: ReceiveMessage, from the client to a broker, and the messages back. RocketMQ: ReceiveMessageActivity, ConsumerProcessor,
 * ReceiveMessageResponseStreamWriter (5.3.3 proxy/).
 *
 *   asked ─┬─ answered: what is not for this client leaves by an errand ─ said, held where it is renewed ─ what was not taken: put back
 *          └─ its client is gone: the answer is waited for, and everything in it put back
 *
 * An answer is said whole or not at all: what the connection's bound or memory has no room for is put back. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "../remoting/protocol.h"
#include "calls.h"
#include "received_message.h"

#define NO_DEADLINE_MS 30000 /* of a client that sets none */
#define POLL_MARGIN_MS 2000  /* so much longer than its poll a broker may take to answer, however soon the client gives up */
#define PATIENCE_MAX_MS 60000
#define TOO_MUCH "too much waits for this client to take it"
#define PREFIX 5u /* of a message, by gRPC */

enum { PULL_NOT_FOUND = 19, POLLING_FULL = 209, POLLING_TIMEOUT = 210 };

/* One that waits for a broker; its texts lie behind it. */
typedef struct receive {
    rp_reactor *reactor;
    rp_slice client_id, group, topic, broker, filter; /* filter: of tags, which are compared here; data NULL: none */
    int32_t is_renewed, retries;
} receive;

/* A message that is for this client. */
typedef struct said_message {
    rp_received_message message;
    rp_slice handle;
} said_message;

/* What a client has been told, until it has taken that. Behind it lie the messages, and behind these the texts. */
typedef struct delivery {
    rp_slice client_id, group, topic;
    int32_t is_renewed;
    uint32_t count;
    uint64_t size; /* of all that was said */
    struct {
        uint64_t end; /* of its message in that */
        rp_slice handle;
    } messages[];
} delivery;

/* ---- to the broker ---- */

static receive *make_receive(rp_reactor *reactor, rp_slice client_id, const rp_received_request *received, const rp_route_choice *choice) {
    const rp_slice broker = {choice->broker_name, choice->broker_name_size};
    receive *made =
        malloc(sizeof *made + client_id.size + received->group.size + received->topic.size + broker.size + received->filter.size);
    if (made == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)(made + 1);
    *made = (receive){.reactor = reactor, .is_renewed = received->is_renewed, .retries = choice->retries};
    made->client_id = rp_slice_copy(&at, client_id);
    made->group = rp_slice_copy(&at, received->group);
    made->topic = rp_slice_copy(&at, received->topic);
    made->broker = rp_slice_copy(&at, broker);
    if (!received->is_sql && !rp_slice_is(received->filter, "*"))
        made->filter = rp_slice_copy(&at, received->filter);
    return made;
}

static int64_t remaining_ms_of(const rp_grpc_call *call, int64_t now_ns) {
    int64_t deadline_ns = rp_grpc_call_deadline_ns(call);
    return deadline_ns == INT64_MAX ? NO_DEADLINE_MS : (deadline_ns - now_ns) / RP_NS_PER_MS;
}

static int64_t patience_ms(int64_t polling_ms, int64_t remaining_ms) {
    int64_t least_ms = polling_ms + POLL_MARGIN_MS, most_ms = remaining_ms < PATIENCE_MAX_MS ? remaining_ms : PATIENCE_MAX_MS;
    return least_ms > most_ms ? least_ms : most_ms;
}

rp_waiting_call *rp_receive_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id) {
    const rp_receive_rules *rules = &proxy->receive_rules;
    rp_lane *lane = &proxy->lanes[rp_reactor_index(reactor)];
    uint8_t key[RP_ROUTE_KEY_MAX];
    rp_received_request received;
    rp_route_choice choice;
    rp_pop_command pop;
    int64_t reserve_ms, now_ns = rp_reactor_now_ns(reactor), now_ms = rp_clock_wall_ms(proxy->clock),
                        left_ms = remaining_ms_of(call, now_ns);
    if (rp_upstreams_waiting(lane->upstreams) >= proxy->receives_max ||
        !rp_received_request_read(rp_grpc_call_message(call), rules, &received) ||
        !rp_known_clients_find(proxy->clients, client_id, &reserve_ms))
        return NULL;
    const rp_asked_right rights[] = {{RP_RESOURCE_GROUP, RP_ACTION_SUB, received.group},
                                     {RP_RESOURCE_TOPIC, RP_ACTION_SUB, received.topic}};
    int64_t polling_ms = rp_receive_polling_ms(&received, rules, left_ms, reserve_ms);
    if (polling_ms < 0 || !rp_call_is_admitted(proxy->gate, reactor, call, rights, 2) ||
        !rp_route_table_choose_broker(proxy->readings, rp_reading_key(received.topic, received.group, key), received.broker,
                                      (uint64_t)now_ms, now_ns, &choice))
        return NULL;
    receive *own = make_receive(reactor, client_id, &received, &choice);
    if (own == NULL)
        return NULL;
    rp_pop_command_fill(&pop, &received, polling_ms, now_ms, choice.is_orderly);
    int64_t deadline_ns = now_ns + patience_ms(polling_ms, left_ms) * RP_NS_PER_MS;
    rp_waiting_call *waiting = rp_lane_ask(lane, reactor, &choice.address, &pop.command, deadline_ns);
    if (waiting != NULL)
        waiting->taken = own;
    else
        free(own);
    return waiting;
}

/* ---- messages that go another way than to the client ---- */

static void put_back(rp_lane *lane, const receive *own, rp_slice handle) {
    const rp_errand errand = {own->group, own->topic, handle, {NULL, 0}};
    const rp_held_key key = {own->client_id, own->group, handle};
    if (own->is_renewed)
        rp_held_handles_forget(lane->proxy->held, &key);
    rp_errand_put_back(lane, own->reactor, &errand);
}

static void put_all_back(rp_lane *lane, const receive *own, rp_pop_answer *answer) {
    rp_popped_message popped;
    while (rp_pop_answer_next(answer, rp_reactor_arena(own->reactor), &popped))
        put_back(lane, own, (rp_slice){popped.handle, popped.handle_size});
}

/* Brokers compare the hashes of tags: what has another tag is acknowledged here. What was tried too often is a dead letter. */
static bool is_for(rp_lane *lane, const receive *own, const rp_popped_message *popped) {
    const rp_errand errand = {own->group, own->topic, {popped->handle, popped->handle_size}, popped->shown.message_id};
    if (own->filter.data != NULL && !rp_filter_takes(own->filter, popped->shown.tag)) {
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

/* told: what its client is to take, whose size is complete now; NULL: nothing is watched. */
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

static void end_with(rp_lane *lane, rp_grpc_call *call, const rp_answer_status *status) {
    say(call, status); /* without memory for it there is none for the end either, which says so */
    end_call(lane, call, status->code, NULL);
}

/* What is for this client, into *said; how many. It points into the arena. */
static uint32_t sort_out(rp_lane *lane, const receive *own, rp_pop_answer *answer, said_message *said) {
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
            rp_held_handles_hold_received(lane->proxy->held, &held); /* else it is not renewed, and comes again when its time is over */
        count++;
    }
    return count;
}

/* NULL: memory is out, and what is not taken comes again when its time is over. */
static delivery *make_delivery(const receive *own, const said_message *said, uint32_t count) {
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

/* Says the status and as many messages as there is memory for, and puts back the others. How many. */
static uint32_t say_messages(rp_lane *lane, const receive *own, rp_grpc_call *call, const rp_answer_status *status,
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

static delivery *watch(const receive *own, rp_grpc_call *call, const said_message *said, uint32_t count, uint32_t status_size) {
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

static void deliver(rp_lane *lane, const receive *own, rp_grpc_call *call, rp_pop_answer *answer) {
    rp_answer_status status;
    said_message *said = rp_arena_take(rp_reactor_arena(own->reactor), (answer->count + 1) * sizeof *said);
    if (said == NULL) {
        put_all_back(lane, own, answer);
        rp_answer_status_set(&status, RP_CODE_TOO_MANY_REQUESTS, "memory is out");
        end_with(lane, call, &status);
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

/* ---- what becomes of it ---- */

static void fill_status(rp_answer_status *status, const rp_command *response) {
    if (response->code == POLLING_FULL)
        rp_answer_status_set(status, RP_CODE_TOO_MANY_REQUESTS, "polling full");
    else if (response->code == POLLING_TIMEOUT || response->code == PULL_NOT_FOUND)
        rp_answer_status_set(status, RP_CODE_MESSAGE_NOT_FOUND, "no new message");
    else
        rp_answer_status_of(status, response);
}

void rp_receive_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response) {
    receive *own = waiting->taken;
    rp_grpc_call *call = waiting->asker;
    rp_pop_answer answer;
    rp_answer_status status;
    bool is_read = response->code == 0 && rp_pop_answer_read(&answer, response, own->broker);
    if (is_read && call != NULL && rp_grpc_call_may_hold(call, response->body.size)) {
        deliver(lane, own, call, &answer);
        free(own);
        return;
    }
    if (is_read) {
        put_all_back(lane, own, &answer);
        rp_answer_status_set(&status, RP_CODE_TOO_MANY_REQUESTS, TOO_MUCH);
    } else if (response->code == 0) {
        rp_answer_status_set(&status, RP_CODE_INTERNAL_SERVER_ERROR, "%.*s answered a pop that cannot be read", (int)own->broker.size,
                             (const char *)own->broker.data);
    } else {
        fill_status(&status, response);
    }
    if (call != NULL)
        end_with(lane, call, &status);
    free(own);
}

void rp_receive_call_refuse(rp_lane *lane, rp_grpc_call *call) {
    rp_answer_status status;
    rp_answer_status_set(&status, RP_CODE_TOO_MANY_REQUESTS, TOO_MUCH);
    end_with(lane, call, &status);
}

void rp_receive_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    if (waiting->asker != NULL)
        end_with(lane, waiting->asker, status);
    free(waiting->taken);
}

void rp_receive_call_undo(rp_lane *lane, rp_waiting_call *waiting) {
    (void)lane;
    free(waiting->taken);
}

void rp_receive_call_leave(rp_waiting_call *waiting) { waiting->asker = NULL; }

void rp_receive_call_delivered(rp_lane *lane, rp_reactor *reactor, void *watched, uint64_t untaken_bytes) {
    delivery *told = watched;
    const receive own = {
        .reactor = reactor, .client_id = told->client_id, .group = told->group, .topic = told->topic, .is_renewed = told->is_renewed};
    for (uint32_t i = 0; i < told->count && untaken_bytes > 0; i++) {
        if (told->messages[i].end + untaken_bytes > told->size)
            put_back(lane, &own, told->messages[i].handle);
    }
    free(told);
}
