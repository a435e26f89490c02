/* proxy_upstreams_test.c: a reactor's connections to brokers: each answer finds its caller, and a caller without an answer learns why;
 * brokers that are lost, going away, silent or unreachable; bounds. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../../csrc/base/clock_inl.h"
#include "../../../csrc/proxy/upstreams.h"
#include "check.h"

enum { CODE_ANSWER = 1, CODE_HOLD = 2, CODE_LOSE = 3, CODE_GO_AWAY = 4 };
#define CALLS_MAX 512
#define WAIT_MS 60000

/* ---- a broker, and a clock that is turned by hand ---- */

static int on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    (void)context, (void)reactor, (void)resubmitted;
    if (command->code == CODE_HOLD)
        return RP_HANDLED;
    if (command->code == CODE_LOSE)
        return RP_E_PROTOCOL;
    rp_command response;
    rp_command_clear_response(&response, command, command->code == CODE_GO_AWAY ? 1500 : 0);
    response.body = command->body;
    CHECK(rp_connection_write(connection, &response) == RP_OK);
    return RP_HANDLED;
}

static int64_t ahead_of(void *context) { return rp_clock_monotonic_ns(rp_clock_system()) + atomic_load((_Atomic int64_t *)context); }
static int64_t wall_of(void *context) {
    (void)context;
    return rp_clock_wall_ms(rp_clock_system());
}

/* ---- the asker: what the main thread orders, its reactor does when it is woken ---- */

typedef struct asker {
    rp_server *server;
    rp_upstreams *upstreams;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rp_address address; /* lock, as all below: the order */
    int32_t code;
    uint32_t count;
    int64_t patience_ns;
    bool forgets;
    uint32_t refused, answered, failed[5]; /* what has become of them */
    int os_errno;
    rp_waiting_call *kept[CALLS_MAX];
    uint32_t kept_count;
} asker;

static void on_answer(void *context, rp_waiting_call *call, const rp_command *answer) {
    asker *own = context;
    uint64_t noted;
    CHECK(call->asker == own && answer->body.size == sizeof noted);
    memcpy(&noted, answer->body.data, sizeof noted);
    CHECK(noted == (uint64_t)(uintptr_t)call->noted.data);
    own->answered++;
}

static void on_failure(void *context, rp_waiting_call *call, const rp_upstream_failure *failure) {
    asker *own = context;
    CHECK(call->asker == own && failure->fault < 5);
    own->failed[failure->fault]++;
    own->os_errno = failure->os_errno;
}

static void ask(asker *own, rp_reactor *reactor, uint64_t number) {
    rp_command command;
    rp_command_clear(&command, own->code, RP_SERIALIZE_ROCKETMQ);
    command.body = (rp_slice){(const uint8_t *)&number, sizeof number};
    int64_t deadline_ns = rp_reactor_now_ns(reactor) + own->patience_ns;
    rp_waiting_call *call = rp_upstreams_ask(own->upstreams, reactor, &own->address, &command, deadline_ns);
    own->refused += call == NULL;
    if (call == NULL)
        return;
    call->asker = own;
    call->noted = (rp_slice){(const uint8_t *)(uintptr_t)number, 0};
    if (own->code == CODE_HOLD && own->kept_count < CALLS_MAX)
        own->kept[own->kept_count++] = call;
}

static void on_wake(void *context, rp_reactor *reactor) {
    static _Atomic uint64_t numbers;
    asker *own = context;
    pthread_mutex_lock(&own->lock);
    for (; own->count > 0; own->count--)
        ask(own, reactor, atomic_fetch_add(&numbers, 1));
    for (; own->forgets && own->kept_count > 0; own->kept_count--)
        rp_upstreams_forget(own->upstreams, own->kept[own->kept_count - 1]);
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
}

static int on_response(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command) {
    asker *own = context;
    (void)reactor;
    pthread_mutex_lock(&own->lock);
    rp_upstreams_take_response(own->upstreams, connection, command);
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
    return RP_HANDLED;
}

static int64_t on_deadline(void *context, rp_reactor *reactor, int64_t now_ns) {
    asker *own = context;
    (void)reactor;
    pthread_mutex_lock(&own->lock);
    int64_t next_ns = rp_upstreams_look(own->upstreams, now_ns);
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
    return next_ns;
}

static void on_close(void *context, rp_reactor *reactor, rp_connection *connection) {
    asker *own = context;
    (void)reactor;
    pthread_mutex_lock(&own->lock);
    rp_upstreams_end_connection(own->upstreams, connection);
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
}

static void order(asker *own, rp_address address, int32_t code, uint32_t count, int64_t patience_ns) {
    pthread_mutex_lock(&own->lock);
    own->address = address;
    own->code = code;
    own->count = count;
    own->patience_ns = patience_ns;
    pthread_mutex_unlock(&own->lock);
    rp_reactor_wake(rp_server_reactor(own->server, 0));
}

/* Waits until *figure is wanted. */
static void await(asker *own, const uint32_t *figure, uint32_t wanted) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MS / 1000;
    pthread_mutex_lock(&own->lock);
    while (*figure != wanted)
        CHECK(pthread_cond_timedwait(&own->changed, &own->lock, &until) == 0);
    pthread_mutex_unlock(&own->lock);
}

static rp_server *start(const rp_handler *handler, const rp_clock *clock) {
    rp_server_options options;
    rp_error error = {0};
    rp_server *server;
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    options.reactors = 1;
    options.clock = clock;
    options.idle_timeout_ms = 0;
    CHECK(rp_server_open(&options, handler, &server, &error) == RP_OK);
    CHECK(rp_server_start(server, &error) == RP_OK);
    return server;
}

static rp_address local(uint16_t port) { return (rp_address){{127, 0, 0, 1}, 4, port}; }

/* A port that nobody listens at, nor anybody else can take. */
static uint16_t dead_port(int *fd) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(*fd, (struct sockaddr *)&address, size) == 0 && getsockname(*fd, (struct sockaddr *)&address, &size) == 0);
    return ntohs(address.sin_port);
}

#define FILLERS 8

/* A port that answers nobody any more: its queue is full. */
static uint16_t silent_port(int *listener, int fillers[FILLERS]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(*listener, (struct sockaddr *)&address, size) == 0 && getsockname(*listener, (struct sockaddr *)&address, &size) == 0);
    CHECK(listen(*listener, 0) == 0);
    for (int i = 0; i < FILLERS; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fillers[i], (struct sockaddr *)&address, size);
    }
    return ntohs(address.sin_port);
}

static uint64_t accepted_by(const rp_server *broker) {
    rp_server_stats stats;
    rp_server_read_stats(broker, &stats);
    return stats.connections_accepted;
}

#define LONG_NS (3600 * RP_NS_PER_S)

static void test_answers_losses_and_departures(asker *own, rp_server *broker) {
    rp_address address = local(rp_server_port(broker));
    for (uint32_t round = 1; round <= 8; round++) {
        order(own, address, CODE_ANSWER, 200, LONG_NS);
        await(own, &own->answered, round * 200);
    }
    CHECK(accepted_by(broker) == 1 && rp_upstreams_connected(own->upstreams) == 1 && rp_upstreams_waiting(own->upstreams) == 0);
    order(own, address, CODE_LOSE, 5, LONG_NS);
    await(own, &own->failed[RP_UPSTREAM_LOST], 5);
    order(own, address, CODE_ANSWER, 10, LONG_NS);
    await(own, &own->answered, 1610);
    CHECK(accepted_by(broker) == 2);
    order(own, address, CODE_GO_AWAY, 3, LONG_NS);
    await(own, &own->failed[RP_UPSTREAM_LEAVES], 3);
    order(own, address, CODE_ANSWER, 10, LONG_NS);
    await(own, &own->answered, 1620);
    CHECK(accepted_by(broker) == 3);
}

static void test_deadlines_and_bounds(asker *own, rp_server *broker, _Atomic int64_t *ahead_ns) {
    rp_address address = local(rp_server_port(broker));
    order(own, address, CODE_HOLD, CALLS_MAX + 7, 10 * RP_NS_PER_S);
    await(own, &own->refused, 7);
    CHECK(rp_upstreams_waiting(own->upstreams) == CALLS_MAX);
    atomic_fetch_add(ahead_ns, 9 * RP_NS_PER_S);
    order(own, address, CODE_ANSWER, 1, LONG_NS); /* nothing is free yet */
    await(own, &own->refused, 8);
    atomic_fetch_add(ahead_ns, 2 * RP_NS_PER_S);
    order(own, address, CODE_ANSWER, 0, LONG_NS);
    await(own, &own->failed[RP_UPSTREAM_LATE], CALLS_MAX);
    own->kept_count = 0;
    order(own, address, CODE_HOLD, 100, LONG_NS);
    await(own, &own->kept_count, 100);
    pthread_mutex_lock(&own->lock);
    own->forgets = true;
    pthread_mutex_unlock(&own->lock);
    order(own, address, CODE_ANSWER, 0, LONG_NS);
    await(own, &own->kept_count, 0);
    own->forgets = false;
    order(own, address, CODE_ANSWER, CALLS_MAX, LONG_NS);
    await(own, &own->answered, 1620 + CALLS_MAX);
    CHECK(rp_upstreams_waiting(own->upstreams) == 0 && own->refused == 8);
}

static uint32_t refused_by_the_kernel(asker *own) {
    pthread_mutex_lock(&own->lock);
    uint32_t refused = own->failed[RP_UPSTREAM_REFUSED];
    pthread_mutex_unlock(&own->lock);
    return refused;
}

static void test_brokers_that_are_not_there(asker *own, _Atomic int64_t *ahead_ns) {
    int dead, listener, fillers[FILLERS];
    order(own, local(dead_port(&dead)), CODE_ANSWER, 1, LONG_NS);
    struct timespec pause = {0, 1000000};
    for (int tries = 0; tries < WAIT_MS; tries++) { /* the kernel says no at once, or a little later */
        pthread_mutex_lock(&own->lock);
        bool is_over = own->refused == 9 || own->failed[RP_UPSTREAM_REFUSED] == 1;
        pthread_mutex_unlock(&own->lock);
        if (is_over)
            break;
        CHECK(pselect(0, NULL, NULL, NULL, &pause, NULL) == 0);
    }
    uint32_t refused = refused_by_the_kernel(own);
    CHECK(own->refused + refused == 9 && (refused == 0 || own->os_errno == ECONNREFUSED));
    order(own, local(silent_port(&listener, fillers)), CODE_ANSWER, 2, 100 * LONG_NS);
    atomic_fetch_add(ahead_ns, RP_NS_PER_S);
    rp_reactor_wake(rp_server_reactor(own->server, 0));
    for (int tries = 0; rp_upstreams_waiting(own->upstreams) != 2 && refused_by_the_kernel(own) < refused + 2; tries++)
        CHECK(tries < WAIT_MS && pselect(0, NULL, NULL, NULL, &pause, NULL) == 0); /* or both were given up before this thread looked */
    /* the timer of a connection is coarse: turned again and again */
    for (int tries = 0; tries < WAIT_MS && refused_by_the_kernel(own) < refused + 2; tries++) {
        atomic_fetch_add(ahead_ns, RP_NS_PER_S);
        rp_reactor_wake(rp_server_reactor(own->server, 0));
        CHECK(pselect(0, NULL, NULL, NULL, &pause, NULL) == 0);
    }
    await(own, &own->failed[RP_UPSTREAM_REFUSED], refused + 2);
    CHECK(own->os_errno == ETIMEDOUT);
    for (int i = 0; i < FILLERS; i++)
        close(fillers[i]);
    close(listener);
    close(dead);
}

int main(void) {
    static _Atomic int64_t ahead_ns;
    const rp_clock clock = {ahead_of, wall_of, &ahead_ns};
    static asker own = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const rp_handler broker_handler = {.on_request = on_request};
    const rp_handler asker_handler = {
        .context = &own, .on_wake = on_wake, .on_response = on_response, .on_deadline = on_deadline, .on_close = on_close};
    const rp_upstream_events events = {&own, on_answer, on_failure};
    own.upstreams = rp_upstreams_create(CALLS_MAX, &events);
    rp_server *broker = start(&broker_handler, NULL);
    own.server = start(&asker_handler, &clock);
    test_answers_losses_and_departures(&own, broker);
    test_deadlines_and_bounds(&own, broker, &ahead_ns);
    test_brokers_that_are_not_there(&own, &ahead_ns);
    order(&own, local(rp_server_port(broker)), CODE_HOLD, 3, LONG_NS); /* left waiting when all ends */
    await(&own, &own.kept_count, 3);
    rp_server_stop(own.server, 0);
    rp_server_stop(broker, 0);
    CHECK(own.failed[RP_UPSTREAM_LOST] == 8);
    rp_server_close(own.server);
    rp_server_close(broker);
    rp_upstreams_destroy(own.upstreams);
    return 0;
}
