/* sender.c: what a sending connection writes, and what an acknowledgement does.
 *
 * Closed loop: a slot that becomes free is filled in the same turn, so each recv is followed by one send with all new requests.
 * Open loop: request i of a worker is due at start + i * step; a request that finds no free slot keeps its due time and is sent later.
 */
#include <stdio.h>

#include "worker.h"

#define REFUSALS_MIN 10                  /* of a worker */
#define REFUSED_NS RP_NS_PER_S  /* a broker that has just started may refuse for a moment */

static uint32_t batch_of(const rp_load *load) { return load->options.batch_size; }

static int sending_is_over(const rp_load_worker *worker) {
    const rp_load *load = worker->load;
    return worker->budget < batch_of(load) || (load->end_ns != 0 && worker->now_ns >= load->end_ns) ||
           atomic_load_explicit(&load->stop, memory_order_relaxed);
}

static void refresh_born_digits(rp_load_worker *worker) {
    int64_t born_ms = worker->now_ns / RP_NS_PER_MS + worker->load->wall_offset_ms;
    if (born_ms == worker->born_ms)
        return;
    worker->born_ms = born_ms;
    snprintf(worker->born_digits, sizeof worker->born_digits, "%013lld", (long long)(born_ms % INT64_C(10000000000000)));
}

/* Puts one request into the output. Returns 0 if there is no free slot or no room. */
static int send_one(rp_load_connection *connection, int64_t intended_ns) {
    rp_load_worker *worker = connection->worker;
    rp_load *load = worker->load;
    uint32_t queue = connection->queue_cursor;
    const rp_load_template *template = load->templates[queue];
    uint32_t size = rp_load_template_size(template);
    if (connection->free_count == 0)
        return 0;
    uint8_t *target = rp_load_connection_room(connection, size);
    if (target == NULL)
        return 0;
    rp_load_slot *slot = rp_load_connection_take_slot(connection);
    slot->queue = queue;
    slot->sequence = connection->sequence;
    slot->intended_ns = intended_ns;
    slot->sent_ns = worker->now_ns;
    const rp_payload_head head = {load->run, connection->index, queue, connection->sequence, intended_ns};
    refresh_born_digits(worker);
    rp_load_template_write(template, slot->opaque, worker->born_digits, &head, target);
    connection->output_end += size;
    connection->sequence += batch_of(load);
    connection->queue_cursor = queue + 1 == load->options.queue_count ? 0 : queue + 1;
    worker->busy_slots++;
    if (worker->budget != UINT64_MAX)
        worker->budget -= batch_of(load);
    rp_load_bump(&worker->counters.sent, batch_of(load));
    if (load->options.rate > 0 && worker->measuring)
        rp_histogram_record(worker->latency[RP_LOAD_PUBLISH_DELAY], (uint64_t)(worker->now_ns - intended_ns));
    return 1;
}

void rp_load_sender_fill(rp_load_connection *connection) {
    rp_load_worker *worker = connection->worker;
    while (connection->free_count > 0 && !sending_is_over(worker) && send_one(connection, worker->now_ns)) {
    }
}

int64_t rp_load_sender_next_due_ns(const rp_load_worker *worker) {
    if (worker->sender_count == 0 || worker->due_step_ns == 0 || sending_is_over(worker))
        return INT64_MAX;
    return worker->due_start_ns + (int64_t)((double)worker->due_index * worker->due_step_ns);
}

void rp_load_sender_pump(rp_load_worker *worker) {
    uint32_t refused = 0; /* connections in a row without room: after a whole round there is none */
    int64_t due_ns;
    while (refused < worker->sender_count && (due_ns = rp_load_sender_next_due_ns(worker)) <= worker->now_ns) {
        rp_load_connection *connection = &worker->connections[worker->due_cursor];
        worker->due_cursor = worker->due_cursor + 1 == worker->sender_count ? 0 : worker->due_cursor + 1;
        if (connection->state != RP_LOAD_OPEN || !send_one(connection, due_ns)) {
            refused++;
            continue;
        }
        refused = 0;
        worker->due_index++;
        rp_load_connection_flush(connection);
    }
}

static void raise_end(rp_load_reading *reading, int64_t end) {
    int64_t seen = atomic_load_explicit(&reading->acknowledged_end, memory_order_relaxed);
    while (seen < end &&
           !atomic_compare_exchange_weak_explicit(&reading->acknowledged_end, &seen, end, memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void enter_ledger(rp_load_connection *connection, const rp_load_slot *slot, int64_t offset) {
    rp_load_worker *worker = connection->worker;
    for (uint32_t i = 0; i < batch_of(worker->load); i++) {
        int verdict = rp_ledger_acknowledge(worker->load->ledger, slot->queue, offset + i, connection->index, slot->sequence + i);
        if (verdict == RP_LEDGER_TAKEN) {
            rp_load_worker_fail(worker, &worker->duplicated, 1,
                                "queue %u offset %lld was acknowledged twice, the second time to producer %u sequence %llu", slot->queue,
                                (long long)(offset + i), connection->index, (unsigned long long)(slot->sequence + i));
        } else if (verdict == RP_LEDGER_DIFFERENT) {
            rp_load_worker_fail(worker, &worker->corrupted, 1,
                                "queue %u offset %lld: acknowledged to producer %u sequence %llu, but another message was delivered",
                                slot->queue, (long long)(offset + i), connection->index, (unsigned long long)(slot->sequence + i));
        } else if (verdict == RP_LEDGER_OUTSIDE) {
            worker->unverified++;
        }
    }
}

static void count_acknowledged(rp_load_connection *connection, const rp_load_slot *slot, int64_t offset) {
    rp_load_worker *worker = connection->worker;
    rp_load *load = worker->load;
    uint32_t batch = batch_of(load);
    uint64_t bytes = (uint64_t)batch * load->options.message_size;
    rp_load_bump(&worker->counters.acknowledged, batch);
    rp_load_bump(&worker->counters.bytes_sent, bytes);
    rp_load_reading *reading = &load->readings[slot->queue];
    atomic_fetch_add_explicit(&reading->acknowledged, batch, memory_order_relaxed);
    raise_end(reading, offset + batch);
    if (load->ledger != NULL)
        enter_ledger(connection, slot, offset);
    if (!worker->measuring || (load->end_ns != 0 && worker->now_ns > load->end_ns))
        return;
    worker->measured_sent += batch;
    worker->measured_bytes_sent += bytes;
    worker->last_acknowledged_ns = worker->now_ns;
    rp_histogram_record_count(worker->latency[RP_LOAD_PUBLISH], (uint64_t)(worker->now_ns - slot->intended_ns), batch);
}

static int anything_was_acknowledged(const rp_load *load) {
    for (uint32_t i = 0; i < load->options.threads; i++)
        if (atomic_load_explicit(&load->workers[i].counters.acknowledged, memory_order_relaxed) > 0)
            return 1;
    return 0;
}

/* Ends a run if the server accepts nothing: it is not a broker, or nobody may write. Once it has accepted something, later refusals are
 * a result of the run. */
static void take_refusal(rp_load_worker *worker, const rp_load_response *response) {
    rp_load *load = worker->load;
    rp_load_worker_error(worker, response->code, response->remark);
    if (++worker->refusals >= REFUSALS_MIN && worker->now_ns - load->start_ns >= REFUSED_NS && !anything_was_acknowledged(load))
        rp_load_stop(load);
}

void rp_load_sender_response(rp_load_connection *connection, rp_load_slot *slot, const rp_load_response *response) {
    static const char no_place[] = "SUCCESS without the queueId of the request or without a queueOffset";
    if (response->code != RP_RESPONSE_SUCCESS) {
        take_refusal(connection->worker, response);
    } else if (response->queue_id != (int64_t)slot->queue || response->queue_offset < 0) {
        rp_load_worker_error(connection->worker, RP_E_PROTOCOL, (rp_slice){(const uint8_t *)no_place, sizeof no_place - 1});
    } else {
        count_acknowledged(connection, slot, response->queue_offset);
    }
    rp_load_connection_end_request(connection, slot);
}

int rp_load_sender_done(const rp_load_worker *worker) {
    if (worker->busy_slots > 0)
        return 0;
    if (sending_is_over(worker))
        return 1;
    for (uint32_t i = 0; i < worker->sender_count; i++) {
        if (worker->connections[i].state != RP_LOAD_DEAD)
            return 0;
    }
    return 1;
}
