/* dledger_log.c: see dledger_log.h. Who leads, what is committed, and the thread that waits for the own disk. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../base/clock_inl.h"
#include "dledger_log_inl.h"

#define FLUSH_PATIENCE_MS 1000
#define OWED_MS 1000 /* until committed messages that found no room in a queue are tried again */

void rp_dledger_options_default(rp_dledger_options *options) {
    *options = (rp_dledger_options){
        .window = 1000, .window_bytes = 4u << 20, .push_timeout_ms = 1000, .retry_ms = 500, .commit_interval_ms = 1000};
}

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

/* In the appender's thread: the log has grown. */
static void appended(void *context) {
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
    if (term < dledger->claim.term || (term == dledger->claim.term && leader_id[0] == 0)) {
        return;
    }
    dledger->claim.term = term;
    strncpy(dledger->claim.leader_id, leader_id, RP_DLEDGER_ID_MAX - 1);
    uint64_t one = 1;
    (void)!write(dledger->claim_fd, &one, sizeof one);
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
        rp_dledger_commit(dledger, 0, 0); /* what is owed to queues */
    }
}

/* Of a member that is alone, or that counts on its disk: how far that is counts when it has come so far. */
static void disk_run(void *context) {
    rp_dledger_log *dledger = context;
    while (!atomic_load(&dledger->stopping)) {
        int64_t end = rp_commit_log_max_offset(dledger->log);
        bool leads = atomic_load(&dledger->leads_term) >= 0, is_there = true;
        if (leads) {
            is_there = !dledger->options.sync || rp_message_store_wait_flushed(dledger->options.store, end, FLUSH_PATIENCE_MS) == RP_OK;
            pthread_mutex_lock(&dledger->lock);
            rp_dledger_advance(dledger);
            pthread_mutex_unlock(&dledger->lock);
        }
        atomic_store(&dledger->disk_sleeping, 1);
        atomic_thread_fence(memory_order_seq_cst);
        bool is_idle = (atomic_load(&dledger->leads_term) >= 0) == leads && rp_commit_log_max_offset(dledger->log) == end;
        if (is_idle && !atomic_load(&dledger->stopping)) {
            bool is_owed = leads && (!is_there || rp_commit_log_dispatched_offset(dledger->log) < end);
            struct pollfd polled = {.fd = dledger->disk_fd, .events = POLLIN};
            uint64_t drained;
            if (poll(&polled, 1, is_owed ? OWED_MS : -1) > 0) {
                (void)!read(dledger->disk_fd, &drained, sizeof drained);
            }
        }
        atomic_store(&dledger->disk_sleeping, 0);
    }
}

/* ---- who leads ---- */

/* Under lock: no entry is read for a follower from now on, nor will be. */
static void stop_pushing(rp_dledger_log *dledger) {
    atomic_store(&dledger->leads_term, -1);
    for (uint32_t i = 0; i < dledger->follower_count; i++) {
        pthread_mutex_lock(&dledger->followers[i]->read_lock);
        pthread_mutex_unlock(&dledger->followers[i]->read_lock);
    }
}

static void step_down(rp_dledger_log *dledger) {
    if (!dledger->is_leader) {
        return;
    }
    rp_commit_log_follow_entries(dledger->log);
    dledger->is_leader = false;
    stop_pushing(dledger);
    if (dledger->options.on_committed != NULL) {
        dledger->options.on_committed(dledger->options.context, -1);
    }
}

static int check_term(const rp_dledger_log *dledger, int64_t term, rp_error *error) {
    return term >= dledger->term ? RP_OK
                                 : rp_error_set(error, RP_E_RANGE, 0, NULL, -1, "term %lld is over: this member is in term %lld",
                                                (long long)term, (long long)dledger->term);
}

/* An entry of this term can only be its one leader's, and all before it with it: also behind a restart nothing of that is cut for a push
 * that was late. */
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
        dledger->heard_ms = 0;
    }
}

int rp_dledger_lead(rp_dledger_log *dledger, int64_t term, rp_error *error) {
    rp_ledger_ends ends;
    pthread_mutex_lock(&dledger->lock);
    int rc = check_term(dledger, term, error);
    if (rc == RP_OK && !(dledger->is_leader && term == dledger->term)) {
        step_down(dledger);
        enter(dledger, term, dledger->self_id);
        rc = rp_commit_log_lead_entries(dledger->log, term, error);
        if (rc == RP_OK) {
            rp_commit_log_read_ends(dledger->log, &ends);
            for (uint32_t i = 0; i < dledger->follower_count; i++) {
                dledger->followers[i]->matched_index = -1;
                dledger->followers[i]->matched_offset = 0;
            }
            rp_ledger_entry first;
            rp_log_range range;
            dledger->first_end = INT64_MAX;
            if (rp_commit_log_read_entry(dledger->log, ends.end_index, &range, &first) == RP_OK) {
                dledger->first_end = first.position + first.size; /* or of one behind it already: no matter */
                rp_log_range_release(range.pin);
            }
            dledger->is_leader = true;
            if (dledger->options.on_committed != NULL) {
                dledger->options.on_committed(dledger->options.context, dledger->committed_offset);
            }
            atomic_store(&dledger->leads_term, term);
        } else {
            memset(dledger->leader_id, 0, sizeof dledger->leader_id);
        }
    }
    pthread_mutex_unlock(&dledger->lock);
    wake_followers(dledger);
    rp_dledger_wake(&dledger->disk_sleeping, dledger->disk_fd);
    return rc;
}

int rp_dledger_follow(rp_dledger_log *dledger, int64_t term, const char *leader_id, rp_error *error) {
    leader_id = leader_id == NULL ? "" : leader_id;
    if (leader_id[0] != 0 && rp_dledger_member(dledger, (rp_slice){(const uint8_t *)leader_id, (uint32_t)strlen(leader_id)}) == NULL) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "%.60s is none of the other members of group %s", leader_id, dledger->group);
    }
    pthread_mutex_lock(&dledger->lock);
    int rc = check_term(dledger, term, error);
    if (rc == RP_OK) {
        step_down(dledger);
        enter(dledger, term, leader_id);
    }
    pthread_mutex_unlock(&dledger->lock);
    wake_followers(dledger);
    return rc;
}

int rp_dledger_fd(const rp_dledger_log *dledger) { return dledger->claim_fd; }

void rp_dledger_take_claim(rp_dledger_log *dledger, rp_dledger_claim *claim) {
    uint64_t drained;
    pthread_mutex_lock(&dledger->lock);
    (void)!read(dledger->claim_fd, &drained, sizeof drained);
    *claim = dledger->claim;
    memset(&dledger->claim, 0, sizeof dledger->claim);
    pthread_mutex_unlock(&dledger->lock);
}

/* ---- open and close ---- */

static int add_follower(rp_dledger_log *dledger, const char *id, size_t id_size, const char *address, size_t address_size) {
    rp_dledger_follower *one = calloc(1, sizeof *one);
    if (one == NULL) {
        return RP_E_NO_MEMORY;
    }
    one->dledger = dledger;
    memcpy(one->id, id, id_size);
    memcpy(one->address, address, address_size);
    memcpy(one->row.id, one->id, sizeof one->id);
    memcpy(one->row.address, one->address, sizeof one->address);
    one->row.matched_index = one->matched_index = -1;
    one->fd = one->wake_fd = -1;
    pthread_mutex_init(&one->read_lock, NULL);
    rp_pusher_begin(&one->pusher, -1);
    dledger->followers[dledger->follower_count++] = one;
    one->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    one->arena = rp_arena_create(65536, 1 << 20);
    return one->wake_fd >= 0 && one->arena != NULL ? RP_OK : RP_E_NO_MEMORY;
}

/* "n0-host:port;n1-host:port". */
static int read_peers(rp_dledger_log *dledger, rp_error *error) {
    bool has_self = false;
    const char *at = dledger->options.peers == NULL ? "" : dledger->options.peers;
    while (*at != 0) {
        size_t size = strcspn(at, ";");
        const char *dash = memchr(at, '-', size), *port;
        char host[RP_ENDPOINT_TEXT_MAX], endpoint[RP_ENDPOINT_TEXT_MAX] = {0};
        size_t id_size = dash == NULL ? 0 : (size_t)(dash - at), address_size = dash == NULL ? 0 : size - id_size - 1;
        char id[RP_DLEDGER_ID_MAX] = {0};
        if (id_size == 0 || id_size >= RP_DLEDGER_ID_MAX || address_size == 0 || address_size >= sizeof endpoint) {
            return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "dLegerPeers: \"%.*s\" is not ID-HOST:PORT", (int)(size < 80 ? size : 80),
                                at);
        }
        memcpy(id, at, id_size);
        memcpy(endpoint, dash + 1, address_size);
        bool is_self = strcmp(id, dledger->self_id) == 0;
        if ((is_self && has_self) || !rp_dledger_is_plain(id, sizeof id) || rp_endpoint_split(endpoint, host, &port) != RP_OK ||
            rp_dledger_member(dledger, (rp_slice){(const uint8_t *)at, (uint32_t)id_size}) != NULL ||
            dledger->follower_count == RP_DLEDGER_PEERS_MAX - 1) {
            return rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                                "dLegerPeers: %s is no member's, is there twice, or is one of more than %d", id, RP_DLEDGER_PEERS_MAX);
        }
        has_self = has_self || is_self;
        int rc = is_self ? RP_OK : add_follower(dledger, id, id_size, endpoint, address_size);
        if (rc != RP_OK) {
            return rp_error_set(error, rc, 0, NULL, -1, "no memory or descriptors for the members of group %s", dledger->group);
        }
        at += size + (at[size] == ';');
    }
    return has_self ? RP_OK : rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "dLegerPeers do not name this member, %s", dledger->self_id);
}

static int check_options(rp_dledger_log *dledger, rp_error *error) {
    const rp_dledger_options *options = &dledger->options;
    if (!rp_dledger_is_plain(options->group, RP_DLEDGER_GROUP_MAX) || !rp_dledger_is_plain(options->self_id, RP_DLEDGER_ID_MAX)) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "dLegerGroup and dLegerSelfId are short names of printable ASCII");
    }
    snprintf(dledger->group, sizeof dledger->group, "%s", options->group);
    snprintf(dledger->self_id, sizeof dledger->self_id, "%s", options->self_id);
    if (!rp_commit_log_has_entries(dledger->log)) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "the store was not opened with a log of entries");
    }
    if (options->window < 1 || options->window > RP_DLEDGER_WINDOW_MAX || options->window_bytes < 1 || options->push_timeout_ms < 1 ||
        options->retry_ms < 1 || options->commit_interval_ms < 1) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "window, timeouts and pauses are at least 1, the window at most %d",
                            RP_DLEDGER_WINDOW_MAX);
    }
    return read_peers(dledger, error);
}

static int start(rp_dledger_log *dledger, rp_error *error) {
    int rc = RP_OK;
    for (uint32_t i = 0; i < dledger->follower_count && rc == RP_OK; i++) {
        char name[RP_THREAD_NAME_MAX + RP_DLEDGER_ID_MAX];
        snprintf(name, sizeof name, "push-%s", dledger->followers[i]->id);
        rc = rp_thread_start(&dledger->followers[i]->thread, name, rp_dledger_push_run, dledger->followers[i]);
    }
    if (rc == RP_OK && (dledger->options.sync || dledger->follower_count == 0)) {
        rc = rp_thread_start(&dledger->disk_thread, "dledger-disk", disk_run, dledger);
    }
    if (rc != RP_OK) {
        return rp_error_set(error, rc, 0, NULL, -1, "cannot start the threads of the DLedger log: %s", rp_thread_refusal(rc));
    }
    rc = rp_message_store_on_appended(dledger->options.store, appended, dledger);
    return rc == RP_OK ? rc : rp_error_set(error, rc, 0, NULL, -1, "too many follow the log");
}

int rp_dledger_open(const rp_dledger_options *options, rp_dledger_log **opened, rp_error *error) {
    rp_dledger_log *dledger = calloc(1, sizeof *dledger);
    if (dledger == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the DLedger log");
    }
    dledger->options = *options;
    dledger->log = rp_message_store_commit_log(options->store);
    dledger->handler = (rp_handler){.context = dledger, .on_request = rp_dledger_on_request, .on_turn_end = rp_dledger_on_turn_end};
    dledger->matched_index = -1;
    atomic_init(&dledger->leads_term, -1);
    pthread_mutex_init(&dledger->lock, NULL);
    dledger->claim_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    dledger->disk_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int rc = dledger->claim_fd >= 0 && dledger->disk_fd >= 0
                 ? check_options(dledger, error)
                 : rp_error_set(error, RP_E_IO, errno, NULL, -1, "no eventfd for the DLedger log: %s", strerror(errno));
    if (rc == RP_OK) {
        dledger->committed_offset = rp_commit_log_dispatched_offset(dledger->log);
        atomic_init(&dledger->committed_index, rp_commit_log_index_below(dledger->log, dledger->committed_offset));
        rc = start(dledger, error);
    }
    dledger->options.group = dledger->group;
    dledger->options.self_id = dledger->self_id;
    dledger->options.peers = NULL;
    if (rc != RP_OK) {
        rp_dledger_close(dledger);
        return rc;
    }
    *opened = dledger;
    return RP_OK;
}

static void close_follower(rp_dledger_follower *one) {
    uint64_t wake = 1;
    if (one->wake_fd >= 0) {
        (void)!write(one->wake_fd, &wake, sizeof wake);
    }
    rp_thread_join(one->thread);
    if (one->fd >= 0) {
        close(one->fd);
    }
    if (one->wake_fd >= 0) {
        close(one->wake_fd);
    }
    rp_arena_destroy(one->arena);
    pthread_mutex_destroy(&one->read_lock);
    free(one->output);
    free(one->input);
    free(one);
}

void rp_dledger_close(rp_dledger_log *dledger) {
    if (dledger == NULL) {
        return;
    }
    uint64_t wake = 1;
    pthread_mutex_lock(&dledger->lock);
    step_down(dledger);
    pthread_mutex_unlock(&dledger->lock);
    rp_message_store_forget_appended(dledger->options.store, dledger);
    atomic_store(&dledger->stopping, 1);
    if (dledger->disk_fd >= 0) {
        (void)!write(dledger->disk_fd, &wake, sizeof wake);
    }
    rp_thread_join(dledger->disk_thread);
    for (uint32_t i = 0; i < dledger->follower_count; i++) {
        close_follower(dledger->followers[i]);
    }
    if (dledger->disk_fd >= 0) {
        close(dledger->disk_fd);
    }
    if (dledger->claim_fd >= 0) {
        close(dledger->claim_fd);
    }
    pthread_mutex_destroy(&dledger->lock);
    free(dledger->entry_bytes);
    free(dledger);
}

const rp_handler *rp_dledger_handler(rp_dledger_log *dledger) { return &dledger->handler; }

void rp_dledger_read_state(rp_dledger_log *dledger, rp_dledger_state *state) {
    rp_ledger_ends ends;
    pthread_mutex_lock(&dledger->lock);
    rp_commit_log_read_ends(dledger->log, &ends);
    *state = (rp_dledger_state){.term = dledger->term,
                                .is_leader = dledger->is_leader,
                                .is_writable = rp_message_store_writable(dledger->options.store, NULL) == RP_OK,
                                .begin_index = ends.begin_index,
                                .end_index = ends.end_index,
                                .end_term = ends.end_term,
                                .end_offset = ends.end_offset,
                                .committed_index = atomic_load_explicit(&dledger->committed_index, memory_order_relaxed),
                                .committed_offset = dledger->committed_offset,
                                .heard_ms = dledger->heard_ms,
                                .pushes_taken = dledger->pushes_taken,
                                .pushes_refused = dledger->pushes_refused,
                                .entries_appended = dledger->entries_appended,
                                .cuts = dledger->cuts};
    memcpy(state->leader_id, dledger->leader_id, sizeof state->leader_id);
    pthread_mutex_unlock(&dledger->lock);
}

uint32_t rp_dledger_read_followers(rp_dledger_log *dledger, rp_dledger_follower_row *rows, uint32_t rows_max) {
    pthread_mutex_lock(&dledger->lock);
    for (uint32_t i = 0; i < dledger->follower_count && i < rows_max; i++) {
        rows[i] = dledger->followers[i]->row;
        rows[i].matched_index = dledger->followers[i]->matched_index;
        rows[i].matched_offset = rows[i].matched_index < 0 ? -1 : dledger->followers[i]->matched_offset;
    }
    pthread_mutex_unlock(&dledger->lock);
    return dledger->follower_count;
}
