/* dledger_log.c: see dledger_log.h. Leadership, and what is committed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "dledger_log_inl.h"

#define LOCK_WAIT_MS 500 /* Python's event loop waits for this long at most */

void rp_dledger_wake(atomic_int *sleeping, int wake_fd) {
    if (atomic_exchange(sleeping, 0)) {
        uint64_t one = 1;
        (void)!write(wake_fd, &one, sizeof one);
    }
}

static void wake_followers(rp_dledger_log *dledger) {
    for (uint32_t i = 0; i < dledger->follower_count; i++) {
        rp_dledger_wake(&dledger->followers[i]->sleeping, dledger->followers[i]->wake_fd);
    }
}

/* Called in the appender's thread: the log has grown. */
void rp_dledger_appended(void *context) {
    rp_dledger_log *dledger = context;
    atomic_thread_fence(memory_order_seq_cst);
    wake_followers(dledger);
    rp_dledger_wake(&dledger->disk_sleeping, dledger->disk_fd);
}

const rp_dledger_follower *rp_dledger_member(const rp_dledger_log *dledger, rp_slice id) {
    for (uint32_t i = 0; i < dledger->follower_count; i++) {
        const rp_dledger_follower *one = dledger->followers[i];
        if (id.size == strlen(one->id) && memcmp(id.data, one->id, id.size) == 0) {
            return one;
        }
    }
    return NULL;
}

void rp_dledger_raise_claim(rp_dledger_log *dledger, int64_t term, const char *leader_id) {
    pthread_mutex_lock(&dledger->seen_lock);
    bool is_news = term > dledger->claim.term || (term == dledger->claim.term && leader_id[0] != 0);
    if (is_news) {
        uint64_t one = 1;
        dledger->claim.term = term;
        strncpy(dledger->claim.leader_id, leader_id, RP_DLEDGER_ID_MAX - 1);
        (void)!write(dledger->claim_fd, &one, sizeof one);
    }
    pthread_mutex_unlock(&dledger->seen_lock);
}

/* ---- what is committed ---- */

void rp_dledger_commit(rp_dledger_log *dledger, int64_t index, int64_t offset) {
    if (offset <= dledger->committed_offset) {
        if (rp_commit_log_dispatched_offset(dledger->log) < dledger->committed_offset) { /* a queue found no room */
            rp_commit_log_commit_entries(dledger->log, dledger->committed_offset);
        }
        return;
    }
    dledger->committed_offset = offset;
    atomic_store_explicit(&dledger->committed_index, index, memory_order_release);
    rp_commit_log_commit_entries(dledger->log, offset);
    if (dledger->is_leader && dledger->options.on_committed != NULL) {
        dledger->options.on_committed(dledger->options.context, offset);
    }
}

static int by_falling_offset(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? 1 : left > right ? -1 : 0;
}

void rp_dledger_advance(rp_dledger_log *dledger) {
    int64_t offsets[RP_DLEDGER_PEERS_MAX];
    uint32_t members = dledger->follower_count + 1;
    if (!dledger->is_leader) {
        return;
    }
    offsets[0] = dledger->options.sync ? rp_commit_log_flushed_offset(dledger->log) : rp_commit_log_max_offset(dledger->log);
    for (uint32_t i = 0; i < dledger->follower_count; i++) {
        offsets[i + 1] = dledger->followers[i]->matched_offset;
    }
    qsort(offsets, members, sizeof *offsets, by_falling_offset);
    int64_t offset = offsets[members / 2];
    if (offset >= dledger->first_end && offset > dledger->committed_offset) {
        rp_dledger_commit(dledger, rp_commit_log_index_below(dledger->log, offset), offset);
        atomic_thread_fence(memory_order_seq_cst);
        wake_followers(dledger);
    } else {
        rp_dledger_commit(dledger, 0, 0); /* dispatches messages that found no room in a queue before */
    }
}

/* ---- who leads ---- */

/* Under lock: when this returns, no entry is being read for a follower, and none will be. */
static void stop_pushing(rp_dledger_log *dledger) {
    atomic_store(&dledger->leads_term, -1);
    for (uint32_t i = 0; i < dledger->follower_count; i++) {
        pthread_mutex_lock(&dledger->followers[i]->read_lock);
        pthread_mutex_unlock(&dledger->followers[i]->read_lock);
    }
}

int rp_dledger_step_down(rp_dledger_log *dledger, uint32_t wait_ms) {
    if (!dledger->is_leader) {
        return RP_OK;
    }
    if (rp_commit_log_follow_entries(dledger->log, wait_ms) != RP_OK) {
        return RP_E_BUSY;
    }
    dledger->is_leader = false;
    stop_pushing(dledger);
    if (dledger->options.on_committed != NULL) {
        dledger->options.on_committed(dledger->options.context, -1);
    }
    return RP_OK;
}

static int stuck(rp_error *error) {
    return rp_error_set(error, RP_E_BUSY, 0, NULL, -1, "the log is held by an append that the disk holds up");
}

static int check_term(const rp_dledger_log *dledger, int64_t term, rp_error *error) {
    return term >= dledger->term ? RP_OK
                                 : rp_error_set(error, RP_E_RANGE, 0, NULL, -1, "term %lld is over: this member is in term %lld",
                                                (long long)term, (long long)dledger->term);
}

/* An entry of this term can come only from its one leader, together with all entries before it: so even after a restart none of them is
 * cut because of a push that was late. */
static int64_t known_to_match(rp_dledger_log *dledger, int64_t term) {
    rp_ledger_ends ends;
    rp_commit_log_read_ends(dledger->log, &ends);
    return ends.end_term == term ? ends.end_index : -1;
}

static void enter(rp_dledger_log *dledger, int64_t term, const char *leader_id) {
    bool is_same = term == dledger->term && strcmp(leader_id, dledger->leader_id) == 0;
    dledger->term = term;
    if (!is_same) {
        memset(dledger->leader_id, 0, sizeof dledger->leader_id);
        memcpy(dledger->leader_id, leader_id, strlen(leader_id));
        dledger->matched_index = known_to_match(dledger, term);
        dledger->gap_index = -1;
        dledger->heard_ms = 0;
    }
}

int rp_dledger_lead(rp_dledger_log *dledger, int64_t term, rp_error *error) {
    rp_ledger_ends ends;
    if (!rp_lock_within(&dledger->lock, LOCK_WAIT_MS)) {
        return stuck(error);
    }
    int rc = check_term(dledger, term, error);
    if (rc == RP_OK && !(dledger->is_leader && term == dledger->term)) {
        rc = rp_dledger_step_down(dledger, LOCK_WAIT_MS) == RP_OK ? RP_OK : stuck(error);
        if (rc == RP_OK) {
            enter(dledger, term, dledger->self_id);
            rc = rp_commit_log_lead_entries(dledger->log, term, error);
        }
        if (rc == RP_OK) {
            rp_commit_log_read_ends(dledger->log, &ends);
            for (uint32_t i = 0; i < dledger->follower_count; i++) {
                dledger->followers[i]->matched_index = -1;
                dledger->followers[i]->matched_offset = 0;
            }
            dledger->first_end = ends.end_offset; /* or the end of a later entry, which serves as well */
            dledger->is_leader = true;
            if (dledger->options.on_committed != NULL) {
                dledger->options.on_committed(dledger->options.context, dledger->committed_offset);
            }
            atomic_store(&dledger->leads_term, term);
        } else if (!dledger->is_leader) {
            memset(dledger->leader_id, 0, sizeof dledger->leader_id);
        }
    }
    rp_dledger_leave(dledger);
    wake_followers(dledger);
    rp_dledger_wake(&dledger->disk_sleeping, dledger->disk_fd);
    return rc;
}

int rp_dledger_follow(rp_dledger_log *dledger, int64_t term, const char *leader_id, rp_error *error) {
    leader_id = leader_id == NULL ? "" : leader_id;
    if (leader_id[0] != 0 && rp_dledger_member(dledger, rp_slice_of(leader_id)) == NULL) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "%.60s is not another member of group %s", leader_id, dledger->group);
    }
    if (!rp_lock_within(&dledger->lock, LOCK_WAIT_MS)) {
        return stuck(error);
    }
    int rc = check_term(dledger, term, error);
    if (rc == RP_OK && rp_dledger_step_down(dledger, LOCK_WAIT_MS) != RP_OK) {
        rc = stuck(error);
    }
    if (rc == RP_OK) {
        enter(dledger, term, leader_id);
    }
    rp_dledger_leave(dledger);
    wake_followers(dledger);
    return rc;
}

int rp_dledger_pause(rp_dledger_log *dledger, int is_paused, rp_error *error) {
    if (!rp_lock_within(&dledger->lock, LOCK_WAIT_MS)) {
        return stuck(error);
    }
    int rc = dledger->is_leader ? rp_commit_log_pause_entries(dledger->log, is_paused, LOCK_WAIT_MS) : RP_E_READ_ONLY;
    rp_dledger_leave(dledger);
    if (rc == RP_E_READ_ONLY) {
        return rp_error_set(error, rc, 0, NULL, -1, "%s does not lead group %s", dledger->self_id, dledger->group);
    }
    return rc == RP_OK ? rc : stuck(error);
}

int rp_dledger_fd(const rp_dledger_log *dledger) { return dledger->claim_fd; }

void rp_dledger_take_claim(rp_dledger_log *dledger, rp_dledger_claim *claim) {
    uint64_t drained;
    pthread_mutex_lock(&dledger->seen_lock);
    (void)!read(dledger->claim_fd, &drained, sizeof drained);
    *claim = dledger->claim;
    memset(&dledger->claim, 0, sizeof dledger->claim);
    pthread_mutex_unlock(&dledger->seen_lock);
}

const rp_handler *rp_dledger_handler(rp_dledger_log *dledger) { return &dledger->handler; }

/* ---- what others see ---- */

void rp_dledger_leave(rp_dledger_log *dledger) {
    pthread_mutex_lock(&dledger->seen_lock);
    dledger->seen = (rp_dledger_state){.term = dledger->term,
                                       .is_leader = dledger->is_leader,
                                       .committed_index = atomic_load_explicit(&dledger->committed_index, memory_order_relaxed),
                                       .committed_offset = dledger->committed_offset,
                                       .heard_ms = dledger->heard_ms,
                                       .gap_index = dledger->gap_index,
                                       .pushes_taken = dledger->pushes_taken,
                                       .pushes_refused = dledger->pushes_refused,
                                       .entries_appended = dledger->entries_appended,
                                       .cuts = dledger->cuts};
    memcpy(dledger->seen.leader_id, dledger->leader_id, sizeof dledger->seen.leader_id);
    for (uint32_t i = 0; i < dledger->follower_count; i++) {
        rp_dledger_follower *one = dledger->followers[i];
        one->row.matched_index = one->matched_index;
        one->row.matched_offset = one->matched_index < 0 ? -1 : one->matched_offset;
    }
    pthread_mutex_unlock(&dledger->seen_lock);
    pthread_mutex_unlock(&dledger->lock);
}

void rp_dledger_read_state(rp_dledger_log *dledger, rp_dledger_state *state) {
    rp_ledger_ends ends;
    pthread_mutex_lock(&dledger->seen_lock);
    *state = dledger->seen;
    pthread_mutex_unlock(&dledger->seen_lock);
    rp_commit_log_peek_ends(dledger->log, &ends);
    state->begin_index = ends.begin_index;
    state->end_index = ends.end_index;
    state->end_term = ends.end_term;
    state->end_offset = ends.end_offset;
    state->is_writable = rp_message_store_writable(dledger->options.store, NULL) == RP_OK;
    state->held_ms = rp_commit_log_held_ms(dledger->log);
}

uint32_t rp_dledger_read_followers(rp_dledger_log *dledger, rp_dledger_follower_row *rows, uint32_t rows_max) {
    pthread_mutex_lock(&dledger->seen_lock);
    for (uint32_t i = 0; i < dledger->follower_count && i < rows_max; i++) {
        rows[i] = dledger->followers[i]->row;
    }
    pthread_mutex_unlock(&dledger->seen_lock);
    return dledger->follower_count;
}
