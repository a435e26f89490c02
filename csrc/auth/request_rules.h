/* request_rules.h: the table behind requested_rights.h: by request code, which fields or members of its body name a resource. Internal to
 * csrc/auth.
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
    RP_NAMES_TOPIC,                /* whatever it is called */
    RP_NAMES_TOPIC_OR_GROUP,       /* a retry topic: the right is on its group */
    RP_NAMES_TOPIC_UNLESS_RETRY,   /* a retry topic: nothing, its group is named beside it */
    RP_NAMES_GROUP,
    RP_NAMES_GROUP_OF_RETRY,       /* may be written as its retry topic */
};

enum rp_presence {
    RP_REQUIRED, /* absent: a resource without a name, which only entries for all of them match */
    RP_OPTIONAL, /* absent: nothing */
    RP_NOT_BLANK /* absent or blank: nothing */
};

typedef struct rp_named_field {
    const char *key;
    uint8_t naming;
    uint8_t presence;
    char separator; /* not 0: several names */
} rp_named_field;

/* A JSON object with names in it, and lists of such objects. */
typedef struct rp_body_shape {
    const char *group, *group_too; /* members; NULL: there is none */
    const char *topic, *topic_too;
    const char *list;
    const struct rp_body_shape *element;
    uint8_t group_naming, topic_naming;
} rp_body_shape;

typedef struct rp_request_rule {
    int32_t code;
    uint16_t actions;
    uint16_t retry_actions; /* of RP_NAMES_TOPIC_OR_GROUP, when the right is on the group; 0: the same */
    bool is_cluster;        /* without a named one, it is the broker's */
    rp_named_field fields[3];
    const rp_body_shape *body;
} rp_request_rule;

/* Static storage; NULL: the code asks for no right. */
const rp_request_rule *rp_request_rule_of(int32_t code);

#endif
