/* ha_connection_switch.c: the master's side of a connection behind a controller: handles hellos and acks, makes frames (switch_wire.h).
 * RocketMQ: AutoSwitchHAConnection (5.3.3 store/ha/autoswitch/).
 */
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "ha_connection_inl.h"

void rp_ha_connection_tell_confirmed(rp_ha_connection *connection, const atomic_int_fast64_t *confirmed) {
    connection->switched.confirmed = confirmed;
}

int64_t rp_ha_connection_broker_id(const rp_ha_connection *connection) {
    return atomic_load_explicit(&connection->switched.broker_id, memory_order_relaxed);
}

/* Notes the slave's identity, and makes our handshake with all our epochs the next thing to be sent. */
static int take_hello(rp_ha_connection *connection, const rp_switch_hello *hello, rp_error *error) {
    rp_switched *switched = &connection->switched;
    if (switched->handshake != NULL)
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, -1, "slave %s begins twice on one connection", connection->address_text);
    rp_epoch_entry *entries = malloc(RP_EPOCHS_MAX * sizeof *entries);
    switched->handshake = entries == NULL ? NULL : malloc(RP_SWITCH_HANDSHAKE_MAX);
    if (switched->handshake == NULL) {
        free(entries);
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory to tell slave %s our epochs", connection->address_text);
    }
    uint32_t count = rp_epoch_cache_read(connection->options->epochs, entries, RP_EPOCHS_MAX);
    int64_t end = rp_commit_log_max_offset(connection->options->commit_log);
    connection->head = switched->handshake;
    connection->header_size = connection->header_left = rp_switch_put_handshake(switched->handshake, end, entries, count);
    free(entries);
    switched->from_last_file = hello->from_last_file;
    atomic_store_explicit(&switched->is_learner, hello->is_learner, memory_order_relaxed);
    atomic_store_explicit(&switched->broker_id, hello->broker_id, memory_order_relaxed);
    return RP_OK;
}

/* Notes when the slave last held the whole log: by its own report, or when the frame began that ended with the log (RocketMQ:
 * lastCaughtUpTimeMs). Uses the monotonic clock: a master's lease depends on it, and a wall clock that is set back would prolong that. */
static void note_caught_up(rp_ha_connection *connection, int64_t acked, int64_t heard_ns) {
    rp_switched *switched = &connection->switched;
    if (acked < switched->sent_end)
        return;
    int has_all = acked == rp_commit_log_max_offset(connection->options->commit_log);
    int64_t when_ms = has_all ? heard_ns / RP_NS_PER_MS : switched->sent_ms;
    if (when_ms > atomic_load_explicit(&switched->caught_up_ms, memory_order_relaxed))
        atomic_store_explicit(&switched->caught_up_ms, when_ms, memory_order_relaxed);
}

int rp_ha_connection_take_words(rp_ha_connection *connection, int64_t heard_ns, rp_error *error) {
    uint32_t at = 0;
    int moved = 0, size;
    rp_switch_hello hello;
    int64_t acked = -1;
    while ((size = rp_switch_take_word(connection->input + at, connection->input_size - at, &hello, &acked)) > 0) {
        int status = size == RP_SWITCH_HELLO_SIZE ? take_hello(connection, &hello, error)
                     : connection->switched.handshake != NULL
                         ? rp_ha_connection_take_ack(connection, acked, error)
                         : rp_error_set(error, RP_E_PROTOCOL, 0, NULL, acked, "slave %s acknowledges before it has said who it is",
                                        connection->address_text);
        if (status < 0)
            return status;
        if (size == RP_SWITCH_ACK_SIZE)
            note_caught_up(connection, acked, heard_ns);
        moved |= status;
        at += (uint32_t)size;
    }
    memmove(connection->input, connection->input + at, connection->input_size - at);
    connection->input_size -= at;
    if (size < 0)
        return rp_error_set(error, size, 0, NULL, -1, "%s does not speak as a slave behind a controller does", connection->address_text);
    return moved;
}

int64_t rp_ha_connection_put_frame(rp_ha_connection *connection, int64_t offset, int64_t size, rp_error *error) {
    rp_epoch_entry entry;
    int status = rp_epoch_cache_find(connection->options->epochs, offset, &entry);
    if (status < 0)
        return rp_error_set(error, status, 0, NULL, offset, "there is no epoch to send slave %s bytes of", connection->address_text);
    int64_t end = rp_commit_log_max_offset(connection->options->commit_log);
    int64_t confirmed = atomic_load_explicit(connection->switched.confirmed, memory_order_acquire);
    size = size < entry.end_offset - offset ? size : entry.end_offset - offset;
    rp_switch_frame frame = {.size = (uint32_t)size,
                             .offset = offset,
                             .epoch = entry.epoch,
                             .epoch_start = entry.start_offset,
                             .confirm_offset = confirmed < end ? confirmed : end};
    rp_switch_put_frame(connection->header, &frame);
    connection->head = connection->header;
    connection->header_size = connection->header_left = RP_SWITCH_TRANSFER_SIZE;
    if (size > 0) {
        connection->switched.sent_end = end;
        connection->switched.sent_ms = rp_clock_monotonic_ns(connection->options->clock) / RP_NS_PER_MS;
    }
    return size;
}
