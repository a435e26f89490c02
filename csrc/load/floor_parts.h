/* floor_parts.h: what the bare loops share. Private to csrc/load. */
#ifndef RP_LOAD_FLOOR_PARTS_H
#define RP_LOAD_FLOOR_PARTS_H

#include <stdint.h>

#include "../base/histogram.h"
#include "floor.h"

void rp_floor_fill_rate(rp_floor_rate *rate, const rp_histogram *rounds, uint64_t bytes, int64_t elapsed_ns);
/* Makes a connected TCP pair on the loopback, like a slave's connection. Returns 0, or -1 with errno; close what is not -1 in both
 * cases. */
int rp_floor_tcp_pair(int *writer, int *reader);

#endif
