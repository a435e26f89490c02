/* proxy.c: see proxy.h. Dispatches calls to their methods, and brokers' answers and failures back to the calls. */
#include "proxy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../remoting/protocol.h"
#include "calls.h"
#include "delivery.h"

_Static_assert(RP_PROXY_CODES == RP_ANSWER_CODES, "a counter for each code");

/* The functions of a method. Rows are in the order of rp_proxy_method, then those of errands. */
typedef struct way {
    const char *request; /* the request that brokers get, by its name in rocketpy/remoting/codes.py */
    rp_waiting_call *(*pass_on)(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
    void (*answer)(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
    void (*end)(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
    /* Its broker is going away; NULL: it is undone and left to Python, which asks again. */
    int (*again)(rp_lane *lane, rp_waiting_call *waiting);
    void (*undo)(rp_lane *lane, rp_waiting_call *waiting);
    void (*drop)(rp_lane *lane, rp_waiting_call *waiting); /* its client no longer waits, and the answer is dropped */
    /* Instead of drop: its client no longer waits, but the answer is still awaited; NULL: use drop. */
    void (*leave)(rp_waiting_call *waiting);
} way;

static void do_nothing(rp_lane *lane, rp_waiting_call *waiting) { (void)lane, (void)waiting; }

static const way ways[RP_WAYS] = {
    [RP_PROXY_SEND] = {"SEND_MESSAGE_V2", rp_send_call_pass_on, rp_send_call_answer, rp_send_call_end, NULL, do_nothing, do_nothing, NULL},
    [RP_PROXY_ACK] = {"ACK_MESSAGE", rp_ack_call_pass_on, rp_ack_call_answer, rp_ack_call_end, rp_ack_call_again, NULL, rp_ack_call_drop,
                      NULL},
    [RP_PROXY_CHANGE] = {"CHANGE_MESSAGE_INVISIBLETIME", rp_change_call_pass_on, rp_change_call_answer, rp_change_call_end, NULL,
                         rp_change_call_undo, rp_change_call_drop, NULL},
    [RP_PROXY_RECEIVE] = {"POP_MESSAGE", rp_receive_call_pass_on, rp_receive_call_answer, rp_receive_call_end, NULL, rp_receive_call_undo,
                          NULL, rp_receive_call_leave},
    [RP_WAY_ERRAND] = {"", NULL, rp_errand_answer, rp_errand_end, NULL, NULL, NULL, NULL},
    [RP_WAY_BURIAL] = {"", NULL, rp_burial_answer, rp_burial_end, NULL, NULL, NULL, NULL},
};

void rp_lane_count(_Atomic uint64_t *figure) {
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + 1, memory_order_relaxed);
}

static rp_lane *lane_of(rp_proxy *proxy, const rp_reactor *reactor) { return &proxy->lanes[rp_reactor_index(reactor)]; }

/* ---- answers ---- */

rp_waiting_call *rp_lane_ask(rp_lane *lane, rp_reactor *reactor, const rp_address *address, rp_command *command, int64_t deadline_ns) {
    char signature[RP_SIGNATURE_TEXT_SIZE];
    const rp_signer *signer = lane->proxy->signer;
    if (signer != NULL && rp_signer_sign(signer, command, signature) != RP_OK)
        return NULL;
    return rp_upstreams_ask(lane->upstreams, reactor, address, command, deadline_ns);
}

void rp_lane_count_answer(rp_lane *lane, const rp_grpc_call *call, int32_t method, int32_t code) {
    int64_t now_ns = rp_reactor_now_ns(rp_connection_reactor(rp_grpc_call_connection(call)));
    rp_call_times_add(&lane->times[method], code, now_ns - rp_grpc_call_began_ns(call));
    rp_lane_count(&lane->answered);
}

uint8_t *rp_lane_begin_answer(rp_lane *lane, rp_waiting_call *waiting, int32_t code, uint32_t size) {
    static const char no_memory[] = "memory is out";
    rp_grpc_call *call = waiting->asker;
    rp_lane_count_answer(lane, call, waiting->method, code);
    uint8_t *target = rp_grpc_call_reserve(call, size);
    if (target == NULL)
        rp_grpc_call_end(call, RP_GRPC_RESOURCE_EXHAUSTED, (rp_slice){(const uint8_t *)no_memory, sizeof no_memory - 1});
    return target;
}

void rp_lane_end_answer(rp_waiting_call *waiting, uint32_t size) {
    rp_grpc_call_commit(waiting->asker, size);
    rp_grpc_call_end(waiting->asker, RP_GRPC_OK, (rp_slice){NULL, 0});
}

static void on_answer(void *context, rp_waiting_call *waiting, const rp_command *response) {
    ways[waiting->method].answer(context, waiting, response);
}

/* Fills in the text, worded as by rocketpy/remoting/client.py. */
static void fill_failure(rp_answer_status *status, const rp_upstream_failure *failure, const char *request, int64_t timeout_ms) {
    char address[RP_ADDRESS_TEXT_MAX];
    rp_address_text(&failure->address, address);
    if (failure->fault == RP_UPSTREAM_LATE)
        rp_answer_status_set(status, RP_CODE_PROXY_TIMEOUT, "%s: wait response on the channel <%s>, timeout: %lld(ms)", request, address,
                             (long long)timeout_ms);
    else if (failure->fault == RP_UPSTREAM_LOST)
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "connection to %s was lost before the response", address);
    else if (failure->fault == RP_UPSTREAM_LEAVES)
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "%s: the broker at %s goes away", request, address);
    else if (failure->os_errno == ETIMEDOUT)
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "connect to %s failed: no answer within %d s", address,
                             RP_DIAL_PATIENCE_MS / 1000);
    else
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "connect to %s failed: %s", address, strerror(failure->os_errno));
}

static void on_failure(void *context, rp_waiting_call *waiting, const rp_upstream_failure *failure) {
    const way *its = &ways[waiting->method];
    if (failure->fault == RP_UPSTREAM_LEAVES && waiting->asker != NULL) { /* the broker has not handled the request */
        if (its->again == NULL) {
            its->undo(context, waiting);
            rp_grpc_call_punt(waiting->asker);
            return;
        }
        if (its->again(context, waiting))
            return;
    }
    bool is_batch = waiting->method == RP_PROXY_SEND && rp_sent_has_several(rp_grpc_call_message(waiting->asker));
    rp_answer_status status;
    fill_failure(&status, failure, is_batch ? "SEND_BATCH_MESSAGE" : its->request, waiting->timeout_ms);
    its->end(context, waiting, &status);
}

/* ---- calls ---- */

/* Returns the client's id; data NULL: it gave none, or one with characters of more than one byte. */
static rp_slice client_of(const rp_grpc_call *call) {
    rp_slice id = rp_grpc_call_metadata(call, "x-mq-client-id");
    bool is_bare = id.size > 0 && id.data[0] != ' ' && id.data[id.size - 1] != ' ';
    for (uint32_t at = 0; at < id.size && is_bare; at++)
        is_bare = id.data[at] >= 0x20 && id.data[at] < 0x7F;
    return is_bare ? id : (rp_slice){NULL, 0};
}

static int32_t method_of(const rp_proxy *proxy, const rp_grpc_call *call) {
    int32_t method = 0, place = rp_grpc_call_method(call);
    while (method < RP_PROXY_METHODS && proxy->methods[method] != place)
        method++;
    return method;
}

static int on_call(void *context, rp_reactor *reactor, rp_grpc_call *call) {
    rp_proxy *proxy = context;
    int32_t method = method_of(proxy, call);
    if (method == RP_PROXY_METHODS)
        return RP_PUNT;
    rp_lane *lane = lane_of(proxy, reactor);
    if (method == RP_PROXY_RECEIVE && !rp_grpc_call_may_hold(call, 0)) {
        rp_receive_call_refuse(lane, call);
        return RP_HANDLED;
    }
    rp_slice client_id = client_of(call);
    rp_waiting_call *waiting = client_id.data != NULL ? ways[method].pass_on(proxy, reactor, call, client_id) : NULL;
    rp_lane_count(waiting != NULL ? &lane->passed[method] : &lane->punted);
    if (waiting == NULL)
        return RP_PUNT;
    waiting->asker = call;
    waiting->method = method;
    rp_grpc_call_keep(call, waiting);
    return RP_HANDLED;
}

static void on_cancelled(void *context, rp_reactor *reactor, rp_grpc_call *call) {
    rp_waiting_call *waiting = rp_grpc_call_kept(call);
    const way *its = &ways[waiting->method];
    if (its->leave != NULL) {
        its->leave(waiting);
        return;
    }
    rp_lane *lane = lane_of(context, reactor);
    its->drop(lane, waiting);
    rp_upstreams_forget(lane->upstreams, waiting);
}

static void on_delivered(void *context, rp_reactor *reactor, void *watched, uint64_t untaken_bytes) {
    rp_delivery_end(lane_of(context, reactor), reactor, watched, untaken_bytes);
}

/* ---- the reactor's hooks ---- */

/* Requests from brokers are ignored: they ask about consumers, which are not known here, and can do without an answer. */
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
                                  .lite_topic_size_max = 64,
                                  .delay_ms_max = 86400000,
                                  .polling_min_ms = 5000,
                                  .polling_max_ms = 20000,
                                  .invisible_min_ms = 10000,
                                  .invisible_max_ms = 43200000,
                                  .invisible_renewed_ms = 60000,
                                  .may_renew = 1,
                                  .reactors = 1,
                                  .ack_method = RP_PROXY_ACK,
                                  .change_method = RP_PROXY_CHANGE,
                                  .receive_method = RP_PROXY_RECEIVE,
                                  .topics_max = 20000,
                                  .calls_max = 65535};
}

static int make_parts(rp_proxy *proxy, const rp_proxy_options *options) {
    proxy->routes = rp_route_table_create(options->topics_max);
    proxy->readings = rp_route_table_create(options->topics_max);
    proxy->clients = rp_known_clients_create();
    proxy->brokers = rp_broker_addresses_create();
    proxy->held = rp_held_handles_create();
    bool is_made =
        proxy->routes != NULL && proxy->readings != NULL && proxy->clients != NULL && proxy->brokers != NULL && proxy->held != NULL;
    for (uint32_t i = 0; i < options->reactors && is_made; i++) {
        rp_lane *lane = &proxy->lanes[i];
        const rp_upstream_events events = {lane, on_answer, on_failure};
        lane->proxy = proxy;
        lane->upstreams = rp_upstreams_create(options->calls_max, &events);
        is_made = lane->upstreams != NULL;
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
                                   .lite_topic_size_max = options->lite_topic_size_max,
                                   .delay_ms_max = options->delay_ms_max,
                                   .takes_empty_body = options->takes_empty_body,
                                   .uses_delay_level = options->uses_delay_level};
    proxy->methods[RP_PROXY_SEND] = options->send_method;
    proxy->receive_rules = (rp_receive_rules){.polling_min = options->polling_min_ms,
                                              .polling_max = options->polling_max_ms,
                                              .invisible_min = options->invisible_min_ms,
                                              .invisible_max = options->invisible_max_ms,
                                              .invisible_renewed = options->invisible_renewed_ms,
                                              .may_renew = options->may_renew};
    proxy->methods[RP_PROXY_ACK] = options->ack_method;
    proxy->methods[RP_PROXY_CHANGE] = options->change_method;
    proxy->methods[RP_PROXY_RECEIVE] = options->receive_method;
    proxy->receives_max = (options->calls_max + 1) / 2;
    proxy->reactors = options->reactors;
    proxy->gate = options->gate;
    proxy->signer = options->signer;
    proxy->clock = options->clock != NULL ? options->clock : rp_clock_system();
    proxy->handler = (rp_handler){.context = proxy, .on_request = on_request, .on_response = on_response};
    proxy->handler.on_deadline = on_deadline;
    proxy->handler.on_close = on_close;
    proxy->grpc_handler =
        (rp_grpc_handler){.context = proxy, .on_call = on_call, .on_cancelled = on_cancelled, .on_delivered = on_delivered};
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
    rp_route_table_destroy(proxy->readings);
    rp_known_clients_destroy(proxy->clients);
    rp_broker_addresses_destroy(proxy->brokers);
    rp_held_handles_destroy(proxy->held);
    free(proxy);
}

const rp_handler *rp_proxy_handler(const rp_proxy *proxy) { return &proxy->handler; }

const rp_grpc_handler *rp_proxy_grpc_handler(const rp_proxy *proxy) { return &proxy->grpc_handler; }

int rp_proxy_put_route(rp_proxy *proxy, rp_slice topic, const rp_route *route) {
    return rp_route_table_put(proxy->routes, topic, route, rp_clock_monotonic_ns(proxy->clock));
}

void rp_proxy_forget_route(rp_proxy *proxy, rp_slice topic) { rp_route_table_forget(proxy->routes, topic); }

int rp_proxy_put_reading(rp_proxy *proxy, rp_slice topic, rp_slice group, const rp_route *route) {
    uint8_t room[RP_ROUTE_KEY_MAX];
    return rp_route_table_put(proxy->readings, rp_reading_key(topic, group, room), route, rp_clock_monotonic_ns(proxy->clock));
}

void rp_proxy_forget_reading(rp_proxy *proxy, rp_slice topic, rp_slice group) {
    uint8_t room[RP_ROUTE_KEY_MAX];
    rp_route_table_forget(proxy->readings, rp_reading_key(topic, group, room));
}

int rp_proxy_put_client(rp_proxy *proxy, rp_slice id, int64_t reserve_ms) { return rp_known_clients_put(proxy->clients, id, reserve_ms); }

void rp_proxy_forget_client(rp_proxy *proxy, rp_slice id) { rp_known_clients_forget(proxy->clients, id); }

int rp_proxy_put_broker(rp_proxy *proxy, rp_slice name, const rp_address *address) {
    return rp_broker_addresses_put(proxy->brokers, name, address);
}

void rp_proxy_forget_broker(rp_proxy *proxy, rp_slice name) { rp_broker_addresses_forget(proxy->brokers, name); }

rp_held_handles *rp_proxy_held(const rp_proxy *proxy) { return proxy->held; }

void rp_proxy_read_stats(const rp_proxy *proxy, rp_proxy_stats *stats) {
    *stats = (rp_proxy_stats){0};
    for (uint32_t i = 0; i < proxy->reactors; i++) {
        const rp_lane *lane = &proxy->lanes[i];
        stats->sent += atomic_load_explicit(&lane->passed[RP_PROXY_SEND], memory_order_relaxed);
        stats->acknowledged += atomic_load_explicit(&lane->passed[RP_PROXY_ACK], memory_order_relaxed);
        stats->changed += atomic_load_explicit(&lane->passed[RP_PROXY_CHANGE], memory_order_relaxed);
        stats->received += atomic_load_explicit(&lane->passed[RP_PROXY_RECEIVE], memory_order_relaxed);
        stats->errands += atomic_load_explicit(&lane->errands, memory_order_relaxed);
        stats->failed_errands += atomic_load_explicit(&lane->failed_errands, memory_order_relaxed);
        stats->answered += atomic_load_explicit(&lane->answered, memory_order_relaxed);
        stats->punted += atomic_load_explicit(&lane->punted, memory_order_relaxed);
        stats->waiting += rp_upstreams_waiting(lane->upstreams);
        stats->upstreams += rp_upstreams_connected(lane->upstreams);
    }
}

void rp_proxy_read_times(const rp_proxy *proxy, int32_t method, uint32_t place, rp_proxy_times *times) {
    *times = (rp_proxy_times){0};
    for (uint32_t i = 0; i < proxy->reactors; i++)
        rp_call_times_sum(&proxy->lanes[i].times[method], place, times);
}
