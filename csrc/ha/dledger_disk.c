/* dledger_disk.c: the thread of a member that has no followers, or whose own disk counts for the majority. */
#include <poll.h>
#include <unistd.h>

#include "dledger_log_inl.h"

#define FLUSH_PATIENCE_MS 1000
#define OWED_MS 1000 /* until committed messages that found no room in a queue are retried */

/* Reports how far this member's disk has come, which counts for the majority. */
void rp_dledger_disk_run(void *context) {
    rp_dledger_log *dledger = context;
    while (!atomic_load(&dledger->stopping)) {
        int64_t end = rp_commit_log_max_offset(dledger->log);
        bool leads = atomic_load(&dledger->leads_term) >= 0, is_there = true;
        if (leads) {
            is_there = !dledger->options.sync || rp_message_store_wait_flushed(dledger->options.store, end, FLUSH_PATIENCE_MS) == RP_OK;
            pthread_mutex_lock(&dledger->lock);
            rp_dledger_advance(dledger);
            rp_dledger_leave(dledger);
        }
        atomic_store(&dledger->disk_sleeping, 1);
        atomic_thread_fence(memory_order_seq_cst);
        bool is_idle = (atomic_load(&dledger->leads_term) >= 0) == leads && rp_commit_log_max_offset(dledger->log) == end;
        if (is_idle && !atomic_load(&dledger->stopping)) {
            bool is_owed = leads && (!is_there || rp_commit_log_dispatched_offset(dledger->log) < end);
            struct pollfd polled = {.fd = dledger->disk_fd, .events = POLLIN};
            uint64_t drained;
            if (poll(&polled, 1, is_owed ? OWED_MS : -1) > 0) {
                (void)!read(dledger->disk_fd, &drained, sizeof drained);
            }
        }
        atomic_store(&dledger->disk_sleeping, 0);
    }
}
