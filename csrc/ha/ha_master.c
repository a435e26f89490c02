/* ha_master.c: see ha_master.h. One thread, one epoll: listener, wake-up, slaves (ha_connection.c does the talking).
 *
 * Who sends: a slave that has kept up is sent the next few bytes by the thread that appended them, which saves waking another thread on
 * the way to it; a larger backlog, a full socket and everything else are the ha thread's. transfer_lock makes them take turns.
 *
 * Nobody waits for it: an appender says `pending`, then tries the lock; whoever holds it looks at `pending` after giving it up. The ha
 * thread does so after it has said `sleeping`, so that an appender who needs it knows whether to write its eventfd. All of these are
 * sequentially consistent, as is the log's published offset before them: one of the two always sees the other.
 */
#include "ha_master.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/clock_inl.h"
#include "../base/thread.h"
#include "acked_offsets.h"
#include "ha_connection.h"
#include "ha_master_options.h"

#define REST_NS (1000 * RP_NS_PER_MS)
#define TURN_BYTES_MAX (8u * 1024u * 1024u) /* per slave and turn, so that one catching up does not starve another */
#define APPENDER_BYTES_MAX (256 * 1024)      /* a backlog that an appender sends by itself */
#define TOLD_MAX 20u /* lines about connections within a second */
#define APPENDER_ROUNDS_MAX 4               /* how often it does so for others before it leaves the rest to the ha thread */
#define TAG_LISTENER UINT64_MAX
#define TAG_WAKE (UINT64_MAX - 1)

struct rp_ha_master {
    /* fixed after open, but for what limit_flow and set_pace change: guarded by transfer_lock */
    rp_ha_master_options options;
    char bind_address[RP_ADDRESS_TEXT_MAX];
    int epoll_fd, listen_fd, wake_fd;
    uint16_t port;
    rp_thread *thread;
    pthread_mutex_t transfer_lock; /* all that connections send and receive */
    pthread_mutex_t table_lock;
    pthread_mutex_t tell_lock; /* from counting acks until their callback has returned: else the later word could be the older one */
    int64_t settled; /* the furthest that was told to be acknowledged, -1 at first; guarded by tell_lock */
    char last_drop[sizeof((rp_ha_master_stats *)0)->last_drop]; /* guarded by table_lock */
    /* written by the ha thread under both locks, so that either protects a reader */
    rp_ha_connection *slots[RP_HA_SLAVES_MAX];
    /* ha thread */
    uint32_t slot_events[RP_HA_SLAVES_MAX]; /* what epoll watches for the slot */
    int64_t listen_again_ns;                /* the listener rests until then; INT64_MAX: it does not */
    int64_t told_since_ns;                  /* lines about connections are counted from then on, for a second */
    uint32_t told, untold;                  /* lines written, and those that were one too many */
    /* atomics: acked is stored with release after the ack was read, -1 when the slot is free; read by reactors */
    atomic_int_fast64_t acked[RP_HA_SLAVES_MAX];
    atomic_uint slaves_required, slaves_min;
    atomic_int_fast64_t fewer_gap_bytes;
    atomic_int has_slaves, sleeping, pending; /* sequentially consistent, see above */
    atomic_int stopping;
    struct {
        atomic_uint_fast64_t accepted, refused, dropped_bad_ack, dropped_silent, dropped_other, frames, heartbeats, bytes, acks;
    } counters; /* relaxed: figures only */
};

static void count(atomic_uint_fast64_t *counter, uint64_t more) { atomic_fetch_add_explicit(counter, more, memory_order_relaxed); }
static uint64_t figure(const atomic_uint_fast64_t *counter) { return atomic_load_explicit(counter, memory_order_relaxed); }

static int watch(rp_ha_master *master, int operation, int fd, uint32_t events, uint64_t tag) {
    struct epoll_event event = {.events = events, .data.u64 = tag};
    return epoll_ctl(master->epoll_fd, operation, fd, &event);
}

/* ---- slaves, ha thread ---- */

/* The ha thread's, rp_ha_master_open's and rp_ha_master_require's. */
static void tell_acked(rp_ha_master *master) {
    const rp_ha_master_options *options = &master->options;
    pthread_mutex_lock(&master->tell_lock);
    uint32_t min = atomic_load_explicit(&master->slaves_min, memory_order_acquire);
    if (options->on_in_sync != NULL && min > 0)
        options->on_in_sync(options->context, rp_ha_master_acked_offset(master, min));
    int64_t end = rp_commit_log_max_offset(options->commit_log);
    uint32_t required = atomic_load_explicit(&master->slaves_required, memory_order_acquire);
    int64_t gap = atomic_load_explicit(&master->fewer_gap_bytes, memory_order_acquire);
    if (gap > 0)
        required = rp_acked_required(master->acked, options->slaves_max, required, min, end - gap);
    int64_t acked = required > 0 ? rp_ha_master_acked_offset(master, required) : INT64_MAX;
    int64_t settled = acked < end ? acked : end; /* nobody waits for what is below, whoever connects */
    master->settled = settled > master->settled ? settled : master->settled;
    if (options->on_acked != NULL)
        options->on_acked(options->context, acked);
    pthread_mutex_unlock(&master->tell_lock);
}

/* Whether one more line about a connection may be logged: strangers that come by the thousand shall not fill the disk. */
static int may_tell(rp_ha_master *master) {
    int64_t now_ns = rp_clock_monotonic_ns(master->options.clock);
    if (now_ns - master->told_since_ns >= REST_NS) {
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

static void drop_slave(rp_ha_master *master, uint32_t slot, int level, const char *why) {
    rp_ha_connection *connection = master->slots[slot];
    int64_t acked = rp_ha_connection_acked(connection);
    if (acked > 0 || may_tell(master)) /* one that held something is always told of */
        rp_log_write(master->options.log, level, "ha: slave %s dropped at acked offset %lld: %s", rp_ha_connection_address(connection),
                     (long long)acked, why);
    (void)watch(master, EPOLL_CTL_DEL, rp_ha_connection_fd(connection), 0, 0); /* close would do it too */
    pthread_mutex_lock(&master->table_lock);
    master->slots[slot] = NULL;
    if (level > RP_LOG_INFO)
        snprintf(master->last_drop, sizeof master->last_drop, "%s", why);
    pthread_mutex_unlock(&master->table_lock);
    atomic_store_explicit(&master->acked[slot], -1, memory_order_release);
    rp_ha_connection_destroy(connection);
    tell_acked(master);
}

static void drop_for(rp_ha_master *master, uint32_t slot, const rp_error *error) {
    int is_bad_ack = error->status == RP_E_RANGE;
    /* who leaves without a word was no slave: a health check, this broker's own look at its port */
    int is_stranger = error->status == RP_E_NETWORK && rp_ha_connection_acked(master->slots[slot]) < 0;
    count(is_bad_ack ? &master->counters.dropped_bad_ack : &master->counters.dropped_other, 1);
    drop_slave(master, slot, is_bad_ack ? RP_LOG_ERROR : is_stranger ? RP_LOG_DEBUG : RP_LOG_WARNING, error->message);
}

static int pump(rp_ha_master *master, rp_ha_connection *connection, int64_t now_ns, rp_error *error) {
    int status = rp_ha_connection_pump(connection, now_ns, TURN_BYTES_MAX, error);
    count(&master->counters.frames, rp_ha_connection_take_frames(connection));
    count(&master->counters.heartbeats, rp_ha_connection_take_heartbeats(connection));
    count(&master->counters.bytes, rp_ha_connection_take_bytes(connection));
    return status;
}

static void pump_slave(rp_ha_master *master, uint32_t slot, int64_t now_ns) {
    rp_ha_connection *connection = master->slots[slot];
    rp_error error;
    if (pump(master, connection, now_ns, &error) < 0) {
        drop_for(master, slot, &error);
        return;
    }
    uint32_t events = EPOLLIN | EPOLLRDHUP | (rp_ha_connection_wants_write(connection) ? EPOLLOUT : 0);
    if (events != master->slot_events[slot]) {
        master->slot_events[slot] = events;
        (void)watch(master, EPOLL_CTL_MOD, rp_ha_connection_fd(connection), events, slot); /* the fd is registered and open */
    }
}

/* A slave that lost its link connects anew while its old connection still looks alive here, and would count twice. The wire carries
 * no slave id, and two slaves may share a host: so whoever is connected from the newcomer's host counts only for what is acknowledged
 * already, until it speaks again. A dead connection never does and falls to housekeeping; a living one answers the heartbeat. */
static void doubt_older_connections(rp_ha_master *master, uint32_t newcomer) {
    uint32_t required = atomic_load_explicit(&master->slaves_required, memory_order_acquire);
    uint32_t min = atomic_load_explicit(&master->slaves_min, memory_order_acquire); /* minInSyncReplicas may ask for more */
    int64_t settled = rp_ha_master_acked_offset(master, min > required ? min : required);
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        if (slot == newcomer || master->slots[slot] == NULL || !rp_ha_connection_shares_host(master->slots[slot], master->slots[newcomer]))
            continue;
        if (atomic_load_explicit(&master->acked[slot], memory_order_relaxed) > settled)
            atomic_store_explicit(&master->acked[slot], settled, memory_order_release);
        rp_ha_connection_ask(master->slots[slot]);
    }
}

/* A first word asks for bytes, by which a slave finds out whether its log is ours: it vouches for nothing that somebody waits for. */
static int64_t trusted_at_first(rp_ha_master *master, rp_ha_connection *newcomer) {
    int64_t acked = rp_ha_connection_acked(newcomer);
    pthread_mutex_lock(&master->tell_lock);
    int64_t settled = master->settled;
    pthread_mutex_unlock(&master->tell_lock);
    if (settled < 0 || acked <= settled) /* nobody waits before there was a slave */
        return acked;
    rp_ha_connection_ask(newcomer);
    return settled;
}

static void receive_from_slave(rp_ha_master *master, uint32_t slot, int64_t now_ns) {
    rp_error error;
    rp_ha_connection *connection = master->slots[slot];
    int is_new = rp_ha_connection_acked(connection) < 0;
    int moved = rp_ha_connection_receive(connection, now_ns, &error);
    if (moved < 0) {
        drop_for(master, slot, &error);
        return;
    }
    int64_t acked = rp_ha_connection_acked(connection);
    count(&master->counters.acks, moved > 0);
    if (acked == atomic_load_explicit(&master->acked[slot], memory_order_relaxed)) {
        if (atomic_load_explicit(&master->fewer_gap_bytes, memory_order_relaxed) > 0)
            tell_acked(master); /* it may have stayed too far behind to count */
        return;
    }
    if (is_new) {
        if (may_tell(master)) /* not when it came: it may have been no slave */
            rp_log_write(master->options.log, RP_LOG_INFO, "ha: slave %s connected", rp_ha_connection_address(connection));
        doubt_older_connections(master, slot);
        acked = trusted_at_first(master, connection);
    }
    atomic_store_explicit(&master->acked[slot], acked, memory_order_release);
    tell_acked(master);
}

static int free_slot(const rp_ha_master *master) {
    for (int slot = 0; slot < master->options.slaves_max; slot++)
        if (master->slots[slot] == NULL)
            return slot;
    return -1;
}

/* The slot of whoever has been connected longest without a word; -1 when all have said what they hold. A slave says so at once. */
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
        count(&master->counters.dropped_silent, 1);
        drop_slave(master, (uint32_t)slot, RP_LOG_WARNING, "it has said nothing and another one wants its place");
    }
    return slot;
}

static void admit_slave(rp_ha_master *master, int fd, const rp_address *address, int64_t now_ns) {
    int slot = make_room(master);
    rp_ha_connection *connection =
        slot < 0 ? NULL : rp_ha_connection_create(&master->options, fd, address, now_ns, rp_clock_wall_ms(master->options.clock));
    if (connection == NULL || watch(master, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, (uint64_t)slot) < 0) {
        char text[RP_ADDRESS_TEXT_MAX];
        rp_address_text(address, text);
        count(&master->counters.refused, 1);
        if (may_tell(master))
            rp_log_write(master->options.log, RP_LOG_ERROR, "ha: slave %s refused: %s", text,
                         slot < 0 ? "as many slaves as slaves_max allows are connected" : "out of memory or descriptors");
        if (connection != NULL)
            rp_ha_connection_destroy(connection);
        else
            close(fd);
        return;
    }
    count(&master->counters.accepted, 1);
    master->slot_events[slot] = EPOLLIN | EPOLLRDHUP;
    pthread_mutex_lock(&master->table_lock);
    master->slots[slot] = connection;
    pthread_mutex_unlock(&master->table_lock);
}

/* No more in a turn than there is room for: what those who came say is read before others may take their places. */
static void accept_slaves(rp_ha_master *master, int64_t now_ns) {
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
            (void)watch(master, EPOLL_CTL_DEL, master->listen_fd, 0, 0);
            master->listen_again_ns = now_ns + REST_NS;
        }
        return;
    }
}

/* ---- the thread ---- */

/* Milliseconds epoll may wait; 0 when there is work. */
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
        return 1; /* the deadline's work was tried this turn and waits for the socket: never spin on it */
    int64_t ms = (left + RP_NS_PER_MS - 1) / RP_NS_PER_MS;
    return ms > 60000 ? 60000 : (int)ms;
}

static void handle_events(rp_ha_master *master, const struct epoll_event *events, int event_count, int64_t now_ns) {
    int is_called = 0;
    for (int i = 0; i < event_count; i++) {
        uint64_t tag = events[i].data.u64;
        if (tag == TAG_LISTENER)
            is_called = 1;
        else if (tag != TAG_WAKE && master->slots[tag] != NULL && (events[i].events & ~(uint32_t)EPOLLOUT) != 0)
            receive_from_slave(master, (uint32_t)tag, now_ns);
    }
    if (is_called)
        accept_slaves(master, now_ns);
}

static void listen_again(rp_ha_master *master, int64_t now_ns) {
    if (master->listen_again_ns <= now_ns)
        master->listen_again_ns =
            watch(master, EPOLL_CTL_ADD, master->listen_fd, EPOLLIN, TAG_LISTENER) == 0 ? INT64_MAX : now_ns + REST_NS;
}

static void serve_slaves(rp_ha_master *master, int64_t now_ns) {
    for (uint32_t slot = 0; slot < master->options.slaves_max; slot++) {
        if (master->slots[slot] == NULL)
            continue;
        if (rp_ha_connection_is_silent(master->slots[slot], now_ns)) {
            count(&master->counters.dropped_silent, 1);
            drop_slave(master, slot, RP_LOG_WARNING, "silent for longer than haHousekeepingInterval");
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

static void ha_master_run(void *context) {
    rp_ha_master *master = context;
    struct epoll_event events[RP_HA_SLAVES_MAX];
    int timeout = -1;
    while (!atomic_load_explicit(&master->stopping, memory_order_acquire)) {
        if (atomic_load(&master->pending))
            timeout = 0;
        int event_count = epoll_wait(master->epoll_fd, events, RP_HA_SLAVES_MAX, timeout);
        atomic_store(&master->sleeping, 0);
        pthread_mutex_lock(&master->transfer_lock);
        atomic_store(&master->pending, 0);
        int64_t now_ns = rp_clock_monotonic_ns(master->options.clock);
        if (event_count > 0)
            handle_events(master, events, event_count, now_ns);
        listen_again(master, now_ns);
        serve_slaves(master, now_ns);
        atomic_store(&master->has_slaves, has_slaves(master)); /* without one, appends have nobody to wake us for: only a connect does */
        atomic_store(&master->sleeping, 1);
        atomic_thread_fence(memory_order_seq_cst);
        timeout = wait_ms(master, now_ns);
        pthread_mutex_unlock(&master->transfer_lock);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

static void wake(rp_ha_master *master) {
    uint64_t one = 1;
    (void)!write(master->wake_fd, &one, sizeof one); /* it is never full: nobody appends that often */
}

/* The appender's turn, under the lock. 1 when something is left for the ha thread. */
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
            is_left = 1; /* an error too: the ha thread meets it again and drops the slave */
    }
    return is_left;
}

/* 1 when something is left for the ha thread. */
static int try_to_send_appended(rp_ha_master *master) {
    int is_left = !master->options.appenders_send;
    for (int round = 0; !is_left && atomic_load(&master->pending) && pthread_mutex_trylock(&master->transfer_lock) == 0; round++) {
        if (round == APPENDER_ROUNDS_MAX) {
            is_left = 1;
        } else {
            atomic_store(&master->pending, 0);
            is_left = send_appended(master);
        }
        pthread_mutex_unlock(&master->transfer_lock);
        atomic_thread_fence(memory_order_seq_cst);
    }
    return is_left;
}

void rp_ha_master_notify(rp_ha_master *master) {
    atomic_thread_fence(memory_order_seq_cst); /* our published offset before the look at what the ha thread does */
    if (!atomic_load(&master->has_slaves))
        return;
    atomic_store(&master->pending, master->options.appenders_send);
    if (try_to_send_appended(master) && atomic_exchange(&master->sleeping, 0))
        wake(master);
}

/* ---- open and close ---- */

static int listen_on(rp_ha_master *master, rp_error *error) {
    struct sockaddr_storage address;
    socklen_t size;
    if (rp_address_parse(master->bind_address, master->options.port, &address, &size) != RP_OK)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "ha bind address \"%s\" is not an IP address", master->bind_address);
    int one = 1;
    master->listen_fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (master->listen_fd < 0 || setsockopt(master->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(master->listen_fd, (struct sockaddr *)&address, size) < 0 || listen(master->listen_fd, 64) < 0)
        return rp_error_set(error, RP_E_NETWORK, errno, NULL, -1, "cannot listen on ha port %s:%u: %s (%sset haListenPort)",
                            master->bind_address, master->options.port, strerror(errno),
                            errno == EADDRINUSE ? "is another broker running? " : "");
    size = sizeof address;
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
    if (watch(master, EPOLL_CTL_ADD, master->listen_fd, EPOLLIN, TAG_LISTENER) < 0 ||
        watch(master, EPOLL_CTL_ADD, master->wake_fd, EPOLLIN | EPOLLET, TAG_WAKE) < 0) /* edge: it is never read */
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
    for (uint32_t slot = 0; slot < RP_HA_SLAVES_MAX; slot++)
        atomic_init(&master->acked[slot], -1);
    status = open_descriptors(master, error);
    if (status == RP_OK) {
        tell_acked(master);
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
    tell_acked(master);
    return RP_OK;
}

void rp_ha_master_limit_flow(rp_ha_master *master, int64_t bytes_per_second) {
    pthread_mutex_lock(&master->transfer_lock);
    master->options.flow_bytes_per_second = bytes_per_second;
    pthread_mutex_unlock(&master->transfer_lock);
    wake(master); /* it may have slept until the old limit's next bytes */
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
    wake(master); /* it may have slept until the old interval's end */
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
    return found;
}

void rp_ha_master_read_stats(rp_ha_master *master, rp_ha_master_stats *stats) {
    *stats = (rp_ha_master_stats){
        .accepted = figure(&master->counters.accepted),
        .refused = figure(&master->counters.refused),
        .dropped_bad_ack = figure(&master->counters.dropped_bad_ack),
        .dropped_silent = figure(&master->counters.dropped_silent),
        .dropped_other = figure(&master->counters.dropped_other),
        .frames_sent = figure(&master->counters.frames),
        .heartbeats_sent = figure(&master->counters.heartbeats),
        .bytes_sent = figure(&master->counters.bytes),
        .acks = figure(&master->counters.acks),
    };
    pthread_mutex_lock(&master->table_lock);
    memcpy(stats->last_drop, master->last_drop, sizeof stats->last_drop);
    pthread_mutex_unlock(&master->table_lock);
}
