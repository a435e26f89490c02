/* key_index.h: the index files of a store: finds messages by key and by the client's unique key.
 * RocketMQ: IndexService, QueryOffsetResult (5.3.3 store/index/).
 *
 * A message is entered under TOPIC#UNIQ_KEY, TOPIC#KEY for every word of its KEYS property, and TOPIC#T#TAGS; rolled-back ones are not.
 * Files are named by the wall clock at creation (yyyyMMddHHmmssSSS).
 *
 * Threads  put, put_message, sync, next_offset: one builder thread, or the owner while that does not run; truncate: the owner, before it
 *          starts. query, delete_before, file_count: any thread (a readers-writer lock guards the row).
 * Owns     its files.
 * Crash    after an unclean stop, files that end behind what was known to be on disk (synced_offset), or whose slots name more entries
 *          than their header counts, are dropped at open and rebuilt from the log: the caller resumes at rp_key_index_next_offset.
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
    const char *directory;      /* created if it does not exist */
    rp_index_shape shape;       /* 5,000,000 slots, 20,000,000 entries */
    int32_t last_exit_clean;    /* 0: drop files behind synced_offset */
    /* Log offset of the last message that was on disk; -1: unknown, then synced_time_ms decides: RocketMQ's rule, which fails when the
     * clock was set back */
    int64_t synced_offset;
    int64_t synced_time_ms;     /* the checkpoint's index timestamp */
    int32_t read_only;
    const rp_file_ops *file_ops;
    const rp_clock *clock;
    rp_log *log;
} rp_key_index_options;

void rp_key_index_options_default(rp_key_index_options *options);
/* A damaged file is set aside (".damaged"), logged and rebuilt; it never fails the open. RP_OK, RP_E_IO, RP_E_NO_MEMORY, RP_E_DISK_FULL. */
int rp_key_index_open(const rp_key_index_options *options, rp_key_index **index, rp_error *error);
void rp_key_index_close(rp_key_index *index); /* syncs */

/* Enters a message. RP_OK (also if it has no key); RP_E_DISK_FULL, RP_E_IO: not all of it was entered; call again later with the same
 * message. */
int rp_key_index_put_message(rp_key_index *index, const rp_message *message, rp_error *error);
/* Enters one key of a message by its hash. Returns as put_message does. */
int rp_key_index_put(rp_key_index *index, int32_t key_hash, int64_t log_offset, int64_t store_time_ms, rp_error *error);
/* Returns the log offset from which put_message has to continue after open, that of the last message; -1: from the log's start. */
int64_t rp_key_index_next_offset(rp_key_index *index);
/* Returns the store time of that message; 0 if there is none. */
int64_t rp_key_index_last_time(const rp_key_index *index);
/* Syncs what changed, up to rp_key_index_next_offset. Returns the store time of the last message that is now on disk, 0 if there is
 * none, or a negative status. RP_E_BUSY: no descriptor was left for the directory; call again. Any other error is final: every later
 * call returns it, and what was entered since the last good sync must be dropped at the next open (last_exit_clean 0). */
int64_t rp_key_index_sync(rp_key_index *index, rp_error *error);
/* Unlinks the files whose messages all lie below log_offset. Returns how many. */
int32_t rp_key_index_delete_before(rp_key_index *index, int64_t log_offset);
/* Forgets everything at or above log_offset, because the log was cut there: drops the files that reach beyond it. Returns how many. */
int32_t rp_key_index_truncate(rp_key_index *index, int64_t log_offset);

typedef struct rp_key_query {
    int64_t last_update_time_ms; /* store time of the newest entry in the index */
    int64_t last_update_offset;
    uint32_t found;
} rp_key_query;
/* Finds the log offsets of messages of topic with this key, newest first, with a store time in begin_ms..end_ms. Other keys with the
 * same hash may be among them: compare when reading the message. At most offsets_max; repeated offsets are returned once. */
rp_key_query rp_key_index_query(rp_key_index *index, rp_slice topic, rp_slice key, int64_t begin_ms, int64_t end_ms, int64_t *offsets,
                                uint32_t offsets_max);

uint32_t rp_key_index_file_count(rp_key_index *index);

#endif
