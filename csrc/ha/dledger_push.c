/* dledger_push.c: the thread that pushes to one follower: its connection, its window, its answers (dledger_log.h). */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/clock_inl.h"
#include "dledger_log_inl.h"

#define OUTPUT_BYTES (256 * 1024) /* collected before they are sent, unless a single push is larger */
#define INPUT_BYTES (64 * 1024)   /* for answers, which are small */
#define FRAME_HEAD_MAX 512
#define WAIT_MAX_MS 60000 /* of one poll; then the time is checked again */
#define LANGUAGE_JAVA 0

_Static_assert(RP_PUSH_ENTRY_MAX(RP_LEDGER_ENTRY_SIZE_MAX) + RP_PUSH_ENVELOPE_MAX + FRAME_HEAD_MAX <= RP_FRAME_SIZE_MAX,
               "whatever the log takes is pushed");

static int64_t now_ms(const rp_dledger_follower *one) { return rp_clock_monotonic_ns(one->dledger->options.clock) / RP_NS_PER_MS; }

static rp_pusher_view view_of(const rp_dledger_follower *one) {
    const rp_dledger_options *options = &one->dledger->options;
    return (rp_pusher_view){.begin_index = rp_commit_log_begin_index(one->dledger->log),
                            .end_index = rp_commit_log_end_index(one->dledger->log),
                            .committed_index = atomic_load_explicit(&one->dledger->committed_index, memory_order_acquire),
                            .now_ms = now_ms(one),
                            .window = options->window,
                            .window_bytes = options->window_bytes,
                            .retry_ms = options->retry_ms,
                            .commit_interval_ms = options->commit_interval_ms};
}

static void tell_state(rp_dledger_follower *one, const char *error) {
    pthread_mutex_lock(&one->dledger->seen_lock);
    one->row.is_connected = one->fd >= 0;
    one->row.is_appending = one->pusher.is_appending;
    if (error != NULL) {
        snprintf(one->row.last_error, sizeof one->row.last_error, "%s", error);
    }
    pthread_mutex_unlock(&one->dledger->seen_lock);
}

static void disconnect(rp_dledger_follower *one, const char *error) {
    rp_pusher_view view = {.now_ms = now_ms(one), .retry_ms = one->dledger->options.retry_ms};
    if (one->fd >= 0) {
        /* Otherwise the rest of a push that nobody waits for would delay the next connection. */
        if (one->opaque_first != one->opaque_next) {
            struct linger at_once = {.l_onoff = 1};
            setsockopt(one->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        close(one->fd);
        one->fd = -1;
    }
    one->output_size = one->output_at = one->input_size = 0;
    one->bytes_out = one->bytes_arrived = 0;
    one->opaque_first = one->opaque_next;
    rp_pusher_lost(&one->pusher, &view);
    tell_state(one, error);
}

static void connect_follower(rp_dledger_follower *one) {
    char why[RP_DIAL_WHY_MAX];
    if (one->fd >= 0 || one->pusher.term < 0 || now_ms(one) < one->pusher.quiet_until_ms) {
        return;
    }
    one->fd = rp_dial(&one->look_ups, one->address, one->dledger->options.push_timeout_ms, &one->dledger->stopping, why);
    if (one->fd < 0) {
        disconnect(one, why);
    } else {
        tell_state(one, NULL);
    }
}

/* ---- sending ---- */

static int make_room(rp_dledger_follower *one, uint64_t more) {
    uint64_t wanted = one->output_size + more;
    if (wanted > RP_FRAME_SIZE_MAX + 2ull * OUTPUT_BYTES) {
        return RP_E_TOO_LARGE;
    }
    if (wanted > one->output_capacity) {
        uint64_t capacity = wanted + wanted / 2;
        uint8_t *larger = realloc(one->output, capacity);
        if (larger == NULL) {
            return RP_E_NO_MEMORY;
        }
        one->output = larger;
        one->output_capacity = (uint32_t)capacity;
    }
    return RP_OK;
}

/* Appends the entry's text to this push; *unit is its head. RP_OK, 1: the batch is full, or a status. */
static int add_entry(rp_dledger_follower *one, int64_t index, uint64_t batch_left, int is_first, rp_ledger_entry *unit) {
    rp_log_range range;
    int rc = rp_commit_log_read_entry(one->dledger->log, index, &range, unit);
    if (rc != RP_OK) {
        return rc;
    }
    if (!is_first && unit->size > batch_left) {
        rc = 1;
    } else if ((rc = make_room(one, RP_PUSH_ENTRY_MAX(unit->size) + RP_PUSH_ENVELOPE_MAX)) == RP_OK) {
        one->output_size += rp_push_add(unit, range.address + RP_LEDGER_HEAD_SIZE, is_first, one->output + one->output_size);
    }
    rp_log_range_release(range.pin);
    return rc;
}

/* Under read_lock: writes the push's entries, with the envelope around them. */
static int write_body(rp_dledger_follower *one, const rp_pusher_view *view, rp_push *push, int64_t *end_offset) {
    const rp_dledger_log *dledger = one->dledger;
    rp_push_envelope envelope = {dledger->group, dledger->self_id, one->id, one->pusher.term, push->commit_index, push->type};
    uint32_t batch_bytes = push->type == RP_PUSH_APPEND ? dledger->options.batch_bytes : 0;
    int is_batch = batch_bytes != 0, rc = make_room(one, RP_PUSH_ENVELOPE_MAX);
    if (rc != RP_OK) {
        return rc;
    }
    one->output_size += rp_push_begin(&envelope, is_batch, push->index >= 0, one->output + one->output_size);
    push->last_index = push->index;
    for (int64_t index = push->index; rc == RP_OK && push->index >= 0; index++) {
        rp_ledger_entry unit;
        bool is_last = !is_batch || index == view->end_index || push->bytes >= batch_bytes;
        rc = add_entry(one, index, batch_bytes - (push->bytes < batch_bytes ? push->bytes : batch_bytes), index == push->index, &unit);
        if (rc != RP_OK) {
            break;
        }
        push->last_index = index;
        push->bytes += unit.size;
        *end_offset = unit.position + unit.size;
        if (is_last) {
            break;
        }
    }
    if (rc == RP_OK || rc == 1) {
        one->output_size += rp_push_end(is_batch, one->output + one->output_size);
        rc = RP_OK;
    }
    return rc;
}

static uint32_t write_head(const rp_dledger_follower *one, uint32_t body_size, uint8_t *target) {
    rp_command command;
    rp_command_clear(&command, RP_DLEDGER_PUSH, RP_SERIALIZE_JSON);
    command.language = LANGUAGE_JAVA;
    command.opaque = (int32_t)one->opaque_next;
    command.body = (rp_slice){NULL, body_size};
    int64_t size = rp_command_encode(&command, target, FRAME_HEAD_MAX);
    return size < 0 ? 0 : (uint32_t)size;
}

/* Appends a whole frame to the output. RP_OK; otherwise nothing is added. */
static int add_push(rp_dledger_follower *one, const rp_pusher_view *view, rp_push *push) {
    uint32_t begin = one->output_size;
    int64_t end_offset = 0;
    uint8_t head[FRAME_HEAD_MAX];
    int rc = make_room(one, FRAME_HEAD_MAX);
    pthread_mutex_lock(&one->read_lock);
    bool leads = atomic_load(&one->dledger->leads_term) == one->pusher.term;
    if (rc == RP_OK && leads) {
        one->output_size += FRAME_HEAD_MAX;
        rc = write_body(one, view, push, &end_offset);
    }
    pthread_mutex_unlock(&one->read_lock);
    uint32_t body_begin = begin + FRAME_HEAD_MAX, body_size = one->output_size - body_begin;
    uint32_t head_size = rc == RP_OK && leads ? write_head(one, body_size, head) : 0;
    if (head_size == 0) {
        one->output_size = begin;
        return rc != RP_OK ? rc : RP_E_CLOSED;
    }
    memcpy(one->output + begin, head, head_size);
    memmove(one->output + begin + head_size, one->output + body_begin, body_size);
    one->output_size = begin + head_size + body_size;
    one->bytes_out += head_size + body_size;
    one->sent[one->opaque_next % RP_DLEDGER_WINDOW_MAX] =
        (rp_push_sent){.push = *push, .sent_ms = view->now_ms, .end_offset = end_offset, .end_byte = one->bytes_out, .is_open = true};
    one->opaque_next++;
    return RP_OK;
}

static void count_sent(rp_dledger_follower *one, const rp_push *push) {
    pthread_mutex_lock(&one->dledger->seen_lock);
    one->row.entries_sent += push->index >= 0 ? (uint64_t)(push->last_index - push->index + 1) : 0;
    one->row.bytes_sent += push->bytes;
    pthread_mutex_unlock(&one->dledger->seen_lock);
}

/* Adds pushes up to what is sent at once. RP_OK, or why the connection has to end. */
static int gather(rp_dledger_follower *one, rp_pusher_view *view) {
    rp_push push, all = {.index = 0, .last_index = -1};
    int rc = RP_OK;
    while (one->output_size < OUTPUT_BYTES && one->opaque_next - one->opaque_first < RP_DLEDGER_WINDOW_MAX &&
           rp_pusher_next(&one->pusher, view, &push)) {
        rc = add_push(one, view, &push);
        if (rc != RP_OK) {
            break;
        }
        rp_pusher_sent(&one->pusher, &push, view);
        all.last_index += push.index >= 0 ? push.last_index - push.index + 1 : 0;
        all.bytes += push.bytes;
    }
    if (all.bytes != 0) {
        count_sent(one, &all);
    }
    one->seen_end = view->end_index;
    one->seen_committed = view->committed_index;
    return rc == RP_E_CLOSED ? RP_OK : rc;
}

/* Sends what the socket takes. 0, or an errno. */
static int flush(rp_dledger_follower *one) {
    while (one->output_at < one->output_size) {
        ssize_t sent = send(one->fd, one->output + one->output_at, one->output_size - one->output_at, MSG_NOSIGNAL);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : errno;
        }
        one->output_at += (uint32_t)sent;
    }
    one->output_at = one->output_size = 0;
    return 0;
}

static void push(rp_dledger_follower *one) {
    rp_pusher_view view = view_of(one);
    int rc = RP_OK, os_errno = 0;
    if (one->pusher.is_appending && one->pusher.next_index < view.begin_index) {
        disconnect(one, "retention has taken what it wants next");
        return;
    }
    while (os_errno == 0 && rc == RP_OK && one->output_size == 0) {
        rc = gather(one, &view);
        if (one->output_size == 0) {
            break;
        }
        os_errno = flush(one);
    }
    if (rc != RP_OK || os_errno != 0) {
        char why[RP_DIAL_WHY_MAX];
        snprintf(why, sizeof why, "cannot push: %s", rc != RP_OK ? rp_status_text(rc) : strerror(os_errno));
        disconnect(one, why);
    }
}

/* ---- answers ---- */

static void take_answer(rp_dledger_follower *one, const rp_push_sent *sent, const rp_push_response *response) {
    rp_dledger_log *dledger = one->dledger;
    rp_pusher_view view = view_of(one);
    int64_t before = one->pusher.matched_index;
    rp_pusher_answered(&one->pusher, &sent->push, response, &view);
    pthread_mutex_lock(&dledger->lock);
    if (response->term > one->pusher.term) {
        rp_dledger_raise_claim(dledger, response->term, "");
    }
    if (one->pusher.matched_index != before && dledger->is_leader && dledger->term == one->pusher.term) {
        one->matched_index = one->pusher.matched_index;
        one->matched_offset = one->matched_index < 0 ? 0 : sent->end_offset;
    }
    rp_dledger_advance(dledger); /* a COMMIT changes nothing, but entries that found no room in a queue are retried */
    rp_dledger_leave(dledger);
    tell_state(one, NULL);
}

/* Handles one frame. RP_OK, or a status that ends the connection. */
static int take_frame(rp_dledger_follower *one, const uint8_t *frame, uint32_t size) {
    rp_command command;
    rp_push_response response;
    rp_arena_reset(one->arena);
    int rc = rp_command_decode(frame, size, one->arena, &command, NULL);
    if (rc != RP_OK || (command.flag & RP_COMMAND_RESPONSE) == 0) {
        return rc != RP_OK ? rc : RP_E_PROTOCOL;
    }
    rp_push_sent *sent = &one->sent[(uint32_t)command.opaque % RP_DLEDGER_WINDOW_MAX];
    if ((uint32_t)command.opaque - one->opaque_first >= one->opaque_next - one->opaque_first || !sent->is_open) {
        return RP_OK; /* the answer to a push that is no longer open */
    }
    sent->is_open = false;
    if (command.code != RP_DLEDGER_FRAME_CODE && command.code != 0) {
        return RP_E_PROTOCOL;
    }
    rc = rp_push_response_read(command.body, one->arena, &response);
    if (rc == RP_OK && response.code == RP_DLEDGER_SUCCESS && response.term != one->pusher.term) {
        return RP_E_PROTOCOL; /* not from a member of this term: it would be counted as one that holds entries */
    }
    if (rc == RP_OK) {
        take_answer(one, sent, &response);
    }
    while (one->opaque_first != one->opaque_next && !one->sent[one->opaque_first % RP_DLEDGER_WINDOW_MAX].is_open) {
        one->opaque_first++;
    }
    return rc;
}

/* Handles the whole frames in the input; a partial one stays. */
static int take_frames(rp_dledger_follower *one) {
    uint32_t at = 0, frame_size = 0;
    int rc = 1;
    while (one->fd >= 0 && (rc = rp_frame_scan(one->input + at, one->input_size - at, INPUT_BYTES, &frame_size)) == 1) {
        rc = take_frame(one, one->input + at, frame_size);
        if (rc != RP_OK) {
            return rc;
        }
        at += frame_size;
    }
    memmove(one->input, one->input + at, one->input_size - at);
    one->input_size -= at;
    return rc < 0 ? rc : RP_OK;
}

static void receive(rp_dledger_follower *one) {
    char why[RP_DIAL_WHY_MAX];
    for (;;) {
        ssize_t got = recv(one->fd, one->input + one->input_size, INPUT_BYTES - one->input_size, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        int os_errno = errno;
        one->input_size += got > 0 ? (uint32_t)got : 0;
        int rc = got > 0 ? take_frames(one) : RP_E_CLOSED;
        if (rc != RP_OK) {
            snprintf(why, sizeof why, "connection ended: %s", got < 0 ? strerror(os_errno) : rp_status_text(rc));
            disconnect(one, why);
            return;
        }
    }
}

/* Returns how much of this connection's output has reached the follower's machine. */
static uint64_t bytes_arrived(const rp_dledger_follower *one) {
    int in_socket = 0;
    (void)ioctl(one->fd, SIOCOUTQ, &in_socket); /* 0 if it fails */
    return one->bytes_out - (one->output_size - one->output_at) - (uint64_t)in_socket;
}

/* Returns until when the oldest push may stay without an answer. */
static int64_t overdue_ms(const rp_dledger_follower *one) {
    int64_t sent_ms = one->sent[one->opaque_first % RP_DLEDGER_WINDOW_MAX].sent_ms;
    return (sent_ms > one->moved_ms ? sent_ms : one->moved_ms) + (int64_t)one->dledger->options.push_timeout_ms;
}

/* Not overdue while it is still arriving: a large entry on a slow link, begun again each time, would never arrive, nor anything behind
 * it. */
static bool is_overdue(rp_dledger_follower *one, int64_t now) {
    if (one->opaque_first == one->opaque_next || now <= overdue_ms(one)) {
        return false;
    }
    uint64_t before = one->bytes_arrived, end = one->sent[one->opaque_first % RP_DLEDGER_WINDOW_MAX].end_byte;
    one->bytes_arrived = bytes_arrived(one);
    if (before >= end || one->bytes_arrived <= before) {
        return true;
    }
    one->moved_ms = now;
    return false;
}

/* ---- turns ---- */

static int timeout_ms(const rp_dledger_follower *one) {
    rp_pusher_view view = view_of(one);
    int64_t due = one->output_size == 0 ? rp_pusher_due_ms(&one->pusher, &view) : INT64_MAX; /* the socket has to take the output first */
    if (one->fd >= 0 && one->opaque_first != one->opaque_next) {
        int64_t late = overdue_ms(one) + 1;
        due = late < due ? late : due;
    }
    if (due == INT64_MAX) {
        return -1;
    }
    int64_t wait_ms = due - view.now_ms;
    return wait_ms <= 0 ? 1 : wait_ms > WAIT_MAX_MS ? WAIT_MAX_MS : (int)wait_ms;
}

/* Nothing new to send has appeared since the last check. */
static bool is_idle(const rp_dledger_follower *one) {
    const rp_dledger_log *dledger = one->dledger;
    if (atomic_load(&dledger->stopping) || atomic_load(&dledger->leads_term) != one->pusher.term) {
        return false;
    }
    bool may_send = one->pusher.term >= 0 && one->pusher.is_appending && one->output_size == 0;
    return !may_send || (rp_commit_log_end_index(dledger->log) == one->seen_end &&
                         atomic_load_explicit(&dledger->committed_index, memory_order_acquire) == one->seen_committed);
}

static void wait(rp_dledger_follower *one) {
    struct pollfd polled[2] = {{.fd = one->wake_fd, .events = POLLIN},
                               {.fd = one->fd, .events = (short)(POLLIN | (one->output_at < one->output_size ? POLLOUT : 0))}};
    atomic_store(&one->sleeping, 1);
    atomic_thread_fence(memory_order_seq_cst);
    int timeout = is_idle(one) ? timeout_ms(one) : 0;
    if (poll(polled, one->fd >= 0 ? 2 : 1, timeout) > 0 && (polled[0].revents & POLLIN) != 0) {
        uint64_t drained;
        (void)!read(one->wake_fd, &drained, sizeof drained);
    }
    atomic_store(&one->sleeping, 0);
}

static void enter_term(rp_dledger_follower *one, int64_t term) {
    if (term != one->pusher.term) {
        disconnect(one, NULL); /* what is on its way does not belong to this term */
        rp_pusher_begin(&one->pusher, term);
    }
}

void rp_dledger_push_run(void *context) {
    rp_dledger_follower *one = context;
    rp_dledger_log *dledger = one->dledger;
    one->input = malloc(INPUT_BYTES);
    while (!atomic_load(&dledger->stopping)) {
        enter_term(one, atomic_load(&dledger->leads_term));
        if (one->input == NULL && (one->input = malloc(INPUT_BYTES)) == NULL) {
            one->pusher.quiet_until_ms = now_ms(one) + dledger->options.retry_ms;
        } else {
            connect_follower(one);
        }
        if (one->fd >= 0 && one->output_size == 0) {
            push(one);
        }
        wait(one);
        if (one->fd >= 0 && one->output_size != 0) {
            int os_errno = flush(one);
            if (os_errno != 0) {
                disconnect(one, strerror(os_errno));
            }
        }
        if (one->fd >= 0) {
            receive(one);
        }
        if (one->fd >= 0 && is_overdue(one, now_ms(one))) {
            disconnect(one, "a push was not answered in time");
        }
    }
}
