/* parked_responses.c: see parked_responses.h. */
#include "parked_responses.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../store/commit_log_ledger.h"
#include "lane.h"
#include "response_writer_inl.h"

#define RING_FIRST 64u

void rp_parked_responses_free(rp_parked_responses *parked) {
    for (uint32_t i = 0; i < parked->count; i++)
        free(parked->ring[(parked->head + i) & (parked->capacity - 1)].large);
    free(parked->ring);
    parked->ring = NULL;
    parked->capacity = parked->head = parked->count = 0;
}

int rp_parked_responses_are_full(const rp_parked_responses *parked, uint32_t more) { return parked->count + more >= RP_PARKED_MAX; }

/* 0: this broker is a slave now, or its lease has run out, so that another may be the master. Then no message may be acknowledged. */
static int is_master(const rp_broker *broker) {
    /* Without a lease no clock is read; this runs for each message of a SYNC_MASTER. */
    int64_t lease_ns = rp_commit_log_lease(broker->commit_log);
    return atomic_load_explicit(&broker->settings.role, memory_order_relaxed) != RP_ROLE_SLAVE &&
           (lease_ns == INT64_MAX || rp_clock_monotonic_ns(rp_clock_system()) < lease_ns);
}

static int64_t replicated_offset(const rp_broker *broker) { return atomic_load_explicit(&broker->replicated_offset, memory_order_acquire); }

/* Returns the remark for an outcome, in characters that need no JSON escapes. */
static rp_slice remark_of(int32_t outcome) {
    static const char no_slave[] = "stored here only: fewer slaves are connected than inSyncReplicas asks for";
    static const char gap[] = "stored here only: the slaves are further behind than haMaxGapNotInSync allows";
    static const char timeout[] = "stored here, perhaps not on a slave: no slave acknowledged it within slaveTimeout";
    static const char not_master[] = "stored here, but this broker is the master no more: it may be lost, or come twice if sent again";
    _Static_assert(RP_RESPONSE_OUTCOME_SIZE(sizeof no_slave) <= RP_OUTCOME_SIZE_MAX && sizeof gap <= sizeof timeout &&
                       RP_RESPONSE_OUTCOME_SIZE(sizeof timeout) <= RP_OUTCOME_SIZE_MAX &&
                       RP_RESPONSE_OUTCOME_SIZE(sizeof not_master) <= RP_OUTCOME_SIZE_MAX,
                   "room for each");
    static const char not_committed[] = "in-sync replicas not enough: no majority of the group had the message within slaveTimeout";
    _Static_assert(RP_RESPONSE_OUTCOME_SIZE(sizeof not_committed) <= RP_OUTCOME_SIZE_MAX, "room for it");
    switch (outcome) {
    case RP_OUTCOME_NOT_COMMITTED:
        return (rp_slice){(const uint8_t *)not_committed, sizeof not_committed - 1};
    case RP_OUTCOME_NO_SLAVE:
        return (rp_slice){(const uint8_t *)no_slave, sizeof no_slave - 1};
    case RP_OUTCOME_GAP:
        return (rp_slice){(const uint8_t *)gap, sizeof gap - 1};
    case RP_OUTCOME_SLAVE_TIMEOUT:
        return (rp_slice){(const uint8_t *)timeout, sizeof timeout - 1};
    case RP_OUTCOME_NOT_MASTER:
        return (rp_slice){(const uint8_t *)not_master, sizeof not_master - 1};
    default:
        return (rp_slice){NULL, 0};
    }
}

uint32_t rp_outcome_write(int32_t outcome, uint8_t *frame, uint32_t size) {
    return outcome == 0 ? size : rp_response_set_outcome(frame, size, RP_OUTCOME_CODE(outcome), remark_of(outcome));
}

uint32_t rp_parked_needs(const rp_broker *broker, int64_t end_offset, int32_t *outcome) {
    const rp_live_settings *settings = &broker->settings;
    uint32_t needs = 0;
    *outcome = 0;
    if (atomic_load_explicit(&settings->flush_mode, memory_order_relaxed) == RP_FLUSH_SYNC &&
        rp_commit_log_flushed_offset(broker->commit_log) < end_offset)
        needs |= RP_NEEDS_FLUSH;
    if (broker->waits_for_commit)
        return RP_NEEDS_COMMIT; /* under SYNC_FLUSH leader and followers count what is on their disks */
    if (atomic_load_explicit(&settings->slave_acks, memory_order_relaxed) <= 0)
        return needs;
    int64_t replicated = replicated_offset(broker);
    if (replicated < end_offset && !is_master(broker)) {
        *outcome = RP_OUTCOME_NOT_MASTER;
    } else if (replicated < 0) {
        *outcome = RP_OUTCOME_NO_SLAVE;
    } else if (end_offset - replicated > atomic_load_explicit(&settings->slave_gap_bytes_max, memory_order_relaxed)) {
        *outcome = RP_OUTCOME_GAP;
    } else if (replicated < end_offset) {
        needs |= RP_NEEDS_SLAVES;
    }
    return needs;
}

/* The leadership is read last: while it is unchanged, what is committed at the offset is what was appended. */
int rp_broker_wait_committed(rp_broker *broker, uint32_t leadership, int64_t end_offset, int64_t timeout_ms) {
    if (!broker->waits_for_commit)
        return RP_OK;
    uint64_t cuts = rp_commit_log_cuts(broker->commit_log);
    if (rp_leadership(broker) != leadership)
        return RP_E_READ_ONLY;
    int status = rp_commit_log_wait_committed(broker->commit_log, end_offset, cuts, timeout_ms > 0 ? (uint32_t)timeout_ms : 0);
    return status == RP_E_RANGE || rp_leadership(broker) != leadership ? RP_E_READ_ONLY : status;
}

void rp_broker_request_flush(const rp_broker *broker, int64_t end_offset) {
    if (atomic_load_explicit(&broker->settings.flush_mode, memory_order_relaxed) == RP_FLUSH_SYNC)
        rp_message_store_request_flush(broker->store, end_offset);
}

int64_t rp_broker_commit_patience_ms(const rp_broker *broker) {
    return atomic_load_explicit(&broker->settings.slave_timeout_ms, memory_order_relaxed);
}

static void publish_head(rp_parked_responses *parked) {
    const rp_parked_response *head = &parked->ring[parked->head & (parked->capacity - 1)];
    atomic_store_explicit(&parked->head_end, head->end_offset, memory_order_release);
}

static int grow(rp_parked_responses *parked) {
    uint32_t capacity = parked->capacity > 0 ? parked->capacity * 2 : RING_FIRST;
    rp_parked_response *ring = malloc(capacity * sizeof *ring);
    if (ring == NULL)
        return RP_E_NO_MEMORY;
    for (uint32_t i = 0; i < parked->count; i++)
        ring[i] = parked->ring[(parked->head + i) & (parked->capacity - 1)];
    free(parked->ring);
    parked->ring = ring;
    parked->capacity = capacity;
    parked->head = 0;
    return RP_OK;
}

/* Returns the place behind the last entry; NULL: no memory. */
static rp_parked_response *next_entry(rp_parked_responses *parked) {
    if (parked->count == parked->capacity && grow(parked) != RP_OK)
        return NULL;
    rp_parked_response *entry = &parked->ring[(parked->head + parked->count) & (parked->capacity - 1)];
    entry->large = NULL;
    return entry;
}

static void add_entry(rp_lane *lane, rp_parked_response *entry, int64_t end_offset, uint32_t needs, int32_t outcome, uint32_t size) {
    rp_parked_responses *parked = &lane->parked;
    entry->end_offset = end_offset;
    entry->arrived_ns = rp_reactor_now_ns(lane->reactor);
    entry->size = size;
    entry->outcome = (int16_t)outcome;
    entry->needs = (uint16_t)needs;
    entry->leadership = lane->leadership;
    if (parked->count++ == 0)
        publish_head(parked);
    if (needs & RP_NEEDS_FLUSH) {
        parked->flush_wanted = end_offset;
        parked->wants_flush = 1;
    }
    /* Read-modify-write, like the flusher's read: whichever comes second sees the other's store (wake_parked in broker.c). */
    atomic_fetch_add_explicit(&lane->counters.parked, 1, memory_order_acq_rel);
}

int rp_parked_responses_push(rp_lane *lane, const rp_answer_to *to, int64_t end_offset, uint32_t needs, int32_t outcome,
                             const uint8_t *frame, uint32_t size) {
    rp_parked_response *entry = next_entry(&lane->parked);
    if (entry == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *target = entry->frame;
    if (size > RP_PARKED_INLINE) {
        target = entry->large = malloc(size);
        if (target == NULL)
            return RP_E_NO_MEMORY;
    }
    memcpy(target, frame, size);
    entry->connection_id = rp_connection_id(to->connection);
    entry->request_code = to->request_code;
    add_entry(lane, entry, end_offset, needs, outcome, size);
    return RP_OK;
}

int rp_parked_responses_push_reply(rp_lane *lane, rp_reply *reply, int64_t end_offset, uint32_t needs) {
    rp_parked_response *entry = next_entry(&lane->parked);
    if (entry == NULL)
        return RP_E_NO_MEMORY;
    entry->reply = reply;
    add_entry(lane, entry, end_offset, needs, 0, 0);
    return RP_OK;
}

void rp_parked_responses_request_flush(rp_lane *lane) {
    rp_parked_responses *parked = &lane->parked;
    if (!parked->wants_flush)
        return;
    parked->wants_flush = 0;
    /* For few responses, and while no sync is under way, this thread makes the sync: waking the flusher is half of what a lone producer
     * waits for besides the disk. With many, the next sync is already requested when one ends, and the flusher is awake. */
    if (parked->count > RP_PARKED_FEW || !rp_message_store_flush_is_idle(lane->broker->store) ||
        rp_reactor_leave(lane->reactor, parked->flush_wanted) != RP_OK)
        rp_message_store_request_flush(lane->broker->store, parked->flush_wanted);
}

static void send_head(rp_lane *lane, rp_parked_response *entry) {
    if (entry->size == 0) {
        rp_reply_stored(entry->reply, entry->outcome != RP_OUTCOME_NOT_COMMITTED && entry->outcome != RP_OUTCOME_NOT_MASTER);
        return;
    }
    uint8_t *frame = entry->large != NULL ? entry->large : entry->frame;
    rp_connection *connection = rp_reactor_connection(lane->reactor, entry->connection_id);
    uint8_t *target = connection != NULL ? rp_connection_reserve(connection, entry->size + RP_OUTCOME_SIZE_MAX) : NULL;
    if (target != NULL) {
        memcpy(target, frame, entry->size);
        rp_connection_commit(connection, rp_outcome_write(entry->outcome, target, entry->size));
        rp_answer_times_note(&lane->answer_times, entry->request_code, RP_OUTCOME_CODE(entry->outcome), entry->arrived_ns);
    } else if (connection != NULL) {
        rp_server_close_connection(lane->server, entry->connection_id);
    }
    free(entry->large);
}

/* The state of the log when the responses were checked. */
typedef struct log_state {
    int64_t now_ns, flushed, replicated;
    uint32_t leadership; /* read after replicated: what is committed does not belong to a later leadership */
    int is_master;
    int disk_failed; /* a sync has failed: nothing will be flushed any more, so nobody waits for it; the message may be on disk */
} log_state;

static log_state look_at_log(const rp_broker *broker, int64_t now_ns) {
    log_state log = {.now_ns = now_ns, .replicated = replicated_offset(broker), .is_master = is_master(broker)};
    log.leadership = rp_leadership(broker);
    log.disk_failed = rp_message_store_writable(broker->store, NULL) == RP_E_READ_ONLY;
    log.flushed = rp_commit_log_flushed_offset(broker->commit_log); /* read afterwards: what was flushed before the failure counts */
    return log;
}

static int64_t flush_timeout_ms(const rp_lane *lane) {
    return atomic_load_explicit(&lane->broker->settings.sync_flush_timeout_ms, memory_order_relaxed);
}

static int64_t slave_timeout_ms(const rp_lane *lane) {
    return atomic_load_explicit(&lane->broker->settings.slave_timeout_ms, memory_order_relaxed);
}

static void update_commit(rp_lane *lane, rp_parked_response *entry, const log_state *log, int64_t waited_ms) {
    int is_gone = entry->leadership != log->leadership || (!log->is_master && log->replicated < entry->end_offset);
    if (!is_gone && log->replicated < entry->end_offset && waited_ms < slave_timeout_ms(lane))
        return;
    entry->needs &= (uint16_t)~RP_NEEDS_COMMIT;
    if (is_gone || log->replicated < entry->end_offset) {
        entry->outcome = is_gone ? RP_OUTCOME_NOT_MASTER : RP_OUTCOME_NOT_COMMITTED;
        rp_count(&lane->counters.slave_timeouts, 1);
    }
}

/* Clears each need that is met, has timed out or can no longer be met. Of two outcomes the slaves' counts, as in RocketMQ. */
static void update_needs(rp_lane *lane, rp_parked_response *entry, const log_state *log) {
    int64_t waited_ms = (log->now_ns - entry->arrived_ns) / RP_NS_PER_MS;
    if ((entry->needs & RP_NEEDS_FLUSH) && log->flushed >= entry->end_offset)
        entry->needs &= (uint16_t)~RP_NEEDS_FLUSH;
    if ((entry->needs & RP_NEEDS_SLAVES) && log->replicated >= entry->end_offset)
        entry->needs &= (uint16_t)~RP_NEEDS_SLAVES;
    if (entry->needs & RP_NEEDS_COMMIT)
        update_commit(lane, entry, log, waited_ms);
    if ((entry->needs & RP_NEEDS_SLAVES) && !log->is_master) {
        entry->needs = 0; /* then its disk does not matter either */
        entry->outcome = RP_OUTCOME_NOT_MASTER;
        rp_count(&lane->counters.slave_timeouts, 1);
    }
    if ((entry->needs & RP_NEEDS_FLUSH) && (log->disk_failed || waited_ms >= flush_timeout_ms(lane))) {
        entry->needs &= (uint16_t)~RP_NEEDS_FLUSH;
        if (entry->outcome == 0)
            entry->outcome = RP_OUTCOME_FLUSH_TIMEOUT;
        rp_count(&lane->counters.flush_timeouts, 1);
    }
    if ((entry->needs & RP_NEEDS_SLAVES) && waited_ms >= slave_timeout_ms(lane)) {
        entry->needs &= (uint16_t)~RP_NEEDS_SLAVES;
        entry->outcome = RP_OUTCOME_SLAVE_TIMEOUT;
        rp_count(&lane->counters.slave_timeouts, 1);
    }
}

static int64_t deadline_of(const rp_lane *lane, const rp_parked_response *entry) {
    int64_t wait_ms = INT64_MAX / RP_NS_PER_MS;
    if (entry->needs & RP_NEEDS_FLUSH)
        wait_ms = flush_timeout_ms(lane);
    if ((entry->needs & (RP_NEEDS_SLAVES | RP_NEEDS_COMMIT)) && slave_timeout_ms(lane) < wait_ms)
        wait_ms = slave_timeout_ms(lane);
    int64_t deadline_ns = wait_ms < INT64_MAX / RP_NS_PER_MS ? entry->arrived_ns + wait_ms * RP_NS_PER_MS : INT64_MAX;
    int64_t lease_ns = rp_commit_log_lease(lane->broker->commit_log);
    return (entry->needs & RP_NEEDS_SLAVES) && lease_ns < deadline_ns ? lease_ns : deadline_ns;
}

int64_t rp_parked_responses_complete(rp_lane *lane, int64_t now_ns) {
    rp_parked_responses *parked = &lane->parked;
    uint32_t sent = 0;
    int64_t next = INT64_MAX;
    if (parked->count == 0)
        return next;
    log_state log = look_at_log(lane->broker, now_ns);
    while (parked->count > 0) {
        rp_parked_response *entry = &parked->ring[parked->head & (parked->capacity - 1)];
        update_needs(lane, entry, &log);
        if (entry->needs != 0) {
            next = deadline_of(lane, entry);
            if (sent > 0)
                publish_head(parked);
            break;
        }
        send_head(lane, entry);
        parked->head = (parked->head + 1) & (parked->capacity - 1);
        parked->count--;
        sent++;
    }
    if (sent > 0)
        atomic_fetch_sub_explicit(&lane->counters.parked, sent, memory_order_acq_rel);
    return next;
}
