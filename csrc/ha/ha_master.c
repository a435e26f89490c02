/* ha_master.c: see ha_master.h. One thread, one epoll: listener, wake-up, slaves (ha_master_slaves.c; ha_connection.c does the talking).
 *
 * Senders: the thread that appended the next few bytes sends them to slaves that have kept up, which saves waking another thread; the ha
 * thread handles larger backlogs, full sockets and everything else. transfer_lock makes them take turns.
 *
 * Nobody waits for that lock: an appender sets `pending`, then tries the lock; the holder checks `pending` after releasing it. The ha
 * thread does so after it has set `sleeping`, so that an appender who needs it knows whether to write its eventfd. All of these are
 * sequentially consistent or have such a fence behind them, as has the log's published offset before them: one of the two always sees
 * the other.
 */
#include "ha_master.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/bound_socket.h"
#include "../base/clock_inl.h"
#include "acked_offsets.h"
#include "ha_master_inl.h"
#include "ha_master_options.h"

#define TURN_BYTES_MAX (8u * 1024u * 1024u) /* for each slave and turn, so that one catching up does not starve another */
#define APPENDER_BYTES_MAX (256 * 1024)      /* the largest backlog that an appender sends by itself */
#define APPENDER_ROUNDS_MAX 4               /* how often it does so for others before it leaves the rest to the ha thread */
#define TAG_LISTENER UINT64_MAX
#define TAG_WAKE (UINT64_MAX - 1)

/* ---- sending ---- */

static int pump(rp_ha_master *master, rp_ha_connection *connection, int64_t now_ns, rp_error *error) {
    int status = rp_ha_connection_pump(connection, now_ns, TURN_BYTES_MAX, error);
    rp_ha_count(&master->counters.frames, rp_ha_connection_take_frames(connection));
    rp_ha_count(&master->counters.heartbeats, rp_ha_connection_take_heartbeats(connection));
    rp_ha_count(&master->counters.bytes, rp_ha_connection_take_bytes(connection));
    return status;
}

static void pump_slave(rp_ha_master *master, uint32_t slot, int64_t now_ns) {
    rp_ha_connection *connection = master->slots[slot];
    rp_error error;
    if (pump(master, connection, now_ns, &error) < 0) {
        rp_ha_drop_for(master, slot, &error);
        return;
    }
    uint32_t events = EPOLLIN | EPOLLRDHUP | (rp_ha_connection_wants_write(connection) ? EPOLLOUT : 0);
    if (events != master->slot_events[slot]) {
        master->slot_events[slot] = events;
        /* Cannot fail: the fd is registered and open. */
        (void)rp_ha_watch(master, EPOLL_CTL_MOD, rp_ha_connection_fd(connection), events, slot);
    }
}

/* ---- the thread ---- */

/* Returns how many milliseconds epoll may wait; 0 if there is work. */
static int wait_ms(rp_ha_master *master, int64_t now_ns) {
    int64_t first = master->listen_again_ns;
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        const rp_ha_connection *connection = master->slots[slot];
        if (connection == NULL)
            continue;
        if (rp_ha_connection_has_work(connection))
            return 0;
        int64_t deadline = rp_ha_connection_deadline(connection);
        if (deadline < first)
            first = deadline;
    }
    if (first == INT64_MAX)
        return -1;
    int64_t left = first - now_ns;
    if (left <= 0)
        return 1; /* the deadline's work was tried in this turn and waits for the socket: never spin on it */
    int64_t ms = (left + RP_NS_PER_MS - 1) / RP_NS_PER_MS;
    return ms > 60000 ? 60000 : (int)ms;
}

static void handle_events(rp_ha_master *master, const struct epoll_event *events, int event_count, int64_t now_ns, int64_t heard_ns) {
    int is_called = 0;
    for (int i = 0; i < event_count; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag == TAG_LISTENER)
            is_called = 1;
        else if (tag != TAG_WAKE && master->slots[tag] != NULL && (events[i].events & ~(uint32_t)EPOLLOUT) != 0)
            rp_ha_receive_from_slave(master, (uint32_t)tag, now_ns, heard_ns);
    }
    if (is_called)
        rp_ha_accept_slaves(master, now_ns);
}

static void listen_again(rp_ha_master *master, int64_t now_ns) {
    if (master->listen_again_ns <= now_ns)
        master->listen_again_ns =
            rp_ha_watch(master, EPOLL_CTL_ADD, master->listen_fd, EPOLLIN, TAG_LISTENER) == 0 ? INT64_MAX : now_ns + RP_HA_REST_NS;
}

static void serve_slaves(rp_ha_master *master, int64_t now_ns) {
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        if (master->slots[slot] == NULL)
            continue;
        if (rp_ha_connection_is_silent(master->slots[slot], now_ns)) {
            rp_ha_count(&master->counters.dropped_silent, 1);
            rp_ha_drop_slave(master, slot, RP_LOG_WARNING, "silent for longer than haHousekeepingInterval");
            continue;
        }
        pump_slave(master, slot, now_ns);
    }
}

static int has_slaves(const rp_ha_master *master) {
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        if (master->slots[slot] != NULL)
            return 1;
    }
    return 0;
}

/* Returns since when what is read now may have been in the sockets. If this process comes back late from a wait, it was stopped
 * meanwhile: a slave that has since left for another master may have sent it before that. */
static int64_t heard_since(int64_t waited_from_ns, int timeout, int64_t now_ns) {
    return timeout >= 0 && now_ns - waited_from_ns > timeout * RP_NS_PER_MS + RP_HA_LATE_NS ? waited_from_ns : now_ns;
}

/* Called by a sender before it reads the log's end, or, before trying the lock, by a thread that leaves the sending to its holder. */
static void set_pending(rp_ha_master *master, int is_pending) {
    atomic_store_explicit(&master->pending, is_pending, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static void ha_master_run(void *context) {
    rp_ha_master *master = context;
    struct epoll_event events[RP_HA_SLAVES_MAX];
    int timeout = -1;
    while (!atomic_load_explicit(&master->stopping, memory_order_acquire)) {
        if (atomic_load(&master->pending))
            timeout = 0;
        int64_t waited_from_ns = rp_clock_monotonic_ns(master->options.clock);
        int event_count = epoll_wait(master->epoll_fd, events, RP_HA_SLAVES_MAX, timeout);
        atomic_store(&master->sleeping, 0);
        pthread_mutex_lock(&master->transfer_lock);
        int64_t now_ns = rp_clock_monotonic_ns(master->options.clock);
        if (event_count > 0)
            handle_events(master, events, event_count, now_ns, heard_since(waited_from_ns, timeout, now_ns));
        listen_again(master, now_ns);
        set_pending(master, 0); /* after acks: entries made because of them set it too, and there is nothing to send for them */
        serve_slaves(master, now_ns);
        atomic_store(&master->has_slaves, has_slaves(master)); /* without slaves, appends need not wake the thread: only a connect does */
        atomic_store(&master->sleeping, 1);
        atomic_thread_fence(memory_order_seq_cst);
        timeout = wait_ms(master, now_ns);
        pthread_mutex_unlock(&master->transfer_lock);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

static void wake(rp_ha_master *master) {
    uint64_t one = 1;
    (void)!write(master->wake_fd, &one, sizeof one); /* cannot block: nobody appends that often */
}

/* The appender's turn, under the lock. 1 if something is left for the ha thread. */
static int send_appended(rp_ha_master *master) {
    int is_left = 0;
    int64_t now_ns = rp_clock_monotonic_ns(master->options.clock);
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        rp_ha_connection *connection = master->slots[slot];
        if (connection == NULL)
            continue;
        rp_error error;
        if (rp_ha_connection_wants_write(connection))
            continue; /* the ha thread waits for that */
        if (rp_ha_connection_backlog(connection) > APPENDER_BYTES_MAX || pump(master, connection, now_ns, &error) < 0 ||
            rp_ha_connection_wants_write(connection))
            is_left = 1; /* also for an error: the ha thread meets it again and drops the slave */
    }
    return is_left;
}

/* 1 if something is left for the ha thread. */
static int try_to_send_appended(rp_ha_master *master) {
    int is_left = !master->options.appenders_send;
    for (int round = 0; !is_left && atomic_load(&master->pending) && pthread_mutex_trylock(&master->transfer_lock) == 0; round++) {
        if (round == APPENDER_ROUNDS_MAX) {
            is_left = 1;
        } else {
            set_pending(master, 0);
            is_left = send_appended(master);
        }
        pthread_mutex_unlock(&master->transfer_lock);
        atomic_thread_fence(memory_order_seq_cst);
    }
    return is_left;
}

void rp_ha_master_notify(rp_ha_master *master) {
    atomic_thread_fence(memory_order_seq_cst); /* orders our published offset before the read of the ha thread's state */
    if (!atomic_load(&master->has_slaves))
        return;
    set_pending(master, master->options.appenders_send);
    if (try_to_send_appended(master) && atomic_exchange(&master->sleeping, 0))
        wake(master);
}

/* ---- open and close ---- */

static int listen_on(rp_ha_master *master, rp_error *error) {
    int without_ipv6;
    int status = rp_bound_socket(master->bind_address, master->options.port, &master->listen_fd, &without_ipv6);
    if (status == RP_E_INVALID)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "ha bind address \"%s\" is not an IP address", master->bind_address);
    if (status != RP_OK || listen(master->listen_fd, 64) < 0)
        return rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "cannot listen on ha port %s:%u: %s (%sset haListenPort)",
                            master->bind_address, master->options.port, strerror(errno),
                            errno == EADDRINUSE ? "is another broker running? " : "");
    if (without_ipv6 != 0)
        rp_log_write(master->options.log, RP_LOG_WARNING, "slaves that use IPv6 cannot connect to ha port %u: %s%s", master->options.port,
                     strerror(without_ipv6), without_ipv6 == EADDRINUSE ? "; another process has it there (ss -ltnp6 shows which)" : "");
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    rp_address bound = {0};
    if (getsockname(master->listen_fd, (struct sockaddr *)&address, &size) == 0)
        rp_address_from_socket(&bound, &address);
    master->port = bound.port;
    return RP_OK;
}

static int open_descriptors(rp_ha_master *master, rp_error *error) {
    master->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    master->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (master->epoll_fd < 0 || master->wake_fd < 0)
        return rp_error_set(error, RP_E_IO, errno, NULL, -1, "no descriptors for the ha master: %s (raise the open files limit)",
                            strerror(errno));
    int status = listen_on(master, error);
    if (status < 0)
        return status;
    if (rp_ha_watch(master, EPOLL_CTL_ADD, master->listen_fd, EPOLLIN, TAG_LISTENER) < 0 ||
        rp_ha_watch(master, EPOLL_CTL_ADD, master->wake_fd, EPOLLIN | EPOLLET, TAG_WAKE) < 0) /* edge-triggered, because it is never read */
        return rp_error_set(error, RP_E_IO, errno, NULL, -1, "epoll refused the ha listener: %s", strerror(errno));
    return RP_OK;
}

static void free_master(rp_ha_master *master) {
    for (uint32_t slot = 0; slot < RP_HA_SLAVES_MAX; slot++)
        if (master->slots[slot] != NULL)
            rp_ha_connection_destroy(master->slots[slot]);
    int fds[] = {master->listen_fd, master->wake_fd, master->epoll_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    rp_ha_switch_close(master);
    pthread_mutex_destroy(&master->set_lock);
    pthread_mutex_destroy(&master->tell_lock);
    pthread_mutex_destroy(&master->table_lock);
    pthread_mutex_destroy(&master->transfer_lock);
    free(master);
}

int rp_ha_master_open(const rp_ha_master_options *options, rp_ha_master **opened, rp_error *error) {
    int status = rp_ha_master_options_check(options, error);
    if (status < 0)
        return status;
    rp_ha_master *master = calloc(1, sizeof *master);
    if (master == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the ha master");
    master->options = *options;
    atomic_init(&master->slaves_required, options->slaves_required);
    atomic_init(&master->slaves_min, options->slaves_min);
    atomic_init(&master->fewer_gap_bytes, options->fewer_gap_bytes);
    snprintf(master->bind_address, sizeof master->bind_address, "%s", options->bind_address);
    master->options.bind_address = master->bind_address;
    master->epoll_fd = master->listen_fd = master->wake_fd = -1;
    master->listen_again_ns = INT64_MAX;
    master->settled = -1;
    pthread_mutex_init(&master->transfer_lock, NULL);
    pthread_mutex_init(&master->table_lock, NULL);
    pthread_mutex_init(&master->tell_lock, NULL);
    pthread_mutex_init(&master->set_lock, NULL);
    for (uint32_t slot = 0; slot < RP_HA_SLAVES_MAX; slot++) {
        atomic_init(&master->acked[slot], -1);
        atomic_init(&master->ids[slot], -1);
    }
    status = rp_ha_switch_open(master, error);
    status = status == RP_OK ? open_descriptors(master, error) : status;
    if (status == RP_OK) {
        rp_ha_tell_acked(master);
        status = rp_thread_start(&master->thread, "ha-master", ha_master_run, master);
        if (status < 0)
            rp_error_set(error, status, 0, NULL, -1, "cannot start the ha thread: %s", rp_thread_refusal(status));
    }
    if (status < 0) {
        free_master(master);
        return status;
    }
    *opened = master;
    return RP_OK;
}

void rp_ha_master_close(rp_ha_master *master) {
    if (master == NULL)
        return;
    atomic_store_explicit(&master->stopping, 1, memory_order_release);
    wake(master);
    rp_thread_join(master->thread);
    free_master(master);
}

uint16_t rp_ha_master_port(const rp_ha_master *master) { return master->port; }

int rp_ha_master_require(rp_ha_master *master, uint32_t slaves_required, uint32_t slaves_min, int64_t fewer_gap_bytes) {
    if (slaves_required < 1 || slaves_required > master->options.slaves_max || slaves_min > master->options.slaves_max ||
        fewer_gap_bytes < 0)
        return RP_E_INVALID;
    atomic_store_explicit(&master->slaves_required, slaves_required, memory_order_release);
    atomic_store_explicit(&master->slaves_min, slaves_min, memory_order_release);
    atomic_store_explicit(&master->fewer_gap_bytes, fewer_gap_bytes, memory_order_release);
    rp_ha_tell_acked(master);
    return RP_OK;
}

void rp_ha_master_limit_flow(rp_ha_master *master, int64_t bytes_per_second) {
    pthread_mutex_lock(&master->transfer_lock);
    master->options.flow_bytes_per_second = bytes_per_second;
    pthread_mutex_unlock(&master->transfer_lock);
    wake(master); /* it may be sleeping until the old limit allows more bytes */
}

int rp_ha_master_set_pace(rp_ha_master *master, uint32_t transfer_bytes, uint32_t heartbeat_interval_ms, uint32_t housekeeping_interval_ms,
                          rp_error *error) {
    pthread_mutex_lock(&master->transfer_lock);
    rp_ha_master_options changed = master->options;
    changed.transfer_bytes = transfer_bytes;
    changed.heartbeat_interval_ms = heartbeat_interval_ms;
    changed.housekeeping_interval_ms = housekeeping_interval_ms;
    int status = rp_ha_master_options_check(&changed, error);
    if (status == RP_OK) {
        master->options.transfer_bytes = transfer_bytes; /* field by field: the others are read without the lock */
        master->options.heartbeat_interval_ms = heartbeat_interval_ms;
        master->options.housekeeping_interval_ms = housekeeping_interval_ms;
    }
    pthread_mutex_unlock(&master->transfer_lock);
    wake(master); /* it may be sleeping until the old interval's end */
    return status;
}

/* ---- answers, any thread ---- */

int64_t rp_ha_master_acked_offset(const rp_ha_master *master, uint32_t slaves) {
    return rp_acked_offset(master->acked, master->options.slaves_max, slaves);
}

uint32_t rp_ha_master_read_slaves(rp_ha_master *master, rp_ha_slave_row *rows, uint32_t rows_max) {
    uint32_t found = 0;
    pthread_mutex_lock(&master->table_lock);
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        if (master->slots[slot] == NULL)
            continue;
        if (found < rows_max)
            rp_ha_connection_read_row(master->slots[slot], &rows[found]);
        found++;
    }
    pthread_mutex_unlock(&master->table_lock);
    rp_ha_switch_mark(master, rows, found < rows_max ? found : rows_max);
    return found;
}

void rp_ha_master_read_stats(rp_ha_master *master, rp_ha_master_stats *stats) {
    *stats = (rp_ha_master_stats){
        .accepted = rp_ha_figure(&master->counters.accepted),
        .refused = rp_ha_figure(&master->counters.refused),
        .dropped_bad_ack = rp_ha_figure(&master->counters.dropped_bad_ack),
        .dropped_silent = rp_ha_figure(&master->counters.dropped_silent),
        .dropped_other = rp_ha_figure(&master->counters.dropped_other),
        .frames_sent = rp_ha_figure(&master->counters.frames),
        .heartbeats_sent = rp_ha_figure(&master->counters.heartbeats),
        .bytes_sent = rp_ha_figure(&master->counters.bytes),
        .acks = rp_ha_figure(&master->counters.acks),
    };
    pthread_mutex_lock(&master->table_lock);
    memcpy(stats->last_drop, master->last_drop, sizeof stats->last_drop);
    pthread_mutex_unlock(&master->table_lock);
}
