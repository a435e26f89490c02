/* route_table.h: where topics can be sent to, or read from, as Python has learned it from name servers and brokers.
 * RocketMQ: TopicRouteService, MessageQueueSelector (5.3.3 proxy/service/route/).
 *
 *   rocketpy/proxy/native_calls.py ── put, forget ──► table ──► choose: one queue for one message, or none: then the message is Python's,
 *                                                               whose way fills the table
 *
 * A route has two ages. Past the first it is to be asked for anew: one message is refused, which makes Python ask, while the others still
 * go by the known route. Past the second age nothing goes by it.
 *
 * Threads  any; one lock, a leaf, held for a look-up and a copy.
 * Owns     copies of everything.
 * Bounds   topics_max topics: at the bound those past their second age are dropped, and if there are none a new one is RP_E_BUSY;
 *          RP_ROUTE_QUEUES_MAX queues and RP_ROUTE_BROKERS_MAX brokers of a topic.
 */
#ifndef RP_PROXY_ROUTE_TABLE_H
#define RP_PROXY_ROUTE_TABLE_H

#include <stdint.h>

#include "../base/address.h"
#include "../base/slice.h"

#define RP_ROUTE_NAME_MAX 255 /* of a topic, and of a broker */
#define RP_ROUTE_KEY_MAX 384  /* what a route is found by: a topic, or "TOPIC@GROUP" of a group that reads it */
#define RP_ROUTE_QUEUES_MAX 16384
#define RP_ROUTE_BROKERS_MAX 1024

typedef struct rp_route_table rp_route_table;

typedef struct rp_route_broker {
    rp_slice name;
    rp_address address; /* of its master */
} rp_route_broker;

typedef struct rp_route_queue {
    uint32_t broker; /* its place among the route's */
    int32_t queue_id;
} rp_route_queue;

typedef struct rp_route {
    uint32_t types; /* rp_sent_type bits: what the topic takes */
    const rp_route_broker *brokers;
    uint32_t broker_count;
    const rp_route_queue *queues; /* those that can be written to, in the order in which message groups are dealt to them */
    uint32_t queue_count;
    int64_t ask_again_ns; /* monotonic: its first age */
    int64_t ends_ns;      /* its second */
    int32_t is_orderly;   /* of a group that reads: whether it gets its messages in order */
    int32_t retries;      /* of such a group: how often a message comes again at most */
} rp_route;

/* A queue, and what a request to it says. */
typedef struct rp_route_choice {
    rp_address address;
    int32_t queue_id, is_orderly, retries;
    uint32_t broker_name_size;
    uint8_t broker_name[RP_ROUTE_NAME_MAX];
} rp_route_choice;

rp_route_table *rp_route_table_create(uint32_t topics_max); /* NULL: memory is out */
void rp_route_table_destroy(rp_route_table *table);

/* Replaces what was known by the key. RP_OK; RP_E_INVALID: an empty or too long name, no queue, a queue of a broker that the route does not
 * have, too many of either; RP_E_BUSY; RP_E_NO_MEMORY. After an error what was known stays. */
int rp_route_table_put(rp_route_table *table, rp_slice key, const rp_route *route, int64_t now_ns);
void rp_route_table_forget(rp_route_table *table, rp_slice key);
/* Chooses a queue for a message of this rp_sent_type: a message group has a queue of its own, other messages take the queues in turn.
 * 1; 0: there is no route for it, or Python has to ask for it anew. */
int rp_route_table_choose(rp_route_table *table, rp_slice topic, uint32_t type, rp_slice group, int64_t now_ns, rp_route_choice *choice);
/* The first queue of the wanted broker; when the route has none, the queue whose turn it is. Returns as rp_route_table_choose. */
int rp_route_table_choose_broker(rp_route_table *table, rp_slice key, rp_slice wanted, uint64_t turn, int64_t now_ns,
                                 rp_route_choice *choice);
/* The key "TOPIC@GROUP" of a group that reads a topic; size 0: it would be too long. No name of a topic has an @ in it. */
rp_slice rp_reading_key(rp_slice topic, rp_slice group, uint8_t room[RP_ROUTE_KEY_MAX]);
/* Guava's Hashing.consistentHash, as rocketpy/broker/names.py has it: the bucket of a key moves only to a new one when there are more. */
uint32_t rp_consistent_bucket(int32_t key, uint32_t buckets);

#endif
