/* timer_chain.c: see timer_chain.h. */
#include "timer_chain.h"

#include <stdlib.h>
#include <string.h>

#define STRETCH_MIN 256 /* records between two marks at first: 52 * 256 bytes, one read if they are adjacent */
#define MARKS_MIN 16

struct rp_timer_chain {
    rp_timer_log *log;
    int64_t time_ms; /* of the slot */
    int32_t precision_ms;
    int64_t next;    /* next position of the walk back; RP_TIMER_NO_POSITION: the walk is over */
    int64_t length, recalls;
    int64_t *marks;  /* positions of the records 0, every, 2 * every … counted from the newest */
    uint32_t mark_count, mark_room;
    uint32_t every;  /* a power of two */
    uint32_t stretches_left; /* still to be read; the oldest is the last */
    rp_timer_chain_record *stretch; /* being returned to the caller, newest first */
    uint32_t stretch_left, stretch_room;
};

int rp_timer_chain_open(rp_timer_log *log, const rp_timer_slot *slot, int32_t precision_ms, rp_timer_chain **opened, rp_error *error) {
    rp_timer_chain *chain = calloc(1, sizeof *chain);
    *opened = chain;
    if (chain == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, slot->last_position, "no memory for a slot of the timing wheel");
    }
    chain->log = log;
    chain->time_ms = slot->time_ms;
    chain->precision_ms = precision_ms;
    chain->next = slot->last_position;
    chain->every = STRETCH_MIN;
    return RP_OK;
}

void rp_timer_chain_close(rp_timer_chain *chain) {
    if (chain != NULL) {
        free(chain->marks);
        free(chain->stretch);
        free(chain);
    }
}

int64_t rp_timer_chain_recalls(const rp_timer_chain *chain) { return chain->recalls; }
int64_t rp_timer_chain_length(const rp_timer_chain *chain) { return chain->length; }

static int is_recall(const rp_timer_record *record) { return (record->magic & (RP_TIMER_DELETE | RP_TIMER_ROLL)) == RP_TIMER_DELETE; }

static int no_memory(const rp_timer_chain *chain, rp_error *error) {
    return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, chain->next, "no memory for a slot of the timing wheel");
}

/* RP_OK; RP_E_NOT_FOUND: the chain ends before it. */
static int read_link(rp_timer_chain *chain, int64_t position, rp_timer_record *record, rp_error *error) {
    if (position < rp_timer_log_begin(chain->log)) { /* also if there is no previous record */
        return RP_E_NOT_FOUND;
    }
    int rc = rp_timer_log_read(chain->log, position, record, error);
    if (rc == RP_E_NOT_FOUND) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, position, "a slot of the timing wheel points behind the timer log");
    }
    int64_t due_ms = rc == RP_OK ? rp_timer_record_due_ms(record) : 0;
    if (rc == RP_OK && due_ms - due_ms % chain->precision_ms != chain->time_ms) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, position, "a slot of the timing wheel points at a record of another time");
    }
    return rc;
}

/* Makes room for a mark: grows the array, or drops every second mark. */
static int reserve_mark(rp_timer_chain *chain) {
    if (chain->mark_count < chain->mark_room) {
        return RP_OK;
    }
    if (chain->mark_room == RP_TIMER_CHAIN_MARKS) {
        for (uint32_t i = 0; i < RP_TIMER_CHAIN_MARKS / 2; i++) {
            chain->marks[i] = chain->marks[2 * i];
        }
        chain->mark_count = RP_TIMER_CHAIN_MARKS / 2;
        chain->every *= 2;
        return RP_OK;
    }
    uint32_t room = chain->mark_room == 0 ? MARKS_MIN : chain->mark_room * 2;
    int64_t *larger = realloc(chain->marks, room * sizeof *larger);
    if (larger == NULL) {
        return RP_E_NO_MEMORY;
    }
    chain->marks = larger;
    chain->mark_room = room;
    return RP_OK;
}

static int walk_back(rp_timer_chain *chain, rp_error *error) {
    for (uint32_t steps = 0; steps < RP_TIMER_CHAIN_STEP && chain->next != RP_TIMER_NO_POSITION; steps++) {
        rp_timer_record record;
        int rc = read_link(chain, chain->next, &record, error);
        if (rc == RP_E_NOT_FOUND) {
            chain->next = RP_TIMER_NO_POSITION;
            break;
        }
        if (rc != RP_OK) {
            return rc;
        }
        if (chain->length % chain->every == 0 && reserve_mark(chain) != RP_OK) {
            return no_memory(chain, error);
        }
        if (chain->length % chain->every == 0) { /* checked again: there may be fewer marks now */
            chain->marks[chain->mark_count++] = chain->next;
        }
        chain->length++;
        chain->recalls += is_recall(&record);
        chain->next = record.previous;
    }
    if (chain->next == RP_TIMER_NO_POSITION) {
        rp_timer_chain_rewind(chain);
    }
    return RP_OK;
}

void rp_timer_chain_rewind(rp_timer_chain *chain) {
    chain->stretches_left = chain->mark_count;
    chain->stretch_left = 0;
}

/* Reads the stretch from the last remaining mark back to the one before. */
static int fill_stretch(rp_timer_chain *chain, rp_error *error) {
    if (chain->stretch_room < chain->every) {
        rp_timer_chain_record *larger = realloc(chain->stretch, chain->every * sizeof *larger);
        if (larger == NULL) {
            return no_memory(chain, error);
        }
        chain->stretch = larger;
        chain->stretch_room = chain->every;
    }
    int64_t position = chain->marks[chain->stretches_left - 1];
    uint32_t count = 0;
    for (; count < chain->every && position != RP_TIMER_NO_POSITION; count++) {
        rp_timer_chain_record *at = &chain->stretch[count];
        int rc = read_link(chain, position, &at->record, error);
        if (rc == RP_E_NOT_FOUND) {
            break;
        }
        if (rc != RP_OK) {
            return rc;
        }
        at->position = position;
        position = at->record.previous;
    }
    chain->stretches_left--;
    chain->stretch_left = count;
    return RP_OK;
}

int rp_timer_chain_is_at_end(const rp_timer_chain *chain) {
    return chain->next == RP_TIMER_NO_POSITION && chain->stretches_left == 0 && chain->stretch_left == 0;
}

int64_t rp_timer_chain_read(rp_timer_chain *chain, int kind, rp_timer_chain_record *records, uint32_t records_max, rp_error *error) {
    if (chain->next != RP_TIMER_NO_POSITION) {
        return walk_back(chain, error);
    }
    if (kind == RP_TIMER_CHAIN_RECALLS && chain->recalls == 0) {
        chain->stretches_left = chain->stretch_left = 0;
    }
    if (chain->stretch_left == 0 && chain->stretches_left > 0) {
        int rc = fill_stretch(chain, error);
        if (rc != RP_OK) {
            return rc;
        }
    }
    uint32_t given = 0;
    while (chain->stretch_left > 0 && given < records_max) {
        const rp_timer_chain_record *at = &chain->stretch[--chain->stretch_left];
        if (is_recall(&at->record) == (kind == RP_TIMER_CHAIN_RECALLS)) {
            records[given++] = *at;
        }
    }
    return given;
}
