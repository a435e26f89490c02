/* commit_log_map.c: stores to the commit log's mapped file, where a full disk may take reserved space back (../base/map_hold.h). See
 * commit_log_inl.h. */
#include <errno.h>
#include <string.h>

#include "commit_log.h"
#include "commit_log_inl.h"
#include "consume_queue_writer.h"
#include "ledger_entry.h"
#include "mapped_file_inl.h"
#include "message_encode.h"

/* Clears the torn bytes of the active file by a write, which a full disk refuses with an error. Torn bytes in the next file are cleared
 * when that file is entered. */
static int clear_torn(rp_commit_log *log, rp_error *error) {
    const rp_mapped_file *file = log->active;
    int rc = rp_log_staging_clear(&log->staging, log->position, file->fd, file->base_offset, (int64_t)file->size);
    return rc == RP_OK ? rc
                       : rp_error_set(error, rc, errno, log->setup.directory, log->position,
                                      "cannot clear what a failed append has left: %s", strerror(errno));
}

/* A file that was cut short must not be lengthened again by a reservation of space, and then pass for whole. */
static void refuse(rp_commit_log *log, int rc, const rp_error *error) {
    rp_commit_log_tell_refused(log, error);
    if (rc == RP_E_IO) {
        rp_commit_log_fail(log, rc, error);
    }
}

int rp_commit_log_hold(rp_commit_log *log, uint32_t size) {
    const rp_mapped_file *file = log->active;
    rp_error error;
    int rc = __builtin_expect(log->staging.torn_end > log->position, 0) ? clear_torn(log, &error) : RP_OK;
    rc = rc == RP_OK ? rp_mapped_file_hold(file, rp_mapped_file_queue_directory(log->row), log->position - file->base_offset, size, &error)
                     : rc;
    if (__builtin_expect(rc != RP_OK, 0)) {
        refuse(log, rc, &error);
    }
    return rc;
}

int rp_commit_log_store(rp_commit_log *log, uint32_t size, void (*store)(void *context), void *context) {
    rp_error error;
    int rc =
        rp_mapped_file_store(log->active, log->setup.directory, log->position - log->active->base_offset, size, store, context, &error);
    if (__builtin_expect(rc != RP_OK, 0)) {
        refuse(log, rc, &error);
    }
    return rc;
}

void rp_commit_log_tear(rp_commit_log *log, int64_t end) {
    rp_error error;
    rp_log_staging_tear(&log->staging, log->position, end);
    if (log->active != NULL && log->position < log->active_end) {
        (void)clear_torn(log, &error); /* otherwise before the next append, or when the log stops */
    }
}

void rp_commit_log_encode_blank(const rp_commit_log *log, uint8_t *target, uint32_t left) {
    if (log->head_size != 0) {
        rp_ledger_blank_encode(target, left);
    } else {
        rp_message_encode_blank(target, left);
    }
}

typedef struct new_blank {
    const rp_commit_log *log;
    uint8_t *target;
    uint32_t left;
} new_blank;

static void store_blank(void *context) {
    const new_blank *blank = context;
    rp_commit_log_encode_blank(blank->log, blank->target, blank->left);
}

int rp_commit_log_store_blank(rp_commit_log *log, uint32_t left) {
    new_blank blank = {log, log->active_address + (log->position - log->active->base_offset), left};
    int rc = rp_commit_log_hold(log, RP_MESSAGE_BLANK_SIZE_MIN);
    if (rc == RP_OK && (rc = rp_commit_log_store(log, RP_MESSAGE_BLANK_SIZE_MIN, store_blank, &blank)) != RP_OK) {
        rp_commit_log_tear(log, log->position + RP_MESSAGE_BLANK_SIZE_MIN);
    }
    return rc;
}

/* After a failed append, whatever was to follow the padding of a file does not. The log's end moves back before the padding, as it does
 * on a follower: a smaller record may fit there, and has to lie at the same place in all logs. */
void rp_commit_log_take_back_padding(rp_commit_log *log) {
    int64_t end = rp_commit_log_max_offset(log);
    if (log->staging.size != 0 || log->position == end) {
        return;
    }
    log->position = end;
    if (log->active != NULL) {
        rp_mapped_file_release(log->active);
        log->active = NULL;
    }
}

/* Writes the entry into all of the item's queues, or into none. */
static int write_entries(const rp_append_item *item, const rp_queue_entry *entry, rp_error *error) {
    int rc = rp_consume_queue_write(item->queue, entry, error);
    if (rc == RP_OK && item->light != NULL && (rc = rp_light_targets_write(item->light, entry, error)) != RP_OK) {
        rp_consume_queue_unwrite(item->queue);
    }
    return rc;
}

int rp_commit_log_write_entries(rp_commit_log *log, const rp_append_item *item, const rp_queue_entry *entry) {
    rp_error error;
    int rc = write_entries(item, entry, &error);
    if (rc != RP_OK) {
        refuse(log, rc, &error);
    }
    return rc;
}
