/* dial.h: a connection to host:port, whichever of the host's addresses takes it. Private to csrc/ha.
 *
 * Threads  any; blocks for timeout_ms an address at most, or a tenth of a second once given_up is set, also while a name is looked up: a
 *          look-up that takes longer is left to a thread of its own, which nobody waits for.
 */
#ifndef RP_HA_DIAL_H
#define RP_HA_DIAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "look_up.h"

#define RP_DIAL_WHY_MAX 160

/* A connected socket that does not block and does not delay small writes; -1: why not. Gives up soon after given_up is set.
 * look_ups: of the calling thread. */
int rp_dial(rp_look_ups *look_ups, const char *address, uint32_t timeout_ms, const atomic_int *given_up, char why[RP_DIAL_WHY_MAX]);

#endif
