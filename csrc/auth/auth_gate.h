/* auth_gate.h: the published form of an auth table, and the checks of a request against it. Internal to csrc/auth.
 * RocketMQ: DefaultAuthenticationHandler, UserAuthorizationHandler, AclAuthorizationHandler, the audit lines of both providers.
 *
 * Threads  a snapshot is immutable except for its references; a reader belongs to the thread that turns its reactor; stats by any
 *          thread.
 */
#ifndef RP_AUTH_AUTH_GATE_H
#define RP_AUTH_AUTH_GATE_H

#include <pthread.h>

#include "../base/arena.h"
#include "auth_table.h"
#include "signature.h"
#include "subject.h"

typedef struct rp_auth_snapshot {
    _Atomic uint32_t references; /* one by the table while it is published, and one by each reader that uses it */
    bool authenticate, authorize;
    rp_slice cluster_name;
    const int32_t *authentication_whitelist, *authorization_whitelist; /* ascending */
    uint32_t authentication_whitelist_count, authorization_whitelist_count;
    rp_subject_map subjects;
    /* Followed by both whitelists and the bytes of the cluster's name. */
} rp_auth_snapshot;

void rp_auth_snapshot_release(rp_auth_snapshot *snapshot); /* NULL is allowed */

/* The state of one reactor, on cache lines of its own. */
typedef struct rp_auth_reader {
    _Alignas(64) rp_auth_snapshot *snapshot; /* NULL: no request was checked yet */
    uint64_t version;                        /* of that snapshot */
    rp_field_order order;
    int64_t log_window_ns; /* begin of the second in which lines are counted */
    uint32_t log_lines, log_lines_left_out;
    _Atomic uint64_t authenticated, authorized, unauthenticated, unauthorized; /* figures, so relaxed */
} rp_auth_reader;

typedef struct rp_auth_gate rp_auth_gate;
struct rp_auth_gate {
    rp_gate gate;
    rp_auth_table *table;
    rp_auth_gate *next;
    uint32_t reader_count;
    rp_auth_reader readers[];
};

struct rp_auth_table {
    rp_log *log;              /* fixed after open; may be NULL */
    pthread_mutex_t lock;     /* guards published and gates */
    rp_auth_snapshot *published;
    rp_auth_gate *gates;
    _Atomic uint64_t version; /* written under lock, with published (release) */
    /* The draft, owned by the thread that writes. */
    rp_subject_map subjects;
    uint32_t users, acls;
    rp_auth_snapshot *options; /* with empty subjects; NULL: no options were set */
    _Atomic uint64_t published_users, published_acls; /* figures, so relaxed */
};

/* Judges a request that came from remote. 0: it may go on; otherwise the response code, with *remark. */
int32_t rp_auth_judge(rp_auth_table *table, rp_auth_reader *reader, int64_t now_ns, rp_arena *arena, const rp_address *remote,
                      const rp_command *command, rp_slice *remark);

/* Judges an admitted request once more: whether its user may send to the topic of the message that it turns out to be about. As above. */
int32_t rp_auth_judge_sender(rp_auth_table *table, rp_auth_reader *reader, int64_t now_ns, rp_arena *arena, const rp_address *remote,
                             const rp_command *command, rp_slice topic, rp_slice *remark);

/* Takes a reference to the published snapshot. */
void rp_auth_reader_renew(rp_auth_table *table, rp_auth_reader *reader);

#endif
