/* result.c: sums up the workers' counts: from atomics alone while they run, from everything afterwards. */
#include <stdio.h>
#include <string.h>

#include "worker.h"

static int is_running(const rp_load *load) {
    rp_load *mutable = (rp_load *)load; /* taking the lock does not change what a reader sees */
    pthread_mutex_lock(&mutable->lock);
    int running = (int)load->running;
    pthread_mutex_unlock(&mutable->lock);
    return running;
}

void rp_load_read_progress(const rp_load *load, rp_load_progress *progress) {
    *progress = (rp_load_progress){0};
    for (uint32_t i = 0; i < load->options.threads; i++) {
        const rp_load_counters *counters = &load->workers[i].counters;
        progress->sent += atomic_load_explicit(&counters->sent, memory_order_relaxed);
        progress->acknowledged += atomic_load_explicit(&counters->acknowledged, memory_order_relaxed);
        progress->errors += atomic_load_explicit(&counters->errors, memory_order_relaxed);
        progress->bytes_sent += atomic_load_explicit(&counters->bytes_sent, memory_order_relaxed);
        progress->received += atomic_load_explicit(&counters->received, memory_order_relaxed);
        progress->bytes_received += atomic_load_explicit(&counters->bytes_received, memory_order_relaxed);
        progress->failures += atomic_load_explicit(&counters->failures, memory_order_relaxed);
    }
    progress->running = is_running(load);
    if (load->start_ns == 0)
        return;
    int64_t now_ns = rp_load_now_ns();
    progress->elapsed_ns = (uint64_t)(now_ns - load->start_ns);
    progress->measuring = now_ns >= load->measure_ns;
}

static void add_errors(rp_load_result *result, const rp_load_worker *worker) {
    for (uint32_t i = 0; i < worker->error_code_count; i++) {
        const rp_load_error_count *source = &worker->error_codes[i];
        uint32_t at = 0;
        while (at < result->error_code_count && result->error_codes[at].code != source->code)
            at++;
        if (at == RP_LOAD_ERROR_CODES_MAX)
            continue; /* still counted in totals.errors */
        if (at == result->error_code_count) {
            result->error_codes[result->error_code_count++] = *source;
        } else {
            result->error_codes[at].count += source->count;
        }
    }
}

static void add_worker(rp_load_result *result, const rp_load_worker *worker) {
    const struct {
        uint64_t *target;
        uint64_t value;
    } sums[] = {{&result->measured_sent, worker->measured_sent},
                {&result->measured_received, worker->measured_received},
                {&result->measured_bytes_sent, worker->measured_bytes_sent},
                {&result->measured_bytes_received, worker->measured_bytes_received},
                {&result->measured_errors, worker->measured_errors},
                {&result->cpu_ns, worker->cpu_ns},
                {&result->pull_responses, worker->pull_responses},
                {&result->pull_empty, worker->pull_empty},
                {&result->disconnects, worker->disconnects},
                {&result->late_responses, worker->late_responses},
                {&result->pushed_requests, worker->pushed_requests},
                {&result->other_encoding, worker->other_encoding},
                {&result->missing, worker->missing},
                {&result->duplicated, worker->duplicated},
                {&result->corrupted, worker->corrupted},
                {&result->out_of_order, worker->out_of_order},
                {&result->unverified, worker->unverified}};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        *sums[i].target += sums[i].value;
    if (result->status == RP_OK)
        result->status = worker->status;
    add_errors(result, worker);
}

static void add_missing(rp_load *load, rp_load_result *result) {
    for (uint32_t queue = 0; queue < load->options.queue_count; queue++) {
        rp_ledger_missing missing;
        rp_ledger_missing_of(load->ledger, queue, &missing);
        result->missing += missing.acknowledged_only;
        result->totals.failures += missing.acknowledged_only;
        result->unacknowledged += missing.delivered_only;
        if (missing.acknowledged_only == 0 || result->first_offender[0] != '\0')
            continue;
        snprintf(result->first_offender, sizeof result->first_offender,
                 "queue %u offset %lld: producer %u sequence %llu was acknowledged there and never delivered", queue,
                 (long long)missing.first_offset, missing.first_producer, (unsigned long long)missing.first_sequence);
    }
}

static rp_histogram *merged(const rp_load *load, int kind) {
    rp_histogram *all = rp_histogram_create();
    if (all == NULL)
        return NULL;
    for (uint32_t i = 0; i < load->options.threads; i++)
        rp_histogram_add(all, load->workers[i].latency[kind]);
    return all;
}

static void read_latency(const rp_load *load, int kind, rp_load_latency *latency) {
    rp_histogram *all = merged(load, kind);
    if (all == NULL)
        return;
    *latency = (rp_load_latency){.count = rp_histogram_count(all),
                                 .min_ns = rp_histogram_min(all),
                                 .p50_ns = rp_histogram_percentile(all, 50),
                                 .p90_ns = rp_histogram_percentile(all, 90),
                                 .p99_ns = rp_histogram_percentile(all, 99),
                                 .p999_ns = rp_histogram_percentile(all, 99.9),
                                 .p9999_ns = rp_histogram_percentile(all, 99.99),
                                 .max_ns = rp_histogram_max(all),
                                 .mean_ns = rp_histogram_mean(all)};
    rp_histogram_destroy(all);
}

/* From the start of measuring to its end, or to the last event if the work was done earlier. */
static uint64_t measured_ns(const rp_load *load, int64_t last_ns, int64_t ended_ns) {
    int64_t end_ns = load->end_ns != 0 && ended_ns >= load->end_ns ? load->end_ns : last_ns;
    return end_ns > load->measure_ns ? (uint64_t)(end_ns - load->measure_ns) : 0;
}

int rp_load_read_result(rp_load *load, rp_load_result *result) {
    if (load->start_ns == 0 || is_running(load))
        return RP_E_BUSY;
    *result = (rp_load_result){.run_id = load->options.run_id};
    rp_load_read_progress(load, &result->totals);
    memcpy(result->first_offender, load->first_offender, sizeof result->first_offender);
    int64_t last_sent_ns = 0, last_received_ns = 0, ended_ns = 0;
    for (uint32_t i = 0; i < load->options.threads; i++) {
        const rp_load_worker *worker = &load->workers[i];
        add_worker(result, worker);
        if (worker->last_acknowledged_ns > last_sent_ns)
            last_sent_ns = worker->last_acknowledged_ns;
        if (worker->last_received_ns > last_received_ns)
            last_received_ns = worker->last_received_ns;
        if (worker->now_ns > ended_ns)
            ended_ns = worker->now_ns;
    }
    result->measured_ns = measured_ns(load, last_sent_ns, ended_ns);
    result->measured_receive_ns = measured_ns(load, last_received_ns, ended_ns);
    int64_t last_ns = last_sent_ns > last_received_ns ? last_sent_ns : last_received_ns;
    if (last_ns > load->start_ns)
        result->totals.elapsed_ns = (uint64_t)(last_ns - load->start_ns);
    if (load->ledger != NULL && load->options.mode != RP_LOAD_SEND)
        add_missing(load, result);
    for (int kind = 0; kind < RP_LOAD_LATENCY_KINDS; kind++)
        read_latency(load, kind, &result->latency[kind]);
    return RP_OK;
}

int rp_load_read_queue(const rp_load *load, uint32_t queue, rp_load_queue *result) {
    if (queue >= load->options.queue_count)
        return RP_E_NOT_FOUND;
    const rp_load_reading *reading = &load->readings[queue];
    *result = (rp_load_queue){.acknowledged = atomic_load_explicit(&reading->acknowledged, memory_order_relaxed),
                              .received = atomic_load_explicit(&reading->received, memory_order_relaxed),
                              .start_offset = reading->start_offset,
                              .next_offset = atomic_load_explicit(&reading->next_offset, memory_order_relaxed)};
    return RP_OK;
}

uint64_t rp_load_percentile(const rp_load *load, int kind, double percent) {
    if (kind < 0 || kind >= RP_LOAD_LATENCY_KINDS)
        return 0;
    rp_histogram *all = merged(load, kind);
    if (all == NULL)
        return 0;
    uint64_t value = rp_histogram_percentile(all, percent);
    rp_histogram_destroy(all);
    return value;
}

int rp_load_save_ledger(const rp_load *load, const char *path, rp_error *error) {
    if (load->ledger == NULL)
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "this run keeps no ledger: set keep_ledger");
    if (is_running(load))
        return rp_error_set(error, RP_E_BUSY, 0, path, -1, "the run has not ended");
    return rp_ledger_save(load->ledger, path, error);
}
