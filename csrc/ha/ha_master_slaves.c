/* ha_master_slaves.c: the slaves of a master: how they connect, report their offsets and leave (ha_master.h). */
#include "ha_master_inl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/clock_inl.h"
#include "acked_offsets.h"

#define TOLD_MAX 20u /* log lines about connections within a second */

void rp_ha_tell_acked(rp_ha_master *master) {
    const rp_ha_master_options *options = &master->options;
    pthread_mutex_lock(&master->tell_lock);
    uint32_t min = atomic_load_explicit(&master->slaves_min, memory_order_acquire);
    int64_t end = rp_commit_log_max_offset(options->commit_log);
    uint32_t required = atomic_load_explicit(&master->slaves_required, memory_order_acquire);
    int64_t gap = atomic_load_explicit(&master->fewer_gap_bytes, memory_order_acquire);
    if (gap > 0)
        required = rp_acked_required(master->acked, options->slaves_max, required, min, end - gap);
    int64_t acked = required > 0 ? rp_ha_master_acked_offset(master, required) : INT64_MAX;
    int64_t in_sync = min > 0 ? rp_ha_master_acked_offset(master, min) : INT64_MAX;
    int is_more_confirmed = rp_ha_switch_judge(master, &acked, &in_sync);
    int64_t settled = acked < end ? acked : end; /* nobody waits for offsets below, whoever connects */
    master->settled = settled > master->settled ? settled : master->settled;
    if (options->on_in_sync != NULL && min > 0)
        options->on_in_sync(options->context, in_sync);
    if (options->on_acked != NULL)
        options->on_acked(options->context, acked);
    pthread_mutex_unlock(&master->tell_lock);
    if (is_more_confirmed)
        rp_commit_log_dispatch_replicated(options->commit_log);
}

/* May another line about a connection be logged? Strangers that come by the thousand must not fill the disk. */
static int may_tell(rp_ha_master *master) {
    int64_t now_ns = rp_clock_monotonic_ns(master->options.clock);
    if (now_ns - master->told_since_ns >= RP_HA_REST_NS) {
        if (master->untold > 0)
            rp_log_write(master->options.log, RP_LOG_WARNING, "ha: %u more connections came, went or were refused within a second",
                         master->untold);
        master->told_since_ns = now_ns;
        master->told = master->untold = 0;
    }
    if (master->told < TOLD_MAX) {
        master->told++;
        return 1;
    }
    master->untold++;
    return 0;
}

void rp_ha_drop_slave(rp_ha_master *master, uint32_t slot, int level, const char *why) {
    rp_ha_connection *connection = master->slots[slot];
    int64_t acked = rp_ha_connection_acked(connection);
    if (acked > 0 || may_tell(master)) /* the loss of a slave that held something is always logged */
        rp_log_write(master->options.log, level, "ha: slave %s dropped at acked offset %lld: %s", rp_ha_connection_address(connection),
                     (long long)acked, why);
    (void)rp_ha_watch(master, EPOLL_CTL_DEL, rp_ha_connection_fd(connection), 0, 0); /* closing would do it too */
    pthread_mutex_lock(&master->table_lock);
    master->slots[slot] = NULL;
    if (level > RP_LOG_INFO)
        snprintf(master->last_drop, sizeof master->last_drop, "%s", why);
    pthread_mutex_unlock(&master->table_lock);
    int64_t broker_id = rp_ha_connection_broker_id(connection);
    atomic_store_explicit(&master->acked[slot], -1, memory_order_release);
    atomic_store_explicit(&master->ids[slot], -1, memory_order_release);
    rp_ha_connection_destroy(connection);
    rp_ha_tell_acked(master);
    rp_ha_switch_miss(master, broker_id);
}

void rp_ha_drop_for(rp_ha_master *master, uint32_t slot, const rp_error *error) {
    int is_bad_ack = error->status == RP_E_RANGE;
    /* A connection that ends without a word was no slave: a health check, this broker's own check of its port. */
    int is_stranger = error->status == RP_E_NETWORK && rp_ha_connection_acked(master->slots[slot]) < 0;
    rp_ha_count(is_bad_ack ? &master->counters.dropped_bad_ack : &master->counters.dropped_other, 1);
    rp_ha_drop_slave(master, slot, is_bad_ack ? RP_LOG_ERROR : is_stranger ? RP_LOG_DEBUG : RP_LOG_WARNING, error->message);
}

/* A slave that lost its link connects again while its old connection still looks alive here, and would count twice. The protocol carries
 * no slave id, and two slaves may share a host: so connections from the newcomer's host count only for what is acknowledged already,
 * until they report again. A dead connection never does and falls to housekeeping; a living one answers the heartbeat. */
static void doubt_older_connections(rp_ha_master *master, uint32_t newcomer) {
    if (master->options.epochs != NULL) /* its id tells them apart */
        return;
    uint32_t required = atomic_load_explicit(&master->slaves_required, memory_order_acquire);
    uint32_t min = atomic_load_explicit(&master->slaves_min, memory_order_acquire); /* minInSyncReplicas may require more */
    int64_t settled = rp_ha_master_acked_offset(master, min > required ? min : required);
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        if (slot == newcomer || master->slots[slot] == NULL || !rp_ha_connection_shares_host(master->slots[slot], master->slots[newcomer]))
            continue;
        if (atomic_load_explicit(&master->acked[slot], memory_order_relaxed) > settled)
            atomic_store_explicit(&master->acked[slot], settled, memory_order_release);
        rp_ha_connection_ask(master->slots[slot]);
    }
}

/* Returns how much of a slave's first report counts as an ack. That report requests bytes, from which the slave learns whether its log
 * is ours; until it knows that, no send may be answered by its report. */
static int64_t trusted_at_first(rp_ha_master *master, rp_ha_connection *newcomer) {
    int64_t acked = rp_ha_connection_acked(newcomer);
    if (master->options.epochs != NULL) /* it has compared our epochs with its own */
        return acked;
    pthread_mutex_lock(&master->tell_lock);
    int64_t settled = master->settled;
    pthread_mutex_unlock(&master->tell_lock);
    if (settled < 0 || acked <= settled) /* nobody waits before there was a slave */
        return acked;
    rp_ha_connection_ask(newcomer);
    return settled;
}

/* A slave that lost its link and connects again is one replica: an older connection with the same id is dropped. */
static void keep_one_of_each(rp_ha_master *master, uint32_t newcomer) {
    int64_t id = rp_ha_connection_broker_id(master->slots[newcomer]);
    if (id < 0 || id == atomic_load_explicit(&master->ids[newcomer], memory_order_relaxed))
        return;
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++)
        if (slot != newcomer && master->slots[slot] != NULL && rp_ha_connection_broker_id(master->slots[slot]) == id)
            rp_ha_drop_slave(master, slot, RP_LOG_WARNING, "its broker has connected again");
    atomic_store_explicit(&master->ids[newcomer], id, memory_order_release);
}

/* Logged only now: what connected may have been no slave. */
static void tell_connected(rp_ha_master *master, const rp_ha_connection *connection) {
    rp_ha_slave_row row;
    rp_ha_connection_read_row(connection, &row);
    rp_log_write(master->options.log, RP_LOG_INFO, "ha: slave %s connected", row.address);
    int64_t left_out = row.next_offset - rp_commit_log_min_offset(master->options.commit_log);
    if (row.request_offset == 0 && left_out > 0)
        rp_log_write(master->options.log, RP_LOG_NOTICE,
                     "ha: slave %s has no log and gets ours from offset %lld on, where the last file begins: it will not have the %lld "
                     "bytes before, unless it starts with a copy of this store",
                     row.address, (long long)row.next_offset, (long long)left_out);
}

void rp_ha_receive_from_slave(rp_ha_master *master, uint32_t slot, int64_t now_ns, int64_t heard_ns) {
    rp_error error;
    rp_ha_connection *connection = master->slots[slot];
    int is_new = rp_ha_connection_acked(connection) < 0;
    int moved = rp_ha_connection_receive(connection, now_ns, heard_ns, &error);
    if (moved < 0) {
        rp_ha_drop_for(master, slot, &error);
        return;
    }
    keep_one_of_each(master, slot);
    int64_t acked = rp_ha_connection_acked(connection);
    rp_ha_count(&master->counters.acks, moved > 0);
    if (acked == atomic_load_explicit(&master->acked[slot], memory_order_relaxed)) {
        if (atomic_load_explicit(&master->fewer_gap_bytes, memory_order_relaxed) > 0)
            rp_ha_tell_acked(master); /* it may have stayed too far behind to count */
        rp_ha_switch_look(master, slot);
        return;
    }
    if (is_new) {
        if (may_tell(master))
            tell_connected(master, connection);
        doubt_older_connections(master, slot);
        acked = trusted_at_first(master, connection);
    }
    atomic_store_explicit(&master->acked[slot], acked, memory_order_release);
    rp_ha_tell_acked(master);
    rp_ha_switch_look(master, slot);
}

static int free_slot(const rp_ha_master *master) {
    for (int slot = 0; slot < master->options.slaves_max; slot++)
        if (master->slots[slot] == NULL)
            return slot;
    return -1;
}

/* Returns the slot that has been connected longest without a report; -1 if all have reported. A slave reports at once. */
static int silent_slot(const rp_ha_master *master) {
    int found = -1;
    int64_t oldest_ms = INT64_MAX;
    for (int slot = 0; slot < master->options.slaves_max; slot++) {
        rp_ha_slave_row row;
        rp_ha_connection_read_row(master->slots[slot], &row);
        if (row.request_offset < 0 && row.connected_ms < oldest_ms) {
            oldest_ms = row.connected_ms;
            found = slot;
        }
    }
    return found;
}

static int make_room(rp_ha_master *master) {
    int slot = free_slot(master);
    if (slot < 0 && (slot = silent_slot(master)) >= 0) {
        rp_ha_count(&master->counters.dropped_silent, 1);
        rp_ha_drop_slave(master, (uint32_t)slot, RP_LOG_WARNING, "it has said nothing and another one wants its place");
    }
    return slot;
}

static void admit_slave(rp_ha_master *master, int fd, const rp_address *address, int64_t now_ns) {
    if (!atomic_load_explicit(&master->is_leading, memory_order_relaxed)) {
        rp_ha_count(&master->counters.refused, 1);
        close(fd);
        return;
    }
    int slot = make_room(master);
    rp_ha_connection *connection =
        slot < 0 ? NULL : rp_ha_connection_create(&master->options, fd, address, now_ns, rp_clock_wall_ms(master->options.clock));
    if (connection == NULL || rp_ha_watch(master, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, (uint64_t)slot) < 0) {
        char text[RP_ADDRESS_TEXT_MAX];
        rp_address_text(address, text);
        rp_ha_count(&master->counters.refused, 1);
        if (may_tell(master))
            rp_log_write(master->options.log, RP_LOG_ERROR, "ha: slave %s refused: %s", text,
                         slot < 0 ? "as many slaves as slaves_max allows are connected" : "out of memory or descriptors");
        if (connection != NULL)
            rp_ha_connection_destroy(connection);
        else
            close(fd);
        return;
    }
    rp_ha_connection_tell_confirmed(connection, &master->confirmed);
    rp_ha_count(&master->counters.accepted, 1);
    master->slot_events[slot] = EPOLLIN | EPOLLRDHUP;
    pthread_mutex_lock(&master->table_lock);
    master->slots[slot] = connection;
    pthread_mutex_unlock(&master->table_lock);
}

/* Accepts no more connections in a turn than there is room for, so that their reports are read before others may take their places. */
void rp_ha_accept_slaves(rp_ha_master *master, int64_t now_ns) {
    for (int round = 0; round < master->options.slaves_max; round++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        int fd = accept4(master->listen_fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            rp_address address;
            rp_address_from_socket(&address, &peer);
            admit_slave(master, fd, &address, now_ns);
            continue;
        }
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) { /* descriptors or memory are out: it would fail again at once */
            rp_log_write(master->options.log, RP_LOG_ERROR, "ha: accept failed: %s; slaves can connect again in a second", strerror(errno));
            (void)rp_ha_watch(master, EPOLL_CTL_DEL, master->listen_fd, 0, 0);
            master->listen_again_ns = now_ns + RP_HA_REST_NS;
        }
        return;
    }
}
