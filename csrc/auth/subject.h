/* subject.h: users by name, with what their requests are checked against. Internal to csrc/auth.
 * RocketMQ: User, Subject, Acl.
 *
 * Threads  a subject is immutable once made, except for its references, which are counted atomically; a map has one owner at a time, and
 *          readers need no lock while it does not change.
 * Owns     a map owns a reference to each of its subjects.
 */
#ifndef RP_AUTH_SUBJECT_H
#define RP_AUTH_SUBJECT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../base/sha1.h"
#include "../base/slice.h"
#include "rights.h"

typedef struct rp_subject {
    _Atomic uint32_t references;
    bool is_user; /* 0: there is only an acl for that name */
    bool is_super, is_enabled;
    uint64_t hash;
    rp_hmac_key key;   /* of a user's secret */
    rp_rights *rights; /* NULL: there is no acl */
    uint32_t name_size;
    uint8_t name[];
} rp_subject;

/* Makes a subject with one reference, from everything but the name and the rights of `like` (NULL: it is not a user), and a reference to
 * rights, which may be NULL. NULL: no memory. */
rp_subject *rp_subject_make(rp_slice name, const rp_subject *like, rp_rights *rights);
/* Releasing the last reference wipes the key. */
void rp_subject_release(rp_subject *subject);

typedef struct rp_subject_map {
    rp_subject **slots; /* open addressing, NULL: free */
    uint32_t slot_count; /* 0 or a power of two, never more than half full */
    uint32_t count;
} rp_subject_map;

rp_subject *rp_subject_map_find(const rp_subject_map *map, rp_slice name); /* borrowed; NULL: there is none */
/* Takes over the reference, and releases a subject of the same name. RP_OK; RP_E_NO_MEMORY: the reference stays with the caller. */
int rp_subject_map_put(rp_subject_map *map, rp_subject *subject);
void rp_subject_map_remove(rp_subject_map *map, rp_slice name);
int rp_subject_map_copy(const rp_subject_map *map, rp_subject_map *copy); /* RP_OK, RP_E_NO_MEMORY */
void rp_subject_map_free(rp_subject_map *map);

#endif
