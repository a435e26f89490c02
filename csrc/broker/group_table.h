/* group_table.h: consumer groups, and what each of them does with each topic. Private to csrc/broker.
 * RocketMQ: SubscriptionGroupManager, ConsumerManager, ConsumerOffsetManager (5.3.3 broker/): their "topic@group" is a consumption here.
 *
 * Threads  one thread (Python's) writes groups and subscriptions; any thread creates consumptions; reads take no lock.
 */
#ifndef RP_BROKER_GROUP_TABLE_H
#define RP_BROKER_GROUP_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "cold_flow.h"
#include "name_table.h"
#include "offset_table.h"
#include "message_filter.h"
#include "topic_table.h"

/* Fields after the head are atomic and relaxed, as in rp_topic. */
typedef struct rp_group {
    rp_name_entry head;
    _Atomic int32_t live;
    _Atomic int32_t consume_enable, broadcast_enable, sys_flag;
    _Atomic int32_t fair_percent; /* percentage of its pops of priority topics that do not go by priority */
    _Atomic int32_t retry_queues; /* 0: Python handles the group's retries */
    _Atomic int32_t retry_times_max;
    _Atomic int32_t is_unlocked; /* 1: no client holds a lock on a queue of it; 0: one may */
    _Atomic int64_t broker_id, broker_when_slow;
    _Atomic int32_t subscriptions; /* consumptions with a heartbeat subscription; 0: there is no consumer */
    _Atomic(rp_topic *) lite_topic; /* topic whose lite topics it reads; NULL: none. Released after the next */
    _Atomic int32_t lite_wildcard;  /* 1: it reads all of them */
    _Atomic int64_t cold_limit;    /* an operator's limit in bytes, plus 1; 0: none was set */
    rp_cold_use cold_use;
} rp_group;

/* What consumers subscribed to by heartbeat, under a sequence lock: odd while the writer is inside; readers copy and retry. An array no
 * longer needed is reused for another subscription; a reader still in it then sees that the sequence has changed. */
typedef struct rp_subscription {
    _Atomic uint32_t sequence;
    _Atomic int32_t present, native, broadcast;
    _Atomic int64_t version;
    _Atomic int32_t kind; /* rp_filter_kind */
    _Atomic uint32_t word_count;
    _Atomic(struct rp_word_array *) words;
} rp_subscription;

typedef struct rp_consumption {
    rp_name_entry head;
    rp_group *group; /* fixed */
    rp_topic *topic; /* fixed */
    rp_subscription subscription;
    rp_offset_cells offsets;
    _Atomic uint64_t messages_out, bytes_out, sent_back; /* relaxed counters */
} rp_consumption;

typedef struct rp_group_table rp_group_table;

#define RP_SUBSCRIPTION_WORDS_MAX (UINT64_C(64) << 20) /* in all filters, released ones included: 256 MB */

rp_group_table *rp_group_table_create(void);
void rp_group_table_destroy(rp_group_table *table);

rp_group *rp_group_table_find(const rp_group_table *table, rp_slice name); /* live groups only */
rp_group *rp_group_table_known(const rp_group_table *table, rp_slice name); /* live or not; NULL if there never was one */
rp_group *rp_group_table_entry(rp_group_table *table, rp_slice name);      /* created if missing; NULL: memory, bound, bad name */
int rp_group_is_live(const rp_group *group);

/* Returns what a group does with a topic; `entry` creates it if it is missing (NULL: no memory, or the bound is reached). */
rp_consumption *rp_group_table_consumption(const rp_group_table *table, const rp_group *group, const rp_topic *topic);
rp_consumption *rp_group_table_consumption_entry(rp_group_table *table, rp_group *group, rp_topic *topic);
void rp_group_table_each_consumption(const rp_group_table *table, int (*visit)(void *context, rp_name_entry *entry), void *context);

/* Subscribes and unsubscribes, from one thread. The filter is copied. RP_OK; RP_E_NO_MEMORY, also at the bound of all words. */
int rp_consumption_subscribe(rp_group_table *table, rp_consumption *consumption, const rp_message_filter *filter, int64_t version,
                             int32_t broadcast, int32_t native);
void rp_consumption_unsubscribe(rp_group_table *table, rp_consumption *consumption);

typedef struct rp_subscription_view {
    int32_t present, native, broadcast;
    int64_t version;
    uint32_t sequence;        /* changes when the subscription is written again */
    rp_message_filter filter; /* its words belong to the reader, until it reads the next subscription */
} rp_subscription_view;

/* What one thread read last, so that it does not copy the same subscription again. */
typedef struct rp_subscription_reader {
    const rp_consumption *of; /* NULL: nothing was read */
    rp_subscription_view view;
    int32_t *words;
    uint32_t words_max;
} rp_subscription_reader;
void rp_subscription_reader_free(rp_subscription_reader *reader);
/* Reads the subscription. RP_OK or RP_E_NO_MEMORY. */
int rp_consumption_read_subscription(const rp_consumption *consumption, rp_subscription_reader *reader, rp_subscription_view *view);

#endif
