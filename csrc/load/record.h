/* record.h: reads the commit log records of a pull response, strictly and with code of its own, since store/message.h is under test.
 *
 * Threads  pure. Slices point into the response.
 */
#ifndef RP_LOAD_RECORD_H
#define RP_LOAD_RECORD_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_load_record {
    uint32_t size;
    int32_t queue_id;
    int64_t queue_offset;
    int64_t physical_offset;
    int64_t born_timestamp_ms;
    int64_t store_timestamp_ms;
    rp_slice topic;
    rp_slice body;
    rp_slice properties;
} rp_load_record;

/* Decodes the record at data. RP_OK, or RP_E_CORRUPT with *cause (static storage). check_crc 0 leaves the body unchecked. */
int rp_load_decode_record(const uint8_t *data, uint64_t size, int check_crc, rp_load_record *record, const char **cause);

#endif
