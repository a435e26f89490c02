/* topic_table.h: the topics of this broker, in the form that the hot path needs. Private to csrc/broker.
 * RocketMQ: TopicConfigManager, TopicConfig (5.3.3 broker/topic/, common/).
 *
 * An entry is created once and never moves. A deleted topic is an entry that is not live; putting it again makes the same entry live
 * with a new generation. Queue pointers are looked up in the store once and kept in the entry's slots.
 *
 * Threads  put and delete from one thread (Python's); everything else from any thread without locks.
 */
#ifndef RP_BROKER_TOPIC_TABLE_H
#define RP_BROKER_TOPIC_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "../store/message_store.h"
#include "growing_inl.h"
#include "durations.h"
#include "intake.h"
#include "name_table.h"
#include "queue_mapping.h"

#define RP_TOPIC_NAME_MAX 255
#define RP_PERMISSION_READ 4
#define RP_PERMISSION_WRITE 2

typedef struct rp_topic rp_topic;
typedef struct rp_queue_waiters rp_queue_waiters; /* long_polling.h */

/* One queue of one topic. The store's queue points back here (rp_consume_queue_user). */
typedef struct rp_queue_slot {
    rp_topic *topic;                      /* fixed */
    int32_t queue_id;                     /* fixed */
    _Atomic(rp_consume_queue *) queue;    /* NULL until requested, and again when the topic is deleted */
    _Atomic(rp_queue_waiters *) waiters;  /* created once, by the first pull that waits here */
} rp_queue_slot;

/* All fields but the head are atomic and relaxed, each independent: a request that sees half of a change is like one that arrived during
 * it. `live` is stored last (release) when a topic appears and first when it is deleted. */
struct rp_topic {
    rp_name_entry head;
    _Atomic int32_t live;
    _Atomic uint32_t generation; /* grows with each delete: a slot that was filled before is emptied */
    _Atomic int32_t read_queues, write_queues, permission, sys_flag;
    _Atomic uint32_t flags; /* RP_TOPIC_ */
    rp_intake in[RP_MESSAGE_TYPES];
    _Atomic uint64_t messages_out, bytes_out;
    _Atomic uint64_t commits, rollbacks; /* decisions of transactions: rp_transaction_ends */
    rp_durations commit_times, delays;
    _Atomic uint64_t timers_out; /* timed messages that were delivered */
    /* Timed messages that wait for the topic; changed_ms 0: there never were any (timer_metrics.h). */
    _Atomic int64_t timers, timers_changed_ms;
    _Atomic(rp_queue_slot *) chunks[RP_GROWING_CHUNKS];
    _Atomic(rp_queue_mapping *) mapping; /* for RP_TOPIC_STATIC; created once, kept when the topic is no longer static */
};

typedef struct rp_topic_table rp_topic_table;

rp_topic_table *rp_topic_table_create(rp_message_store *store);
void rp_topic_table_destroy(rp_topic_table *table, void (*free_waiters)(rp_queue_waiters *waiters));

/* Returns the entry of a live topic, NULL otherwise. */
rp_topic *rp_topic_table_find(const rp_topic_table *table, rp_slice name);
/* Returns the entry, live or not; NULL if there never was one. */
rp_topic *rp_topic_table_known(const rp_topic_table *table, rp_slice name);
/* Returns the entry, live or not, created if it is missing. NULL: no memory, the bound is reached, or the name is empty or too long. */
rp_topic *rp_topic_table_entry(rp_topic_table *table, rp_slice name);
void rp_topic_table_each(const rp_topic_table *table, int (*visit)(void *context, rp_name_entry *entry), void *context);

int rp_topic_put(rp_topic *topic, int32_t read_queues, int32_t write_queues, int32_t permission, int32_t sys_flag, uint32_t flags);
void rp_topic_delete(rp_topic *topic);
int rp_topic_is_live(const rp_topic *topic);
/* Maps a global queue of a static topic to a local one; as rp_queue_mapping_put. RP_OK, RP_E_INVALID, RP_E_NO_MEMORY. */
int rp_topic_map_queue(rp_topic *topic, int32_t global_id, const rp_mapped_queue *queue);
/* As rp_queue_mapping_find. */
int rp_topic_mapped_queue(const rp_topic *topic, int32_t global_id, rp_mapped_queue *queue);
/* Calls visit for every slot that was ever used. */
void rp_topic_each_slot(rp_topic *topic, void (*visit)(void *context, rp_queue_slot *slot), void *context);

/* Returns the slot of a queue, with the queue opened in the store. NULL: no memory or disk space, or the topic is being deleted. */
rp_queue_slot *rp_topic_open_queue(rp_topic_table *table, rp_topic *topic, int32_t queue_id, rp_consume_queue **queue);
/* As rp_topic_open_queue, for a sender: a queue without messages gets its first file. NULL also if that fails for lack of disk space. */
rp_queue_slot *rp_topic_open_queue_to_send(rp_topic_table *table, rp_topic *topic, int32_t queue_id, rp_consume_queue **queue);

#endif
