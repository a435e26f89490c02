/* broker_durable_test.c: responses that wait for the disk and for slaves. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/file_ops.h"
#include "broker_fixture.h"

enum {
    SUCCESS = 0,
    SYSTEM_BUSY = 2,
    FLUSH_DISK_TIMEOUT = 10,
    SLAVE_NOT_AVAILABLE = 11,
    FLUSH_SLAVE_TIMEOUT = 12,
    SERVICE_NOT_AVAILABLE = 14
};

static void set_modes(fixture *fx, int32_t flush_mode, int32_t slave_acks) {
    fx->settings.flush_mode = flush_mode;
    fx->settings.slave_acks = slave_acks;
    fx->settings.role = slave_acks > 0;
    rp_broker_set_settings(fx->broker, &fx->settings);
}

static void a_sync_flush_answers_when_the_message_is_on_disk(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.flush_mode = RP_FLUSH_SYNC;
    fx.store_options.flush_interval_ms = 60000; /* only requests flush */
    fx.server_options.reactors = 2;
    fixture_open(&fx);
    set_modes(&fx, RP_FLUSH_SYNC, 0);
    client clients[8];
    rp_command response;
    for (int i = 0; i < 8; i++)
        clients[i] = client_open(&fx, (uint8_t)(i % 2));
    for (int round = 0; round < 50; round++) {
        number_text queue;
        for (int i = 0; i < 8; i++) {
            rp_command request = send_request_v2(&clients[i], RP_CODE_SEND_MESSAGE_V2, "T", i % 4, NULL, text("durable"), &queue);
            client_send(&clients[i], &request);
        }
        for (int i = 0; i < 8; i++) {
            CHECK(client_receive(&clients[i], &response, WAIT_MS) == 1 && response.code == SUCCESS);
            int64_t end = 0;
            rp_queue_entry entry;
            rp_consume_queue *found = rp_message_store_queue(fx.store, text("T"), i % 4, 0, NULL);
            CHECK(rp_consume_queue_read(found, field_number(&response, "queueOffset"), &entry, 1) == 1);
            end = entry.commit_log_offset + entry.size;
            CHECK(rp_commit_log_flushed_offset(rp_message_store_commit_log(fx.store)) >= end);
        }
    }
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.responses_parked_now == 0 && stats.flush_timeouts == 0 && stats.sends == 400);
    for (int i = 0; i < 8; i++)
        client_close(&clients[i]);
    drop_events(&fx);
    fixture_close(&fx);
}

/* A master was deposed and is elected again. Its log now ends before an offset for which it has requested a sync. */
static void what_is_stored_where_a_cut_tail_was_is_synced_when_it_comes(void) {
    fixture fx;
    rp_error error;
    fixture_init(&fx);
    fx.store_options.flush_mode = RP_FLUSH_SYNC;
    fx.store_options.flush_interval_ms = fx.store_options.flush_thorough_interval_ms = 3600000; /* only requests flush */
    fixture_open(&fx);
    set_modes(&fx, RP_FLUSH_SYNC, 0);
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_commit_log_confirm(log, 0);
    for (int round = 0; round < 3; round++) {
        number_text queue;
        for (int i = 3 - round; i > 0; i--) {
            rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("in place of another"), &queue);
            CHECK(client_call(&c, &request).code == SUCCESS);
            CHECK(rp_commit_log_flushed_offset(log) == rp_commit_log_max_offset(log));
        }
        rp_commit_log_set_following(log, 1);
        CHECK(rp_commit_log_cut(log, 0, &error) == RP_OK);
        rp_commit_log_set_following(log, 0);
    }
    client_close(&c);
    fixture_close(&fx);
}

static void without_slaves_a_sync_master_says_so(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    set_modes(&fx, RP_FLUSH_ASYNC, 1);
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        number_text queue;
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
        rp_command response = client_call(&c, &request);
        CHECK(response.code == SLAVE_NOT_AVAILABLE && field_number(&response, "queueOffset") == type); /* stored all the same */
        CHECK(memmem(response.remark.data, response.remark.size, "fewer slaves are connected", 26) != NULL);
        client_close(&c);
    }
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.slaves_missing == 2);
    fixture_close(&fx);
}

static void one_ack_completes_all_sends_below_it(void) {
    fixture fx;
    fixture_init(&fx);
    fx.settings.slave_timeout_ms = 60000;
    fixture_open(&fx);
    set_modes(&fx, RP_FLUSH_ASYNC, 1);
    rp_broker_set_replicated(fx.broker, 0);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    number_text queue;
    rp_command response;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 100; i++) {
            rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
            client_send(&c, &request);
        }
        wait_parked(&fx, 100);
        CHECK(client_receive(&c, &response, 0) == 0);
        rp_broker_set_replicated(fx.broker, rp_commit_log_max_offset(log) - 1);
        for (int i = 0; i < 99; i++)
            CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS && response.opaque == round * 100 + i + 1);
        CHECK(client_receive(&c, &response, 5) == 0);
        rp_broker_set_replicated(fx.broker, rp_commit_log_max_offset(log));
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    }
    /* WAIT=false is answered without the slave. */
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, "WAIT\1false\2", text("x"), &queue);
    CHECK(client_call(&c, &request).code == SUCCESS);
    client_close(&c);
    fixture_close(&fx);
}

static void a_slave_too_far_behind_is_not_waited_for_and_named(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    rp_broker_settings settings;
    rp_broker_settings_default(&settings);
    settings.slave_acks = 1;
    settings.slave_gap_bytes_max = 10;
    rp_broker_set_settings(fx.broker, &settings);
    rp_broker_set_replicated(fx.broker, 0);
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        number_text queue;
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
        rp_command response = client_call(&c, &request);
        CHECK(response.code == SLAVE_NOT_AVAILABLE && field_number(&response, "queueOffset") == type);
        CHECK(memmem(response.remark.data, response.remark.size, "haMaxGapNotInSync", 17) != NULL);
        client_close(&c);
    }
    fixture_close(&fx);
}

static void late_slaves_are_not_waited_for_and_the_message_stays(void) {
    fixture fx;
    fixture_init(&fx);
    fx.settings.slave_timeout_ms = 30;
    fixture_open(&fx);
    set_modes(&fx, RP_FLUSH_ASYNC, 1);
    rp_broker_set_replicated(fx.broker, 0);
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        number_text queue;
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
        int64_t began_ms = now_ms();
        rp_command response = client_call(&c, &request);
        CHECK(response.code == FLUSH_SLAVE_TIMEOUT && field_number(&response, "queueOffset") == type && now_ms() - began_ms >= 29);
        CHECK(memmem(response.remark.data, response.remark.size, "within slaveTimeout", 19) != NULL);
        client_close(&c);
    }
    fixture_close(&fx);
}

static void check_not_master(client *c, int count) {
    rp_command response;
    for (int i = 0; i < count; i++) {
        CHECK(client_receive(c, &response, WAIT_MS) == 1 && response.code == SERVICE_NOT_AVAILABLE);
        CHECK(memmem(response.remark.data, response.remark.size, "the master no more", 18) != NULL);
    }
}

/* No slave will acknowledge these messages any more. Waiting senders must hear so at once, by a code at which clients try another one. */
static void who_is_master_no_more_keeps_nobody_waiting(void) {
    fixture fx;
    fixture_init(&fx);
    fx.settings.slave_timeout_ms = fx.settings.sync_flush_timeout_ms = 3600000;
    fixture_open(&fx);
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        number_text queue;
        for (int way = 0; way < 3; way++) {
            set_modes(&fx, RP_FLUSH_ASYNC, 1);
            rp_broker_set_replicated(fx.broker, 0);
            rp_broker_renew_lease(fx.broker, rp_clock_monotonic_ns(rp_clock_system()) / 1000000 + (way == 2 ? 300 : 3600000));
            for (int i = 0; i < 8; i++) {
                rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
                client_send(&c, &request);
            }
            if (way < 2)
                wait_parked(&fx, 8);
            fx.settings.role = RP_ROLE_SLAVE;
            if (way == 0)
                rp_broker_set_settings(fx.broker, &fx.settings);
            else if (way == 1)
                rp_broker_renew_lease(fx.broker, 0);
            if (way < 2) {
                check_not_master(&c, 8);
                continue;
            }
            rp_command response; /* the lease ends by itself, on a slow machine perhaps before the sends come */
            for (int i = 0; i < 8; i++)
                CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SERVICE_NOT_AVAILABLE);
        }
        rp_broker_renew_lease(fx.broker, -1);
        client_close(&c);
    }
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.responses_parked_now == 0);
    fixture_close(&fx);
}

/* A disk whose syncs hang until it is opened again. */
typedef struct slow_disk {
    pthread_mutex_t gate;
    int fails; /* guarded by gate */
    _Atomic uint32_t writes; /* begun */
    rp_file_ops ops;
} slow_disk;

/* The system's calls, with the disk as their context. */
static void slow_disk_init(slow_disk *disk) {
    *disk = (slow_disk){.gate = PTHREAD_MUTEX_INITIALIZER, .ops = *rp_file_ops_system()};
    CHECK(disk->ops.context == NULL); /* so the disk can be put in its place */
    disk->ops.context = disk;
}

/* A broker under SYNC_FLUSH whose store is on that disk. */
static void fixture_open_on(fixture *fx, const slow_disk *disk, uint32_t flush_timeout_ms) {
    fixture_init(fx);
    fx->settings.sync_flush_timeout_ms = flush_timeout_ms;
    fx->store_options.flush_mode = RP_FLUSH_SYNC;
    fx->store_options.file_ops = &disk->ops;
    fixture_open(fx);
    set_modes(fx, RP_FLUSH_SYNC, 0);
}

static int slow_sync_data(void *context, int fd) {
    slow_disk *disk = context;
    pthread_mutex_lock(&disk->gate);
    pthread_mutex_unlock(&disk->gate);
    return rp_file_ops_system()->sync_data(rp_file_ops_system()->context, fd);
}
static int slow_sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    slow_disk *disk = context;
    pthread_mutex_lock(&disk->gate);
    int fails = disk->fails;
    pthread_mutex_unlock(&disk->gate);
    if (fails) {
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->sync_range(NULL, fd, address, offset, size);
}

static void a_disk_that_does_not_answer_is_reported_and_the_message_stays(void) {
    slow_disk disk;
    slow_disk_init(&disk);
    disk.ops.sync_data = slow_sync_data;
    disk.ops.sync_range = slow_sync_range;
    fixture fx;
    fixture_open_on(&fx, &disk, 30);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
    pthread_mutex_lock(&disk.gate);
    rp_command response = client_call(&c, &request);
    CHECK(response.code == FLUSH_DISK_TIMEOUT && field_number(&response, "queueOffset") == 0);
    pthread_mutex_unlock(&disk.gate);
    fx.settings.sync_flush_timeout_ms = 3600 * 1000; /* a busy machine's disk may need more than it had above */
    rp_broker_set_settings(fx.broker, &fx.settings);
    CHECK(client_call(&c, &request).code == SUCCESS);
    CHECK(rp_consume_queue_max_offset(rp_message_store_queue(fx.store, text("T"), 0, 0, NULL)) == 2);
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.flush_timeouts == 1);
    client_close(&c);
    fixture_close(&fx);
}

/* The flush time-out is far away; whoever waits is answered when the sync fails. */
static void a_failed_sync_answers_everybody_at_once_and_ends_writing(void) {
    slow_disk disk;
    slow_disk_init(&disk);
    disk.ops.sync_range = slow_sync_range;
    fixture fx;
    fixture_open_on(&fx, &disk, 3600 * 1000);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue), response;
    CHECK(client_call(&c, &request).code == SUCCESS);
    pthread_mutex_lock(&disk.gate);
    client_send(&c, &request);
    client_send(&c, &request);
    const rp_consume_queue *entries = rp_message_store_queue(fx.store, text("T"), 0, 0, NULL);
    for (int64_t until = now_ms() + WAIT_MS; rp_consume_queue_max_offset(entries) < 2; sched_yield())
        CHECK(now_ms() < until); /* the first of them waits for the disk then */
    CHECK(client_receive(&c, &response, 20) == 0);
    disk.fails = 1;
    pthread_mutex_unlock(&disk.gate);
    for (int i = 0; i < 2; i++) { /* the second send may have come after the failure */
        CHECK(client_receive(&c, &response, WAIT_MS) == 1);
        CHECK(response.code == FLUSH_DISK_TIMEOUT || (i == 1 && response.code == SERVICE_NOT_AVAILABLE));
    }
    response = client_call(&c, &request);
    CHECK(response.code == SERVICE_NOT_AVAILABLE && slice_contains(response.remark, "sync failed: Input/output error"));
    client_close(&c);
    rp_error error = {0};
    CHECK(fixture_close_anyway(&fx, &error) == RP_E_IO); /* the next start has to recover */
}

/* A disk whose writes hang: the append that writes holds the commit log meanwhile. The preallocation's zeros pass. */
static int64_t hanging_write_at(void *context, int fd, const void *source, size_t size, int64_t offset) {
    slow_disk *disk = context;
    if (memcmp(source, "\0\0\0\0", 4) != 0 || memcmp((const uint8_t *)source + 4, "\0\0\0\0", 4) != 0) {
        atomic_fetch_add(&disk->writes, 1);
        pthread_mutex_lock(&disk->gate);
        pthread_mutex_unlock(&disk->gate);
    }
    return rp_file_ops_system()->write_at(NULL, fd, source, size, offset);
}

static int a_write_has_begun(void *context) {
    slow_disk *disk = context;
    return atomic_load(&disk->writes) > 0;
}

/* One append hangs in the disk while another send comes, again and again until the answer says `words`. busy_ms: from when on an append
 * counts as stuck. */
static void answer_beside_a_hanging_append(uint32_t busy_ms, const char *words) {
    slow_disk disk;
    slow_disk_init(&disk);
    disk.ops.write_at = hanging_write_at;
    fixture fx;
    fixture_init(&fx);
    fx.server_options.reactors = 2;
    fx.store_options.flush_mode = RP_FLUSH_SYNC;
    fx.store_options.file_ops = &disk.ops;
    fixture_open(&fx);
    client clients[2] = {client_open(&fx, RP_SERIALIZE_JSON), client_open(&fx, RP_SERIALIZE_JSON)};
    number_text queues[2];
    rp_command requests[2], response;
    for (int i = 0; i < 2; i++) { /* one on each reactor */
        requests[i] = send_request_v2(&clients[i], RP_CODE_SEND_MESSAGE_V2, "T", i, NULL, text("x"), &queues[i]);
        CHECK(client_call(&clients[i], &requests[i]).code == SUCCESS);
    }
    pthread_mutex_lock(&disk.gate);
    atomic_store(&disk.writes, 0);
    client_send(&clients[0], &requests[0]);
    wait_until(a_write_has_begun, &disk);
    rp_message_store_set_append_timing(fx.store, busy_ms, 200);
    int64_t end_ms = now_ms() + WAIT_MS;
    do {
        response = client_call(&clients[1], &requests[1]);
        CHECK(response.code == SYSTEM_BUSY && now_ms() < end_ms);
        CHECK(slice_contains(response.remark, "slow stage"));
    } while (!slice_contains(response.remark, words));
    rp_message_store_set_append_timing(fx.store, fx.store_options.append_busy_timeout_ms, fx.store_options.append_wait_timeout_ms);
    pthread_mutex_unlock(&disk.gate);
    CHECK(client_receive(&clients[0], &response, WAIT_MS) == 1 && response.code == SUCCESS);
    CHECK(client_call(&clients[1], &requests[1]).code == SUCCESS);
    client_close(&clients[0]);
    client_close(&clients[1]);
    fixture_close(&fx);
}

static void a_send_waits_for_a_slow_append_and_names_it_when_it_has_waited_enough(void) {
    answer_beside_a_hanging_append(3600 * 1000, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while");
}

static void a_stuck_append_keeps_no_other_send_waiting_and_is_named(void) {
    answer_beside_a_hanging_append(500, "[REJECTREQUEST]system busy, start flow control for a while; slow stage: an append has held");
}

int main(void) {
    RUN(a_sync_flush_answers_when_the_message_is_on_disk);
    RUN(what_is_stored_where_a_cut_tail_was_is_synced_when_it_comes);
    RUN(without_slaves_a_sync_master_says_so);
    RUN(one_ack_completes_all_sends_below_it);
    RUN(a_slave_too_far_behind_is_not_waited_for_and_named);
    RUN(late_slaves_are_not_waited_for_and_the_message_stays);
    RUN(who_is_master_no_more_keeps_nobody_waiting);
    RUN(a_disk_that_does_not_answer_is_reported_and_the_message_stays);
    RUN(a_failed_sync_answers_everybody_at_once_and_ends_writing);
    RUN(a_send_waits_for_a_slow_append_and_names_it_when_it_has_waited_enough);
    RUN(a_stuck_append_keeps_no_other_send_waiting_and_is_named);
    return 0;
}
