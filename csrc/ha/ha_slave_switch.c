/* ha_slave_switch.c: a slave behind a controller: finds up to where its log is its master's, and handles frames (switch_wire.h).
 * RocketMQ: AutoSwitchHAClient (5.3.3 store/ha/autoswitch/).
 *
 * Up to the last point that the epochs have in common the two logs are the same, because no two masters wrote in one epoch. A slave
 * without epochs, or with none of the master's, decides by its last bytes (overlap.h), as a slave without a controller does: RocketMQ's
 * continues behind bytes that may be anything, or never.
 */
#include <stdlib.h>
#include <string.h>

#include "ha_slave_inl.h"

void rp_ha_slave_begin_handshake(rp_ha_slave *slave) {
    pthread_mutex_lock(&slave->lock);
    if (slave->followed_changes == slave->wanted_changes)
        slave->stats.state = RP_HA_SLAVE_HANDSHAKE;
    pthread_mutex_unlock(&slave->lock);
}

void rp_ha_slave_put_hello(rp_ha_slave *slave) {
    rp_switch_hello hello = {
        .from_last_file = slave->options.from_last_file, .is_learner = slave->options.is_learner, .broker_id = slave->options.broker_id};
    rp_switch_put_hello(slave->ack, &hello);
    slave->ack_size = slave->ack_left = RP_SWITCH_HELLO_SIZE;
}

/* Cuts what lies behind the point, which is not the master's. */
static int cut_at(rp_ha_slave *slave, int64_t point, rp_error *error) {
    rp_commit_log *log = slave->options.commit_log;
    int64_t end = rp_commit_log_max_offset(log);
    int status = point < end ? rp_commit_log_cut(log, point, error) : RP_OK;
    if (status == RP_E_RANGE) { /* there are queue entries for it */
        slave->is_diverged = 1;
        pthread_mutex_lock(&slave->lock);
        slave->stats.truncate_to = point;
        pthread_mutex_unlock(&slave->lock);
        return rp_error_set(error, RP_E_RANGE, 0, NULL, point,
                            "the master's log and ours part at %lld and ours ends at %lld: it is cut there when the store is opened again",
                            (long long)point, (long long)end);
    }
    if (status < 0)
        return status;
    slave->overlap.at = slave->overlap.end = 0; /* nothing is left to compare: the epochs have decided */
    if (point < end)
        rp_log_write(slave->options.log, RP_LOG_WARNING, "ha: our log went on to %lld, the master's did not: cut at %lld", (long long)end,
                     (long long)point);
    return rp_epoch_cache_truncate_suffix(slave->options.epochs, point, error);
}

static int compare_epochs(rp_ha_slave *slave, const rp_switch_handshake *said, rp_epoch_entry *theirs, rp_epoch_entry *ours,
                          rp_error *error) {
    rp_commit_log *log = slave->options.commit_log;
    int64_t end = rp_commit_log_max_offset(log);
    uint32_t count = rp_epoch_cache_read(slave->options.epochs, ours, RP_EPOCHS_MAX);
    if (rp_switch_take_entries(slave->input + slave->input_at + RP_SWITCH_HANDSHAKE_SIZE, said->entry_count, theirs) < 0)
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, -1, "the master's epochs do not rise");
    int64_t last = rp_epoch_cache_last(slave->options.epochs);
    if (said->last_epoch < last) /* a present leader's last epoch is ours or a later one */
        return rp_error_set(error, RP_E_RANGE, 0, NULL, said->last_epoch,
                            "a master of epoch %lld leads no more: ours is %lld already, and nothing of ours is cut for it",
                            (long long)said->last_epoch, (long long)last);
    int64_t point = rp_epoch_consistent_point(ours, count, end, theirs, said->entry_count, said->max_offset);
    if (point >= 0)
        return cut_at(slave, point, error);
    if (count > 0 && end > rp_commit_log_min_offset(log))
        rp_log_write(slave->options.log, RP_LOG_WARNING,
                     "ha: none of our %u epochs is one of the master's %u: our last bytes have to be the same", count, said->entry_count);
    return RP_OK;
}

int rp_ha_slave_take_handshake(rp_ha_slave *slave, rp_error *error) {
    rp_switch_handshake said;
    const uint8_t *bytes = slave->input + slave->input_at;
    uint32_t left = slave->input_end - slave->input_at;
    int size = rp_switch_take_handshake(bytes, left, &said);
    if (size < 0)
        return rp_error_set(error, size, 0, NULL, -1, "no handshake of a master behind a controller (is this its ha port?)");
    uint32_t whole = RP_SWITCH_HANDSHAKE_SIZE + said.entry_count * RP_SWITCH_ENTRY_SIZE;
    if (size == 0 || left < whole)
        return 0;
    rp_epoch_entry *entries = malloc(2 * RP_EPOCHS_MAX * sizeof *entries);
    if (entries == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the master's epochs");
    int status = compare_epochs(slave, &said, entries, entries + RP_EPOCHS_MAX, error);
    free(entries);
    if (status < 0)
        return status;
    slave->input_at += whole;
    slave->is_shaking = 0;
    slave->is_asked = slave->is_answered = 1;
    slave->acked_offset = -1;
    if (!rp_ha_slave_is_comparing(slave))
        rp_ha_slave_begin_transfer(slave);
    return 1;
}

/* Notes the frame's epoch. It is believed with the next call of rp_ha_slave_believe_frame, or never. */
static int hear_epoch(rp_ha_slave *slave, const rp_switch_frame *frame, rp_error *error) {
    const rp_epoch_entry *before = slave->heard_count > 0 ? &slave->heard[slave->heard_count - 1] : NULL;
    if (frame->size == 0 || (before != NULL && before->epoch == frame->epoch))
        return RP_OK;
    if (before != NULL && (frame->epoch < before->epoch || frame->epoch_start <= before->start_offset))
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, frame->offset, "the master sends epoch %lld from %lld on behind epoch %lld",
                            (long long)frame->epoch, (long long)frame->epoch_start, (long long)before->epoch);
    if (slave->heard_count == RP_HA_HEARD_MAX)
        memmove(slave->heard, slave->heard + 1, --slave->heard_count * sizeof *slave->heard);
    slave->heard[slave->heard_count++] = (rp_epoch_entry){.epoch = frame->epoch, .start_offset = frame->epoch_start};
    return RP_OK;
}

int rp_ha_slave_take_frame(rp_ha_slave *slave, const uint8_t *header, int64_t *offset, uint32_t *size, rp_error *error) {
    rp_switch_frame frame;
    if (rp_switch_take_frame(header, RP_SWITCH_TRANSFER_SIZE, &frame) < 0)
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, -1, "no frame of a master behind a controller");
    if (frame.offset < 0) /* a heartbeat of a master that has nothing to send yet */
        frame.offset = rp_ha_slave_held_offset(slave);
    *offset = frame.offset;
    *size = frame.size;
    slave->frame = frame;
    int64_t last = rp_epoch_cache_last(slave->options.epochs);
    if (frame.size > 0 && frame.epoch < last)
        return rp_error_set(
            error, RP_E_RANGE, 0, NULL, frame.offset,
            "the master sends bytes of epoch %lld, ours is %lld already; to follow this master let the slave start with an empty store",
            (long long)frame.epoch, (long long)last);
    return hear_epoch(slave, &frame, error);
}

/* The bytes that were compared may be of several epochs. With only the last one in our list we would have none in common with a master that
 * did not get it. */
static int believe_epochs(rp_ha_slave *slave, rp_error *error) {
    int64_t last = rp_epoch_cache_last(slave->options.epochs);
    uint32_t known = 0;
    while (known < slave->heard_count && slave->heard[known].epoch <= last)
        known++;
    int status = RP_OK;
    if (known < slave->heard_count)
        status = rp_epoch_cache_append_all(slave->options.epochs, slave->heard + known, slave->heard_count - known, error);
    slave->heard_count = 0;
    return status;
}

int rp_ha_slave_believe_frame(rp_ha_slave *slave, rp_error *error) {
    rp_commit_log *log = slave->options.commit_log;
    const rp_switch_frame *frame = &slave->frame;
    int status = slave->heard_count > 0 ? believe_epochs(slave, error) : RP_OK;
    if (status < 0)
        return status;
    rp_commit_log_limit_dispatch(log, frame->confirm_offset);
    int64_t end = rp_commit_log_max_offset(log) + frame->size;
    pthread_mutex_lock(&slave->lock);
    slave->stats.confirm_offset = frame->confirm_offset < end ? frame->confirm_offset : end;
    pthread_mutex_unlock(&slave->lock);
    return RP_OK;
}
