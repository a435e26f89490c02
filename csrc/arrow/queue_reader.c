/* queue_reader.c: see queue_reader.h.
 *
 *   requests:   ask_offset ──► under way (opaque, offset) ──► arrived, in any order ──► current, the one at next_offset ──► batch
 *
 * A broker answers the requests of one connection in any order, so each response waits in its slot until it is the oldest.
 */
#include "queue_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../base/slice_inl.h"
#include "../remoting/command.h"

#define REQUEST_SIZE_MAX 8192
#define TEXT_MAX 1024
#define ANSWER_TEXT_KEPT 4096
#define ANSWER_TEXT_MAX (1 << 20)
#define PULL_SYS_FLAG "6" /* the broker may hold the pull; the request carries a subscription */
#define SUSPEND_MS "1000"
#define SEND_WAIT_MS 3000 /* for a broker that reads no requests */
#define CALM_AFTER_WRONG_GUESS 16 /* responses before guessing again */
/* Pause between two pulls for messages that are not there yet. A broker holds a pull only if it asks for the queue's very end; a pull
 * beyond that is answered at once (code 21, a slave's 20), and nothing tells when a slave has caught up. */
#define STALL_PAUSE_MS 100

/* RequestCode and ResponseCode (5.3.3 remoting/protocol/). */
enum code {
    PULL_MESSAGE = 11,
    SUCCESS = 0,
    SYSTEM_BUSY = 2,
    SERVICE_NOT_AVAILABLE = 14,
    PULL_NOT_FOUND = 19,
    PULL_RETRY_IMMEDIATELY = 20,
    PULL_OFFSET_MOVED = 21,
    GO_AWAY = 1500
};

/* The parts of a broker's answer that matter. Slices live until the next answer is parsed. */
typedef struct answer {
    int32_t code, opaque, is_response;
    int64_t next_begin_offset, min_offset, max_offset; /* -1 when absent */
    rp_slice remark, body;
} answer;

typedef struct frame {
    uint8_t *data;
    uint32_t size, capacity;
} frame;

typedef struct pull {
    int32_t opaque;
    int32_t has_arrived;
    int64_t offset;
    frame response;
} pull;

struct rp_queue_reader {
    int fd;
    rp_arena *arena; /* holds the answer that was parsed last */
    rp_queue_reader_options options;
    char consumer_group[TEXT_MAX], topic[TEXT_MAX], subscription[TEXT_MAX];
    int is_filtered;
    pull pulls[RP_QUEUE_READER_DEPTH_MAX]; /* oldest first */
    uint32_t under_way;
    int32_t next_opaque;
    int64_t ask_offset;
    int64_t stride;       /* offsets the last response covered; 0: not known, guess nothing */
    uint32_t calm;        /* responses to wait before guessing again */
    int64_t asked_ms;     /* when the last request was sent */
    int64_t stalled_ms;   /* time of the first in the present run of answers that brought nothing; 0: the last one brought something */
    int64_t pause_end_ms; /* nothing is asked before this */
    frame incoming;
    frame current;        /* the response that is being decoded */
    uint64_t decoded;     /* bytes of its body that have been turned into rows */
    rp_slice body;        /* inside current; data NULL: nothing to decode */
    int64_t body_next;    /* next_offset when the body is done */
    rp_queue_reader_progress progress;
};

void rp_queue_reader_options_default(rp_queue_reader_options *options) {
    *options = (rp_queue_reader_options){.subscription = "*", .pull_batch = 1024, .depth = 8, .fail_on_data_loss = 1, .patience_ms = 30000};
}

static int keep_text(char target[TEXT_MAX], const char *text) {
    return text != NULL && text[0] != '\0' && (size_t)snprintf(target, TEXT_MAX, "%s", text) < TEXT_MAX;
}

int rp_queue_reader_open(int fd, const rp_queue_reader_options *options, rp_queue_reader **opened, rp_error *error) {
    rp_queue_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        close(fd);
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a queue reader");
    }
    reader->fd = fd;
    reader->arena = rp_arena_create(ANSWER_TEXT_KEPT, ANSWER_TEXT_MAX);
    if (reader->arena == NULL) {
        rp_queue_reader_close(reader);
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a queue reader");
    }
    reader->options = *options;
    const char *subscription = options->subscription == NULL || options->subscription[0] == '\0' ? "*" : options->subscription;
    int is_valid = keep_text(reader->consumer_group, options->consumer_group) && keep_text(reader->topic, options->topic) &&
                   keep_text(reader->subscription, subscription) && options->queue_id >= 0 && options->begin_offset >= 0 &&
                   options->end_offset >= options->begin_offset && options->pull_batch >= 1 && options->pull_batch <= INT32_MAX &&
                   options->depth >= 1 && options->depth <= RP_QUEUE_READER_DEPTH_MAX;
    if (!is_valid) {
        rp_queue_reader_close(reader);
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                            "a queue reader needs a group, a topic and a subscription below 1,024 bytes, 0 <= begin <= end, a pull_batch "
                            "and a depth of 1 to 16");
    }
    reader->is_filtered = options->is_sql || strcmp(subscription, "*") != 0;
    reader->next_opaque = 1;
    reader->ask_offset = reader->progress.next_offset = options->begin_offset;
    *opened = reader;
    return RP_OK;
}

void rp_queue_reader_close(rp_queue_reader *reader) {
    if (reader == NULL)
        return;
    close(reader->fd);
    for (int i = 0; i < RP_QUEUE_READER_DEPTH_MAX; i++)
        free(reader->pulls[i].response.data);
    free(reader->incoming.data);
    free(reader->current.data);
    rp_arena_destroy(reader->arena);
    free(reader);
}

void rp_queue_reader_read_progress(const rp_queue_reader *reader, rp_queue_reader_progress *progress) { *progress = reader->progress; }

/* ---- requests ---- */

static int send_all(rp_queue_reader *reader, const uint8_t *data, size_t size, rp_error *error) {
    while (size > 0) {
        ssize_t sent = send(reader->fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd writable = {reader->fd, POLLOUT, 0};
            if (poll(&writable, 1, SEND_WAIT_MS) != 0)
                continue;
            return rp_error_set(error, RP_E_NETWORK, 0, NULL, -1, "the broker has taken no request for %d ms", SEND_WAIT_MS);
        }
        if (sent <= 0)
            return rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "the connection to the broker was lost: %s", strerror(errno));
        data += sent;
        size -= (size_t)sent;
    }
    return RP_OK;
}

static int64_t now_ms(void) { return rp_clock_monotonic_ns(NULL) / 1000000; }

static int ask(rp_queue_reader *reader, int64_t offset, rp_error *error) {
    char queue[16], begin[24], count[16];
    int64_t left = reader->options.end_offset - offset;
    uint32_t wanted = left < (int64_t)reader->options.pull_batch ? (uint32_t)left : reader->options.pull_batch;
    snprintf(queue, sizeof queue, "%" PRId32, reader->options.queue_id);
    snprintf(begin, sizeof begin, "%" PRId64, offset);
    snprintf(count, sizeof count, "%" PRIu32, reader->is_filtered ? reader->options.pull_batch : wanted);
    const struct {
        const char *name, *value;
    } fields[] = {
        {"consumerGroup", reader->consumer_group},
        {"topic", reader->topic},
        {"queueId", queue},
        {"queueOffset", begin},
        {"maxMsgNums", count},
        {"sysFlag", PULL_SYS_FLAG},
        {"commitOffset", "0"},
        {"suspendTimeoutMillis", SUSPEND_MS},
        {"subscription", reader->subscription},
        {"subVersion", "0"},
        {"expressionType", reader->options.is_sql ? "SQL92" : "TAG"},
        {"lo", "false"}, /* for a static topic, too, ask for the broker's own queue, which its records name */
    };
    rp_command command;
    rp_command_clear(&command, PULL_MESSAGE, RP_SERIALIZE_JSON);
    command.opaque = reader->next_opaque++;
    if (reader->next_opaque == INT32_MAX)
        reader->next_opaque = 1;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        rp_command_add_field(&command, rp_slice_of(fields[i].name), rp_slice_of(fields[i].value));
    uint8_t request[REQUEST_SIZE_MAX];
    int64_t size = rp_command_encode(&command, request, sizeof request);
    if (size < 0)
        return rp_error_set(error, (int)size, 0, NULL, -1, "the pull request is too large");
    pull *slot = &reader->pulls[reader->under_way];
    slot->opaque = command.opaque;
    slot->offset = offset;
    slot->has_arrived = 0;
    reader->under_way++;
    reader->asked_ms = now_ms();
    return send_all(reader, request, (size_t)size, error);
}

static int64_t pause_left_ms(const rp_queue_reader *reader) { return reader->pause_end_ms - now_ms(); }

/* Sends one exact request if none is under way, and guessed ones behind it as long as responses are regular. */
static int ask_ahead(rp_queue_reader *reader, rp_error *error) {
    if (pause_left_ms(reader) > 0)
        return RP_OK;
    int may_guess = reader->stride > 0 && reader->calm == 0 && !reader->is_filtered;
    while (reader->under_way < reader->options.depth && reader->ask_offset < reader->options.end_offset &&
           (reader->under_way == 0 || may_guess)) {
        int status = ask(reader, reader->ask_offset, error);
        if (status < 0)
            return status;
        if (!may_guess)
            break;
        int64_t left = reader->options.end_offset - reader->ask_offset;
        reader->ask_offset += reader->stride < left ? reader->stride : left; /* the stride comes from the broker and may be any number */
    }
    return RP_OK;
}

/* Forgets all requests under way: their responses have unknown opaques, and are dropped. */
static void forget_guesses(rp_queue_reader *reader) {
    reader->progress.wasted_responses += reader->under_way;
    reader->under_way = 0;
}

/* Forgets the guesses if the next response would begin behind next_offset, where the last one ended. */
static void correct_course(rp_queue_reader *reader, int64_t next_offset) {
    if (reader->under_way > 0 && reader->pulls[0].offset > next_offset) {
        forget_guesses(reader);
        reader->calm = CALM_AFTER_WRONG_GUESS;
    }
    if (reader->under_way == 0)
        reader->ask_offset = next_offset;
}

/* ---- responses ---- */

static int reserve(frame *target, uint32_t size) {
    if (size <= target->capacity)
        return RP_OK;
    uint8_t *grown = realloc(target->data, size);
    if (grown == NULL)
        return RP_E_NO_MEMORY;
    target->data = grown;
    target->capacity = size;
    return RP_OK;
}

static void swap_frames(frame *a, frame *b) {
    frame kept = *a;
    *a = *b;
    *b = kept;
}

static int64_t number_of(const rp_command *command, const char *name) {
    int64_t value = -1;
    rp_slice text = rp_command_field(command, name);
    return text.data != NULL && rp_slice_to_i64(text, &value) == RP_OK ? value : -1;
}

static int parse_answer(rp_queue_reader *reader, const frame *from, answer *parsed, rp_error *error) {
    rp_command command;
    rp_error cause;
    rp_arena_reset(reader->arena);
    int status = rp_command_decode(from->data, from->size, reader->arena, &command, &cause);
    if (status < 0)
        return rp_error_set(error, status, 0, NULL, -1, "the broker's answer cannot be read: %s", cause.message);
    *parsed = (answer){
        .code = command.code,
        .opaque = command.opaque,
        .is_response = command.flag & RP_COMMAND_RESPONSE,
        .next_begin_offset = number_of(&command, "nextBeginOffset"),
        .min_offset = number_of(&command, "minOffset"),
        .max_offset = number_of(&command, "maxOffset"),
        .remark = command.remark,
        .body = command.body,
    };
    return RP_OK;
}

/* Gives a complete frame to the pull that it answers; drops it if there is none. */
static int deliver(rp_queue_reader *reader, rp_error *error) {
    answer response;
    int status = parse_answer(reader, &reader->incoming, &response, error);
    if (status < 0)
        return status;
    reader->progress.bytes_received += reader->incoming.size;
    for (uint32_t i = 0; i < reader->under_way; i++) {
        if (reader->pulls[i].opaque == response.opaque && response.is_response) {
            swap_frames(&reader->pulls[i].response, &reader->incoming);
            reader->pulls[i].has_arrived = 1;
            break;
        }
    }
    reader->incoming.size = 0;
    return RP_OK;
}

/* Receives until one complete frame has been delivered. */
static int receive(rp_queue_reader *reader, uint32_t wait_ms, rp_error *error) {
    for (;;) {
        frame *in = &reader->incoming;
        uint32_t wanted = 0;
        int is_whole = rp_frame_scan(in->data, in->size, RP_FRAME_SIZE_MAX, &wanted);
        if (is_whole < 0)
            return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, -1, "the broker sent a frame of an impossible size");
        if (is_whole)
            return deliver(reader, error);
        wanted = wanted == 0 ? 4 : wanted;
        if (reserve(in, wanted) < 0)
            return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a response of %" PRIu32 " bytes", wanted);
        struct pollfd readable = {reader->fd, POLLIN, 0};
        ssize_t got = recv(reader->fd, in->data + in->size, wanted - in->size, MSG_DONTWAIT);
        if (got > 0) {
            in->size += (uint32_t)got;
            continue;
        }
        if (got == 0)
            return rp_error_set(error, RP_E_NETWORK, 0, NULL, -1, "the broker closed the connection");
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "the connection to the broker was lost: %s", strerror(errno));
        int ready = poll(&readable, 1, (int)wait_ms);
        if (ready == 0 || (ready < 0 && errno == EINTR))
            return RP_E_TIMEOUT;
    }
}

/* Whether the same request may succeed in a moment: the broker is busy, starting or stopping. */
static int is_passing(int32_t code) { return code == SYSTEM_BUSY || code == SERVICE_NOT_AVAILABLE || code == GO_AWAY; }

static int refuse(const rp_queue_reader *reader, const answer *response, rp_error *error) {
    int status = is_passing(response->code) ? RP_E_BUSY : RP_E_NOT_FOUND;
    int size = response->remark.data == NULL ? 0 : (int)(response->remark.size < 200 ? response->remark.size : 200);
    return rp_error_set(error, status, 0, NULL, -1, "the broker refused to read queue %d of topic %s: CODE: %d  DESC: %.*s",
                        reader->options.queue_id, reader->topic, response->code, size,
                        size == 0 ? "" : (const char *)response->remark.data);
}

/* The wanted offset is below the broker's minimum. */
static int lose_until(rp_queue_reader *reader, int64_t min_offset, rp_error *error) {
    int64_t until = min_offset < reader->options.end_offset ? min_offset : reader->options.end_offset;
    if (reader->options.fail_on_data_loss)
        return rp_error_set(error, RP_E_RANGE, 0, NULL, -1,
                            "offsets %" PRId64 " to %" PRId64 " of queue %d of topic %s are gone: the broker's oldest is %" PRId64
                            "; set failOnDataLoss=false to go on from there",
                            reader->progress.next_offset, until - 1, reader->options.queue_id, reader->topic, min_offset);
    reader->progress.lost_offsets += until - reader->progress.next_offset;
    reader->progress.next_offset = until;
    return RP_OK;
}

/* Handles an answer without messages that moves nothing: the broker has less than expected (a slave that is behind, a log that was cut). */
static int stall(rp_queue_reader *reader, int64_t max_offset, rp_error *error) {
    int64_t now = now_ms();
    if (reader->stalled_ms == 0)
        reader->stalled_ms = now;
    if (now - reader->stalled_ms < (int64_t)reader->options.patience_ms) {
        reader->pause_end_ms = reader->asked_ms + STALL_PAUSE_MS; /* already past if the broker has held the pull */
        return RP_OK;
    }
    reader->progress.is_behind = 1;
    return rp_error_set(error, RP_E_RANGE, 0, NULL, -1,
                        "queue %d of topic %s ends at offset %" PRId64 " on this broker, and offsets %" PRId64 " to %" PRId64
                        " were wanted of it for %" PRIu32 " ms: it is behind, or was cut",
                        reader->options.queue_id, reader->topic, max_offset, reader->progress.next_offset, reader->options.end_offset - 1,
                        reader->options.patience_ms);
}

static void end_stall(rp_queue_reader *reader) { reader->stalled_ms = reader->pause_end_ms = 0; }

/* Takes an answer with messages from the asked offset on: its body is to be decoded. */
static int take_messages(rp_queue_reader *reader, int64_t asked, const answer *response, rp_error *error) {
    int64_t next = response->next_begin_offset, wanted = reader->progress.next_offset;
    if (next <= asked)
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, -1, "the broker's next offset %" PRId64 " is not behind %" PRId64, next, asked);
    if (response->body.data == NULL)
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, -1, "the broker found messages at offset %" PRId64 " and sent none", asked);
    end_stall(reader);
    reader->stride = next - asked;
    reader->body = response->body;
    reader->decoded = 0;
    reader->body_next = next > wanted ? next : wanted;
    correct_course(reader, reader->body_next);
    return RP_OK;
}

/* Handles an answer without messages: it names the offset to continue from, or does not help. Requests ahead are sent again from there. */
static int go_on_elsewhere(rp_queue_reader *reader, const answer *response, rp_error *error) {
    int64_t *wanted = &reader->progress.next_offset, known = *wanted;
    int status = RP_OK;
    if (response->min_offset > *wanted)
        status = lose_until(reader, response->min_offset, error);
    else if (response->next_begin_offset > *wanted && response->code != PULL_OFFSET_MOVED)
        *wanted = response->next_begin_offset; /* no message before it matches */
    if (status == RP_OK && *wanted == known)
        status = stall(reader, response->max_offset, error);
    else
        end_stall(reader);
    reader->stride = 0;
    forget_guesses(reader);
    reader->ask_offset = *wanted;
    return status;
}

static int interpret(rp_queue_reader *reader, int64_t asked, const answer *response, rp_error *error) {
    reader->progress.responses++;
    reader->calm -= reader->calm > 0;
    switch (response->code) {
    case SUCCESS:
        return take_messages(reader, asked, response, error);
    case PULL_OFFSET_MOVED:
    case PULL_NOT_FOUND:
    case PULL_RETRY_IMMEDIATELY:
        return go_on_elsewhere(reader, response, error);
    default:
        return refuse(reader, response, error);
    }
}

/* Takes the response of the oldest pull out of its slot. */
static int take_response(rp_queue_reader *reader, rp_error *error) {
    pull oldest = reader->pulls[0];
    reader->under_way--;
    memmove(&reader->pulls[0], &reader->pulls[1], reader->under_way * sizeof reader->pulls[0]);
    reader->pulls[reader->under_way] = (pull){.response = reader->current};
    reader->current = oldest.response;
    answer response;
    int status = parse_answer(reader, &reader->current, &response, error);
    if (status < 0)
        return status;
    return interpret(reader, oldest.offset, &response, error);
}

/* Turns the current body into rows until it or the batch ends. */
static int decode(rp_queue_reader *reader, rp_record_batch *batch, rp_error *error) {
    int64_t used =
        rp_record_batch_put_records(batch, reader->body.data + reader->decoded, reader->body.size - reader->decoded,
                                    reader->options.check_crc, reader->progress.next_offset, reader->options.end_offset - 1, error);
    if (used < 0)
        return (int)used;
    reader->decoded += (uint64_t)used;
    if (reader->decoded < reader->body.size) {
        if (!rp_record_batch_is_full(batch))
            return rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1,
                                "the broker's answer for queue %d of topic %s ends inside of a message, at byte %" PRIu64 " of its body",
                                reader->options.queue_id, reader->topic, reader->decoded);
        int64_t last = rp_record_batch_last_queue_offset(batch);
        if (last >= reader->progress.next_offset)
            reader->progress.next_offset = last + 1;
        return RP_OK;
    }
    reader->progress.next_offset = reader->body_next;
    reader->body = (rp_slice){NULL, 0};
    return RP_OK;
}

static uint32_t shorter_ms(int64_t left_ms, uint32_t wait_ms) { return left_ms <= 0 ? 0 : left_ms < wait_ms ? (uint32_t)left_ms : wait_ms; }

int rp_queue_reader_fill(rp_queue_reader *reader, rp_record_batch *batch, uint32_t wait_ms, rp_error *error) {
    for (;;) {
        int status = RP_OK;
        if (reader->body.data == NULL && reader->progress.next_offset >= reader->options.end_offset)
            return 1;
        if (rp_record_batch_is_full(batch))
            return 0;
        if (reader->body.data == NULL && reader->under_way > 0 && reader->pulls[0].has_arrived)
            status = take_response(reader, error);
        if (status == RP_OK)
            status = ask_ahead(reader, error);
        if (status == RP_OK && reader->body.data != NULL)
            status = decode(reader, batch, error);
        else if (status == RP_OK && reader->under_way > 0 && !reader->pulls[0].has_arrived)
            status = receive(reader, wait_ms, error);
        else if (status == RP_OK && reader->under_way == 0)
            status = receive(reader, shorter_ms(pause_left_ms(reader), wait_ms), error); /* also notices that the connection is lost */
        if (status < 0)
            return status;
    }
}
