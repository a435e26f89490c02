/* requested_rights.c: see requested_rights.h. */
#include "requested_rights.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/slice_inl.h"
#include "../remoting/json_reader.h"
#include "auth_table.h"

#define RETRY_PREFIX "%RETRY%"
#define RETRY_PREFIX_SIZE (sizeof RETRY_PREFIX - 1)

/* What a name stands for. */
enum naming {
    CLUSTER = 1,
    TOPIC,                /* whatever it is called */
    TOPIC_OR_GROUP,       /* a retry topic: the right is on its group */
    TOPIC_UNLESS_RETRY,   /* a retry topic: nothing, its group is named beside it */
    GROUP,
    GROUP_OF_RETRY,       /* may be written as its retry topic */
};

enum presence {
    REQUIRED, /* absent: a resource without a name, which only entries for all of them match */
    OPTIONAL, /* absent: nothing */
    NOT_BLANK /* absent or blank: nothing */
};

typedef struct named_field {
    const char *key;
    uint8_t naming;
    uint8_t presence;
    char separator; /* not 0: several names */
} named_field;

/* A JSON object with names in it, and lists of such objects. */
typedef struct body_shape {
    const char *group, *group_too; /* members; NULL: there is none */
    const char *topic, *topic_too;
    const char *list;
    const struct body_shape *element;
    uint8_t group_naming, topic_naming;
} body_shape;

typedef struct rule {
    int32_t code;
    uint16_t actions;
    uint16_t retry_actions; /* of TOPIC_OR_GROUP, when the right is on the group; 0: the same */
    bool is_cluster;        /* without a named one, it is the broker's */
    named_field fields[3];
    const body_shape *body;
} rule;

#define PUB RP_ACTION_PUB
#define SUB RP_ACTION_SUB
#define CREATE RP_ACTION_CREATE
#define UPDATE RP_ACTION_UPDATE
#define DELETE RP_ACTION_DELETE
#define GET RP_ACTION_GET

static const body_shape subscription = {.topic = "topic", .topic_naming = TOPIC_UNLESS_RETRY};
static const body_shape consumer = {
    .group = "groupName", .group_naming = GROUP_OF_RETRY, .list = "subscriptionDataSet", .element = &subscription};
static const body_shape heartbeat = {.list = "consumerDataSet", .element = &consumer};
static const body_shape queue = {.topic = "topic", .topic_naming = TOPIC_UNLESS_RETRY};
static const body_shape lock_batch = {.group = "consumerGroup", .group_naming = GROUP_OF_RETRY, .list = "mqSet", .element = &queue};
static const body_shape batch_ack = {
    .group = "c", .group_too = "consumerGroup", .group_naming = GROUP, .topic = "t", .topic_too = "topic", .topic_naming = TOPIC_OR_GROUP};
static const body_shape batch_acks = {.list = "acks", .element = &batch_ack};
static const body_shape topic_config = {.topic = "topicName", .topic_naming = TOPIC_OR_GROUP};
static const body_shape topic_configs = {.list = "topicConfigList", .element = &topic_config};
static const body_shape group_config = {.group = "groupName", .group_naming = GROUP};
static const body_shape request_mode = {.group = "consumerGroup", .group_naming = GROUP, .topic = "topic", .topic_naming = TOPIC_OR_GROUP};
static const body_shape group_configs = {.list = "groupConfigList", .element = &group_config};

#define ONE(key, naming, presence) {{key, naming, presence, 0}}
#define GROUP_AND_TOPIC(group) {{group, GROUP, REQUIRED, 0}, {"topic", TOPIC_OR_GROUP, REQUIRED, 0}}
#define TOPIC_AND_GROUP(group) {{"topic", TOPIC_OR_GROUP, REQUIRED, 0}, {group, GROUP, REQUIRED, 0}}
#define CONSUMED {{"topic", TOPIC_UNLESS_RETRY, REQUIRED, 0}, {"consumerGroup", GROUP_OF_RETRY, REQUIRED, 0}}
#define OF_TOPIC(code, action) {code, action, 0, false, ONE("topic", TOPIC_OR_GROUP, REQUIRED), NULL}
#define OF_CLUSTER(code, action) {code, action, 0, true, {{NULL, 0, 0, 0}}, NULL}
#define OF_NAMED_CLUSTER(code, action, key, presence) {code, action, 0, true, ONE(key, CLUSTER, presence), NULL}

/* By code. What stands after "stricter" is not in RocketMQ. */
static const rule rules[] = {
    {10, PUB, SUB, false, ONE("topic", TOPIC_OR_GROUP, REQUIRED), NULL},
    {11, SUB, 0, false, CONSUMED, NULL},
    {12, SUB | GET, 0, false, ONE("topic", TOPIC, REQUIRED), NULL},
    {14, SUB | GET, 0, false, CONSUMED, NULL},
    {15, SUB | UPDATE, 0, false, CONSUMED, NULL},
    OF_TOPIC(17, CREATE),
    {18, CREATE, 0, false, {{NULL, 0, 0, 0}}, &topic_configs}, /* stricter: as 17 */
    OF_CLUSTER(25, UPDATE), /* stricter: the configuration says who may what */
    OF_TOPIC(29, GET),
    OF_TOPIC(30, GET),
    OF_TOPIC(31, GET),
    OF_TOPIC(32, GET),
    {33, GET, 0, false, ONE("topic", TOPIC_OR_GROUP, OPTIONAL), NULL},
    {34, SUB, 0, false, {{NULL, 0, 0, 0}}, &heartbeat},
    {35, SUB, 0, false, ONE("consumerGroup", GROUP_OF_RETRY, NOT_BLANK), NULL},
    {36, SUB, 0, false, ONE("group", GROUP_OF_RETRY, REQUIRED), NULL},
    {37, PUB, 0, false, ONE("topic", TOPIC, NOT_BLANK), NULL},
    {38, SUB | GET, 0, false, ONE("consumerGroup", GROUP_OF_RETRY, REQUIRED), NULL},
    {39, PUB, 0, false, ONE("topic", TOPIC_OR_GROUP, OPTIONAL), NULL},
    {40, SUB, 0, false, ONE("consumerGroup", GROUP, REQUIRED), NULL},
    {41, SUB, 0, false, {{NULL, 0, 0, 0}}, &lock_batch},
    {42, SUB, 0, false, {{NULL, 0, 0, 0}}, &lock_batch},
    OF_CLUSTER(100, UPDATE),
    OF_CLUSTER(101, GET),
    OF_CLUSTER(102, UPDATE),
    OF_NAMED_CLUSTER(103, UPDATE, "clusterName", REQUIRED),
    OF_NAMED_CLUSTER(104, UPDATE, "clusterName", REQUIRED),
    {105, PUB | SUB | GET, SUB | GET, false, ONE("topic", TOPIC_OR_GROUP, REQUIRED), NULL},
    {200, UPDATE, 0, false, {{NULL, 0, 0, 0}}, &group_config}, /* stricter: as 207 */
    {202, GET, 0, false, ONE("topic", TOPIC_OR_GROUP, REQUIRED), NULL},
    {203, GET, 0, false, ONE("consumerGroup", GROUP, REQUIRED), NULL},
    OF_CLUSTER(204, GET),
    OF_CLUSTER(205, UPDATE),
    {207, DELETE, 0, false, ONE("groupName", GROUP, REQUIRED), NULL},
    {208,
     GET,
     0,
     false,
     {{"consumerGroup", GROUP, REQUIRED, 0}, {"topic", TOPIC_OR_GROUP, OPTIONAL, 0}, {"topicList", TOPIC_OR_GROUP, OPTIONAL, ';'}},
     NULL},
    OF_TOPIC(215, DELETE),
    OF_NAMED_CLUSTER(216, UPDATE, "clusterName", OPTIONAL),
    OF_CLUSTER(217, UPDATE),
    OF_CLUSTER(219, GET),
    {222, UPDATE, 0, false, GROUP_AND_TOPIC("group"), NULL},
    {223, GET, 0, false, TOPIC_AND_GROUP("group"), NULL},
    {225, UPDATE, 0, false, {{NULL, 0, 0, 0}}, &group_configs}, /* stricter: as 200 */
    OF_TOPIC(300, GET),
    {303, GET, 0, false, TOPIC_AND_GROUP("group"), NULL},
    {307, GET, 0, false, ONE("consumerGroup", GROUP, REQUIRED), NULL},
    {308,
     GET,
     0,
     false,
     {{"filterGroups", GROUP, OPTIONAL, ','}, {"compareGroup", GROUP, REQUIRED, 0}, {"topic", TOPIC_OR_GROUP, REQUIRED, 0}},
     NULL},
    {309, SUB, 0, false, {{"consumerGroup", GROUP, REQUIRED, 0}, {"topic", TOPIC_OR_GROUP, OPTIONAL, 0}}, NULL},
    {310, PUB, SUB, false, ONE("b", TOPIC_OR_GROUP, REQUIRED), NULL},
    {314, UPDATE, 0, false, {{"destGroup", GROUP, REQUIRED, 0}, {"topic", TOPIC_OR_GROUP, OPTIONAL, 0}}, NULL},
    OF_CLUSTER(315, GET),
    OF_CLUSTER(317, GET),
    OF_CLUSTER(318, UPDATE), /* stricter: as 25 */
    {320, PUB, SUB, false, ONE("b", TOPIC_OR_GROUP, REQUIRED), NULL},
    {321, GET, 0, false, {{"topic", TOPIC_OR_GROUP, OPTIONAL, 0}, {"consumerGroup", GROUP, OPTIONAL, 0}}, NULL},
    OF_NAMED_CLUSTER(322, GET, "clusterName", REQUIRED),
    {323, UPDATE, 0, false, ONE("topic", TOPIC_OR_GROUP, OPTIONAL), NULL},
    {326, SUB, 0, false, GROUP_AND_TOPIC("producerGroup"), NULL},
    OF_CLUSTER(327, UPDATE),
    OF_CLUSTER(328, GET),
    {343, GET, 0, false, ONE("group", GROUP, REQUIRED), NULL},
    {345, GET, 0, false, {{"group", GROUP, REQUIRED, 0}, {"topic", TOPIC_OR_GROUP, OPTIONAL, 0}}, NULL},
    OF_TOPIC(351, GET),
    {352, GET, 0, false, ONE("group", GROUP, REQUIRED), NULL},
    {353, UPDATE, 0, false, GROUP_AND_TOPIC("group"), NULL},
    OF_TOPIC(354, GET),
    OF_CLUSTER(355, GET),
    {361, SUB, 0, false, CONSUMED, NULL}, /* stricter: as 11 */
    {370, PUB, 0, false, ONE("topic", TOPIC, REQUIRED), NULL},
    {401, UPDATE, 0, false, {{NULL, 0, 0, 0}}, &request_mode}, /* stricter: as 200 */
    OF_NAMED_CLUSTER(901, GET, "clusterName", REQUIRED),
    OF_CLUSTER(902, UPDATE),
    OF_NAMED_CLUSTER(903, UPDATE, "brokerClusterName", REQUIRED),
    OF_NAMED_CLUSTER(904, UPDATE, "clusterName", REQUIRED),
    OF_CLUSTER(905, UPDATE),
    OF_CLUSTER(906, UPDATE),
    OF_CLUSTER(908, UPDATE),
    OF_CLUSTER(1001, UPDATE),
    OF_NAMED_CLUSTER(1002, UPDATE, "clusterName", REQUIRED),
    OF_NAMED_CLUSTER(1003, UPDATE, "clusterName", OPTIONAL),
    OF_CLUSTER(1004, GET),
    OF_CLUSTER(1008, UPDATE),
    OF_NAMED_CLUSTER(1011, UPDATE, "clusterName", OPTIONAL),
    OF_NAMED_CLUSTER(1012, GET, "clusterName", OPTIONAL),
    OF_NAMED_CLUSTER(1013, UPDATE, "clusterName", OPTIONAL),
    OF_CLUSTER(3001, UPDATE),
    OF_CLUSTER(3002, UPDATE),
    OF_CLUSTER(3003, UPDATE),
    OF_CLUSTER(3004, GET),
    OF_CLUSTER(3005, GET),
    OF_CLUSTER(3006, UPDATE),
    OF_CLUSTER(3007, UPDATE),
    OF_CLUSTER(3008, UPDATE),
    OF_CLUSTER(3009, GET),
    OF_CLUSTER(3010, GET),
    {200050, SUB, 0, false, GROUP_AND_TOPIC("consumerGroup"), NULL},
    {200051, SUB, 0, false, GROUP_AND_TOPIC("consumerGroup"), NULL},
    {200052, SUB, 0, false, TOPIC_AND_GROUP("consumerGroup"), NULL},
    {200053, SUB, 0, false, GROUP_AND_TOPIC("consumerGroup"), NULL},
    {200054, SUB, 0, false, GROUP_AND_TOPIC("consumerGroup"), NULL},
    {200055, GET, 0, false, GROUP_AND_TOPIC("consumerGroup"), NULL},
    {200073, SUB, 0, false, ONE("consumerGroup", GROUP, REQUIRED), NULL},
    {200151, SUB, 0, false, {{NULL, 0, 0, 0}}, &batch_acks}, /* stricter: as 200051 */
};
#define RULE_COUNT (sizeof rules / sizeof rules[0])

static int compare_code(const void *code, const void *candidate) {
    int32_t wanted = *(const int32_t *)code, found = ((const rule *)candidate)->code;
    return wanted < found ? -1 : wanted > found;
}

typedef struct asking {
    const rule *rule;
    rp_slice cluster_name;
    int (*visit)(void *context, const rp_requested_right *right);
    void *context;
    uint32_t shown;
} asking;

static int show(asking *asked, uint8_t resource_type, uint32_t actions, rp_slice name) {
    if (asked->shown++ == RP_REQUESTED_RIGHTS_MAX) {
        return RP_E_TOO_LARGE;
    }
    const rp_requested_right right = {resource_type, actions, name};
    return asked->visit(asked->context, &right);
}

static bool is_retry_topic(rp_slice name) {
    return name.size >= RETRY_PREFIX_SIZE && memcmp(name.data, RETRY_PREFIX, RETRY_PREFIX_SIZE) == 0;
}

static int show_group_of_retry(asking *asked, uint32_t actions, rp_slice name) {
    rp_slice group = is_retry_topic(name) ? (rp_slice){name.data + RETRY_PREFIX_SIZE, name.size - RETRY_PREFIX_SIZE} : name;
    return show(asked, RP_RESOURCE_GROUP, actions, group);
}

static int show_named(asking *asked, uint8_t naming, rp_slice name) {
    const rule *of = asked->rule;
    switch (naming) {
    case CLUSTER:
        return show(asked, RP_RESOURCE_CLUSTER, of->actions, name);
    case GROUP:
        return show(asked, RP_RESOURCE_GROUP, of->actions, name);
    case GROUP_OF_RETRY:
        return show_group_of_retry(asked, of->actions, name);
    case TOPIC_UNLESS_RETRY:
        return is_retry_topic(name) ? RP_OK : show(asked, RP_RESOURCE_TOPIC, of->actions, name);
    case TOPIC_OR_GROUP:
        if (is_retry_topic(name)) {
            return show_group_of_retry(asked, of->retry_actions != 0 ? of->retry_actions : of->actions, name);
        }
        return show(asked, RP_RESOURCE_TOPIC, of->actions, name);
    default:
        return show(asked, RP_RESOURCE_TOPIC, of->actions, name);
    }
}

/* ---- fields ---- */

/* As signature.h says, a field may be there twice with the same value. */
static int find_field(const rp_command *command, const char *name, rp_slice *value) {
    uint32_t size = (uint32_t)strlen(name);
    bool is_found = false, differ = false;
    *value = (rp_slice){NULL, 0};
    for (uint32_t i = 0; i < command->field_count; i++) {
        const rp_field *field = &command->fields[i];
        if (field->key.size == size && memcmp(field->key.data, name, size) == 0) {
            differ |= is_found && !rp_slice_equals(*value, field->value);
            *value = field->value;
            is_found = true;
        }
    }
    return differ ? RP_E_PROTOCOL : RP_OK;
}

static bool is_blank(rp_slice text) {
    for (uint32_t i = 0; i < text.size; i++) {
        if (text.data[i] > ' ') {
            return false;
        }
    }
    return true;
}

static int show_each(asking *asked, const named_field *field, rp_slice names) {
    const uint8_t *at = names.data, *end = names.data + names.size;
    while (at < end) {
        const uint8_t *stop = memchr(at, field->separator, (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        int status = stop > at ? show_named(asked, field->naming, (rp_slice){at, (uint32_t)(stop - at)}) : RP_OK;
        if (status != RP_OK) {
            return status;
        }
        at = stop + 1;
    }
    return RP_OK;
}

static int show_field(asking *asked, const rp_command *command, const named_field *field) {
    rp_slice value;
    int status = find_field(command, field->key, &value);
    if (status != RP_OK) {
        return status;
    }
    if ((value.data == NULL && field->presence != REQUIRED) || (field->presence == NOT_BLANK && is_blank(value))) {
        return RP_OK;
    }
    return field->separator != 0 ? show_each(asked, field, value) : show_named(asked, field->naming, value);
}

static int show_fields(asking *asked, const rp_command *command) {
    const rule *of = asked->rule;
    for (uint32_t i = 0; i < sizeof of->fields / sizeof of->fields[0] && of->fields[i].key != NULL; i++) {
        int status = show_field(asked, command, &of->fields[i]);
        if (status != RP_OK) {
            return status;
        }
    }
    return of->is_cluster && asked->shown == 0 ? show(asked, RP_RESOURCE_CLUSTER, of->actions, asked->cluster_name) : RP_OK;
}

/* ---- bodies ----
 *
 * Whoever answers the request reads its body again, by fastjson's rules (rocketpy/remoting/json_codec.py), which are wider: it must not find
 * names there that were not shown here. What only those rules allow is no JSON to the reader here; a reference, which is, is refused. */

#define REFERENCE "$ref"

static bool is_member(rp_slice name, const char *one, const char *other) {
    return (one != NULL && rp_slice_is(name, one)) || (other != NULL && rp_slice_is(name, other));
}

static int show_object(asking *asked, rp_json *json, const body_shape *shape);

static int show_list(asking *asked, rp_json *json, const body_shape *element) {
    int status = rp_json_enter(json, '['), more;
    if (status != RP_OK) {
        return status == RP_E_NOT_FOUND ? RP_OK : status;
    }
    while ((more = rp_json_next_element(json)) > 0) {
        status = show_object(asked, json, element);
        if (status != RP_OK) {
            return status;
        }
    }
    return more;
}

static int show_text(asking *asked, rp_json *json, uint8_t naming) {
    rp_slice name;
    int status = rp_json_read_text(json, &name);
    return status != RP_OK ? status : show_named(asked, naming, name);
}

static int show_member(asking *asked, rp_json *json, const body_shape *shape, rp_slice name, bool *names_group) {
    rp_slice passed;
    if (rp_slice_is(name, REFERENCE)) {
        return RP_E_PROTOCOL;
    }
    if (is_member(name, shape->group, shape->group_too)) {
        *names_group = true;
        return show_text(asked, json, shape->group_naming);
    }
    if (is_member(name, shape->topic, shape->topic_too)) {
        return show_text(asked, json, shape->topic_naming);
    }
    return is_member(name, shape->list, NULL) ? show_list(asked, json, shape->element) : rp_json_read(json, &passed);
}

/* Of a member that is there twice both are shown, whichever is read later on. A shape's lists are three deep at most. */
static int show_object(asking *asked, rp_json *json, const body_shape *shape) {
    rp_slice name;
    bool names_group = false;
    int status = rp_json_enter(json, '{'), more;
    if (status != RP_OK) {
        return RP_E_PROTOCOL;
    }
    while ((more = rp_json_next_member(json, &name)) > 0) {
        status = show_member(asked, json, shape, name, &names_group);
        if (status != RP_OK) {
            return status;
        }
    }
    if (more < 0) {
        return more;
    }
    return shape->group != NULL && !names_group ? show_named(asked, shape->group_naming, (rp_slice){NULL, 0}) : RP_OK;
}

int rp_requested_rights(const rp_command *command, rp_slice cluster_name, rp_arena *arena,
                        int (*visit)(void *context, const rp_requested_right *right), void *context) {
    const rule *of = bsearch(&command->code, rules, RULE_COUNT, sizeof rules[0], compare_code);
    if (of == NULL) {
        return RP_OK;
    }
    asking asked = {of, cluster_name, visit, context, 0};
    if (of->body != NULL && command->body.size == 0) {
        return RP_E_PROTOCOL;
    }
    if (of->body != NULL) {
        rp_json json = rp_json_of(command->body, arena);
        int status = show_object(&asked, &json, of->body);
        return status != RP_OK || rp_json_is_over(&json) ? status : RP_E_PROTOCOL;
    }
    return show_fields(&asked, command);
}
