/* key_offsets.c: see key_offsets.h. Open addressing; the digest is the hash. */
#include "key_offsets.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/sha1.h"

#define DIGEST_SIZE 16
#define ROWS_MIN 128u

typedef struct key_row {
    uint8_t digest[DIGEST_SIZE];
    int64_t offset_plus_1; /* 0: the row is free */
} key_row;

struct rp_key_offsets {
    uint64_t mask, count, count_max;
    key_row rows[];
};

rp_key_offsets *rp_key_offsets_create(size_t memory_bytes, uint64_t keys) {
    uint64_t rows = ROWS_MIN;
    while (rows / 4 * 3 < keys && rows * 2 * sizeof(key_row) <= memory_bytes)
        rows *= 2;
    rp_key_offsets *map = calloc(1, sizeof *map + rows * sizeof(key_row));
    if (map != NULL) {
        map->mask = rows - 1;
        map->count_max = rows / 4 * 3;
    }
    return map;
}

void rp_key_offsets_destroy(rp_key_offsets *map) { free(map); }

/* Returns the key's row, or the free row where it belongs. */
static uint64_t row_of(const rp_key_offsets *map, const uint8_t *digest) {
    uint64_t at;
    memcpy(&at, digest, sizeof at);
    for (at &= map->mask; map->rows[at].offset_plus_1 != 0; at = (at + 1) & map->mask) {
        if (memcmp(map->rows[at].digest, digest, DIGEST_SIZE) == 0)
            break;
    }
    return at;
}

static void digest_of(rp_slice key, uint8_t *digest) {
    rp_sha1 sha1;
    rp_sha1_begin(&sha1);
    rp_sha1_add(&sha1, key.data, key.size);
    rp_sha1_end(&sha1, digest);
}

int rp_key_offsets_put(rp_key_offsets *map, rp_slice key, int64_t offset) {
    uint8_t digest[RP_SHA1_SIZE];
    digest_of(key, digest);
    key_row *row = &map->rows[row_of(map, digest)];
    if (row->offset_plus_1 == 0) {
        if (map->count >= map->count_max)
            return RP_E_BUSY;
        map->count++;
        memcpy(row->digest, digest, DIGEST_SIZE);
    }
    row->offset_plus_1 = offset + 1;
    return RP_OK;
}

int64_t rp_key_offsets_get(const rp_key_offsets *map, rp_slice key) {
    uint8_t digest[RP_SHA1_SIZE];
    digest_of(key, digest);
    return map->rows[row_of(map, digest)].offset_plus_1 - 1;
}
