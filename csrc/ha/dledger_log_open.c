/* dledger_log_open.c: opens and closes a member: its options, the other members, its threads. See dledger_log.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../base/slice_inl.h"
#include "dledger_log_inl.h"

#define STUCK_LOOK_MS 10000

void rp_dledger_options_default(rp_dledger_options *options) {
    *options = (rp_dledger_options){
        .window = 1000, .window_bytes = 4u << 20, .push_timeout_ms = 1000, .retry_ms = 500, .commit_interval_ms = 1000};
}

typedef struct peer {
    char id[RP_DLEDGER_ID_MAX], endpoint[RP_ENDPOINT_TEXT_MAX];
} peer;

static int add_follower(rp_dledger_log *dledger, const peer *added) {
    rp_dledger_follower *one = calloc(1, sizeof *one);
    if (one == NULL) {
        return RP_E_NO_MEMORY;
    }
    one->dledger = dledger;
    memcpy(one->id, added->id, sizeof one->id);
    memcpy(one->address, added->endpoint, sizeof one->address);
    memcpy(one->row.id, one->id, sizeof one->id);
    memcpy(one->row.address, one->address, sizeof one->address);
    one->matched_index = -1;
    one->fd = one->wake_fd = -1;
    pthread_mutex_init(&one->read_lock, NULL);
    rp_pusher_begin(&one->pusher, -1);
    dledger->followers[dledger->follower_count++] = one;
    one->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    one->arena = rp_arena_create(65536, 1 << 20);
    return one->wake_fd >= 0 && one->arena != NULL ? RP_OK : RP_E_NO_MEMORY;
}

/* Parses one "n0-host:port". */
static int read_peer(const char *text, size_t size, peer *read, rp_error *error) {
    const char *dash = memchr(text, '-', size);
    size_t id_size = dash == NULL ? 0 : (size_t)(dash - text), endpoint_size = dash == NULL ? 0 : size - id_size - 1;
    if (id_size == 0 || id_size >= sizeof read->id || endpoint_size == 0 || endpoint_size >= sizeof read->endpoint) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "dLegerPeers: \"%.*s\" is not ID-HOST:PORT", (int)(size < 80 ? size : 80),
                            text);
    }
    *read = (peer){0};
    memcpy(read->id, text, id_size);
    memcpy(read->endpoint, dash + 1, endpoint_size);
    return RP_OK;
}

/* Returns what is wrong with a peer; NULL: nothing. */
static const char *fault_of(const peer *one, bool is_known) {
    char host[RP_ENDPOINT_TEXT_MAX];
    const char *port;
    if (!rp_dledger_is_plain(one->id, sizeof one->id)) {
        return "is not printable ASCII";
    }
    if (rp_endpoint_split(one->endpoint, host, &port) != RP_OK) {
        return "has no HOST:PORT";
    }
    return is_known ? "is there twice" : NULL;
}

/* "n0-host:port;n1-host:port". */
static int read_peers(rp_dledger_log *dledger, rp_error *error) {
    bool has_self = false;
    const char *at = dledger->options.peers == NULL ? "" : dledger->options.peers;
    while (*at != 0) {
        peer one;
        size_t size = strcspn(at, ";");
        int rc = read_peer(at, size, &one, error);
        if (rc != RP_OK) {
            return rc;
        }
        bool is_self = strcmp(one.id, dledger->self_id) == 0;
        bool is_known = is_self ? has_self : rp_dledger_member(dledger, rp_slice_of(one.id)) != NULL;
        const char *fault = fault_of(&one, is_known);
        if (fault != NULL) {
            return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "dLegerPeers: %s %s", one.id, fault);
        }
        if (!is_self && dledger->follower_count == RP_DLEDGER_PEERS_MAX - 1) {
            return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "dLegerPeers: %s is one member too many; a group has at most %d", one.id,
                                RP_DLEDGER_PEERS_MAX);
        }
        if (!is_self && (rc = add_follower(dledger, &one)) != RP_OK) {
            return rp_error_set(error, rc, 0, NULL, -1, "no memory or descriptors for the members of group %s", dledger->group);
        }
        has_self = has_self || is_self;
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
        rc = rp_thread_start(&dledger->disk_thread, "dledger-disk", rp_dledger_disk_run, dledger);
    }
    if (rc != RP_OK) {
        return rp_error_set(error, rc, 0, NULL, -1, "cannot start the threads of the DLedger log: %s", rp_thread_refusal(rc));
    }
    rc = rp_message_store_on_appended(dledger->options.store, rp_dledger_appended, dledger);
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
    dledger->matched_index = dledger->gap_index = -1;
    atomic_init(&dledger->leads_term, -1);
    pthread_mutex_init(&dledger->lock, NULL);
    pthread_mutex_init(&dledger->seen_lock, NULL);
    dledger->claim_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    dledger->disk_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int rc = dledger->claim_fd >= 0 && dledger->disk_fd >= 0
                 ? check_options(dledger, error)
                 : rp_error_set(error, RP_E_IO, errno, NULL, -1, "no eventfd for the DLedger log: %s", strerror(errno));
    if (rc == RP_OK) {
        dledger->committed_offset = rp_commit_log_dispatched_offset(dledger->log);
        atomic_init(&dledger->committed_index, rp_commit_log_index_below(dledger->log, dledger->committed_offset));
        pthread_mutex_lock(&dledger->lock);
        rp_dledger_leave(dledger);
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

static void stop_follower(rp_dledger_follower *one) {
    uint64_t wake = 1;
    if (one->wake_fd >= 0) {
        (void)!write(one->wake_fd, &wake, sizeof wake);
    }
    rp_thread_join(one->thread);
    rp_look_ups_leave(&one->look_ups);
}

static void free_follower(rp_dledger_follower *one) {
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
    while (rp_dledger_step_down(dledger, STUCK_LOOK_MS) != RP_OK) { /* waits for an append that is stuck on the disk */
    }
    rp_dledger_leave(dledger);
    rp_message_store_forget_appended(dledger->options.store, dledger);
    atomic_store(&dledger->stopping, 1);
    if (dledger->disk_fd >= 0) {
        (void)!write(dledger->disk_fd, &wake, sizeof wake);
    }
    rp_thread_join(dledger->disk_thread);
    for (uint32_t i = 0; i < dledger->follower_count; i++) { /* each follower's thread may still read all of them */
        stop_follower(dledger->followers[i]);
    }
    for (uint32_t i = 0; i < dledger->follower_count; i++) {
        free_follower(dledger->followers[i]);
    }
    if (dledger->disk_fd >= 0) {
        close(dledger->disk_fd);
    }
    if (dledger->claim_fd >= 0) {
        close(dledger->claim_fd);
    }
    pthread_mutex_destroy(&dledger->lock);
    pthread_mutex_destroy(&dledger->seen_lock);
    free(dledger->entry_bytes);
    free(dledger);
}
