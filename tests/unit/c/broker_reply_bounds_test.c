/* broker_reply_bounds_test.c: many replies at once: bounds, several reactors, a stop in the middle. */
#include "reply_clients.h"

static void replies_past_their_bound_are_refused_before_anything_is_done(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.commit_log_file_size = 16 << 20;
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_ROCKETMQ), replier = open_replier(&fx, RP_SERIALIZE_ROCKETMQ);
    for (int i = 0; i < RP_REPLIES_MAX; i++) {
        send_reply(&replier, "x");
        for (int read = 0; i % 512 == 511 && read < 512; read++) /* pushes not read would meet RP_PUSH_UNSENT_MAX first */
            CHECK(receive_push(&requester).opaque >= RP_PUSH_OPAQUE);
    }
    send_reply(&replier, "one more");
    rp_command answer = receive(&replier);
    CHECK(answer.code == SYSTEM_BUSY && slice_is(answer.remark, "[OVERLOAD]system busy, start flow control for a while"));
    CHECK(stored_count(&fx) == RP_REPLIES_MAX);
    client_close(&requester);
    for (int i = 0; i < RP_REPLIES_MAX; i++)
        CHECK(receive(&replier).code == SYSTEM_ERROR);
    send_reply(&replier, "there is room again");
    CHECK(receive(&replier).code == SYSTEM_ERROR);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Sends a reply of 4 MB to client_id and then two plain messages, the second in a later turn than the reply. Returns the code that the
 * reply was answered with before the second; -1: not answered yet. */
static int32_t reply_of_4_mb(client *replier, const char *client_id, rp_slice body) {
    char properties[64];
    number_text queue;
    int32_t code = -1;
    snprintf(properties, sizeof properties, "REPLY_TO_CLIENT\1%s\2", client_id);
    rp_command reply = send_request_v2(replier, RP_CODE_SEND_REPLY_MESSAGE_V2, "T", 2, properties, body, &queue);
    client_send(replier, &reply);
    for (int i = 0; i < 2; i++) {
        rp_command answer, plain = send_request_v2(replier, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("plain"), &queue);
        client_send(replier, &plain);
        while ((answer = receive(replier)).opaque != plain.opaque)
            code = answer.opaque == reply.opaque ? answer.code : code;
    }
    return code;
}

/* Counts the replies of 4 MB that are accepted for client_id, who does not read. *code: the answer to the next one. */
static int replies_taken(client *replier, const char *client_id, rp_slice body, int32_t *code) {
    int taken = 0;
    while ((*code = reply_of_4_mb(replier, client_id, body)) == -1)
        taken++;
    return taken;
}

static void who_does_not_read_is_pushed_so_much_and_all_together_so_much(void) {
    /* One frame is more than a socket holds and RP_PUSH_UNSENT_MAX allows. So one requester holds two frames, or three on another
     * reactor, and RP_PUSH_BYTES_MAX takes at least this many requesters. */
    enum { SIZE = 4 << 20, REQUESTERS = 32, AT_ONCE = (int)(RP_PUSH_BYTES_MAX / SIZE / 3) };
    fixture fx;
    fixture_init(&fx);
    fx.settings.store_reply_enable = 0;
    fixture_open(&fx);
    client replier = open_replier(&fx, RP_SERIALIZE_JSON), requesters[REQUESTERS];
    uint8_t *bytes = calloc(1, SIZE);
    CHECK(bytes != NULL);
    int count = 0;
    int32_t code = SYSTEM_ERROR;
    for (; count < REQUESTERS && code == SYSTEM_ERROR; count++) {
        char id[16];
        snprintf(id, sizeof id, "c%d", count);
        requesters[count] = client_open(&fx, RP_SERIALIZE_JSON);
        CHECK(rp_broker_put_producer(fx.broker, text(id), 0, opened(&fx)) == RP_OK);
        int taken = replies_taken(&replier, id, (rp_slice){bytes, SIZE}, &code);
        CHECK(code == SYSTEM_BUSY || (code == SYSTEM_ERROR && taken >= 1));
    }
    CHECK(code == SYSTEM_BUSY && count > AT_ONCE); /* a few that do not read leave room for others */
    for (int i = 0; i < count; i++)
        client_close(&requesters[i]);
    client last = open_requester(&fx, RP_SERIALIZE_JSON); /* what waited for them is dropped with their connections */
    int64_t until = now_ms() + WAIT_MS;
    while ((code = reply_of_4_mb(&replier, REQUESTER, (rp_slice){bytes, SIZE})) == SYSTEM_BUSY)
        CHECK(now_ms() < until);
    CHECK(code == -1 && receive_push(&last).body.size == SIZE);
    free(bytes);
    client_close(&last);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Requesters and repliers on all reactors at once, in both directions. Then again with requesters that leave in between. */
static void replies_cross_reactors(void) {
    enum { CLIENTS = 8, ROUNDS = 200 };
    static const char *const ids[CLIENTS] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
    fixture fx;
    fixture_init(&fx);
    fx.server_options.reactors = 4;
    fixture_open(&fx);
    client requesters[CLIENTS], repliers[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        requesters[i] = client_open(&fx, (uint8_t)(i % 2));
        CHECK(rp_broker_put_producer(fx.broker, text(ids[i]), 0, opened(&fx)) == RP_OK);
        repliers[i] = open_replier(&fx, (uint8_t)(i % 2));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            char properties[64];
            number_text queue;
            snprintf(properties, sizeof properties, "REPLY_TO_CLIENT\1%s\2", ids[(i + round) % CLIENTS]);
            rp_command request = reply_of(&repliers[i], properties, "crossing", &queue);
            client_send(&repliers[i], &request);
        }
        if (round == ROUNDS - 1)
            client_close(&requesters[0]);
        for (int i = round == ROUNDS - 1; i < CLIENTS; i++)
            answer_push(&requesters[i], receive_push(&requesters[i]).opaque, SUCCESS);
        int failed = 0;
        for (int i = 0; i < CLIENTS; i++)
            failed += receive(&repliers[i]).code != SUCCESS;
        CHECK(failed == (round == ROUNDS - 1));
    }
    CHECK(stored_count(&fx) == CLIENTS * ROUNDS);
    CHECK(rp_broker_put_producer(fx.broker, text("c"), 1, 1) == RP_E_INVALID);
    CHECK(rp_broker_put_producer(fx.broker, text("c"), 0, UINT64_MAX) == RP_E_INVALID);
    CHECK(rp_broker_put_producer(fx.broker, text(""), 0, 1) == RP_E_INVALID);
    for (int i = 0; i < CLIENTS; i++) {
        if (i > 0)
            client_close(&requesters[i]);
        client_close(&repliers[i]);
    }
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_broker_closes_over_replies_on_their_way(void) {
    fixture fx;
    fixture_init(&fx);
    fx.server_options.reactors = 4;
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON);
    client repliers[4];
    for (int i = 0; i < 4; i++) {
        repliers[i] = open_replier(&fx, RP_SERIALIZE_JSON);
        send_reply(&repliers[i], "unanswered");
    }
    CHECK(receive_push(&requester).opaque >= RP_PUSH_OPAQUE);
    drop_events(&fx);
    rp_server_stop(fx.server, 0);
    drop_events(&fx);
    fixture_close(&fx);
    client_close(&requester);
    for (int i = 0; i < 4; i++)
        client_close(&repliers[i]);
}

int main(void) {
    RUN(replies_past_their_bound_are_refused_before_anything_is_done);
    RUN(who_does_not_read_is_pushed_so_much_and_all_together_so_much);
    RUN(replies_cross_reactors);
    RUN(a_broker_closes_over_replies_on_their_way);
    return 0;
}
