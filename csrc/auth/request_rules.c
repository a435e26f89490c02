/* request_rules.c: see request_rules.h. RocketMQ's rules are annotations of its request headers and cases of its
 * DefaultAuthorizationContextBuilder; the order in a row is that in which it asks.
 */
#include "request_rules.h"

#include <stddef.h>
#include <stdlib.h>

#include "auth_table.h"

#define CLUSTER RP_NAMES_CLUSTER
#define TOPIC RP_NAMES_TOPIC
#define TOPIC_OR_GROUP RP_NAMES_TOPIC_OR_GROUP
#define TOPIC_UNLESS_RETRY RP_NAMES_TOPIC_UNLESS_RETRY
#define GROUP RP_NAMES_GROUP
#define GROUP_OF_RETRY RP_NAMES_GROUP_OF_RETRY
#define REQUIRED RP_REQUIRED
#define OPTIONAL RP_OPTIONAL
#define NOT_BLANK RP_NOT_BLANK
#define PUB RP_ACTION_PUB
#define SUB RP_ACTION_SUB
#define CREATE RP_ACTION_CREATE
#define UPDATE RP_ACTION_UPDATE
#define DELETE RP_ACTION_DELETE
#define GET RP_ACTION_GET

static const rp_body_shape subscription = {.topic = "topic", .topic_naming = TOPIC_UNLESS_RETRY};
static const rp_body_shape consumer = {
    .group = "groupName", .group_naming = GROUP_OF_RETRY, .list = "subscriptionDataSet", .element = &subscription};
static const rp_body_shape heartbeat = {.list = "consumerDataSet", .element = &consumer};
static const rp_body_shape queue = {.topic = "topic", .topic_naming = TOPIC_UNLESS_RETRY};
static const rp_body_shape lock_batch = {.group = "consumerGroup", .group_naming = GROUP_OF_RETRY, .list = "mqSet", .element = &queue};
static const rp_body_shape batch_ack = {
    .group = "c", .group_too = "consumerGroup", .group_naming = GROUP, .topic = "t", .topic_too = "topic", .topic_naming = TOPIC_OR_GROUP};
static const rp_body_shape batch_acks = {.list = "acks", .element = &batch_ack};
static const rp_body_shape lite_subscription = {.group = "group", .group_naming = GROUP, .topic = "topic", .topic_naming = TOPIC_OR_GROUP};
static const rp_body_shape lite_subscriptions = {.list = "subscriptionSet", .element = &lite_subscription};
static const rp_body_shape topic_config = {.topic = "topicName", .topic_naming = TOPIC_OR_GROUP};
static const rp_body_shape topic_configs = {.list = "topicConfigList", .element = &topic_config};
static const rp_body_shape group_config = {.group = "groupName", .group_naming = GROUP};
static const rp_body_shape request_mode = {
    .group = "consumerGroup", .group_naming = GROUP, .topic = "topic", .topic_naming = TOPIC_OR_GROUP};
static const rp_body_shape group_configs = {.list = "groupConfigList", .element = &group_config};

#define ONE(key, naming, presence) {{key, naming, presence, 0}}
#define GROUP_AND_TOPIC(group) {{group, GROUP, REQUIRED, 0}, {"topic", TOPIC_OR_GROUP, REQUIRED, 0}}
#define TOPIC_AND_GROUP(group) {{"topic", TOPIC_OR_GROUP, REQUIRED, 0}, {group, GROUP, REQUIRED, 0}}
#define CONSUMED {{"topic", TOPIC_UNLESS_RETRY, REQUIRED, 0}, {"consumerGroup", GROUP_OF_RETRY, REQUIRED, 0}}
#define OF_TOPIC(code, action) {code, action, 0, false, ONE("topic", TOPIC_OR_GROUP, REQUIRED), NULL}
#define OF_CLUSTER(code, action) {code, action, 0, true, {{NULL, 0, 0, 0}}, NULL}
#define OF_NAMED_CLUSTER(code, action, key, presence) {code, action, 0, true, ONE(key, CLUSTER, presence), NULL}

/* By code. What stands after "stricter" is not in RocketMQ. */
static const rp_request_rule rules[] = {
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
    OF_CLUSTER(306, UPDATE), /* stricter, as 316 and 329: what is deleted there is everybody's */
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
    OF_CLUSTER(316, UPDATE),
    OF_CLUSTER(317, GET),
    {320, PUB, SUB, false, ONE("b", TOPIC_OR_GROUP, REQUIRED), NULL},
    {321, GET, 0, false, {{"topic", TOPIC_OR_GROUP, OPTIONAL, 0}, {"consumerGroup", GROUP, OPTIONAL, 0}}, NULL},
    OF_NAMED_CLUSTER(322, GET, "clusterName", REQUIRED),
    {323, UPDATE, 0, false, ONE("topic", TOPIC_OR_GROUP, OPTIONAL), NULL},
    {326, SUB, 0, false, GROUP_AND_TOPIC("producerGroup"), NULL},
    OF_CLUSTER(327, UPDATE),
    OF_CLUSTER(328, GET),
    OF_CLUSTER(329, UPDATE),
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
    OF_TOPIC(513, CREATE), /* stricter: as 17 */
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
    OF_CLUSTER(2001, UPDATE), /* stricter, as 25: how much other groups may read */
    OF_CLUSTER(2002, UPDATE), /* stricter: the same */
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
    {200070, SUB, 0, false, GROUP_AND_TOPIC("consumerGroup"), NULL}, /* stricter: as 200050 */
    {200071, SUB, 0, false, {{NULL, 0, 0, 0}}, &lite_subscriptions}, /* stricter: the same */
    {200073, SUB, 0, false, ONE("consumerGroup", GROUP, REQUIRED), NULL},
    OF_CLUSTER(200074, GET), /* stricter, as the next five: as other requests of operators */
    OF_TOPIC(200075, GET),
    {200076, GET, 0, false, ONE("parentTopic", TOPIC_OR_GROUP, REQUIRED), NULL},
    {200077, GET, 0, false, {{"group", GROUP, REQUIRED, 0}, {"parentTopic", TOPIC_OR_GROUP, REQUIRED, 0}}, NULL},
    {200078, GET, 0, false, ONE("group", GROUP, REQUIRED), NULL},
    {200079, UPDATE, 0, false, ONE("group", GROUP, REQUIRED), NULL},
    {200151, SUB, 0, false, {{NULL, 0, 0, 0}}, &batch_acks}, /* stricter: as 200051 */
};
#define RULE_COUNT (sizeof rules / sizeof rules[0])

static int compare_code(const void *code, const void *candidate) {
    int32_t wanted = *(const int32_t *)code, found = ((const rp_request_rule *)candidate)->code;
    return wanted < found ? -1 : wanted > found;
}

const rp_request_rule *rp_request_rule_of(int32_t code) { return bsearch(&code, rules, RULE_COUNT, sizeof rules[0], compare_code); }
