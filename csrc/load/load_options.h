/* load_options.h: defaults for a run's options, and checks. Private to csrc/load.
 *
 * Threads  pure functions.
 */
#ifndef RP_LOAD_LOAD_OPTIONS_H
#define RP_LOAD_LOAD_OPTIONS_H

#include "load.h"

/* Sets defaults for fields that are 0, and no connections where the mode needs none. */
void rp_load_options_complete(rp_load_options *options);
/* Checks complete options. RP_OK; RP_E_INVALID: error names the option and its limit. */
int rp_load_options_check(const rp_load_options *options, rp_error *error);

#endif
