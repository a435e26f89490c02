/* get_message.h: chooses the messages of a queue that one pull gets, and finds their bytes. Private to csrc/broker.
 * RocketMQ: DefaultMessageStore.getMessage, GetMessageStatus, GetMessageResult (5.3.3 store/).
 *
 *   queue entries ─ tag filter ─ limits ─► ranges (adjacent records joined) ─ one pin on the file ─► for the connection
 *                       └─ SQL92: the record's properties, under a pin of its own ─► ranges
 *
 * Threads  the reactor's; the scratch belongs to its lane.
 * Bounds   the limits bound entries, bytes and messages; reading records for a filter ends after RP_FILTER_NS, and the next pull
 *          continues there.
 * Cost     per message one queue entry copied and one comparison; per pull one pin, unless the queue continues in another file.
 */
#ifndef RP_BROKER_GET_MESSAGE_H
#define RP_BROKER_GET_MESSAGE_H

#include <stdint.h>

#include "../remoting/server.h"
#include "../store/message_store.h"
#include "message_filter.h"

/* GetMessageStatus; the names are the remarks of pull responses. */
enum rp_get_status {
    RP_GET_FOUND,
    RP_GET_NO_MATCHED_MESSAGE,
    RP_GET_MESSAGE_WAS_REMOVING,
    RP_GET_OFFSET_FOUND_NULL,
    RP_GET_OFFSET_OVERFLOW_BADLY,
    RP_GET_OFFSET_OVERFLOW_ONE,
    RP_GET_OFFSET_TOO_SMALL,
    RP_GET_NO_MATCHED_LOGIC_QUEUE,
    RP_GET_NO_MESSAGE_IN_QUEUE,
    RP_GET_OFFSET_RESET,
    RP_GET_UNREADABLE, /* ours: the file of the next message cannot be opened or mapped now; next_offset is that of the message */
    RP_GET_ON_DISK     /* ours: the filter needs the next message, which has to be read in first; next_offset is that of the message */
};
const char *rp_get_status_name(int status);

#define RP_FILTER_NS 2000000 /* limits hostile expressions over large properties, because other requests wait meanwhile */

typedef struct rp_get_limits {
    uint32_t transfer_bytes_memory, transfer_count_memory, transfer_bytes_disk, transfer_count_disk;
    uint32_t filter_bytes_max;
    int64_t memory_bytes;  /* bytes at the log's end that count as in memory without a check */
    int32_t keep_bad_offset; /* for a slave without offsetCheckInSlave: a wrong offset is not corrected */
} rp_get_limits;

/* The ranges of one pull. */
typedef struct rp_get_scratch {
    rp_file_range *ranges;
    uint32_t ranges_max;
} rp_get_scratch;

/* Returns how many entries of its queue a pull may visit. */
int64_t rp_get_entries_max(const rp_get_limits *limits, int32_t max_messages);

int rp_get_scratch_init(rp_get_scratch *scratch);
/* Makes room for the largest answer these limits allow. Without memory the room stays as it is, and pulls get fewer messages. */
void rp_get_scratch_reserve(rp_get_scratch *scratch, const rp_get_limits *limits);
void rp_get_scratch_free(rp_get_scratch *scratch);

typedef struct rp_get_request {
    rp_commit_log *commit_log;
    rp_consume_queue *queue;
    int64_t offset;
    int32_t max_messages;
    int64_t max_bytes;
    const rp_message_filter *filter;
    /* Returns 1 if the record at the log offset is known to be in memory, however far behind the log's end; NULL: nothing is known. */
    int (*is_in_memory)(const void *context, int64_t log_offset);
    /* Returns 1 if the record that a filter would read is on disk only. */
    int (*is_on_disk)(void *context, int64_t log_offset, uint32_t size);
    void *context;
    uint32_t disk_looks; /* number of records that are read all the same */
    int64_t *offsets;    /* receives queue offsets, max_messages at most; not meaningful for a batch queue; NULL: not wanted */
    /* 1: the caller takes parts of batches: messages before offset do not count, and the last batch may hold too many */
    int32_t takes_part;
} rp_get_request;

typedef struct rp_get_result {
    int32_t status;
    int32_t suggest_slave; /* 1: the consumer is further behind than memory holds */
    int64_t next_offset, min_offset, max_offset;
    uint32_t count;       /* messages; without takes_part including those of a batch before the requested offset */
    uint32_t range_count; /* ranges in the scratch; pinned if FOUND: send or release them */
    uint64_t bytes;
    int64_t file_base; /* log offset of the file that holds the ranges */
    int64_t compacted_from; /* requested offset, if the ranges are in a compacted log's files; else -1 */
} rp_get_result;

void rp_get_message(const rp_get_request *request, const rp_get_limits *limits, rp_get_scratch *scratch, rp_get_result *result);
/* Releases the pins without sending. */
void rp_get_release(rp_get_scratch *scratch, const rp_get_result *result);

#endif
