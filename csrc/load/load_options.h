/* load_options.h: the defaults of a run's options, and the checks of those that are given. Private to csrc/load.
 *
 * Threads  pure functions.
 */
#ifndef RP_LOAD_LOAD_OPTIONS_H
#define RP_LOAD_LOAD_OPTIONS_H

#include "load.h"

/* Puts defaults where nothing was given, and no connections where the mode needs none. */
void rp_load_options_complete(rp_load_options *options);
/* Of complete options. RP_OK; RP_E_INVALID: error names the option and its limit. */
int rp_load_options_check(const rp_load_options *options, rp_error *error);

#endif
