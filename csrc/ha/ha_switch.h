/* ha_switch.h: a master behind a controller: it leads from one epoch on, steps down, and knows who is in sync.
 * RocketMQ: AutoSwitchHAService (5.3.3 store/ha/autoswitch/).
 *
 *   slave ── rp_ha_slave_let_go ── rp_ha_master_lead(epoch) ── sends accepted ──► master
 *   master ── sends refused ── rp_ha_master_step_down ── rp_ha_slave_set_master ──► slave
 *
 * Whoever calls these does so from one thread at a time. The log itself refuses appends between step_down and lead, whatever is still under
 * way elsewhere: its master's bytes are the only ones then.
 */
#ifndef RP_HA_HA_SWITCH_H
#define RP_HA_HA_SWITCH_H

#include "ha_master.h"
#include "sync_state_set.h"

/* Leads from the log's end on, confirmed or not: queue offsets go on behind it. Cuts a record off that is not whole, writes the epoch's
 * entry, unless it leads in that epoch already, begins with this SyncStateSet, opens the log for appends and serves slaves. Alone in the
 * set, all there is is confirmed and in the queues; else, with all_in_sync_state_set, what is not in them by now waits for the others'
 * acks. Where it leads in that epoch already nothing happens. RP_OK; RP_E_INVALID: no epochs, too many ids, or none of them this broker's;
 * RP_E_RANGE: an older epoch than the last; RP_E_CORRUPT: bytes that are not a record stand behind the last one; RP_E_IO, RP_E_DISK_FULL,
 * RP_E_NO_MEMORY: it does not lead, and may be asked again. */
int rp_ha_master_lead(rp_ha_master *master, int64_t epoch, const int64_t *ids, uint32_t count, rp_error *error);
/* Closes the log to appends, drops the slaves and refuses others until the next lead. on_acked is told -1. When this returns nothing is
 * appended or sent any more. */
void rp_ha_master_step_down(rp_ha_master *master);

/* The set as the controller has it, also as its answer to a proposal that it refused; and the one it is going to be asked for. From then
 * until it has answered the larger of both counts, and acknowledged is only what both hold. What was acknowledged before a newcomer was
 * proposed it may lack: so the controller is asked once every newcomer has_caught_up again. RP_OK; RP_E_INVALID: too many ids, or none of
 * them this broker's. */
int rp_ha_master_agree(rp_ha_master *master, const int64_t *ids, uint32_t count);
int rp_ha_master_propose(rp_ha_master *master, const int64_t *ids, uint32_t count);
/* Up to ids_max of the agreed ones; how many there are. */
uint32_t rp_ha_master_read_set(rp_ha_master *master, int64_t *ids, uint32_t ids_max);
/* What every member of both sets holds, and consumers may see. The log's end without all_in_sync_state_set, and while this broker is alone
 * in them. */
int64_t rp_ha_master_confirm_offset(rp_ha_master *master);
/* Readable since a slave that is in no set has caught up, or one of the agreed set has gone, until the caller reads it. The master's until
 * close; non-blocking. -1 without epochs. */
int rp_ha_master_set_fd(const rp_ha_master *master);

#endif
