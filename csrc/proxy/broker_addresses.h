/* broker_addresses.h: the addresses of brokers' masters by name, as last learned from routes. RocketMQ: TopicRouteService.getBrokerAddr
 * (5.3.3 proxy/service/route/).
 *
 * Threads  any; one lock, a leaf, held for a look-up and a copy.
 * Bounds   RP_BROKER_ADDRESSES_MAX; calls for further brokers are left to Python.
 */
#ifndef RP_PROXY_BROKER_ADDRESSES_H
#define RP_PROXY_BROKER_ADDRESSES_H

#include "../base/address.h"
#include "../base/slice.h"

#define RP_BROKER_ADDRESSES_MAX 4096u

typedef struct rp_broker_addresses rp_broker_addresses;

rp_broker_addresses *rp_broker_addresses_create(void); /* NULL: out of memory */
void rp_broker_addresses_destroy(rp_broker_addresses *addresses);
/* RP_OK; RP_E_INVALID: the name is empty or too long; RP_E_BUSY: the table is full; RP_E_NO_MEMORY. */
int rp_broker_addresses_put(rp_broker_addresses *addresses, rp_slice name, const rp_address *address);
void rp_broker_addresses_forget(rp_broker_addresses *addresses, rp_slice name);
int rp_broker_addresses_find(rp_broker_addresses *addresses, rp_slice name, rp_address *address); /* 1; 0: not known */

#endif
