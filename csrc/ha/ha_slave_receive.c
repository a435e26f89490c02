/* ha_slave_receive.c: receives frames from the master into the log.
 *
 * The rest of a frame's body is read by readv straight into the mapped file; what follows goes into a small buffer as the second part:
 * the next header with as much of its body as fits. So a small frame costs one system call and one short copy. A read that got less than
 * it asked for has emptied the socket. Large bodies, which belong to a backlog, are spliced (backlog_pipe.h).
 */
#include "ha_slave_inl.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "../base/bytes_inl.h"
#include "ha_master.h"

#define WAITS_MAX 2      /* heartbeats without bytes to compare: the flow limit may hold bytes back past one, but not past two */
#define OFFSET_MAX (INT64_MAX / 2) /* no log gets there, and what the store adds to an offset does not overflow */
/* Size from which on a frame is spliced: haTransferBatchSize. Smaller ones are cheaper to read into the map */
#define BACKLOG_BYTES_MIN (32 * 1024)

/* From now on what the master sends is stored and acknowledged. The state does not say so for a master that is no longer wanted: it is
 * left in the next turn. */
void rp_ha_slave_begin_transfer(rp_ha_slave *slave) {
    pthread_mutex_lock(&slave->lock);
    if (slave->followed_changes == slave->wanted_changes)
        slave->stats.state = RP_HA_SLAVE_TRANSFER;
    pthread_mutex_unlock(&slave->lock);
    rp_ha_signal_fd(slave->transfer_fd); /* after the state, which its reader checks */
}

/* Does a frame of size bytes at offset continue our log, which ends at `ours`? */
static int check_frame(rp_ha_slave *slave, int64_t ours, int64_t offset, uint32_t size, rp_error *error) {
    if (offset < 0 || size > RP_HA_FRAME_BYTES_MAX || offset > OFFSET_MAX)
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, offset,
                            "a frame of %u bytes at offset %lld is not the ha protocol (is this the ha port?)", size, (long long)offset);
    if (ours != 0 && ours != offset)
        return rp_error_set(error, RP_E_RANGE, 0, NULL, offset, "master pushed offset %lld not equal the max phy offset in slave %lld",
                            (long long)offset, (long long)ours);
    if (size == 0 && rp_ha_slave_is_comparing(slave) && ++slave->waits == WAITS_MAX)
        return rp_error_set(error, RP_E_RANGE, 0, NULL, offset,
                            "its log ends at %lld and ours at %lld: it lost messages, or was not sent them; to follow this master let the "
                            "slave start with an empty store",
                            (long long)offset, (long long)slave->overlap.end);
    return RP_OK;
}

/* Handles a frame's header. Its body, of body_left bytes, comes next. */
static int begin_body(rp_ha_slave *slave, const uint8_t *header, rp_error *error) {
    int64_t offset = slave->options.epochs != NULL ? 0 : (int64_t)rp_get_u64(header);
    uint32_t size = slave->options.epochs != NULL ? 0 : rp_get_u32(header + 8);
    int64_t ours = rp_ha_slave_held_offset(slave);
    int status = slave->options.epochs != NULL ? rp_ha_slave_take_frame(slave, header, &offset, &size, error) : RP_OK;
    status = status >= 0 ? check_frame(slave, ours, offset, size, error) : status;
    if (status >= 0 && slave->options.epochs != NULL && !rp_ha_slave_is_comparing(slave))
        status = rp_ha_slave_believe_frame(slave, error);
    if (status < 0)
        return status;
    slave->body_offset = offset;
    slave->body_left = size;
    slave->is_behind = size >= BACKLOG_BYTES_MIN;
    slave->is_asked |= size == 0;
    slave->is_answered = 1;
    if (size == 0 && !rp_ha_slave_is_comparing(slave))
        slave->refusals = 0; /* bytes that are compared must first prove that they belong to our log */
    if (size == 0) /* retries what a full disk had refused, even if the master sends nothing more */
        rp_commit_log_dispatch_replicated(slave->options.commit_log);
    pthread_mutex_lock(&slave->lock);
    slave->stats.frames_received++;
    slave->stats.last_read_ms = rp_clock_wall_ms(slave->options.clock); /* nothing else has to be noted of a heartbeat */
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

/* Returns where the next bytes of the body go, and how many of them: 1..body_left, or a negative status. stored: how many this thread
 * will write there by a copy. */
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
    count_received(slave, size, rp_ha_slave_now_ns(slave));
    return RP_OK;
}

/* Compares body bytes with those that our log should already hold. */
static int compare_body(rp_ha_slave *slave, const uint8_t *bytes, uint32_t size, rp_error *error) {
    int64_t same =
        rp_overlap_take(&slave->overlap, slave->options.commit_log, bytes, size < slave->body_left ? size : slave->body_left, error);
    if (same < 0)
        return (int)same;
    slave->input_at += (uint32_t)same;
    slave->body_offset += same;
    slave->body_left -= (uint32_t)same;
    slave->waits = 0;
    count_received(slave, (uint32_t)same, rp_ha_slave_now_ns(slave));
    if (rp_ha_slave_is_comparing(slave))
        return RP_OK;
    int status = slave->options.epochs != NULL ? rp_ha_slave_believe_frame(slave, error) : RP_OK;
    if (status == RP_OK)
        rp_ha_slave_begin_transfer(slave);
    return status;
}

/* Copies body bytes from the buffer into the log. */
static int copy_body(rp_ha_slave *slave, const uint8_t *bytes, uint32_t size, rp_error *error) {
    uint8_t *address = NULL;
    uint32_t stored = size < slave->body_left ? size : slave->body_left;
    int64_t part = reserve_body(slave, stored, &address, error);
    if (part < 0)
        return (int)part;
    part = part < stored ? part : stored;
    memcpy(address, bytes, (size_t)part);
    slave->input_at += (uint32_t)part;
    return commit_body(slave, (uint32_t)part, error);
}

/* Handles the next piece of the buffer: a handshake, a header or bytes of a body. 1; 0: it is incomplete; negative: end the connection. */
static int take_piece(rp_ha_slave *slave, rp_error *error) {
    uint32_t left = slave->input_end - slave->input_at;
    const uint8_t *bytes = slave->input + slave->input_at;
    int status;
    if (slave->is_shaking)
        return rp_ha_slave_take_handshake(slave, error);
    if (left == 0 || (slave->body_left == 0 && left < slave->header_size))
        return 0;
    if (slave->body_left == 0) {
        slave->input_at += slave->header_size;
        status = begin_body(slave, bytes, error);
    } else {
        status = rp_ha_slave_is_comparing(slave) ? compare_body(slave, bytes, left, error) : copy_body(slave, bytes, left, error);
    }
    return status < 0 ? status : 1;
}

/* Handles all pieces in the buffer. RP_OK, or why the connection has to end. */
static int take_input(rp_ha_slave *slave, rp_error *error) {
    int taken;
    do {
        taken = take_piece(slave, error);
    } while (taken > 0);
    return taken;
}

/* Interprets a read that got nothing. 0: the socket is empty; negative: end the connection. */
static int nothing_received(rp_ha_slave *slave, ssize_t got, rp_error *error) {
    if (got == 0)
        return rp_error_set(error, RP_E_NETWORK, 0, NULL, -1, "the master closed the connection%s",
                            slave->is_answered ? "" : " before it sent anything: its log says why");
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    int os_errno = errno;
    uint8_t *address = NULL; /* the kernel found no space for a page of the log and does not say why (base/map_hold.h) */
    if (os_errno == EFAULT && reserve_body(slave, slave->body_left, &address, error) < 0)
        return error->status;
    return rp_error_set(error, RP_E_NETWORK, os_errno, NULL, -1, "receiving failed: %s", strerror(os_errno));
}

/* As rp_ha_slave_receive_some, for the body of a large frame. */
static int receive_backlog(rp_ha_slave *slave, rp_error *error) {
    ssize_t got = rp_backlog_pipe_fill(&slave->pipe, slave->fd, slave->body_left);
    if (got <= 0)
        return nothing_received(slave, got, error);
    slave->last_read_ns = rp_ha_slave_now_ns(slave);
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

int rp_ha_slave_receive_some(rp_ha_slave *slave, rp_error *error) {
    struct iovec parts[2];
    int part_count = 0;
    int64_t body_part = 0;
    int compares = slave->body_left > 0 && rp_ha_slave_is_comparing(slave);
    if (slave->body_left > 0 && !compares && slave->is_behind && rp_backlog_pipe_open(&slave->pipe) == 0)
        return receive_backlog(slave, error);
    if (slave->body_left > 0 && !compares) { /* the buffer is empty in that case */
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
    /* Behind a large body only the next header is read ahead: the next body may be large too, and spliced. */
    uint32_t wanted = slave->is_behind && !compares ? slave->header_size : RP_HA_INPUT_BYTES;
    uint32_t ahead = compares || body_part == slave->body_left ? wanted - kept : 0;
    if (ahead > 0)
        parts[part_count++] = (struct iovec){slave->input + kept, ahead};
    ssize_t got = readv(slave->fd, parts, part_count);
    if (got <= 0)
        return nothing_received(slave, got, error);
    slave->last_read_ns = rp_ha_slave_now_ns(slave);
    int64_t of_body = got < body_part ? got : body_part;
    int status = of_body > 0 ? commit_body(slave, (uint32_t)of_body, error) : RP_OK;
    slave->input_end += (uint32_t)(got - of_body);
    if (status == RP_OK)
        status = take_input(slave, error);
    return status < 0 ? status : got == body_part + ahead;
}
