/* auth_fixture.h: signed requests, a table with a few users, and verdicts; for the auth_*_test.c programs. */
#ifndef RP_TESTS_AUTH_FIXTURE_H
#define RP_TESTS_AUTH_FIXTURE_H

#include "../../../csrc/auth/auth_gate.h"
#include "server_harness.h"

#define SECOND 1000000000ll

static rp_arena *arena; /* used by every judgement; made by main */
static const rp_address localhost = {.bytes = {127, 0, 0, 1}, .size = 4, .port = 4711};

/* ---- requests ---- */

struct request {
    rp_command command;
    char signature[RP_SIGNATURE_TEXT_SIZE];
};

static inline void begin(struct request *request, int32_t code) {
    rp_command_clear(&request->command, code, RP_SERIALIZE_JSON);
    request->command.version = 479;
}

static inline void put(struct request *request, const char *key, const char *value) {
    CHECK(rp_command_add_field(&request->command, text_slice(key), text_slice(value)) == RP_OK);
}

/* user NULL: without an AccessKey. */
static inline void sign_as(struct request *request, const char *user, const char *secret) {
    rp_field_order order = {0};
    rp_hmac_key key;
    if (user != NULL) {
        put(request, "AccessKey", user);
    }
    rp_hmac_key_make(&key, secret, strlen(secret));
    CHECK(rp_field_order_of(&request->command, &order) == RP_OK);
    rp_signature_make(&request->command, &order, &key, request->signature);
    rp_slice signature = {(const uint8_t *)request->signature, sizeof request->signature};
    CHECK(rp_command_add_field(&request->command, text_slice("Signature"), signature) == RP_OK);
}

static inline void begin_send(struct request *request, const char *topic) {
    begin(request, 310);
    put(request, "a", "group");
    put(request, "b", topic);
}

/* ---- tables ---- */

static inline void set_options(rp_auth_table *table, int authenticate, int authorize, const int32_t *listed, uint32_t listed_count) {
    rp_auth_options options = {.authenticate = authenticate, .authorize = authorize, .cluster_name = text_slice("DefaultCluster")};
    options.authentication_whitelist = options.authorization_whitelist = listed;
    options.authentication_whitelist_count = options.authorization_whitelist_count = listed_count;
    CHECK(rp_auth_table_set_options(table, &options) == RP_OK);
}

static inline void put_user(rp_auth_table *table, const char *name, const char *secret, int is_super, int is_enabled) {
    CHECK(rp_auth_table_put_user(table, text_slice(name), text_slice(secret), is_super, is_enabled) == RP_OK);
}

/* Allows PUB on topics with this prefix. */
static inline void put_acl(rp_auth_table *table, const char *name, const char *prefix, int is_deny) {
    rp_acl_entry entry = {.is_deny = (uint8_t)is_deny,
                          .resource_type = RP_RESOURCE_TOPIC,
                          .pattern = RP_PATTERN_PREFIXED,
                          .actions = RP_ACTION_PUB,
                          .name = text_slice(prefix)};
    CHECK(rp_auth_table_put_acl(table, text_slice(name), &entry, 1, NULL) == RP_OK);
}

static inline rp_auth_table *open_table(rp_log *log) {
    rp_auth_table *table;
    CHECK(rp_auth_table_open(log, &table) == RP_OK);
    set_options(table, 1, 1, NULL, 0);
    put_user(table, "alice", "12345678", 0, 1);
    put_user(table, "bob", "secret of bob", 0, 1);
    put_user(table, "gone", "12345678", 0, 0);
    put_user(table, "root", "r00t", 1, 1);
    put_acl(table, "alice", "to", 0);
    put_acl(table, "bob", "to", 1);
    put_acl(table, "no user", "to", 0);
    CHECK(rp_auth_table_publish(table) == RP_OK);
    return table;
}

static char remark_text[4096];

static inline int32_t judge(rp_auth_table *table, rp_auth_reader *reader, int64_t now_ns, const struct request *request) {
    rp_slice remark = {NULL, 0};
    rp_arena_reset(arena);
    int32_t code = rp_auth_judge(table, reader, now_ns, arena, &localhost, &request->command, &remark);
    snprintf(remark_text, sizeof remark_text, "%.*s", (int)remark.size, (const char *)remark.data);
    return code;
}

static inline void check_refused(rp_auth_table *table, rp_auth_reader *reader, const struct request *request, const char *remark) {
    int32_t code = judge(table, reader, SECOND, request);
    if (code != 16 || strcmp(remark_text, remark) != 0) {
        fprintf(stderr, "code %d, remark \"%s\", not \"%s\"\n", code, remark_text, remark);
        exit(1);
    }
}

static inline void close_table(rp_auth_table *table, rp_auth_reader *reader) {
    rp_auth_snapshot_release(reader->snapshot);
    rp_auth_table_close(table);
}

#endif
