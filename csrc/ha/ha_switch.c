/* ha_switch.c: see ha_switch.h. The locks are those of ha_master_inl.h: transfer_lock, then tell_lock, then those of the log and the
 * epochs and set_lock, which is never held for long: operators and the event loop read what it guards. */
#include "ha_switch.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ha_master_inl.h"

int rp_ha_switch_open(rp_ha_master *master, rp_error *error) {
    const rp_ha_master_options *options = &master->options;
    master->set_fd = -1;
    master->led_epoch = -1;
    atomic_init(&master->confirmed, INT64_MAX);
    atomic_init(&master->is_leading, options->epochs == NULL);
    if (options->epochs == NULL)
        return RP_OK;
    if (options->broker_id < 0)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "a broker behind a controller needs its broker id");
    rp_commit_log_set_following(options->commit_log, 1);
    rp_sync_state_set_begin(&master->set, options->broker_id, 0);
    master->set_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return master->set_fd >= 0 ? RP_OK : rp_error_set(error, RP_E_IO, errno, NULL, -1, "no eventfd for the ha master: %s", strerror(errno));
}

void rp_ha_switch_close(rp_ha_master *master) {
    if (master->set_fd >= 0)
        close(master->set_fd);
}

int rp_ha_master_set_fd(const rp_ha_master *master) { return master->set_fd; }

static void signal_set(const rp_ha_master *master) {
    uint64_t one = 1;
    (void)!write(master->set_fd, &one, sizeof one); /* fails only if it is readable already */
}

/* ---- who is in sync ---- */

static uint32_t read_replicas(const rp_ha_master *master, rp_replica replicas[RP_HA_SLAVES_MAX]) {
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        int64_t acked = atomic_load_explicit(&master->acked[slot], memory_order_acquire);
        int64_t id = atomic_load_explicit(&master->ids[slot], memory_order_acquire);
        if (acked >= 0 && id >= 0)
            replicas[count++] = (rp_replica){id, acked};
    }
    return count;
}

int rp_ha_switch_judge(rp_ha_master *master, int64_t *acked, int64_t *in_sync) {
    const rp_ha_master_options *options = &master->options;
    if (options->epochs == NULL)
        return 0;
    if (!atomic_load_explicit(&master->is_leading, memory_order_acquire)) {
        *acked = *in_sync = -1;
        return 0;
    }
    rp_replica replicas[RP_HA_SLAVES_MAX];
    uint32_t count = read_replicas(master, replicas), min = atomic_load_explicit(&master->slaves_min, memory_order_acquire);
    pthread_mutex_lock(&master->set_lock);
    *in_sync = rp_sync_state_set_size(&master->set) > min ? INT64_MAX : -1;
    int64_t held = rp_sync_state_set_held(&master->set, replicas, count), confirmed = INT64_MAX;
    if (options->all_in_sync_state_set) {
        confirmed = rp_sync_state_set_confirm(&master->set, replicas, count, rp_commit_log_max_offset(options->commit_log));
        confirmed = held == INT64_MAX ? INT64_MAX : confirmed;
        atomic_store_explicit(&master->confirmed, confirmed, memory_order_release);
        *acked = held;
    }
    pthread_mutex_unlock(&master->set_lock);
    if (!options->all_in_sync_state_set)
        return 0;
    return rp_commit_log_confirm(options->commit_log, confirmed); /* before anybody is told of it: what was acknowledged can be read */
}

static int64_t confirm_offset(const rp_ha_master *master) {
    int64_t confirmed = atomic_load_explicit(&master->confirmed, memory_order_acquire);
    int64_t end = rp_commit_log_max_offset(master->options.commit_log);
    return confirmed < end ? confirmed : end;
}

/* Retries queues that had no room for an entry, or records that could not be read: a slave reports every few seconds. */
static void make_up_for_entries(const rp_ha_master *master) {
    rp_commit_log *log = master->options.commit_log;
    if (master->options.all_in_sync_state_set && rp_commit_log_dispatched_offset(log) < confirm_offset(master))
        rp_commit_log_dispatch_replicated(log);
}

/* May it be proposed? It holds what is confirmed, and is in our epoch. */
static int has_caught_up(const rp_ha_master *master, const rp_ha_slave_row *row) {
    return row->broker_id >= 0 && !row->is_learner && row->acked_offset >= confirm_offset(master) && row->acked_offset >= master->lead_from;
}

static int was_told(const rp_ha_master *master, int64_t broker_id) {
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++)
        if (master->is_told[slot] && atomic_load_explicit(&master->ids[slot], memory_order_relaxed) == broker_id)
            return 1;
    return 0;
}

void rp_ha_switch_mark(rp_ha_master *master, rp_ha_slave_row *rows, uint32_t count) {
    if (master->options.epochs == NULL)
        return;
    pthread_mutex_lock(&master->set_lock);
    for (uint32_t i = 0; i < count; i++) {
        rows[i].is_in_set = rp_sync_state_set_has_agreed(&master->set, rows[i].broker_id);
        rows[i].has_caught_up = was_told(master, rows[i].broker_id) || has_caught_up(master, &rows[i]);
    }
    pthread_mutex_unlock(&master->set_lock);
}

void rp_ha_switch_look(rp_ha_master *master, uint32_t slot) {
    if (master->options.epochs == NULL)
        return;
    make_up_for_entries(master);
    rp_ha_slave_row row;
    rp_ha_connection_read_row(master->slots[slot], &row);
    pthread_mutex_lock(&master->set_lock);
    int is_news = !master->is_told[slot] && !rp_sync_state_set_has(&master->set, row.broker_id) && has_caught_up(master, &row);
    master->is_told[slot] |= is_news;
    pthread_mutex_unlock(&master->set_lock);
    if (is_news)
        signal_set(master);
}

void rp_ha_switch_miss(rp_ha_master *master, int64_t broker_id) {
    if (master->options.epochs == NULL || broker_id < 0)
        return;
    pthread_mutex_lock(&master->set_lock);
    int is_missed = rp_sync_state_set_has_agreed(&master->set, broker_id);
    memset(master->is_told, 0, sizeof master->is_told); /* the slots will belong to other slaves */
    pthread_mutex_unlock(&master->set_lock);
    if (is_missed)
        signal_set(master);
}

/* ---- roles ---- */

static void drop_all(rp_ha_master *master, const char *why) {
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++)
        if (master->slots[slot] != NULL)
            rp_ha_drop_slave(master, slot, RP_LOG_INFO, why);
}

static int check_lead(const rp_ha_master *master, const int64_t *ids, uint32_t count, rp_error *error) {
    rp_sync_state_set set;
    if (master->options.epochs == NULL)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "a master without epochs leads all the time");
    rp_sync_state_set_begin(&set, master->options.broker_id, 0);
    if (rp_sync_state_set_agree(&set, ids, count) != RP_OK)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "broker %lld is not in the set that it is to lead, or %u are too many",
                            (long long)master->options.broker_id, count);
    return RP_OK;
}

int rp_ha_master_lead(rp_ha_master *master, int64_t epoch, const int64_t *ids, uint32_t count, rp_error *error) {
    rp_commit_log *log = master->options.commit_log;
    rp_epoch_cache *epochs = master->options.epochs;
    int holds_back = master->options.all_in_sync_state_set && count > 1;
    int status = check_lead(master, ids, count, error);
    if (status < 0)
        return status;
    if (atomic_load_explicit(&master->is_leading, memory_order_acquire) && epoch == rp_epoch_cache_last(epochs))
        return RP_OK;
    if (epoch < rp_epoch_cache_last(epochs))
        return rp_error_set(error, RP_E_RANGE, 0, NULL, epoch, "epoch %lld is over: %lld was the last", (long long)epoch,
                            (long long)rp_epoch_cache_last(epochs));
    rp_ha_master_step_down(master);
    status = rp_commit_log_settle(log, holds_back, error);
    int64_t end = rp_commit_log_max_offset(log);
    if (status == RP_OK && epoch != master->led_epoch)
        status = rp_epoch_cache_append(epochs, epoch, end, error);
    if (status < 0)
        return status;
    master->led_epoch = epoch;
    pthread_mutex_lock(&master->transfer_lock);
    pthread_mutex_lock(&master->tell_lock);
    pthread_mutex_lock(&master->set_lock);
    rp_sync_state_set_begin(&master->set, master->options.broker_id, holds_back ? rp_commit_log_dispatched_offset(log) : end);
    (void)rp_sync_state_set_agree(&master->set, ids, count); /* cannot fail: it was checked */
    memset(master->is_told, 0, sizeof master->is_told);
    master->lead_from = end;
    master->settled = -1;
    atomic_store_explicit(&master->confirmed, holds_back ? master->set.confirmed : INT64_MAX, memory_order_release);
    atomic_store_explicit(&master->is_leading, 1, memory_order_release);
    pthread_mutex_unlock(&master->set_lock);
    pthread_mutex_unlock(&master->tell_lock);
    pthread_mutex_unlock(&master->transfer_lock);
    rp_commit_log_set_following(log, 0);
    rp_ha_tell_acked(master);
    rp_log_write(master->options.log, RP_LOG_NOTICE, "ha: master of epoch %lld from log offset %lld on", (long long)epoch, (long long)end);
    return RP_OK;
}

void rp_ha_master_step_down(rp_ha_master *master) {
    if (master->options.epochs == NULL)
        return;
    rp_commit_log_set_following(master->options.commit_log, 1);
    pthread_mutex_lock(&master->transfer_lock);
    atomic_store_explicit(&master->is_leading, 0, memory_order_release);
    drop_all(master, "this broker leads no more");
    pthread_mutex_unlock(&master->transfer_lock);
    rp_ha_tell_acked(master);
}

/* ---- the set ---- */

typedef int change_set(rp_sync_state_set *set, const int64_t *ids, uint32_t count);

/* was_alone: nobody was waited for until now. */
static int alter_set(rp_ha_master *master, change_set *change, const int64_t *ids, uint32_t count, int *was_alone) {
    pthread_mutex_lock(&master->set_lock);
    *was_alone = rp_sync_state_set_held(&master->set, NULL, 0) == INT64_MAX;
    int status = change(&master->set, ids, count);
    memset(master->is_told, 0, sizeof master->is_told);
    pthread_mutex_unlock(&master->set_lock);
    if (status == RP_OK)
        rp_ha_tell_acked(master);
    return status;
}

int rp_ha_master_agree(rp_ha_master *master, const int64_t *ids, uint32_t count) {
    int was_alone;
    return alter_set(master, rp_sync_state_set_agree, ids, count, &was_alone);
}

int rp_ha_master_propose(rp_ha_master *master, const int64_t *ids, uint32_t count) {
    int was_alone, status = alter_set(master, rp_sync_state_set_propose, ids, count, &was_alone);
    if (status != RP_OK || !was_alone)
        return status;
    /* Sends up to here were acknowledged without any slave: a newcomer must hold all of that before the controller is asked for it. */
    pthread_mutex_lock(&master->set_lock);
    int64_t end = rp_commit_log_max_offset(master->options.commit_log);
    master->set.confirmed = end > master->set.confirmed ? end : master->set.confirmed;
    pthread_mutex_unlock(&master->set_lock);
    rp_ha_tell_acked(master);
    return RP_OK;
}

uint32_t rp_ha_master_read_set(rp_ha_master *master, int64_t *ids, uint32_t ids_max) {
    pthread_mutex_lock(&master->set_lock);
    uint32_t count = master->set.agreed_count;
    memcpy(ids, master->set.agreed, (count < ids_max ? count : ids_max) * sizeof *ids);
    pthread_mutex_unlock(&master->set_lock);
    return count;
}

int64_t rp_ha_master_confirm_offset(rp_ha_master *master) { return confirm_offset(master); }
