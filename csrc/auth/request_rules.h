/* request_rules.h: the table behind requested_rights.h: for each request code, which fields, or members of its body, name a resource.
 * Internal to csrc/auth.
 *
 * Threads  pure.
 */
#ifndef RP_AUTH_REQUEST_RULES_H
#define RP_AUTH_REQUEST_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* What a name stands for. */
enum rp_naming {
    RP_NAMES_CLUSTER = 1,
    RP_NAMES_TOPIC,                /* whatever its name */
    RP_NAMES_TOPIC_OR_GROUP,       /* for a retry topic the right is on its group */
    RP_NAMES_TOPIC_UNLESS_RETRY,   /* for a retry topic nothing: another field names its group */
    RP_NAMES_GROUP,
    RP_NAMES_GROUP_OF_RETRY,       /* its name may be that of its retry topic */
};

enum rp_presence {
    RP_REQUIRED, /* if absent: a resource without a name, which only entries for all resources match */
    RP_OPTIONAL, /* if absent: no right is needed */
    RP_NOT_BLANK /* if absent or blank: no right is needed */
};

typedef struct rp_named_field {
    const char *key;
    uint8_t naming;
    uint8_t presence;
    char separator; /* not 0: separates several names */
} rp_named_field;

/* A JSON object with names in it, and lists of such objects. */
typedef struct rp_body_shape {
    const char *group, *group_too; /* members; NULL: none */
    const char *topic, *topic_too;
    const char *list;
    const struct rp_body_shape *element;
    uint8_t group_naming, topic_naming;
} rp_body_shape;

typedef struct rp_request_rule {
    int32_t code;
    uint16_t actions;
    uint16_t retry_actions; /* for RP_NAMES_TOPIC_OR_GROUP, if the right is on the group; 0: the same as actions */
    bool is_cluster;        /* the resource is the cluster; if none is named, the broker's */
    rp_named_field fields[3];
    const rp_body_shape *body;
} rp_request_rule;

/* Returns the rule, static storage; NULL: the code needs no right. */
const rp_request_rule *rp_request_rule_of(int32_t code);

#endif
