/* half_scan.c: finds the prepared messages that nobody has decided (transactions.h).
 * RocketMQ: TransactionalMessageServiceImpl.check, fillOpRemoveMap (5.3.3 broker/transaction/queue/).
 *
 *   operations from op_position on ─► one bit for each prepared message they decide ─► the messages without a bit
 *
 * A prepared message that is still immune is copied to the end of its queue. Such a copy is decided when its original is, so the
 * original's operation is needed until the position has passed the copy. RocketMQ's position moves past that operation, and its
 * producers are asked about copies that are decided.
 *
 * Bounds   HALVES_MAX prepared messages are visited in one scan; OLDER_MAX operations about older ones are remembered; one count for
 *          each topic.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/log_inl.h"
#include "half_messages.h"
#include "lane.h"
#include "stored_message.h"
#include "transactions.h"

#define HALVES_MAX (INT64_C(1) << 27)
#define OLDER_MAX (1u << 20)
#define ENTRIES 256

/* The prepared messages that are decided. */
typedef struct ended_halves {
    int64_t begin, end; /* range of the bits */
    uint8_t *bits;      /* owned */
    int64_t *older;     /* owned: those below begin; sorted once complete */
    uint32_t older_count, older_room;
} ended_halves;

/* ---- operations ---- */

/* Calls visit for each offset in the body, which is numbers separated by commas. Stops at, and returns, any status but RP_OK. */
static int each_offset(rp_slice body, int (*visit)(void *context, int64_t half_offset), void *context) {
    for (uint32_t at = 0; at < body.size;) {
        const uint8_t *comma = memchr(body.data + at, ',', body.size - at);
        uint32_t end = comma != NULL ? (uint32_t)(comma - body.data) : body.size;
        int64_t offset;
        if (rp_slice_to_i64((rp_slice){body.data + at, end - at}, &offset) == RP_OK && offset >= 0) {
            int status = visit(context, offset);
            if (status != RP_OK)
                return status;
        }
        at = end + 1;
    }
    return RP_OK;
}

/* Visits the offsets of one operation. A record that is not an operation, or can no longer be read, has none. */
static int read_operation(rp_broker *broker, const rp_queue_entry *entry, int (*visit)(void *context, int64_t half_offset), void *context) {
    rp_stored_message stored;
    int status = rp_stored_message_open(broker->commit_log, entry->commit_log_offset, &stored);
    if (status != RP_OK)
        return rp_status_is_passing(status) ? status : RP_OK;
    status = each_offset(stored.message.body, visit, context);
    rp_stored_message_close(&stored);
    return status;
}

static int64_t within(const rp_consume_queue *queue, int64_t position) {
    int64_t min = rp_consume_queue_min_offset(queue), max = rp_consume_queue_max_offset(queue);
    return position < min ? min : position > max ? max : position;
}

/* Calls visit for the offsets of each operation from position on, until it returns RP_E_EXISTS. Returns the queue offset of that
 * operation, or the queue's end; RP_E_IO, RP_E_NO_MEMORY. */
static int64_t each_operation(rp_broker *broker, int64_t position, int (*visit)(void *context, int64_t half_offset), void *context) {
    rp_consume_queue *queue = rp_op_queue(broker);
    rp_queue_entry entries[ENTRIES];
    if (queue == NULL)
        return position;
    position = within(queue, position);
    for (int64_t end = rp_consume_queue_max_offset(queue); position < end;) {
        int64_t count = rp_consume_queue_read(queue, position, entries, ENTRIES);
        if (count <= 0)
            return count == 0 ? position : count == RP_E_NO_MEMORY ? RP_E_NO_MEMORY : RP_E_IO;
        for (int64_t i = 0; i < count; i++, position++) {
            int status = read_operation(broker, &entries[i], visit, context);
            if (status != RP_OK)
                return status == RP_E_EXISTS ? position : status;
        }
    }
    return position;
}

/* The prepared messages whose operations are still needed. */
typedef struct needed_halves {
    int64_t position;      /* this one and all behind it */
    const int64_t *copied; /* and these */
    size_t copied_count;
    int64_t *sorted; /* owned: copied, sorted before the first search */
} needed_halves;

static int compare(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static int sort_copied(needed_halves *needed) {
    size_t bytes = needed->copied_count * sizeof *needed->sorted;
    needed->sorted = malloc(bytes);
    if (needed->sorted == NULL)
        return RP_E_NO_MEMORY;
    memcpy(needed->sorted, needed->copied, bytes);
    qsort(needed->sorted, needed->copied_count, sizeof *needed->sorted, compare);
    return RP_OK;
}

/* RP_E_EXISTS, which stops the reading: the operation decides a message that is needed. */
static int stop_at_needed(void *context, int64_t half_offset) {
    needed_halves *needed = context;
    if (half_offset >= needed->position)
        return RP_E_EXISTS;
    if (needed->copied_count == 0)
        return RP_OK;
    if (needed->sorted == NULL && sort_copied(needed) != RP_OK)
        return RP_E_NO_MEMORY;
    return bsearch(&half_offset, needed->sorted, needed->copied_count, sizeof *needed->sorted, compare) != NULL ? RP_E_EXISTS : RP_OK;
}

int64_t rp_broker_needed_operation(rp_broker *broker, int64_t op_position, int64_t half_position, const int64_t *copied,
                                   size_t copied_count) {
    needed_halves needed = {.position = half_position, .copied = copied, .copied_count = copied_count};
    int64_t operation = each_operation(broker, op_position, stop_at_needed, &needed);
    free(needed.sorted);
    return operation;
}

/* ---- what is over ---- */

static int note_older(ended_halves *ended, int64_t half_offset) {
    if (ended->older_count == OLDER_MAX)
        return RP_OK; /* at worst a producer is asked once too often */
    if (ended->older_count == ended->older_room) {
        uint32_t room = ended->older_room == 0 ? 256 : ended->older_room * 2;
        int64_t *older = realloc(ended->older, room * sizeof *older);
        if (older == NULL)
            return RP_E_NO_MEMORY;
        ended->older = older;
        ended->older_room = room;
    }
    ended->older[ended->older_count++] = half_offset;
    return RP_OK;
}

static int note(void *context, int64_t half_offset) {
    ended_halves *ended = context;
    if (half_offset < ended->begin)
        return note_older(ended, half_offset);
    if (half_offset < ended->end) {
        int64_t bit = half_offset - ended->begin;
        ended->bits[bit >> 3] |= (uint8_t)(1u << (bit & 7));
    }
    return RP_OK;
}

static int is_over(const ended_halves *ended, int64_t half_offset) {
    if (half_offset < ended->begin)
        return ended->older_count > 0 && bsearch(&half_offset, ended->older, ended->older_count, sizeof *ended->older, compare) != NULL;
    int64_t bit = half_offset - ended->begin;
    return half_offset < ended->end && (ended->bits[bit >> 3] >> (bit & 7) & 1) != 0;
}

/* ---- the messages ---- */

static int64_t number_of(rp_slice properties, const char *name, int64_t absent) {
    rp_slice value = rp_message_property(properties, name);
    int64_t number;
    if (value.data == NULL)
        return absent;
    return rp_slice_to_i64(value, &number) == RP_OK ? number : -1;
}

/* Reads one prepared message. 1: the row is filled in; 0: it is decided because its original is, or it can no longer be read; RP_E_IO,
 * RP_E_NO_MEMORY. */
static int look(rp_broker *broker, const ended_halves *ended, int64_t queue_offset, const rp_queue_entry *entry, rp_undecided_half *row) {
    rp_stored_message stored;
    int status = rp_stored_message_open(broker->commit_log, entry->commit_log_offset, &stored);
    if (rp_status_is_passing(status))
        return status;
    if (status != RP_OK) {
        rp_log_write(broker->options.log, RP_LOG_ERROR, "the prepared message at log offset %lld cannot be read: nobody is asked about it",
                     (long long)entry->commit_log_offset);
        return 0;
    }
    const rp_message *message = &stored.message;
    int64_t first = rp_half_said_first_offset(message->properties);
    int64_t times = number_of(message->properties, "TRANSACTION_CHECK_TIMES", 0);
    const rp_topic *topic = rp_topic_table_find(broker->topics, rp_message_property(message->properties, "REAL_TOPIC"));
    *row = (rp_undecided_half){
        .queue_offset = queue_offset,
        .log_offset = message->physical_offset,
        .born_ms = message->born_timestamp_ms,
        .immune_s = number_of(message->properties, "CHECK_IMMUNITY_TIME_IN_SECONDS", RP_HALF_NOT_IMMUNE),
        .check_times = times >= -1 && times <= INT32_MAX ? (int32_t)times : -1,
        .topic = topic != NULL ? topic->head.name : (rp_slice){NULL, 0},
    };
    int is_ended = first >= 0 && is_over(ended, first) ? rp_half_is_copy_of(broker, message, first) : 0;
    rp_stored_message_close(&stored);
    return is_ended < 0 ? is_ended : !is_ended;
}

static int64_t scan(rp_broker *broker, rp_consume_queue *queue, const ended_halves *ended, rp_undecided_half *rows, uint32_t rows_max,
                    int64_t *position) {
    rp_queue_entry entries[ENTRIES];
    uint32_t found = 0;
    while (*position < ended->end && found < rows_max) {
        if (is_over(ended, *position)) {
            ++*position;
            continue;
        }
        int64_t count = rp_consume_queue_read(queue, *position, entries, ENTRIES);
        if (count <= 0)
            return count == RP_E_NO_MEMORY ? RP_E_NO_MEMORY : RP_E_IO;
        for (int64_t i = 0; i < count && *position < ended->end && found < rows_max; i++, ++*position) {
            int status = is_over(ended, *position) ? 0 : look(broker, ended, *position, &entries[i], &rows[found]);
            if (status < 0)
                return status;
            found += (uint32_t)status;
        }
    }
    return found;
}

/* Reads the operations about messages from half_position on. RP_OK; RP_E_IO, RP_E_NO_MEMORY. end_scan must be called in any case. */
static int begin_scan(rp_broker *broker, const rp_consume_queue *queue, int64_t half_position, int64_t op_position, ended_halves *ended) {
    *ended = (ended_halves){.begin = within(queue, half_position), .end = rp_consume_queue_max_offset(queue)};
    if (ended->end - ended->begin > HALVES_MAX)
        ended->end = ended->begin + HALVES_MAX;
    if (ended->end == ended->begin)
        return RP_OK;
    ended->bits = calloc((size_t)(ended->end - ended->begin + 7) / 8, 1);
    int64_t operation = ended->bits != NULL ? each_operation(broker, op_position, note, ended) : RP_E_NO_MEMORY;
    if (operation >= 0 && ended->older_count > 0)
        qsort(ended->older, ended->older_count, sizeof *ended->older, compare);
    return operation < 0 ? (int)operation : RP_OK;
}

static void end_scan(ended_halves *ended) {
    free(ended->bits);
    free(ended->older);
}

int64_t rp_broker_undecided_halves(rp_broker *broker, int64_t half_position, int64_t op_position, rp_undecided_half *rows,
                                   uint32_t rows_max, int64_t *scanned_to) {
    rp_consume_queue *queue = rp_half_queue(broker);
    *scanned_to = half_position;
    if (queue == NULL)
        return 0;
    ended_halves ended;
    int64_t status = begin_scan(broker, queue, half_position, op_position, &ended);
    *scanned_to = ended.begin;
    if (status == RP_OK)
        status = scan(broker, queue, &ended, rows, rows_max, scanned_to);
    end_scan(&ended);
    return status;
}

/* ---- by topic ---- */

typedef struct half_counts {
    rp_half_count *rows; /* owned; found by the address of the name, of which each topic has one */
    size_t count, room;
} half_counts;

static size_t place_of(const half_counts *counts, const uint8_t *name) {
    size_t low = 0, high = counts->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)counts->rows[middle].topic.data < (uintptr_t)name)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* RP_OK, RP_E_NO_MEMORY. */
static int count_half(half_counts *counts, rp_slice topic) {
    size_t place = place_of(counts, topic.data);
    if (place < counts->count && counts->rows[place].topic.data == topic.data) {
        counts->rows[place].count++;
        return RP_OK;
    }
    if (counts->count == counts->room) {
        size_t room = counts->room == 0 ? 16 : counts->room * 2;
        rp_half_count *larger = realloc(counts->rows, room * sizeof *larger);
        if (larger == NULL)
            return RP_E_NO_MEMORY;
        counts->rows = larger;
        counts->room = room;
    }
    memmove(&counts->rows[place + 1], &counts->rows[place], (counts->count - place) * sizeof *counts->rows);
    counts->rows[place] = (rp_half_count){topic, 1};
    counts->count++;
    return RP_OK;
}

static int count_halves(rp_broker *broker, rp_consume_queue *queue, const ended_halves *ended, half_counts *counts) {
    rp_undecided_half rows[ENTRIES];
    int64_t position = ended->begin, found;
    do {
        found = scan(broker, queue, ended, rows, ENTRIES, &position);
        for (int64_t i = 0; i < found; i++) {
            if (rows[i].topic.data != NULL && count_half(counts, rows[i].topic) != RP_OK)
                return RP_E_NO_MEMORY;
        }
    } while (found > 0);
    return (int)found;
}

int rp_broker_each_half_count(rp_broker *broker, int64_t half_position, int64_t op_position,
                              int (*visit)(void *context, const rp_half_count *count), void *context) {
    rp_consume_queue *queue = rp_half_queue(broker);
    if (queue == NULL)
        return RP_OK;
    ended_halves ended;
    half_counts counts = {0};
    int status = begin_scan(broker, queue, half_position, op_position, &ended);
    if (status == RP_OK)
        status = count_halves(broker, queue, &ended, &counts);
    for (size_t i = 0; status == RP_OK && i < counts.count && visit(context, &counts.rows[i]) == 0; i++)
        ;
    free(counts.rows);
    end_scan(&ended);
    return status;
}
