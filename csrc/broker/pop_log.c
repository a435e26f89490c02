/* pop_log.c: see pop_log.h. */
#include "pop_log.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/log_inl.h"
#include "../store/message.h"
#include "../store/topic_prefix_inl.h"
#include "escape_bridge.h"
#include "lane.h"

rp_topic *rp_pop_log_topic(const rp_broker *broker) { return rp_topic_table_find(broker->topics, broker->revive_topic); }

int rp_pop_log_open_queue(rp_broker *broker, int32_t revive_queue_id, rp_consume_queue **queue) {
    rp_topic *topic = rp_pop_log_topic(broker);
    if (topic == NULL || revive_queue_id < 0 || revive_queue_id >= atomic_load_explicit(&topic->write_queues, memory_order_relaxed))
        return RP_E_NOT_FOUND;
    return rp_topic_open_queue_to_send(broker->topics, topic, revive_queue_id, queue) != NULL ? RP_OK : RP_E_IO;
}

int rp_pop_log_find_queue(rp_broker *broker, int32_t revive_queue_id, rp_consume_queue **queue) {
    const rp_topic *topic = rp_pop_log_topic(broker);
    if (topic == NULL || revive_queue_id < 0 || revive_queue_id >= atomic_load_explicit(&topic->write_queues, memory_order_relaxed))
        return RP_E_NOT_FOUND;
    *queue = rp_message_store_queue(broker->store, topic->head.name, revive_queue_id, 1, NULL);
    return *queue != NULL ? RP_OK : RP_E_IO;
}

void rp_pop_log_fill_item(const rp_broker *broker, rp_consume_queue *queue, const rp_pop_record *record, rp_append_item *item) {
    *item = (rp_append_item){
        .queue = queue,
        .sys_flag = broker->options.store_host_is_v6 ? RP_SYSFLAG_BORN_V6 : 0,
        .born_timestamp_ms = rp_clock_wall_ms(rp_clock_system()),
        .tags_code = record->tags_code,
        .body = record->body,
        .properties = {record->properties},
    };
    memcpy(item->born_host, broker->options.store_host, sizeof item->born_host);
}

/* cuts: of the log, from before the record's premises were read or appended. */
static int append(rp_broker *broker, int32_t revive_queue_id, uint64_t cuts, const rp_pop_record *record) {
    rp_append_item item;
    rp_consume_queue *queue;
    if (rp_escape_is_on(broker) || atomic_load_explicit(&broker->settings.role, memory_order_relaxed) == RP_ROLE_SLAVE)
        return RP_E_READ_ONLY; /* also if it acted for its master a moment ago */
    int status = rp_pop_log_open_queue(broker, revive_queue_id, &queue);
    if (status != RP_OK)
        return status;
    rp_pop_log_fill_item(broker, queue, record, &item);
    rp_commit_log_append_behind(broker->commit_log, &item, 1, cuts);
    if (item.status == RP_OK)
        rp_broker_request_flush(broker, item.commit_log_offset + item.size);
    return item.status;
}

int rp_pop_log_put_checkpoint(rp_broker *broker, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint) {
    uint8_t *room = malloc(rp_pop_checkpoint_room(checkpoint));
    rp_pop_record record;
    if (room == NULL)
        return RP_E_NO_MEMORY;
    rp_pop_checkpoint_write(checkpoint, rp_clock_wall_ms(rp_clock_system()), room, &record);
    int status = append(broker, revive_queue_id, rp_commit_log_cuts(broker->commit_log), &record);
    free(room);
    return status;
}

int rp_pop_log_put_ack(rp_broker *broker, int32_t revive_queue_id, const rp_pop_ack *ack) {
    uint8_t *room = malloc(rp_pop_ack_room(ack));
    rp_pop_record record;
    if (room == NULL)
        return RP_E_NO_MEMORY;
    rp_pop_ack_write(ack, rp_clock_wall_ms(rp_clock_system()), room, &record);
    int status = append(broker, revive_queue_id, rp_commit_log_cuts(broker->commit_log), &record);
    free(room);
    return status;
}

/* Not a single append of both: the log would accept the second record, which is shorter, where the first no longer fits. Everything that
 * the second needs is allocated before the first is appended. */
int rp_pop_log_replace(rp_broker *broker, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint, const rp_pop_ack *ack) {
    uint32_t checkpoint_room = rp_pop_checkpoint_room(checkpoint);
    uint8_t *room = malloc((size_t)checkpoint_room + rp_pop_ack_room(ack));
    rp_pop_record records[2];
    if (room == NULL)
        return RP_E_NO_MEMORY;
    int64_t now_ms = rp_clock_wall_ms(rp_clock_system());
    rp_pop_checkpoint_write(checkpoint, now_ms, room, &records[0]);
    rp_pop_ack_write(ack, now_ms, room + checkpoint_room, &records[1]);
    uint64_t cuts = rp_commit_log_cuts(broker->commit_log); /* an ack behind a checkpoint that was taken back would lose the message */
    int status = append(broker, revive_queue_id, cuts, &records[0]);
    int acked = status == RP_OK ? append(broker, revive_queue_id, cuts, &records[1]) : RP_OK;
    free(room);
    if (acked != RP_OK && rp_log_is_due(&broker->pop_log_due_ns))
        rp_log_write(broker->options.log, RP_LOG_WARNING, "pop: a message of group %.*s comes twice: its ack was not stored (%d)",
                     (int)ack->group.size, (const char *)ack->group.data, acked);
    return status;
}

uint32_t rp_pop_retry_topic_name(rp_slice topic, rp_slice group, int version, uint8_t *name) {
    const uint32_t prefix = RP_RETRY_PREFIX_SIZE;
    if ((uint64_t)topic.size + group.size + prefix + 1 > RP_TOPIC_NAME_MAX)
        return 0;
    memcpy(name, RP_RETRY_PREFIX, prefix);
    memcpy(name + prefix, group.data, group.size);
    name[prefix + group.size] = version == 2 ? '+' : '_';
    memcpy(name + prefix + group.size + 1, topic.data, topic.size);
    return prefix + group.size + 1 + topic.size;
}

static int32_t setting(const _Atomic int32_t *value) { return atomic_load_explicit(value, memory_order_relaxed); }

int32_t rp_pop_retry_queues(const rp_broker *broker, const rp_topic *topic) {
    int32_t queues = setting(&broker->settings.separate_retry_queues) ? setting(&topic->write_queues) : 1;
    return queues > 1 ? queues : 1;
}

int32_t rp_pop_retry_width(const rp_topic *retry) {
    int32_t read_queues = setting(&retry->read_queues), write_queues = setting(&retry->write_queues);
    return read_queues < write_queues ? read_queues : write_queues;
}
