/* message_store_ledger.c: what opening a store does in addition if its commit log is DLedger's (commit_log_ledger.h). */
#include <stdio.h>
#include <string.h>

#include "commit_log_ledger.h"
#include "file_row.h"
#include "log_cursor.h"
#include "message_store_inl.h"

#define LEDGER_LAST_FILES 3 /* DLedger itself reads as many again */

/* RocketMQ continues behind a commitlog from before DLedger and reads both; rocketpy does not read the old one, so its messages would be
 * missing. */
int rp_message_store_refuse_old_log(rp_message_store *store, rp_error *error) {
    char path[RP_PATH_MAX];
    rp_file_row *old = NULL;
    int rc = store->paths.ledger_index[0] == 0 ? RP_E_NOT_FOUND : rp_path_join(path, store->paths.root, "commitlog", error);
    if (rc != RP_OK || strcmp(path, store->paths.commit_log) == 0) {
        return rc == RP_E_NOT_FOUND ? RP_OK : rc;
    }
    rc = rp_file_row_open(path, &old, error);
    if (rc == RP_OK && rp_file_row_count(old) != 0) {
        rc =
            rp_error_set(error, RP_E_INVALID, 0, path, -1,
                         "there is a commit log from before DLedger, which this broker does not read beside entries: send what it holds to "
                         "another broker, then move it away with consumequeue and index");
    }
    rp_file_row_close(old);
    return rc;
}

int rp_message_store_open_ledger(rp_message_store *store, rp_error *error) {
    const rp_message_store_options *options = &store->options;
    return store->paths.ledger_index[0] == 0 ? RP_OK
                                             : rp_ledger_index_open(store->ops, store->paths.ledger_index, options->ledger_index_file_size,
                                                                    options->read_only, &store->ledger_index, error);
}

/* Does the log agree with the unit? A power cut may leave the unit of an entry that was cut since. */
static bool is_of_log(const rp_message_store *store, const rp_ledger_entry *unit) {
    rp_log_cursor cursor = {.row = rp_commit_log_files(store->commit_log), .has_entries = 1};
    rp_message message;
    bool is_it = rp_log_cursor_move(&cursor, unit->position, NULL) == RP_OK &&
                 rp_log_cursor_step(&cursor, unit->position, RP_CHECK_NO_CRC, &message, NULL) == RP_RECORD_MESSAGE &&
                 cursor.last_index == unit->index && message.size + RP_LEDGER_HEAD_SIZE == unit->size;
    rp_log_cursor_leave(&cursor);
    return is_it;
}

int64_t rp_message_store_committed_end(const rp_message_store *store) {
    rp_ledger_entry unit;
    bool is_known = store->ledger_index != NULL && store->options.ledger_committed_index >= 0 &&
                    rp_ledger_index_read(store->ledger_index, store->options.ledger_committed_index, &unit) == RP_OK &&
                    is_of_log(store, &unit);
    return is_known ? unit.position + unit.size : 0;
}

/* Finds from where on units may be missing in the index files: they are synced before our checkpoint is written; a stop of DLedger's
 * leaves all but its last files whole. */
int rp_message_store_settle_entries(rp_message_store *store, rp_error *error) {
    rp_mapped_file_queue *row = rp_commit_log_files(store->commit_log);
    int64_t last_files = rp_mapped_file_queue_end(row) - LEDGER_LAST_FILES * (int64_t)rp_mapped_file_queue_file_size(row);
    int64_t from = store->was_exact ? store->recovery.start : last_files;
    return rp_commit_log_settle_entries(store->commit_log, from, error);
}
