/* timer_copies.c: which messages of the timer queue wait as a later copy of them (timer_service.h).
 * RocketMQ has nothing of the kind: where its timer log is lost, so is what waited.
 *
 * A message that waits longer than the wheel reaches is in the queue once more for each time that it was rolled, and all of them say the
 * same time. While wheel and log are made again from the queue, only the last one counts. It is found by all that a copy keeps: when,
 * where and by which key it was sent, its body; and it was rolled once more.
 *
 * Bounds   16 bytes for each copy in the queue, while entering is below where it was when log and wheel were lost.
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

/* Of a copy: what it is a copy of. RP_OK; else what to try again for. */
static int note_copy(rp_timer_service *service, const rp_queue_entry *entry) {
    rp_stored_message stored;
    int status = rp_stored_message_open(service->broker->commit_log, entry->commit_log_offset, &stored);
    if (status != RP_OK)
        return rp_status_is_passing(status) ? status : RP_OK;
    int32_t times = number_of(stored.message.properties, "TIMER_ROLL_TIMES");
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
    if (!service->copies.is_begun)
        return false;
    identity wanted = identity_of(message, number_of(message->properties, "TIMER_ROLL_TIMES"));
    return rp_key_set_has(&service->copies.originals, (rp_slice){(const uint8_t *)&wanted, sizeof wanted});
}
