/* look_up.h: the addresses behind a name, for who may lose interest. Private to csrc/ha.
 *
 * While no DNS server answers, the system's resolver keeps a thread for a minute and more, and cannot be told to stop: a slave would not
 * end before, nor follow another master. So a thread of its own asks, and is left to itself when the answer is not wanted any more. Who
 * wants it again meanwhile, as when masters change to and fro, waits for the same thread.
 *
 * Threads  a rp_look_ups is one thread's. Bounds: RP_LOOK_UPS_MAX names of it under way, each a thread until the resolver gives up, then
 *          RP_E_BUSY; numbers need none. Where there is no thread to be had, the caller's asks, and waits.
 */
#ifndef RP_HA_LOOK_UP_H
#define RP_HA_LOOK_UP_H

#include <netdb.h>
#include <stdatomic.h>

#define RP_LOOK_UPS_MAX 4

/* Those that are under way of one who looks up names. All zeros: none. */
typedef struct rp_look_ups {
    struct rp_asked_name *under_way[RP_LOOK_UPS_MAX];
} rp_look_ups;

/* RP_OK: *found is for freeaddrinfo. RP_E_NETWORK: nobody knows the name. RP_E_TIMEOUT: given_up was set, a tenth of a second ago at
 * most. RP_E_BUSY: too many names are being looked up already. */
int rp_look_up(rp_look_ups *look_ups, const char *host, const char *port, const atomic_int *given_up, struct addrinfo **found);
/* Nobody wants what is under way any more; waits for nothing. */
void rp_look_ups_leave(rp_look_ups *look_ups);

#endif
