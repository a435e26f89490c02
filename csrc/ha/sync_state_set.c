/* sync_state_set.c: see sync_state_set.h. */
#include "sync_state_set.h"

#include <string.h>

#include "../base/error.h"

void rp_sync_state_set_begin(rp_sync_state_set *set, int64_t local_id, int64_t confirmed) {
    *set = (rp_sync_state_set){.local_id = local_id, .agreed = {local_id}, .agreed_count = 1, .confirmed = confirmed};
}

static int holds(const int64_t *ids, uint32_t count, int64_t id) {
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

static int is_set(const rp_sync_state_set *set, const int64_t *ids, uint32_t count) {
    return count <= RP_SYNC_STATE_SET_MAX && holds(ids, count, set->local_id);
}

int rp_sync_state_set_agree(rp_sync_state_set *set, const int64_t *ids, uint32_t count) {
    if (!is_set(set, ids, count))
        return RP_E_INVALID;
    memcpy(set->agreed, ids, count * sizeof *ids);
    set->agreed_count = count;
    set->is_proposing = 0;
    return RP_OK;
}

int rp_sync_state_set_propose(rp_sync_state_set *set, const int64_t *ids, uint32_t count) {
    if (!is_set(set, ids, count))
        return RP_E_INVALID;
    memcpy(set->proposed, ids, count * sizeof *ids);
    set->proposed_count = count;
    set->is_proposing = 1;
    return RP_OK;
}

int rp_sync_state_set_has_agreed(const rp_sync_state_set *set, int64_t id) { return holds(set->agreed, set->agreed_count, id); }

static int has_proposed(const rp_sync_state_set *set, int64_t id) {
    return set->is_proposing && holds(set->proposed, set->proposed_count, id);
}

int rp_sync_state_set_has(const rp_sync_state_set *set, int64_t id) {
    return rp_sync_state_set_has_agreed(set, id) || has_proposed(set, id);
}

uint32_t rp_sync_state_set_size(const rp_sync_state_set *set) {
    return set->is_proposing && set->proposed_count > set->agreed_count ? set->proposed_count : set->agreed_count;
}

/* Returns what the replica holds, by its most advanced connection; -1: it is not connected. */
static int64_t acked_by(int64_t id, const rp_replica *replicas, uint32_t count) {
    int64_t acked = -1;
    for (uint32_t i = 0; i < count; i++)
        if (replicas[i].id == id && replicas[i].acked > acked)
            acked = replicas[i].acked;
    return acked;
}

static int64_t least_of(const rp_sync_state_set *set, const int64_t *ids, uint32_t id_count, const rp_replica *replicas, uint32_t count) {
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < id_count; i++) {
        int64_t acked = ids[i] == set->local_id ? INT64_MAX : acked_by(ids[i], replicas, count);
        least = acked < least ? acked : least;
    }
    return least;
}

int64_t rp_sync_state_set_held(const rp_sync_state_set *set, const rp_replica *replicas, uint32_t count) {
    int64_t agreed = least_of(set, set->agreed, set->agreed_count, replicas, count);
    int64_t proposed = set->is_proposing ? least_of(set, set->proposed, set->proposed_count, replicas, count) : INT64_MAX;
    return agreed < proposed ? agreed : proposed;
}

int64_t rp_sync_state_set_confirm(rp_sync_state_set *set, const rp_replica *replicas, uint32_t count, int64_t end) {
    int64_t held = rp_sync_state_set_held(set, replicas, count);
    held = held < end ? held : end;
    set->confirmed = held > set->confirmed ? held : set->confirmed;
    return set->confirmed;
}
