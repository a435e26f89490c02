/* mapped_file_queue_inl.h: the fields of a row of files, for the files of this room. C only. */
#ifndef RP_STORE_MAPPED_FILE_QUEUE_INL_H
#define RP_STORE_MAPPED_FILE_QUEUE_INL_H

#include <pthread.h>
#include <stdatomic.h>

#include "mapped_file_inl.h"
#include "mapped_file_queue.h"

typedef struct rp_file_slots rp_file_slots; /* mapped_file_queue.c */

struct rp_mapped_file_queue {
    const rp_file_ops *ops; /* fixed */
    char *directory;        /* fixed */
    char *aside_directory;  /* fixed; NULL: files are deleted */
    uint64_t file_size;     /* fixed */
    int32_t mode;           /* fixed */
    _Atomic int64_t *files; /* fixed; relaxed: a lone number */
    _Atomic(rp_file_slots *) slots; /* replaced under lock, released after it is filled */
    _Atomic int64_t begin;  /* bytes; written under lock */
    _Atomic int64_t end;    /* bytes; written under lock */
    rp_mapped_file *removed;      /* guarded by lock */
    _Atomic uint64_t name_changes;  /* number of files made and removed so far */
    /* Of these, how many are on disk; written under name_lock, after the sync: a reader that finds both counts equal may rely on it. */
    _Atomic uint64_t synced_changes;
    pthread_mutex_t name_lock; /* held over the sync of the directory; leaf */
    pthread_mutex_t lock; /* leaf: nothing is locked under it */
};

/* Maps a pinned file; with create 1 the file is created. */
int rp_mapped_file_queue_map(rp_mapped_file_queue *row, rp_mapped_file *file, int create, rp_error *error);

#endif
