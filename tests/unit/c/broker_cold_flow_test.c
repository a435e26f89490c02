/* broker_cold_flow_test.c: flow control for groups that read much from the disk: which groups are held, for how long, and which are not. */
#include "broker/cold_flow.h"
#include "cold_disk.h"

#define LONG_WINDOW_MS 3600000

/* A log of which nothing is in memory, whatever is read. */
static client open_cold(fixture *fx, cold_disk *disk, uint32_t window_ms) {
    prepare_over(fx, disk);
    disk->by_page = 1;
    fx->broker_options.cold_window_ms = window_ms;
    fx->settings.cold_flow_enable = 1;
    fx->settings.cold_group_bytes = 1;
    fixture_open(fx);
    client c = client_open(fx, 0);
    for (int i = 0; i < 4; i++)
        CHECK(send_message(&c, "T", i % 2, "", "on disk") == i / 2);
    return c;
}

static void close_cold(fixture *fx, client *c) {
    client_close(c);
    fixture_close(fx);
}

static int64_t bytes_of(const fixture *fx, const char *group) {
    int64_t bytes, first_ms, last_ms;
    int status = rp_broker_read_cold_use(fx->broker, text(group), &bytes, &first_ms, &last_ms);
    CHECK(status == RP_E_NOT_FOUND || (status == RP_OK && first_ms > 0 && first_ms <= last_ms));
    return status == RP_OK ? bytes : -1;
}

static int is_suspended(void *context) {
    rp_broker_stats stats;
    rp_broker_read_stats(((const fixture *)context)->broker, &stats);
    return stats.pulls_suspended_now == 1;
}

static void what_was_read_counts_and_who_has_had_enough_gets_no_more(void) {
    enum { BODY = 3 << 20, REGION = 4 << 20 };
    fixture fx;
    cold_disk disk;
    client c = open_cold(&fx, &disk, LONG_WINDOW_MS), other = client_open(&fx, 1);
    CHECK(rp_broker_put_group(fx.broker, text("O"), 1, 1, 0, 1, 0) == RP_OK);
    char *body = malloc(BODY + 1);
    CHECK(body != NULL);
    memset(body, 'b', BODY);
    body[BODY] = 0;
    for (int i = 0; i < 2; i++)
        send_message(&c, "T", 3, "", body);
    free(body);
    CHECK(send_message(&c, "T", 0, "", "in the next region") == 2);
    CHECK(bytes_of(&fx, "G") == -1 && bytes_of(&fx, "") == -1);
    pull_request request = pull_of(0, 0), next = pull_of(0, 2);
    request.max_messages = 1;
    CHECK(client_pull(&c, &request).code == 0);
    CHECK(bytes_of(&fx, "G") == REGION && bytes_of(&fx, "") == REGION && bytes_of(&fx, "O") == -1);
    CHECK(client_pull(&c, &next).code == 2);
    CHECK(client_pull(&c, &request).code == 0); /* memory has it */
    next.group = "O";
    CHECK(client_pull(&other, &next).code == 0 && bytes_of(&fx, "O") > 0);
    client_close(&other);
    close_cold(&fx, &c);
}

static void a_pull_that_may_not_be_held_is_told_that_the_broker_is_busy(void) {
    fixture fx;
    cold_disk disk;
    client c = open_cold(&fx, &disk, LONG_WINDOW_MS);
    CHECK(rp_broker_set_cold_limit(fx.broker, text("G"), 0) == RP_OK); /* nothing from the disk */
    pull_request request = pull_of(0, 0);
    rp_command response = client_pull(&c, &request);
    CHECK(response.code == 2 && slice_is(response.remark, "This consumer group is reading cold data. It has been flow control"));
    CHECK(wait_for_reads(&disk, 0) == 0);
    CHECK(rp_broker_set_cold_limit(fx.broker, text("G"), -1) == RP_OK);
    CHECK(client_pull(&c, &request).code == 0 && bytes_of(&fx, "G") > 0);
    CHECK(rp_broker_set_cold_limit(fx.broker, text(""), 1) == RP_E_INVALID);
    close_cold(&fx, &c);
}

static void one_that_may_is_held_until_the_window_is_over_and_then_comes_again(void) {
    fixture fx;
    cold_disk disk;
    client c = open_cold(&fx, &disk, 400);
    CHECK(rp_broker_set_cold_limit(fx.broker, text("G"), 0) == RP_OK);
    pull_request request = pull_of(0, 1);
    request.sys_flag = RP_PULL_SUSPEND | RP_PULL_SUBSCRIPTION;
    request.suspend_ms = WAIT_MS;
    rp_command response = client_pull(&c, &request);
    CHECK(response.code == 20 && field_number(&response, "nextBeginOffset") == 1); /* PULL_RETRY_IMMEDIATELY, at the same offset */
    CHECK(wait_for_reads(&disk, 0) == 0);
    close_cold(&fx, &c);
}

static void what_comes_into_memory_meanwhile_ends_the_wait(void) {
    fixture fx;
    cold_disk disk;
    client c = open_cold(&fx, &disk, LONG_WINDOW_MS), other = client_open(&fx, 1);
    CHECK(rp_broker_put_group(fx.broker, text("O"), 1, 1, 0, 1, 0) == RP_OK);
    CHECK(rp_broker_set_cold_limit(fx.broker, text("G"), 0) == RP_OK);
    pull_request request = pull_of(0, 0), others = pull_of(0, 0);
    request.sys_flag = RP_PULL_SUSPEND | RP_PULL_SUBSCRIPTION;
    request.suspend_ms = WAIT_MS;
    others.group = "O";
    int32_t opaque = client_send_pull(&c, &request);
    wait_until(is_suspended, &fx);
    CHECK(client_pull(&other, &others).code == 0); /* another group has the message read from the disk */
    keep_all_in_memory(&disk); /* or the new message counts as on disk, once the lane has forgotten its look, a second later */
    rp_command response;
    CHECK(send_message(&other, "T", 0, "", "and wakes it") == 2);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.opaque == opaque && response.code == 0);
    CHECK(bytes_of(&fx, "G") == -1 && bytes_of(&fx, "O") > 0);
    client_close(&other);
    close_cold(&fx, &c);
}

static int32_t pull_with_no_bytes_left(const char *group, int32_t enable) {
    fixture fx;
    cold_disk disk;
    client c = open_cold(&fx, &disk, LONG_WINDOW_MS);
    fx.settings.cold_group_bytes = 1 << 30;
    fx.settings.cold_all_bytes = 0;
    fx.settings.cold_flow_enable = enable;
    rp_broker_set_settings(fx.broker, &fx.settings);
    CHECK(rp_broker_put_group(fx.broker, text(group), 1, 1, 0, 1, 0) == RP_OK);
    pull_request request = pull_of(0, 0);
    request.group = group;
    int32_t code = client_pull(&c, &request).code;
    close_cold(&fx, &c);
    return code;
}

static void all_groups_together_have_a_limit_and_the_systems_own_have_none(void) {
    CHECK(pull_with_no_bytes_left("G", 1) == 2);
    CHECK(pull_with_no_bytes_left("CID_RMQ_SYS_TRANS", 1) == 0);
    CHECK(pull_with_no_bytes_left("TOOLS_CONSUMER", 1) == 0);
    CHECK(pull_with_no_bytes_left("G", 0) == 0);
}

int main(void) {
    RUN(what_was_read_counts_and_who_has_had_enough_gets_no_more);
    RUN(a_pull_that_may_not_be_held_is_told_that_the_broker_is_busy);
    RUN(one_that_may_is_held_until_the_window_is_over_and_then_comes_again);
    RUN(what_comes_into_memory_meanwhile_ends_the_wait);
    RUN(all_groups_together_have_a_limit_and_the_systems_own_have_none);
    return 0;
}
