/* look_up.h: looks up the addresses behind a name, for a caller that may give up. Private to csrc/ha.
 *
 * While no DNS server answers, the system's resolver keeps a thread for a minute and more and cannot be stopped: a slave could neither
 * end nor follow another master in that time. So a thread of its own asks, and is abandoned if the answer is no longer wanted. If the same
 * name is wanted again meanwhile, as when masters change back and forth, the caller waits for that thread.
 *
 * Threads  an rp_look_ups belongs to one thread. Bounds: RP_LOOK_UPS_MAX names under way in it, each with a thread until the resolver gives
 *          up, then RP_E_BUSY; numeric addresses need none. If no thread is available the caller's asks, and waits.
 */
#ifndef RP_HA_LOOK_UP_H
#define RP_HA_LOOK_UP_H

#include <netdb.h>
#include <stdatomic.h>

#define RP_LOOK_UPS_MAX 8

/* The look-ups under way of one caller. All zeros: none. */
typedef struct rp_look_ups {
    struct rp_asked_name *under_way[RP_LOOK_UPS_MAX];
} rp_look_ups;

/* RP_OK: *found must be freed by freeaddrinfo. RP_E_NETWORK: the name is unknown. RP_E_TIMEOUT: given_up was set, at most a tenth of a
 * second ago. RP_E_BUSY: too many names are being looked up already. */
int rp_look_up(rp_look_ups *look_ups, const char *host, const char *port, const atomic_int *given_up, struct addrinfo **found);
/* Abandons whatever is under way, without waiting. */
void rp_look_ups_leave(rp_look_ups *look_ups);

#endif
