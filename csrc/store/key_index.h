/* key_index.h: the row of index files of a store: messages by key and by the client's unique key.
 * RocketMQ: IndexService, QueryOffsetResult (5.3.3 store/index/).
 *
 * A message is entered under TOPIC#UNIQ_KEY, TOPIC#KEY for every word of its KEYS property and TOPIC#T#TAGS; rolled back ones are not.
 * Files are named by the wall clock at creation (yyyyMMddHHmmssSSS).
 *
 * Threads  put, put_message, sync, next_offset: one builder thread, or the owner before it starts and after it ended; so truncate, but
 *          before it starts only. query, delete_before, file_count: any thread (a readers-writer lock guards the row).
 * Owns     its files.
 * Crash    after an unclean stop, files that end behind what was known to be on disk (synced_offset), or whose slots know of more entries
 *          than their header, are dropped at open and built again from the log: the caller resumes at rp_key_index_next_offset.
 */
#ifndef RP_STORE_KEY_INDEX_H
#define RP_STORE_KEY_INDEX_H

#include <stdint.h>

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "index_file.h"
#include "message.h"

typedef struct rp_key_index rp_key_index;

typedef struct rp_key_index_options {
    const char *directory;      /* made when it is not there */
    rp_index_shape shape;       /* 5,000,000 slots, 20,000,000 entries */
    int32_t last_exit_clean;    /* 0: drop files behind synced_offset */
    int64_t synced_offset;      /* the last message that was on disk; -1: not known, then synced_time_ms says it: RocketMQ's rule, which a
                                 * clock that was set back misleads */
    int64_t synced_time_ms;     /* the checkpoint's index timestamp */
    int32_t read_only;
    const rp_file_ops *file_ops;
    const rp_clock *clock;
    rp_log *log;
} rp_key_index_options;

void rp_key_index_options_default(rp_key_index_options *options);
/* A damaged file is set aside (".damaged") with a log line and rebuilt: never fatal. RP_OK, RP_E_IO, RP_E_NO_MEMORY, RP_E_DISK_FULL. */
int rp_key_index_open(const rp_key_index_options *options, rp_key_index **index, rp_error *error);
void rp_key_index_close(rp_key_index *index); /* syncs */

/* Enters a message. RP_OK (also when it has no key); RP_E_DISK_FULL, RP_E_IO: nothing more is entered, call again later with the same. */
int rp_key_index_put_message(rp_key_index *index, const rp_message *message, rp_error *error);
/* Enters one key of a message by its hash. Returns as put_message does. */
int rp_key_index_put(rp_key_index *index, int32_t key_hash, int64_t log_offset, int64_t store_time_ms, rp_error *error);
/* The log offset from which put_message has to go on after open, that of the last message; -1: from the log's start. */
int64_t rp_key_index_next_offset(rp_key_index *index);
/* The store time of that message; 0: there is none. */
int64_t rp_key_index_last_time(const rp_key_index *index);
/* Syncs what changed, up to rp_key_index_next_offset. Returns the store time of the last message that is now safe, 0 when there is none, or
 * a negative status. RP_E_BUSY: no descriptor was left for the directory, call again. Any other is for good: every later call gives the
 * same, and what was entered since the last good one is to be dropped at the next open (last_exit_clean 0). */
int64_t rp_key_index_sync(rp_key_index *index, rp_error *error);
/* Unlinks files whose every message lies below log_offset. How many. */
int32_t rp_key_index_delete_before(rp_key_index *index, int64_t log_offset);
/* Forgets everything at or above log_offset (the log was cut there): drops the files that reach behind it. */
int32_t rp_key_index_truncate(rp_key_index *index, int64_t log_offset);

typedef struct rp_key_query {
    int64_t last_update_time_ms; /* of the newest entry of all */
    int64_t last_update_offset;
    uint32_t found;
} rp_key_query;
/* Log offsets of messages of topic with this key, newest first, store time in begin_ms..end_ms. Another key with the same hash can be
 * among them: compare when reading the message. Never more than offsets_max; repeated offsets are given once. */
rp_key_query rp_key_index_query(rp_key_index *index, rp_slice topic, rp_slice key, int64_t begin_ms, int64_t end_ms, int64_t *offsets,
                                uint32_t offsets_max);

uint32_t rp_key_index_file_count(rp_key_index *index);

#endif
