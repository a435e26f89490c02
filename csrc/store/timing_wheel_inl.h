/* timing_wheel_inl.h: the fields of a wheel, for the files of this room. C only. */
#ifndef RP_STORE_TIMING_WHEEL_INL_H
#define RP_STORE_TIMING_WHEEL_INL_H

#include <stdatomic.h>

#include "timer_log.h"
#include "timing_wheel.h"

#define PAGE_SIZE 4096
#define PAGE_SLOTS (PAGE_SIZE / RP_TIMING_WHEEL_SLOT_SIZE)
#define WHEEL_SIZE ((int64_t)RP_TIMING_WHEEL_SLOTS * RP_TIMING_WHEEL_SLOT_SIZE)
#define WHEEL_PAGES (RP_TIMING_WHEEL_SLOTS / PAGE_SLOTS)

_Static_assert(RP_TIMING_WHEEL_SLOTS % PAGE_SLOTS == 0, "the wheel ends with a page");
_Static_assert(PAGE_SLOTS <= UINT8_MAX, "a page's used slots are counted in a byte");

/* Other threads read a slot's time and count while it changes: each is read whole, and a slightly old count is good enough. */
typedef struct wheel_slot {
    _Atomic int64_t units; /* time / precision; 0: empty */
    int64_t first, last;
    _Atomic int32_t count;
    int32_t magic;
} wheel_slot;

_Static_assert(sizeof(wheel_slot) == RP_TIMING_WHEEL_SLOT_SIZE, "a page of slots is a page of the file");

struct rp_timing_wheel {
    const rp_file_ops *ops; /* fixed */
    char *path;             /* fixed */
    int32_t precision_ms;   /* fixed */
    int32_t is_new;         /* owned by the owner thread, like all below: the file on disk is not that of this wheel */
    wheel_slot *slots;      /* the mapping is fixed */
    _Atomic int64_t count;  /* relaxed: only for display */
    uint8_t used[WHEEL_PAGES]; /* number of its slots that are not empty */
    uint64_t changed[(WHEEL_PAGES + 63) / 64]; /* pages that differ from the file */
};

rp_timing_wheel *rp_timing_wheel_create(const rp_file_ops *ops, const char *path, int32_t precision_ms);
/* Decodes RP_TIMING_WHEEL_SLOT_SIZE bytes. 1; 0 if the slot cannot be valid. */
int rp_timing_wheel_decode_slot(const uint8_t *bytes, uint32_t index, int32_t precision_ms, wheel_slot *slot);
void rp_timing_wheel_store(rp_timing_wheel *wheel, uint32_t index, const wheel_slot *values);

#endif
