/* compaction_pass.c: see compaction_pass.h. */
#include "compaction_pass.h"

#include <stdbool.h>
#include <stdlib.h>

#include "compaction_files.h"
#include "key_offsets.h"
#include "store_path.h"

#define STOPPED 1 /* a result beside those of rp_status */

/* What is being written. */
typedef struct pass_output {
    rp_compaction_place place;
    char log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX];
    rp_compaction_segment **segments;
    uint32_t count, room;
    uint64_t log_size, queue_size;
    int64_t base_max; /* where the segment being written begins */
} pass_output;

typedef struct pass_input {
    rp_compaction_segment **segments;
    uint32_t count;
    int64_t last_base;
} pass_input;

rp_slice rp_compaction_key(rp_slice properties) {
    rp_slice keys = rp_message_property(properties, "KEYS");
    for (uint32_t i = 0; keys.data != NULL && i < keys.size; i++) {
        uint8_t byte = keys.data[i]; /* the ASCII bytes for which Java's Character.isWhitespace is true */
        if (byte != ' ' && !(byte >= 9 && byte <= 13) && !(byte >= 28 && byte <= 31))
            return keys;
    }
    return (rp_slice){NULL, 0};
}

/* RP_OK, or why the record is damaged. */
static int read_message(const rp_compaction_segment *segment, uint32_t index, rp_compaction_entry *entry, rp_slice *record,
                        rp_message *message) {
    rp_compaction_segment_entry(segment, index, entry);
    *record = rp_compaction_segment_record(segment, entry);
    bool is_message =
        record->size > 0 && rp_message_decode(record->data, record->size, RP_CHECK_BODY_CRC, message, NULL) == RP_RECORD_MESSAGE;
    return is_message ? RP_OK : RP_E_CORRUPT;
}

/* Reads the keys of new messages until the map is full; compacted_to is the last one entered. RP_OK, STOPPED. */
static int read_keys(rp_compaction_pass *pass, const pass_input *input, rp_key_offsets *keys) {
    pass->compacted_to = pass->position;
    for (uint32_t i = 0; i < input->count; i++) {
        const rp_compaction_segment *segment = input->segments[i];
        uint32_t count = rp_compaction_segment_count(segment);
        for (uint32_t at = rp_compaction_segment_find(segment, pass->position + 1); at < count; at++) {
            rp_compaction_entry entry;
            rp_slice record;
            rp_message message;
            if (atomic_load_explicit(pass->stop, memory_order_relaxed))
                return STOPPED;
            int rc = read_message(segment, at, &entry, &record, &message);
            rp_slice key = rc == RP_OK ? rp_compaction_key(message.properties) : (rp_slice){NULL, 0};
            if (key.size > 0 && rp_key_offsets_put(keys, key, entry.queue_offset) != RP_OK)
                return RP_OK;
            pass->compacted_to = entry.queue_offset;
        }
    }
    return RP_OK;
}

static bool is_kept(const rp_compaction_pass *pass, const rp_key_offsets *keys, const rp_message *message, int64_t offset) {
    if (offset > pass->compacted_to)
        return true;
    rp_slice key = rp_compaction_key(message->properties);
    return key.size > 0 && message->body.size > 0 && offset >= rp_key_offsets_get(keys, key);
}

/* ---- output ---- */

static int next_segment(pass_output *output, rp_error *error) {
    rp_compaction_segment *last = output->count > 0 ? output->segments[output->count - 1] : NULL;
    int64_t base = last != NULL ? rp_compaction_segment_base(last) + (int64_t)output->log_size : 0;
    int rc = last != NULL ? rp_compaction_segment_seal(last, error) : RP_OK;
    if (rc == RP_OK && (output->count == output->room || base + (int64_t)output->log_size > output->base_max))
        return rp_error_set(error, RP_E_BUSY, 0, output->log_path, base, "a compaction needs more files than there were");
    rc = rc == RP_OK ? rp_compaction_segment_create(&output->place, base, output->log_size, output->queue_size,
                                                    &output->segments[output->count], error)
                     : rc;
    output->count += rc == RP_OK;
    return rc;
}

static int write_record(pass_output *output, rp_slice record, const rp_compaction_entry *entry, rp_error *error) {
    rp_compaction_entry copy = *entry;
    int rc = output->count > 0 ? rp_compaction_segment_append(output->segments[output->count - 1], record, &copy, error) : RP_E_TOO_LARGE;
    if (rc != RP_E_TOO_LARGE)
        return rc;
    rc = next_segment(output, error);
    return rc == RP_OK ? rp_compaction_segment_append(output->segments[output->count - 1], record, &copy, error) : rc;
}

static int write_segment(rp_compaction_pass *pass, const rp_compaction_segment *segment, const rp_key_offsets *keys, pass_output *output,
                         rp_error *error) {
    uint32_t count = rp_compaction_segment_count(segment), damaged = 0;
    int rc = RP_OK;
    for (uint32_t at = 0; at < count && rc == RP_OK; at++) {
        rp_compaction_entry entry;
        rp_slice record;
        rp_message message;
        if (atomic_load_explicit(pass->stop, memory_order_relaxed))
            return STOPPED;
        bool is_damaged = read_message(segment, at, &entry, &record, &message) != RP_OK;
        damaged += is_damaged;
        if (is_damaged || !is_kept(pass, keys, &message, entry.queue_offset)) {
            pass->dropped++;
            continue;
        }
        rc = write_record(output, record, &entry, error);
        pass->kept++;
    }
    if (damaged > 0)
        rp_log_write(pass->log, RP_LOG_ERROR, "compacted queue: %u records of the segment %020lld are damaged, they go", damaged,
                     (long long)rp_compaction_segment_base(segment));
    return rc;
}

static int write_all(rp_compaction_pass *pass, const pass_input *input, const rp_key_offsets *keys, pass_output *output, rp_error *error) {
    int rc = RP_OK;
    for (uint32_t i = 0; i < input->count && rc == RP_OK; i++)
        rc = write_segment(pass, input->segments[i], keys, output, error);
    if (rc == RP_OK && output->count > 0)
        rc = rp_compaction_segment_seal(output->segments[output->count - 1], error);
    for (uint32_t i = 0; i < output->count && rc == RP_OK; i++)
        rc = rp_compaction_segment_sync(output->segments[i], error);
    return rc;
}

/* ---- the pass ---- */

static int replace(rp_compaction_pass *pass, const pass_input *input, pass_output *output, rp_error *error) {
    rp_compaction_replacement *made = NULL;
    int rc = rp_compaction_replacement_create(pass->compaction_log, input->count, output->segments, output->count, &made, error);
    if (rc != RP_OK)
        return rc;
    output->count = 0; /* the replacement owns them now */
    rc = rp_compaction_replacement_begin(made, error);
    if (rc != RP_OK && rp_compaction_replacement_has_begun(made))
        pass->unfinished = made;
    else
        rp_compaction_replacement_destroy(made);
    return rc;
}

static int begin(const rp_compaction_pass *pass, const pass_input *input, pass_output *output, rp_error *error) {
    const rp_compaction_place *place = rp_compaction_log_place(pass->compaction_log);
    output->base_max = input->last_base;
    output->room = input->count;
    for (uint32_t i = 0; i < input->count; i++) { /* as large as the largest, so that there are not more files than before */
        uint64_t log_size = rp_compaction_segment_log_size(input->segments[i]);
        uint64_t queue_size = rp_compaction_segment_queue_size(input->segments[i]);
        output->log_size = log_size > output->log_size ? log_size : output->log_size;
        output->queue_size = queue_size > output->queue_size ? queue_size : output->queue_size;
    }
    output->segments = calloc(output->room, sizeof(rp_compaction_segment *));
    if (output->segments == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the segments of a compaction");
    int rc = rp_compaction_files_aside(place, output->log_path, output->queue_path, &output->place, error);
    return rc == RP_OK ? rp_compaction_files_make_directories(place, error) : rc;
}

static int compact(rp_compaction_pass *pass, const pass_input *input, const rp_key_offsets *keys, rp_error *error) {
    pass_output output = {.segments = NULL};
    int rc = begin(pass, input, &output, error);
    rc = rc == RP_OK ? write_all(pass, input, keys, &output, error) : rc;
    rc = rc == RP_OK ? replace(pass, input, &output, error) : rc;
    for (uint32_t i = 0; i < output.count; i++)
        rp_compaction_segment_release(output.segments[i]);
    free(output.segments);
    if (rc != RP_OK && pass->unfinished == NULL)
        rp_compaction_files_drop_aside(rp_compaction_log_place(pass->compaction_log));
    return rc;
}

static uint64_t new_messages(const rp_compaction_pass *pass, const pass_input *input) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < input->count; i++)
        count += rp_compaction_segment_count(input->segments[i]) - rp_compaction_segment_find(input->segments[i], pass->position + 1);
    return count;
}

int rp_compaction_pass_run(rp_compaction_pass *pass, rp_error *error) {
    pass_input input = {.segments = NULL};
    int rc = rp_compaction_log_sealed(pass->compaction_log, &input.segments, &input.count, &input.last_base, error);
    bool has_work = rc == RP_OK && input.count > 0 && rp_compaction_segment_last_offset(input.segments[input.count - 1]) > pass->position;
    pass->kept = pass->dropped = 0;
    pass->unfinished = NULL;
    pass->compacted_to = pass->position;
    rp_key_offsets *keys = has_work ? rp_key_offsets_create(pass->key_memory, new_messages(pass, &input)) : NULL;
    if (has_work && keys == NULL)
        rc = rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the keys of a compaction");
    rc = rc == RP_OK && has_work ? read_keys(pass, &input, keys) : rc;
    rc = rc == RP_OK && has_work ? compact(pass, &input, keys, error) : rc;
    rp_key_offsets_destroy(keys);
    for (uint32_t i = 0; i < input.count; i++)
        rp_compaction_segment_release(input.segments[i]);
    free(input.segments);
    return rc != RP_OK ? (rc == STOPPED ? 0 : rc) : has_work;
}
