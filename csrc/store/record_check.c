/* record_check.c: see record_check.h. */
#include "record_check.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/thread.h"
#include "ledger_entry.h"
#include "log_cursor.h"
#include "mapped_file_inl.h"
#include "message.h"
#include "message_layout_inl.h"
#include "store_path.h"

#define PIECE_BYTES (1024 * 1024)                    /* passed to the pass in one batch; two of them fit a core's cache */
#define READ_AHEAD_BYTES (32 * 1024 * 1024)          /* requested from the disk ahead of the check, which keeps its queue full */
#define LINE_BYTES 64
#define FETCH_AHEAD_BYTES (8 * 1024)
/* The waiter is woken when this many are ready, or left to read: a wake-up costs as much as a batch */
#define WAKE_BATCHES (RP_CHECK_BATCHES / 2)

typedef struct batch {
    uint32_t count;
    rp_checked_record records[RP_CHECK_BATCH_RECORDS];
} batch;

struct rp_record_check {
    const rp_file_ops *ops;    /* fixed */
    const rp_dispatcher *dispatcher; /* fixed */
    int32_t check_crc;         /* fixed */
    int wait;                  /* fixed: the rp_read_ahead that waits */
    rp_thread *thread;         /* owner */
    rp_log_cursor cursor;      /* the thread's */
    int64_t read_end;          /* owned by the thread: pages below it are in memory */
    int64_t asked_end;         /* owned by the thread: pages below it are requested */

    pthread_mutex_t lock;   /* leaf */
    pthread_cond_t changed; /* filled, taken, ended or stopping */
    uint64_t filled, taken; /* guarded by lock: batches; the one before `taken` is being read by the pass */
    bool ended, stopping;   /* ended: no batches follow; both guarded by lock */
    int64_t checked;        /* guarded by lock once ended; before that owned by the thread */
    int rc;                 /* guarded like checked: RP_OK, or why bytes could not be read */
    rp_error error;         /* guarded like checked */
    /* Batch n is in place n % RP_CHECK_BATCHES: owned by the thread until it is filled, then by the pass until it takes the next. */
    batch batches[RP_CHECK_BATCHES];
};

/* False: no file holds offset, or it cannot be opened, which the pass will find out. */
static bool enter_file(rp_record_check *check, int64_t offset) {
    const rp_mapped_file *before = check->cursor.file;
    if (rp_log_cursor_move(&check->cursor, offset, NULL) != RP_OK) {
        return false;
    }
    if (check->cursor.file != before) {
        check->read_end = check->asked_end = offset;
    }
    return true;
}

/* For a piece that could not be brought in: reads the needed bytes by system calls to learn whether the disk fails. It need not: on a
 * full tmpfs only the holes behind the bytes cannot be mapped. RP_OK, RP_E_IO. */
static int read_bytes(const rp_record_check *check, int64_t offset, int64_t end, rp_error *error) {
    const rp_mapped_file *file = check->cursor.file;
    uint8_t bytes[4096];
    while (offset < end) {
        size_t size = end - offset < (int64_t)sizeof bytes ? (size_t)(end - offset) : sizeof bytes;
        int64_t count = check->ops->read_at(check->ops->context, file->fd, bytes, size, offset - file->base_offset);
        if (count <= 0) {
            int os_errno = count < 0 ? errno : EIO;
            char path[RP_PATH_MAX];
            if (rp_path_of_offset(path, rp_mapped_file_queue_directory(check->cursor.row), file->base_offset, NULL) != RP_OK) {
                path[0] = 0;
            }
            return rp_error_set(error, RP_E_IO, os_errno, path, offset - file->base_offset,
                                "cannot read the commit log: %s; check the disk, or restore the file", strerror(os_errno));
        }
        offset += count;
    }
    return RP_OK;
}

/* Brings in the pages that hold [offset, end) and requests those behind from the disk. RP_OK, RP_E_IO. */
static int read_pages(rp_record_check *check, int64_t offset, int64_t end, rp_error *error) {
    const rp_file_ops *ops = check->ops;
    const rp_mapped_file *file = check->cursor.file;
    int64_t data_end = check->cursor.data_end;
    uint8_t *address = rp_mapped_file_address(file);
    while (check->read_end < end) {
        int64_t from = check->read_end, stop = from - from % PIECE_BYTES + PIECE_BYTES;
        stop = stop < data_end ? stop : data_end;
        if (check->asked_end < stop + READ_AHEAD_BYTES / 2 && check->asked_end < data_end) {
            int64_t ask = data_end - check->asked_end < READ_AHEAD_BYTES ? data_end - check->asked_end : READ_AHEAD_BYTES;
            /* Only affects speed. */
            ops->read_ahead(ops->context, address + (check->asked_end - file->base_offset), (size_t)ask, RP_READ_ASK);
            check->asked_end += ask;
        }
        if (ops->read_ahead(ops->context, address + (from - file->base_offset), (size_t)(stop - from), check->wait) != 0 &&
            errno != EINVAL) {
            return read_bytes(check, offset, end, error); /* EINVAL: a kernel before 5.14, which reads when the byte is touched */
        }
        check->read_end = stop;
    }
    return RP_OK;
}

/* Prefetches as many cache lines further on in the log as the present record has. The processor's own prefetching ends with each page,
 * and does not know that a record is read from both ends. Pages that are not mapped yet are not fetched. */
static void fetch_lines(const uint8_t *from, const uint8_t *end) {
    for (; from < end; from += LINE_BYTES) {
        __builtin_prefetch(from, 0, 2);
    }
}

/* Checks the record at *offset and moves *offset behind it; message->size is 0 for padding. False: the log ends here if *rc is RP_OK;
 * otherwise the disk failed. */
static bool check_record(rp_record_check *check, int64_t *offset, rp_message *message, int *rc, rp_error *error) {
    if (!enter_file(check, *offset)) {
        return false;
    }
    const rp_mapped_file *file = check->cursor.file;
    int64_t there = check->cursor.data_end - *offset;
    if (there < RP_MESSAGE_BLANK_SIZE_MIN || (*rc = read_pages(check, *offset, *offset + RP_MESSAGE_BLANK_SIZE_MIN, error)) != RP_OK) {
        return false;
    }
    const uint8_t *address = rp_mapped_file_address(file) + (*offset - file->base_offset);
    uint32_t first = rp_get_u32(address), second = rp_get_u32(address + RP_AT_MAGIC);
    bool is_padding = check->cursor.has_entries ? first == RP_LEDGER_MAGIC_BLANK : second == RP_MESSAGE_MAGIC_BLANK;
    /* As many bytes as the size in the head says. */
    int64_t needed = is_padding ? RP_MESSAGE_BLANK_SIZE_MIN : check->cursor.has_entries ? second : first;
    if (needed > there || (*rc = read_pages(check, *offset, *offset + needed, error)) != RP_OK) {
        return false;
    }
    const uint8_t *ahead = address + FETCH_AHEAD_BYTES;
    fetch_lines(ahead, ahead + (needed < FETCH_AHEAD_BYTES ? needed : FETCH_AHEAD_BYTES));
    int kind = rp_log_cursor_step(&check->cursor, *offset, check->check_crc, message, NULL);
    if (kind != RP_RECORD_MESSAGE && kind != RP_RECORD_BLANK) {
        return false;
    }
    *offset = is_padding ? *offset + message->size : message->physical_offset + message->size;
    message->size = is_padding ? 0 : message->size;
    return true;
}

/* Waits until the pass has left the next batch's place; NULL if the owner wants no more. */
static batch *next_place(rp_record_check *check) {
    pthread_mutex_lock(&check->lock);
    while (!check->stopping && check->filled - check->taken >= RP_CHECK_BATCHES - 1) {
        pthread_cond_wait(&check->changed, &check->lock);
    }
    batch *place = check->stopping ? NULL : &check->batches[check->filled % RP_CHECK_BATCHES];
    pthread_mutex_unlock(&check->lock);
    return place;
}

static void hand_over(rp_record_check *check) {
    pthread_mutex_lock(&check->lock);
    check->filled++;
    if (check->filled - check->taken >= WAKE_BATCHES) {
        pthread_cond_broadcast(&check->changed);
    }
    pthread_mutex_unlock(&check->lock);
}

/* Fills the batch from *offset on. False: this is the last one. */
static bool fill_batch(rp_record_check *check, batch *place, int64_t *offset, int *rc, rp_error *error) {
    int64_t stop = *offset + PIECE_BYTES;
    place->count = 0;
    while (place->count < RP_CHECK_BATCH_RECORDS && *offset < stop) {
        rp_checked_record *record = &place->records[place->count];
        if (!check_record(check, offset, &record->message, rc, error)) {
            return false;
        }
        if (record->message.size != 0) {
            record->tags_code = rp_dispatcher_tags_code(check->dispatcher, &record->message);
            place->count++;
        }
    }
    return true;
}

static void run(void *context) {
    rp_record_check *check = context;
    int64_t offset = check->checked;
    rp_error error = {0};
    int rc = RP_OK;
    bool go_on = true;
    batch *place;
    while (go_on && (place = next_place(check)) != NULL) {
        go_on = fill_batch(check, place, &offset, &rc, &error);
        if (place->count != 0) {
            hand_over(check);
        }
    }
    pthread_mutex_lock(&check->lock);
    check->checked = offset;
    check->ended = true;
    check->rc = rc;
    check->error = error;
    pthread_cond_broadcast(&check->changed);
    pthread_mutex_unlock(&check->lock);
}

int rp_record_check_open(const rp_record_check_setup *setup, rp_record_check **out, rp_error *error) {
    rp_record_check *check = calloc(1, sizeof *check);
    if (check == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the check of the commit log");
    }
    check->ops = setup->ops;
    check->dispatcher = setup->dispatcher;
    check->cursor = (rp_log_cursor){
        .row = setup->row, .has_entries = setup->has_entries, .last_index = setup->last_index, .last_term = setup->last_term};
    check->check_crc = setup->check_crc;
    check->wait = setup->read_only ? RP_READ_WAIT_MAPPED : RP_READ_WAIT;
    check->checked = setup->start;
    pthread_mutex_init(&check->lock, NULL);
    pthread_cond_init(&check->changed, NULL);
    int rc = rp_thread_start(&check->thread, "rp-recovery", run, check);
    if (rc != RP_OK) {
        rp_record_check_close(check);
        return rp_error_set(error, rc, 0, NULL, -1, "cannot start the thread that checks the commit log: %s", rp_thread_refusal(rc));
    }
    *out = check;
    return RP_OK;
}

int rp_record_check_take(rp_record_check *check, const rp_checked_record **records, uint32_t *count, int64_t *checked, rp_error *error) {
    int rc = RP_OK;
    *count = 0;
    pthread_mutex_lock(&check->lock);
    if (check->taken == check->filled) {
        while (check->filled - check->taken < WAKE_BATCHES && !check->ended) {
            pthread_cond_wait(&check->changed, &check->lock);
        }
    }
    if (check->taken != check->filled) {
        const batch *next = &check->batches[check->taken++ % RP_CHECK_BATCHES];
        *records = next->records;
        *count = next->count;
        if (check->filled - check->taken <= WAKE_BATCHES) {
            pthread_cond_broadcast(&check->changed);
        }
    } else {
        *checked = check->checked;
        rc = check->rc;
        if (rc != RP_OK && error != NULL) {
            *error = check->error;
        }
    }
    pthread_mutex_unlock(&check->lock);
    return rc;
}

void rp_record_check_last(const rp_record_check *check, int64_t *last_index, int64_t *last_term) {
    *last_index = check->cursor.last_index;
    *last_term = check->cursor.last_term;
}

void rp_record_check_close(rp_record_check *check) {
    if (check == NULL) {
        return;
    }
    pthread_mutex_lock(&check->lock);
    check->stopping = true;
    pthread_cond_broadcast(&check->changed);
    pthread_mutex_unlock(&check->lock);
    rp_thread_join(check->thread);
    rp_log_cursor_leave(&check->cursor);
    pthread_cond_destroy(&check->changed);
    pthread_mutex_destroy(&check->lock);
    free(check);
}
