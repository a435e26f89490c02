/* compaction_copy.c: see compaction_copy.h. */
#include "compaction_copy.h"

#include <stdbool.h>
#include <string.h>

#include "compaction_pass.h"
#include "message_layout_inl.h"

#define ENTRIES_AT_ONCE 32u
#define AT_PHYSICAL_OFFSET 28 /* within a record; RocketMQ's copies carry their own physical offset there */
#define DIFFERS 0
#define AGREES 1
#define UNKNOWN 2

/* RP_OK: the record is there, or never will be. */
static int copy_record(rp_compaction_copy *copy, const rp_queue_entry *entry, int64_t offset, const rp_log_range *range, rp_error *error) {
    rp_message message;
    bool is_message = rp_message_decode(range->address, range->size, RP_CHECK_NO_CRC, &message, NULL) == RP_RECORD_MESSAGE &&
                      message.size == range->size && message.queue_offset == offset;
    if (!is_message) {
        copy->passed_over++;
        return RP_OK;
    }
    if (rp_compaction_key(message.properties).size == 0) {
        copy->without_key++;
        return RP_OK;
    }
    int rc = rp_compaction_log_append(copy->to, &message, (rp_slice){range->address, range->size}, entry->tags_code, error);
    copy->copied += rc == RP_OK;
    copy->passed_over += rc == RP_E_INVALID;
    return rc == RP_E_INVALID ? RP_OK : rc;
}

static int copy_entry(rp_compaction_copy *copy, const rp_queue_entry *entry, int64_t offset, rp_error *error) {
    rp_log_range range;
    if (entry->size <= 0 || entry->size == INT32_MAX) /* the entry of a record that was lost */
        return RP_OK;
    int rc = rp_commit_log_read(copy->commit_log, entry->commit_log_offset, (uint32_t)entry->size, &range);
    if (rp_status_is_passing(rc))
        return rp_error_set(error, rc, 0, NULL, entry->commit_log_offset, "a record cannot be read: %s", rp_status_text(rc));
    if (rc != RP_OK) {
        copy->passed_over++;
        return RP_OK;
    }
    rc = copy_record(copy, entry, offset, &range, error);
    rp_log_range_release(range.pin);
    return rc;
}

static void tell(const rp_compaction_copy *copy, uint64_t passed_over) {
    rp_slice topic = rp_compaction_log_topic(copy->to);
    if (copy->passed_over > passed_over)
        rp_log_write(copy->log, RP_LOG_WARNING,
                     "compacted queue %.*s/%d: %llu messages are damaged, gone or too large for its files, and not copied", (int)topic.size,
                     (const char *)topic.data, rp_compaction_log_queue_id(copy->to), (unsigned long long)(copy->passed_over - passed_over));
}

int rp_compaction_copy_some(rp_compaction_copy *copy, rp_error *error) {
    int64_t at = rp_compaction_log_end(copy->to), min = rp_consume_queue_min_offset(copy->queue), begin;
    int64_t max = rp_consume_queue_max_offset(copy->queue);
    uint64_t passed_over = copy->passed_over;
    begin = at = at < min ? min : at;
    int rc = RP_OK;
    while (at < max && at - begin < RP_COMPACTION_COPY_MAX && rc == RP_OK) {
        rp_queue_entry entries[ENTRIES_AT_ONCE];
        int64_t left = max - at, got;
        got = rp_consume_queue_read(copy->queue, at, entries, left < ENTRIES_AT_ONCE ? (uint32_t)left : ENTRIES_AT_ONCE);
        if (rp_status_is_passing((int)got))
            rc = rp_error_set(error, (int)got, 0, NULL, at, "entries cannot be read: %s", rp_status_text((int)got));
        if (got <= 0)
            break; /* or the queue was trimmed or cut meanwhile: the next call sees it */
        for (int64_t i = 0; i < got && rc == RP_OK; i++) {
            rc = copy_entry(copy, &entries[i], at, error);
            at += rc == RP_OK;
        }
    }
    if (at > rp_compaction_log_end(copy->to) && max > 0)
        rp_compaction_log_set_end(copy->to, at);
    tell(copy, passed_over);
    return rc != RP_OK ? rc : at > begin && at < max;
}

static bool is_of_queue(const rp_compaction_copy *copy, const rp_message *message) {
    rp_slice topic = rp_compaction_log_topic(copy->to);
    return message->queue_id == rp_compaction_log_queue_id(copy->to) && message->topic.size == topic.size &&
           memcmp(message->topic.data, topic.data, topic.size) == 0 && message->queue_offset >= 0;
}

int rp_compaction_copy_fill(rp_compaction_copy *copy, rp_slice records, int64_t to, rp_error *error) {
    for (uint32_t at = 0; at < records.size;) {
        rp_message message;
        int kind = rp_message_decode(records.data + at, records.size - at, RP_CHECK_BODY_CRC, &message, error);
        if (kind != RP_RECORD_MESSAGE || !is_of_queue(copy, &message))
            return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, at, "what the master says it kept are no messages of this queue");
        if (message.queue_offset >= to)
            break;
        rp_slice record = {records.data + at, message.size};
        at += message.size;
        if (message.queue_offset < rp_compaction_log_end(copy->to) || rp_compaction_key(message.properties).size == 0)
            continue;
        int rc = rp_compaction_log_append(copy->to, &message, record, rp_message_tags_code(message.properties), error);
        if (rc != RP_OK && rc != RP_E_INVALID)
            return rc;
        copy->copied += rc == RP_OK;
        copy->passed_over += rc != RP_OK;
        rp_compaction_log_set_end(copy->to, message.queue_offset + 1);
    }
    return RP_OK;
}

static bool is_same_record(rp_slice copied, const rp_log_range *range) {
    return copied.size == range->size && copied.size >= AT_PHYSICAL_OFFSET + 8 &&
           memcmp(copied.data, range->address, AT_PHYSICAL_OFFSET) == 0 &&
           memcmp(copied.data + AT_PHYSICAL_OFFSET + 8, range->address + AT_PHYSICAL_OFFSET + 8, copied.size - AT_PHYSICAL_OFFSET - 8) == 0;
}

/* Returns AGREES, DIFFERS or UNKNOWN; negative: why it cannot be compared now. */
static int compare(const rp_compaction_copy *copy, const rp_compaction_segment *segment, const rp_compaction_entry *entry) {
    int64_t offset = entry->queue_offset;
    rp_queue_entry found;
    rp_log_range range;
    if (offset < rp_consume_queue_min_offset(copy->queue))
        return UNKNOWN;
    if (offset >= rp_consume_queue_max_offset(copy->queue))
        return DIFFERS;
    int64_t got = rp_consume_queue_read(copy->queue, offset, &found, 1);
    if (got != 1)
        return rp_status_is_passing((int)got) ? (int)got : UNKNOWN;
    if (found.size <= 0 || found.size == INT32_MAX)
        return UNKNOWN;
    int rc = rp_commit_log_read(copy->commit_log, found.commit_log_offset, (uint32_t)found.size, &range);
    if (rc != RP_OK)
        return rp_status_is_passing(rc) ? rc : UNKNOWN;
    bool is_same = is_same_record(rp_compaction_segment_record(segment, entry), &range);
    rp_log_range_release(range.pin);
    return is_same ? AGREES : DIFFERS;
}

int rp_compaction_copy_compare(rp_compaction_copy *copy, int64_t compacted_to, rp_error *error) {
    int64_t end = rp_compaction_log_max_offset(copy->to), at = end, agreed = -1;
    uint64_t differing = 0;
    int verdict = DIFFERS;
    if (rp_consume_queue_max_offset(copy->queue) == 0)
        return 0;
    while (at > 0 && verdict == DIFFERS) {
        rp_compaction_entry entry;
        rp_compaction_segment *segment = rp_compaction_log_find_before(copy->to, at, &entry);
        if (segment == NULL)
            break;
        verdict = compare(copy, segment, &entry);
        rp_compaction_segment_release(segment);
        if (verdict < 0)
            return rp_error_set(error, verdict, 0, NULL, entry.queue_offset, "a record cannot be read: %s", rp_status_text(verdict));
        at = verdict == DIFFERS ? entry.queue_offset : at;
        agreed = verdict == DIFFERS ? agreed : entry.queue_offset;
        differing += verdict == DIFFERS;
    }
    int64_t max = rp_consume_queue_max_offset(copy->queue);
    if (differing == 0 && rp_compaction_log_end(copy->to) <= max && compacted_to < end)
        return 1;
    rp_slice topic = rp_compaction_log_topic(copy->to);
    if (differing > 0)
        rp_log_write(copy->log, RP_LOG_WARNING,
                     "compacted queue %.*s/%d: %llu messages from offset %lld on are not in the log any more, they go", (int)topic.size,
                     (const char *)topic.data, rp_compaction_log_queue_id(copy->to), (unsigned long long)differing, (long long)at);
    if (compacted_to > agreed) /* also the position of a message that a compaction dropped: the log may have lost that one too */
        return RP_COMPACTION_COPY_ANEW;
    int rc = rp_compaction_log_cut(copy->to, at < max ? at : max, error);
    return rc == RP_OK ? 1 : rc;
}
