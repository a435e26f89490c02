/* proxy.c: see proxy.h. Everything that belongs to a reactor stands in its lane, which nobody else touches but to read figures. */
#include "proxy.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../remoting/protocol.h"
#include "answer_status.h"
#include "call_times.h"
#include "send_answer.h"
#include "send_command.h"
#include "upstreams.h"

#define NO_DEADLINE_NS (30000 * RP_NS_PER_MS) /* of a client that sets none */

_Static_assert(RP_PROXY_CODES == RP_ANSWER_CODES, "a counter for each code");

typedef struct lane {
    rp_upstreams *upstreams;                 /* fixed after open */
    _Atomic uint64_t sent, answered, punted; /* figures, so relaxed */
    rp_call_times times;
} lane;

struct rp_proxy {
    rp_send_rules rules; /* fixed after open, as what follows */
    int32_t send_method;
    uint32_t reactors;
    const rp_clock *clock;
    rp_route_table *routes;
    rp_handler handler;
    rp_grpc_handler grpc_handler;
    lane lanes[];
};

static void count(_Atomic uint64_t *figure) {
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + 1, memory_order_relaxed);
}

static lane *lane_of(rp_proxy *proxy, const rp_reactor *reactor) { return &proxy->lanes[rp_reactor_index(reactor)]; }

/* ---- answers ---- */

static void end_call(lane *own, rp_grpc_call *call, const rp_send_answer *answer) {
    static const char no_memory[] = "memory is out";
    int64_t now_ns = rp_reactor_now_ns(rp_connection_reactor(rp_grpc_call_connection(call)));
    uint32_t size = rp_send_answer_size(answer);
    uint8_t *target = rp_grpc_call_reserve(call, size);
    rp_call_times_add(&own->times, answer->status.code, now_ns - rp_grpc_call_began_ns(call));
    count(&own->answered);
    if (target == NULL) {
        rp_grpc_call_end(call, RP_GRPC_RESOURCE_EXHAUSTED, (rp_slice){(const uint8_t *)no_memory, sizeof no_memory - 1});
        return;
    }
    rp_send_answer_write(answer, target);
    rp_grpc_call_commit(call, size);
    rp_grpc_call_end(call, RP_GRPC_OK, (rp_slice){NULL, 0});
}

static void on_answer(void *context, rp_waiting_call *waiting, const rp_command *response) {
    rp_send_answer answer;
    rp_send_answer_of(&answer, response, waiting->noted);
    end_call(context, waiting->asker, &answer);
}

/* In the words of rocketpy/remoting/client.py. */
static void fill_failure(rp_answer_status *status, const rp_upstream_failure *failure, int64_t timeout_ms) {
    char address[RP_ADDRESS_TEXT_MAX];
    rp_address_text(&failure->address, address);
    if (failure->fault == RP_UPSTREAM_LATE)
        rp_answer_status_set(status, RP_CODE_PROXY_TIMEOUT, "SEND_MESSAGE_V2: wait response on the channel <%s>, timeout: %lld(ms)",
                             address, (long long)timeout_ms);
    else if (failure->fault == RP_UPSTREAM_LOST)
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "connection to %s was lost before the response", address);
    else if (failure->os_errno == ETIMEDOUT)
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "connect to %s failed: no answer within %d s", address,
                             RP_DIAL_PATIENCE_MS / 1000);
    else
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "connect to %s failed: %s", address, strerror(failure->os_errno));
}

static void on_failure(void *context, rp_waiting_call *waiting, const rp_upstream_failure *failure) {
    if (failure->fault == RP_UPSTREAM_LEAVES) { /* it has not handled the request: Python asks once more */
        rp_grpc_call_punt(waiting->asker);
        return;
    }
    rp_send_answer answer = {.has_entry = 0};
    fill_failure(&answer.status, failure, waiting->timeout_ms);
    end_call(context, waiting->asker, &answer);
}

/* ---- calls ---- */

static bool names_itself(const rp_grpc_call *call) {
    rp_slice client_id = rp_grpc_call_metadata(call, "x-mq-client-id");
    bool is_seen = false;
    for (uint32_t at = 0; at < client_id.size && !is_seen; at++)
        is_seen = client_id.data[at] > 0x20 && client_id.data[at] < 0x7F;
    return is_seen;
}

/* The address without its port, as rocketpy/proxy/context.py has it. */
static rp_slice host_of(const rp_address *address, char text[RP_ADDRESS_TEXT_MAX]) {
    rp_address_text(address, text);
    char *end = strrchr(text, ':');
    bool is_bracketed = text[0] == '[';
    return (rp_slice){(const uint8_t *)text + is_bracketed, (uint32_t)(end - text) - 2u * is_bracketed};
}

/* NULL: it is Python's. */
static rp_waiting_call *pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, int64_t deadline_ns) {
    rp_sent_message message;
    rp_route_choice choice;
    rp_send_command request;
    char peer[RP_ADDRESS_TEXT_MAX];
    if (!rp_sent_message_read(rp_grpc_call_message(call), &proxy->rules, rp_clock_wall_ms(proxy->clock), &message) ||
        !rp_route_table_choose(proxy->routes, message.topic, rp_sent_message_type(&message), message.message_group,
                               rp_reactor_now_ns(reactor), &choice))
        return NULL;
    rp_slice host = host_of(rp_connection_address(rp_grpc_call_connection(call)), peer);
    uint8_t *properties = rp_arena_take(rp_reactor_arena(reactor), rp_sent_message_properties_size(&message, host.size));
    if (properties == NULL)
        return NULL;
    uint32_t size = rp_sent_message_write_properties(&message, host, properties);
    rp_arena_give_back(rp_reactor_arena(reactor), properties + size);
    rp_send_command_fill(&request, &message, &choice, (rp_slice){properties, size});
    rp_upstreams *upstreams = lane_of(proxy, reactor)->upstreams;
    rp_waiting_call *waiting = rp_upstreams_ask(upstreams, reactor, &choice.address, &request.command, deadline_ns);
    if (waiting != NULL)
        waiting->noted = message.message_id;
    return waiting;
}

static int on_call(void *context, rp_reactor *reactor, rp_grpc_call *call) {
    rp_proxy *proxy = context;
    if (rp_grpc_call_method(call) != proxy->send_method)
        return RP_PUNT;
    lane *own = lane_of(proxy, reactor);
    int64_t deadline_ns = rp_grpc_call_deadline_ns(call), now_ns = rp_reactor_now_ns(reactor);
    if (deadline_ns == INT64_MAX)
        deadline_ns = now_ns + NO_DEADLINE_NS;
    bool may_pass = deadline_ns - now_ns >= RP_NS_PER_MS && names_itself(call);
    rp_waiting_call *waiting = may_pass ? pass_on(proxy, reactor, call, deadline_ns) : NULL;
    count(waiting != NULL ? &own->sent : &own->punted);
    if (waiting == NULL)
        return RP_PUNT;
    waiting->asker = call;
    rp_grpc_call_keep(call, waiting);
    return RP_HANDLED;
}

static void on_cancelled(void *context, rp_reactor *reactor, rp_grpc_call *call) {
    rp_upstreams_forget(lane_of(context, reactor)->upstreams, rp_grpc_call_kept(call));
}

/* ---- the reactor's hooks ---- */

/* Brokers ask nothing that could not be left unanswered: who consumes is not known here. */
static int on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    (void)context, (void)reactor, (void)connection, (void)command, (void)resubmitted;
    return RP_HANDLED;
}

static int on_response(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command) {
    rp_upstreams_take_response(lane_of(context, reactor)->upstreams, connection, command);
    return RP_HANDLED;
}

static int64_t on_deadline(void *context, rp_reactor *reactor, int64_t now_ns) {
    return rp_upstreams_look(lane_of(context, reactor)->upstreams, now_ns);
}

static void on_close(void *context, rp_reactor *reactor, rp_connection *connection) {
    rp_upstreams_end_connection(lane_of(context, reactor)->upstreams, connection);
}

/* ---- the proxy ---- */

void rp_proxy_options_default(rp_proxy_options *options) {
    *options = (rp_proxy_options){.message_size_max = 4u * 1024 * 1024,
                                  .user_properties_max = 128,
                                  .user_property_size_max = 16u * 1024,
                                  .message_group_size_max = 64,
                                  .delay_ms_max = 86400000,
                                  .reactors = 1,
                                  .topics_max = 20000,
                                  .calls_max = 65535};
}

static int make_parts(rp_proxy *proxy, const rp_proxy_options *options) {
    proxy->routes = rp_route_table_create(options->topics_max);
    bool is_made = proxy->routes != NULL;
    for (uint32_t i = 0; i < options->reactors && is_made; i++) {
        lane *own = &proxy->lanes[i];
        const rp_upstream_events events = {own, on_answer, on_failure};
        own->upstreams = rp_upstreams_create(options->calls_max, &events);
        is_made = own->upstreams != NULL;
    }
    return is_made ? RP_OK : RP_E_NO_MEMORY;
}

int rp_proxy_open(const rp_proxy_options *options, rp_proxy **proxy_out, rp_error *error) {
    if (options->reactors == 0 || options->reactors > RP_PROXY_REACTORS_MAX)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "reactors %u: choose 1 to %d", options->reactors, RP_PROXY_REACTORS_MAX);
    rp_proxy *proxy = calloc(1, sizeof *proxy + options->reactors * sizeof *proxy->lanes);
    if (proxy == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the proxy");
    proxy->rules = (rp_send_rules){.message_size_max = options->message_size_max,
                                   .user_properties_max = options->user_properties_max,
                                   .user_property_size_max = options->user_property_size_max,
                                   .message_group_size_max = options->message_group_size_max,
                                   .delay_ms_max = options->delay_ms_max,
                                   .takes_empty_body = options->takes_empty_body,
                                   .uses_delay_level = options->uses_delay_level};
    proxy->send_method = options->send_method;
    proxy->reactors = options->reactors;
    proxy->clock = options->clock != NULL ? options->clock : rp_clock_system();
    proxy->handler = (rp_handler){.context = proxy, .on_request = on_request, .on_response = on_response};
    proxy->handler.on_deadline = on_deadline;
    proxy->handler.on_close = on_close;
    proxy->grpc_handler = (rp_grpc_handler){.context = proxy, .on_call = on_call, .on_cancelled = on_cancelled};
    if (make_parts(proxy, options) != RP_OK) {
        rp_proxy_close(proxy);
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the proxy's routes and calls");
    }
    *proxy_out = proxy;
    return RP_OK;
}

void rp_proxy_close(rp_proxy *proxy) {
    if (proxy == NULL)
        return;
    for (uint32_t i = 0; i < proxy->reactors; i++)
        rp_upstreams_destroy(proxy->lanes[i].upstreams);
    rp_route_table_destroy(proxy->routes);
    free(proxy);
}

const rp_handler *rp_proxy_handler(const rp_proxy *proxy) { return &proxy->handler; }

const rp_grpc_handler *rp_proxy_grpc_handler(const rp_proxy *proxy) { return &proxy->grpc_handler; }

int rp_proxy_put_route(rp_proxy *proxy, rp_slice topic, const rp_route *route) {
    return rp_route_table_put(proxy->routes, topic, route, rp_clock_monotonic_ns(proxy->clock));
}

void rp_proxy_forget_route(rp_proxy *proxy, rp_slice topic) { rp_route_table_forget(proxy->routes, topic); }

void rp_proxy_read_stats(const rp_proxy *proxy, rp_proxy_stats *stats) {
    *stats = (rp_proxy_stats){0};
    for (uint32_t i = 0; i < proxy->reactors; i++) {
        const lane *own = &proxy->lanes[i];
        stats->sent += atomic_load_explicit(&own->sent, memory_order_relaxed);
        stats->answered += atomic_load_explicit(&own->answered, memory_order_relaxed);
        stats->punted += atomic_load_explicit(&own->punted, memory_order_relaxed);
        stats->waiting += rp_upstreams_waiting(own->upstreams);
        stats->upstreams += rp_upstreams_connected(own->upstreams);
    }
}

void rp_proxy_read_times(const rp_proxy *proxy, uint32_t place, rp_proxy_times *times) {
    *times = (rp_proxy_times){0};
    for (uint32_t i = 0; i < proxy->reactors; i++)
        rp_call_times_sum(&proxy->lanes[i].times, place, times);
}
