/* get_compacted.h: reads the messages that a compacted queue has kept, as get_message.h reads other queues. Private to csrc/broker.
 * RocketMQ: CompactionLog.getMessage (5.5.0 store/kv/).
 *
 * Messages below the end of the compacted log come from there, with gaps between their offsets; later ones come from the queue itself.
 * RocketMQ ignores the filter here and returns every message; rocketpy filters as for any queue.
 *
 * Bounds   a pull reads one segment; the limits bound entries, bytes and messages; a filter that reads records ends after RP_FILTER_NS.
 */
#ifndef RP_BROKER_GET_COMPACTED_H
#define RP_BROKER_GET_COMPACTED_H

#include "get_message.h"

/* 1: the offset is in the compacted log, and the result is set; 0: the queue itself has it. */
int rp_get_compacted(const rp_get_request *request, const rp_get_limits *limits, rp_get_scratch *scratch, rp_get_result *result);
/* 1 if the offset is in the compacted log. */
int rp_compacted_has(rp_consume_queue *queue, int64_t offset);

/* 1 if entries or messages of [first, end) are on disk only. */
int rp_compacted_is_on_disk(rp_consume_queue *queue, int64_t first, int64_t end);
/* The same for the messages found, which are pinned. */
int rp_compacted_found_is_on_disk(const rp_get_scratch *scratch, const rp_get_result *result);
/* Reads entries and messages into memory; blocks on the disk. Returns the bytes of the messages. */
uint64_t rp_compacted_read_in(rp_consume_queue *queue, int64_t first, int64_t end);

#endif
