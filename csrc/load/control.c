/* control.c: asks for minimum and maximum offset of each queue before a run begins, on a blocking connection of its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "worker.h"

#define FRAME_ROOM 4096

typedef struct control {
    rp_load *load;
    rp_load_connection connection;
    uint8_t buffer[FRAME_ROOM];
    rp_error *error;
} control;

static int network(control *control, const char *what) {
    return rp_error_set(control->error, RP_E_NETWORK, errno, control->load->options.address, -1, "%s: %s", what, strerror(errno));
}

static int send_whole(control *control, size_t size) {
    size_t at = 0;
    while (at < size) {
        ssize_t put = send(control->connection.fd, control->buffer + at, size - at, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return network(control, "asking for offsets");
        at += (size_t)put;
    }
    return RP_OK;
}

/* Reads one frame into the buffer. */
static int receive_whole(control *control, uint32_t *size) {
    uint32_t have = 0;
    for (;;) {
        int64_t wanted = rp_load_frame_size(control->buffer, have);
        if (wanted < 0 || wanted > FRAME_ROOM)
            return rp_error_set(control->error, RP_E_PROTOCOL, 0, control->load->options.address, -1,
                                "the broker's answer is no small frame");
        if (wanted > 0 && have == wanted) {
            *size = have;
            return RP_OK;
        }
        ssize_t got = recv(control->connection.fd, control->buffer + have, (wanted == 0 ? 4 : (size_t)wanted) - have, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ECONNRESET;
        if (got <= 0)
            return network(control, "waiting for offsets");
        have += (uint32_t)got;
    }
}

static int ask_offset(control *control, int32_t code, uint32_t queue, int64_t *offset) {
    const rp_load_options *options = &control->load->options;
    char id[16];
    snprintf(id, sizeof id, "%u", queue);
    const rp_load_field fields[] = {{"topic", options->topic}, {"queueId", id}};
    int64_t size = rp_load_encode_request(control->buffer, FRAME_ROOM, options->serialize_type, code, RP_LOAD_OPAQUE_MIN, fields, 2, 0);
    if (size < 0)
        return rp_error_set(control->error, RP_E_TOO_LARGE, 0, options->address, -1, "the topic's name is too long");
    int status = send_whole(control, (size_t)size);
    uint32_t answer_size = 0;
    if (status == RP_OK)
        status = receive_whole(control, &answer_size);
    if (status != RP_OK)
        return status;
    rp_load_response response;
    const char *cause;
    if (rp_load_parse_response(control->buffer, answer_size, &response, &cause) != RP_OK)
        return rp_error_set(control->error, RP_E_PROTOCOL, 0, options->address, -1, "answer to request %d: %s", code, cause);
    if (response.code != RP_RESPONSE_SUCCESS || response.offset < 0)
        return rp_error_set(control->error, RP_E_PROTOCOL, 0, options->address, -1, "queue %u of topic %s: the broker answers %d: %.*s",
                            queue, options->topic, response.code, (int)response.remark.size,
                            response.remark.data == NULL ? "" : (const char *)response.remark.data);
    *offset = response.offset;
    return RP_OK;
}

static int ask_all(control *control) {
    rp_load *load = control->load;
    const rp_load_options *options = &load->options;
    for (uint32_t queue = 0; queue < options->queue_count; queue++) {
        int64_t min = 0, max = 0;
        int status = ask_offset(control, RP_REQUEST_GET_MAX_OFFSET, queue, &max);
        if (status == RP_OK)
            status = ask_offset(control, RP_REQUEST_GET_MIN_OFFSET, queue, &min);
        if (status != RP_OK)
            return status;
        rp_load_reading *reading = &load->readings[queue];
        int from_end = options->mode != RP_LOAD_PULL || options->pull_start == RP_LOAD_FROM_MAX;
        reading->start_offset = from_end ? max : min > 0 ? min : 0; /* -1: a batch queue that has had no message yet */
        if (!from_end && options->pull_start == RP_LOAD_FROM_GIVEN)
            reading->start_offset = options->start_offsets[queue];
        int endless = from_end || (options->count != 0 && !options->repeat);
        reading->end_offset = endless ? INT64_MAX : max;
    }
    return RP_OK;
}

int rp_load_query_offsets(rp_load *load, rp_error *error) {
    rp_load_worker worker = {.load = load};
    control control = {.load = load, .connection = {.worker = &worker, .fd = -1}, .error = error};
    int status = rp_load_connection_begin(&control.connection);
    if (status == RP_OK)
        status = rp_load_connection_finish(&control.connection, (int)load->options.connect_timeout_ms);
    if (status != RP_OK) {
        int failed = errno;
        rp_load_connection_close(&control.connection);
        return rp_error_set(error, RP_E_NETWORK, failed, load->options.address, -1,
                            "nothing accepts connections at this address; is the broker running?");
    }
    const struct timeval limit = {load->options.request_timeout_ms / 1000, load->options.request_timeout_ms % 1000 * 1000};
    setsockopt(control.connection.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(control.connection.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    fcntl(control.connection.fd, F_SETFL, 0); /* blocking from here on */
    status = ask_all(&control);
    rp_load_connection_close(&control.connection);
    return status;
}
