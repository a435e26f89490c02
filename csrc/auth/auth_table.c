/* auth_table.c: see auth_table.h: the draft, its publication, and the gates. */
#include "auth_table.h"

#include <stdlib.h>
#include <string.h>

#include "auth_gate.h"

/* ---- snapshots ---- */

static int compare_codes(const void *left, const void *right) {
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

/* Copies codes to *at, sorted, and moves that behind them. */
static const int32_t *put_codes(int32_t **at, const int32_t *codes, uint32_t count) {
    int32_t *copy = *at;
    if (count > 0) {
        memcpy(copy, codes, count * sizeof *codes);
        qsort(copy, count, sizeof *copy, compare_codes);
    }
    *at += count;
    return copy;
}

/* Makes a snapshot with the options and no subjects. NULL: no memory. */
static rp_auth_snapshot *make_snapshot(const rp_auth_options *options) {
    size_t codes = (size_t)options->authentication_whitelist_count + options->authorization_whitelist_count;
    rp_auth_snapshot *made = malloc(sizeof *made + codes * sizeof(int32_t) + options->cluster_name.size);
    if (made == NULL) {
        return NULL;
    }
    *made = (rp_auth_snapshot){.authenticate = options->authenticate != 0, .authorize = options->authorize != 0};
    atomic_init(&made->references, 1);
    int32_t *at = (int32_t *)(void *)(made + 1);
    made->authentication_whitelist = put_codes(&at, options->authentication_whitelist, options->authentication_whitelist_count);
    made->authentication_whitelist_count = options->authentication_whitelist_count;
    made->authorization_whitelist = put_codes(&at, options->authorization_whitelist, options->authorization_whitelist_count);
    made->authorization_whitelist_count = options->authorization_whitelist_count;
    made->cluster_name = (rp_slice){(uint8_t *)at, options->cluster_name.size};
    if (options->cluster_name.size > 0) {
        memcpy(at, options->cluster_name.data, options->cluster_name.size);
    }
    return made;
}

static rp_auth_snapshot *copy_options(const rp_auth_snapshot *from) {
    const rp_auth_options options = {
        .authenticate = from->authenticate,
        .authorize = from->authorize,
        .cluster_name = from->cluster_name,
        .authentication_whitelist = from->authentication_whitelist,
        .authentication_whitelist_count = from->authentication_whitelist_count,
        .authorization_whitelist = from->authorization_whitelist,
        .authorization_whitelist_count = from->authorization_whitelist_count,
    };
    return make_snapshot(&options);
}

void rp_auth_snapshot_release(rp_auth_snapshot *snapshot) {
    /* acq_rel: the thread that frees it sees that the others are done with it. */
    if (snapshot != NULL && atomic_fetch_sub_explicit(&snapshot->references, 1, memory_order_acq_rel) == 1) {
        rp_subject_map_free(&snapshot->subjects);
        free(snapshot);
    }
}

void rp_auth_reader_renew(rp_auth_table *table, rp_auth_reader *reader) {
    rp_auth_snapshot *before = reader->snapshot;
    pthread_mutex_lock(&table->lock);
    reader->snapshot = table->published;
    reader->version = atomic_load_explicit(&table->version, memory_order_relaxed); /* written under the lock only */
    atomic_fetch_add_explicit(&reader->snapshot->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&table->lock);
    rp_auth_snapshot_release(before);
}

int rp_auth_table_publish(rp_auth_table *table) {
    rp_auth_snapshot *made = copy_options(table->options);
    if (made == NULL || rp_subject_map_copy(&table->subjects, &made->subjects) != RP_OK) {
        rp_auth_snapshot_release(made);
        return RP_E_NO_MEMORY;
    }
    atomic_store_explicit(&table->published_users, table->users, memory_order_relaxed);
    atomic_store_explicit(&table->published_acls, table->acls, memory_order_relaxed);
    pthread_mutex_lock(&table->lock);
    rp_auth_snapshot *before = table->published;
    table->published = made;
    atomic_fetch_add_explicit(&table->version, 1, memory_order_release); /* a reader that sees it takes the lock */
    pthread_mutex_unlock(&table->lock);
    rp_auth_snapshot_release(before);
    return RP_OK;
}

/* ---- opened and closed ---- */

int rp_auth_table_open(rp_log *log, rp_auth_table **table) {
    const rp_auth_options nothing = {0};
    rp_auth_table *opened = calloc(1, sizeof *opened);
    if (opened == NULL) {
        return RP_E_NO_MEMORY;
    }
    opened->log = log;
    opened->options = make_snapshot(&nothing);
    pthread_mutex_init(&opened->lock, NULL);
    if (opened->options == NULL || rp_auth_table_publish(opened) != RP_OK) {
        rp_auth_table_close(opened);
        return RP_E_NO_MEMORY;
    }
    *table = opened;
    return RP_OK;
}

static void free_gate(rp_auth_gate *gate) {
    for (uint32_t i = 0; i < gate->reader_count; i++) {
        rp_auth_snapshot_release(gate->readers[i].snapshot);
    }
    free(gate);
}

void rp_auth_table_close(rp_auth_table *table) {
    while (table->gates != NULL) {
        rp_auth_gate *gate = table->gates;
        table->gates = gate->next;
        free_gate(gate);
    }
    rp_auth_snapshot_release(table->published);
    rp_auth_snapshot_release(table->options);
    rp_subject_map_free(&table->subjects);
    pthread_mutex_destroy(&table->lock);
    free(table);
}

/* ---- the draft ---- */

static int check_name(rp_slice name) {
    return name.data == NULL || name.size == 0 ? RP_E_INVALID : name.size > RP_AUTH_NAME_MAX ? RP_E_TOO_LARGE : RP_OK;
}

/* Replaces the subject of that name. user NULL: not a user; rights NULL: no acl; both: the subject is removed. */
static int put_subject(rp_auth_table *table, rp_slice name, const rp_subject *user, rp_rights *rights) {
    const rp_subject *before = rp_subject_map_find(&table->subjects, name);
    bool was_user = before != NULL && before->is_user, had_rights = before != NULL && before->rights != NULL;
    if ((user != NULL && !was_user && table->users >= RP_AUTH_USERS_MAX) ||
        (rights != NULL && !had_rights && table->acls >= RP_AUTH_ACLS_MAX)) {
        return RP_E_TOO_LARGE;
    }
    if (user == NULL && rights == NULL) {
        rp_subject_map_remove(&table->subjects, name);
    } else {
        rp_subject *made = rp_subject_make(name, user, rights);
        if (made == NULL || rp_subject_map_put(&table->subjects, made) != RP_OK) {
            if (made != NULL) {
                rp_subject_release(made);
            }
            return RP_E_NO_MEMORY;
        }
    }
    table->users = table->users - was_user + (user != NULL);
    table->acls = table->acls - had_rights + (rights != NULL);
    return RP_OK;
}

int rp_auth_table_put_user(rp_auth_table *table, rp_slice name, rp_slice secret, int is_super, int is_enabled) {
    rp_subject user = {.is_user = true, .is_super = is_super != 0, .is_enabled = is_enabled != 0};
    int status = check_name(name);
    if (status != RP_OK) {
        return status;
    }
    const rp_subject *before = rp_subject_map_find(&table->subjects, name);
    rp_hmac_key_make(&user.key, secret.data, secret.size);
    status = put_subject(table, name, &user, before != NULL ? before->rights : NULL);
    rp_wipe(&user.key, sizeof user.key);
    return status;
}

int rp_auth_table_delete_user(rp_auth_table *table, rp_slice name) {
    const rp_subject *before = rp_subject_map_find(&table->subjects, name);
    return before == NULL || !before->is_user ? RP_E_NOT_FOUND : put_subject(table, name, NULL, before->rights);
}

int rp_auth_table_put_acl(rp_auth_table *table, rp_slice user, const rp_acl_entry *entries, uint32_t entry_count, rp_error *error) {
    rp_rights *rights;
    int status = check_name(user);
    if (status == RP_OK) {
        status = rp_rights_make(entries, entry_count, &rights, error);
    }
    if (status != RP_OK) {
        return status;
    }
    const rp_subject *before = rp_subject_map_find(&table->subjects, user);
    status = put_subject(table, user, before != NULL && before->is_user ? before : NULL, rights);
    rp_rights_release(rights);
    return status;
}

int rp_auth_table_delete_acl(rp_auth_table *table, rp_slice user) {
    const rp_subject *before = rp_subject_map_find(&table->subjects, user);
    return before == NULL || before->rights == NULL ? RP_E_NOT_FOUND : put_subject(table, user, before->is_user ? before : NULL, NULL);
}

int rp_auth_table_set_options(rp_auth_table *table, const rp_auth_options *options) {
    if (options->cluster_name.size > RP_AUTH_NAME_MAX || options->authentication_whitelist_count > RP_AUTH_CODES_MAX ||
        options->authorization_whitelist_count > RP_AUTH_CODES_MAX) {
        return RP_E_TOO_LARGE;
    }
    rp_auth_snapshot *made = make_snapshot(options);
    if (made == NULL) {
        return RP_E_NO_MEMORY;
    }
    rp_auth_snapshot_release(table->options);
    table->options = made;
    return RP_OK;
}

/* ---- asked of the draft ---- */

enum rp_identity rp_auth_table_identify(const rp_auth_table *table, rp_slice user, rp_slice content, rp_slice signature) {
    const rp_subject *subject = user.size > 0 ? rp_subject_map_find(&table->subjects, user) : NULL;
    char right[RP_SIGNATURE_TEXT_SIZE];
    if (subject == NULL || !subject->is_user) {
        return RP_IDENTITY_UNKNOWN;
    }
    if (!subject->is_enabled) {
        return RP_IDENTITY_DISABLED;
    }
    rp_signature_of(content, &subject->key, right);
    bool is_right = signature.size == sizeof right && rp_equal_in_constant_time(signature.data, right, sizeof right);
    return is_right ? RP_IDENTITY_PROVEN : RP_IDENTITY_WRONG_SIGNATURE;
}

enum rp_verdict rp_auth_table_judge(const rp_auth_table *table, rp_slice user, uint8_t resource_type, rp_slice name, uint32_t actions,
                                    const char *source) {
    const rp_subject *subject = user.size > 0 ? rp_subject_map_find(&table->subjects, user) : NULL;
    struct sockaddr_storage socket_address;
    rp_address address;
    uint32_t size;
    if (subject == NULL || !subject->is_user || !subject->is_enabled) {
        return RP_VERDICT_NO_MATCH;
    }
    if (subject->is_super) {
        return RP_VERDICT_ALLOW;
    }
    if (rp_address_parse(source, 0, &socket_address, &size) != RP_OK) {
        return RP_VERDICT_NO_MATCH;
    }
    rp_address_from_socket(&address, &socket_address);
    return rp_rights_judge(subject->rights, resource_type, name, actions, &address);
}

/* ---- gates ---- */

static int32_t admit(void *context, rp_reactor *reactor, const rp_address *remote, const rp_command *command, rp_slice *remark) {
    rp_auth_gate *gate = context;
    return rp_auth_judge(gate->table, &gate->readers[rp_reactor_index(reactor)], rp_reactor_now_ns(reactor), rp_reactor_arena(reactor),
                         remote, command, remark);
}

static int32_t admit_sender(void *context, rp_reactor *reactor, const rp_address *remote, const rp_command *command, rp_slice topic,
                            rp_slice *remark) {
    rp_auth_gate *gate = context;
    return rp_auth_judge_sender(gate->table, &gate->readers[rp_reactor_index(reactor)], rp_reactor_now_ns(reactor),
                                rp_reactor_arena(reactor), remote, command, topic, remark);
}

int rp_auth_table_gate(rp_auth_table *table, uint16_t reactors, const rp_gate **gate) {
    size_t size = sizeof(rp_auth_gate) + reactors * sizeof(rp_auth_reader);
    rp_auth_gate *made = aligned_alloc(_Alignof(rp_auth_reader), (size + 63) / 64 * 64);
    if (made == NULL) {
        return RP_E_NO_MEMORY;
    }
    memset(made, 0, size);
    made->gate = (rp_gate){made, admit, admit_sender};
    made->table = table;
    made->reader_count = reactors;
    pthread_mutex_lock(&table->lock);
    made->next = table->gates;
    table->gates = made;
    pthread_mutex_unlock(&table->lock);
    *gate = &made->gate;
    return RP_OK;
}

static uint64_t read_figure(const _Atomic uint64_t *figure) { return atomic_load_explicit(figure, memory_order_relaxed); }

void rp_auth_table_read_stats(rp_auth_table *table, rp_auth_stats *stats) {
    *stats = (rp_auth_stats){.users = read_figure(&table->published_users),
                             .acls = read_figure(&table->published_acls),
                             .version = read_figure(&table->version)};
    pthread_mutex_lock(&table->lock);
    for (const rp_auth_gate *gate = table->gates; gate != NULL; gate = gate->next) {
        for (uint32_t i = 0; i < gate->reader_count; i++) {
            const rp_auth_reader *reader = &gate->readers[i];
            stats->authenticated += read_figure(&reader->authenticated);
            stats->authorized += read_figure(&reader->authorized);
            stats->unauthenticated += read_figure(&reader->unauthenticated);
            stats->unauthorized += read_figure(&reader->unauthorized);
        }
    }
    pthread_mutex_unlock(&table->lock);
}
