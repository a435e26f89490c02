/* ha_master_options.h: which options a master can be opened with. Private to csrc/ha. */
#ifndef RP_HA_HA_MASTER_OPTIONS_H
#define RP_HA_HA_MASTER_OPTIONS_H

#include "ha_master.h"

/* RP_OK, or RP_E_INVALID with the key and what it may be. */
int rp_ha_master_options_check(const rp_ha_master_options *options, rp_error *error);

#endif
