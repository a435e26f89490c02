/* known_clients.h: the clients whose receives may be answered natively: those that have sent their settings, as
 * rocketpy/proxy/clients.py reports. RocketMQ: GrpcClientSettingsManager (5.3.3 proxy/grpc/v2/common/).
 *
 * Threads  any; one lock, a leaf, held for a look-up.
 * Owns     copies of all names.
 * Bounds   RP_KNOWN_CLIENTS_MAX, then RP_E_BUSY; RP_CLIENT_ID_MAX bytes of a name, then RP_E_INVALID.
 */
#ifndef RP_PROXY_KNOWN_CLIENTS_H
#define RP_PROXY_KNOWN_CLIENTS_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"

#define RP_KNOWN_CLIENTS_MAX 65536u
#define RP_CLIENT_ID_MAX 1024

typedef struct rp_known_clients rp_known_clients;

rp_known_clients *rp_known_clients_create(void); /* NULL: out of memory */
void rp_known_clients_destroy(rp_known_clients *clients);
/* reserve_ms: the part of a receive's deadline that polling must leave unused when the receive sets no polling time. RP_OK, also if the
 * client is known already; RP_E_INVALID; RP_E_BUSY; RP_E_NO_MEMORY. */
int rp_known_clients_put(rp_known_clients *clients, rp_slice id, int64_t reserve_ms);
void rp_known_clients_forget(rp_known_clients *clients, rp_slice id);
int rp_known_clients_find(rp_known_clients *clients, rp_slice id, int64_t *reserve_ms); /* 1; 0: not known */

#endif
