/* look_up.h: looks up the addresses behind a name, for a caller that may give up. Private to csrc/ha.
 *
 * While no DNS server answers, the system's resolver keeps a thread for a minute and more and cannot be stopped: a slave could neither
 * end nor follow another master in that time. So a thread of its own asks, and is abandoned if the answer is no longer wanted.
 *
 * Threads  any. Bounds: one thread per look-up, until the resolver gives up; numeric addresses need none. If no thread is available the
 *          caller's asks, and waits.
 */
#ifndef RP_HA_LOOK_UP_H
#define RP_HA_LOOK_UP_H

#include <netdb.h>
#include <stdatomic.h>

/* RP_OK: *found must be freed by freeaddrinfo. RP_E_NETWORK: the name is unknown. RP_E_TIMEOUT: given_up was set, at most a tenth of a
 * second ago. */
int rp_look_up(const char *host, const char *port, const atomic_int *given_up, struct addrinfo **found);

#endif
