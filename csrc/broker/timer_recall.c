/* timer_recall.c: recalls timed messages (timed_messages.h).
 * RocketMQ: RecallMessageProcessor.buildMessage (5.3.3 broker/processor/), TimerMessageStore.buildDeleteKey (store/timer/).
 *
 * A recall is a message of the timer queue that is due together with the one it recalls, and names it.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/hash.h"
#include "lane.h"
#include "parked_responses.h"
#include "timer_item.h"

#define TAG "_RECALL_TAG_"
#define KEY_SIZE_MAX (RP_TOPIC_NAME_MAX + 1 + RP_RECALL_KEY_MAX)

/* A name or key that contains a separator of properties would be read as other properties. */
static int is_plain(rp_slice text) {
    return text.size > 0 && memchr(text.data, RP_PROPERTY_NAME_END, text.size) == NULL &&
           memchr(text.data, RP_PROPERTY_VALUE_END, text.size) == NULL;
}

static int check(rp_broker *broker, const rp_recall *recall) {
    if (!is_plain(recall->topic) || !is_plain(recall->unique_key) || recall->topic.size > RP_TOPIC_NAME_MAX ||
        recall->unique_key.size > RP_RECALL_KEY_MAX || recall->producer_group.size > RP_TOPIC_NAME_MAX ||
        (recall->producer_group.size > 0 && !is_plain(recall->producer_group)))
        return RP_E_INVALID;
    if (!atomic_load_explicit(&broker->settings.store_writable, memory_order_relaxed))
        return RP_E_CLOSED;
    return RP_OK;
}

/* Writes the properties as its sender would, before it waits. */
static uint8_t *put_properties(uint8_t *at, const rp_recall *recall, int64_t now_ms) {
    uint8_t key[KEY_SIZE_MAX], *key_end = key;
    if (recall->names_topic) {
        memcpy(key, recall->topic.data, recall->topic.size);
        key_end += recall->topic.size;
        *key_end++ = '+';
    }
    memcpy(key_end, recall->unique_key.data, recall->unique_key.size);
    key_end += recall->unique_key.size;
    at = rp_put_pair(at, "TAGS", (rp_slice){(const uint8_t *)TAG, sizeof TAG - 1});
    at = rp_put_pair(at, "UNIQ_KEY", recall->unique_key);
    at = rp_put_pair(at, "TIMER_DEL_UNIQKEY", (rp_slice){key, (uint32_t)(key_end - key)});
    at = rp_put_number_pair(at, "TIMER_DELIVER_MS", recall->deliver_ms);
    at = rp_put_number_pair(at, "BORN_TIMESTAMP", now_ms);
    return recall->producer_group.size > 0 ? rp_put_pair(at, "PGROUP", recall->producer_group) : at;
}

static void set_born_host(rp_append_item *item, const rp_broker *broker, rp_slice host) {
    bool is_own = host.size != 8 && host.size != sizeof item->born_host;
    bool is_v6 = is_own ? broker->options.store_host_is_v6 != 0 : host.size == sizeof item->born_host;
    memcpy(item->born_host, is_own ? broker->options.store_host : host.data, is_v6 ? sizeof item->born_host : 8);
    item->sys_flag = is_v6 ? RP_SYSFLAG_BORN_V6 : 0;
}

static int append(rp_broker *broker, const rp_recall *recall, rp_slice properties, int64_t now_ms, int64_t *end) {
    static const char body[] = "0";
    rp_append_item item = {
        .born_timestamp_ms = now_ms,
        .tags_code = rp_hash_java((const uint8_t *)TAG, sizeof TAG - 1),
        .body = {(const uint8_t *)body, sizeof body - 1},
        .properties = {properties},
    };
    set_born_host(&item, broker, recall->born_host);
    int status = rp_timer_open_queue(broker->timers, &item.queue);
    if (status != RP_OK)
        return status;
    uint32_t leadership = rp_leadership(broker);
    rp_commit_log_append(broker->commit_log, &item, 1);
    if (item.status != RP_OK)
        return item.status;
    int64_t stored_end = item.commit_log_offset + item.size;
    rp_count_put_inside(broker, rp_timer_topic(broker->timers), RP_MESSAGE_DELAY, item.size);
    rp_broker_request_flush(broker, stored_end);
    status = rp_broker_wait_committed(broker, leadership, stored_end, rp_broker_commit_patience_ms(broker));
    *end = status == RP_OK ? stored_end : -1;
    return status;
}

int rp_broker_put_recall(rp_broker *broker, const rp_recall *recall, int64_t *end) {
    int64_t now_ms = rp_clock_wall_ms(rp_clock_system()), out_ms;
    *end = -1;
    int status = check(broker, recall);
    if (status != RP_OK)
        return status;
    size_t room = (size_t)recall->topic.size * 2 + (size_t)recall->unique_key.size * 2 + recall->producer_group.size + RP_TIMER_TEXT_ROOM;
    uint8_t *text = malloc(room * 2 + RP_TIMER_TEXT_ROOM), *waiting = text + room;
    if (text == NULL)
        return RP_E_NO_MEMORY;
    rp_slice sent = {text, (uint32_t)(put_properties(text, recall, now_ms) - text)};
    int when = rp_timer_when(broker->timers, sent, (uint32_t)(now_ms % 1000), &out_ms);
    if (when == RP_TIMER_IS_LATER) {
        uint8_t *last = rp_timer_put_waiting(waiting, sent, out_ms, recall->topic, 0);
        last = rp_put_pair(last, "TRACE_CONTEXT", (rp_slice){text, 0}); /* which RocketMQ stores and no reader sees */
        status = append(broker, recall, (rp_slice){waiting, (uint32_t)(last - waiting)}, now_ms, end);
    } else {
        status = when == RP_TIMER_IS_NOW ? RP_E_INVALID : when;
    }
    free(text);
    return status;
}
