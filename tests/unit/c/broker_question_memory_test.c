/* broker_question_memory_test.c: a prepared message is not stored again if there is no memory for the transaction check. */
#include <malloc.h>
#include <sys/resource.h>

#include "broker/half_messages.h"
#include "broker/transactions.h"
#include "broker_fixture.h"

enum { BODY_SIZE = 300 << 10 };

static int put_again(const fixture *fx, int64_t log_offset, rp_half_copy *copy) {
    return rp_broker_put_half_again(fx->broker, log_offset, RP_HALF_IS_ASKED_FOR, 1, copy);
}

static void without_memory_for_the_question_nothing_is_stored(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text(RP_HALF_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    char *body = malloc(BODY_SIZE + 1);
    memset(body, 'x', BODY_SIZE);
    body[BODY_SIZE] = 0;
    send_message(&c, RP_HALF_TOPIC, 0, NULL, body);
    free(body);
    rp_queue_entry entry;
    rp_consume_queue *halves = rp_half_queue(fx.broker);
    CHECK(halves != NULL && rp_consume_queue_read(halves, 0, &entry, 1) == 1);
    rp_half_copy copy;
    struct rlimit usual;
    CHECK(getrlimit(RLIMIT_DATA, &usual) == 0);
    struct rlimit none = {.rlim_cur = 4096, .rlim_max = usual.rlim_max}; /* Linux takes 0 for no limit */
    CHECK(setrlimit(RLIMIT_DATA, &none) == 0);
    int status = put_again(&fx, entry.commit_log_offset, &copy);
    CHECK(setrlimit(RLIMIT_DATA, &usual) == 0);
    CHECK(status == RP_E_NO_MEMORY && copy.question == NULL && rp_consume_queue_max_offset(halves) == 1);
    CHECK(put_again(&fx, entry.commit_log_offset, &copy) == RP_OK && rp_consume_queue_max_offset(halves) == 2);
    CHECK(copy.question_size > BODY_SIZE);
    free(copy.question);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return 0; /* their allocators end the process */
#endif
    mallopt(M_ARENA_MAX, 1); /* another one has room that no limit counts */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    RUN(without_memory_for_the_question_nothing_is_stored);
    return 0;
}
