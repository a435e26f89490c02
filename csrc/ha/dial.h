/* dial.h: connects to host:port, at whichever of the host's addresses accepts. Private to csrc/ha.
 *
 * Threads  any; blocks for at most timeout_ms per address, or for a tenth of a second after given_up is set, also during a name look-up:
 *          one that takes longer is left to a thread of its own, which nobody waits for.
 */
#ifndef RP_HA_DIAL_H
#define RP_HA_DIAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "look_up.h"

#define RP_DIAL_WHY_MAX 160

/* Returns a connected non-blocking socket without delay of small writes; -1: `why` says why not. Gives up soon after given_up is set.
 * look_ups belongs to the calling thread. */
int rp_dial(rp_look_ups *look_ups, const char *address, uint32_t timeout_ms, const atomic_int *given_up, char why[RP_DIAL_WHY_MAX]);

#endif
