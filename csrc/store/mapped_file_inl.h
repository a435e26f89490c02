/* mapped_file_inl.h: the fields of a mapped file, for the files of this room. C only. */
#ifndef RP_STORE_MAPPED_FILE_INL_H
#define RP_STORE_MAPPED_FILE_INL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "mapped_file.h"

struct rp_mapped_file {
    const rp_file_ops *ops;    /* fixed */
    int64_t base_offset;       /* fixed: of the file's first byte */
    uint64_t size;             /* fixed */
    _Atomic(uint8_t *) address; /* NULL until mapped; released after fd is set, so whoever sees it sees fd */
    bool is_writable;          /* of the map; published like fd */
    bool copies_on_write;      /* bytes that have space may need it again; published like fd */
    int fd;                    /* -1 if unmapped or not kept open; written under the row's lock before address */
    _Atomic int32_t pins;      /* the row's own included; from 0 it never rises again */
    rp_mapped_file *next_removed; /* guarded by the row's lock: removed files wait here for the row's end */
};

static inline uint8_t *rp_mapped_file_address(const rp_mapped_file *file) {
    return atomic_load_explicit(&file->address, memory_order_acquire);
}

#endif
