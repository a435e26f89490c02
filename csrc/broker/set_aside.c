/* set_aside.c: see set_aside.h. */
#include "set_aside.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"

#define AGAIN_MS_MIN INT64_C(1000)
#define DOUBLED_MAX 10 /* up to 17 minutes */

static int64_t wait_ms(int32_t tries) { return AGAIN_MS_MIN << (tries < DOUBLED_MAX ? tries : DOUBLED_MAX); }

/* Returns the index of the first entry at or behind `offset`. */
static uint32_t place_of(const rp_set_aside *aside, int64_t offset) {
    uint32_t low = 0, high = aside->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (aside->entries[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static rp_set_aside_entry *find(const rp_set_aside *aside, int64_t offset) {
    uint32_t place = place_of(aside, offset);
    return place < aside->count && aside->entries[place].offset == offset ? &aside->entries[place] : NULL;
}

void rp_set_aside_clear(rp_set_aside *aside) {
    free(aside->entries);
    *aside = (rp_set_aside){0};
}

static int grow(rp_set_aside *aside) {
    uint32_t room = aside->room == 0 ? 16 : aside->room * 2;
    rp_set_aside_entry *entries = realloc(aside->entries, room * sizeof *entries);
    if (entries == NULL)
        return RP_E_NO_MEMORY;
    aside->entries = entries;
    aside->room = room;
    return RP_OK;
}

int rp_set_aside_add(rp_set_aside *aside, int64_t offset, int64_t now_ms) {
    uint32_t place = place_of(aside, offset);
    if (place < aside->count && aside->entries[place].offset == offset)
        return RP_OK;
    if (aside->count == RP_SET_ASIDE_MAX)
        return RP_E_BUSY;
    if (aside->count == aside->room && grow(aside) != RP_OK)
        return RP_E_NO_MEMORY;
    rp_set_aside_entry *entry = &aside->entries[place];
    memmove(entry + 1, entry, (aside->count - place) * sizeof *entry);
    *entry = (rp_set_aside_entry){.offset = offset, .again_ms = now_ms + wait_ms(0)};
    aside->count++;
    return RP_OK;
}

static int is_due(const rp_set_aside_entry *entry, int64_t now_ms) {
    return entry->again_ms <= now_ms || entry->again_ms > now_ms + wait_ms(entry->tries);
}

uint32_t rp_set_aside_due(const rp_set_aside *aside, int64_t now_ms, int64_t *offsets, uint32_t max) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < aside->count && count < max; i++) {
        if (is_due(&aside->entries[i], now_ms))
            offsets[count++] = aside->entries[i].offset;
    }
    return count;
}

int64_t rp_set_aside_next_ms(const rp_set_aside *aside) {
    int64_t next_ms = RP_SET_ASIDE_NEVER;
    for (uint32_t i = 0; i < aside->count; i++)
        next_ms = aside->entries[i].again_ms < next_ms ? aside->entries[i].again_ms : next_ms;
    return next_ms;
}

void rp_set_aside_remove(rp_set_aside *aside, int64_t offset) {
    rp_set_aside_entry *entry = find(aside, offset);
    if (entry == NULL)
        return;
    aside->count--;
    memmove(entry, entry + 1, (size_t)(&aside->entries[aside->count] - entry) * sizeof *entry);
}

void rp_set_aside_postpone(rp_set_aside *aside, int64_t offset, int64_t now_ms) {
    rp_set_aside_entry *entry = find(aside, offset);
    if (entry == NULL)
        return;
    entry->tries += entry->tries < DOUBLED_MAX;
    entry->again_ms = now_ms + wait_ms(entry->tries);
}

void rp_set_aside_end_at(rp_set_aside *aside, int64_t end) { aside->count = place_of(aside, end); }
