/* route_table.h: where topics can be sent to, or read from, as Python has learned it from name servers and brokers.
 * RocketMQ: TopicRouteService, MessageQueueSelector (5.3.3 proxy/service/route/).
 *
 *   rocketpy/proxy/hot_routes.py ── put, forget ──► table ──► choose: one queue for one message, or none: then the message is Python's,
 *                                                             whose way fills the table
 *
 * A route has two ages. Past the first it is asked for anew: one message is refused, which makes Python ask, and the others go by what is
 * known; past the second nothing goes by it.
 *
 * Threads  any; one lock, a leaf, held for a look-up and a copy.
 * Owns     copies of everything.
 * Bounds   topics_max topics, then those past their second age go, and with none of them RP_E_BUSY; RP_ROUTE_QUEUES_MAX queues and
 *          RP_ROUTE_BROKERS_MAX brokers of a topic.
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
    int32_t is_orderly;   /* of a group that reads: how its messages come, and how often again */
    int32_t retries;
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

/* In place of what was known by the key. RP_OK; RP_E_INVALID: an empty or too long name, no queue, one of a broker that is not there, too
 * many of either; RP_E_BUSY; RP_E_NO_MEMORY: then what was known stays. */
int rp_route_table_put(rp_route_table *table, rp_slice key, const rp_route *route, int64_t now_ns);
void rp_route_table_forget(rp_route_table *table, rp_slice key);
/* A queue for a message of one of rp_sent_type: for a message group its own, else the next one. 1; 0: there is none, or Python is to
 * ask. */
int rp_route_table_choose(rp_route_table *table, rp_slice topic, uint32_t type, rp_slice group, int64_t now_ns, rp_route_choice *choice);
/* A queue of the broker that is wanted, the first, or where there is none the one whose turn it is. As rp_route_table_choose. */
int rp_route_table_choose_broker(rp_route_table *table, rp_slice key, rp_slice wanted, uint64_t turn, int64_t now_ns,
                                 rp_route_choice *choice);
/* What the route is found by of a group that reads a topic; size 0: it is too long. No name has its mark. */
rp_slice rp_reading_key(rp_slice topic, rp_slice group, uint8_t room[RP_ROUTE_KEY_MAX]);
/* Guava's Hashing.consistentHash, as rocketpy/proxy/sending.py has it: the bucket of a key moves only to a new one when there are more. */
uint32_t rp_consistent_bucket(int32_t key, uint32_t buckets);

#endif
