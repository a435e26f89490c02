/* ha_slave.c: see ha_slave.h. One thread: wait for an address, connect, say our offset, receive into the log, ack, repeat.
 *
 * Receiving: what is left of a frame's body goes by readv straight into the mapped file; what is behind it goes into a small buffer as
 * the second part: the next header with as much of its body as fits. So a small frame costs one system call and one short copy. A read
 * that got less than it asked for has emptied the socket. Large bodies, which are a backlog's, are spliced (backlog_pipe.h).
 */
#include "ha_slave.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../base/address.h"
#include "../base/bytes_inl.h"
#include "../base/clock_inl.h"
#include "../base/thread.h"
#include "backlog_pipe.h"
#include "dial.h"
#include "ha_master.h"
#include "overlap.h"

#define ACK_SIZE 8
#define BURST_READS_MAX 64 /* then acks go out, also while the master keeps the socket full */
#define REFUSALS_MAX 4   /* 16 times reconnect_ms */
#define WAITS_MAX 2      /* a limit of the flow may keep bytes back behind one heartbeat, but not until the next */
#define TELL_AGAIN_NS (60 * RP_NS_PER_S) /* the same trouble, attempt after attempt */
#define INPUT_BYTES 16384
#define OFFSET_MAX (INT64_MAX / 2) /* no log gets there; what the store adds to it, files and their lead, stays a number */
#define BACKLOG_BYTES_MIN (32 * 1024) /* of a frame: haTransferBatchSize. Smaller ones are cheaper in the map, whose pages are there */

struct rp_ha_slave {
    /* fixed after open */
    rp_ha_slave_options options;
    rp_thread *thread;
    int wake_fd, transfer_fd;
    /* guarded by lock (leaf) */
    pthread_mutex_t lock;
    char wanted_address[RP_ENDPOINT_TEXT_MAX];
    uint64_t wanted_changes;
    rp_ha_slave_stats stats;
    /* slave thread */
    int fd; /* -1: not connected */
    char address[RP_ENDPOINT_TEXT_MAX];
    uint64_t followed_changes;     /* wanted_changes, as of the address */
    uint8_t input[INPUT_BYTES];    /* read, but not looked at: [input_at, input_end) */
    uint32_t input_at, input_end;
    rp_backlog_pipe pipe;
    rp_overlap overlap;
    int64_t body_offset;  /* where the next body byte belongs */
    uint32_t body_left;
    uint8_t ack[ACK_SIZE];
    uint32_t ack_left; /* ack bytes that the socket did not take yet */
    int is_behind;     /* the last frame was a backlog's */
    int is_asked;      /* a heartbeat came: say our offset, moved or not */
    int is_answered;   /* this connection has brought a frame */
    uint32_t waits;    /* heartbeats in a row while bytes are compared: the master has no more of them */
    uint32_t refusals; /* connections in a row that brought nothing new: each doubles the pause before the next */
    int64_t acked_offset;
    uint64_t queues_begun; /* of the log, as told last */
    int64_t last_read_ns, last_write_ns, window_start_ns, retry_ns;
    int64_t told_ns; /* when the log was last told why a connection ended */
    uint64_t window_bytes;
    /* atomics, relaxed: each stands alone */
    atomic_int_fast64_t last_write_ms; /* of the slave thread, for stats */
    atomic_uint report_interval_ms, housekeeping_interval_ms; /* as in the options at first */
    atomic_int stopping;
};

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

static int64_t now_ns(const rp_ha_slave *slave) { return rp_clock_monotonic_ns(slave->options.clock); }

static void signal_fd(int fd) {
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one); /* fails only when it is readable already */
}

/* ---- connection ---- */

static void disconnect(rp_ha_slave *slave, const char *why, int level) {
    int is_attempt = slave->fd < 0 || slave->refusals > 0; /* the next of many, perhaps */
    int was_connected = slave->fd >= 0;
    if (was_connected)
        close(slave->fd);
    slave->fd = -1;
    slave->retry_ns = now_ns(slave) + ((int64_t)slave->options.reconnect_ms << slave->refusals) * RP_NS_PER_MS;
    pthread_mutex_lock(&slave->lock);
    slave->stats.disconnects += (uint64_t)was_connected;
    int is_told = is_attempt && strncmp(slave->stats.last_error, why, sizeof slave->stats.last_error - 1) == 0 &&
                  now_ns(slave) - slave->told_ns < TELL_AGAIN_NS;
    slave->stats.state = RP_HA_SLAVE_READY;
    slave->stats.bytes_per_second = 0;
    snprintf(slave->stats.last_error, sizeof slave->stats.last_error, "%s", why);
    pthread_mutex_unlock(&slave->lock);
    if (is_told)
        return;
    slave->told_ns = now_ns(slave);
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

static int is_comparing(const rp_ha_slave *slave) { return slave->overlap.at < slave->overlap.end; }

/* Where the master's next byte belongs, and what we vouch for: while the overlap is compared, only what was the same. */
static int64_t held_offset(const rp_ha_slave *slave) {
    int64_t damaged_at = rp_commit_log_damaged_at(slave->options.commit_log, NULL);
    if (damaged_at >= 0)
        return damaged_at;
    return is_comparing(slave) ? slave->overlap.at : rp_commit_log_max_offset(slave->options.commit_log);
}

static int flush_ack(rp_ha_slave *slave) {
    while (slave->ack_left > 0) {
        ssize_t sent = send(slave->fd, slave->ack + ACK_SIZE - slave->ack_left, slave->ack_left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? RP_OK : RP_E_NETWORK;
        slave->ack_left -= (uint32_t)sent;
        slave->last_write_ns = now_ns(slave);
        atomic_store_explicit(&slave->last_write_ms, rp_clock_wall_ms(slave->options.clock), memory_order_relaxed);
    }
    return RP_OK;
}

/* Says how far we hold the log when that moved, or always. An ack that waits for the socket is finished first: whole or nothing. In the
 * middle of bytes that are compared nothing is said: a second word would vouch for what we hold, and the next byte may differ. */
static int report_offset(rp_ha_slave *slave, int always) {
    int status = flush_ack(slave);
    if (status < 0 || slave->ack_left > 0)
        return status;
    int64_t offset = held_offset(slave);
    if (is_comparing(slave) && slave->body_left > 0) {
        slave->last_write_ns = always ? now_ns(slave) : slave->last_write_ns; /* its time has come and gone */
        return RP_OK;
    }
    if (!always && offset == slave->acked_offset)
        return RP_OK;
    rp_put_u64(slave->ack, (uint64_t)offset);
    slave->ack_left = ACK_SIZE;
    slave->acked_offset = offset;
    return flush_ack(slave);
}

/* ---- frames ---- */

static int begin_body(rp_ha_slave *slave, const uint8_t header[RP_HA_HEADER_SIZE], rp_error *error) {
    int64_t offset = (int64_t)rp_get_u64(header);
    uint32_t size = rp_get_u32(header + 8);
    int64_t ours = held_offset(slave);
    if (offset < 0 || size > RP_HA_FRAME_BYTES_MAX || offset > OFFSET_MAX)
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, offset,
                            "a frame of %u bytes at offset %lld is not the ha protocol (is this the ha port?)", size, (long long)offset);
    if (ours != 0 && ours != offset)
        return rp_error_set(error, RP_E_RANGE, 0, NULL, offset, "master pushed offset %lld not equal the max phy offset in slave %lld",
                            (long long)offset, (long long)ours);
    if (size == 0 && is_comparing(slave) && ++slave->waits == WAITS_MAX)
        return rp_error_set(error, RP_E_RANGE, 0, NULL, offset,
                            "its log ends at %lld and ours at %lld: it lost messages, or was not sent them; to follow this master let the "
                            "slave start with an empty store",
                            (long long)offset, (long long)slave->overlap.end);
    slave->body_offset = offset;
    slave->body_left = size;
    slave->is_behind = size >= BACKLOG_BYTES_MIN;
    slave->is_asked |= size == 0;
    slave->is_answered = 1;
    slave->refusals = size == 0 && !is_comparing(slave) ? 0 : slave->refusals; /* bytes first have to prove that they are of our log */
    if (size == 0)
        rp_commit_log_dispatch_replicated(slave->options.commit_log); /* else who is quiet kept back what a full disk had refused */
    pthread_mutex_lock(&slave->lock);
    slave->stats.frames_received++;
    slave->stats.last_read_ms = rp_clock_wall_ms(slave->options.clock); /* a heartbeat's only word */
    slave->stats.master_offset = offset + size;
    pthread_mutex_unlock(&slave->lock);
    return RP_OK;
}

static void count_received(rp_ha_slave *slave, uint32_t size, int64_t time_ns) {
    slave->window_bytes += size;
    pthread_mutex_lock(&slave->lock);
    slave->stats.bytes_received += size;
    slave->stats.last_read_ms = rp_clock_wall_ms(slave->options.clock);
    int64_t span = time_ns - slave->window_start_ns;
    if (span >= RP_NS_PER_S) {
        slave->stats.bytes_per_second = (uint64_t)((double)slave->window_bytes * (double)RP_NS_PER_S / (double)span);
        slave->window_start_ns = time_ns;
        slave->window_bytes = 0;
    }
    pthread_mutex_unlock(&slave->lock);
}

/* Where the next bytes of the body go: 1..body_left of them, or a negative status. stored: so many are stored there by this thread. */
static int64_t reserve_body(rp_ha_slave *slave, uint32_t stored, uint8_t **address, rp_error *error) {
    uint32_t room = 0;
    int status = rp_commit_log_reserve_replicated(slave->options.commit_log, slave->body_offset, stored, address, &room, error);
    if (status < 0)
        return status;
    return slave->body_left < room ? slave->body_left : room;
}

static int commit_body(rp_ha_slave *slave, uint32_t size, rp_error *error) {
    int status = rp_commit_log_commit_replicated(slave->options.commit_log, slave->body_offset, size, error);
    if (status < 0)
        return status;
    slave->body_offset += size;
    slave->body_left -= size;
    slave->refusals = 0;
    count_received(slave, size, now_ns(slave));
    return RP_OK;
}

/* What the master sends now is stored and acknowledged. Of one that is wanted no more nobody is told so: it is left at the next turn. */
static void begin_transfer(rp_ha_slave *slave) {
    pthread_mutex_lock(&slave->lock);
    if (slave->followed_changes == slave->wanted_changes)
        slave->stats.state = RP_HA_SLAVE_TRANSFER;
    pthread_mutex_unlock(&slave->lock);
    signal_fd(slave->transfer_fd); /* behind the state: who is told looks at it */
}

/* Body bytes that we should have already. */
static int compare_body(rp_ha_slave *slave, const uint8_t *bytes, uint32_t size, rp_error *error) {
    int64_t same =
        rp_overlap_take(&slave->overlap, slave->options.commit_log, bytes, size < slave->body_left ? size : slave->body_left, error);
    if (same < 0)
        return (int)same;
    slave->input_at += (uint32_t)same;
    slave->body_offset += same;
    slave->body_left -= (uint32_t)same;
    slave->waits = 0;
    count_received(slave, (uint32_t)same, now_ns(slave));
    if (!is_comparing(slave))
        begin_transfer(slave);
    return RP_OK;
}

/* Takes frames out of the buffer as far as it goes. */
static int take_input(rp_ha_slave *slave, rp_error *error) {
    for (;;) {
        uint32_t left = slave->input_end - slave->input_at;
        const uint8_t *bytes = slave->input + slave->input_at;
        int status;
        if (slave->body_left > 0 && is_comparing(slave)) {
            if (left == 0)
                return RP_OK;
            status = compare_body(slave, bytes, left, error);
        } else if (slave->body_left > 0) {
            uint8_t *address = NULL;
            uint32_t stored = left < slave->body_left ? left : slave->body_left;
            int64_t part = stored > 0 ? reserve_body(slave, stored, &address, error) : 0;
            if (part <= 0)
                return (int)part;
            part = part < stored ? part : stored;
            memcpy(address, bytes, (size_t)part);
            slave->input_at += (uint32_t)part;
            status = commit_body(slave, (uint32_t)part, error);
        } else {
            if (left < RP_HA_HEADER_SIZE)
                return RP_OK;
            slave->input_at += RP_HA_HEADER_SIZE;
            status = begin_body(slave, bytes, error);
        }
        if (status < 0)
            return status;
    }
}

/* 0 when the socket is empty, negative ends the connection. */
static int nothing_received(rp_ha_slave *slave, ssize_t got, rp_error *error) {
    if (got == 0)
        return rp_error_set(error, RP_E_NETWORK, 0, NULL, -1, "the master closed the connection%s",
                            slave->is_answered ? "" : " before it sent anything: its log says why");
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    int os_errno = errno;
    uint8_t *address = NULL; /* the kernel found no space for a page of the log and does not tell why (base/map_hold.h) */
    if (os_errno == EFAULT && reserve_body(slave, slave->body_left, &address, error) < 0)
        return error->status;
    return rp_error_set(error, RP_E_NETWORK, os_errno, NULL, -1, "receiving failed: %s", strerror(os_errno));
}

/* As receive_some, for much of a body. */
static int receive_backlog(rp_ha_slave *slave, rp_error *error) {
    ssize_t got = rp_backlog_pipe_fill(&slave->pipe, slave->fd, slave->body_left);
    if (got <= 0)
        return nothing_received(slave, got, error);
    slave->last_read_ns = now_ns(slave);
    int status = rp_commit_log_splice_replicated(slave->options.commit_log, slave->body_offset, slave->pipe.fds[0], (uint32_t)got, error);
    if (status < 0) {
        rp_backlog_pipe_close(&slave->pipe);
        return status;
    }
    slave->body_offset += got;
    slave->body_left -= (uint32_t)got;
    slave->refusals = 0;
    count_received(slave, (uint32_t)got, slave->last_read_ns);
    return 1;
}

/* One read. 1 when the socket may hold more, 0 when it is empty, negative ends the connection. */
static int receive_some(rp_ha_slave *slave, rp_error *error) {
    struct iovec parts[2];
    int part_count = 0;
    int64_t body_part = 0;
    int compares = slave->body_left > 0 && is_comparing(slave);
    if (slave->body_left > 0 && !compares && slave->is_behind && rp_backlog_pipe_open(&slave->pipe) == 0)
        return receive_backlog(slave, error);
    if (slave->body_left > 0 && !compares) { /* then the buffer is empty */
        uint8_t *address = NULL;
        body_part = reserve_body(slave, 0, &address, error);
        if (body_part < 0)
            return (int)body_part;
        parts[part_count++] = (struct iovec){address, (size_t)body_part};
    }
    uint32_t kept = slave->input_end - slave->input_at; /* the beginning of a header */
    memmove(slave->input, slave->input + slave->input_at, kept);
    slave->input_at = 0;
    slave->input_end = kept;
    /* Of a backlog's next body nothing may come along: it goes another way. */
    uint32_t wanted = slave->is_behind && !compares ? RP_HA_HEADER_SIZE : INPUT_BYTES;
    uint32_t ahead = compares || body_part == slave->body_left ? wanted - kept : 0;
    if (ahead > 0)
        parts[part_count++] = (struct iovec){slave->input + kept, ahead};
    ssize_t got = readv(slave->fd, parts, part_count);
    if (got <= 0)
        return nothing_received(slave, got, error);
    slave->last_read_ns = now_ns(slave);
    int64_t of_body = got < body_part ? got : body_part;
    int status = of_body > 0 ? commit_body(slave, (uint32_t)of_body, error) : RP_OK;
    slave->input_end += (uint32_t)(got - of_body);
    if (status == RP_OK)
        status = take_input(slave, error);
    return status < 0 ? status : got == body_part + ahead;
}

static void tell_of_queues(rp_ha_slave *slave) {
    uint64_t begun = rp_commit_log_queues_begun(slave->options.commit_log);
    if (begun != slave->queues_begun)
        signal_fd(slave->transfer_fd);
    slave->queues_begun = begun;
}

/* Takes what the socket holds, then acks. */
static int receive_burst(rp_ha_slave *slave, rp_error *error) {
    for (int i = 0; i < BURST_READS_MAX; i++) {
        int more = receive_some(slave, error);
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

/* Waits for the socket, the wake-up or timeout_ms (-1: for ever). Poll's events of the socket. */
static int wait_for(rp_ha_slave *slave, int64_t timeout_ms) {
    struct pollfd polled[2] = {{.fd = slave->wake_fd, .events = POLLIN},
                               {.fd = slave->fd, .events = (short)(POLLIN | (slave->ack_left > 0 ? POLLOUT : 0))}};
    (void)poll(polled, slave->fd >= 0 ? 2 : 1, timeout_ms > 60000 ? 60000 : (int)timeout_ms); /* a failure reads as no event */
    if (polled[0].revents != 0) {
        uint64_t drained;
        (void)!read(slave->wake_fd, &drained, sizeof drained);
    }
    return slave->fd >= 0 ? polled[1].revents : 0;
}

static int64_t ms_until(int64_t deadline_ns, int64_t time_ns) {
    return deadline_ns <= time_ns ? 0 : (deadline_ns - time_ns + RP_NS_PER_MS - 1) / RP_NS_PER_MS;
}

/* Takes over a changed address. 1 when it changed. */
static int follow_wanted_address(rp_ha_slave *slave) {
    char wanted[RP_ENDPOINT_TEXT_MAX];
    pthread_mutex_lock(&slave->lock);
    memcpy(wanted, slave->wanted_address, sizeof wanted);
    uint64_t changes = slave->wanted_changes;
    pthread_mutex_unlock(&slave->lock);
    if (changes == slave->followed_changes)
        return 0;
    if (slave->fd >= 0)
        disconnect(slave, "the master's address changed", RP_LOG_INFO);
    memcpy(slave->address, wanted, sizeof wanted);
    slave->followed_changes = changes;
    slave->retry_ns = 0;
    slave->refusals = 0;
    return 1;
}

static void try_connect(rp_ha_slave *slave) {
    rp_error damage;
    if (rp_commit_log_damaged_at(slave->options.commit_log, &damage) >= 0) { /* until we are started anew */
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
    slave->fd = rp_dial(slave->address, slave->options.connect_timeout_ms, &slave->stopping, why);
    if (slave->fd < 0) {
        disconnect(slave, why, RP_LOG_WARNING);
        return;
    }
    int64_t time_ns = now_ns(slave);
    slave->input_at = slave->input_end = slave->body_left = slave->ack_left = 0;
    slave->is_asked = slave->is_answered = slave->is_behind = 0;
    slave->waits = 0;
    slave->last_read_ns = slave->last_write_ns = slave->window_start_ns = time_ns;
    slave->window_bytes = 0;
    pthread_mutex_lock(&slave->lock);
    slave->stats.connects++;
    pthread_mutex_unlock(&slave->lock);
    if (!is_comparing(slave))
        begin_transfer(slave);
    rp_log_write(slave->options.log, RP_LOG_INFO, "ha: connected to master %s, our log ends at %lld", slave->address,
                 (long long)rp_commit_log_max_offset(slave->options.commit_log));
    if (report_offset(slave, 1) < 0)
        disconnect(slave, "the first report failed", RP_LOG_WARNING);
}

static void serve_connection(rp_ha_slave *slave) {
    int64_t time_ns = now_ns(slave);
    int64_t report_at = slave->last_write_ns + interval_ns(&slave->report_interval_ms);
    int64_t leave_at = slave->last_read_ns + interval_ns(&slave->housekeeping_interval_ms);
    int events = wait_for(slave, ms_until(report_at < leave_at ? report_at : leave_at, time_ns));
    rp_error error;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && receive_burst(slave, &error) < 0) {
        /* Refused, no log of ours to follow, or none that takes more, as with a full disk: that changes when an operator has mended it. */
        if ((!slave->is_answered || error.status != RP_E_NETWORK) && slave->refusals < REFUSALS_MAX)
            slave->refusals++;
        disconnect_of(slave, &error, error.status == RP_E_RANGE ? RP_LOG_ERROR : RP_LOG_WARNING);
        return;
    }
    time_ns = now_ns(slave);
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
        int64_t time_ns = now_ns(slave);
        if (slave->address[0] == '\0')
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
    slave->stats.master_offset = -1;
    atomic_init(&slave->report_interval_ms, options->report_interval_ms);
    atomic_init(&slave->housekeeping_interval_ms, options->housekeeping_interval_ms);
    pthread_mutex_init(&slave->lock, NULL);
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
    atomic_store_explicit(&slave->stopping, 1, memory_order_release);
    signal_fd(slave->wake_fd);
    rp_thread_join(slave->thread);
    rp_backlog_pipe_close(&slave->pipe);
    close_fds(slave);
    pthread_mutex_destroy(&slave->lock);
    free(slave);
}

int rp_ha_slave_set_intervals(rp_ha_slave *slave, uint32_t report_interval_ms, uint32_t housekeeping_interval_ms) {
    if (report_interval_ms < 1 || housekeeping_interval_ms < 1)
        return RP_E_INVALID;
    atomic_store_explicit(&slave->report_interval_ms, report_interval_ms, memory_order_relaxed);
    atomic_store_explicit(&slave->housekeeping_interval_ms, housekeeping_interval_ms, memory_order_relaxed);
    signal_fd(slave->wake_fd); /* it may have slept until the old interval's end */
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
        slave->stats.state = RP_HA_SLAVE_READY; /* at once: who asks now means the new one, which has proved nothing yet */
    }
    pthread_mutex_unlock(&slave->lock);
    signal_fd(slave->wake_fd);
    return RP_OK;
}

void rp_ha_slave_read_stats(rp_ha_slave *slave, rp_ha_slave_stats *stats) {
    pthread_mutex_lock(&slave->lock);
    *stats = slave->stats;
    pthread_mutex_unlock(&slave->lock);
    stats->max_offset = rp_commit_log_max_offset(slave->options.commit_log);
    stats->last_write_ms = atomic_load_explicit(&slave->last_write_ms, memory_order_relaxed);
}
