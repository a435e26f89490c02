/* server_closing_test.c: two connections end in the same turn, and the first one to end tries to send to the other, which is all but
 * closed:
 * its place is free for the next connection at once. */
#include "server_harness.h"

#include "../../../csrc/remoting/protocol.h"

enum { CODE_FIRST = 1, CODE_BOTH_END = 2, CODE_ANSWER = 3 };

typedef struct pair {
    rp_server *server;
    rp_connection *first, *second; /* the reactor's */
    _Atomic int is_dialed;
} pair;

static int on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    pair *own = context;
    (void)reactor, (void)resubmitted;
    if (command->code == CODE_BOTH_END) {
        own->second = connection;
        rp_connection_end(own->first, "first");
        rp_connection_end(own->second, "second"); /* the last to be closed goes first */
        return RP_HANDLED;
    }
    if (command->code == CODE_FIRST)
        own->first = connection;
    harness_answer(connection, command->opaque, 0);
    return RP_HANDLED;
}

static void on_close(void *context, rp_reactor *reactor, rp_connection *connection) {
    pair *own = context;
    if (connection == own->second) {
        harness_answer(own->first, 1, 0);
        rp_reactor_wake(reactor);
    }
}

/* In the turn behind: the new connection lies where the first one did. */
static void on_wake(void *context, rp_reactor *reactor) {
    pair *own = context;
    const rp_address address = {.bytes = {127, 0, 0, 1}, .size = 4, .port = rp_server_port(own->server)};
    rp_connection *dialed;
    CHECK(rp_reactor_dial(reactor, &address, &dialed) == RP_OK);
    atomic_store(&own->is_dialed, dialed == own->first);
}

static void a_word_to_who_is_gone_hurts_nobody_in_his_place(void) {
    pair own = {0};
    rp_handler handler = {.context = &own, .on_request = on_request, .on_wake = on_wake, .on_close = on_close};
    rp_server_options options;
    rp_error error;
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    CHECK(rp_server_open(&options, &handler, &own.server, &error) == RP_OK && rp_server_start(own.server, &error) == RP_OK);
    int first = dial_port(rp_server_port(own.server), 0), second = dial_port(rp_server_port(own.server), 0);
    int third = dial_port(rp_server_port(own.server), 0);
    send_request(third, RP_SERIALIZE_JSON, CODE_ANSWER, 0, NULL, (rp_slice){NULL, 0});
    expect_response(third, 0, 0, NULL);
    send_request(first, RP_SERIALIZE_JSON, CODE_FIRST, 1, NULL, (rp_slice){NULL, 0});
    expect_response(first, 0, 1, NULL);
    send_request(second, RP_SERIALIZE_JSON, CODE_BOTH_END, 2, NULL, (rp_slice){NULL, 0});
    CHECK(is_closed(first) && is_closed(second));
    send_request(third, RP_SERIALIZE_JSON, CODE_ANSWER, 3, NULL, (rp_slice){NULL, 0});
    expect_response(third, 0, 3, NULL);
    CHECK(atomic_load(&own.is_dialed));
    close(first);
    close(second);
    close(third);
    rp_server_close(own.server);
}

int main(void) {
    a_word_to_who_is_gone_hurts_nobody_in_his_place();
    return 0;
}
