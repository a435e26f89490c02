/* broker_cold_reads_test.c: pulls of messages that are no longer in memory, over a disk whose reads the test releases. */
#include "../../../csrc/store/consume_queue_inl.h"
#include "cold_disk.h"

static void senders_do_not_wait_for_a_pull_that_waits_for_the_disk(void) {
    fixture fx;
    cold_disk disk;
    open_over(&fx, &disk);
    client sender = client_open(&fx, 0), consumer = client_open(&fx, 1);
    for (int i = 0; i < 10; i++)
        CHECK(send_message(&sender, "T", 0, "", "on disk") == i);
    hold_reads(&disk, 1);
    pull_request request = pull_of(0, 0);
    int32_t opaque = client_send_pull(&consumer, &request);
    CHECK(wait_for_reads(&disk, 1) == 1);
    CHECK(send_message(&sender, "T", 0, "", "beside it") == 10); /* the same reactor answers, and wakes the waiting pull in vain */
    hold_reads(&disk, 0);
    rp_command response;
    CHECK(client_receive(&consumer, &response, WAIT_MS) == 1);
    CHECK(response.opaque == opaque && response.code == 0 && field_number(&response, "nextBeginOffset") == 11);
    CHECK(wait_for_reads(&disk, 0) == 1);
    CHECK(client_pull(&consumer, &request).code == 0); /* the lane has seen its region in memory */
    CHECK(wait_for_reads(&disk, 0) == 1);
    client_close(&sender);
    client_close(&consumer);
    fixture_close(&fx);
}

static void what_the_reader_cannot_bring_in_is_answered_all_the_same(void) {
    for (int entries_too = 0; entries_too < 2; entries_too++) {
        fixture fx;
        cold_disk disk;
        prepare_over(&fx, &disk);
        disk.reads_in = 0;
        fx.broker_options.cold_wait_ms = 100;
        fx.broker_options.cold_after_entries = entries_too ? 0 : 8192;
        fixture_open(&fx);
        client c = client_open(&fx, 0);
        CHECK(send_message(&c, "T", 0, "", "on disk") == 0);
        pull_request request = pull_of(0, 0);
        rp_command response = client_pull(&c, &request);
        CHECK(response.code == 0 && field_number(&response, "nextBeginOffset") == 1);
        CHECK(wait_for_reads(&disk, 1) == 1); /* the pull has given up waiting for that read */
        client_close(&c);
        fixture_close(&fx);
    }
}

static void entries_of_the_next_window_are_read_with_those_before_them(void) {
    enum { MESSAGES = 4200, FIRST = 4080, FILES = 5 /* of the queue, 1000 entries each */ };
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.by_page = 1;
    fx.broker_options.cold_after_entries = 0;
    fixture_open(&fx);
    client c = client_open(&fx, 0);
    append_small_messages(&fx, MESSAGES - 1);
    CHECK(send_message(&c, "T", 0, "", "small") == MESSAGES - 1);
    pull_request request = pull_of(0, FIRST);
    rp_command response = client_pull(&c, &request);
    CHECK(response.code == 0 && field_number(&response, "nextBeginOffset") == FIRST + 32);
    CHECK(wait_for_reads(&disk, 0) == FILES + 1 && disk.there[FILES - 1].end - disk.there[FILES - 1].begin == MESSAGES % 1000 * 20);
    client_close(&c);
    fixture_close(&fx);
}

static void a_queues_entries_are_waited_for_before_its_messages(void) {
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.by_page = 1;
    fx.broker_options.cold_after_entries = 0; /* the whole queue may be cold */
    fixture_open(&fx);
    client sender = client_open(&fx, 0), consumer = client_open(&fx, 1);
    for (int i = 0; i < 10; i++)
        CHECK(send_message(&sender, "T", 0, "", "on disk") == i);
    hold_reads(&disk, 1);
    pull_request request = pull_of(0, 0);
    int32_t opaque = client_send_pull(&consumer, &request);
    CHECK(wait_for_reads(&disk, 1) == 1 && disk.largest == 10 * 20);
    CHECK(send_message(&sender, "T", 1, "", "beside it") == 0); /* answered by the same reactor */
    hold_reads(&disk, 0);
    rp_command response;
    CHECK(client_receive(&consumer, &response, WAIT_MS) == 1);
    CHECK(response.opaque == opaque && response.code == 0 && field_number(&response, "nextBeginOffset") == 10);
    CHECK(wait_for_reads(&disk, 2) == 2 && disk.largest > 10 * 20);
    CHECK(client_pull(&consumer, &request).code == 0); /* the lane has seen both regions in memory */
    CHECK(wait_for_reads(&disk, 0) == 2);
    client_close(&sender);
    client_close(&consumer);
    fixture_close(&fx);
}

/* The kernel would read ahead for the reactor that touches the next file's first page, and go on doing so. */
static void where_the_log_goes_on_in_another_file_its_messages_are_waited_for_too(void) {
    enum { BODY = 10000, MESSAGES = 8, FIRST_FILE = 6 };
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.by_page = 1;
    fx.store_options.commit_log_file_size = 64 << 10;
    fixture_open(&fx);
    client c = client_open(&fx, 0);
    char body[BODY + 1];
    memset(body, 'b', BODY);
    body[BODY] = 0;
    for (int i = 0; i < MESSAGES; i++)
        CHECK(send_message(&c, "T", 0, "", body) == i);
    pull_request request = pull_of(0, 0);
    rp_command response = client_pull(&c, &request);
    CHECK(response.code == 0 && field_number(&response, "nextBeginOffset") == FIRST_FILE);
    CHECK(wait_for_reads(&disk, 0) == 2); /* of one region: a read a file */
    request = pull_of(0, FIRST_FILE);
    response = client_pull(&c, &request);
    CHECK(response.code == 0 && field_number(&response, "nextBeginOffset") == MESSAGES);
    CHECK(wait_for_reads(&disk, 0) == 2);
    client_close(&c);
    fixture_close(&fx);
}

static void messages_strewn_over_the_log_are_read_without_what_lies_between(void) {
    enum { BODY = 3 << 20 };
    fixture fx;
    cold_disk disk;
    open_over(&fx, &disk);
    client c = client_open(&fx, 0);
    char *body = malloc(BODY + 1);
    CHECK(body != NULL);
    memset(body, 'b', BODY);
    body[BODY] = 0;
    for (int i = 0; i < 3; i++) {
        CHECK(send_message(&c, "T", 0, "", "thin") == i);
        send_message(&c, "T", 1, "", body);
    }
    free(body);
    pull_request request = pull_of(0, 0);
    rp_command response = client_pull(&c, &request);
    CHECK(response.code == 0 && field_number(&response, "nextBeginOffset") == 3);
    CHECK(wait_for_reads(&disk, 1) >= 1 && disk.largest < 4096);
    client_close(&c);
    fixture_close(&fx);
}

static void messages_strewn_over_the_log_cost_a_look_a_region(void) {
    enum { BODY = 512 << 10, MESSAGES = 24, REGIONS = MESSAGES * BODY / (4 << 20) + 1 };
    fixture fx;
    cold_disk disk;
    open_over(&fx, &disk);
    disk.in_memory = 1;
    client c = client_open(&fx, 0);
    char *body = malloc(BODY + 1);
    CHECK(body != NULL);
    memset(body, 'b', BODY);
    body[BODY] = 0;
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(send_message(&c, "T", 0, "", "thin") == i);
        send_message(&c, "T", 1, "", body);
    }
    free(body);
    disk.looks = 0;
    pull_request request = pull_of(0, 0);
    rp_command response = client_pull(&c, &request);
    CHECK(response.code == 0 && field_number(&response, "nextBeginOffset") == MESSAGES);
    CHECK(disk.looks > 0 && disk.looks <= REGIONS + 1); /* one message may lie across the end of its region */
    client_close(&c);
    fixture_close(&fx);
}

static rp_command search_of(client *c, const char *queue, const char *timestamp, const char *boundary) {
    rp_command request = request_of(c, RP_CODE_SEARCH_OFFSET_BY_TIMESTAMP);
    with_text(&request, "topic", "T");
    with_text(&request, "queueId", queue);
    with_text(&request, "timestamp", timestamp);
    if (boundary != NULL)
        with_text(&request, "boundaryType", boundary);
    return request;
}

static int64_t searched(client *c, const char *timestamp, const char *boundary) {
    rp_command request = search_of(c, "0", timestamp, boundary), response = client_call(c, &request);
    CHECK(response.code == 0);
    return field_number(&response, "offset");
}

static void a_search_by_time_is_answered_from_memory_and_python_waits_for_the_disk(void) {
    fixture fx;
    cold_disk disk;
    open_over(&fx, &disk);
    disk.in_memory = 1;
    client c = client_open(&fx, 0);
    for (int i = 0; i < 3; i++)
        CHECK(send_message(&c, "T", 0, "", "searched for") == i);
    CHECK(searched(&c, "0", NULL) == 0 && searched(&c, "0", "lower") == 0 && searched(&c, "0", "upper") == 0);
    CHECK(searched(&c, "9223372036854775807", NULL) == 3 && searched(&c, "9223372036854775807", "upper") == 2);
    CHECK(searched(&c, "9223372036854775807", "LOWER") == 3 && searched(&c, "9223372036854775807", "UPPER") == 2); /* as Java says it */
    CHECK(searched(&c, "9223372036854775807", "") == 3 && searched(&c, "9223372036854775807", "supper") == 3);
    rp_command lite = search_of(&c, "0", "0", NULL);
    with_text(&lite, "liteTopic", "L");
    const rp_command others[] = {search_of(&c, "77", "0", NULL), search_of(&c, "0", "soon", NULL), lite};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        client_send(&c, &others[i]);
        CHECK(was_punted(&fx, RP_CODE_SEARCH_OFFSET_BY_TIMESTAMP));
    }
    disk.in_memory = 0;
    rp_command cold = search_of(&c, "0", "0", NULL);
    client_send(&c, &cold);
    CHECK(was_punted(&fx, RP_CODE_SEARCH_OFFSET_BY_TIMESTAMP));
    client_close(&c);
    fixture_close(&fx);
}

/* RocketMQ's bound for messages on the disk is 8 a pull (maxTransferCountOnMessageInDisk). It tells by their distance from the log's
 * end. */
static void far_behind_a_pull_gets_few_messages_only_until_they_are_known_to_be_in_memory(void) {
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    fx.settings.slave_read_enable = 1;
    fx.broker_options.memory_bytes = 0; /* by its distance from the end, no part of the log counts as in memory */
    fixture_open(&fx);
    disk.in_memory = 1;
    client c = client_open(&fx, 0);
    for (int i = 0; i < 20; i++)
        CHECK(send_message(&c, "T", 0, "", "far behind") == i);
    pull_request request = pull_of(0, 0);
    rp_command response = client_pull(&c, &request);
    CHECK(field_number(&response, "nextBeginOffset") == 8 && field_number(&response, "suggestWhichBrokerId") == 1);
    response = client_pull(&c, &request);
    CHECK(field_number(&response, "nextBeginOffset") == 20 && field_number(&response, "suggestWhichBrokerId") == 1);
    client_close(&c);
    fixture_close(&fx);
}

static pull_request sql_of(int64_t offset, const char *expression) {
    pull_request request = pull_of(0, offset);
    request.expression_type = "SQL92";
    request.subscription = expression;
    return request;
}

/* Pulls again for as long as the filter's time ran out before it found a message; on a slow machine that may be after each message.
 * Returns the answer with messages; *offset: where to go on. */
static rp_command pull_on(client *c, const char *expression, rp_command response, int64_t *offset) {
    *offset = field_number(&response, "nextBeginOffset");
    while (response.code == 20) {
        pull_request request = sql_of(*offset, expression);
        response = client_pull(c, &request);
        CHECK(field_number(&response, "nextBeginOffset") > *offset);
        *offset = field_number(&response, "nextBeginOffset");
    }
    return response;
}

static void senders_do_not_wait_for_a_filter_that_waits_for_the_disk(void) {
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    fx.settings.property_filter_enable = 1;
    fixture_open(&fx);
    client sender = client_open(&fx, 0), consumer = client_open(&fx, 1);
    for (int i = 0; i < 10; i++)
        CHECK(send_message(&sender, "T", 0, i == 7 ? "price\0011\2" : "price\0012\2", "on disk") == i);
    hold_reads(&disk, 1);
    pull_request request = sql_of(0, "price = 1");
    int32_t opaque = client_send_pull(&consumer, &request);
    CHECK(wait_for_reads(&disk, 1) == 1);
    CHECK(send_message(&sender, "T", 1, "", "beside it") == 0); /* answered by the same reactor */
    hold_reads(&disk, 0);
    rp_command response;
    CHECK(client_receive(&consumer, &response, WAIT_MS) == 1);
    int64_t offset;
    CHECK(response.opaque == opaque && pull_on(&consumer, "price = 1", response, &offset).code == 0);
    CHECK(offset > 7 && offset <= 10);
    CHECK(wait_for_reads(&disk, 0) == 1);
    client_close(&sender);
    client_close(&consumer);
    fixture_close(&fx);
}

/* A filter can skip the messages of a region only after that region has been read in. */
static void a_filter_goes_through_a_cold_log_region_by_region(void) {
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.by_page = 1;
    fx.settings.property_filter_enable = 1;
    fixture_open(&fx);
    client c = client_open(&fx, 0);
    send_large_messages(&c);
    pull_request request = sql_of(0, "price = 1");
    int64_t offset;
    rp_command response = pull_on(&c, "price = 1", client_pull(&c, &request), &offset);
    CHECK(response.code == 0 && offset == LARGE_MESSAGES);
    CHECK(response.body.size > LARGE_BODY && response.body.size < 2 * LARGE_BODY);
    CHECK(wait_for_reads(&disk, 0) >= LARGE_REGIONS);
    client_close(&c);
    fixture_close(&fx);
}

/* The reader thread cannot read. The reactor reads a few messages itself, and the rest in later turns. */
static void a_filter_makes_the_reactor_read_a_few_messages_at_most(void) {
    enum { MESSAGES = 100, LOOKS = 32 };
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.reads_in = 0;
    fx.broker_options.cold_wait_ms = 50;
    fx.settings.property_filter_enable = 1;
    fixture_open(&fx);
    client c = client_open(&fx, 0);
    for (int i = 0; i < MESSAGES; i++)
        CHECK(send_message(&c, "T", 0, "", "on disk") == i);
    pull_request request = sql_of(0, "price = 1");
    rp_command response = client_pull(&c, &request);
    int64_t next = field_number(&response, "nextBeginOffset");
    CHECK(response.code == 20 && next > 0 && next <= LOOKS); /* fewer when the filter's time is over first */
    client_close(&c);
    fixture_close(&fx);
}

/* One filter looks at many windows of entries. Each window is requested from the disk when the filter gets there. */
static void a_filter_asks_for_each_window_of_entries(void) {
    enum { MESSAGES = 9000 };
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.by_page = 1;
    fx.broker_options.cold_after_entries = 0;
    fx.broker_options.cold_wait_ms = 10 * WAIT_MS; /* no test may pass just because this time is over */
    fx.settings.property_filter_enable = 1;
    fixture_open(&fx);
    client c = client_open(&fx, 0);
    append_small_messages(&fx, MESSAGES - 1);
    CHECK(send_message(&c, "T", 0, "price\0011\2", "small") == MESSAGES - 1);
    pull_request request = sql_of(0, "price = 1");
    int64_t offset;
    CHECK(pull_on(&c, "price = 1", client_pull(&c, &request), &offset).code == 0 && offset == MESSAGES);
    client_close(&c);
    fixture_close(&fx);
}

/* A filter checks a record's place before it reads it. Sums with a damaged entry's numbers would overflow, which the sanitizer reports. */
static void a_filter_does_not_look_for_the_records_of_damaged_entries(void) {
    static const int64_t offsets[] = {INT64_MIN, INT64_MAX, INT64_MAX - 50};
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    fx.settings.property_filter_enable = 1;
    fixture_open(&fx);
    client c = client_open(&fx, 0);
    rp_error error = {0};
    rp_consume_queue *queue = rp_message_store_queue(fx.store, text("T"), 0, 1, &error);
    for (int64_t i = 0; i < 3; i++) {
        rp_mapped_file *file;
        CHECK(send_message(&c, "T", 0, "price\0011\2", "lost") == i);
        uint8_t *entry = (uint8_t *)(uintptr_t)rp_consume_queue_pin_entry(queue, i, &file, &error);
        CHECK(entry != NULL);
        rp_put_u64(entry, (uint64_t)offsets[i]);
        rp_mapped_file_release(file);
    }
    CHECK(send_message(&c, "T", 0, "price\0011\2", "kept") == 3);
    pull_request request = sql_of(0, "price = 1");
    int64_t offset;
    rp_command response = pull_on(&c, "price = 1", client_pull(&c, &request), &offset);
    CHECK(response.code == 0 && slice_contains(response.body, "kept") && offset == 4);
    CHECK(wait_for_reads(&disk, 0) == 1);
    client_close(&c);
    fixture_close(&fx);
}

static void a_broker_closes_while_pulls_wait_for_the_disk(void) {
    fixture fx;
    cold_disk disk;
    open_over(&fx, &disk);
    client c = client_open(&fx, 0);
    for (int32_t queue = 0; queue < 4; queue++)
        CHECK(send_message(&c, "T", queue, "", "on disk") == 0);
    hold_reads(&disk, 1);
    for (int32_t queue = 0; queue < 4; queue++) {
        pull_request request = pull_of(queue, 0);
        client_send_pull(&c, &request);
    }
    CHECK(wait_for_reads(&disk, 1) == 1);
    client_close(&c);
    hold_reads(&disk, 0);
    fixture_close(&fx);
}

int main(void) {
    RUN(senders_do_not_wait_for_a_pull_that_waits_for_the_disk);
    RUN(what_the_reader_cannot_bring_in_is_answered_all_the_same);
    RUN(a_queues_entries_are_waited_for_before_its_messages);
    RUN(where_the_log_goes_on_in_another_file_its_messages_are_waited_for_too);
    RUN(entries_of_the_next_window_are_read_with_those_before_them);
    RUN(messages_strewn_over_the_log_are_read_without_what_lies_between);
    RUN(messages_strewn_over_the_log_cost_a_look_a_region);
    RUN(a_search_by_time_is_answered_from_memory_and_python_waits_for_the_disk);
    RUN(far_behind_a_pull_gets_few_messages_only_until_they_are_known_to_be_in_memory);
    RUN(senders_do_not_wait_for_a_filter_that_waits_for_the_disk);
    RUN(a_filter_goes_through_a_cold_log_region_by_region);
    RUN(a_filter_makes_the_reactor_read_a_few_messages_at_most);
    RUN(a_filter_asks_for_each_window_of_entries);
    RUN(a_filter_does_not_look_for_the_records_of_damaged_entries);
    RUN(a_broker_closes_while_pulls_wait_for_the_disk);
    return 0;
}
