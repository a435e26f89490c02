/* segment_reader.h: reads the records of one commit log file into record batches, straight from the file. For Spark.
 *
 * With `audit`, damaged stretches become rows of their own (valid is false, damage says why, commitLogOffset says where, every other
 * column is null); without it the first one is an error.
 *
 * Threads  one owner.
 * Owns     the scan (csrc/store/log_scan.h), and with it descriptor and mapping.
 */
#ifndef RP_ARROW_SEGMENT_READER_H
#define RP_ARROW_SEGMENT_READER_H

#include <stdint.h>

#include "../base/error.h"
#include "record_batch.h"

typedef struct rp_segment_reader rp_segment_reader;

typedef struct rp_segment_reader_options {
    const char *path;
    const char *topic;    /* NULL: all; otherwise only records of this topic, and all damage */
    int64_t begin_offset; /* physical; takes the records that start at begin_offset or later, and before end_offset */
    int64_t end_offset;
    int32_t check_crc;
    int32_t audit;
    int32_t tail;         /* rp_scan_tail: what is known about end_offset */
} rp_segment_reader_options;

void rp_segment_reader_options_default(rp_segment_reader_options *options);
/* Returns as rp_log_scan_open. */
int rp_segment_reader_open(const rp_segment_reader_options *options, rp_segment_reader **reader, rp_error *error);
void rp_segment_reader_close(rp_segment_reader *reader);
/* Fills the batch. Returns 1: the range is done; 0: the batch is full, export it and call again; RP_E_CORRUPT: damage, without audit;
 * RP_E_NO_MEMORY; RP_E_TOO_LARGE. */
int rp_segment_reader_fill(rp_segment_reader *reader, rp_record_batch *batch, rp_error *error);
int64_t rp_segment_reader_offset(const rp_segment_reader *reader); /* physical offset of the next byte to read */

#endif
