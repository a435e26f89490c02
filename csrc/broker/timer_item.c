/* timer_item.c: see timer_item.h. */
#include "timer_item.h"

#include "../remoting/command.h"
#include "../store/light_queue.h"

#define CRC_ROOM 32u /* for the CRC that the log may add behind the properties */
#define ROLL_TIMES_MAX INT32_MAX

/* ---- when ---- */

static int has(rp_slice properties, const char *name) { return rp_message_property(properties, name).data != NULL; }

/* Java's long arithmetic wraps around; here what is too far away stays so. */
static int64_t behind(int64_t now_ms, int64_t delay, int64_t unit_ms) {
    int64_t deliver_ms;
    if (__builtin_mul_overflow(delay, unit_ms, &deliver_ms) || __builtin_add_overflow(now_ms, deliver_ms, &deliver_ms))
        return delay < 0 ? INT64_MIN : INT64_MAX;
    return deliver_ms;
}

static int deliver_ms_of(rp_slice properties, int64_t now_ms, int64_t *deliver_ms) {
    static const struct {
        const char *name;
        int64_t unit_ms;
    } delays[] = {{"TIMER_DELAY_SEC", 1000}, {"TIMER_DELAY_MS", 1}};
    for (uint32_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        rp_slice text = rp_message_property(properties, delays[i].name);
        int64_t delay;
        if (text.data == NULL)
            continue;
        if (rp_slice_to_i64(text, &delay) != RP_OK)
            return RP_E_INVALID;
        *deliver_ms = behind(now_ms, delay, delays[i].unit_ms);
        return RP_OK;
    }
    return rp_slice_to_i64(rp_message_property(properties, "TIMER_DELIVER_MS"), deliver_ms);
}

int rp_timer_decide(rp_slice properties, const rp_timer_rules *rules, int64_t *out_ms) {
    int64_t deliver_ms = 0;
    *out_ms = 0;
    if (deliver_ms_of(properties, rules->now_ms, &deliver_ms) != RP_OK)
        return RP_E_INVALID;
    if (deliver_ms <= rules->now_ms)
        return has(properties, "TIMER_DEL_UNIQKEY") ? RP_E_INVALID : RP_TIMER_IS_NOW;
    if (deliver_ms < 1 || (rules->now_ms < 0 ? deliver_ms : deliver_ms - rules->now_ms) > rules->delay_max_ms)
        return RP_E_INVALID;
    *out_ms = (deliver_ms - 1) / rules->precision_ms * rules->precision_ms;
    return RP_TIMER_IS_LATER;
}

int rp_timer_is_timed(rp_slice properties) {
    int32_t level = 0;
    if (rp_slice_to_i32(rp_message_property(properties, "DELAY"), &level) == RP_OK && level > 0)
        return 0;
    return (has(properties, "TIMER_DELAY_SEC") || has(properties, "TIMER_DELAY_MS") || has(properties, "TIMER_DELIVER_MS")) &&
           !has(properties, "TIMER_OUT_MS");
}

int rp_timer_out_ms(rp_slice properties, int64_t *out_ms) {
    *out_ms = 0;
    if (rp_slice_to_i64(rp_message_property(properties, "TIMER_OUT_MS"), out_ms) != RP_OK)
        return RP_E_NOT_FOUND;
    if (*out_ms < 0)
        *out_ms = 0;
    return RP_OK;
}

/* ---- texts ---- */

uint8_t *rp_timer_put_waiting(uint8_t *at, rp_slice sent, int64_t out_ms, rp_slice topic, int32_t queue_id) {
    static const char *const replaced[] = {"TIMER_OUT_MS",     "REAL_TOPIC",       "REAL_QID", "TIMER_ROLL_TIMES",
                                           "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "__CRC32#", NULL};
    at = rp_copy_pairs_without(at, sent, replaced);
    return rp_put_real_place(rp_put_number_pair(at, "TIMER_OUT_MS", out_ms), topic, queue_id);
}

/* Adds a pair that may be left out. */
static uint8_t *put_if_it_fits(uint8_t *start, uint8_t *at, const char *name, int64_t number) {
    uint8_t *end = rp_put_number_pair(at, name, number);
    return end - start <= (int64_t)(RP_PROPERTIES_SIZE_MAX - CRC_ROOM) ? end : at;
}

static uint8_t *put_times(uint8_t *start, uint8_t *at, int64_t enqueue_ms, int64_t now_ms) {
    at = put_if_it_fits(start, at, "TIMER_ENQUEUE_MS", enqueue_ms);
    return put_if_it_fits(start, at, "TIMER_DEQUEUE_MS", now_ms);
}

uint8_t *rp_timer_put_delivered(uint8_t *at, rp_slice waited, int64_t enqueue_ms, int64_t now_ms) {
    static const char *const replaced[] = {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", RP_LIGHT_OFFSETS, "__CRC32#", NULL};
    return put_times(at, rp_copy_pairs_without(at, waited, replaced), enqueue_ms, now_ms);
}

int32_t rp_timer_roll_times(rp_slice waited) {
    int32_t times = 0;
    if (rp_slice_to_i32(rp_message_property(waited, "TIMER_ROLL_TIMES"), &times) != RP_OK || times < 0)
        return 0;
    return times;
}

static uint8_t *put_again(uint8_t *start, uint8_t *at, rp_slice waited, int64_t enqueue_ms, int64_t now_ms) {
    int32_t times = rp_timer_roll_times(waited);
    at = put_if_it_fits(start, at, "TIMER_ROLL_TIMES", times < ROLL_TIMES_MAX ? times + 1 : times);
    return put_times(start, at, enqueue_ms, now_ms);
}

uint8_t *rp_timer_put_rolled(uint8_t *at, rp_slice waited, int64_t enqueue_ms, int64_t now_ms) {
    static const char *const replaced[] = {"TIMER_ROLL_TIMES", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "__CRC32#", NULL};
    return put_again(at, rp_copy_pairs_without(at, waited, replaced), waited, enqueue_ms, now_ms);
}

uint8_t *rp_timer_put_set_aside(uint8_t *at, rp_slice waited, int64_t out_ms, int64_t enqueue_ms, int64_t now_ms) {
    static const char *const replaced[] = {"TIMER_OUT_MS", "TIMER_ROLL_TIMES", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "__CRC32#", NULL};
    uint8_t *end = rp_put_number_pair(rp_copy_pairs_without(at, waited, replaced), "TIMER_OUT_MS", out_ms);
    return put_again(at, end, waited, enqueue_ms, now_ms);
}
