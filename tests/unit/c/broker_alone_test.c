/* broker_alone_test.c: bounds on what a reactor reads and appends for a single request, while all its other requests wait. */
#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/base/file_ops.h"
#include "../../../csrc/broker/half_messages.h"
#include "../../../csrc/broker/stored_message.h"
#include "stored_messages.h"

#define DELAYED "SCHEDULE_TOPIC_XXXX"
#define RETRY "%RETRY%G"

enum { AT_ONCE = 8 };

static _Atomic int is_slow;

/* Each write takes so long that the reactor's next turn finds all requests that come meanwhile. */
static int64_t write_slowly(void *context, int fd, const void *source, size_t size, int64_t offset) {
    (void)context;
    if (atomic_load(&is_slow)) {
        const struct timespec pause = {.tv_nsec = 400 * 1000000L};
        nanosleep(&pause, NULL);
    }
    return rp_file_ops_system()->write_at(NULL, fd, source, size, offset);
}

static int64_t send_body(client *c, rp_slice body) {
    number_text queue;
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, body, &queue);
    rp_command response = client_call(c, &request);
    CHECK(response.code == 0);
    return field_number(&response, "queueOffset");
}

/* Records are written, not stored to a map. */
static void open_over_slow_writes(fixture *fx, rp_file_ops *ops) {
    fixture_init(fx);
    *ops = *rp_file_ops_system();
    ops->write_at = write_slowly;
    fx->store_options.file_ops = ops;
    fx->store_options.flush_mode = RP_FLUSH_SYNC;
    fixture_open(fx);
}

/* Of AT_ONCE requests in one turn a reactor leaves some to Python. One more, in a later turn, it handles itself. */
static void some_of_many_are_pythons(fixture *fx, void (*ask)(fixture *fx, client *c, int number), int32_t code) {
    client many = client_open(fx, RP_SERIALIZE_JSON), later = client_open(fx, RP_SERIALIZE_JSON);
    rp_command answer;
    atomic_store(&is_slow, 1);
    for (int i = 0; i < AT_ONCE; i++)
        ask(fx, &many, i);
    rp_request *punted = take_punted(fx);
    CHECK(punted->command.code == code);
    rp_request_free(punted);
    atomic_store(&is_slow, 0);
    ask(fx, &later, AT_ONCE);
    CHECK(client_receive(&later, &answer, WAIT_MS) == 1 && answer.code == 0);
    client_close(&later);
    client_close(&many);
}

static int64_t place_of(fixture *fx, const char *topic, int64_t offset) {
    rp_message message;
    void *pin = read_message(fx, topic, 0, offset, &message, NULL);
    rp_log_range_release(pin);
    return message.physical_offset;
}

static void send_back(fixture *fx, client *c, int number) {
    (void)number;
    number_text place;
    rp_command request = request_of(c, RP_CODE_CONSUMER_SEND_MSG_BACK);
    with_text(&request, "offset", number_of(&place, place_of(fx, "T", 0)));
    with_text(&request, "group", "G");
    with_text(&request, "delayLevel", "0");
    client_send(c, &request);
}

static void what_comes_back_at_once_over_a_slow_log_is_pythons(void) {
    fixture fx;
    rp_file_ops ops;
    open_over_slow_writes(&fx, &ops);
    CHECK(rp_broker_put_topic(fx.broker, text(DELAYED), 18, 18, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL | RP_TOPIC_CHECKED_SEND | RP_TOPIC_RETRY_SEND) ==
          RP_OK);
    CHECK(rp_broker_set_retries(fx.broker, text("G"), 1, 16) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_body(&c, text("work"));
    some_of_many_are_pythons(&fx, send_back, RP_CODE_CONSUMER_SEND_MSG_BACK);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void roll_back(fixture *fx, client *c, int number) {
    number_text offset, place, decision;
    rp_command request = request_of(c, RP_CODE_END_TRANSACTION);
    with_text(&request, "producerGroup", "P");
    with_text(&request, "tranStateTableOffset", number_of(&offset, number));
    with_text(&request, "commitLogOffset", number_of(&place, place_of(fx, RP_HALF_TOPIC, number)));
    with_text(&request, "commitOrRollback", number_of(&decision, RP_SYSFLAG_TRANSACTION_ROLLBACK));
    client_send(c, &request);
}

static void what_is_decided_at_once_over_a_slow_log_is_pythons(void) {
    fixture fx;
    rp_file_ops ops;
    open_over_slow_writes(&fx, &ops);
    CHECK(rp_broker_put_topic(fx.broker, text(RP_HALF_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text(RP_OP_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i <= AT_ONCE; i++)
        send_message(&c, "T", 0, "TRAN_MSG\1true\2PGROUP\1P\2", "money");
    some_of_many_are_pythons(&fx, roll_back, RP_CODE_END_TRANSACTION);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* A client may name an offset inside the body of its own message, where a false record claims any size. */
static void a_record_of_any_size_is_not_read(void) {
    enum { MIB = 1 << 20, HEAD = 88 /* of a record before its body */ };
    fixture fx;
    fixture_init(&fx);
    fx.store_options.commit_log_file_size = 16 * MIB;
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    static uint8_t body[MIB];
    const uint32_t sizes[] = {MIB, MIB + 1, 3 * MIB, UINT32_MAX};
    int64_t offsets[4];
    for (int i = 0; i < 4; i++) {
        rp_put_u32(body, sizes[i]);
        offsets[i] = send_body(&c, (rp_slice){body, sizeof body});
    }
    for (int i = 0; i < 3; i++)
        send_body(&c, (rp_slice){body, sizeof body});
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    for (int i = 0; i < 4; i++) {
        rp_message message;
        void *pin = read_message(&fx, "T", 0, offsets[i], &message, NULL);
        int64_t place = message.physical_offset;
        rp_log_range_release(pin);
        CHECK(rp_stored_message_in_memory(log, place + HEAD) == (sizes[i] == MIB));
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(what_comes_back_at_once_over_a_slow_log_is_pythons);
    RUN(what_is_decided_at_once_over_a_slow_log_is_pythons);
    RUN(a_record_of_any_size_is_not_read);
    return 0;
}
