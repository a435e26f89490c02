/* durable_responses.c: see durable_responses.h. */
#include "durable_responses.h"

#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "lane.h"
#include "response_writer_inl.h"

#define NS_PER_MS INT64_C(1000000)

struct rp_durable_response {
    rp_durable_response *next;
    rp_server *server;
    uint64_t connection_id;
    int64_t end_offset;
    int64_t submitted_ns;
    rp_command command; /* its slices point behind this struct */
};

static size_t text_size(const rp_command *command) {
    size_t size = (size_t)command->remark.size + command->body.size;
    for (uint16_t i = 0; i < command->field_count; i++)
        size += (size_t)command->fields[i].key.size + command->fields[i].value.size;
    return size;
}

static rp_slice keep(rp_slice text, uint8_t **at) {
    if (text.data == NULL)
        return text;
    rp_slice kept = {*at, text.size};
    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return kept;
}

static rp_durable_response *copy_response(const rp_command *command) {
    rp_durable_response *response = malloc(sizeof *response + text_size(command));
    if (response == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)(response + 1);
    rp_command *copy = &response->command;
    memcpy(copy, command, offsetof(rp_command, fields));
    copy->remark = keep(command->remark, &at);
    copy->body = keep(command->body, &at);
    for (uint16_t i = 0; i < command->field_count; i++)
        copy->fields[i] = (rp_field){keep(command->fields[i].key, &at), keep(command->fields[i].value, &at)};
    return response;
}

int rp_durable_responses_submit(rp_durable_responses *durable, rp_server *server, uint64_t connection_id, int64_t end_offset,
                                int64_t now_ns, const rp_command *command) {
    if (atomic_load_explicit(&durable->count, memory_order_relaxed) >= RP_DURABLE_MAX)
        return RP_E_BUSY;
    rp_durable_response *response = copy_response(command);
    if (response == NULL)
        return RP_E_NO_MEMORY;
    response->server = server;
    response->connection_id = connection_id;
    response->end_offset = end_offset;
    response->submitted_ns = now_ns;
    atomic_fetch_add_explicit(&durable->count, 1, memory_order_acq_rel);
    response->next = atomic_load_explicit(&durable->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&durable->inbox, &response->next, response, memory_order_release, memory_order_relaxed)) {
    }
    return RP_OK;
}

/* Python submits in log order but for a few, so the place is nearly always the end. */
static void insert(rp_durable_responses *durable, rp_durable_response *response) {
    rp_durable_response **place = &durable->list;
    if (durable->list != NULL && durable->last->end_offset <= response->end_offset)
        place = &durable->last->next;
    while (*place != NULL && (*place)->end_offset <= response->end_offset)
        place = &(*place)->next;
    response->next = *place;
    *place = response;
    if (response->next == NULL)
        durable->last = response;
}

static void take_inbox(rp_durable_responses *durable) {
    rp_durable_response *response = atomic_exchange_explicit(&durable->inbox, NULL, memory_order_acquire);
    rp_durable_response *oldest = NULL;
    while (response != NULL) {
        rp_durable_response *next = response->next;
        response->next = oldest;
        oldest = response;
        response = next;
    }
    while (oldest != NULL) {
        rp_durable_response *next = oldest->next;
        insert(durable, oldest);
        oldest = next;
    }
}

/* Still waiting, and until when: INT64_MAX when it may go; then its code says how it ended. */
static int64_t wait_until(rp_lane *lane, rp_durable_response *response, int64_t now_ns) {
    const rp_broker_options *options = &lane->broker->options;
    int32_t code;
    uint32_t needs = rp_parked_needs(lane->broker, response->end_offset, &code);
    int64_t flush_by = response->submitted_ns + (int64_t)options->sync_flush_timeout_ms * NS_PER_MS;
    int64_t slaves_by = response->submitted_ns + (int64_t)options->slave_timeout_ms * NS_PER_MS;
    if ((needs & RP_NEEDS_FLUSH) && (now_ns >= flush_by || rp_parked_flush_is_hopeless(lane->broker))) {
        needs &= ~(uint32_t)RP_NEEDS_FLUSH;
        code = code != RP_RESPONSE_SUCCESS ? code : RP_RESPONSE_FLUSH_DISK_TIMEOUT;
        rp_count(&lane->counters.flush_timeouts, 1);
    }
    if ((needs & RP_NEEDS_SLAVES) && now_ns >= slaves_by) {
        needs &= ~(uint32_t)RP_NEEDS_SLAVES;
        code = RP_OUTCOME_SLAVE_TIMEOUT;
        rp_count(&lane->counters.slave_timeouts, 1);
    }
    if (needs == 0) {
        rp_slice remark = rp_outcome_remark(code);
        if (code != RP_RESPONSE_SUCCESS)
            response->command.code = RP_OUTCOME_CODE(code);
        if (remark.data != NULL)
            response->command.remark = remark;
        rp_count(&lane->counters.slaves_missing, RP_OUTCOME_CODE(code) == RP_RESPONSE_SLAVE_NOT_AVAILABLE);
        return INT64_MAX;
    }
    return (needs & RP_NEEDS_SLAVES) && slaves_by < flush_by ? slaves_by : flush_by;
}

int64_t rp_durable_responses_complete(rp_lane *lane, int64_t now_ns) {
    rp_durable_responses *durable = &lane->broker->durable;
    if (atomic_load_explicit(&durable->count, memory_order_relaxed) == 0)
        return INT64_MAX;
    take_inbox(durable);
    while (durable->list != NULL) {
        rp_durable_response *response = durable->list;
        int64_t until = wait_until(lane, response, now_ns);
        if (until != INT64_MAX)
            return until;
        durable->list = response->next;
        (void)rp_server_send(response->server, response->connection_id, &response->command); /* a closed connection needs no answer */
        free(response);
        atomic_fetch_sub_explicit(&durable->count, 1, memory_order_acq_rel);
    }
    return INT64_MAX;
}

void rp_durable_responses_free(rp_durable_responses *durable) {
    take_inbox(durable);
    while (durable->list != NULL) {
        rp_durable_response *next = durable->list->next;
        free(durable->list);
        durable->list = next;
    }
}
