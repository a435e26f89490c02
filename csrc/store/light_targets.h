/* light_targets.h: the light queues (light_queue.h) that a message goes to besides its own, on its way into the log.
 * RocketMQ: LmqDispatch.wrapLmqDispatch, updateLmqOffsets (5.5.0 store/).
 *
 *   INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b ─ queues found or made ─► under the append lock: INNER_MULTI_QUEUE_OFFSET=17,4 ─ record ─ entries
 *
 * Threads  up to open: any. The rest: the commit log's, under the append lock.
 * Owns     nothing. Lies in its caller's memory until the append is over, for one item of it.
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

/* One name of the list. A name that comes again has the same offset there, and one entry. */
typedef struct rp_light_target {
    rp_consume_queue *queue;
    uint32_t first; /* index of its first occurrence */
} rp_light_target;

struct rp_light_targets {
    uint8_t *text;      /* of the item's last part: what stands before the offsets, and room for those */
    uint32_t head_size; /* of what stands before */
    uint32_t count;
    rp_light_target targets[];
};

/* Whether messages to that topic go to light queues, if they name some. Those of transactions that are not over do not: they would be read
 * there, as they are in RocketMQ. */
int rp_light_queues_are_on(const rp_message_store *store, rp_slice topic);
/* What a message to that topic says by its properties: its list of light queues; size 0: it goes to none. */
rp_slice rp_light_names_of(const rp_message_store *store, rp_slice topic, rp_slice properties);
/* 1: they may be opened. Each is a light queue's, and there are no more than RP_LIGHT_TARGETS_MAX. */
int rp_light_names_are_valid(rp_slice names);
/* How much the offsets may add to the properties of a message with that list. */
size_t rp_light_offsets_size_max(rp_slice names);
/* Bytes that the targets of such a list take, aligned as of malloc, for an item of that last part. 0: it has too many names. */
size_t rp_light_targets_size(rp_slice names, rp_slice last_part);
/* Opens the queues and has the item go there. Its queue and its properties are set by then; the last part is copied. RP_OK; RP_E_INVALID:
 * a name is not a light queue's, or is the item's own; RP_E_BUSY: there are light_queues_max; RP_E_NO_MEMORY, RP_E_DISK_FULL, RP_E_IO. */
int rp_light_targets_open(rp_message_store *store, rp_slice names, void *room, rp_append_item *item);

/* Writes the offsets that the message is going to have into its properties. */
void rp_light_targets_number(rp_append_item *item, int holds_back);
/* 1: an entry of one of them would not find its place while others wait to be written. */
int rp_light_targets_need_write(const rp_light_targets *targets);
/* As rp_consume_queue_reserve, for all of them. */
int rp_light_targets_reserve(const rp_light_targets *targets, rp_error *error);
void rp_light_targets_put(const rp_light_targets *targets, const rp_queue_entry *entry);
/* As rp_consume_queue_write, into all of them or none. */
int rp_light_targets_write(const rp_light_targets *targets, const rp_queue_entry *entry, rp_error *error);
void rp_light_targets_show(const rp_light_targets *targets, const rp_queue_entry *entry);
/* Their entries come later: where each goes on. */
void rp_light_targets_place(const rp_light_targets *targets);
/* `change` entries more are staged in each. */
void rp_light_targets_stage(const rp_light_targets *targets, int64_t change);

#endif
