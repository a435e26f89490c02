/* caller.c: see caller.h. */
#include "caller.h"

#include <stdbool.h>

#include "auth_gate.h"

static void count_one(_Atomic uint64_t *figure) {
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + 1, memory_order_relaxed);
}

static bool has_signed(const rp_subject *subject, const rp_caller *caller) {
    uint8_t digest[RP_SHA1_SIZE];
    rp_sha1 sha1;
    rp_hmac_begin(&sha1, &subject->key);
    rp_sha1_add(&sha1, caller->content.data, caller->content.size);
    rp_hmac_end(&sha1, &subject->key, digest);
    return rp_equal_in_constant_time(digest, caller->digest, sizeof digest);
}

static bool has_rights(const rp_subject *subject, const rp_caller *caller, const rp_asked_right *rights, uint32_t count) {
    for (uint32_t i = 0; i < count && !subject->is_super; i++) {
        if (rp_rights_judge(subject->rights, rights[i].resource_type, rights[i].name, rights[i].actions, &caller->source) !=
            RP_VERDICT_ALLOW)
            return false;
    }
    return true;
}

int rp_caller_is_admitted(const rp_gate *gate, const rp_reactor *reactor, const rp_caller *caller, const rp_asked_right *rights,
                          uint32_t count) {
    rp_auth_gate *own = gate->context;
    rp_auth_reader *reader = &own->readers[rp_reactor_index(reactor)];
    if (reader->snapshot == NULL || reader->version != atomic_load_explicit(&own->table->version, memory_order_acquire))
        rp_auth_reader_renew(own->table, reader);
    const rp_auth_snapshot *snapshot = reader->snapshot;
    const rp_subject *subject = caller->user.size > 0 ? rp_subject_map_find(&snapshot->subjects, caller->user) : NULL;
    bool is_admitted = subject != NULL && subject->is_user && subject->is_enabled &&
                       (!snapshot->authenticate || has_signed(subject, caller)) &&
                       (!snapshot->authorize || has_rights(subject, caller, rights, count));
    if (is_admitted && snapshot->authenticate)
        count_one(&reader->authenticated);
    if (is_admitted && snapshot->authorize)
        count_one(&reader->authorized);
    return is_admitted;
}
