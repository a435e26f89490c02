/* broker_pop_full_disk_test.c: popped messages while the disk is full: none is lost, and all are delivered once there is room. */
#include <stdatomic.h>
#include <stdbool.h>

#include "pop_revive_fixture.h"

static _Atomic bool is_full;

static int allocate_or_full(void *context, int fd, int64_t offset, int64_t size) {
    if (!atomic_load(&is_full))
        return rp_file_ops_system()->allocate(context, fd, offset, size);
    errno = ENOSPC;
    return -1;
}

static void open_where_it_may_be_full(fixture *fx, rp_file_ops *full, client *c) {
    *full = *rp_file_ops_system();
    full->allocate = allocate_or_full;
    fixture_init(fx);
    fx->store_options.file_ops = full;
    fixture_open(fx);
    *c = client_open(fx, RP_SERIALIZE_JSON);
    CHECK(rp_broker_put_topic(fx->broker, text(REVIVE), 8, 8, 6, 0, NATIVE) == RP_OK);
}

/* Sends until one is accepted: then the thread that makes files ahead has seen that there is room. */
static void wait_room(client *c, const char *body) {
    number_text queue;
    for (int64_t until = now_ms() + WAIT_MS; now_ms() < until; sched_yield()) {
        rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, "T", 1, NULL, text(body), &queue);
        if (client_call(c, &request).code == 0)
            return;
    }
    CHECK(!"the log takes messages again");
}

static void what_a_full_disk_refuses_is_tried_again_and_comes_once(void) {
    enum { COUNT = 32, BODY = 60000 }; /* more than two files of the log */
    rp_file_ops full;
    fixture fx;
    client c;
    open_where_it_may_be_full(&fx, &full, &c);
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 1, 1, 6, 0, NATIVE) == RP_OK);
    char *body = malloc(BODY + 1);
    memset(body, 'x', BODY);
    body[BODY] = 0;
    for (int i = 0; i < COUNT; i++)
        send_message(&c, "T", 0, NULL, body);
    rp_pop_checkpoint checkpoint = checkpoint_of(0, COUNT, 1000), is_first = checkpoint_of(0, 1, 0);
    put(&fx, 0, &checkpoint);
    atomic_store(&is_full, true);
    turn(&fx, DUE_MS(1000)); /* the retry queue cannot begin */
    CHECK(end_of(&fx, RETRY, 0) == 0 && stats_of(&fx).checkpoints_kept == 1);
    atomic_store(&is_full, false);
    is_first.pop_time_ms = POP_MS - 10000;
    put(&fx, 1, &is_first);
    turn(&fx, POP_MS);
    CHECK(end_of(&fx, RETRY, 0) == 1);
    atomic_store(&is_full, true);
    turn(&fx, DUE_MS(1000) + 1000); /* the log has no file any more */
    int64_t end = end_of(&fx, RETRY, 0);
    CHECK(end < 1 + COUNT && stats_of(&fx).append_failures > 0 && stats_of(&fx).checkpoints_kept == 1 && group_offset(&fx, 0) < 0);
    atomic_store(&is_full, false);
    wait_room(&c, body);
    turn(&fx, DUE_MS(1000) + 3000);
    CHECK(end_of(&fx, RETRY, 0) == 1 + COUNT && stats_of(&fx).put_again == 0 && stats_of(&fx).checkpoints_kept == 0);
    free(body);
    close_revive(&fx, &c);
}

/* A change of an invisible time: an ack is shorter than its checkpoint, and may still fit where the disk ends. */
static void an_ack_is_not_stored_without_its_checkpoint(void) {
    enum { BODY = 60000, SHIFT = 60, SHIFTS = 16 };
    rp_file_ops full;
    fixture fx;
    client c;
    open_where_it_may_be_full(&fx, &full, &c);
    char body[BODY + 1] = {0};
    number_text queue;
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    rp_pop_ack ack = {.topic = checkpoint.topic, .group = checkpoint.group, .offset_count = 1, .offsets = (const int64_t[]){0}};
    memset(body, 'x', BODY);
    CHECK(rp_pop_log_replace(fx.broker, 0, &checkpoint, &ack) == RP_OK);
    for (int i = 0; i < SHIFTS; i++) {
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 1, NULL, text(body + BODY - i * SHIFT - 1), &queue);
        CHECK(client_call(&c, &request).code == 0);
        atomic_store(&is_full, true);
        do {
            request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 1, NULL, text(body), &queue);
        } while (client_call(&c, &request).code == 0);
        while (rp_pop_log_replace(fx.broker, 0, &checkpoint, &ack) == RP_OK)
            ;
        rp_message message, before;
        int64_t end = end_of(&fx, REVIVE, 0);
        void *pin = read_message(&fx, REVIVE, 0, end - 1, &message, NULL),
             *pin_before = read_message(&fx, REVIVE, 0, end - 2, &before, NULL);
        CHECK(property_is(&message, "TAGS", RP_POP_CK_TAG) || property_is(&before, "TAGS", RP_POP_CK_TAG));
        rp_log_range_release(pin);
        rp_log_range_release(pin_before);
        atomic_store(&is_full, false);
        wait_room(&c, body);
    }
    close_revive(&fx, &c);
}

int main(void) {
    RUN(what_a_full_disk_refuses_is_tried_again_and_comes_once);
    RUN(an_ack_is_not_stored_without_its_checkpoint);
    return 0;
}
