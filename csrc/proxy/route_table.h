/* route_table.h: where topics can be sent to or read from, as Python has learned it from name servers and brokers.
 * RocketMQ: TopicRouteService, MessageQueueSelector (5.3.3 proxy/service/route/).
 *
 *   rocketpy/proxy/native_calls.py ── put, forget ──► table ──► choose: one queue for one message, or none: the message is left to
 *   Python,
 *                                                               which asks for the route and puts it here
 *
 * A route has two ages. After the first it should be asked for again: one message is refused, which makes Python ask, while the others
 * still use the known route. After the second nothing uses it.
 *
 * Threads  any; one lock, a leaf, held for a look-up and a copy.
 * Owns     copies of everything.
 * Bounds   topics_max topics: at the bound, routes past their second age are dropped; if there are none, a new one is RP_E_BUSY;
 *          RP_ROUTE_QUEUES_MAX queues and RP_ROUTE_BROKERS_MAX brokers of a topic.
 */
#ifndef RP_PROXY_ROUTE_TABLE_H
#define RP_PROXY_ROUTE_TABLE_H

#include <stdint.h>

#include "../base/address.h"
#include "../base/slice.h"

#define RP_ROUTE_NAME_MAX 255 /* bytes of a topic's name, or a broker's */
#define RP_ROUTE_KEY_MAX 384  /* bytes of a route's key: a topic, or "TOPIC@GROUP" for a group that reads it */
#define RP_ROUTE_QUEUES_MAX 16384
#define RP_ROUTE_BROKERS_MAX 1024

typedef struct rp_route_table rp_route_table;

typedef struct rp_route_broker {
    rp_slice name;
    rp_address address; /* its master's */
} rp_route_broker;

typedef struct rp_route_queue {
    uint32_t broker; /* index in brokers */
    int32_t queue_id;
} rp_route_queue;

typedef struct rp_route {
    uint32_t types; /* rp_sent_type bits: what the topic takes */
    const rp_route_broker *brokers;
    uint32_t broker_count;
    const rp_route_queue *queues; /* the writable ones, in the order in which message groups are assigned to them */
    uint32_t queue_count;
    int64_t ask_again_ns; /* monotonic: end of its first age */
    int64_t ends_ns;      /* end of its second age */
    int32_t is_orderly;   /* for a group that reads: whether it gets its messages in order */
    int32_t retries;      /* for a group that reads: how often a message is delivered again at most */
} rp_route;

/* A queue, and what a request to it needs. */
typedef struct rp_route_choice {
    rp_address address;
    int32_t queue_id, is_orderly, retries;
    uint32_t broker_name_size;
    uint8_t broker_name[RP_ROUTE_NAME_MAX];
} rp_route_choice;

rp_route_table *rp_route_table_create(uint32_t topics_max); /* NULL: out of memory */
void rp_route_table_destroy(rp_route_table *table);

/* Replaces the route of the key. RP_OK; RP_E_INVALID: the key or a name is empty or too long, the route has no queue, a queue refers to
 * no broker of the route, or there are too many of either; RP_E_BUSY; RP_E_NO_MEMORY. After an error the old route stays. */
int rp_route_table_put(rp_route_table *table, rp_slice key, const rp_route *route, int64_t now_ns);
void rp_route_table_forget(rp_route_table *table, rp_slice key);
/* Chooses a queue for a message of this rp_sent_type: a message group always gets the same queue, other messages take the queues in
 * turn.
 * Returns 1; 0: there is no route for it, or Python has to ask for the route again. */
int rp_route_table_choose(rp_route_table *table, rp_slice topic, uint32_t type, rp_slice group, int64_t now_ns, rp_route_choice *choice);
/* Chooses the first queue of the wanted broker or, if the route has none, the queue at `turn`. Returns as rp_route_table_choose. */
int rp_route_table_choose_broker(rp_route_table *table, rp_slice key, rp_slice wanted, uint64_t turn, int64_t now_ns,
                                 rp_route_choice *choice);
/* Writes the key "TOPIC@GROUP" of a group that reads a topic; size 0: it would be too long. It is unambiguous: topics have no @ in their
 * names. */
rp_slice rp_reading_key(rp_slice topic, rp_slice group, uint8_t room[RP_ROUTE_KEY_MAX]);
/* Guava's Hashing.consistentHash, as in rocketpy/broker/names.py: when buckets are added, a key keeps its bucket or moves to a new one. */
uint32_t rp_consistent_bucket(int32_t key, uint32_t buckets);

#endif
