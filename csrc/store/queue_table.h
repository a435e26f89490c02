/* queue_table.h: every consume queue of the store, by topic and queue id.
 * RocketMQ: ConsumeQueueStore.consumeQueueTable (5.3.3 store/queue/).
 *
 * Threads  find from any thread under a short lock (the broker keeps the pointers, so it is off the message path); visits run without
 *          the lock over the queues that existed when they began. Queues are never removed before the table is destroyed.
 * Kinds    a topic's queues are plain ones, or batch queues (batch_queue.h): by what the broker says, else by what is on disk, else by the
 *          record that is entered. One that has nothing in it becomes the other kind when it is asked for again.
 * Bounds   queues_max queues of topics that are there, or as many as the disk has at the start. Those of deleted topics stay besides,
 *          half a KB each, one of either kind; made again, they count with the next deletion.
 */
#ifndef RP_STORE_QUEUE_TABLE_H
#define RP_STORE_QUEUE_TABLE_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"
#include "consume_queue.h"
#include "consume_queue_writer.h"

typedef struct rp_queue_table rp_queue_table;

#define RP_TOPIC_SIZE_MAX 255 /* a topic is a directory name */

/* batch_setup: of the batch queues. */
int rp_queue_table_create(const rp_consume_queue_setup *setup, const rp_consume_queue_setup *batch_setup, uint32_t queues_max,
                          rp_queue_table **table, rp_error *error);
void rp_queue_table_destroy(rp_queue_table *table);

/* Queues of that topic that are made from now on are batch queues, or are not. RP_OK, RP_E_NO_MEMORY. */
int rp_queue_table_set_batch_topic(rp_queue_table *table, rp_slice topic, int is_batch);
int rp_queue_table_is_batch_topic(rp_queue_table *table, rp_slice topic);

/* Loads every directory TOPIC/ID below the queues' directories. Of a topic that has both kinds the one that it should not have is left as
 * it is, with a warning: RocketMQ does not start on such a store. A queue whose files cannot be loaded is reported in error and stays
 * empty; then RP_E_CORRUPT is returned after all others are loaded: the queues have to be rebuilt. RP_E_IO (a directory that cannot be
 * read, so that which queues there are is not known; a file that cannot be opened, which says nothing of what is in it), RP_E_NO_MEMORY:
 * at once. */
int rp_queue_table_load(rp_queue_table *table, rp_error *error);

/* 1: a topic can have that name, which becomes a directory's. */
int rp_queue_table_takes(rp_slice topic);

/* The queue; made when it is absent and create is 1. NULL: absent, RP_E_INVALID (no topic name a directory can have, negative id),
 * RP_E_BUSY (queues_max), RP_E_NO_MEMORY. */
rp_consume_queue *rp_queue_table_find(rp_queue_table *table, rp_slice topic, int32_t queue_id, int create, rp_error *error);
/* The same with create 1, for who knows its kind better. One of the other kind that has something in it is returned as it is. */
rp_consume_queue *rp_queue_table_find_kind(rp_queue_table *table, rp_slice topic, int32_t queue_id, int is_batch, rp_error *error);
/* The same, but then the one of that kind, which waits for its place: for what is to be known of it by the time that its messages come. */
rp_consume_queue *rp_queue_table_of_kind(rp_queue_table *table, rp_slice topic, int32_t queue_id, int is_batch, rp_error *error);
/* Under the append lock: it has got its first entry. While that was made, whoever asked for the topic's queues as the other kind may have
 * had its empty place. */
void rp_queue_table_keep(rp_queue_table *table, rp_consume_queue *queue);

/* The light queue of that name, for whoever has a message for it; made when it is absent. NULL as of rp_queue_table_find, and RP_E_BUSY
 * when it is the first, and queues_max other light queues have had one. Those that were only asked for are not counted. */
rp_consume_queue *rp_queue_table_find_light(rp_queue_table *table, rp_slice topic, uint32_t queues_max, rp_error *error);

/* Calls visit for each queue; stops when it returns non-zero. */
void rp_queue_table_each(rp_queue_table *table, int (*visit)(void *context, rp_consume_queue *queue), void *context);
uint32_t rp_queue_table_count(rp_queue_table *table);
/* Topics were deleted: their queues make room for as many others. One caller at a time. */
void rp_queue_table_make_room(rp_queue_table *table);

#endif
