/* auth_gate_test.c: which requests the gate admits: signatures, users, remarks and audit lines. */
#include "auth_fixture.h"

/* ---- signatures: expected values were computed by Python's hmac ---- */

static void the_signature_is_over_the_values_by_name_and_the_body(void) {
    struct request request;
    begin(&request, 310);
    put(&request, "i", "KEYS\001k\002");
    put(&request, "b", "topic");
    put(&request, "SecurityToken", "token");
    put(&request, "a", "group");
    request.command.body = text_slice("body");
    sign_as(&request, "alice", "12345678");
    CHECK(memcmp(request.signature, "UIWWSmy53/Id19/ol8IRcNDfOTQ=", sizeof request.signature) == 0);
    char same[RP_SIGNATURE_TEXT_SIZE];
    rp_auth_sign(text_slice("12345678"), text_slice("alicetokengrouptopicKEYS\001k\002body"), same);
    CHECK(memcmp(request.signature, same, sizeof same) == 0);
}

static void old_clients_sign_without_the_unique_key_flag(void) {
    for (int32_t version = 399; version <= 400; version++) {
        struct request request;
        begin(&request, 12);
        request.command.version = version;
        put(&request, "_UNIQUE_KEY_QUERY", "true");
        put(&request, "i", "KEYS\001k\002");
        put(&request, "b", "topic");
        put(&request, "SecurityToken", "token");
        put(&request, "a", "group");
        request.command.body = text_slice("body");
        sign_as(&request, "alice", "12345678");
        const char *expected = version == 399 ? "UIWWSmy53/Id19/ol8IRcNDfOTQ=" : "rzwjxTh1n+0ngsimZGMmmIIzXnI=";
        CHECK(memcmp(request.signature, expected, sizeof request.signature) == 0);
    }
}

static void names_are_in_the_order_of_java(void) {
    struct request request;
    begin(&request, 310);
    put(&request, "\xef\xbf\xae", "1");         /* U+FFEE */
    put(&request, "\xf0\x9f\x98\x80", "2");     /* a surrogate pair: before U+FFEE */
    put(&request, "\xc3\xa4", "3");
    put(&request, "", "4");
    sign_as(&request, "alice", "12345678");
    CHECK(memcmp(request.signature, "SLsf8AN5XKYkFkDsSZSLx3KQcbE=", sizeof request.signature) == 0);
}

static void an_order_that_is_remembered_is_checked(void) {
    static const char *const keys[] = {"a", "b", "c", "d"};
    rp_field_order order = {0};
    for (uint32_t round = 0; round < 24 * 2; round++) {
        struct request request;
        uint32_t left[] = {0, 1, 2, 3}, rest = round / 2;
        begin(&request, 310);
        for (uint32_t count = 4; count > 0; count--) {
            uint32_t taken = rest % count;
            rest /= count;
            put(&request, keys[left[taken]], keys[left[taken]]);
            memmove(&left[taken], &left[taken + 1], (count - taken - 1) * sizeof left[0]);
        }
        CHECK(rp_field_order_of(&request.command, &order) == RP_OK && order.count == 4);
        for (uint32_t i = 0; i < 4; i++) {
            CHECK(request.command.fields[order.places[i]].key.data[0] == keys[i][0]);
        }
        put(&request, "c", "again");
        CHECK(rp_field_order_of(&request.command, &order) == RP_E_PROTOCOL);
        CHECK(rp_field_order_of(&request.command, &order) == RP_E_PROTOCOL);
    }
}

/* As the Java client does in the binary encoding when it signs. */
static void the_same_field_twice_counts_once(void) {
    struct request once, twice;
    rp_field_order order = {0};
    rp_hmac_key key;
    char signature[RP_SIGNATURE_TEXT_SIZE];
    begin_send(&once, "topic");
    sign_as(&once, "alice", "12345678");
    begin_send(&twice, "topic");
    put(&twice, "b", "topic");
    put(&twice, "a", "group");
    put(&twice, "AccessKey", "alice");
    rp_hmac_key_make(&key, "12345678", 8);
    for (int round = 0; round < 2; round++) {
        CHECK(rp_field_order_of(&twice.command, &order) == RP_OK);
        rp_signature_make(&twice.command, &order, &key, signature);
        CHECK(memcmp(once.signature, signature, sizeof signature) == 0);
    }
    twice.command.fields[2].value = text_slice("other");
    CHECK(rp_field_order_of(&twice.command, &order) == RP_E_PROTOCOL);
}

/* ---- judgements ---- */

static void who_has_signed_and_may_passes(void) {
    rp_auth_table *table = open_table(NULL);
    rp_auth_reader reader = {0};
    struct request request;
    begin_send(&request, "topic");
    sign_as(&request, "alice", "12345678");
    CHECK(judge(table, &reader, 0, &request) == 0);
    begin_send(&request, "other");
    sign_as(&request, "root", "r00t");
    CHECK(judge(table, &reader, 0, &request) == 0);
    begin(&request, 28); /* a request that needs no right */
    sign_as(&request, "bob", "secret of bob");
    CHECK(judge(table, &reader, 0, &request) == 0);
    CHECK(reader.authenticated == 3 && reader.authorized == 3 && reader.unauthenticated == 0 && reader.unauthorized == 0);
    close_table(table, &reader);
}

static void refusals_say_what_rocketmq_says(void) {
    rp_log *log;
    CHECK(rp_log_create(&log) == RP_OK);
    rp_auth_table *table = open_table(log);
    rp_auth_reader reader = {0};
    struct request request;
    begin_send(&request, "topic");
    check_refused(table, &reader, &request, "username cannot be null.");
    put(&request, "AccessKey", "");
    check_refused(table, &reader, &request, "username cannot be null.");
    begin_send(&request, "topic");
    sign_as(&request, "nobody", "12345678");
    check_refused(table, &reader, &request, "User:nobody is not found.");
    begin_send(&request, "topic");
    sign_as(&request, "no user", "12345678"); /* this name has an acl, but is no user */
    check_refused(table, &reader, &request, "User:no user is not found.");
    begin_send(&request, "topic");
    sign_as(&request, "gone", "12345678");
    check_refused(table, &reader, &request, "User:gone is disabled.");
    begin_send(&request, "topic");
    sign_as(&request, "alice", "12345679");
    check_refused(table, &reader, &request, "check signature failed.");
    begin_send(&request, "x");
    sign_as(&request, "alice", "12345678");
    check_refused(table, &reader, &request, "User:alice has no permission to access Topic:x from 127.0.0.1, no matched policies.");
    begin_send(&request, "topic");
    sign_as(&request, "bob", "secret of bob");
    check_refused(table, &reader, &request, "User:bob has no permission to access Topic:topic from 127.0.0.1, the decision is deny.");
    begin(&request, 310);
    sign_as(&request, "alice", "12345678");
    check_refused(table, &reader, &request, "User:alice has no permission to access Topic:null from 127.0.0.1, no matched policies.");
    begin(&request, 34);
    sign_as(&request, "alice", "12345678");
    check_refused(table, &reader, &request, "parse authorization context error.");
    CHECK(reader.unauthenticated == 6 && reader.unauthorized == 4 && reader.authenticated == 4);
    close_table(table, &reader);
    rp_log_destroy(log);
}

/* Each bit of a request that is signed counts: whatever changes on the way is noticed. */
static void what_was_changed_after_signing_is_refused(void) {
    rp_log *log;
    CHECK(rp_log_create(&log) == RP_OK);
    rp_auth_table *table = open_table(log);
    rp_auth_reader reader = {0};
    for (uint32_t what = 0; what < 8; what++) {
        static char body[] = "body", shorter[RP_SIGNATURE_TEXT_SIZE];
        struct request request;
        begin_send(&request, "topic");
        request.command.body = text_slice(body);
        sign_as(&request, "alice", "12345678");
        rp_field *signature = &request.command.fields[3];
        memcpy(shorter, request.signature, sizeof shorter);
        switch (what) {
        case 0:
            request.command.fields[1].value = text_slice("topid");
            break;
        case 1:
            request.command.body.size--;
            break;
        case 2:
            put(&request, "z", "more");
            break;
        case 3:
            request.command.fields[0].key = text_slice("c"); /* sorts after b now */
            break;
        case 4:
            signature->value.size--;
            break;
        case 5:
            signature->value = (rp_slice){NULL, 0};
            break;
        case 6:
            request.signature[RP_SIGNATURE_TEXT_SIZE - 2] ^= 1;
            break;
        case 7:
            put(&request, "b", "other"); /* one name, two values */
            break;
        }
        check_refused(table, &reader, &request, "check signature failed.");
    }
    close_table(table, &reader);
    rp_log_destroy(log);
}

static void whitelists_and_switches_leave_out_one_check_each(void) {
    rp_log *log;
    CHECK(rp_log_create(&log) == RP_OK);
    rp_auth_table *table = open_table(log);
    rp_auth_reader reader = {0};
    static const int32_t listed[] = {310, -7, 28};
    struct request unsigned_send, wrong_topic, forged;
    begin_send(&unsigned_send, "topic");
    begin_send(&wrong_topic, "x");
    sign_as(&wrong_topic, "alice", "12345678");
    begin_send(&forged, "topic");
    put(&forged, "AccessKey", "alice");

    set_options(table, 1, 1, listed, 3);
    CHECK(judge(table, &reader, 0, &unsigned_send) == 16); /* the change is not published yet */
    CHECK(rp_auth_table_publish(table) == RP_OK);
    CHECK(judge(table, &reader, 0, &unsigned_send) == 0 && judge(table, &reader, 0, &wrong_topic) == 0);

    set_options(table, 1, 0, NULL, 0);
    CHECK(rp_auth_table_publish(table) == RP_OK);
    CHECK(judge(table, &reader, 0, &wrong_topic) == 0 && judge(table, &reader, 0, &unsigned_send) == 16);

    set_options(table, 0, 1, NULL, 0); /* without authentication the name is believed, as in RocketMQ */
    CHECK(rp_auth_table_publish(table) == RP_OK);
    CHECK(judge(table, &reader, 0, &wrong_topic) == 16 && judge(table, &reader, 0, &forged) == 0);
    check_refused(table, &reader, &unsigned_send, "Authorization failed. Please verify your access rights and try again.");
    begin_send(&forged, "topic");
    put(&forged, "AccessKey", "nobody");
    check_refused(table, &reader, &forged, "User:nobody not found.");
    begin_send(&forged, "topic");
    put(&forged, "AccessKey", "gone");
    check_refused(table, &reader, &forged, "User:gone is disabled.");
    begin(&forged, 34);
    CHECK(judge(table, &reader, 0, &forged) == 0); /* without fields it names no user and no resource */

    set_options(table, 0, 0, NULL, 0);
    CHECK(rp_auth_table_publish(table) == RP_OK);
    CHECK(judge(table, &reader, 0, &unsigned_send) == 0);
    close_table(table, &reader);
    rp_log_destroy(log);
}

static void long_and_odd_names_are_cut_and_harmless(void) {
    rp_log *log;
    rp_log_line line;
    CHECK(rp_log_create(&log) == RP_OK);
    rp_auth_table *table = open_table(log);
    rp_auth_reader reader = {0};
    struct request request;
    static uint8_t name[1 << 20];
    memset(name, 'n', sizeof name);
    memcpy(name, "a\n\0b", 4);
    memcpy(name + 126, "\xe4\xbd\xa0\xe4\xbd\xa0", 6); /* the second character crosses the cut */
    begin_send(&request, "topic");
    CHECK(rp_command_add_field(&request.command, text_slice("AccessKey"), (rp_slice){name, sizeof name}) == RP_OK);
    rp_slice remark;
    CHECK(rp_auth_judge(table, &reader, 0, arena, &localhost, &request.command, &remark) == 16);
    CHECK(remark.size == 5 + 126 + 3 + 14 && memcmp(remark.data + 5, name, 126) == 0 &&
          memcmp(remark.data + 5 + 126, "... is not", 10) == 0);
    CHECK(rp_log_take(log, &line, 1) == 1 && strstr(line.text, "[AUTHENTICATION] User:a??bnnn") != NULL);
    CHECK(strchr(line.text, '\n') == NULL && strstr(line.text, "127.0.0.1:4711") != NULL && strstr(line.text, "310") != NULL);
    close_table(table, &reader);
    rp_log_destroy(log);
}

static void a_flood_of_refusals_writes_few_lines(void) {
    rp_log *log;
    rp_log_line lines[256];
    CHECK(rp_log_create(&log) == RP_OK);
    rp_auth_table *table = open_table(log);
    rp_auth_reader reader = {0};
    struct request request;
    begin_send(&request, "x");
    sign_as(&request, "alice", "12345678");
    for (int i = 0; i < 1000; i++) {
        CHECK(judge(table, &reader, SECOND + i, &request) == 16);
    }
    CHECK(rp_log_take(log, lines, 256) == 50);
    CHECK(strcmp(lines[0].text,
                 "[AUTHORIZATION] User:alice from 127.0.0.1:4711 is refused request 310, Pub on Topic:x: no matched policies.") == 0);
    CHECK(judge(table, &reader, 2 * SECOND, &request) == 16);
    CHECK(rp_log_take(log, lines, 256) == 2 && strncmp(lines[0].text, "950 more", 8) == 0);
    CHECK(judge(table, &reader, 2 * SECOND + 5, &request) == 16 && rp_log_take(log, lines, 256) == 1);
    close_table(table, &reader);
    rp_log_destroy(log);
}

static void nothing_of_a_secret_is_kept(void) {
    rp_auth_table *table;
    CHECK(rp_auth_table_open(NULL, &table) == RP_OK);
    put_user(table, "alice", "the secret of alice", 0, 1);
    const rp_subject *subject = rp_subject_map_find(&table->subjects, text_slice("alice"));
    CHECK(memmem(subject, sizeof *subject + subject->name_size, "secret", 6) == NULL);
    rp_auth_table_close(table);
}

static enum rp_identity identify(const rp_auth_table *table, const char *user, const char *secret) {
    char signature[RP_SIGNATURE_TEXT_SIZE];
    rp_auth_sign(text_slice(secret), text_slice("20261126T000000Z"), signature);
    rp_slice signed_by = {(const uint8_t *)signature, sizeof signature};
    return rp_auth_table_identify(table, text_slice(user), text_slice("20261126T000000Z"), signed_by);
}

static enum rp_verdict judge_draft(const rp_auth_table *table, const char *user, const char *topic, const char *source) {
    return rp_auth_table_judge(table, text_slice(user), RP_RESOURCE_TOPIC, text_slice(topic), RP_ACTION_PUB, source);
}

static void the_draft_answers_who_brings_requests_of_another_kind(void) {
    rp_auth_table *table = open_table(NULL);
    CHECK(identify(table, "alice", "12345678") == RP_IDENTITY_PROVEN);
    CHECK(identify(table, "alice", "12345679") == RP_IDENTITY_WRONG_SIGNATURE);
    CHECK(identify(table, "gone", "12345678") == RP_IDENTITY_DISABLED);
    CHECK(identify(table, "no user", "") == RP_IDENTITY_UNKNOWN && identify(table, "", "") == RP_IDENTITY_UNKNOWN);
    CHECK(rp_auth_table_identify(table, text_slice("alice"), text_slice(""), text_slice("")) == RP_IDENTITY_WRONG_SIGNATURE);
    CHECK(judge_draft(table, "alice", "topic", "127.0.0.1") == RP_VERDICT_ALLOW);
    CHECK(judge_draft(table, "alice", "other", "127.0.0.1") == RP_VERDICT_NO_MATCH);
    CHECK(judge_draft(table, "alice", "topic", "nowhere") == RP_VERDICT_NO_MATCH);
    CHECK(judge_draft(table, "bob", "topic", "::1") == RP_VERDICT_DENY);
    CHECK(judge_draft(table, "root", "any", "") == RP_VERDICT_ALLOW);
    CHECK(judge_draft(table, "gone", "topic", "::1") == RP_VERDICT_NO_MATCH);
    CHECK(judge_draft(table, "no user", "topic", "::1") == RP_VERDICT_NO_MATCH);
    put_user(table, "carol", "c", 1, 1); /* before it is published */
    CHECK(judge_draft(table, "carol", "topic", "::1") == RP_VERDICT_ALLOW);
    rp_auth_table_close(table);
}

int main(void) {
    arena = rp_arena_create(65536, 1 << 20);
    CHECK(arena != NULL);
    RUN(the_signature_is_over_the_values_by_name_and_the_body);
    RUN(old_clients_sign_without_the_unique_key_flag);
    RUN(names_are_in_the_order_of_java);
    RUN(an_order_that_is_remembered_is_checked);
    RUN(the_same_field_twice_counts_once);
    RUN(who_has_signed_and_may_passes);
    RUN(refusals_say_what_rocketmq_says);
    RUN(what_was_changed_after_signing_is_refused);
    RUN(whitelists_and_switches_leave_out_one_check_each);
    RUN(long_and_odd_names_are_cut_and_harmless);
    RUN(a_flood_of_refusals_writes_few_lines);
    RUN(nothing_of_a_secret_is_kept);
    RUN(the_draft_answers_who_brings_requests_of_another_kind);
    rp_arena_destroy(arena);
    return 0;
}
