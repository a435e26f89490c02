/* auth_gate.c: see auth_gate.h. The texts of refusals are RocketMQ's: clients and operators search for them.
 *
 * Texts from clients are cut to NAME_SHOWN bytes in remarks and log lines, and stripped of control characters in log lines.
 */
#include "auth_gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/log_inl.h"
#include "../base/slice_inl.h"
#include "requested_rights.h"

#define CODE_SYSTEM_BUSY 2
#define CODE_NO_PERMISSION 16
#define ACCESS_KEY "AccessKey"
#define SIGNATURE "Signature"
#define NAME_SHOWN 128u
#define REMARK_MAX 640u
#define LOG_LINES_PER_SECOND 50u
#define SECOND_NS 1000000000

typedef struct judgement {
    rp_auth_table *table;
    rp_auth_reader *reader;
    const rp_auth_snapshot *snapshot;
    const rp_command *command;
    const rp_address *remote;
    rp_arena *arena;
    int64_t now_ns;
    rp_slice name; /* AccessKey; data NULL: none */
    const rp_subject *subject; /* NULL: there is no such user */
    rp_slice *remark;
} judgement;

static void count(_Atomic uint64_t *figure) {
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* ---- remarks ---- */

/* Concatenates text and names; what has no room is left out. */
typedef struct text {
    uint8_t *bytes;
    uint32_t size;
} text;

static void add(text *into, const void *bytes, uint32_t size) {
    size = size < REMARK_MAX - into->size ? size : REMARK_MAX - into->size;
    if (size > 0) {
        memcpy(into->bytes + into->size, bytes, size);
        into->size += size;
    }
}

static void add_text(text *into, const char *of) { add(into, of, (uint32_t)strlen(of)); }

/* Returns the size of up to NAME_SHOWN bytes, without a partial character. */
static uint32_t shown_size(rp_slice name) {
    uint32_t size = name.size;
    if (size > NAME_SHOWN) {
        for (size = NAME_SHOWN; size > NAME_SHOWN - 4 && (name.data[size] & 0xC0) == 0x80; size--) {
        }
    }
    return size;
}

static void add_name(text *into, rp_slice name) {
    if (name.data == NULL) {
        add_text(into, "null");
        return;
    }
    uint32_t size = shown_size(name);
    add(into, name.data, size);
    if (size < name.size) {
        add_text(into, "...");
    }
}

static const char *type_name(uint8_t resource_type) {
    return resource_type == RP_RESOURCE_CLUSTER ? "Cluster" : resource_type == RP_RESOURCE_TOPIC ? "Topic" : "Group";
}

static void add_source(text *into, const rp_address *remote) {
    char address[RP_ADDRESS_TEXT_MAX];
    rp_address_text(remote, address);
    char *colon = strrchr(address, ':');
    add(into, address, colon != NULL ? (uint32_t)(colon - address) : (uint32_t)strlen(address));
}

static int32_t busy(const judgement *judged) {
    static const char busy_text[] = "[OVERLOAD]system busy, start flow control for a while";
    *judged->remark = (rp_slice){(const uint8_t *)busy_text, sizeof busy_text - 1};
    return CODE_SYSTEM_BUSY;
}

/* ---- audit lines ---- */

/* May the line be written? The first line of a new second tells how many of the last one were suppressed. */
static bool may_log(const judgement *judged) {
    rp_auth_reader *reader = judged->reader;
    if (judged->now_ns - reader->log_window_ns >= SECOND_NS) {
        if (reader->log_lines_left_out > 0) {
            rp_log_write(judged->table->log, RP_LOG_WARNING, "%u more refused requests have no line of their own",
                         reader->log_lines_left_out);
        }
        reader->log_window_ns = judged->now_ns;
        reader->log_lines = reader->log_lines_left_out = 0;
    }
    if (reader->log_lines < LOG_LINES_PER_SECOND) {
        reader->log_lines++;
        return true;
    }
    reader->log_lines_left_out++;
    return false;
}

/* Room for NAME_SHOWN and the dots. */
static const char *printable(rp_slice name, char shown[NAME_SHOWN + 4]) {
    if (name.data == NULL) {
        return "null";
    }
    uint32_t size = shown_size(name);
    for (uint32_t i = 0; i < size; i++) {
        shown[i] = name.data[i] < ' ' || name.data[i] == 0x7F ? '?' : (char)name.data[i];
    }
    memcpy(shown + size, size < name.size ? "..." : "", size < name.size ? 4 : 1);
    return shown;
}

static void list_actions(uint32_t actions, char list[64]) {
    static const char *const names[] = {"", "All", "Any", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"};
    size_t size = 0;
    list[0] = '\0';
    for (uint32_t code = 1; code < sizeof names / sizeof names[0]; code++) {
        if ((actions >> code & 1) != 0) {
            size += (size_t)snprintf(list + size, 64 - size, "%s%s", size > 0 ? "," : "", names[code]);
        }
    }
}

/* Why a request is refused. */
typedef struct refusal {
    const char *kind;
    const rp_requested_right *right; /* NULL: no right was checked */
    bool names_user;                 /* for a remark without a right: it begins with the user's name */
    const char *why;
} refusal;

static void log_refusal(const judgement *judged, const refusal *refused) {
    char user[NAME_SHOWN + 4], resource[NAME_SHOWN + 4], address[RP_ADDRESS_TEXT_MAX], actions[64], asked[sizeof resource + 128] = "";
    const rp_requested_right *right = refused->right;
    if (!may_log(judged)) {
        return;
    }
    rp_address_text(judged->remote, address);
    if (right != NULL) {
        list_actions(right->actions, actions);
        snprintf(asked, sizeof asked, ", %s on %s:%s", actions, type_name(right->resource_type), printable(right->name, resource));
    }
    rp_log_write(judged->table->log, RP_LOG_WARNING, "[%s] User:%s from %s is refused request %d%s: %s", refused->kind,
                 printable(judged->name, user), address, judged->command->code, asked, refused->why);
}

static void write_remark(const judgement *judged, const refusal *refused, text *remark) {
    const rp_requested_right *right = refused->right;
    if (right != NULL || refused->names_user) {
        add_text(remark, "User:");
        add_name(remark, judged->name);
        add_text(remark, " ");
    }
    if (right != NULL) {
        add_text(remark, "has no permission to access ");
        add_text(remark, type_name(right->resource_type));
        add_text(remark, ":");
        add_name(remark, right->name);
        add_text(remark, " from ");
        add_source(remark, judged->remote);
        add_text(remark, ", ");
    }
    add_text(remark, refused->why);
}

static int32_t refuse(const judgement *judged, _Atomic uint64_t *figure, const refusal *refused) {
    text remark = {rp_arena_take(judged->arena, REMARK_MAX), 0};
    count(figure);
    log_refusal(judged, refused);
    if (remark.bytes == NULL) {
        return busy(judged);
    }
    write_remark(judged, refused, &remark);
    *judged->remark = (rp_slice){remark.bytes, remark.size};
    return CODE_NO_PERMISSION;
}

/* ---- authentication ---- */

static int32_t refuse_user(const judgement *judged, bool names_user, const char *why) {
    return refuse(judged, &judged->reader->unauthenticated, &(refusal){"AUTHENTICATION", NULL, names_user, why});
}

static bool signature_is_right(const judgement *judged) {
    char signature[RP_SIGNATURE_TEXT_SIZE];
    rp_slice given = rp_command_field(judged->command, SIGNATURE);
    rp_signature_make(judged->command, &judged->reader->order, &judged->subject->key, signature);
    return given.data != NULL && given.size == sizeof signature && rp_equal_in_constant_time(given.data, signature, sizeof signature);
}

static int32_t authenticate(judgement *judged) {
    const rp_subject *subject = judged->subject;
    if (judged->name.size == 0) {
        return refuse_user(judged, false, "username cannot be null.");
    }
    if (subject == NULL || !subject->is_user) {
        return refuse_user(judged, true, "is not found.");
    }
    if (!subject->is_enabled) {
        return refuse_user(judged, true, "is disabled.");
    }
    if (rp_field_order_of(judged->command, &judged->reader->order) != RP_OK || !signature_is_right(judged)) {
        return refuse_user(judged, false, "check signature failed.");
    }
    count(&judged->reader->authenticated);
    return 0;
}

/* ---- authorization ---- */

static int32_t refuse_right(const judgement *judged, const rp_requested_right *right, bool names_user, const char *why) {
    return refuse(judged, &judged->reader->unauthorized, &(refusal){"AUTHORIZATION", right, names_user, why});
}

/* The user is checked only when a right is needed: a request that needs none is open to everybody. */
static int judge_right(void *context, const rp_requested_right *right) {
    judgement *judged = context;
    const rp_subject *subject = judged->subject;
    if (judged->name.data == NULL) {
        return refuse_right(judged, NULL, false, "Authorization failed. Please verify your access rights and try again.");
    }
    if (subject == NULL || !subject->is_user) {
        return refuse_right(judged, NULL, true, "not found.");
    }
    if (!subject->is_enabled) {
        return refuse_right(judged, NULL, true, "is disabled.");
    }
    if (subject->is_super) {
        return 0;
    }
    switch (rp_rights_judge(subject->rights, right->resource_type, right->name, right->actions, judged->remote)) {
    case RP_VERDICT_ALLOW:
        return 0;
    case RP_VERDICT_DENY:
        return refuse_right(judged, right, true, "the decision is deny.");
    default:
        return refuse_right(judged, right, true, "no matched policies.");
    }
}

static int32_t authorize(judgement *judged) {
    if (judged->command->field_count == 0) {
        return 0;
    }
    int status = rp_requested_rights(judged->command, judged->snapshot->cluster_name, judged->arena, judge_right, judged);
    if (status == RP_E_NO_MEMORY) {
        return busy(judged);
    }
    if (status < 0) {
        return refuse_right(judged, NULL, false, "parse authorization context error.");
    }
    if (status == RP_OK) {
        count(&judged->reader->authorized);
    }
    return status;
}

/* ---- both ---- */

static int compare_codes(const void *left, const void *right) {
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

static bool is_listed(int32_t code, const int32_t *codes, uint32_t code_count) {
    return code_count > 0 && bsearch(&code, codes, code_count, sizeof code, compare_codes) != NULL;
}

static const rp_auth_snapshot *newest(rp_auth_table *table, rp_auth_reader *reader) {
    if (reader->version != atomic_load_explicit(&table->version, memory_order_acquire)) {
        rp_auth_reader_renew(table, reader);
    }
    return reader->snapshot;
}

static bool asks_rights(const rp_auth_snapshot *snapshot, int32_t code) {
    return snapshot->authorize && !is_listed(code, snapshot->authorization_whitelist, snapshot->authorization_whitelist_count);
}

static const rp_subject *subject_of(const rp_auth_snapshot *snapshot, rp_slice name) {
    return name.size > 0 ? rp_subject_map_find(&snapshot->subjects, name) : NULL;
}

int32_t rp_auth_judge(rp_auth_table *table, rp_auth_reader *reader, int64_t now_ns, rp_arena *arena, const rp_address *remote,
                      const rp_command *command, rp_slice *remark) {
    const rp_auth_snapshot *snapshot = newest(table, reader);
    bool authenticates =
        snapshot->authenticate && !is_listed(command->code, snapshot->authentication_whitelist, snapshot->authentication_whitelist_count);
    bool authorizes = asks_rights(snapshot, command->code);
    if (!authenticates && !authorizes) {
        return 0;
    }
    judgement judged = {table, reader, snapshot, command, remote, arena, now_ns, rp_command_field(command, ACCESS_KEY), NULL, remark};
    judged.subject = subject_of(snapshot, judged.name);
    int32_t code = authenticates ? authenticate(&judged) : 0;
    return code == 0 && authorizes ? authorize(&judged) : code;
}

int32_t rp_auth_judge_sender(rp_auth_table *table, rp_auth_reader *reader, int64_t now_ns, rp_arena *arena, const rp_address *remote,
                             const rp_command *command, rp_slice topic, rp_slice *remark) {
    const rp_auth_snapshot *snapshot = newest(table, reader);
    if (!asks_rights(snapshot, command->code)) {
        return 0;
    }
    judgement judged = {table, reader, snapshot, command, remote, arena, now_ns, rp_command_field(command, ACCESS_KEY), NULL, remark};
    judged.subject = subject_of(snapshot, judged.name);
    const rp_requested_right right = rp_right_to_send(topic);
    return judge_right(&judged, &right);
}
