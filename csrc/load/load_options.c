/* load_options.c: see load_options.h. */
#include "load_options.h"

#include <string.h>

#include "request.h"

#define SLOTS_MAX (1u << 20)
#define NAME_MAX_BYTES 255u
#define TIME_MS_MAX (UINT64_C(365) * 86400 * 1000)
#define RATE_MAX 1000000000u

static int invalid(rp_error *error, const char *format, const char *name, unsigned long long limit) {
    return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, format, name, limit);
}

void rp_load_options_complete(rp_load_options *options) {
    struct {
        uint32_t *field;
        uint32_t value;
    } defaults[] = {{&options->queue_count, 4},
                    {&options->connections, 1},
                    {&options->pull_connections, 1},
                    {&options->in_flight, 1},
                    {&options->batch_size, 1},
                    {&options->pull_batch, 32},
                    {&options->threads, 1},
                    {&options->message_size, 1024},
                    {&options->connect_timeout_ms, 3000},
                    {&options->request_timeout_ms, 3000},
                    {&options->drain_timeout_ms, 30000},
                    {&options->suspend_ms, 15000}};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        if (*defaults[i].field == 0)
            *defaults[i].field = defaults[i].value;
    }
    if (options->send_code == 0)
        options->send_code = RP_REQUEST_SEND_V2;
    if (options->producer_group == NULL)
        options->producer_group = "rocketpy_bench_producer";
    if (options->consumer_group == NULL)
        options->consumer_group = "rocketpy_bench_consumer";
    if (options->mode == RP_LOAD_PULL)
        options->pull_connections = options->connections;
    if (options->mode == RP_LOAD_SEND)
        options->pull_connections = 0;
    if (options->mode == RP_LOAD_PULL)
        options->connections = 0;
}

static int check_names(const rp_load_options *options, rp_error *error) {
    const struct {
        const char *name, *value;
        int needed;
    } names[] = {{"address", options->address, 1},
                 {"topic", options->topic, 1},
                 {"producer_group", options->producer_group, 1},
                 {"consumer_group", options->consumer_group, 1},
                 {"tags", options->tags, 0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].value == NULL && !names[i].needed)
            continue;
        if (names[i].value == NULL || names[i].value[0] == '\0' || strlen(names[i].value) > NAME_MAX_BYTES ||
            strpbrk(names[i].value, "{}\1\2") != NULL)
            return invalid(error, "%s must be 1 to %llu bytes without braces and control characters", names[i].name, NAME_MAX_BYTES);
    }
    return RP_OK;
}

int rp_load_options_check(const rp_load_options *options, rp_error *error) {
    const struct {
        const char *name;
        uint64_t value, min, max;
    } ranges[] = {{"queue_count", options->queue_count, 1, RP_LOAD_QUEUES_MAX},
                  {"connections", (uint64_t)options->connections + options->pull_connections, 1, RP_LOAD_CONNECTIONS_MAX},
                  {"in_flight", options->in_flight, 1, RP_LOAD_IN_FLIGHT_MAX},
                  {"batch_size", options->batch_size, 1, RP_LOAD_BATCH_MAX},
                  {"pull_batch", options->pull_batch, 1, 65536},
                  {"threads", options->threads, 1, RP_LOAD_THREADS_MAX},
                  {"message_size", options->message_size, RP_LOAD_MESSAGE_SIZE_MIN, RP_LOAD_MESSAGE_SIZE_MAX},
                  {"duration_ms", options->duration_ms, 0, TIME_MS_MAX},
                  {"warm_up_ms", options->warm_up_ms, 0, TIME_MS_MAX},
                  {"connections x in_flight", (uint64_t)options->connections * options->in_flight, 0, SLOTS_MAX},
                  {"mode", (uint64_t)options->mode, RP_LOAD_SEND, RP_LOAD_BOTH},
                  {"serialize_type", (uint64_t)options->serialize_type, 0, 1},
                  {"pull_start", (uint64_t)options->pull_start, RP_LOAD_FROM_MIN, RP_LOAD_FROM_GIVEN}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].value < ranges[i].min)
            return invalid(error, "%s must be at least %llu", ranges[i].name, ranges[i].min);
        if (ranges[i].value > ranges[i].max)
            return invalid(error, "%s must be at most %llu", ranges[i].name, ranges[i].max);
    }
    if (options->send_code != RP_REQUEST_SEND && options->send_code != RP_REQUEST_SEND_V2 && options->send_code != RP_REQUEST_SEND_BATCH)
        return invalid(error, "%s must be 10, 310 or %llu", "send_code", RP_REQUEST_SEND_BATCH);
    if (options->batch_size > 1 && options->send_code != RP_REQUEST_SEND_BATCH)
        return invalid(error, "%s above 1 needs send_code %llu", "batch_size", RP_REQUEST_SEND_BATCH);
    if (options->mode != RP_LOAD_PULL && options->count == 0 && options->duration_ms == 0)
        return invalid(error, "one of %s and duration_ms must be above %llu", "count", 0);
    if (options->mode != RP_LOAD_PULL && options->count % options->batch_size != 0)
        return invalid(error, "%s must be a multiple of batch_size, %llu", "count", options->batch_size);
    if (!(options->rate >= 0 && options->rate <= RATE_MAX))
        return invalid(error, "%s must be 0 to %llu messages a second", "rate", RATE_MAX);
    if (options->pull_start == RP_LOAD_FROM_GIVEN && options->start_offsets == NULL)
        return invalid(error, "%s is needed for pull_start %llu", "start_offsets", RP_LOAD_FROM_GIVEN);
    for (uint32_t queue = 0; options->pull_start == RP_LOAD_FROM_GIVEN && queue < options->queue_count; queue++) {
        if (options->start_offsets[queue] < 0)
            return invalid(error, "%s must be at least %llu", "each of start_offsets", 0);
    }
    if (options->repeat && options->count == 0 && options->duration_ms == 0)
        return invalid(error, "%s needs a count or a duration_ms above %llu", "repeat", 0);
    return check_names(options, error);
}
