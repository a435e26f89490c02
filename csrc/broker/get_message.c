/* get_message.c: see get_message.h.
 *
 * First the entries are chosen and their records listed by log offset alone; then one pin covers the whole stretch. That fails if the
 * stretch crosses a file's end or a file is gone: then the entries are walked again with a pin for each record, which also tells which
 * messages were removed. The walk ends with the file of its first record: the next pull gets those of the next file.
 */
#include "get_message.h"

#include <stdlib.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "../store/message.h"
#include "get_compacted.h"
#include "sql_filter.h"
#include "tag_filter.h"

#define UNCLOCKED_A_RECORD 128u
#define UNCLOCKED_MAX 2048u
#define ENTRIES_AT_ONCE 32u
#define RANGES_AT_FIRST 32u
#define PULL_BYTES_MIN 100 /* both as in DefaultMessageStore.getMessage */
#define PULL_BYTES_MAX (INT64_C(128) * 1024 * 1024)
#define STRETCH_BYTES_MAX (INT64_C(1) << 30)
#define OTHER_FILE 1 /* a result beside those of rp_status: the record is in another file than those before it */
#define UNWANTED 2   /* the filter does not accept it */
#define ENTRIES_ASKED_MAX 4096 /* limits the client's maxMsgNums */

const char *rp_get_status_name(int status) {
    static const char *const names[] = {
        "FOUND",
        "NO_MATCHED_MESSAGE",
        "MESSAGE_WAS_REMOVING",
        "OFFSET_FOUND_NULL",
        "OFFSET_OVERFLOW_BADLY",
        "OFFSET_OVERFLOW_ONE",
        "OFFSET_TOO_SMALL",
        "NO_MATCHED_LOGIC_QUEUE",
        "NO_MESSAGE_IN_QUEUE",
        "OFFSET_RESET",
        "the next message cannot be read just now, the broker's log says why; it is not lost, pull again",
        "the next message has to be read from disk first; pull again",
    };
    return names[status];
}

int rp_get_scratch_init(rp_get_scratch *scratch) {
    scratch->ranges = calloc(RANGES_AT_FIRST, sizeof *scratch->ranges);
    scratch->ranges_max = RANGES_AT_FIRST;
    return scratch->ranges != NULL ? RP_OK : RP_E_NO_MEMORY;
}

void rp_get_scratch_reserve(rp_get_scratch *scratch, const rp_get_limits *limits) {
    uint32_t most =
        limits->transfer_count_memory > limits->transfer_count_disk ? limits->transfer_count_memory : limits->transfer_count_disk;
    if (most <= scratch->ranges_max)
        return;
    rp_file_range *larger = realloc(scratch->ranges, most * sizeof *larger);
    if (larger == NULL)
        return;
    scratch->ranges = larger;
    scratch->ranges_max = most;
}

void rp_get_scratch_free(rp_get_scratch *scratch) {
    free(scratch->ranges);
    scratch->ranges = NULL;
}

int64_t rp_get_entries_max(const rp_get_limits *limits, int32_t max_messages) {
    int64_t filtered = limits->filter_bytes_max / RP_CONSUME_QUEUE_ENTRY_SIZE;
    int64_t asked = max_messages < ENTRIES_ASKED_MAX ? max_messages : ENTRIES_ASKED_MAX;
    return asked > filtered ? asked : filtered;
}

typedef struct get_walk {
    const rp_get_request *request;
    const rp_get_limits *limits;
    rp_get_scratch *scratch;
    rp_get_result *result;
    int64_t log_max;
    int64_t bytes_max;
    int64_t entries_left; /* how many more entries the walk may visit */
    int64_t last_offset; /* log offset of the last entry visited */
    int pin_each;        /* the second way: a pin for each record */
    int64_t stop_at_ns;  /* deadline of a filter that reads records */
    uint32_t unclocked;  /* bytes of properties read since the last check of the clock, and a fixed amount for each record */
    int is_spent;        /* 1: past the deadline */
    uint32_t disk_looks; /* from the request: what is left of them */
} get_walk;

static void keep_nothing(void *owner) { (void)owner; }

void rp_get_release(rp_get_scratch *scratch, const rp_get_result *result) {
    for (uint32_t i = 0; i < result->range_count; i++)
        scratch->ranges[i].release(scratch->ranges[i].owner);
}

static int is_in_memory(const get_walk *walk, int64_t log_offset) {
    const rp_get_request *request = walk->request;
    return walk->log_max - log_offset <= walk->limits->memory_bytes ||
           (request->is_in_memory != NULL && request->is_in_memory(request->context, log_offset));
}

static int is_full(const get_walk *walk, const rp_queue_entry *entry) {
    const rp_get_result *result = walk->result;
    const rp_get_limits *limits = walk->limits;
    if (result->bytes == 0 || result->count == 0)
        return 0;
    int32_t more = walk->request->takes_part ? 1 : entry->messages;
    if ((int64_t)result->count + more > walk->request->max_messages || (int64_t)result->bytes + entry->size > walk->bytes_max)
        return 1;
    int in_memory = is_in_memory(walk, entry->commit_log_offset);
    uint32_t bytes_max = in_memory ? limits->transfer_bytes_memory : limits->transfer_bytes_disk;
    uint32_t count_max = in_memory ? limits->transfer_count_memory : limits->transfer_count_disk;
    return result->bytes + (uint64_t)entry->size > bytes_max || result->count + 1 > count_max || result->count >= walk->scratch->ranges_max;
}

static int64_t now_ns(void) { return rp_clock_monotonic_ns(rp_clock_system()); }

/* Bytes that are no message pass, as without a filter: the client judges them. */
static int passes_expression(get_walk *walk, const rp_log_range *record) {
    rp_message message;
    if (walk->request->filter->kind != RP_FILTER_SQL ||
        rp_message_decode(record->address, record->size, RP_CHECK_NO_CRC, &message, NULL) != RP_RECORD_MESSAGE)
        return 1;
    int passes = rp_sql_filter_matches(walk->request->filter, message.properties);
    walk->unclocked += message.properties.size + UNCLOCKED_A_RECORD;
    if (walk->unclocked >= UNCLOCKED_MAX) {
        walk->unclocked = 0;
        walk->is_spent = now_ns() >= walk->stop_at_ns;
    }
    return passes;
}

/* Counts the messages of the entry before the first that is wanted: they come with it, and count unless they are taken off. */
static int32_t unasked(const rp_get_request *request, const rp_queue_entry *entry) {
    return request->takes_part && entry->queue_offset < request->offset ? (int32_t)(request->offset - entry->queue_offset) : 0;
}

/* Adds a record. RP_OK, OTHER_FILE, UNWANTED, or the error of reading it. In the first way file_offset holds the log offset until the
 * pin is taken. */
static int add_record(get_walk *walk, const rp_queue_entry *entry) {
    rp_get_result *result = walk->result;
    rp_file_range *range = &walk->scratch->ranges[result->range_count];
    uint32_t size = (uint32_t)entry->size;
    if (walk->pin_each) {
        rp_log_range pinned;
        int status = rp_commit_log_read(walk->request->commit_log, entry->commit_log_offset, size, &pinned);
        if (status != RP_OK)
            return status;
        int64_t file_base = entry->commit_log_offset - pinned.file_offset;
        if (result->range_count > 0 && file_base != result->file_base) {
            rp_log_range_release(pinned.pin);
            return OTHER_FILE;
        }
        if (!passes_expression(walk, &pinned)) {
            rp_log_range_release(pinned.pin);
            return UNWANTED;
        }
        result->file_base = file_base;
        *range = (rp_file_range){pinned.address, size, pinned.fd, pinned.file_offset, rp_log_range_release, pinned.pin};
        result->range_count++;
    } else if (result->range_count > 0 && range[-1].file_offset + range[-1].size == entry->commit_log_offset) {
        range[-1].size += size;
    } else {
        *range = (rp_file_range){NULL, size, -1, entry->commit_log_offset, keep_nothing, NULL};
        result->range_count++;
    }
    result->count += (uint32_t)(entry->messages - unasked(walk->request, entry));
    result->bytes += size;
    return RP_OK;
}

/* A message that cannot be read now is the consumer's next one, and must not be passed over. Returns 0: the walk is over. */
static int stop_before(get_walk *walk, int64_t at, int32_t status) {
    walk->result->next_offset = at;
    if (walk->result->bytes == 0)
        walk->result->status = status;
    return 0;
}

/* Continues behind an entry that is not wanted. */
static int pass_over(get_walk *walk) {
    if (walk->result->bytes == 0)
        walk->result->status = RP_GET_NO_MATCHED_MESSAGE;
    return 1;
}

static int is_out_of_sight(get_walk *walk, const rp_queue_entry *entry) {
    const rp_get_request *request = walk->request;
    if (request->filter->kind != RP_FILTER_SQL || request->is_on_disk == NULL ||
        !request->is_on_disk(request->context, entry->commit_log_offset, (uint32_t)entry->size))
        return 0;
    if (walk->disk_looks == 0)
        return 1;
    walk->disk_looks--;
    return 0;
}

/* A damaged entry may hold any offset, so it is checked before any arithmetic. */
static int is_in_log(const get_walk *walk, const rp_queue_entry *entry) {
    return entry->size > 0 && (uint64_t)entry->commit_log_offset < (uint64_t)walk->log_max;
}

/* Visits one entry; `at` is the consumer's position. 0: the walk is over. */
static int visit(get_walk *walk, const rp_queue_entry *entry, int64_t at) {
    rp_get_result *result = walk->result;
    int has_record = is_in_log(walk, entry);
    if (walk->entries_left-- <= 0 || walk->is_spent || (has_record && is_full(walk, entry)))
        return 0;
    if (has_record)
        walk->last_offset = entry->commit_log_offset;
    result->next_offset = entry->queue_offset + entry->messages;
    if (!rp_tag_filter_matches(walk->request->filter, entry->tags_code))
        return pass_over(walk);
    if (has_record && is_out_of_sight(walk, entry))
        return stop_before(walk, at, RP_GET_ON_DISK);
    int status = has_record ? add_record(walk, entry) : RP_E_NOT_FOUND;
    if (status == UNWANTED)
        return pass_over(walk);
    if (status == OTHER_FILE || rp_status_is_passing(status))
        return stop_before(walk, at, RP_GET_UNREADABLE);
    if (status != RP_OK) {
        if (result->bytes == 0)
            result->status = RP_GET_MESSAGE_WAS_REMOVING;
        return 1;
    }
    if (walk->request->offsets != NULL && result->count <= (uint32_t)walk->request->max_messages)
        walk->request->offsets[result->count - 1] = entry->queue_offset;
    result->status = RP_GET_FOUND;
    return 1;
}

static void walk_entries(get_walk *walk) {
    rp_get_result *result = walk->result;
    rp_queue_entry entries[ENTRIES_AT_ONCE];
    result->status = RP_GET_NO_MATCHED_MESSAGE;
    result->next_offset = walk->request->offset;
    result->count = result->range_count = 0;
    result->bytes = 0;
    walk->last_offset = walk->log_max; /* nobody is sent to a slave because of what was not visited */
    walk->entries_left = rp_get_entries_max(walk->limits, walk->request->max_messages);
    int64_t at = walk->request->offset;
    while (at < result->max_offset) {
        int64_t left = result->max_offset - at;
        int64_t got = rp_consume_queue_read(walk->request->queue, at, entries, left < ENTRIES_AT_ONCE ? (uint32_t)left : ENTRIES_AT_ONCE);
        if (rp_status_is_passing((int)got)) {
            stop_before(walk, at, RP_GET_UNREADABLE);
            return;
        }
        if (got <= 0) {
            /* Files of the queue were removed since its bounds were read: the consumer comes again and is told the new minimum. */
            if (result->bytes == 0)
                result->status = RP_GET_OFFSET_FOUND_NULL;
            return;
        }
        for (int64_t i = 0; i < got; at = result->next_offset, i++) {
            if (!visit(walk, &entries[i], at))
                return;
        }
    }
}

/* Turns log offsets into addresses under one pin, which the last range holds, because ranges leave in order. 0 if it cannot be taken. */
static int pin_stretch(get_walk *walk) {
    rp_get_result *result = walk->result;
    rp_file_range *ranges = walk->scratch->ranges;
    rp_file_range *last = &ranges[result->range_count - 1];
    int64_t first = ranges[0].file_offset, stretch = last->file_offset + last->size - first;
    rp_log_range pinned;
    if (stretch <= 0 || stretch > STRETCH_BYTES_MAX)
        return 0;
    for (uint32_t i = 1; i < result->range_count; i++) {
        if (ranges[i].file_offset < ranges[i - 1].file_offset + ranges[i - 1].size)
            return 0;
    }
    if (rp_commit_log_read(walk->request->commit_log, first, (uint32_t)stretch, &pinned) != RP_OK)
        return 0;
    for (uint32_t i = 0; i < result->range_count; i++) {
        int64_t place = ranges[i].file_offset - first;
        ranges[i].address = pinned.address + place;
        ranges[i].fd = pinned.fd;
        ranges[i].file_offset = pinned.file_offset + place;
    }
    result->file_base = first - pinned.file_offset;
    last->release = rp_log_range_release;
    last->owner = pinned.pin;
    return 1;
}

static int64_t corrected(const rp_get_limits *limits, int64_t asked, int64_t right) { return limits->keep_bad_offset ? asked : right; }

/* Gives the answers that need no entries. 1 if it gave one. */
static int check_offset(const rp_get_request *request, const rp_get_limits *limits, rp_get_result *result) {
    if (result->max_offset == 0) {
        result->status = RP_GET_NO_MESSAGE_IN_QUEUE;
        result->next_offset = corrected(limits, request->offset, 0);
    } else if (request->offset < result->min_offset) {
        result->status = RP_GET_OFFSET_TOO_SMALL;
        result->next_offset = corrected(limits, request->offset, result->min_offset);
    } else if (request->offset == result->max_offset) {
        result->status = RP_GET_OFFSET_OVERFLOW_ONE;
        result->next_offset = request->offset;
    } else if (request->offset > result->max_offset) {
        result->status = RP_GET_OFFSET_OVERFLOW_BADLY;
        result->next_offset = corrected(limits, request->offset, result->max_offset);
    } else {
        return 0;
    }
    return 1;
}

void rp_get_message(const rp_get_request *request, const rp_get_limits *limits, rp_get_scratch *scratch, rp_get_result *result) {
    if (__builtin_expect(rp_consume_queue_compacted(request->queue) != NULL, 0) && rp_get_compacted(request, limits, scratch, result))
        return;
    *result = (rp_get_result){.next_offset = request->offset, .compacted_from = -1};
    result->min_offset = rp_consume_queue_min_offset(request->queue);
    result->max_offset = rp_consume_queue_max_offset(request->queue);
    if (check_offset(request, limits, result))
        return;
    int64_t bytes_max = request->max_bytes < PULL_BYTES_MIN   ? PULL_BYTES_MIN
                        : request->max_bytes > PULL_BYTES_MAX ? PULL_BYTES_MAX
                                                              : request->max_bytes;
    get_walk walk = {
        .request = request,
        .limits = limits,
        .scratch = scratch,
        .result = result,
        .log_max = rp_commit_log_max_offset(request->commit_log),
        .bytes_max = bytes_max,
        .pin_each = request->filter->kind == RP_FILTER_SQL, /* a filter that reads a record needs it pinned */
        .stop_at_ns = request->filter->kind == RP_FILTER_SQL ? now_ns() + RP_FILTER_NS : 0,
        .disk_looks = request->disk_looks,
    };
    walk_entries(&walk);
    if (result->range_count > 0 && !walk.pin_each && !pin_stretch(&walk)) {
        walk.pin_each = 1;
        walk_entries(&walk);
    }
    result->suggest_slave = walk.log_max - walk.last_offset > limits->memory_bytes;
}
