/* rights.c: see rights.h. One block holds the entries, their sources, and the bytes of the names. */
#include "rights.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/slice_inl.h"

#define ACTIONS_ALL_BITS 0x3FFu
#define TYPE_LAST UINT8_MAX /* sorts entries for any type last */
#define SOURCE_TEXT_MAX 64

typedef struct source {
    uint8_t bytes[16];
    uint8_t size; /* 4 or 16 */
    uint8_t bits; /* number of bits that are compared */
} source;

typedef struct entry {
    uint8_t is_default, type, pattern, is_deny; /* compared in this order, with the name between pattern and is_deny */
    uint32_t actions;
    rp_slice name;
    const source *sources;
    uint32_t source_count;
} entry;

struct rp_rights {
    _Atomic uint32_t references;
    uint32_t count;
    entry entries[];
};

/* ---- sources ---- */

static int parse_bits(const char *text, uint32_t bits_max, uint32_t *bits) {
    uint32_t sum = 0, digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 4; digits++) {
        sum = sum * 10 + (uint32_t)(text[digits] - '0');
    }
    *bits = sum;
    return digits > 0 && text[digits] == '\0' && sum <= bits_max ? RP_OK : RP_E_INVALID;
}

static int parse_source(rp_slice slice, source *parsed) {
    char text[SOURCE_TEXT_MAX];
    if (slice.size == 0 || slice.size >= sizeof text || memchr(slice.data, '\0', slice.size) != NULL) {
        return RP_E_INVALID;
    }
    memcpy(text, slice.data, slice.size);
    text[slice.size] = '\0';
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    struct sockaddr_storage socket_address;
    uint32_t size;
    rp_address address;
    if (rp_address_parse(text, 0, &socket_address, &size) != RP_OK) {
        return RP_E_INVALID;
    }
    rp_address_from_socket(&address, &socket_address);
    bool is_mapped = address.size == 4 && strchr(text, ':') != NULL; /* its bit count includes the prefix of IPv6 */
    uint32_t bits_most = is_mapped ? 128 : address.size * 8u, bits = bits_most;
    if (slash != NULL && parse_bits(slash + 1, bits_most, &bits) != RP_OK) {
        return RP_E_INVALID;
    }
    if (is_mapped && bits < 96) {
        return RP_E_INVALID;
    }
    memcpy(parsed->bytes, address.bytes, sizeof parsed->bytes);
    parsed->size = address.size;
    parsed->bits = (uint8_t)(is_mapped ? bits - 96 : bits);
    return RP_OK;
}

static bool source_contains(const source *from, const rp_address *address) {
    uint32_t whole = from->bits / 8, rest = from->bits % 8;
    return from->size == address->size && memcmp(from->bytes, address->bytes, whole) == 0 &&
           (rest == 0 || ((from->bytes[whole] ^ address->bytes[whole]) >> (8 - rest)) == 0);
}

/* ---- order ---- */

static int compare_bytes(rp_slice left, rp_slice right) {
    if (left.size != right.size) {
        return left.size < right.size ? -1 : 1;
    }
    return left.size == 0 ? 0 : memcmp(left.data, right.data, left.size);
}

/* Ranks LITERAL, PREFIXED, ANY. */
static uint8_t rank_of(uint8_t pattern) { return pattern == RP_PATTERN_LITERAL ? 0 : pattern == RP_PATTERN_PREFIXED ? 1 : 2; }

static int compare_places(const entry *left, const entry *right) {
    int by_policy = left->is_default - right->is_default, by_type = left->type - right->type;
    int by_rank = rank_of(left->pattern) - rank_of(right->pattern);
    return by_policy != 0 ? by_policy : by_type != 0 ? by_type : by_rank;
}

static int compare_entries(const void *a, const void *b) {
    const entry *left = a, *right = b;
    int by_place = compare_places(left, right);
    if (by_place != 0) {
        return by_place;
    }
    int by_name = compare_bytes(left->name, right->name);
    if (left->pattern == RP_PATTERN_PREFIXED) {
        by_name = -by_name; /* longest first */
    }
    return by_name != 0 ? by_name : right->is_deny - left->is_deny;
}

/* ---- made ---- */

static int refuse(rp_error *error, int status, uint32_t index, const char *why) {
    return rp_error_set(error, status, 0, NULL, index, "entry %u: %s", index, why);
}

static int check_entry(const rp_acl_entry *given, uint32_t index, rp_error *error) {
    if (given->resource_type < RP_RESOURCE_ANY || given->resource_type > RP_RESOURCE_GROUP) {
        return refuse(error, RP_E_INVALID, index, "there is no such type of resources");
    }
    if (given->pattern < RP_PATTERN_ANY || given->pattern > RP_PATTERN_PREFIXED || (given->actions & ~ACTIONS_ALL_BITS) != 0) {
        return refuse(error, RP_E_INVALID, index, "there is no such pattern, or no such action");
    }
    if (given->name.size > RP_AUTH_NAME_MAX || given->source_count > RP_AUTH_SOURCES_MAX) {
        return refuse(error, RP_E_TOO_LARGE, index, "its name is too long, or it has too many source addresses");
    }
    return RP_OK;
}

static int fill_entry(entry *made, const rp_acl_entry *given, uint32_t index, source **sources, uint8_t **names, rp_error *error) {
    bool is_of_any_type = given->resource_type == RP_RESOURCE_ANY;
    bool has_name = given->pattern != RP_PATTERN_ANY && !is_of_any_type && given->name.size > 0;
    *made = (entry){
        .is_default = given->is_default != 0,
        .type = is_of_any_type ? TYPE_LAST : given->resource_type,
        .pattern = is_of_any_type ? RP_PATTERN_ANY : given->pattern,
        .is_deny = given->is_deny != 0,
        .actions = given->actions,
        .name = {*names, has_name ? given->name.size : 0},
        .sources = *sources,
        .source_count = given->source_count,
    };
    if (has_name) {
        memcpy(*names, given->name.data, given->name.size);
        *names += given->name.size;
    }
    for (uint32_t i = 0; i < given->source_count; i++) {
        if (parse_source(given->sources[i], (*sources)++) != RP_OK) {
            return refuse(error, RP_E_INVALID, index, "a source is neither an address nor a network in CIDR notation");
        }
    }
    return RP_OK;
}

int rp_rights_make(const rp_acl_entry *entries, uint32_t count, rp_rights **rights, rp_error *error) {
    if (count > RP_AUTH_ENTRIES_MAX) {
        return refuse(error, RP_E_TOO_LARGE, RP_AUTH_ENTRIES_MAX, "a user has so many at most");
    }
    size_t source_count = 0, name_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        int status = check_entry(&entries[i], i, error);
        if (status != RP_OK) {
            return status;
        }
        source_count += entries[i].source_count;
        name_bytes += entries[i].name.size;
    }
    rp_rights *made = malloc(sizeof *made + count * sizeof(entry) + source_count * sizeof(source) + name_bytes + 1);
    if (made == NULL) {
        return RP_E_NO_MEMORY;
    }
    atomic_init(&made->references, 1);
    made->count = count;
    source *sources = (source *)(void *)(made->entries + count);
    uint8_t *names = (uint8_t *)(sources + source_count);
    for (uint32_t i = 0; i < count; i++) {
        int status = fill_entry(&made->entries[i], &entries[i], i, &sources, &names, error);
        if (status != RP_OK) {
            free(made);
            return status;
        }
    }
    qsort(made->entries, count, sizeof(entry), compare_entries);
    *rights = made;
    return RP_OK;
}

rp_rights *rp_rights_hold(rp_rights *rights) {
    if (rights != NULL) {
        atomic_fetch_add_explicit(&rights->references, 1, memory_order_relaxed);
    }
    return rights;
}

void rp_rights_release(rp_rights *rights) {
    /* acq_rel: the thread that frees it sees that the others are done with it. */
    if (rights != NULL && atomic_fetch_sub_explicit(&rights->references, 1, memory_order_acq_rel) == 1) {
        free(rights);
    }
}

/* ---- judged ---- */

typedef struct question {
    rp_slice name;
    uint32_t actions;
    const rp_address *source;
} question;

/* Returns the first entry that does not sort before `wanted`, which has a place and, for LITERAL, a name. */
static uint32_t lower_bound(const rp_rights *rights, const entry *wanted) {
    uint32_t low = 0, high = rights->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_places(&rights->entries[middle], wanted);
        if (order == 0 && wanted->pattern == RP_PATTERN_LITERAL) {
            order = compare_bytes(rights->entries[middle].name, wanted->name);
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool name_matches(const entry *candidate, rp_slice name) {
    if (candidate->pattern == RP_PATTERN_ANY) {
        return true;
    }
    if (name.data == NULL || name.size < candidate->name.size) {
        return false;
    }
    return candidate->pattern == RP_PATTERN_LITERAL
               ? rp_slice_equals(candidate->name, name)
               : candidate->name.size == 0 || memcmp(candidate->name.data, name.data, candidate->name.size) == 0;
}

static bool is_about(const entry *candidate, const question *asked) {
    uint32_t all = candidate->actions & RP_ACTION_ALL, common = asked->actions & (candidate->actions | RP_ACTION_ANY);
    if (candidate->actions == 0 || (all | common) == 0) {
        return false;
    }
    for (uint32_t i = 0; i < candidate->source_count; i++) {
        if (source_contains(&candidate->sources[i], asked->source)) {
            return true;
        }
    }
    return candidate->source_count == 0;
}

/* Searches from the first entry at a place on, while is_default and type stay the same; LITERAL entries only while they have the name. */
static const entry *find_from(const rp_rights *rights, const entry *place, const question *asked) {
    for (uint32_t i = lower_bound(rights, place); i < rights->count; i++) {
        const entry *candidate = &rights->entries[i];
        if (candidate->is_default != place->is_default || candidate->type != place->type) {
            break;
        }
        bool matches = name_matches(candidate, asked->name);
        if (place->pattern == RP_PATTERN_LITERAL && !matches) {
            break;
        }
        if (matches && is_about(candidate, asked)) {
            return candidate;
        }
    }
    return NULL;
}

enum rp_verdict rp_rights_judge(const rp_rights *rights, uint8_t resource_type, rp_slice name, uint32_t actions, const rp_address *source) {
    const question asked = {name, actions, source};
    for (uint8_t is_default = 0; rights != NULL && is_default < 2; is_default++) {
        entry place = {.is_default = is_default, .type = resource_type, .pattern = RP_PATTERN_LITERAL, .name = name};
        const entry *found = name.data != NULL ? find_from(rights, &place, &asked) : NULL;
        place.pattern = RP_PATTERN_PREFIXED;
        found = found != NULL ? found : find_from(rights, &place, &asked);
        place.type = TYPE_LAST;
        found = found != NULL ? found : find_from(rights, &place, &asked);
        if (found != NULL) {
            return found->is_deny ? RP_VERDICT_DENY : RP_VERDICT_ALLOW;
        }
    }
    return RP_VERDICT_NO_MATCH;
}
