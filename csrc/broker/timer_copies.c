/* timer_copies.c: finds the messages of the timer queue that wait as a later copy of themselves (timer_service.h). RocketMQ has no
 * counterpart: if its timer log is lost, waiting messages are lost too.
 *
 * A message that waits longer than the wheel reaches is in the queue once more for each time that it was rolled, and all copies have the
 * same due time. While wheel and log are rebuilt from the queue, only the last one counts. It is recognized by all that a copy keeps:
 * when, where and by which key it was sent, and its body; and it was rolled once more.
 *
 * A slave rolls by its own clock and may leave unrolled what its master has rolled, so a slot may hold a message and its copy: the one
 * that was sent first is delivered.
 *
 * Bounds   32 bytes for each message of a slot that waited for at least half of the wheel's used part; 16 bytes for each copy in the
 *          queue, while entering is below where it was when log and wheel were lost.
 */
#include "../base/hash.h"
#include "stored_message.h"
#include "timer_item.h"
#include "timer_service_inl.h"

#define WINDOWS_IN_TURN 64

/* Compared as bytes: no padding. */
typedef struct identity {
    int64_t born_ms, out_ms;
    uint64_t topic, unique_key;
    uint32_t body_crc;
    int32_t queue_id, times, body_size;
} identity;

static int32_t number_of(rp_slice properties, const char *name) {
    int32_t number;
    return rp_slice_to_i32(rp_message_property(properties, name), &number) == RP_OK ? number : 0;
}

static uint64_t hash_of(rp_slice text) { return text.size > 0 ? rp_hash_bytes(text.data, text.size, 0) : 0; }

static identity identity_of(const rp_message *message, int32_t times) {
    identity found = {
        .born_ms = message->born_timestamp_ms,
        .topic = hash_of(rp_message_property(message->properties, "REAL_TOPIC")),
        .unique_key = hash_of(rp_message_property(message->properties, "UNIQ_KEY")),
        .body_crc = message->body_crc,
        .queue_id = number_of(message->properties, "REAL_QID"),
        .times = times,
        .body_size = (int32_t)message->body.size,
    };
    rp_timer_out_ms(message->properties, &found.out_ms);
    return found;
}

/* Without one, two messages may agree in everything that is compared, and one of them would be lost. */
static bool has_unique_key(const rp_message *message) { return rp_message_property(message->properties, "UNIQ_KEY").size > 0; }

/* Notes which message a copy is a copy of. RP_OK; any other status: try again. */
static int note_copy(rp_timer_service *service, const rp_queue_entry *entry) {
    rp_stored_message stored;
    int status = rp_stored_message_open(service->broker->commit_log, entry->commit_log_offset, &stored);
    if (status != RP_OK)
        return rp_status_is_passing(status) ? status : RP_OK;
    int32_t times = rp_timer_roll_times(stored.message.properties);
    if (times > 0) {
        identity original = identity_of(&stored.message, times - 1);
        status = rp_key_set_add(&service->copies.originals, (rp_slice){(const uint8_t *)&original, sizeof original});
    }
    rp_stored_message_close(&stored);
    return status;
}

static int note_window(rp_timer_service *service, rp_consume_queue *queue) {
    rp_queue_entry entries[RP_TIMER_WINDOW];
    rp_timer_copies *copies = &service->copies;
    int64_t count = rp_consume_queue_read(queue, copies->position, entries, RP_TIMER_WINDOW);
    if (count <= 0)
        return count < 0 ? (int)count : RP_E_NOT_FOUND;
    for (int64_t i = 0; i < count && copies->position < copies->end; i++, copies->position++) {
        int status = note_copy(service, &entries[i]);
        if (status != RP_OK)
            return status;
    }
    return RP_OK;
}

int rp_timer_find_copies(rp_timer_service *service, rp_consume_queue *queue, bool *is_found) {
    rp_timer_copies *copies = &service->copies;
    int64_t lost_from = rp_timer_files_checkpoint(rp_timer_files_of(service))->anew_queue_offset;
    *is_found = rp_timer_get(&service->queue_offset) >= lost_from;
    if (*is_found) {
        rp_key_set_clear(&copies->originals);
        copies->is_begun = false;
        return RP_OK;
    }
    if (!copies->is_begun) {
        rp_key_set_init(&copies->originals, (uint64_t)rp_clock_monotonic_ns(rp_clock_system()));
        copies->position = rp_consume_queue_min_offset(queue);
        copies->end = rp_consume_queue_max_offset(queue);
        copies->is_begun = true;
    }
    for (int i = 0; i < WINDOWS_IN_TURN && copies->position < copies->end; i++) {
        int status = note_window(service, queue);
        if (status != RP_OK)
            return status;
    }
    *is_found = copies->position >= copies->end;
    return RP_OK;
}

bool rp_timer_has_copy(const rp_timer_service *service, const rp_message *message) {
    if (!service->copies.is_begun || !has_unique_key(message))
        return false;
    identity wanted = identity_of(message, rp_timer_roll_times(message->properties));
    return rp_key_set_has(&service->copies.originals, (rp_slice){(const uint8_t *)&wanted, sizeof wanted});
}

int rp_timer_comes_second(rp_timer_service *service, const rp_message *message) {
    int32_t times = rp_timer_roll_times(message->properties);
    int64_t out_ms, waited_ms, window_ms = (int64_t)service->window_slots * service->precision_ms;
    rp_timer_out_ms(message->properties, &out_ms);
    if (__builtin_sub_overflow(out_ms, message->store_timestamp_ms, &waited_ms) || (times <= 0 && waited_ms < window_ms / 2) ||
        !has_unique_key(message))
        return 0;
    identity own = identity_of(message, times), original = identity_of(message, times > 0 ? times - 1 : 0);
    bool is_second = times > 0 && rp_key_set_has(&service->delivery.taken, (rp_slice){(const uint8_t *)&original, sizeof original});
    int status = rp_key_set_add(&service->delivery.taken, (rp_slice){(const uint8_t *)&own, sizeof own});
    return status != RP_OK ? status : is_second;
}
