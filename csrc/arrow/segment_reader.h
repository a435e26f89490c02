/* segment_reader.h: reads records of one commit log file into record batches, straight from the file. For Spark.
 *
 * Damaged stretches become rows of their own when audit is set (valid false, damage says why, commitLogOffset says where, every other
 * column null); without it the first one is an error.
 *
 * Threads  one owner. Owns: the scan (csrc/store/log_scan.h) and with it descriptor and mapping.
 */
#ifndef RP_ARROW_SEGMENT_READER_H
#define RP_ARROW_SEGMENT_READER_H

#include <stdint.h>

#include "../base/error.h"
#include "record_batch.h"

typedef struct rp_segment_reader rp_segment_reader;

typedef struct rp_segment_reader_options {
    const char *path;
    const char *topic;    /* NULL: all; else only records of this topic (damage always) */
    int64_t begin_offset; /* physical, of the records that start in begin..end-1 */
    int64_t end_offset;
    int32_t check_crc;
    int32_t audit;
    int32_t tail;         /* rp_scan_tail: what is known of end_offset */
} rp_segment_reader_options;

void rp_segment_reader_options_default(rp_segment_reader_options *options);
/* RP_OK or what rp_log_scan_open says. */
int rp_segment_reader_open(const rp_segment_reader_options *options, rp_segment_reader **reader, rp_error *error);
void rp_segment_reader_close(rp_segment_reader *reader);
/* 1: the range is done; 0: batch is full, export and call again; RP_E_CORRUPT: damage, without audit; RP_E_NO_MEMORY, RP_E_TOO_LARGE. */
int rp_segment_reader_fill(rp_segment_reader *reader, rp_record_batch *batch, rp_error *error);
int64_t rp_segment_reader_offset(const rp_segment_reader *reader); /* physical offset of the next byte to look at */

#endif
