/* proxy.h: answers gRPC calls without Python: SendMessage, ReceiveMessage, AckMessage and ChangeInvisibleDuration, by asking brokers on
 * the same reactor.
 * RocketMQ: SendMessageActivity, ReceiveMessageActivity, AckMessageActivity, ChangeInvisibleDurationActivity, DefaultMessagingProcessor
 * (5.3.3 proxy/).
 *
 *   client ── call ──► on_call ─┬─ message or handle, request ──► upstream ──► broker ──► answer ──► client
 *                               └─ anything unusual: Python, as if the proxy were not native; Python also fills the tables here
 *
 * Answered here are
 *   SendMessage      of messages of any type but TRANSACTION (sent_message.h has the details), from a client that gives its id, to a
 *                    topic that takes such messages and whose route Python has put here;
 *   AckMessage, ChangeInvisibleDuration   of messages that are not being renewed at this moment, and whose invisible time is not over;
 *   ReceiveMessage   (received_request.h has the details) of a client whose settings, and a group whose reading, Python has put here.
 * Brokers are reached by address only; no name is looked up. Everything else is left to Python: also faulty calls, so that their error
 * texts are in one place, and callers whom the gate does not admit, since their user may just have been created.
 *
 * Threads  on_call and what follows: the call's reactor. Routes and statistics: any thread.
 * Owns     its tables, and the waiting calls. Must outlive the servers that it is attached to.
 * Bounds   calls_max calls of a reactor that wait for a broker, then calls are left to Python; the bounds of the tables and of
 *          upstreams.h;
 *          messages for consumers as rp_grpc_call_may_hold allows, then TOO_MANY_REQUESTS.
 */
#ifndef RP_PROXY_PROXY_H
#define RP_PROXY_PROXY_H

#include "../base/clock.h"
#include "../base/error.h"
#include "../auth/signer.h"
#include "../grpc/grpc.h"
#include "../remoting/server.h"
#include "broker_addresses.h"
#include "held_handles.h"
#include "route_table.h"
#include "sent_message.h"

#define RP_PROXY_REACTORS_MAX 64
#define RP_PROXY_CODES 14  /* of answers, for rp_proxy_times */
#define RP_PROXY_CLASSES 10 /* as in rocketpy/remoting/latencies.py */

typedef struct rp_proxy rp_proxy;

enum rp_proxy_method { RP_PROXY_SEND = 0, RP_PROXY_ACK = 1, RP_PROXY_CHANGE = 2, RP_PROXY_RECEIVE = 3 };
#define RP_PROXY_METHODS 4

typedef struct rp_proxy_options {
    uint32_t message_size_max;       /* rp_send_rules: defaults as in rmq-proxy.json */
    uint32_t user_properties_max;
    uint32_t user_property_size_max;
    uint32_t message_group_size_max;
    uint32_t lite_topic_size_max;
    int64_t delay_ms_max;
    int32_t takes_empty_body;
    int32_t uses_delay_level;
    int64_t polling_min_ms, polling_max_ms; /* rp_receive_rules: likewise */
    int64_t invisible_min_ms, invisible_max_ms, invisible_renewed_ms;
    int32_t may_renew;
    uint32_t reactors;               /* of its servers, 1 to RP_PROXY_REACTORS_MAX; default 1 */
    uint32_t topics_max;             /* default 20,000 */
    uint32_t calls_max;              /* waiting calls of a reactor; default 65,535 */
    int32_t send_method;             /* SendMessage's place in the method table (rp_grpc_options); default 0 */
    int32_t ack_method;              /* AckMessage's; default 1 */
    int32_t change_method;           /* ChangeInvisibleDuration's; default 2 */
    int32_t receive_method;          /* ReceiveMessage's; default 3 */
    const rp_clock *clock;           /* NULL: the system's */
    const rp_gate *gate;             /* who may call: made by rp_auth_table_gate for as many reactors; NULL: everybody may. Borrowed */
    const rp_signer *signer;         /* signs requests to brokers; NULL: they are not signed. Borrowed */
} rp_proxy_options;

void rp_proxy_options_default(rp_proxy_options *options);
/* RP_OK, RP_E_INVALID, RP_E_NO_MEMORY. */
int rp_proxy_open(const rp_proxy_options *options, rp_proxy **proxy, rp_error *error);
void rp_proxy_close(rp_proxy *proxy); /* after its servers; NULL is allowed */
const rp_handler *rp_proxy_handler(const rp_proxy *proxy);           /* for rp_server_open */
const rp_grpc_handler *rp_proxy_grpc_handler(const rp_proxy *proxy); /* for rp_grpc_create */

/* See route_table.h. */
int rp_proxy_put_route(rp_proxy *proxy, rp_slice topic, const rp_route *route);
void rp_proxy_forget_route(rp_proxy *proxy, rp_slice topic);
/* Sets how a group reads a topic: one queue for each broker, whose id does not matter. Returns as put_route; also RP_E_INVALID if the
 * names together exceed RP_ROUTE_KEY_MAX bytes. */
int rp_proxy_put_reading(rp_proxy *proxy, rp_slice topic, rp_slice group, const rp_route *route);
void rp_proxy_forget_reading(rp_proxy *proxy, rp_slice topic, rp_slice group);
/* See known_clients.h. */
int rp_proxy_put_client(rp_proxy *proxy, rp_slice id, int64_t reserve_ms);
void rp_proxy_forget_client(rp_proxy *proxy, rp_slice id);
/* See broker_addresses.h. */
int rp_proxy_put_broker(rp_proxy *proxy, rp_slice name, const rp_address *address);
void rp_proxy_forget_broker(rp_proxy *proxy, rp_slice name);
/* Returns the messages whose invisible time is renewed; valid until the proxy is closed. */
rp_held_handles *rp_proxy_held(const rp_proxy *proxy);

typedef struct rp_proxy_stats {
    uint64_t sent, acknowledged, changed, received; /* requests passed on to brokers */
    uint64_t answered;                /* with a broker's answer, or because there was none */
    uint64_t punted;                  /* left to Python */
    uint64_t errands, failed_errands; /* requests about messages that their client did not want or take (errands.c) */
    uint64_t waiting, upstreams;      /* now */
} rp_proxy_stats;
void rp_proxy_read_stats(const rp_proxy *proxy, rp_proxy_stats *stats);

/* How long the calls of a method took, for one code of their answers; place is 0 to RP_PROXY_CODES - 1. */
typedef struct rp_proxy_times {
    int32_t code;
    uint64_t total_ns;
    uint64_t classes[RP_PROXY_CLASSES];
} rp_proxy_times;
void rp_proxy_read_times(const rp_proxy *proxy, int32_t method, uint32_t place, rp_proxy_times *times);

#endif
