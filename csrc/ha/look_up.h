/* look_up.h: the addresses behind a name, for who may lose interest. Private to csrc/ha.
 *
 * While no DNS server answers, the system's resolver keeps a thread for a minute and more, and cannot be told to stop: a slave would not
 * end before, nor follow another master. So a thread of its own asks, and is left to itself when the answer is not wanted any more.
 *
 * Threads  any. Bounds: a thread a look-up, until the resolver gives up; numbers need none. Where there is no thread to be had, the
 *          caller's asks, and waits.
 */
#ifndef RP_HA_LOOK_UP_H
#define RP_HA_LOOK_UP_H

#include <netdb.h>
#include <stdatomic.h>

/* RP_OK: *found is for freeaddrinfo. RP_E_NETWORK: nobody knows the name. RP_E_TIMEOUT: given_up was set, a tenth of a second ago at
 * most. */
int rp_look_up(const char *host, const char *port, const atomic_int *given_up, struct addrinfo **found);

#endif
