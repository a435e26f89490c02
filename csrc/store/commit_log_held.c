/* commit_log_held.c: messages whose queue entries wait until they are confirmed, behind a controller. See commit_log.h.
 *
 *   append ─ record, its queue offset ─► slaves ─ acks ─► confirmed ─ a round of dispatch ─► queue, index, waiting readers
 *
 * A consumer sees nothing that the next master may lack. What is not confirmed is in no queue, so it can be cut while the store is open.
 * The append assigns queue offsets all the same: each queue stores the offset behind its held messages (placed_end), which is valid
 * until the log leads or is cut again (places).
 */
#include "commit_log.h"

#include "commit_log_inl.h"
#include "consume_queue_inl.h"

void rp_commit_log_limit_dispatch(rp_commit_log *log, int64_t offset) {
    pthread_mutex_lock(&log->append_lock);
    log->dispatch_limit = offset;
    pthread_mutex_unlock(&log->append_lock);
}

int rp_commit_log_confirm(rp_commit_log *log, int64_t offset) {
    rp_error error = {0};
    rp_dispatch_round round = {.count = 0};
    pthread_mutex_lock(&log->append_lock);
    log->dispatch_limit = offset;
    int more = rp_commit_log_dispatch_round(log, &round, &error);
    pthread_mutex_unlock(&log->append_lock);
    rp_commit_log_wake_round(log, &round);
    if (more > 0) {
        rp_commit_log_tell_followers(log);
    }
    return more > 0;
}

int64_t rp_consume_queue_next_offset(const rp_consume_queue *queue) {
    const rp_commit_log *log = queue->setup->log;
    int64_t max = rp_consume_queue_max_offset(queue);
    if (atomic_load_explicit(&queue->placed_in, memory_order_relaxed) != atomic_load_explicit(&log->places, memory_order_relaxed)) {
        return max;
    }
    int64_t placed = atomic_load_explicit(&queue->placed_end, memory_order_relaxed);
    return placed > max ? placed : max;
}

void rp_consume_queue_place(rp_consume_queue *queue, int64_t end) {
    uint64_t places = atomic_load_explicit(&queue->setup->log->places, memory_order_relaxed);
    atomic_store_explicit(&queue->placed_end, end, memory_order_relaxed);
    atomic_store_explicit(&queue->placed_in, places, memory_order_relaxed);
}

/* Only assigns the record its queue offset. A record that names an impossible queue gets none. */
static int place_record(rp_commit_log *log, const rp_message *message, rp_dispatch_round *round, rp_error *error) {
    rp_consume_queue *const *queues;
    uint32_t count;
    (void)round;
    int rc = log->place(log->dispatch_context, message, &queues, &count, error);
    return rc == RP_E_CORRUPT ? RP_OK : rc;
}

int rp_commit_log_place_held(rp_commit_log *log, int64_t *end, rp_error *error) {
    int64_t before;
    int rc;
    atomic_fetch_add_explicit(&log->places, 1, memory_order_relaxed);
    *end = rp_commit_log_dispatched_offset(log);
    do {
        rp_dispatch_round round = {.count = 0};
        before = *end;
        rc = rp_commit_log_visit(log, end, log->position, place_record, &round, error);
    } while (rc == RP_OK && *end > before);
    return rc;
}

int rp_commit_log_settle(rp_commit_log *log, int holds_back, rp_error *error) {
    rp_error local = {0};
    error = error == NULL ? &local : error;
    error->status = RP_OK;
    pthread_mutex_lock(&log->append_lock);
    log->dispatch_limit = holds_back ? rp_commit_log_dispatched_offset(log) : INT64_MAX;
    int64_t end = 0;
    int rc = rp_commit_log_dispatch_all(log, error); /* with nothing to dispatch, this only reports whether the log is damaged */
    rc = rc == RP_OK ? rp_commit_log_place_held(log, &end, error) : rc;
    pthread_mutex_unlock(&log->append_lock);
    if (rc == RP_OK) {
        rp_commit_log_tell_followers(log);
        rc = rp_commit_log_cut(log, end, error);
    }
    return rc;
}
