/* light_targets.h: the light queues (light_queue.h) that a message being appended goes to, besides its own queue.
 * RocketMQ: LmqDispatch.wrapLmqDispatch, updateLmqOffsets (5.5.0 store/).
 *
 *   INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b ─ queues found or made ─► under the append lock: INNER_MULTI_QUEUE_OFFSET=17,4 ─ record ─ entries
 *
 * Threads  the functions up to open: any. The rest: the commit log's, under the append lock.
 * Owns     nothing. Lies in its caller's memory until the append of its one item is over.
 * Bounds   RP_LIGHT_TARGETS_MAX names a message; light_queues_max light queues a store.
 */
#ifndef RP_STORE_LIGHT_TARGETS_H
#define RP_STORE_LIGHT_TARGETS_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"
#include "commit_log.h"
#include "message_store.h"

#define RP_LIGHT_TARGETS_MAX 256

/* One name of the list. A name that is repeated has the same offset again, and one entry. */
typedef struct rp_light_target {
    rp_consume_queue *queue;
    uint32_t first; /* index of its first occurrence */
} rp_light_target;

struct rp_light_targets {
    uint8_t *text;      /* text of the item's last property part: what stands before the offsets, and room for the offsets */
    uint32_t head_size; /* size of what stands before the offsets */
    uint32_t count;
    rp_light_target targets[];
};

/* Do messages to this topic go to light queues, if they name some? Unfinished transactions do not: they could be read there, as in
 * RocketMQ. */
int rp_light_queues_are_on(const rp_message_store *store, rp_slice topic);
/* Returns the list of light queues that a message to this topic names in its properties; size 0: it goes to none. */
rp_slice rp_light_names_of(const rp_message_store *store, rp_slice topic, rp_slice properties);
/* 1 if the list may be opened: each name is a light queue's, and there are at most RP_LIGHT_TARGETS_MAX. */
int rp_light_names_are_valid(rp_slice names);
/* Upper bound of what the offsets add to the properties of a message with that list. */
size_t rp_light_offsets_size_max(rp_slice names);
/* Returns how many bytes, aligned as by malloc, the targets of such a list take for an item with that last part. 0: it has too many
 * names. */
size_t rp_light_targets_size(rp_slice names, rp_slice last_part);
/* Opens the queues, in `room`, and sets item->light. The item's queue and properties must be set; the last property part is copied.
 * RP_OK; RP_E_INVALID: a name is not a light queue's, or is the item's own; RP_E_BUSY: there are light_queues_max already;
 * RP_E_NO_MEMORY, RP_E_DISK_FULL, RP_E_IO. */
int rp_light_targets_open(rp_message_store *store, rp_slice names, void *room, rp_append_item *item);

/* Writes the offsets that the message will have into its properties. */
void rp_light_targets_number(rp_append_item *item, int holds_back);
/* 1 if staged records must be written first, because an entry for one of the targets would not find its place while others are pending. */
int rp_light_targets_need_write(const rp_light_targets *targets);
/* As rp_consume_queue_reserve, for all targets. */
int rp_light_targets_reserve(const rp_light_targets *targets, rp_error *error);
void rp_light_targets_put(const rp_light_targets *targets, const rp_queue_entry *entry);
/* As rp_consume_queue_write, for all targets or none. */
int rp_light_targets_write(const rp_light_targets *targets, const rp_queue_entry *entry, rp_error *error);
void rp_light_targets_show(const rp_light_targets *targets, const rp_queue_entry *entry);
/* Gives the message its place in each target; the entries come later. */
void rp_light_targets_place(const rp_light_targets *targets);
/* Adds `change` to the number of staged entries of each target. */
void rp_light_targets_stage(const rp_light_targets *targets, int64_t change);

#endif
