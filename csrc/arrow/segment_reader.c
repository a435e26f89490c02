/* segment_reader.c: see segment_reader.h. */
#include "segment_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/log_scan.h"

struct rp_segment_reader {
    rp_log_scan *scan;
    char path[RP_ERROR_FILE_MAX];
    char topic[256];
    uint32_t topic_size; /* 0: all topics */
    int32_t audit;
};

void rp_segment_reader_options_default(rp_segment_reader_options *options) {
    *options = (rp_segment_reader_options){.begin_offset = INT64_MIN, .end_offset = INT64_MAX, .check_crc = 1};
}

int rp_segment_reader_open(const rp_segment_reader_options *options, rp_segment_reader **opened, rp_error *error) {
    rp_segment_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a segment reader");
    const char *path = options->path == NULL ? "" : options->path;
    snprintf(reader->path, sizeof reader->path, "%s", path);
    reader->audit = options->audit;
    int status = RP_OK;
    if (options->topic != NULL) {
        size_t size = strlen(options->topic);
        if (size == 0 || size >= sizeof reader->topic)
            status = rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "a topic has 1 to 255 bytes");
        else
            memcpy(reader->topic, options->topic, size);
        reader->topic_size = (uint32_t)size;
    }
    if (status == RP_OK && (options->tail < RP_TAIL_UNKNOWN || options->tail > RP_TAIL_LIVE))
        status = rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "there is no kind of tail %d", options->tail);
    if (status == RP_OK)
        status = rp_log_scan_open(path, options->begin_offset, options->end_offset, options->check_crc, &reader->scan, error);
    if (status < 0) {
        free(reader);
        return status;
    }
    rp_log_scan_set_tail(reader->scan, (enum rp_scan_tail)options->tail);
    *opened = reader;
    return RP_OK;
}

void rp_segment_reader_close(rp_segment_reader *reader) {
    if (reader == NULL)
        return;
    rp_log_scan_close(reader->scan);
    free(reader);
}

int64_t rp_segment_reader_offset(const rp_segment_reader *reader) { return rp_log_scan_offset(reader->scan); }

static int is_wanted(const rp_segment_reader *reader, const rp_message *message) {
    return reader->topic_size == 0 ||
           (message->topic.size == reader->topic_size && memcmp(message->topic.data, reader->topic, reader->topic_size) == 0);
}

static int take_damage(const rp_segment_reader *reader, rp_record_batch *batch, const rp_scan_damage *damage, rp_error *error) {
    if (!reader->audit)
        return rp_error_set(error, RP_E_CORRUPT, 0, reader->path, damage->offset,
                            "%" PRId64 " bytes are damaged: %.200s; read with audit=true to see every damage as a row", damage->size,
                            damage->cause);
    return rp_record_batch_put_damage(batch, damage->offset, damage->cause);
}

static int put_records(rp_segment_reader *reader, rp_record_batch *batch, rp_error *error) {
    rp_message message;
    rp_scan_damage damage;
    while (!rp_record_batch_is_full(batch)) {
        int status = RP_OK;
        switch (rp_log_scan_next(reader->scan, &message, &damage)) {
        case RP_SCAN_END:
            return 1;
        case RP_SCAN_DAMAGE:
            status = take_damage(reader, batch, &damage, error);
            break;
        default:
            if (is_wanted(reader, &message))
                status = rp_record_batch_put(batch, &message);
        }
        if (status == RP_E_CORRUPT)
            return status;
        if (status < 0)
            return rp_error_set(error, status, 0, reader->path, rp_log_scan_offset(reader->scan), "%s", rp_record_batch_cause(status));
    }
    return 0;
}

int rp_segment_reader_fill(rp_segment_reader *reader, rp_record_batch *batch, rp_error *error) {
    int status = put_records(reader, batch, error);
    int settled = rp_record_batch_settle(batch); /* its messages point into the mapping */
    if (status >= 0 && settled < 0)
        return rp_error_set(error, settled, 0, reader->path, rp_log_scan_offset(reader->scan), "%s", rp_record_batch_cause(settled));
    return status;
}
