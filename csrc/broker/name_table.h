/* name_table.h: a hash table from bytes to entries that are created once and live until the table is destroyed.
 *
 * Used for the broker's topics, groups and (group, topic) pairs: few writers, while every request reads. Entries never move and are
 * never removed; what a deleted name means is the entry's own business (a `live` field), and putting the name again returns the same
 * entry.
 *
 *   slots  open addressing, linear probing, at most half full; a larger array replaces a full one, and the old one is kept until destroy
 *          because a reader may still be in it (all old arrays together are smaller than the current one).
 *
 * Threads  find and each: any thread, no lock. put: any thread, one mutex (leaf, see docs/locks.md).
 * Bounds   RP_NAME_ENTRIES_MAX entries, then put returns NULL.
 */
#ifndef RP_BROKER_NAME_TABLE_H
#define RP_BROKER_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "../base/slice.h"

#define RP_NAME_ENTRIES_MAX 4194304

typedef struct rp_name_table rp_name_table;

/* The head of every entry; fixed once the entry is in the table. */
typedef struct rp_name_entry {
    uint64_t hash;
    rp_slice name; /* points behind the entry */
} rp_name_entry;

/* entry_size: size of the caller's struct, which begins with an rp_name_entry. init (may be NULL) runs on the zeroed entry before any
 * other thread can see it. NULL: no memory. */
rp_name_table *rp_name_table_create(size_t entry_size, void (*init)(void *context, rp_name_entry *entry), void *context);
/* Calls fini (may be NULL) for each entry, then frees everything. */
void rp_name_table_destroy(rp_name_table *table, void (*fini)(rp_name_entry *entry));

rp_name_entry *rp_name_table_find(const rp_name_table *table, rp_slice name); /* NULL: not found */
rp_name_entry *rp_name_table_put(rp_name_table *table, rp_slice name);        /* found or created; NULL: no memory, or the bound */
void rp_name_table_each(const rp_name_table *table, int (*visit)(void *context, rp_name_entry *entry), void *context);

#endif
