/* dial.h: a connection to host:port, whichever of the host's addresses takes it. Private to csrc/ha.
 *
 * Threads  any; blocks, for timeout_ms an address at most.
 */
#ifndef RP_HA_DIAL_H
#define RP_HA_DIAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "../base/address.h"

#define RP_DIAL_WHY_MAX 160

/* "host:port" or "[v6]:port" taken apart; port points into address. RP_OK; RP_E_INVALID. */
int rp_dial_split(const char *address, char host[RP_ADDRESS_TEXT_MAX], const char **port);
/* A connected socket that does not block and does not delay small writes; -1: why not. No further address is tried once given_up is set. */
int rp_dial(const char *address, uint32_t timeout_ms, const atomic_int *given_up, char why[RP_DIAL_WHY_MAX]);

#endif
