/* auth_rights_test.c: which ACL entry decides, and which rights a request needs. */
#include <arpa/inet.h>
#include <string.h>

#include "../../../csrc/auth/auth_table.h"
#include "../../../csrc/auth/requested_rights.h"
#include "../../../csrc/auth/rights.h"
#include "check.h"

static rp_slice text(const char *string) { return (rp_slice){(const uint8_t *)string, (uint32_t)strlen(string)}; }

static rp_address address_of(const char *numbers) {
    struct sockaddr_storage socket_address;
    uint32_t size;
    rp_address address;
    CHECK(rp_address_parse(numbers, 1, &socket_address, &size) == RP_OK);
    rp_address_from_socket(&address, &socket_address);
    return address;
}

/* ---- rights ---- */

#define ENTRIES_MAX 16

static rp_acl_entry entries[ENTRIES_MAX];
static rp_slice sources[ENTRIES_MAX];
static uint32_t entry_count;

/* "Topic:a*", "Group:*", "*", … as mqadmin writes them; source NULL: from everywhere. */
static void add(int is_default, const char *resource, uint32_t actions, const char *source, int is_deny) {
    rp_acl_entry *entry = &entries[entry_count];
    const char *name = strchr(resource, ':');
    size_t size = name != NULL ? strlen(name + 1) : 0;
    *entry = (rp_acl_entry){.is_default = (uint8_t)is_default, .is_deny = (uint8_t)is_deny, .actions = actions};
    entry->resource_type = resource[0] == 'T'   ? RP_RESOURCE_TOPIC
                           : resource[0] == 'G' ? RP_RESOURCE_GROUP
                           : resource[0] == 'C' ? RP_RESOURCE_CLUSTER
                                                : RP_RESOURCE_ANY;
    entry->pattern = name == NULL || strcmp(name, ":*") == 0 ? RP_PATTERN_ANY
                     : name[size] == '*'                     ? RP_PATTERN_PREFIXED
                                                             : RP_PATTERN_LITERAL;
    if (entry->pattern != RP_PATTERN_ANY) {
        entry->name = (rp_slice){(const uint8_t *)name + 1, (uint32_t)size - (entry->pattern == RP_PATTERN_PREFIXED)};
    }
    if (source != NULL) {
        sources[entry_count] = text(source);
        entry->sources = &sources[entry_count];
        entry->source_count = 1;
    }
    entry_count++;
}

static enum rp_verdict judge_from(uint8_t type, const char *name, uint32_t actions, const char *source) {
    rp_rights *rights;
    rp_address address = address_of(source);
    CHECK(rp_rights_make(entries, entry_count, &rights, NULL) == RP_OK);
    enum rp_verdict verdict = rp_rights_judge(rights, type, name != NULL ? text(name) : (rp_slice){NULL, 0}, actions, &address);
    rp_rights_release(rights);
    return verdict;
}

static enum rp_verdict judge(const char *topic) { return judge_from(RP_RESOURCE_TOPIC, topic, RP_ACTION_PUB, "10.1.2.3"); }

/* Of two entries that both match topic "abc", the first decides, in whatever order they are given and whichever of them denies. */
static void check_before(int is_default_first, const char *first, int is_default_second, const char *second) {
    for (int swapped = 0; swapped < 2; swapped++) {
        for (int first_denies = 0; first_denies < 2; first_denies++) {
            entry_count = 0;
            if (swapped) {
                add(is_default_second, second, RP_ACTION_PUB, NULL, !first_denies);
            }
            add(is_default_first, first, RP_ACTION_PUB, NULL, first_denies);
            if (!swapped) {
                add(is_default_second, second, RP_ACTION_PUB, NULL, !first_denies);
            }
            CHECK(judge("abc") == (first_denies ? RP_VERDICT_DENY : RP_VERDICT_ALLOW));
        }
    }
}

static void the_more_special_entry_decides(void) {
    check_before(0, "Topic:abc", 0, "Topic:abc*");
    check_before(0, "Topic:abc", 0, "Topic:*");
    check_before(0, "Topic:abc", 0, "*");
    check_before(0, "Topic:abc*", 0, "Topic:ab*");
    check_before(0, "Topic:ab*", 0, "Topic:a*");
    check_before(0, "Topic:a*", 0, "Topic:*");
    check_before(0, "Topic:a*", 0, "*");
    check_before(0, "Topic:*", 0, "*");
    check_before(0, "*", 1, "Topic:abc");
    check_before(0, "Topic:a*", 1, "Topic:abc");
    check_before(1, "Topic:abc", 1, "Topic:a*");
}

static void deny_comes_before_allow(void) {
    static const char *const resources[] = {"Topic:abc", "Topic:a*", "Topic:*", "*"};
    for (uint32_t i = 0; i < 4; i++) {
        for (int order = 0; order < 2; order++) {
            entry_count = 0;
            add(0, resources[i], RP_ACTION_PUB, NULL, order);
            add(0, resources[i], RP_ACTION_PUB, NULL, !order);
            CHECK(judge("abc") == RP_VERDICT_DENY);
        }
    }
}

static void what_does_not_match_does_not_decide(void) {
    entry_count = 0;
    CHECK(judge("abc") == RP_VERDICT_NO_MATCH);
    add(0, "Topic:abc", RP_ACTION_SUB, NULL, 1);
    add(0, "Group:abc", RP_ACTION_ALL, NULL, 1);
    add(0, "Topic:abcd", RP_ACTION_ALL, NULL, 1);
    add(0, "Topic:abcd*", RP_ACTION_ALL, NULL, 1);
    add(0, "Topic:ab", RP_ACTION_ALL, NULL, 1);
    add(0, "Topic:abc", 0, NULL, 1);
    add(0, "*", RP_ACTION_ALL, "10.1.2.4", 1);
    CHECK(judge("abc") == RP_VERDICT_NO_MATCH);
    add(1, "Topic:ab*", RP_ACTION_ALL, NULL, 0);
    CHECK(judge("abc") == RP_VERDICT_ALLOW);
    CHECK(judge("abcd") == RP_VERDICT_DENY);
    CHECK(judge_from(RP_RESOURCE_TOPIC, "abc", RP_ACTION_PUB | RP_ACTION_SUB, "10.1.2.3") == RP_VERDICT_DENY);
}

static void a_resource_without_a_name_is_one_of_all(void) {
    entry_count = 0;
    add(0, "Topic:null", RP_ACTION_ALL, NULL, 0);
    add(0, "Topic:n*", RP_ACTION_ALL, NULL, 0);
    CHECK(judge(NULL) == RP_VERDICT_NO_MATCH);
    add(0, "Topic:*", RP_ACTION_ALL, NULL, 0);
    CHECK(judge(NULL) == RP_VERDICT_ALLOW);
}

static int is_from(const char *network, const char *source) {
    entry_count = 0;
    add(0, "*", RP_ACTION_ALL, network, 0);
    return judge_from(RP_RESOURCE_GROUP, "g", RP_ACTION_SUB, source) == RP_VERDICT_ALLOW;
}

static void a_source_is_an_address_or_a_network(void) {
    CHECK(is_from("10.1.2.3", "10.1.2.3") && !is_from("10.1.2.3", "10.1.2.4"));
    CHECK(is_from("10.1.2.0/24", "10.1.2.255") && !is_from("10.1.2.0/24", "10.1.3.0"));
    CHECK(is_from("10.1.2.128/25", "10.1.2.200") && !is_from("10.1.2.128/25", "10.1.2.127"));
    CHECK(is_from("0.0.0.0/0", "255.1.2.3") && !is_from("0.0.0.0/0", "::1"));
    CHECK(is_from("10.1.2.3/32", "10.1.2.3") && !is_from("10.1.2.3/32", "10.1.2.2"));
    CHECK(is_from("::1", "0:0:0:0:0:0:0:1") && is_from("fe80::/10", "febf::1") && !is_from("fe80::/10", "fec0::1"));
    CHECK(is_from("::/0", "2001:db8::1") && !is_from("::/0", "1.2.3.4"));
    CHECK(is_from("::ffff:10.0.0.0/104", "10.9.9.9") && is_from("10.9.9.9", "::ffff:10.9.9.9"));
}

static void entries_that_are_none_are_refused(void) {
    static const char *const no_sources[] = {"",
                                             "/8",
                                             "10.1.2",
                                             "10.1.2.3/33",
                                             "10.1.2.3/-1",
                                             "10.1.2.3/",
                                             "10.1.2.3/8/8",
                                             "host",
                                             "1.2.3.4 ",
                                             "::ffff:1.2.3.4/95",
                                             "10.1.2.3/00000000008"};
    rp_rights *rights;
    rp_error error;
    for (uint32_t i = 0; i < sizeof no_sources / sizeof no_sources[0]; i++) {
        entry_count = 0;
        add(0, "*", RP_ACTION_ALL, NULL, 0);
        add(0, "*", RP_ACTION_ALL, no_sources[i], 0);
        CHECK(rp_rights_make(entries, 2, &rights, &error) == RP_E_INVALID && error.offset == 1);
    }
    rp_slice with_nul = {(const uint8_t *)"10.1.2.3\0/8", 11};
    entries[1].sources = &with_nul;
    CHECK(rp_rights_make(entries, 2, &rights, &error) == RP_E_INVALID);
    entries[1] = (rp_acl_entry){.resource_type = 6, .pattern = RP_PATTERN_ANY};
    CHECK(rp_rights_make(entries, 2, &rights, &error) == RP_E_INVALID);
    entries[1] = (rp_acl_entry){.resource_type = RP_RESOURCE_TOPIC, .pattern = 4};
    CHECK(rp_rights_make(entries, 2, &rights, &error) == RP_E_INVALID);
    entries[1] = (rp_acl_entry){.resource_type = RP_RESOURCE_TOPIC, .pattern = RP_PATTERN_ANY, .actions = 1 << 10};
    CHECK(rp_rights_make(entries, 2, &rights, &error) == RP_E_INVALID);
    entries[1] = (rp_acl_entry){
        .resource_type = RP_RESOURCE_TOPIC, .pattern = RP_PATTERN_LITERAL, .name = {(const uint8_t *)"", RP_AUTH_NAME_MAX + 1}};
    CHECK(rp_rights_make(entries, 2, &rights, &error) == RP_E_TOO_LARGE);
    CHECK(rp_rights_make(entries, RP_AUTH_ENTRIES_MAX + 1, &rights, &error) == RP_E_TOO_LARGE);
}

/* ---- what requests ask for ---- */

static rp_arena *arena;
static rp_command command;
static char asked[4096];

static int note(void *context, const rp_requested_right *right) {
    (void)context;
    size_t size = strlen(asked);
    snprintf(asked + size, sizeof asked - size, "%s%c:%.*s %x", size > 0 ? ", " : "", "?ACNTG"[right->resource_type],
             right->name.data != NULL ? (int)right->name.size : 4, right->name.data != NULL ? (const char *)right->name.data : "NULL",
             right->actions);
    return 0;
}

/* fields: "key=value key=value". */
static int ask(int32_t code, const char *fields, const char *body) {
    static char copy[4096];
    snprintf(copy, sizeof copy, "%s", fields);
    rp_command_clear(&command, code, RP_SERIALIZE_JSON);
    for (char *rest, *field = strtok_r(copy, " ", &rest); field != NULL; field = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(field, '=');
        *equals = '\0';
        CHECK(rp_command_add_field(&command, text(field), text(equals + 1)) == RP_OK);
    }
    command.body = body != NULL ? text(body) : (rp_slice){NULL, 0};
    asked[0] = '\0';
    rp_arena_reset(arena);
    return rp_requested_rights(&command, text("here"), arena, note, NULL);
}

/* Actions in hexadecimal: Pub 8, Sub 10, Create 20, Update 40, Delete 80, Get 100. */
static void check_asks(int32_t code, const char *fields, const char *body, const char *expected) {
    int status = ask(code, fields, body);
    if (status != RP_OK || strcmp(asked, expected) != 0) {
        fprintf(stderr, "request %d with %s %s: status %d, asks for \"%s\", not \"%s\"\n", code, fields, body != NULL ? body : "", status,
                asked, expected);
        exit(1);
    }
}

static void messages_ask_for_their_topic_or_group(void) {
    check_asks(10, "topic=t group=g", NULL, "T:t 8");
    check_asks(10, "topic=%RETRY%g group=other", NULL, "G:g 10");
    check_asks(310, "a=g b=t topic=other", NULL, "T:t 8");
    check_asks(310, "b=%RETRY%g a=other", NULL, "G:g 10");
    check_asks(310, "b=%DLQ%g", NULL, "T:%DLQ%g 8");
    check_asks(310, "a=g", NULL, "T:NULL 8");
    check_asks(310, "a=g b=t c=x a=g b=t", NULL, "T:t 8");
    check_asks(320, "b=t", NULL, "T:t 8");
    check_asks(36, "group=g originTopic=t", NULL, "G:g 10");
    check_asks(37, "topic=t", NULL, "T:t 8");
    check_asks(37, "producerGroup=g", NULL, "");
    check_asks(370, "topic=t", NULL, "T:t 8");
    for (uint32_t i = 0; i < 2; i++) {
        check_asks(i == 0 ? 11 : 361, "topic=t consumerGroup=g", NULL, "T:t 10, G:g 10");
        check_asks(i == 0 ? 11 : 361, "topic=%RETRY%g consumerGroup=g", NULL, "G:g 10");
    }
    check_asks(12, "topic=t", NULL, "T:t 110");
    check_asks(200050, "consumerGroup=g topic=t", NULL, "G:g 10, T:t 10");
    check_asks(200050, "consumerGroup=g topic=%RETRY%x", NULL, "G:g 10, G:x 10");
    check_asks(200051, "topic=t consumerGroup=g", NULL, "G:g 10, T:t 10");
    check_asks(200052, "topic=t consumerGroup=g", NULL, "T:t 10, G:g 10");
    check_asks(200151, "", "{\"acks\":[{\"c\":\"g\",\"t\":\"t\"},{\"consumerGroup\":\"h\",\"topic\":\"u\"}]}",
               "G:g 10, T:t 10, G:h 10, T:u 10");
}

static void lite_topics_ask_for_their_parent_and_group(void) {
    check_asks(200070, "consumerGroup=g topic=t clientId=c", NULL, "G:g 10, T:t 10");
    check_asks(200051, "topic=t consumerGroup=g liteTopic=x", NULL, "G:g 10, T:t 10");
    check_asks(200053, "topic=t consumerGroup=g liteTopic=x", NULL, "G:g 10, T:t 10");
    check_asks(200071, "",
               "{\"subscriptionSet\":[{\"action\":\"COMPLETE_ADD\",\"group\":\"g\",\"topic\":\"t\",\"liteTopicSet\":[\"x\"]},"
               "{\"topic\":\"u\",\"group\":\"h\",\"topic\":\"v\"}]}",
               "G:g 10, T:t 10, T:u 10, G:h 10, T:v 10");
    check_asks(200071, "", "{\"subscriptionSet\":[{\"topic\":\"t\"}]}", "T:t 10, G:NULL 10");
    check_asks(200074, "", NULL, "C:here 100");
    check_asks(200075, "topic=t", NULL, "T:t 100");
    check_asks(200076, "parentTopic=t liteTopic=x", NULL, "T:t 100");
    check_asks(200077, "parentTopic=t group=g clientId=c", NULL, "G:g 100, T:t 100");
    check_asks(200078, "group=g liteTopic=x", NULL, "G:g 100");
    check_asks(200079, "group=g clientId=c", NULL, "G:g 40");
}

static void consumers_ask_for_their_groups(void) {
    check_asks(14, "topic=t consumerGroup=g", NULL, "T:t 110, G:g 110");
    check_asks(15, "topic=%RETRY%g consumerGroup=g", NULL, "G:g 50");
    check_asks(35, "consumerGroup=g producerGroup=p", NULL, "G:g 10");
    check_asks(35, "producerGroup=p", NULL, "");
    check_asks(38, "consumerGroup=g", NULL, "G:g 110");
    check_asks(34, "",
               "{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"g\",\"unitMode\":false,\"subscriptionDataSet\":[{\"topic\":\"t\","
               "\"tagsSet\":[\"a\"]},{\"topic\":\"%RETRY%g\"}]},{\"groupName\":\"h\"}],\"producerDataSet\":[{\"groupName\":\"p\"}]}",
               "G:g 10, T:t 10, G:h 10");
    check_asks(34, "", "{\"producerDataSet\":[{\"groupName\":\"p\"}]}", "");
    check_asks(41, "", "{\"consumerGroup\":\"g\",\"mqSet\":[{\"topic\":\"t\",\"queueId\":1},{\"topic\":\"%RETRY%g\"}]}", "G:g 10, T:t 10");
    check_asks(42, "", "{\"mqSet\":[]}", "G:NULL 10");
    check_asks(105, "topic=t", NULL, "T:t 118");
    check_asks(105, "topic=%RETRY%g", NULL, "G:g 110");
}

static void operators_ask_for_what_they_change(void) {
    check_asks(17, "topic=t", NULL, "T:t 20");
    check_asks(17, "topic=%RETRY%g", NULL, "G:g 20");
    check_asks(513, "topic=t", "{\"topic\":\"u\"}", "T:t 20");
    check_asks(18, "", "{\"topicConfigList\":[{\"topicName\":\"t\"},{\"topicName\":\"u\"}]}", "T:t 20, T:u 20");
    check_asks(25, "a=b", NULL, "C:here 40");
    check_asks(2001, "a=b", "group=1000", "C:here 40");
    check_asks(2002, "a=b", "group", "C:here 40");
    check_asks(306, "", NULL, "C:here 40");
    check_asks(316, "", NULL, "C:here 40");
    check_asks(329, "", NULL, "C:here 40");
    check_asks(103, "clusterName=there", NULL, "C:there 40");
    check_asks(200, "", "{\"groupName\":\"g\",\"retryQueueNums\":1}", "G:g 40");
    check_asks(207, "groupName=g", NULL, "G:g 80");
    check_asks(208, "consumerGroup=g topicList=t;;u", NULL, "G:g 100, T:t 100, T:u 100");
    check_asks(215, "topic=t", NULL, "T:t 80");
    check_asks(216, "topic=t", NULL, "C:here 40");
    check_asks(225, "", "{\"groupConfigList\":[{\"groupName\":\"g\"}]}", "G:g 40");
    check_asks(308, "filterGroups=f,h compareGroup=g topic=t", NULL, "G:f 100, G:h 100, G:g 100, T:t 100");
    check_asks(401, "", "{\"consumerGroup\":\"g\",\"mode\":\"POP\",\"topic\":\"t\"}", "G:g 40, T:t 40");
    check_asks(3001, "username=u", NULL, "C:here 40");
    check_asks(3010, "", NULL, "C:here 100");
    check_asks(21, "", NULL, "");
    check_asks(324, "topic=t", NULL, "");
    check_asks(-1, "topic=t", NULL, "");
    check_asks(INT32_MAX, "topic=t", NULL, "");
}

static void names_are_read_however_they_are_written(void) {
    check_asks(34, "", " {\"consumerDataSet\" : [ { \"groupName\" : \"\\u0067\" } ] } ", "G:g 10");
    check_asks(34, "", "{\"consumerD\\u0061taSet\":[{\"groupName\":\"a\\\"b\"}]}", "G:a\"b 10");
    check_asks(34, "", "{\"consumerDataSet\":[{\"groupName\":\"g\",\"groupName\":\"h\"}],\"consumerDataSet\":[{\"groupName\":\"i\"}]}",
               "G:g 10, G:h 10, G:i 10");
    check_asks(34, "", "{\"consumerDataSet\":null}", "");
    check_asks(34, "", "{\"consumerDataSet\":[{\"groupName\":null}]}", "G:NULL 10");
}

static void what_cannot_be_read_is_refused(void) {
    static const char *const bodies[] = {"",
                                         "[]",
                                         "null",
                                         "{",
                                         "{\"consumerDataSet\":{}}",
                                         "{\"consumerDataSet\":[1]}",
                                         "{\"consumerDataSet\":[{\"groupName\":",
                                         "{\"consumerDataSet\":[{\"groupName\":\"\\x\"}]}",
                                         "\xef\xbb\xbf{}",
                                         "{\"consumerDataSet\":[[[[[[[["};
    for (uint32_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        CHECK(ask(34, "", bodies[i]) == RP_E_PROTOCOL);
    }
    CHECK(ask(34, "", NULL) == RP_E_PROTOCOL);
    /* Bodies in which Python's reader, which reads like fastjson, would find other names: they must be refused. */
    CHECK(ask(18, "", "{\"x\":{\"topicName\":\"t\"},\"topicConfigList\":[{\"$ref\":\"$.x\"}]}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{\"x\":\"t\",\"topicConfigList\":[{\"topicName\":{\"$ref\":\"$.x\"}}]}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{\"topicConfigList\":{\"$ref\":\"$.x\"}}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{\"topicConfigList\":[{'topicName':\"t\"}]}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{\"topicConfigList\":[{topicName:\"t\"}]}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{\"topicConfigList\":[{\"topicName\":t}]}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{/**/\"topicConfigList\":[]}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{\"x\":'}','topicConfigList':[{\"topicName\":\"t\"}]}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{}{\"topicConfigList\":[{\"topicName\":\"t\"}]}") == RP_E_PROTOCOL);
    CHECK(ask(18, "", "{\"topicConfigList\":[]} \n") == RP_OK);
    CHECK(ask(310, "b=t a=g b=u", NULL) == RP_E_PROTOCOL);
    CHECK(ask(11, "topic=t consumerGroup=g consumerGroup=h", NULL) == RP_E_PROTOCOL);
    static char many[16 * (RP_REQUESTED_RIGHTS_MAX + 2) + 64];
    char *at = many + sprintf(many, "{\"mqSet\":[");
    for (uint32_t i = 0; i < RP_REQUESTED_RIGHTS_MAX + 1; i++) {
        at += sprintf(at, "%s{\"topic\":\"\"}", i > 0 ? "," : "");
    }
    sprintf(at, "]}");
    CHECK(ask(41, "", many) == RP_E_TOO_LARGE);
}

int main(void) {
    arena = rp_arena_create(65536, 1 << 20);
    CHECK(arena != NULL);
    RUN(the_more_special_entry_decides);
    RUN(deny_comes_before_allow);
    RUN(what_does_not_match_does_not_decide);
    RUN(a_resource_without_a_name_is_one_of_all);
    RUN(a_source_is_an_address_or_a_network);
    RUN(entries_that_are_none_are_refused);
    RUN(messages_ask_for_their_topic_or_group);
    RUN(lite_topics_ask_for_their_parent_and_group);
    RUN(consumers_ask_for_their_groups);
    RUN(operators_ask_for_what_they_change);
    RUN(names_are_read_however_they_are_written);
    RUN(what_cannot_be_read_is_refused);
    rp_arena_destroy(arena);
    return 0;
}
