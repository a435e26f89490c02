/* queue_table.h: every consume queue of the store, by topic and queue id.
 * RocketMQ: ConsumeQueueStore.consumeQueueTable (5.3.3 store/queue/).
 *
 * Threads  find from any thread under a short lock (the broker keeps the pointers, so it is off the message path); visits run without
 *          the lock over the queues that existed when they began. Queues are never removed before the table is destroyed.
 * Kinds    a topic's queues are plain queues or batch queues (batch_queue.h): as the broker declares, else as they are on disk, else as
 *          the first record says. An empty queue becomes the other kind when it is requested as such.
 * Bounds   queues_max queues of existing topics, or as many as are on disk at the start. Queues of deleted topics stay in addition, half
 *          a KB each, one of either kind; if their topic is created again, they count from the next deletion on.
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

/* batch_setup: for batch queues. */
int rp_queue_table_create(const rp_consume_queue_setup *setup, const rp_consume_queue_setup *batch_setup, uint32_t queues_max,
                          rp_queue_table **table, rp_error *error);
void rp_queue_table_destroy(rp_queue_table *table);

/* Says whether queues of that topic that are created from now on are batch queues. RP_OK, RP_E_NO_MEMORY. */
int rp_queue_table_set_batch_topic(rp_queue_table *table, rp_slice topic, int is_batch);
int rp_queue_table_is_batch_topic(rp_queue_table *table, rp_slice topic);

/* Loads every directory TOPIC/ID below the queues' directories. If a topic has both kinds, the wrong one is left as it is, with a
 * warning: RocketMQ does not start on such a store. A queue whose files cannot be loaded is reported in error and stays empty; once all
 * others are loaded, RP_E_CORRUPT is returned: the queues have to be rebuilt. RP_E_NO_MEMORY and RP_E_IO are returned at once; RP_E_IO:
 * a directory cannot be read, so it is not known which queues exist, or a file cannot be opened, so its contents are not known. */
int rp_queue_table_load(rp_queue_table *table, rp_error *error);

/* 1 if a topic can have that name, which becomes a directory's. */
int rp_queue_table_takes(rp_slice topic);

/* Returns the queue; with create 1 it is created if it does not exist. NULL: it does not exist; RP_E_INVALID (the topic cannot be a
 * directory's name, or a negative id), RP_E_BUSY (queues_max), RP_E_NO_MEMORY. */
rp_consume_queue *rp_queue_table_find(rp_queue_table *table, rp_slice topic, int32_t queue_id, int create, rp_error *error);
/* As rp_queue_table_find with create 1, for a caller that knows the queue's kind. A queue of the other kind that is not empty is
 * returned as it is. */
rp_consume_queue *rp_queue_table_find_kind(rp_queue_table *table, rp_slice topic, int32_t queue_id, int is_batch, rp_error *error);
/* As rp_queue_table_find_kind, but always returns the queue of that kind; while the other one has the place, it waits beside it, and
 * holds what must be known before its messages arrive. */
rp_consume_queue *rp_queue_table_of_kind(rp_queue_table *table, rp_slice topic, int32_t queue_id, int is_batch, rp_error *error);
/* Under the append lock, when the queue has got its first entry: gives it its place, which a caller asking for the other kind may have
 * taken while it was empty. */
void rp_queue_table_keep(rp_queue_table *table, rp_consume_queue *queue);

/* Returns the light queue of that name for a message; creates it if it does not exist. NULL as rp_queue_table_find, and RP_E_BUSY if
 * this is its first message and queues_max other light queues have had one. Queues that were only looked up are not counted. */
rp_consume_queue *rp_queue_table_find_light(rp_queue_table *table, rp_slice topic, uint32_t queues_max, rp_error *error);

/* Calls visit for each queue; stops when visit returns non-zero. */
void rp_queue_table_each(rp_queue_table *table, int (*visit)(void *context, rp_consume_queue *queue), void *context);
uint32_t rp_queue_table_count(rp_queue_table *table);
/* After topics were deleted: lets that many new queues be created. One caller at a time. */
void rp_queue_table_make_room(rp_queue_table *table);

#endif
