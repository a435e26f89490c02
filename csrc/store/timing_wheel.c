/* timing_wheel.c: the slots in memory and which of them changed; timing_wheel_file.c handles the file. See timing_wheel.h. */
#include "timing_wheel_inl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Returns the slot's place in the wheel. */
static uint32_t index_of(int64_t units) { return (uint32_t)(units % RP_TIMING_WHEEL_SLOTS); }

static int64_t units_of(const rp_timing_wheel *wheel, int64_t time_ms) {
    int64_t units = time_ms < 0 ? 0 : time_ms / wheel->precision_ms;
    return units == 0 ? 1 : units; /* units 0 marks an empty slot */
}

rp_timing_wheel *rp_timing_wheel_create(const rp_file_ops *ops, const char *path, int32_t precision_ms) {
    rp_timing_wheel *wheel = calloc(1, sizeof *wheel);
    if (wheel == NULL) {
        return NULL;
    }
    wheel->ops = ops != NULL ? ops : rp_file_ops_system();
    wheel->precision_ms = precision_ms;
    wheel->path = strdup(path);
    void *slots = mmap(NULL, WHEEL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    wheel->slots = slots == MAP_FAILED ? NULL : slots;
    if (wheel->path == NULL || wheel->slots == NULL) {
        rp_timing_wheel_close(wheel);
        return NULL;
    }
    return wheel;
}

void rp_timing_wheel_close(rp_timing_wheel *wheel) {
    if (wheel == NULL) {
        return;
    }
    if (wheel->slots != NULL) {
        munmap(wheel->slots, WHEEL_SIZE);
    }
    free(wheel->path);
    free(wheel);
}

int rp_timing_wheel_is_new(const rp_timing_wheel *wheel) { return wheel->is_new; }

int64_t rp_timing_wheel_floor(const rp_timing_wheel *wheel, int64_t time_ms) { return units_of(wheel, time_ms) * wheel->precision_ms; }

void rp_timing_wheel_store(rp_timing_wheel *wheel, uint32_t index, const wheel_slot *values) {
    wheel_slot *slot = &wheel->slots[index];
    uint32_t page = index / PAGE_SLOTS;
    int64_t before = atomic_load_explicit(&slot->units, memory_order_relaxed),
            after = atomic_load_explicit(&values->units, memory_order_relaxed);
    int32_t count_before = atomic_load_explicit(&slot->count, memory_order_relaxed);
    int32_t count_after = atomic_load_explicit(&values->count, memory_order_relaxed);
    slot->first = values->first;
    slot->last = values->last;
    slot->magic = values->magic;
    atomic_store_explicit(&slot->count, count_after, memory_order_relaxed);
    atomic_store_explicit(&slot->units, after, memory_order_relaxed);
    wheel->used[page] = (uint8_t)(wheel->used[page] + (after != 0) - (before != 0));
    atomic_fetch_add_explicit(&wheel->count, count_after - count_before, memory_order_relaxed);
    wheel->changed[page / 64] |= (uint64_t)1 << page % 64;
}

static void read_slot(const rp_timing_wheel *wheel, const wheel_slot *from, rp_timer_slot *slot) {
    slot->time_ms = atomic_load_explicit(&from->units, memory_order_relaxed) * wheel->precision_ms;
    slot->first_position = from->first;
    slot->last_position = from->last;
    slot->count = atomic_load_explicit(&from->count, memory_order_relaxed);
    slot->magic = from->magic;
}

int rp_timing_wheel_slot(const rp_timing_wheel *wheel, int64_t time_ms, rp_timer_slot *slot) {
    int64_t units = units_of(wheel, time_ms);
    const wheel_slot *found = &wheel->slots[index_of(units)];
    if (atomic_load_explicit(&found->units, memory_order_relaxed) != units) {
        return 0;
    }
    read_slot(wheel, found, slot);
    return 1;
}

int64_t rp_timing_wheel_holds(const rp_timing_wheel *wheel, int64_t time_ms) {
    int64_t units = atomic_load_explicit(&wheel->slots[index_of(units_of(wheel, time_ms))].units, memory_order_relaxed);
    return units == 0 ? -1 : units * wheel->precision_ms;
}

/* Not decided by the times: if the clock was set back, the earlier one may be newer. A place is reused only once it is empty. */
int rp_timing_wheel_is_past(const rp_timing_wheel *wheel, int64_t time_ms, int64_t position) {
    int64_t held = rp_timing_wheel_holds(wheel, time_ms);
    rp_timer_slot slot;
    return held >= 0 && held != rp_timing_wheel_floor(wheel, time_ms) && rp_timing_wheel_slot(wheel, held, &slot) &&
           position <= slot.last_position;
}

void rp_timing_wheel_put(rp_timing_wheel *wheel, const rp_timer_slot *slot) {
    int64_t units = units_of(wheel, slot->time_ms);
    wheel_slot values = {.first = slot->first_position, .last = slot->last_position, .magic = slot->magic};
    atomic_init(&values.units, units);
    atomic_init(&values.count, slot->count < 0 ? 0 : slot->count);
    rp_timing_wheel_store(wheel, index_of(units), &values);
}

void rp_timing_wheel_clear(rp_timing_wheel *wheel, int64_t time_ms) {
    int64_t units = units_of(wheel, time_ms);
    wheel_slot nothing;
    memset(&nothing, 0, sizeof nothing);
    if (atomic_load_explicit(&wheel->slots[index_of(units)].units, memory_order_relaxed) == units) {
        rp_timing_wheel_store(wheel, index_of(units), &nothing);
    }
}

void rp_timing_wheel_add(rp_timing_wheel *wheel, int64_t time_ms, int64_t position, int64_t previous, int32_t magic) {
    int32_t one = (magic & RP_TIMER_DELETE) != 0 ? -1 : 1;
    int64_t time = rp_timing_wheel_floor(wheel, time_ms);
    rp_timer_slot slot;
    if (rp_timing_wheel_is_past(wheel, time, position)) {
        return;
    }
    if (!rp_timing_wheel_slot(wheel, time, &slot)) {
        slot = (rp_timer_slot){.time_ms = time, .first_position = position};
    } else if (position <= slot.last_position) {
        return;
    } else if (previous == RP_TIMER_NO_POSITION) {
        slot.first_position = position;
        slot.count = 0;
    }
    slot.last_position = position;
    slot.count = slot.count == INT32_MAX && one > 0 ? slot.count : slot.count + one;
    rp_timing_wheel_put(wheel, &slot);
}

void rp_timing_wheel_clear_all(rp_timing_wheel *wheel) {
    wheel_slot nothing;
    memset(&nothing, 0, sizeof nothing);
    for (uint32_t page = 0; page < WHEEL_PAGES; page++) {
        for (uint32_t i = 0; wheel->used[page] != 0 && i < PAGE_SLOTS; i++) {
            rp_timing_wheel_store(wheel, page * PAGE_SLOTS + i, &nothing);
        }
    }
    wheel->is_new = 1; /* the next flush writes a new file, without any old slot */
}

int rp_timing_wheel_each(const rp_timing_wheel *wheel, int (*visit)(void *context, const rp_timer_slot *slot), void *context) {
    for (uint32_t page = 0; page < WHEEL_PAGES; page++) {
        for (uint32_t i = 0; wheel->used[page] != 0 && i < PAGE_SLOTS; i++) {
            const wheel_slot *found = &wheel->slots[page * PAGE_SLOTS + i];
            rp_timer_slot slot;
            read_slot(wheel, found, &slot);
            int rc = slot.time_ms == 0 ? 0 : visit(context, &slot);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

typedef struct next_slot {
    int64_t from_ms, found_ms;
} next_slot;

static int note_earlier(void *context, const rp_timer_slot *slot) {
    next_slot *next = context;
    if (slot->time_ms >= next->from_ms && (next->found_ms < 0 || slot->time_ms < next->found_ms)) {
        next->found_ms = slot->time_ms;
    }
    return 0;
}

int64_t rp_timing_wheel_next(const rp_timing_wheel *wheel, int64_t time_ms) {
    int64_t units = units_of(wheel, time_ms), end = units + RP_TIMING_WHEEL_SLOTS;
    if (time_ms > INT64_MAX / 2) {
        return -1;
    }
    while (units < end) {
        uint32_t index = index_of(units);
        if (wheel->used[index / PAGE_SLOTS] == 0) {
            units += PAGE_SLOTS - index % PAGE_SLOTS;
        } else if (atomic_load_explicit(&wheel->slots[index].units, memory_order_relaxed) == units) {
            return units * wheel->precision_ms;
        } else {
            units++;
        }
    }
    next_slot next = {.from_ms = end * wheel->precision_ms, .found_ms = -1};
    rp_timing_wheel_each(wheel, note_earlier, &next); /* for times a round or more before the first slot */
    return next.found_ms;
}

int64_t rp_timing_wheel_count(const rp_timing_wheel *wheel) { return atomic_load_explicit(&wheel->count, memory_order_relaxed); }

int32_t rp_timing_wheel_slot_count(const rp_timing_wheel *wheel, int64_t time_ms) {
    int64_t units = units_of(wheel, time_ms);
    const wheel_slot *found = &wheel->slots[index_of(units)];
    int32_t count = atomic_load_explicit(&found->count, memory_order_relaxed);
    return atomic_load_explicit(&found->units, memory_order_relaxed) == units ? count : 0;
}
