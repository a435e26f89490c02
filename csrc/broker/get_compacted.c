/* get_compacted.c: see get_compacted.h. */
#include "get_compacted.h"

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "../store/compaction_log.h"
#include "../store/message.h"
#include "../store/message_store.h"
#include "sql_filter.h"
#include "tag_filter.h"

#define PULL_BYTES_MIN 100 /* as of get_message.c */
#define PULL_BYTES_MAX (INT64_C(128) << 20)
#define LOOKS_A_CLOCK 16u /* records read between two checks of the clock */

typedef struct compacted_walk {
    const rp_get_request *request;
    const rp_get_limits *limits;
    rp_get_scratch *scratch;
    rp_get_result *result;
    const rp_compaction_segment *segment;
    int64_t bytes_max, log_end;
    int64_t stop_at_ns;
    uint32_t looks;
} compacted_walk;

static void keep_nothing(void *owner) { (void)owner; }

static int is_full(const compacted_walk *walk, const rp_compaction_entry *entry) {
    const rp_get_result *result = walk->result;
    const rp_get_limits *limits = walk->limits;
    if (result->count == 0)
        return 0;
    if ((int64_t)result->count + 1 > walk->request->max_messages || (int64_t)result->bytes + entry->size > walk->bytes_max)
        return 1;
    int in_memory = walk->log_end - entry->position <= limits->memory_bytes;
    uint32_t bytes_max = in_memory ? limits->transfer_bytes_memory : limits->transfer_bytes_disk;
    uint32_t count_max = in_memory ? limits->transfer_count_memory : limits->transfer_count_disk;
    return result->bytes + (uint64_t)entry->size > bytes_max || result->count + 1 > count_max || result->count >= walk->scratch->ranges_max;
}

static int matches(compacted_walk *walk, const rp_compaction_entry *entry, rp_slice record) {
    const rp_message_filter *filter = walk->request->filter;
    rp_message message;
    if (filter->kind != RP_FILTER_SQL)
        return rp_tag_filter_matches(filter, entry->tags_code);
    walk->looks++;
    return rp_message_decode(record.data, record.size, RP_CHECK_NO_CRC, &message, NULL) != RP_RECORD_MESSAGE ||
           rp_sql_filter_matches(filter, message.properties);
}

/* True if the filter would have to read a record that is on disk only: the walk ends before it, and the next pull has it read in as its
 * first. */
static int is_out_of_sight(const compacted_walk *walk, rp_slice record) {
    return walk->stop_at_ns != 0 && walk->request->is_on_disk != NULL &&
           !rp_compaction_segment_bytes_in_memory(walk->segment, record.data, record.size);
}

static int is_spent(const compacted_walk *walk) {
    return walk->stop_at_ns != 0 && walk->looks % LOOKS_A_CLOCK == LOOKS_A_CLOCK - 1 &&
           rp_clock_monotonic_ns(rp_clock_system()) >= walk->stop_at_ns;
}

static void add(compacted_walk *walk, const rp_compaction_entry *entry, rp_slice record) {
    rp_get_result *result = walk->result;
    rp_file_range *range = &walk->scratch->ranges[result->range_count];
    int64_t place = entry->position - rp_compaction_segment_base(walk->segment);
    if (result->range_count > 0 && range[-1].file_offset + range[-1].size == place) {
        range[-1].size += record.size;
    } else {
        *range = (rp_file_range){record.data, record.size, rp_compaction_segment_fd(walk->segment), place, keep_nothing, NULL};
        result->range_count++;
    }
    if (walk->request->offsets != NULL)
        walk->request->offsets[result->count] = entry->queue_offset;
    result->count++;
    result->bytes += record.size;
    result->status = RP_GET_FOUND;
}

/* Walks the entries of one segment from index `at` on. */
static void walk_segment(compacted_walk *walk, uint32_t at) {
    rp_get_result *result = walk->result;
    uint32_t count = rp_compaction_segment_count(walk->segment);
    uint32_t first = at;
    int64_t left = rp_get_entries_max(walk->limits, walk->request->max_messages);
    for (; at < count && left > 0 && !is_spent(walk); at++, left--) {
        rp_compaction_entry entry;
        rp_compaction_segment_entry(walk->segment, at, &entry);
        rp_slice record = rp_compaction_segment_record(walk->segment, &entry);
        if (entry.queue_offset < result->next_offset || is_full(walk, &entry) || (at > first && is_out_of_sight(walk, record)))
            return; /* or it was cut meanwhile */
        result->next_offset = entry.queue_offset + 1;
        if (record.size > 0 && matches(walk, &entry, record))
            add(walk, &entry, record);
    }
}

/* No further messages are kept: what follows is in the queue. */
static void go_to_end(const rp_compaction_log *log, rp_get_result *result) {
    int64_t end = rp_compaction_log_end(log);
    result->next_offset = end > result->next_offset ? end : result->next_offset;
}

int rp_compacted_has(rp_consume_queue *queue, int64_t offset) {
    const rp_compaction_log *log = rp_consume_queue_compacted(queue);
    return log != NULL && offset >= 0 && offset < rp_compaction_log_end(log);
}

int rp_get_compacted(const rp_get_request *request, const rp_get_limits *limits, rp_get_scratch *scratch, rp_get_result *result) {
    rp_compaction_log *log = rp_consume_queue_compacted(request->queue);
    if (log == NULL || request->offset >= rp_compaction_log_end(log))
        return 0;
    *result = (rp_get_result){.status = RP_GET_NO_MATCHED_MESSAGE, .next_offset = request->offset, .compacted_from = request->offset};
    result->min_offset = rp_message_store_first_offset(request->queue);
    result->max_offset = rp_consume_queue_max_offset(request->queue);
    if (result->max_offset < rp_compaction_log_end(log))
        result->max_offset = rp_compaction_log_end(log); /* the queue was cut, or has lost its log: the copy will follow */
    if (request->offset < 0) {
        result->status = RP_GET_OFFSET_TOO_SMALL;
        result->next_offset = limits->keep_bad_offset ? request->offset : result->min_offset;
        return 1;
    }
    rp_compaction_segment *segment = rp_compaction_log_find(log, request->offset);
    if (segment == NULL) {
        go_to_end(log, result);
        return 1;
    }
    int is_sql = request->filter->kind == RP_FILTER_SQL;
    compacted_walk walk = {
        .request = request,
        .limits = limits,
        .scratch = scratch,
        .result = result,
        .segment = segment,
        .bytes_max = request->max_bytes < PULL_BYTES_MIN   ? PULL_BYTES_MIN
                     : request->max_bytes > PULL_BYTES_MAX ? PULL_BYTES_MAX
                                                           : request->max_bytes,
        .log_end = rp_compaction_segment_base(segment) + (int64_t)rp_compaction_segment_log_size(segment),
        .stop_at_ns = is_sql ? rp_clock_monotonic_ns(rp_clock_system()) + RP_FILTER_NS : 0,
    };
    walk_segment(&walk, rp_compaction_segment_find(segment, request->offset));
    if (result->range_count > 0) {
        rp_file_range *last = &scratch->ranges[result->range_count - 1];
        last->release = rp_compaction_segment_release;
        last->owner = segment;
    } else {
        rp_compaction_segment_release(segment);
    }
    return 1;
}

int rp_compacted_found_is_on_disk(const rp_get_scratch *scratch, const rp_get_result *result) {
    const rp_file_range *ranges = scratch->ranges;
    const rp_compaction_segment *segment = ranges[result->range_count - 1].owner;
    int all = 1;
    for (uint32_t i = 0; i < result->range_count && all; i++)
        all = rp_compaction_segment_bytes_in_memory(segment, ranges[i].address, ranges[i].size);
    return !all;
}

int rp_compacted_is_on_disk(rp_consume_queue *queue, int64_t first, int64_t end) {
    rp_compaction_log *log = rp_consume_queue_compacted(queue);
    rp_compaction_segment *segment = log != NULL ? rp_compaction_log_find(log, first) : NULL;
    int is_in_memory = segment == NULL || (rp_compaction_segment_entries_in_memory(segment) &&
                                           rp_compaction_segment_in_memory(segment, rp_compaction_segment_find(segment, first),
                                                                           rp_compaction_segment_find(segment, end)));
    rp_compaction_segment_release(segment);
    return !is_in_memory;
}

uint64_t rp_compacted_read_in(rp_consume_queue *queue, int64_t first, int64_t end) {
    rp_compaction_log *log = rp_consume_queue_compacted(queue);
    rp_compaction_segment *segment = log != NULL ? rp_compaction_log_find(log, first) : NULL;
    uint64_t bytes = 0;
    if (segment != NULL)
        bytes =
            rp_compaction_segment_read_in(segment, rp_compaction_segment_find(segment, first), rp_compaction_segment_find(segment, end));
    rp_compaction_segment_release(segment);
    return bytes;
}
