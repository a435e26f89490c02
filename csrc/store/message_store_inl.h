/* message_store_inl.h: the fields of the store, for the files of this room. C only. */
#ifndef RP_STORE_MESSAGE_STORE_INL_H
#define RP_STORE_MESSAGE_STORE_INL_H

#include <stdbool.h>

#include "compaction.h"
#include "consume_queue_inl.h"
#include "flusher.h"
#include "index_builder.h"
#include "message_store.h"
#include "recovery.h"
#include "retention.h"
#include "store_lock.h"
#include "store_path.h"

typedef struct store_paths {
    char root[RP_PATH_MAX];
    char commit_log[RP_PATH_MAX];
    char queues[RP_PATH_MAX];
    char batch_queues[RP_PATH_MAX];
    char lock[RP_PATH_MAX];
    char abort_mark[RP_PATH_MAX];
    char checkpoint[RP_PATH_MAX];
    char index[RP_PATH_MAX];
    char ledger_index[RP_PATH_MAX]; /* "": the log has no entries */
    char compaction[RP_PATH_MAX];
    char aside[RP_PATH_MAX]; /* where recovery moves files of the commit log */
} store_paths;

struct rp_message_store {
    rp_message_store_options options; /* fixed; its strings are not kept */
    store_paths paths;                /* fixed */
    rp_flush_backend *backend;        /* fixed after open; NULL in a read-only store, and if the caller supplied file_ops */
    const rp_file_ops *ops;           /* fixed: the caller's, or the backend's */
    const rp_clock *clock;            /* fixed */
    rp_consume_queue_setup queue_setup, batch_setup; /* fixed before the first queue */
    _Atomic int64_t queue_files;      /* of all queues, mapped yet or not */
    rp_ledger_index *ledger_index;    /* fixed after open; NULL when the log has no entries */
    rp_commit_log *commit_log;        /* fixed after open */
    rp_queue_table *queues;           /* fixed after open */
    rp_flusher *flusher;              /* fixed after open; NULL in a read-only store */
    rp_retention *retention;          /* fixed after open; NULL in a read-only store */
    rp_key_index *index;              /* fixed after open; NULL when it is off */
    rp_index_builder *index_builder;  /* fixed after open; NULL in a read-only store */
    rp_compaction *compaction;        /* likewise, and NULL if compaction is off */
    rp_dispatcher dispatcher;         /* owner while opening, then guarded by the append lock */
    rp_checkpoint checkpoint;         /* owner, while opening */
    rp_recovery recovery;             /* owner */
    int lock_fd;                      /* owner */
    int queues_fd;                    /* fixed after open: descriptor of the directory of all queues; -1: none */
    bool was_exact;                   /* owner: rocketpy wrote the checkpoint last */
    bool was_clean;                   /* owner: no abort mark was found */
    bool queues_gone;                 /* owner: after an unclean end there was no directory of queues */
    bool was_marked;                  /* owner: this process has set the abort mark and removes it */
};

/* RP_OK, or RP_E_INVALID: an interval between flushes is out of range. */
int rp_message_store_check_intervals(uint32_t log_ms, uint32_t queue_ms, rp_error *error);

/* message_store_ledger.c: steps of the open; they do nothing for a log without entries. */
int rp_message_store_refuse_old_log(rp_message_store *store, rp_error *error);
int rp_message_store_open_ledger(rp_message_store *store, rp_error *error);
/* Log offset up to which DLedger's checkpoint calls the log committed; 0: unknown. */
int64_t rp_message_store_committed_end(const rp_message_store *store);
int rp_message_store_settle_entries(rp_message_store *store, rp_error *error);

#endif
