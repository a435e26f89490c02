/* queue_sync.c: see queue_sync.h. */
#include "queue_sync.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "consume_queue_writer.h"

typedef struct queue_pass {
    int64_t least_bytes;
    bool is_rest;   /* queues on `device` are synced already, so only the others are */
    dev_t device;   /* device of the directory of all queues */
    uint32_t dirty; /* queues that had least_bytes unsynced when they were counted */
    rp_queue_mark *marks; /* owned; room for `dirty` marks */
    uint32_t marked;
    int rc;
    rp_error *error;
} queue_pass;

static bool is_dirty(const queue_pass *pass, const rp_consume_queue *queue) {
    return rp_consume_queue_dirty_bytes(queue) >= pass->least_bytes;
}

/* False if somebody has put the queue on another disk, or it cannot be found. */
static bool is_on_device(const queue_pass *pass, const rp_consume_queue *queue) {
    struct stat found;
    return stat(rp_consume_queue_directory(queue), &found) == 0 && found.st_dev == pass->device;
}

static int count_dirty(void *context, rp_consume_queue *queue) {
    queue_pass *pass = context;
    pass->dirty += is_dirty(pass, queue);
    return 0;
}

static int mark_dirty(void *context, rp_consume_queue *queue) {
    queue_pass *pass = context;
    if (is_dirty(pass, queue) && is_on_device(pass, queue))
        pass->marks[pass->marked++] = rp_consume_queue_mark(queue);
    return pass->marked == pass->dirty; /* a queue that became dirty since then has only entries from after the call */
}

/* Syncs the file system if worthwhile. Returns whether the queues on the device are synced. */
static bool sync_together(const rp_queue_sync *sync, queue_pass *pass) {
    struct stat directory;
    if (fstat(sync->directory_fd, &directory) != 0)
        return false;
    pass->device = directory.st_dev;
    pass->marks = malloc((size_t)pass->dirty * sizeof *pass->marks);
    if (pass->marks == NULL)
        return false;
    rp_queue_table_each(sync->queues, mark_dirty, pass);
    bool is_synced = sync->ops->sync_filesystem(sync->ops->context, sync->directory_fd) == 0;
    for (uint32_t i = 0; i < pass->marked && is_synced; i++)
        rp_consume_queue_is_synced(&pass->marks[i]);
    free(pass->marks);
    return is_synced;
}

static int sync_one(void *context, rp_consume_queue *queue) {
    queue_pass *pass = context;
    if (is_dirty(pass, queue) && !(pass->is_rest && is_on_device(pass, queue)))
        pass->rc = rp_consume_queue_sync(queue, pass->error);
    return pass->rc != RP_OK;
}

static bool is_together(const rp_queue_sync *sync, queue_pass *pass) {
    rp_queue_table_each(sync->queues, count_dirty, pass);
    return pass->dirty >= sync->at_once && sync->directory_fd >= 0;
}

int rp_queue_sync_is_together(const rp_queue_sync *sync, int64_t least_bytes) {
    queue_pass pass = {.least_bytes = least_bytes};
    return is_together(sync, &pass);
}

int rp_queue_sync_pass(const rp_queue_sync *sync, int64_t least_bytes, rp_error *error) {
    queue_pass pass = {.least_bytes = least_bytes, .rc = RP_OK, .error = error};
    pass.is_rest = is_together(sync, &pass) && sync_together(sync, &pass);
    rp_queue_table_each(sync->queues, sync_one, &pass);
    return pass.rc;
}
