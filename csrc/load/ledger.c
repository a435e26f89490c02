/* ledger.c: see ledger.h. A word is 0, or two side bits above the message's key (producer and sequence).
 *
 *     63 acknowledged   62 delivered   61 a key is here   60..47 producer   46..0 sequence
 *
 * Words are atomic because sender and reader of a queue may be different workers. Relaxed order is enough: a word guards no other data.
 */
#include "ledger.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "load.h"

#define CHUNK_WORDS 65536u
#define CHUNKS (RP_LOAD_LEDGER_MAX / CHUNK_WORDS)
#define ACKNOWLEDGED (UINT64_C(1) << 63)
#define DELIVERED (UINT64_C(1) << 62)
#define PRESENT (UINT64_C(1) << 61)
#define KEY_MASK (ACKNOWLEDGED - 1 - DELIVERED)
#define SEQUENCE_BITS 47
#define ENTRY_SIZE 24 /* in a file: queue, offset and key */

static const char file_magic[8] = {'R', 'P', 'L', 'E', 'D', 'G', 'E', 'R'};

typedef _Atomic uint64_t word;

typedef struct ledger_queue {
    int64_t base;                    /* fixed before the first entry */
    _Atomic(word *) chunks[CHUNKS];  /* stored with release, read with acquire: the words behind it are zeroed */
} ledger_queue;

struct rp_ledger {
    uint64_t run_id;
    uint32_t queue_count;
    ledger_queue queues[];
};

rp_ledger *rp_ledger_open(uint32_t queue_count, uint64_t run_id) {
    rp_ledger *ledger = calloc(1, sizeof *ledger + (size_t)queue_count * sizeof(ledger_queue));
    if (ledger == NULL)
        return NULL;
    ledger->run_id = run_id;
    ledger->queue_count = queue_count;
    return ledger;
}

void rp_ledger_close(rp_ledger *ledger) {
    if (ledger == NULL)
        return;
    for (uint32_t queue = 0; queue < ledger->queue_count; queue++) {
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            free(atomic_load_explicit(&ledger->queues[queue].chunks[chunk], memory_order_relaxed));
    }
    free(ledger);
}

uint64_t rp_ledger_run_id(const rp_ledger *ledger) { return ledger->run_id; }
uint32_t rp_ledger_queue_count(const rp_ledger *ledger) { return ledger->queue_count; }
void rp_ledger_set_base(rp_ledger *ledger, uint32_t queue, int64_t offset) { ledger->queues[queue].base = offset; }

/* Returns the chunk, creating it if it is missing. Two threads may race to create it; the loser frees its own. */
static word *chunk_of(ledger_queue *queue, uint64_t index) {
    _Atomic(word *) *slot = &queue->chunks[index / CHUNK_WORDS];
    word *chunk = atomic_load_explicit(slot, memory_order_acquire);
    if (chunk != NULL)
        return chunk;
    word *fresh = calloc(CHUNK_WORDS, sizeof *fresh);
    if (fresh == NULL)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(slot, &chunk, fresh, memory_order_acq_rel, memory_order_acquire))
        return fresh;
    free(fresh);
    return chunk;
}

static int enter(rp_ledger *ledger, uint32_t queue, int64_t offset, uint32_t producer, uint64_t sequence, uint64_t side) {
    if (queue >= ledger->queue_count || producer >= RP_LEDGER_PRODUCERS_MAX || sequence >= RP_LEDGER_SEQUENCE_MAX)
        return RP_LEDGER_OUTSIDE;
    ledger_queue *target = &ledger->queues[queue];
    if (offset < target->base || (uint64_t)offset - (uint64_t)target->base >= RP_LOAD_LEDGER_MAX)
        return RP_LEDGER_OUTSIDE;
    uint64_t index = (uint64_t)(offset - target->base);
    word *chunk = chunk_of(target, index);
    if (chunk == NULL)
        return RP_LEDGER_OUTSIDE;
    uint64_t key = PRESENT | (uint64_t)producer << SEQUENCE_BITS | sequence;
    word *place = &chunk[index % CHUNK_WORDS];
    uint64_t seen = 0;
    for (;;) {
        if (seen & side)
            return RP_LEDGER_TAKEN;
        if (seen != 0 && (seen & KEY_MASK) != key)
            return RP_LEDGER_DIFFERENT;
        if (atomic_compare_exchange_weak_explicit(place, &seen, seen | side | key, memory_order_relaxed, memory_order_relaxed)) {
            return seen == 0 ? RP_LEDGER_FIRST : RP_LEDGER_MATCHED;
        }
    }
}

int rp_ledger_acknowledge(rp_ledger *ledger, uint32_t queue, int64_t offset, uint32_t producer, uint64_t sequence) {
    return enter(ledger, queue, offset, producer, sequence, ACKNOWLEDGED);
}

int rp_ledger_deliver(rp_ledger *ledger, uint32_t queue, int64_t offset, uint32_t producer, uint64_t sequence) {
    return enter(ledger, queue, offset, producer, sequence, DELIVERED);
}

/* Calls visit for each word that is not 0. If visit returns 0, stops and returns 0. */
static int each_word(const ledger_queue *queue, int (*visit)(void *context, int64_t offset, uint64_t value), void *context) {
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        word *words = atomic_load_explicit(&queue->chunks[chunk], memory_order_acquire);
        for (uint32_t i = 0; words != NULL && i < CHUNK_WORDS; i++) {
            uint64_t value = atomic_load_explicit(&words[i], memory_order_relaxed);
            if (value != 0 && !visit(context, queue->base + (int64_t)chunk * CHUNK_WORDS + i, value))
                return 0;
        }
    }
    return 1;
}

static int count_one_sided(void *context, int64_t offset, uint64_t value) {
    rp_ledger_missing *missing = context;
    if (value & ACKNOWLEDGED && value & DELIVERED)
        return 1;
    if (value & DELIVERED) {
        missing->delivered_only++;
        return 1;
    }
    if (missing->acknowledged_only++ == 0) {
        missing->first_offset = offset;
        missing->first_producer = (uint32_t)((value & (PRESENT - 1)) >> SEQUENCE_BITS);
        missing->first_sequence = value & (RP_LEDGER_SEQUENCE_MAX - 1);
    }
    return 1;
}

void rp_ledger_missing_of(const rp_ledger *ledger, uint32_t queue, rp_ledger_missing *missing) {
    *missing = (rp_ledger_missing){.first_offset = -1};
    each_word(&ledger->queues[queue], count_one_sided, missing);
}

/* --- file --- */

static int put_word(FILE *file, uint64_t value) {
    uint8_t bytes[8];
    rp_put_u64(bytes, value);
    return fwrite(bytes, sizeof bytes, 1, file) == 1;
}

static int get_word(FILE *file, uint64_t *value) {
    uint8_t bytes[8];
    if (fread(bytes, sizeof bytes, 1, file) != 1)
        return 0;
    *value = rp_get_u64(bytes);
    return 1;
}

typedef struct save_context {
    FILE *file;
    uint32_t queue;
} save_context;

static int save_word(void *context, int64_t offset, uint64_t value) {
    save_context *save = context;
    if (!(value & ACKNOWLEDGED))
        return 1;
    return put_word(save->file, save->queue) && put_word(save->file, (uint64_t)offset) && put_word(save->file, value & (PRESENT - 1));
}

int rp_ledger_save(const rp_ledger *ledger, const char *path, rp_error *error) {
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return rp_error_set(error, RP_E_IO, errno, path, -1, "the ledger cannot be created: %s", strerror(errno));
    int good = fwrite(file_magic, sizeof file_magic, 1, file) == 1 && put_word(file, ledger->run_id) && put_word(file, ledger->queue_count);
    for (uint32_t queue = 0; good && queue < ledger->queue_count; queue++)
        good = put_word(file, (uint64_t)ledger->queues[queue].base);
    for (uint32_t queue = 0; good && queue < ledger->queue_count; queue++) {
        save_context save = {file, queue};
        good = each_word(&ledger->queues[queue], save_word, &save);
    }
    int failed = errno;
    if (fclose(file) != 0 && good) { /* writes what was still in its buffer */
        failed = errno;
        good = 0;
    }
    return good ? RP_OK
                : rp_error_set(error, rp_status_from_errno(failed), failed, path, -1, "the ledger cannot be written: %s", strerror(failed));
}

static int corrupt(rp_error *error, FILE *file, const char *path, const char *what) {
    long at = ftell(file);
    fclose(file);
    return rp_error_set(error, RP_E_CORRUPT, 0, path, at, "not a ledger of this program: %s", what);
}

/* The readers below return what is wrong with the file, or NULL. */
static const char *read_head(FILE *file, uint64_t *run_id, uint64_t *queue_count) {
    char magic[sizeof file_magic];
    if (fread(magic, sizeof magic, 1, file) != 1 || memcmp(magic, file_magic, sizeof magic) != 0)
        return "wrong magic";
    if (!get_word(file, run_id) || !get_word(file, queue_count))
        return "the head is cut off";
    return *queue_count == 0 || *queue_count > RP_LOAD_QUEUES_MAX ? "impossible number of queues" : NULL;
}

static const char *read_bases(FILE *file, rp_ledger *ledger) {
    for (uint32_t queue = 0; queue < ledger->queue_count; queue++) {
        uint64_t base;
        if (!get_word(file, &base) || base > INT64_MAX)
            return "the queue bases are cut off or negative";
        ledger->queues[queue].base = (int64_t)base;
    }
    return NULL;
}

static const char *read_entries(FILE *file, rp_ledger *ledger) {
    uint8_t entry[ENTRY_SIZE];
    size_t got;
    while ((got = fread(entry, 1, sizeof entry, file)) == sizeof entry) {
        uint64_t queue = rp_get_u64(entry), offset = rp_get_u64(entry + 8), key = rp_get_u64(entry + 16);
        if (queue >= ledger->queue_count || offset > INT64_MAX || key >= PRESENT)
            return "an entry is out of range";
        uint32_t producer = (uint32_t)(key >> SEQUENCE_BITS);
        uint64_t sequence = key & (RP_LEDGER_SEQUENCE_MAX - 1);
        if (rp_ledger_acknowledge(ledger, (uint32_t)queue, (int64_t)offset, producer, sequence) != RP_LEDGER_FIRST)
            return "an entry is out of range or there twice";
    }
    return got != 0 ? "an entry is cut off" : NULL;
}

int rp_ledger_load(const char *path, rp_ledger **result, rp_error *error) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return rp_error_set(error, RP_E_IO, errno, path, -1, "the ledger cannot be opened: %s", strerror(errno));
    uint64_t run_id, queue_count;
    const char *wrong = read_head(file, &run_id, &queue_count);
    if (wrong != NULL)
        return corrupt(error, file, path, wrong);
    rp_ledger *ledger = rp_ledger_open((uint32_t)queue_count, run_id);
    if (ledger == NULL) {
        fclose(file);
        return rp_error_set(error, RP_E_NO_MEMORY, 0, path, -1, "no memory for the ledger");
    }
    wrong = read_bases(file, ledger);
    wrong = wrong == NULL ? read_entries(file, ledger) : wrong;
    if (wrong != NULL) {
        rp_ledger_close(ledger);
        return corrupt(error, file, path, wrong);
    }
    fclose(file);
    *result = ledger;
    return RP_OK;
}
