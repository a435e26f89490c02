/* auth_table.h: users, their rights, and the gate in front of a server that enforces them.
 * RocketMQ: AuthenticationPipeline, AuthorizationPipeline and what they stand on (5.3.3 auth/).
 *
 *   Python: put_user, put_acl, … ─ draft ─ publish ─► snapshot ◄─ one look at `version` per request ─ reactors
 *
 * Python keeps the truth (files, admin requests) and writes it here; nothing changes for a client before rp_auth_table_publish. A
 * snapshot never changes once it is published. A reactor keeps a reference to the one it used last and reads one atomic per request;
 * only after a publish does it take `lock`, to exchange its reference. So readers wait for nobody, however long a body they are hashing,
 * and the writer never waits for a reader: with a readers-writer lock it would wait for the hash of 16 MB, or starve. The price: memory
 * used only by an old snapshot is kept until each reactor has seen another request.
 *
 * Threads  the draft (put, delete, set_options, publish, queries) from one thread at a time; gates on their server's reactors; stats
 *          any.
 * Owns     gates; closed after their servers have stopped. Secrets are kept as HMAC states, wiped when freed, and never returned.
 * Bounds   RP_AUTH_USERS_MAX, RP_AUTH_ACLS_MAX, RP_AUTH_ENTRIES_MAX a subject, names of RP_AUTH_NAME_MAX bytes. Each refused request is
 *          logged, at most 50 a second per gate and reactor; then the number of suppressed lines is.
 * Lock     `lock`, a leaf.
 */
#ifndef RP_AUTH_AUTH_TABLE_H
#define RP_AUTH_AUTH_TABLE_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/log.h"
#include "../base/slice.h"
#include "../remoting/server.h"

#define RP_AUTH_USERS_MAX 65536
#define RP_AUTH_ACLS_MAX 65536
#define RP_AUTH_ENTRIES_MAX 16384
#define RP_AUTH_SOURCES_MAX 1024 /* for an entry */
#define RP_AUTH_NAME_MAX 4096    /* bytes */
#define RP_AUTH_CODES_MAX 4096   /* for a whitelist */

/* RocketMQ's codes: ResourceType, ResourcePattern. */
enum rp_resource_type {
    RP_RESOURCE_ANY = 1,
    RP_RESOURCE_CLUSTER = 2,
    RP_RESOURCE_NAMESPACE = 3,
    RP_RESOURCE_TOPIC = 4,
    RP_RESOURCE_GROUP = 5
};
enum rp_resource_pattern { RP_PATTERN_ANY = 1, RP_PATTERN_LITERAL = 2, RP_PATTERN_PREFIXED = 3 };
/* One bit for each Action: 1 << its code. */
enum rp_action {
    RP_ACTION_ALL = 1 << 1,
    RP_ACTION_ANY = 1 << 2,
    RP_ACTION_PUB = 1 << 3,
    RP_ACTION_SUB = 1 << 4,
    RP_ACTION_CREATE = 1 << 5,
    RP_ACTION_UPDATE = 1 << 6,
    RP_ACTION_DELETE = 1 << 7,
    RP_ACTION_GET = 1 << 8,
    RP_ACTION_LIST = 1 << 9
};

/* A PolicyEntry. Of the entries that match resource, action and source address, the first in this order decides: those of the CUSTOM
 * policy, then, only if none of them matches, those of the DEFAULT one; within a policy a resource type before any, LITERAL before
 * PREFIXED before ANY, a longer prefix before a shorter one, DENY before ALLOW (RocketMQ 5.5.0; in 5.3.3 the order of these depends on
 * chance). */
typedef struct rp_acl_entry {
    uint8_t is_default;    /* 1: of the DEFAULT policy; 0: of CUSTOM */
    uint8_t is_deny;
    uint8_t resource_type; /* rp_resource_type */
    uint8_t pattern;       /* rp_resource_pattern */
    uint32_t actions;      /* rp_action bits; none: matches nothing */
    rp_slice name;         /* for LITERAL and PREFIXED */
    const rp_slice *sources; /* "1.2.3.4", "10.0.0.0/8", "::1", "fe80::/10"; none: any source matches */
    uint32_t source_count;
} rp_acl_entry;

typedef struct rp_auth_options {
    int32_t authenticate, authorize;
    rp_slice cluster_name; /* the resource on which requests about the cluster need rights */
    const int32_t *authentication_whitelist; /* request codes, in any order */
    uint32_t authentication_whitelist_count;
    const int32_t *authorization_whitelist;
    uint32_t authorization_whitelist_count;
} rp_auth_options;

typedef struct rp_auth_stats {
    uint64_t authenticated, authorized;               /* requests that passed a check, except whitelisted ones */
    uint64_t unauthenticated, unauthorized;           /* requests that were refused */
    uint64_t users, acls, version;                    /* of what is published */
} rp_auth_stats;

typedef struct rp_auth_table rp_auth_table;

/* Opens a table without users, which checks nothing. log may be NULL. RP_OK, RP_E_NO_MEMORY. */
int rp_auth_table_open(rp_log *log, rp_auth_table **table);
void rp_auth_table_close(rp_auth_table *table);

/* ---- the draft ---- */

/* Adds or replaces a user; slices are copied. RP_OK; RP_E_INVALID: an empty name; RP_E_TOO_LARGE: it is too long, or there are too many
 * users; RP_E_NO_MEMORY. */
int rp_auth_table_put_user(rp_auth_table *table, rp_slice name, rp_slice secret, int is_super, int is_enabled);
int rp_auth_table_delete_user(rp_auth_table *table, rp_slice name); /* RP_OK, RP_E_NOT_FOUND; its acl stays */
/* Sets all entries of a user, replacing existing ones. As above; RP_E_INVALID with the entry's number in error.offset for a malformed
 * one. */
int rp_auth_table_put_acl(rp_auth_table *table, rp_slice user, const rp_acl_entry *entries, uint32_t entry_count, rp_error *error);
int rp_auth_table_delete_acl(rp_auth_table *table, rp_slice user); /* RP_OK, RP_E_NOT_FOUND */
int rp_auth_table_set_options(rp_auth_table *table, const rp_auth_options *options); /* RP_OK, RP_E_NO_MEMORY, RP_E_TOO_LARGE */
/* Makes the draft effective for requests. RP_OK; RP_E_NO_MEMORY: what was published before stays effective. */
int rp_auth_table_publish(rp_auth_table *table);

/* ---- queries of the draft, for requests that did not come through a server of ours ---- */

enum rp_verdict { RP_VERDICT_ALLOW, RP_VERDICT_DENY, RP_VERDICT_NO_MATCH };
enum rp_identity { RP_IDENTITY_PROVEN, RP_IDENTITY_UNKNOWN, RP_IDENTITY_DISABLED, RP_IDENTITY_WRONG_SIGNATURE };

/* Checks whether the user exists, is enabled and has signed the content: signature is base64 of the HmacSHA1, as rp_auth_sign makes it. */
enum rp_identity rp_auth_table_identify(const rp_auth_table *table, rp_slice user, rp_slice content, rp_slice signature);
/* May the user do one of the actions with a resource, from source, an address without a port? NO_MATCH for an unknown or disabled user,
 * and for a source that is no address. */
enum rp_verdict rp_auth_table_judge(const rp_auth_table *table, rp_slice user, uint8_t resource_type, rp_slice name, uint32_t actions,
                                    const char *source);

/* ---- in front of servers ---- */

/* Creates a gate for one server with that many reactors, for rp_server_set_gate. RP_OK, RP_E_NO_MEMORY. */
int rp_auth_table_gate(rp_auth_table *table, uint16_t reactors, const rp_gate **gate);
void rp_auth_table_read_stats(rp_auth_table *table, rp_auth_stats *stats);

/* ---- for signing our own requests ---- */

#define RP_SIGNATURE_TEXT_SIZE 28
/* Writes base64 of the HmacSHA1, without a final zero: the value of the field Signature, over the values of all other fields, in the
 * order of their names, and the body. */
void rp_auth_sign(rp_slice secret, rp_slice content, char signature[RP_SIGNATURE_TEXT_SIZE]);

#endif
