/* broker_static_test.c: static topics: global queues map to this broker's queues, in both directions, also while they move. */
#include <pthread.h>
#include <stdatomic.h>

#include "broker/half_messages.h"
#include "broker/queue_mapping.h"
#include "broker/send_path.h"
#include "broker_fixture.h"

#define STATIC (RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL | RP_TOPIC_STATIC)
#define OFFSET_MOVED 21

static void map(fixture *fx, int32_t global_id, int32_t queue_id, int64_t logic_offset, int32_t is_earliest) {
    CHECK(rp_broker_put_queue_mapping(fx->broker, text("S"), global_id, queue_id, logic_offset, 0, is_earliest) == RP_OK);
}

static void put_static(fixture *fx) { CHECK(rp_broker_put_topic(fx->broker, text("S"), 4, 4, 6, 0, STATIC) == RP_OK); }

static void a_mapping_takes_what_can_be(void) {
    rp_queue_mapping *mapping = calloc(1, sizeof *mapping);
    rp_mapped_queue queue = {.logic_offset = 10, .start_offset = 3, .queue_id = 2}, found;
    CHECK(mapping != NULL && rp_queue_mapping_any(mapping, 7, &found) == -1 && rp_queue_mapping_any(NULL, 7, &found) == -1);
    CHECK(rp_queue_mapping_put(mapping, 65535, &queue) == RP_OK && rp_queue_mapping_find(mapping, 65535, &found) == 1);
    CHECK(rp_mapped_queue_is(&queue, &found) && rp_queue_mapping_find(mapping, 65534, &found) == 0);
    CHECK(rp_queue_mapping_find(NULL, 0, &found) == 0 && rp_queue_mapping_find(mapping, -1, &found) == 0);
    CHECK(rp_queue_mapping_any(mapping, UINT64_MAX, &found) == 65535);
    CHECK(rp_queue_mapping_put(mapping, 65535, NULL) == RP_OK && rp_queue_mapping_any(mapping, 0, &found) == -1);
    CHECK(rp_queue_mapping_put(mapping, 3, NULL) == RP_OK);
    static const rp_mapped_queue impossible[] = {{.queue_id = -1},     {.queue_id = 65536},
                                                 {.logic_offset = -2}, {.logic_offset = INT64_MAX},
                                                 {.start_offset = -1}, {.start_offset = INT64_MAX}};
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++)
        CHECK(rp_queue_mapping_put(mapping, 0, &impossible[i]) == RP_E_INVALID);
    CHECK(rp_queue_mapping_put(mapping, 65536, &queue) == RP_E_INVALID && rp_queue_mapping_put(mapping, -1, NULL) == RP_E_INVALID);
    CHECK(rp_mapped_offset(&queue, 0) == 10 && rp_mapped_offset(&queue, 3) == 10 && rp_mapped_offset(&queue, 5) == 12);
    queue.logic_offset = -1;
    CHECK(rp_mapped_offset(&queue, 5) == -1);
    rp_queue_mapping_free(mapping);
    rp_queue_mapping_free(NULL);
}

static rp_command pull_static(client *c, int32_t queue_id, int64_t offset, int32_t flags) {
    pull_request pull = pull_of(queue_id, offset);
    pull.topic = "S";
    pull.sys_flag |= flags;
    pull.commit_offset = offset;
    return client_pull(c, &pull);
}

static void told(const rp_command *response, int32_t code, int64_t next, int64_t min, int64_t max, int64_t delta) {
    CHECK(response->code == code);
    CHECK(field_number(response, "nextBeginOffset") == next && field_number(response, "minOffset") == min);
    CHECK(field_number(response, "maxOffset") == max && field_number(response, "offsetDelta") == delta);
}

static void queues_are_global_on_the_wire(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON), binary = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    map(&fx, 5, 2, -1, 0);
    put_static(&fx);
    CHECK(send_message(&c, "S", 5, "UNIQ_KEY\1K\2", "early") == -1);
    map(&fx, 5, 2, 10000, 0);
    put_static(&fx);
    CHECK(send_message(&binary, "S", 5, "UNIQ_KEY\1K\2", "second") == 10001);
    CHECK(send_message(&c, "S", -1, "UNIQ_KEY\1K\2", "any") == 10002);
    CHECK(rp_broker_put_topic(fx.broker, text(RP_HALF_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(send_message(&c, "S", 5, "TRAN_MSG\1true\2PGROUP\1P\2UNIQ_KEY\1K\2", "prepared") == 0); /* among the prepared ones */
    rp_command response = pull_static(&c, 5, 10000, 1);
    told(&response, 0, 10003, 10000, 10003, 10000);
    CHECK(rp_broker_read_offset(fx.broker, text("G"), text("S"), 2) == 0);
    response = pull_static(&binary, 5, 10003, 1);
    told(&response, 19, 10003, 10000, 10003, 10000);
    CHECK(rp_broker_read_offset(fx.broker, text("G"), text("S"), 2) == 3);
    response = pull_static(&c, 5, 10009, 0);
    told(&response, OFFSET_MOVED, 10003, 10000, 10003, 10000);
    map(&fx, 5, 2, 10000, 1);
    response = pull_static(&c, 5, 10009, 2);
    told(&response, 19, 10003, 10000, 10003, 10000); /* at once, because there is something to tell the consumer */
    response = pull_static(&c, 5, 7, 0);
    told(&response, OFFSET_MOVED, 10000, 10000, 10003, 10000);
    response = pull_static(&c, 5, INT64_MAX, 0);
    told(&response, 19, 10003, 10000, 10003, 10000);
    CHECK(rp_broker_reset_offset(fx.broker, text("G"), text("S"), 2, 1) == RP_OK);
    response = pull_static(&c, 5, 10003, 2);
    told(&response, OFFSET_MOVED, 10001, 10000, 10003, 10000);
    CHECK(rp_broker_put_queue_mapping(fx.broker, text("S"), 5, 2, 0, 1, 1) == RP_OK);
    pull_request strange = pull_of(5, 2);
    strange.topic = "S";
    strange.sys_flag |= 1;
    strange.commit_offset = INT64_MAX;
    int64_t committed = rp_broker_read_offset(fx.broker, text("G"), text("S"), 2);
    response = client_pull(&c, &strange);
    told(&response, 19, 2, 0, 2, -1);
    CHECK(rp_broker_read_offset(fx.broker, text("G"), text("S"), 2) == committed);
    client_close(&binary);
    client_close(&c);
    fixture_close(&fx);
}

static void what_is_not_here_is_pythons(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    map(&fx, 5, 2, 10000, 0);
    put_static(&fx);
    rp_command response = pull_static(&c, 2, 10000, 0);
    CHECK(response.code == 501 && slice_is(response.remark, "S-2 cannot find mapping item in request process of current broker broker"));
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "S", 2, "", text("x"), &queue);
    response = client_call(&c, &request);
    CHECK(response.code == 501 && slice_is(response.remark, "S-2 does not exit in request process of current broker broker"));
    pull_request earlier = pull_of(5, 9999);
    earlier.topic = "S";
    client_send_pull(&c, &earlier);
    CHECK(was_punted(&fx, RP_CODE_PULL_MESSAGE));
    request = request_of(&c, RP_CODE_GET_MAX_OFFSET);
    with_text(&request, "topic", "S");
    with_text(&request, "queueId", "5");
    client_send(&c, &request);
    CHECK(was_punted(&fx, RP_CODE_GET_MAX_OFFSET));
    CHECK(send_message(&c, "S", 5, "UNIQ_KEY\1K\2", "here") == 10000);
    static const char *const physical[] = {"false", "no", ""}, *const global[] = {"true", "TRUE"};
    for (size_t i = 0; i < 3; i++) {
        request = request_of(&c, RP_CODE_GET_MAX_OFFSET);
        with_text(&request, "topic", "S");
        with_text(&request, "queueId", "2");
        with_text(&request, "lo", physical[i]);
        response = client_call(&c, &request);
        CHECK(response.code == 0 && field_number(&response, "offset") == 1);
    }
    for (size_t i = 0; i < 2; i++) {
        request = request_of(&c, RP_CODE_GET_MIN_OFFSET);
        with_text(&request, "topic", "S");
        with_text(&request, "queueId", "2");
        with_text(&request, "lo", global[i]);
        client_send(&c, &request);
        CHECK(was_punted(&fx, RP_CODE_GET_MIN_OFFSET));
    }
    CHECK(rp_broker_put_topic(fx.broker, text("S"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(send_message(&c, "S", 2, "UNIQ_KEY\1K\2", "a plain topic again") == 1);
    CHECK(rp_broker_put_queue_mapping(fx.broker, text(""), 0, 0, 0, 0, 1) == RP_E_INVALID);
    CHECK(rp_broker_put_queue_mapping(fx.broker, text("never static"), 0, -1, 0, 0, 1) == RP_OK);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_waiting_pull_goes_when_its_queue_does(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON), sender = client_open(&fx, RP_SERIALIZE_JSON);
    map(&fx, 0, 1, 20000, 0);
    put_static(&fx);
    pull_request pull = pull_of(0, 20000);
    pull.topic = "S";
    pull.sys_flag = RP_PULL_SUBSCRIPTION | RP_PULL_SUSPEND;
    client_send_pull(&c, &pull);
    CHECK(send_message(&sender, "S", 0, "UNIQ_KEY\1K\2", "woken") == 20000);
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1);
    told(&response, 0, 20001, 20000, 20001, 20000);
    pull.offset = 20001;
    pull.suspend_ms = WAIT_MS;
    client_send_pull(&c, &pull);
    pull_request other = pull_of(0, 0); /* of a plain topic: once it is answered, the one before it is known to wait */
    rp_command told_plain;
    other.sys_flag = RP_PULL_SUBSCRIPTION;
    int32_t opaque = client_send_pull(&c, &other);
    CHECK(client_receive(&c, &told_plain, WAIT_MS) == 1 && told_plain.opaque == opaque);
    map(&fx, 0, -1, 0, 0);
    put_static(&fx);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1);
    told(&response, 20, 20001, 20000, 20001, 20000);
    client_close(&sender);
    client_close(&c);
    fixture_close(&fx);
}

/* Requests that met a cell half-written came up to Python. They are given back, as Python does after a look. */
static void give_back(const fixture *fx) {
    rp_request *request;
    while (rp_server_take(fx->server, &request, 1) == 1) {
        if (request->kind == RP_REQUEST_COMMAND)
            CHECK(rp_server_resubmit(fx->server, request, RP_SEND_CAN_BE_STORED) == RP_OK);
        else
            rp_request_free(request);
    }
}

typedef struct traffic {
    fixture *fx;
    _Atomic int *is_over;
} traffic;

/* Queue and offset in an answer must belong to the same state of the mapping. */
static void *send_and_pull(void *context) {
    traffic *t = context;
    client c = client_open(t->fx, RP_SERIALIZE_ROCKETMQ);
    for (int i = 0; i < 3000; i++) {
        number_text queue;
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "S", 0, "UNIQ_KEY\1K\2", text("x"), &queue), response;
        response = client_call(&c, &request);
        CHECK(response.code == 0 && field_number(&response, "queueId") == 0);
        int64_t offset = field_number(&response, "queueOffset");
        CHECK(offset / 1000000 == 1 || offset / 1000000 == 2);
        if (i % 16 != 0)
            continue;
        response = pull_static(&c, 0, 2000000, 0);
        int64_t delta = field_number(&response, "offsetDelta");
        CHECK(delta == 1000000 || delta == 2000000);
        CHECK(field_number(&response, "minOffset") == delta);
    }
    atomic_fetch_add(t->is_over, 1);
    client_close(&c);
    return NULL;
}

static void a_queue_may_move_under_its_traffic(void) {
    enum { THREADS = 2 };
    fixture fx;
    fixture_init(&fx);
    fx.server_options.reactors = 2;
    fixture_open(&fx);
    _Atomic int is_over = 0;
    traffic t = {&fx, &is_over};
    pthread_t threads[THREADS];
    map(&fx, 0, 1, 1000000, 1);
    put_static(&fx);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, send_and_pull, &t) == 0);
    for (int i = 0; atomic_load(&is_over) < THREADS; i++) {
        map(&fx, 0, 1 + i % 2, 1000000 * (1 + i % 2), 1);
        if (i % 50 == 0)
            put_static(&fx);
        give_back(&fx);
        sched_yield();
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    drop_events(&fx);
    fixture_close(&fx);
}

static int64_t end_of(const fixture *fx, int32_t queue_id) {
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text("S"), queue_id, 1, NULL);
    CHECK(queue != NULL);
    return rp_consume_queue_max_offset(queue);
}

/* The queue that was given up ends after them. */
static void sends_are_over_when_they_are_stored(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    map(&fx, 0, 1, 0, 1);
    put_static(&fx);
    rp_broker_mark_mapped_sends(fx.broker);
    CHECK(rp_broker_mapped_sends_are_over(fx.broker));
    for (int i = 0; i < 200; i++) {
        number_text queue;
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "S", 0, "UNIQ_KEY\1K\2", text("x"), &queue), response;
        client_send(&c, &request);
        map(&fx, 0, i % 2, 0, 1);
        rp_broker_mark_mapped_sends(fx.broker);
        int64_t until = now_ms() + WAIT_MS;
        while (!rp_broker_mapped_sends_are_over(fx.broker))
            CHECK(now_ms() < until && sched_yield() == 0);
        int64_t before = end_of(&fx, 1 - i % 2);
        int received;
        for (until = now_ms() + WAIT_MS; (received = client_receive(&c, &response, 1)) == 0; give_back(&fx))
            CHECK(now_ms() < until);
        CHECK(received == 1 && response.code == 0);
        CHECK(end_of(&fx, 1 - i % 2) == before);
    }
    client_close(&c);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_mapping_takes_what_can_be);
    RUN(queues_are_global_on_the_wire);
    RUN(what_is_not_here_is_pythons);
    RUN(a_waiting_pull_goes_when_its_queue_does);
    RUN(a_queue_may_move_under_its_traffic);
    RUN(sends_are_over_when_they_are_stored);
    return 0;
}
