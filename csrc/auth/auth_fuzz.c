/* auth_fuzz.c: libFuzzer target for the checks of requests. Built by clang -fsanitize=fuzzer,address,undefined; not in the library.
 *
 * Input   [1 which user signs, 2 which request code][header and body of a frame, from its serialize type on]
 * Claims  whatever a request is, it is judged: 0 or a code with a remark that can be sent. Whoever has not signed never passes; whoever may
 *         everything and has signed is refused only for what cannot be read.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/fuzz_inl.h"
#include "../base/slice_inl.h"
#include "auth_gate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static rp_auth_table *open_table(rp_log *log) {
    rp_auth_table *table;
    rp_slice source = rp_slice_of("127.0.0.1");
    rp_acl_entry entries[] = {
        {.resource_type = RP_RESOURCE_TOPIC, .pattern = RP_PATTERN_PREFIXED, .actions = RP_ACTION_ALL, .name = rp_slice_of("t")},
        {.resource_type = RP_RESOURCE_GROUP,
         .pattern = RP_PATTERN_LITERAL,
         .actions = RP_ACTION_SUB,
         .name = rp_slice_of("g"),
         .sources = &source,
         .source_count = 1},
        {.is_default = 1, .is_deny = 1, .resource_type = RP_RESOURCE_ANY, .pattern = RP_PATTERN_ANY, .actions = RP_ACTION_GET},
    };
    rp_auth_options options = {.authenticate = 1, .authorize = 1, .cluster_name = rp_slice_of("c")};
    demand(rp_auth_table_open(log, &table) == RP_OK);
    demand(rp_auth_table_set_options(table, &options) == RP_OK);
    demand(rp_auth_table_put_user(table, rp_slice_of("u"), rp_slice_of("s"), 0, 1) == RP_OK);
    demand(rp_auth_table_put_user(table, rp_slice_of("r"), rp_slice_of("s"), 1, 1) == RP_OK);
    demand(rp_auth_table_put_acl(table, rp_slice_of("u"), entries, sizeof entries / sizeof entries[0], NULL) == RP_OK);
    demand(rp_auth_table_publish(table) == RP_OK);
    return table;
}

/* The codes of the table's rows with bodies, and others. */
static int32_t code_of(uint16_t choice) {
    static const int32_t codes[] = {34, 41, 42, 18, 200, 225, 401, 200151, 310, 10, 11, 208, 308, 35, 37, 105, 3001, 200050};
    uint32_t count = sizeof codes / sizeof codes[0];
    return choice % 32 < count ? codes[choice % 32] : choice;
}

static bool sign(rp_command *command, const char *user, char signature[RP_SIGNATURE_TEXT_SIZE]) {
    rp_field_order order = {0};
    rp_hmac_key key;
    rp_hmac_key_make(&key, "s", 1);
    if (rp_command_add_field(command, rp_slice_of("AccessKey"), rp_slice_of(user)) != RP_OK ||
        rp_field_order_of(command, &order) != RP_OK) {
        return false;
    }
    rp_signature_make(command, &order, &key, signature);
    return rp_command_add_field(command, rp_slice_of("Signature"), (rp_slice){(uint8_t *)signature, RP_SIGNATURE_TEXT_SIZE}) == RP_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const rp_address remote = {.bytes = {127, 0, 0, 1}, .size = 4};
    if (size < 4 || size > 1 << 20) {
        return 0;
    }
    rp_log *log;
    demand(rp_log_create(&log) == RP_OK);
    rp_auth_table *table = open_table(log);
    rp_auth_reader reader = {0};
    rp_arena *arena = rp_arena_create(4096, 8 << 20);
    rp_command command;
    char signature[RP_SIGNATURE_TEXT_SIZE];
    uint32_t frame_size = (uint32_t)size - 3 + 4;
    uint8_t *frame = malloc(frame_size);
    demand(arena != NULL && frame != NULL);
    rp_put_u32(frame, frame_size - 4);
    memcpy(frame + 4, data + 3, size - 3);
    if (frame_size >= 8 && rp_command_decode(frame, frame_size, arena, &command, NULL) == RP_OK) {
        static const char *const users[] = {"u", "r", "nobody", NULL};
        const char *user = users[data[0] % 4];
        command.code = code_of(rp_get_u16(data + 1));
        bool is_signed = user != NULL && sign(&command, user, signature);
        for (int64_t round = 0; round < 2; round++) {
            rp_slice remark = {NULL, 0};
            int32_t code = rp_auth_judge(table, &reader, round, arena, &remote, &command, &remark);
            demand(code == 0 || (remark.size > 0 && remark.size < 1024));
            demand(code == 0 || code == 16);
            demand(code != 0 || (is_signed && data[0] % 4 < 2));
            demand(code == 0 || !is_signed || data[0] % 4 != 1 || memcmp(remark.data, "parse auth", 10) == 0);
        }
    }
    rp_auth_snapshot_release(reader.snapshot);
    rp_auth_table_close(table);
    rp_log_destroy(log);
    rp_arena_destroy(arena);
    free(frame);
    return 0;
}
