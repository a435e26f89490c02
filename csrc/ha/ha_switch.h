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

/* Leads from the log's end on, confirmed or not; queue offsets continue behind it. Cuts off an incomplete record, writes the epoch's entry
 * unless this broker has led in that epoch before, begins with this SyncStateSet, opens the log for appends and serves slaves. If this
 * broker is alone in the set, everything is confirmed and in the queues; else, with all_in_sync_state_set, what is not in them yet waits
 * for the others' acks. Does nothing while it leads in that epoch already. RP_OK; RP_E_INVALID: no epochs, too many ids, or none of them
 * this broker's; RP_E_RANGE: the last epoch is a later one; RP_E_CORRUPT: bytes that are not a record follow the last one; RP_E_IO,
 * RP_E_DISK_FULL, RP_E_NO_MEMORY: it does not lead, and may be asked again. */
int rp_ha_master_lead(rp_ha_master *master, int64_t epoch, const int64_t *ids, uint32_t count, rp_error *error);
/* Closes the log to appends, disconnects the slaves and refuses others until the next lead. on_acked is called with -1. When this returns,
 * nothing is appended or sent any more. */
void rp_ha_master_step_down(rp_ha_master *master);

/* agree: the set that the controller has, also in its answer to a proposal that it refused. propose: the set that it is going to be asked
 * for. From then until it has answered, the members of both count, and only what all of them hold is acknowledged. A newcomer may lack what
 * was acknowledged before it was proposed, so the controller is asked only when every newcomer has_caught_up again. RP_OK; RP_E_INVALID:
 * too many ids, or none of them this broker's. */
int rp_ha_master_agree(rp_ha_master *master, const int64_t *ids, uint32_t count);
int rp_ha_master_propose(rp_ha_master *master, const int64_t *ids, uint32_t count);
/* Copies up to ids_max ids of the agreed set. Returns how many there are. */
uint32_t rp_ha_master_read_set(rp_ha_master *master, int64_t *ids, uint32_t ids_max);
/* The offset up to which every member of both sets has the log, and consumers may see it. The log's end without all_in_sync_state_set, and
 * while this broker is alone in the sets. */
int64_t rp_ha_master_confirm_offset(rp_ha_master *master);
/* An eventfd that becomes readable when a slave outside the sets has caught up, or one of the agreed set has gone, until the caller reads
 * it. Non-blocking; the master owns it until close. -1 without epochs. */
int rp_ha_master_set_fd(const rp_ha_master *master);

#endif
