/* ha_master_options.h: checks the options of a master. Private to csrc/ha. */
#ifndef RP_HA_HA_MASTER_OPTIONS_H
#define RP_HA_HA_MASTER_OPTIONS_H

#include "ha_master.h"

/* RP_OK, or RP_E_INVALID with the key and its allowed values. */
int rp_ha_master_options_check(const rp_ha_master_options *options, rp_error *error);

#endif
