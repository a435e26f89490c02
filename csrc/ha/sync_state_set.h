/* sync_state_set.h: the broker ids whose logs hold everything that is confirmed, and the confirmed offset.
 * RocketMQ: AutoSwitchHAService (syncStateSet, remoteSyncStateSet, computeConfirmOffset; 5.3.3 store/ha/autoswitch/).
 *
 * Two sets   what the controller last reported, and what it was asked for and has not answered yet. Until it has, both count: it may
 *            have agreed already, and elect a member of either.
 * Confirmed  the smallest offset that a member of either holds. It does not move while a member is not connected, and never goes back
 *            while the set leads.
 *
 * Threads  none of its own: the caller's lock. No time, no files: decisions only.
 */
#ifndef RP_HA_SYNC_STATE_SET_H
#define RP_HA_SYNC_STATE_SET_H

#include <stdint.h>

#define RP_SYNC_STATE_SET_MAX 64

typedef struct rp_sync_state_set {
    int64_t local_id;
    int64_t agreed[RP_SYNC_STATE_SET_MAX], proposed[RP_SYNC_STATE_SET_MAX];
    uint32_t agreed_count, proposed_count;
    int is_proposing;
    int64_t confirmed;
} rp_sync_state_set;

/* What a slave's connection reports; id -1: not known yet. */
typedef struct rp_replica {
    int64_t id, acked;
} rp_replica;

/* For a new master at the begin of its epoch: the set holds it alone, and everything up to `confirmed` counts as confirmed. */
void rp_sync_state_set_begin(rp_sync_state_set *set, int64_t local_id, int64_t confirmed);
/* Set the agreed or the proposed set; agree ends a proposal. RP_OK; RP_E_INVALID: too many ids, or this master's is not among them. */
int rp_sync_state_set_agree(rp_sync_state_set *set, const int64_t *ids, uint32_t count);
int rp_sync_state_set_propose(rp_sync_state_set *set, const int64_t *ids, uint32_t count);
int rp_sync_state_set_has(const rp_sync_state_set *set, int64_t id);        /* in either set */
int rp_sync_state_set_has_agreed(const rp_sync_state_set *set, int64_t id);
uint32_t rp_sync_state_set_size(const rp_sync_state_set *set);              /* of the larger set, this master included */
/* Returns the smallest offset that a slave of either set holds: INT64_MAX if there is no slave in them, -1 while one is not connected. */
int64_t rp_sync_state_set_held(const rp_sync_state_set *set, const rp_replica *replicas, uint32_t count);
/* Moves `confirmed` forward, to at most end, and returns it. */
int64_t rp_sync_state_set_confirm(rp_sync_state_set *set, const rp_replica *replicas, uint32_t count, int64_t end);

#endif
