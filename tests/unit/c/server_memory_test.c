/* server_memory_test.c: requests for Python and the bound on all connections' memory: they are refused beyond it, and taken below it. */
#include "../../../csrc/remoting/reactor.h"
#include "server_harness.h"

static void a_frame_that_is_accepted_can_be_taken_by_python(void) {
    rp_server_options options = small_options();
    options.memory_bytes_max = options.frame_size_max = 1 << 20;
    struct harness *harness = harness_start(&options);
    static uint8_t body[900 * 1024];
    int first = dial(harness), second = dial(harness);
    send_request(first, RP_SERIALIZE_JSON, CODE_PYTHON, 1, "x", (rp_slice){body, sizeof body});
    rp_request *taken = take_kind(harness, RP_REQUEST_COMMAND);
    CHECK(taken->command.body.size == sizeof body);
    send_request(second, RP_SERIALIZE_JSON, CODE_PYTHON, 2, "x", (rp_slice){body, sizeof body});
    expect_response(second, 2, 2, NULL); /* the bound of all of them */
    rp_request_free(taken);
    send_request(second, RP_SERIALIZE_JSON, CODE_PYTHON, 3, "x", (rp_slice){body, sizeof body});
    rp_request_free(take_kind(harness, RP_REQUEST_COMMAND));
    close(first);
    close(second);
    harness_stop(harness);
}

static void requests_beyond_the_bound_are_counted_before_they_are_copied(void) {
    rp_server_options options = small_options();
    struct harness *harness = harness_start(&options);
    rp_request_queue *queue = &harness->server->requests;
    uint64_t held = atomic_load(&queue->bytes);
    CHECK(rp_request_queue_reserve(queue, 10, held + 16));
    CHECK(!rp_request_queue_reserve(queue, 10, held + 16)); /* of another reactor, before the first has copied its own */
    CHECK(rp_request_queue_reserve(queue, 6, held + 16));
    rp_request_queue_release(queue, 10);
    CHECK(rp_request_queue_reserve(queue, 10, held + 16));
    rp_request_queue_release(queue, 16);
    CHECK(atomic_load(&queue->bytes_reserved) == 0);
    harness_stop(harness);
}

int main(void) {
    RUN(a_frame_that_is_accepted_can_be_taken_by_python);
    RUN(requests_beyond_the_bound_are_counted_before_they_are_copied);
    return 0;
}
