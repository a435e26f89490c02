/* reader.c: pulls every queue of a connection, one request for each, and checks what arrives.
 *
 * Each record is checked for: layout, CRC, topic, queue, a queue offset one above the last, the body, its place in the ledger.
 * RocketMQ: PullMessageRequestHeader, PullSysFlag (5.3.3 remoting/, common/).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "worker.h"

#define PULL_SUSPEND 2           /* PullSysFlag */
#define PULL_SUBSCRIPTION 4
#define REFUSALS_MAX 100
#define REFUSED_WAIT_NS (100 * RP_NS_PER_MS)
/* Pause after "nothing found" from a broker that answers at once, though it was asked to hold the pull */
#define EMPTY_WAIT_NS (5 * RP_NS_PER_MS)

static void pass_end(rp_load *load, rp_load_reading *reading) {
    if (atomic_load_explicit(&reading->next_offset, memory_order_relaxed) < reading->end_offset)
        return;
    reading->pass++;
    if (!load->options.repeat || reading->start_offset >= reading->end_offset) {
        reading->finished = 1;
    } else {
        atomic_store_explicit(&reading->next_offset, reading->start_offset, memory_order_relaxed);
    }
}

/* Returns 0 if the output has no room at present. */
static int send_pull(rp_load_connection *connection, rp_load_slot *slot) {
    const rp_load *load = connection->worker->load;
    const rp_load_options *options = &load->options;
    char queue[16], offset[24], batch[16], flag[16], suspend[16];
    int64_t next = atomic_load_explicit(&load->readings[slot->queue].next_offset, memory_order_relaxed);
    snprintf(queue, sizeof queue, "%u", slot->queue);
    snprintf(offset, sizeof offset, "%lld", (long long)next);
    snprintf(batch, sizeof batch, "%u", options->pull_batch);
    snprintf(flag, sizeof flag, "%d", PULL_SUSPEND | PULL_SUBSCRIPTION);
    snprintf(suspend, sizeof suspend, "%u", options->suspend_ms);
    const rp_load_field fields[] = {{"consumerGroup", options->consumer_group},
                                    {"topic", options->topic},
                                    {"queueId", queue},
                                    {"queueOffset", offset},
                                    {"maxMsgNums", batch},
                                    {"sysFlag", flag},
                                    {"commitOffset", "0"},
                                    {"suspendTimeoutMillis", suspend},
                                    {"subscription", "*"},
                                    {"subVersion", "0"},
                                    {"expressionType", "TAG"}};
    uint32_t room = 1024 + (uint32_t)strlen(options->consumer_group) + (uint32_t)strlen(options->topic);
    uint8_t *target = rp_load_connection_room(connection, room);
    if (target == NULL)
        return 0;
    rp_load_connection_arm_slot(connection, slot);
    int64_t size = rp_load_encode_request(target, room, options->serialize_type, RP_REQUEST_PULL, slot->opaque, fields,
                                          sizeof fields / sizeof *fields, 0);
    if (size < 0) { /* cannot happen: open bounds the names */
        slot->opaque = 0;
        return 0;
    }
    connection->output_end += (uint32_t)size;
    slot->sent_ns = connection->worker->now_ns;
    slot->intended_ns = slot->not_before_ns != 0 ? slot->not_before_ns : slot->sent_ns;
    slot->not_before_ns = 0;
    return 1;
}

void rp_load_reader_fill(rp_load_connection *connection) {
    rp_load_worker *worker = connection->worker;
    rp_load *load = worker->load;
    if (worker->readers_finished)
        return;
    for (uint32_t i = 0; i < connection->slot_count; i++) {
        rp_load_slot *slot = &connection->slots[i];
        if (slot->opaque != 0 || slot->not_before_ns > worker->now_ns)
            continue;
        rp_load_reading *reading = &load->readings[slot->queue];
        if (!reading->finished)
            pass_end(load, reading);
        if (reading->finished)
            continue;
        if (!send_pull(connection, slot))
            return;
    }
}

static void check_order(rp_load_worker *worker, rp_load_reading *reading, const rp_payload_head *head, const rp_load_record *record) {
    if (head->producer >= RP_LEDGER_PRODUCERS_MAX)
        return;
    if (head->producer >= reading->last_sequence_count) {
        uint32_t count = head->producer + 64;
        uint64_t *larger = realloc(reading->last_sequences, count * sizeof *larger);
        if (larger == NULL) {
            worker->unverified++;
            return;
        }
        memset(larger + reading->last_sequence_count, 0, (count - reading->last_sequence_count) * sizeof *larger);
        reading->last_sequences = larger;
        reading->last_sequence_count = count;
    }
    uint64_t *last = &reading->last_sequences[head->producer];
    if (head->sequence < *last) {
        rp_load_worker_fail(worker, &worker->out_of_order, 1,
                            "queue %d offset %lld: producer %u sequence %llu comes after its sequence %llu", record->queue_id,
                            (long long)record->queue_offset, head->producer, (unsigned long long)head->sequence,
                            (unsigned long long)*last - 1);
    } else {
        *last = head->sequence + 1;
    }
}

static void check_ledger(rp_load_worker *worker, const rp_payload_head *head, const rp_load_record *record) {
    int verdict = rp_ledger_deliver(worker->load->ledger, (uint32_t)record->queue_id, record->queue_offset, head->producer, head->sequence);
    if (verdict == RP_LEDGER_TAKEN) {
        rp_load_worker_fail(worker, &worker->duplicated, 1, "queue %d offset %lld was delivered twice", record->queue_id,
                            (long long)record->queue_offset);
    } else if (verdict == RP_LEDGER_DIFFERENT) {
        rp_load_worker_fail(worker, &worker->corrupted, 1,
                            "queue %d offset %lld holds producer %u sequence %llu, but was acknowledged to another message",
                            record->queue_id, (long long)record->queue_offset, head->producer, (unsigned long long)head->sequence);
    } else if (verdict == RP_LEDGER_OUTSIDE) {
        worker->unverified++;
    }
}

static void check_body(rp_load_worker *worker, rp_load_reading *reading, const rp_load_record *record) {
    const rp_load *load = worker->load;
    rp_payload_head head;
    int verdict = rp_payload_read(load->payload, record->body.data, record->body.size, &head);
    if (verdict == RP_PAYLOAD_FOREIGN || (verdict == RP_PAYLOAD_GOOD && !load->accept_any_run && head.run != load->run)) {
        worker->unverified++;
        return;
    }
    if (verdict == RP_PAYLOAD_CORRUPT && record->body.size != load->options.message_size) {
        rp_load_worker_fail(worker, &worker->corrupted, 1, "queue %d offset %lld: the body has %u bytes, of %u were to be read (--size)",
                            record->queue_id, (long long)record->queue_offset, (unsigned)record->body.size, load->options.message_size);
        return;
    }
    if (verdict == RP_PAYLOAD_CORRUPT) {
        rp_load_worker_fail(worker, &worker->corrupted, 1, "queue %d offset %lld: the body is not what producer %u sent as sequence %llu",
                            record->queue_id, (long long)record->queue_offset, head.producer, (unsigned long long)head.sequence);
        return;
    }
    if (head.queue != (uint32_t)record->queue_id) {
        rp_load_worker_fail(worker, &worker->corrupted, 1, "queue %d offset %lld: the message was sent to queue %u", record->queue_id,
                            (long long)record->queue_offset, head.queue);
        return;
    }
    if (worker->measuring && worker->now_ns >= head.intended_ns && load->options.mode == RP_LOAD_BOTH)
        rp_histogram_record(worker->latency[RP_LOAD_END_TO_END], (uint64_t)(worker->now_ns - head.intended_ns));
    if (reading->pass > 0)
        return; /* a second reading delivers the same messages again, and starts each order again */
    if (load->options.check_order)
        check_order(worker, reading, &head, record);
    if (load->ledger != NULL)
        check_ledger(worker, &head, record);
}

/* Returns the offset behind the record; the queue must continue without a gap. */
static int64_t check_place(rp_load_worker *worker, uint32_t queue, int64_t expected, const rp_load_record *record) {
    const rp_load_options *options = &worker->load->options;
    if (record->queue_id != (int32_t)queue || record->topic.size != strlen(options->topic) ||
        memcmp(record->topic.data, options->topic, record->topic.size) != 0) {
        rp_load_worker_fail(worker, &worker->corrupted, 1, "a pull of queue %u offset %lld gave a record of queue %d, topic %.*s", queue,
                            (long long)expected, record->queue_id, (int)(record->topic.size < 64 ? record->topic.size : 64),
                            (const char *)record->topic.data);
        return expected;
    }
    if (record->queue_offset > expected) {
        rp_load_worker_fail(worker, &worker->missing, (uint64_t)(record->queue_offset - expected),
                            "queue %u: offset %lld comes behind offset %lld", queue, (long long)record->queue_offset,
                            (long long)expected - 1);
    } else if (record->queue_offset < expected) {
        rp_load_worker_fail(worker, &worker->duplicated, 1, "queue %u: offset %lld comes again where %lld was due", queue,
                            (long long)record->queue_offset, (long long)expected);
        return expected;
    }
    return record->queue_offset + 1;
}

/* Takes all records of a response. Returns the offset at which the queue continues. */
static int64_t take_records(rp_load_worker *worker, uint32_t queue, int64_t next, rp_slice body) {
    rp_load *load = worker->load;
    rp_load_reading *reading = &load->readings[queue];
    uint64_t count = 0, bytes = 0;
    uint32_t at = 0;
    while (at < body.size) {
        rp_load_record record;
        const char *cause;
        if (rp_load_decode_record(body.data + at, body.size - at, !load->options.skip_verify, &record, &cause) != RP_OK) {
            rp_load_worker_fail(worker, &worker->corrupted, 1, "queue %u behind offset %lld, byte %u of the response: %s", queue,
                                (long long)next - 1, at, cause);
            break;
        }
        next = check_place(worker, queue, next, &record);
        if (!load->options.skip_verify)
            check_body(worker, reading, &record);
        at += record.size;
        bytes += record.body.size;
        count++;
    }
    rp_load_bump(&worker->counters.received, count);
    rp_load_bump(&worker->counters.bytes_received, bytes);
    atomic_fetch_add_explicit(&reading->received, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&load->received_total, count, memory_order_relaxed);
    worker->last_received_ns = worker->now_ns;
    if (worker->measuring && (load->end_ns == 0 || worker->now_ns <= load->end_ns)) {
        worker->measured_received += count;
        worker->measured_bytes_received += bytes;
    }
    return next;
}

static void wait_before_next(rp_load_worker *worker, rp_load_slot *slot, int64_t wait_ns) {
    slot->not_before_ns = worker->now_ns + wait_ns;
    rp_load_worker_retry_at(worker, slot->not_before_ns);
}

/* Paces a reader: a queue's next pull is due when its share of the rate has caught up with what the last one brought. The first pulls of
 * all queues are sent together; the second ones are spread over one share's time, or all queues would ask at once for ever. */
static void pace(rp_load_worker *worker, rp_load_slot *slot, const rp_load_reading *reading, int64_t messages) {
    const rp_load_options *options = &worker->load->options;
    if (options->mode != RP_LOAD_PULL || options->rate == 0)
        return;
    int is_first = atomic_load_explicit(&reading->received, memory_order_relaxed) == (uint64_t)messages;
    double shares = is_first ? 1 + (double)slot->queue / options->queue_count : 1;
    int64_t due_ns = slot->intended_ns + (int64_t)(shares * (double)messages * options->queue_count * 1e9 / options->rate);
    if (due_ns > worker->now_ns)
        wait_before_next(worker, slot, due_ns - worker->now_ns);
}

static void take_refusal(rp_load_worker *worker, rp_load_slot *slot, const rp_load_response *response) {
    rp_load_reading *reading = &worker->load->readings[slot->queue];
    rp_load_worker_error(worker, response->code, response->remark);
    wait_before_next(worker, slot, REFUSED_WAIT_NS);
    if (++reading->failures < REFUSALS_MAX)
        return;
    reading->finished = reading->given_up = 1;
    if (worker->status == RP_OK)
        worker->status = RP_E_PROTOCOL;
}

void rp_load_reader_response(rp_load_connection *connection, rp_load_slot *slot, const rp_load_response *response) {
    rp_load_worker *worker = connection->worker;
    rp_load_reading *reading = &worker->load->readings[slot->queue];
    int64_t next = atomic_load_explicit(&reading->next_offset, memory_order_relaxed);
    int64_t announced = response->next_begin_offset;
    rp_load_connection_end_request(connection, slot);
    if (response->code != RP_RESPONSE_SUCCESS && response->code != RP_RESPONSE_PULL_NOT_FOUND &&
        response->code != RP_RESPONSE_PULL_RETRY_IMMEDIATELY && response->code != RP_RESPONSE_PULL_OFFSET_MOVED) {
        take_refusal(worker, slot, response);
        return;
    }
    if (response->code == RP_RESPONSE_PULL_OFFSET_MOVED && announced <= next) {
        take_refusal(worker, slot, response); /* the broker has lost what this reader has seen, and would repeat that for ever */
    } else if (response->code == RP_RESPONSE_SUCCESS) {
        worker->pull_responses++;
        int64_t before = next;
        next = take_records(worker, slot->queue, next, response->body);
        if (next == before && announced <= next) {
            take_refusal(worker, slot, response); /* the same answer would come for ever */
        } else {
            reading->failures = 0;
            pace(worker, slot, reading, next - before);
        }
        if (worker->measuring)
            rp_histogram_record(worker->latency[RP_LOAD_FETCH], (uint64_t)(worker->now_ns - slot->sent_ns));
    } else {
        reading->failures = 0;
        worker->pull_empty++;
        if (worker->now_ns - slot->sent_ns < EMPTY_WAIT_NS && response->code != RP_RESPONSE_PULL_OFFSET_MOVED)
            wait_before_next(worker, slot, EMPTY_WAIT_NS);
    }
    if (announced > next) {
        rp_load_worker_fail(worker, &worker->missing, (uint64_t)(announced - next),
                            "queue %u: the broker went from offset %lld to %lld (code %d)", slot->queue, (long long)next,
                            (long long)announced, response->code);
        next = announced;
    }
    atomic_store_explicit(&reading->next_offset, next, memory_order_relaxed);
}

static int reading_is_done(const rp_load *load, const rp_load_reading *reading, int senders_ended) {
    if (load->options.mode == RP_LOAD_PULL)
        return reading->finished;
    if (reading->given_up)
        return 1;
    return senders_ended && atomic_load_explicit(&reading->next_offset, memory_order_relaxed) >=
                                atomic_load_explicit(&reading->acknowledged_end, memory_order_relaxed);
}

/* RP_LOAD_PULL with a count waits for messages that are yet to come, RP_LOAD_BOTH for those acknowledged; neither waits for ever. */
static int waited_too_long(const rp_load_worker *worker) {
    const rp_load *load = worker->load;
    if (load->options.mode == RP_LOAD_BOTH) {
        int64_t drain_ns = atomic_load_explicit(&load->drain_ns, memory_order_relaxed);
        return drain_ns != 0 && worker->now_ns > drain_ns;
    }
    int64_t last_ns = worker->last_received_ns != 0 ? worker->last_received_ns : load->start_ns;
    return load->options.count != 0 && worker->now_ns - last_ns > load->options.drain_timeout_ms * RP_NS_PER_MS;
}

int rp_load_reader_done(rp_load_worker *worker) {
    rp_load *load = worker->load;
    const rp_load_options *options = &load->options;
    if (atomic_load_explicit(&load->stop, memory_order_relaxed))
        return 1;
    if (options->mode == RP_LOAD_PULL && load->end_ns != 0 && worker->now_ns >= load->end_ns)
        return 1;
    if (options->mode == RP_LOAD_PULL && options->count != 0 &&
        atomic_load_explicit(&load->received_total, memory_order_relaxed) >= options->count)
        return 1;
    if (waited_too_long(worker)) {
        if (worker->status == RP_OK)
            worker->status = RP_E_TIMEOUT;
        return 1;
    }
    int senders_ended = atomic_load_explicit(&load->senders_active, memory_order_acquire) == 0;
    for (uint32_t i = worker->sender_count; i < worker->sender_count + worker->reader_count; i++) {
        const rp_load_connection *connection = &worker->connections[i];
        if (connection->state == RP_LOAD_DEAD)
            continue;
        for (uint32_t slot = 0; slot < connection->slot_count; slot++) {
            if (!reading_is_done(load, &load->readings[connection->slots[slot].queue], senders_ended))
                return 0;
        }
    }
    return 1;
}
