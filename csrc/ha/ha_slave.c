/* ha_slave.c: see ha_slave.h. One thread: wait for an address, connect, report our offset, receive into the log, ack, repeat.
 * ha_slave_receive.c handles what arrives.
 */
#include "ha_slave.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "ha_master.h"
#include "ha_slave_inl.h"

#define BURST_READS_MAX 64 /* then acks are sent, also while the master keeps the socket full */
#define REFUSALS_MAX 4   /* 16 times reconnect_ms */
#define TELL_AGAIN_NS (60 * RP_NS_PER_S) /* for the same trouble in attempt after attempt */

void rp_ha_slave_options_default(rp_ha_slave_options *options) {
    *options = (rp_ha_slave_options){
        .report_interval_ms = 5000,
        .housekeeping_interval_ms = 20000,
        .reconnect_ms = 1000,
        .connect_timeout_ms = 3000,
    };
}

static int64_t interval_ns(const atomic_uint *interval_ms) {
    return (int64_t)atomic_load_explicit(interval_ms, memory_order_relaxed) * RP_NS_PER_MS;
}

/* ---- connection ---- */

static void disconnect(rp_ha_slave *slave, const char *why, int level) {
    int is_attempt = slave->fd < 0 || slave->refusals > 0; /* perhaps one of many attempts */
    int was_connected = slave->fd >= 0;
    if (was_connected)
        close(slave->fd);
    slave->fd = -1;
    slave->retry_ns = rp_ha_slave_now_ns(slave) + ((int64_t)slave->options.reconnect_ms << slave->refusals) * RP_NS_PER_MS;
    pthread_mutex_lock(&slave->lock);
    slave->stats.disconnects += (uint64_t)was_connected;
    int is_told = is_attempt && strncmp(slave->stats.last_error, why, sizeof slave->stats.last_error - 1) == 0 &&
                  rp_ha_slave_now_ns(slave) - slave->told_ns < TELL_AGAIN_NS;
    /* Otherwise nothing is cut for it: the address is meant for the next master. */
    int is_wanted = slave->followed_changes == slave->wanted_changes;
    slave->stats.state = slave->is_diverged && is_wanted ? RP_HA_SLAVE_TRUNCATE : RP_HA_SLAVE_READY;
    slave->stats.bytes_per_second = 0;
    snprintf(slave->stats.last_error, sizeof slave->stats.last_error, "%s", why);
    pthread_mutex_unlock(&slave->lock);
    if (is_told)
        return;
    slave->told_ns = rp_ha_slave_now_ns(slave);
    rp_log_write(slave->options.log, level, "ha: master %s: %s; our log ends at %lld", slave->address, why,
                 (long long)rp_commit_log_max_offset(slave->options.commit_log));
}

static void disconnect_of(rp_ha_slave *slave, const rp_error *error, int level) {
    char why[RP_ERROR_MESSAGE_MAX + RP_ERROR_FILE_MAX + sizeof " []"];
    int has_file = error->file[0] != '\0';
    snprintf(why, sizeof why, "%s%s%s%s", error->message, has_file ? " [" : "", error->file, has_file ? "]" : "");
    disconnect(slave, why, level);
}

/* ---- acks ---- */

static int flush_ack(rp_ha_slave *slave) {
    while (slave->ack_left > 0) {
        ssize_t sent = send(slave->fd, slave->ack + slave->ack_size - slave->ack_left, slave->ack_left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? RP_OK : RP_E_NETWORK;
        slave->ack_left -= (uint32_t)sent;
        slave->last_write_ns = rp_ha_slave_now_ns(slave);
        atomic_store_explicit(&slave->last_write_ms, rp_clock_wall_ms(slave->options.clock), memory_order_relaxed);
    }
    return RP_OK;
}

/* Reports how far we hold the log if that has moved, or always. An ack that waits for the socket is finished first: whole or nothing.
 * While bytes are being compared nothing is reported: a second report would confirm what we hold, and the next byte may differ. */
static int report_offset(rp_ha_slave *slave, int always) {
    int status = flush_ack(slave);
    if (status < 0 || slave->ack_left > 0 || slave->is_shaking) {
        slave->last_write_ns = always ? rp_ha_slave_now_ns(slave) : slave->last_write_ns;
        return status;
    }
    int64_t offset = rp_ha_slave_held_offset(slave);
    if (rp_ha_slave_is_comparing(slave) && slave->body_left > 0) {
        slave->last_write_ns = always ? rp_ha_slave_now_ns(slave) : slave->last_write_ns; /* its time has come */
        return RP_OK;
    }
    if (!always && offset == slave->acked_offset)
        return RP_OK;
    if (slave->options.epochs != NULL)
        rp_switch_put_ack(slave->ack, offset);
    else
        rp_put_u64(slave->ack, (uint64_t)offset);
    slave->ack_size = slave->ack_left = slave->options.epochs != NULL ? RP_SWITCH_ACK_SIZE : RP_HA_OFFSET_SIZE;
    slave->acked_offset = offset;
    return flush_ack(slave);
}

/* Sends the first report of a connection. */
static int begin_talk(rp_ha_slave *slave) {
    if (slave->options.epochs == NULL)
        return report_offset(slave, 1);
    rp_ha_slave_put_hello(slave);
    return flush_ack(slave);
}

static void tell_of_queues(rp_ha_slave *slave) {
    uint64_t begun = rp_commit_log_queues_begun(slave->options.commit_log);
    if (begun != slave->queues_begun)
        rp_ha_signal_fd(slave->transfer_fd);
    slave->queues_begun = begun;
}

/* Takes what the socket holds, then acks. */
static int receive_burst(rp_ha_slave *slave, rp_error *error) {
    for (int i = 0; i < BURST_READS_MAX; i++) {
        int more = rp_ha_slave_receive_some(slave, error);
        if (more < 0) {
            (void)report_offset(slave, 0); /* what did arrive counts; the connection ends anyway */
            return more;
        }
        if (more == 0)
            break;
    }
    tell_of_queues(slave);
    int is_asked = slave->is_asked;
    slave->is_asked = 0;
    if (report_offset(slave, is_asked) < 0)
        return rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "acknowledging failed: %s", strerror(errno));
    return RP_OK;
}

/* ---- the thread ---- */

/* Waits for the socket, the wake-up or timeout_ms (-1: no limit). Returns poll's events for the socket. */
static int wait_for(rp_ha_slave *slave, int64_t timeout_ms) {
    struct pollfd polled[2] = {{.fd = slave->wake_fd, .events = POLLIN},
                               {.fd = slave->fd, .events = (short)(POLLIN | (slave->ack_left > 0 ? POLLOUT : 0))}};
    (void)poll(polled, slave->fd >= 0 ? 2 : 1, timeout_ms > 60000 ? 60000 : (int)timeout_ms); /* a failure counts as no event */
    if (polled[0].revents != 0) {
        uint64_t drained;
        (void)!read(slave->wake_fd, &drained, sizeof drained);
    }
    return slave->fd >= 0 ? polled[1].revents : 0;
}

static int64_t ms_until(int64_t deadline_ns, int64_t time_ns) {
    return deadline_ns <= time_ns ? 0 : (deadline_ns - time_ns + RP_NS_PER_MS - 1) / RP_NS_PER_MS;
}

/* Takes over a changed address. 1 if it changed. */
static int follow_wanted_address(rp_ha_slave *slave) {
    char wanted[RP_ENDPOINT_TEXT_MAX];
    pthread_mutex_lock(&slave->lock);
    memcpy(wanted, slave->wanted_address, sizeof wanted);
    uint64_t changes = slave->wanted_changes;
    atomic_store(&slave->moves_on, atomic_load(&slave->stopping));
    pthread_mutex_unlock(&slave->lock);
    if (changes == slave->followed_changes)
        return 0;
    slave->is_diverged = 0;
    if (slave->fd >= 0)
        disconnect(slave, "the master's address changed", RP_LOG_INFO);
    pthread_mutex_lock(&slave->lock);
    slave->stats.truncate_to = -1;
    slave->left_changes = changes;
    pthread_cond_broadcast(&slave->left);
    pthread_mutex_unlock(&slave->lock);
    memcpy(slave->address, wanted, sizeof wanted);
    slave->followed_changes = changes;
    slave->retry_ns = 0;
    slave->refusals = 0;
    return 1;
}

/* The connection that was opened belongs to a master that is no longer wanted: nothing is sent on it, and its end is not logged as a
 * fault. */
static int moves_on(rp_ha_slave *slave) {
    if (!atomic_load(&slave->moves_on))
        return 0;
    if (slave->fd >= 0)
        close(slave->fd);
    slave->fd = -1;
    return 1;
}

static void try_connect(rp_ha_slave *slave) {
    rp_error damage;
    if (rp_commit_log_damaged_at(slave->options.commit_log, &damage) >= 0) { /* until the broker is restarted */
        slave->refusals = REFUSALS_MAX;
        disconnect_of(slave, &damage, RP_LOG_ERROR);
        return;
    }
    rp_commit_log_dispatch_replicated(slave->options.commit_log); /* as with a heartbeat: the master may stay away */
    rp_error unread;
    if (rp_overlap_begin(&slave->overlap, slave->options.commit_log, &unread) < 0) {
        disconnect_of(slave, &unread, RP_LOG_ERROR);
        return;
    }
    char why[RP_DIAL_WHY_MAX];
    slave->fd = rp_dial(&slave->look_ups, slave->address, slave->options.connect_timeout_ms, &slave->moves_on, why);
    if (moves_on(slave))
        return;
    if (slave->fd < 0) {
        disconnect(slave, why, RP_LOG_WARNING);
        return;
    }
    int64_t time_ns = rp_ha_slave_now_ns(slave);
    slave->input_at = slave->input_end = slave->body_left = slave->ack_left = 0;
    slave->is_asked = slave->is_answered = slave->is_behind = 0;
    slave->waits = 0;
    slave->heard_count = 0;
    slave->last_read_ns = slave->last_write_ns = slave->window_start_ns = time_ns;
    slave->window_bytes = 0;
    pthread_mutex_lock(&slave->lock);
    slave->stats.connects++;
    pthread_mutex_unlock(&slave->lock);
    slave->is_shaking = slave->options.epochs != NULL;
    if (slave->is_shaking)
        rp_ha_slave_begin_handshake(slave);
    else if (!rp_ha_slave_is_comparing(slave))
        rp_ha_slave_begin_transfer(slave);
    rp_log_write(slave->options.log, RP_LOG_INFO, "ha: connected to master %s, our log ends at %lld", slave->address,
                 (long long)rp_commit_log_max_offset(slave->options.commit_log));
    if (begin_talk(slave) < 0)
        disconnect(slave, "the first report failed", RP_LOG_WARNING);
}

static void serve_connection(rp_ha_slave *slave) {
    int64_t time_ns = rp_ha_slave_now_ns(slave);
    int64_t report_at = slave->last_write_ns + interval_ns(&slave->report_interval_ms);
    int64_t leave_at = slave->last_read_ns + interval_ns(&slave->housekeeping_interval_ms);
    int events = wait_for(slave, ms_until(report_at < leave_at ? report_at : leave_at, time_ns));
    rp_error error;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && receive_burst(slave, &error) < 0) {
        /* Refused, the master's log is not ours, or ours accepts no more, as with a full disk: an operator has to mend that. */
        if ((!slave->is_answered || error.status != RP_E_NETWORK) && slave->refusals < REFUSALS_MAX)
            slave->refusals++;
        disconnect_of(slave, &error, error.status == RP_E_RANGE ? RP_LOG_ERROR : RP_LOG_WARNING);
        return;
    }
    time_ns = rp_ha_slave_now_ns(slave);
    if (time_ns - slave->last_read_ns > interval_ns(&slave->housekeeping_interval_ms))
        disconnect(slave, "silent for longer than haHousekeepingInterval", RP_LOG_WARNING);
    else if (((events & POLLOUT) != 0 || time_ns >= report_at) && report_offset(slave, time_ns >= report_at) < 0)
        disconnect(slave, "reporting our offset failed", RP_LOG_WARNING);
}

static void ha_slave_run(void *context) {
    rp_ha_slave *slave = context;
    while (!atomic_load_explicit(&slave->stopping, memory_order_acquire)) {
        (void)follow_wanted_address(slave);
        if (slave->fd >= 0) {
            serve_connection(slave);
            continue;
        }
        int64_t time_ns = rp_ha_slave_now_ns(slave);
        if (slave->address[0] == '\0' || slave->is_diverged)
            (void)wait_for(slave, -1);
        else if (time_ns < slave->retry_ns)
            (void)wait_for(slave, ms_until(slave->retry_ns, time_ns));
        else
            try_connect(slave);
    }
    if (slave->fd >= 0)
        close(slave->fd);
    slave->fd = -1;
    pthread_mutex_lock(&slave->lock);
    slave->stats.state = RP_HA_SLAVE_SHUTDOWN;
    slave->left_changes = UINT64_MAX;
    pthread_cond_broadcast(&slave->left);
    pthread_mutex_unlock(&slave->lock);
}

/* ---- open, close, any thread ---- */

static void close_fds(const rp_ha_slave *slave) {
    if (slave->wake_fd >= 0)
        close(slave->wake_fd);
    if (slave->transfer_fd >= 0)
        close(slave->transfer_fd);
}

int rp_ha_slave_open(const rp_ha_slave_options *options, rp_ha_slave **opened, rp_error *error) {
    if (options->commit_log == NULL || options->report_interval_ms < 1 || options->housekeeping_interval_ms < 1)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "ha slave needs a commit log and intervals of at least 1 ms");
    rp_ha_slave *slave = calloc(1, sizeof *slave);
    if (slave == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the ha slave");
    slave->options = *options;
    slave->fd = -1;
    rp_backlog_pipe_init(&slave->pipe);
    slave->stats.master_offset = slave->stats.confirm_offset = slave->stats.truncate_to = -1;
    slave->header_size = options->epochs != NULL ? RP_SWITCH_TRANSFER_SIZE : RP_HA_HEADER_SIZE;
    atomic_init(&slave->report_interval_ms, options->report_interval_ms);
    atomic_init(&slave->housekeeping_interval_ms, options->housekeeping_interval_ms);
    pthread_mutex_init(&slave->lock, NULL);
    pthread_cond_init(&slave->left, NULL);
    slave->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    slave->transfer_fd = slave->wake_fd < 0 ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int status =
        slave->transfer_fd < 0 ? rp_error_set(error, RP_E_IO, errno, NULL, -1, "no eventfd for the ha slave: %s", strerror(errno)) : RP_OK;
    if (status == RP_OK) {
        status = rp_thread_start(&slave->thread, "ha-slave", ha_slave_run, slave);
        if (status < 0)
            rp_error_set(error, status, 0, NULL, -1, "cannot start the ha thread: %s", rp_thread_refusal(status));
    }
    if (status < 0) {
        close_fds(slave);
        pthread_cond_destroy(&slave->left);
        pthread_mutex_destroy(&slave->lock);
        free(slave);
        return status;
    }
    *opened = slave;
    return RP_OK;
}

void rp_ha_slave_close(rp_ha_slave *slave) {
    if (slave == NULL)
        return;
    pthread_mutex_lock(&slave->lock);
    atomic_store(&slave->stopping, 1);
    atomic_store(&slave->moves_on, 1);
    pthread_mutex_unlock(&slave->lock);
    rp_ha_signal_fd(slave->wake_fd);
    rp_thread_join(slave->thread);
    rp_look_ups_leave(&slave->look_ups);
    rp_backlog_pipe_close(&slave->pipe);
    close_fds(slave);
    pthread_cond_destroy(&slave->left);
    pthread_mutex_destroy(&slave->lock);
    free(slave);
}

int rp_ha_slave_set_intervals(rp_ha_slave *slave, uint32_t report_interval_ms, uint32_t housekeeping_interval_ms) {
    if (report_interval_ms < 1 || housekeeping_interval_ms < 1)
        return RP_E_INVALID;
    atomic_store_explicit(&slave->report_interval_ms, report_interval_ms, memory_order_relaxed);
    atomic_store_explicit(&slave->housekeeping_interval_ms, housekeeping_interval_ms, memory_order_relaxed);
    rp_ha_signal_fd(slave->wake_fd); /* it may be sleeping until the old interval's end */
    return RP_OK;
}

int rp_ha_slave_transfer_fd(const rp_ha_slave *slave) { return slave->transfer_fd; }

int rp_ha_slave_set_master(rp_ha_slave *slave, const char *address) {
    char host[RP_ENDPOINT_TEXT_MAX];
    const char *port;
    int has_address = address != NULL && address[0] != '\0';
    if (has_address && rp_endpoint_split(address, host, &port) < 0)
        return RP_E_INVALID;
    pthread_mutex_lock(&slave->lock);
    if (strcmp(slave->wanted_address, has_address ? address : "") != 0) {
        snprintf(slave->wanted_address, sizeof slave->wanted_address, "%s", has_address ? address : "");
        snprintf(slave->stats.master_address, sizeof slave->stats.master_address, "%s", slave->wanted_address);
        slave->wanted_changes++;
        atomic_store(&slave->moves_on, 1);
        slave->stats.state = RP_HA_SLAVE_READY; /* set at once: a caller asking now means the new master, which has proved nothing yet */
    }
    pthread_mutex_unlock(&slave->lock);
    rp_ha_signal_fd(slave->wake_fd);
    return RP_OK;
}

void rp_ha_slave_let_go(rp_ha_slave *slave) {
    (void)rp_ha_slave_set_master(slave, NULL); /* cannot fail: no address is valid */
    pthread_mutex_lock(&slave->lock);
    while (slave->left_changes < slave->wanted_changes)
        pthread_cond_wait(&slave->left, &slave->lock);
    pthread_mutex_unlock(&slave->lock);
}

void rp_ha_slave_read_stats(rp_ha_slave *slave, rp_ha_slave_stats *stats) {
    pthread_mutex_lock(&slave->lock);
    *stats = slave->stats;
    pthread_mutex_unlock(&slave->lock);
    stats->max_offset = rp_commit_log_max_offset(slave->options.commit_log);
    stats->last_write_ms = atomic_load_explicit(&slave->last_write_ms, memory_order_relaxed);
}
