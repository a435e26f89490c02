/* requested_rights.c: see requested_rights.h. */
#include "requested_rights.h"

#include <stdbool.h>
#include <string.h>

#include "../base/slice_inl.h"
#include "../remoting/json_reader.h"
#include "auth_table.h"
#include "request_rules.h"

#define RETRY_PREFIX "%RETRY%"
#define RETRY_PREFIX_SIZE (sizeof RETRY_PREFIX - 1)

typedef struct asking {
    const rp_request_rule *rule;
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

static rp_slice without_retry_prefix(rp_slice name) {
    return is_retry_topic(name) ? (rp_slice){name.data + RETRY_PREFIX_SIZE, name.size - RETRY_PREFIX_SIZE} : name;
}

static int show_group_of_retry(asking *asked, uint32_t actions, rp_slice name) {
    rp_slice group = without_retry_prefix(name);
    return show(asked, RP_RESOURCE_GROUP, actions, group);
}

static int show_named(asking *asked, uint8_t naming, rp_slice name) {
    const rp_request_rule *of = asked->rule;
    switch (naming) {
    case RP_NAMES_CLUSTER:
        return show(asked, RP_RESOURCE_CLUSTER, of->actions, name);
    case RP_NAMES_GROUP:
        return show(asked, RP_RESOURCE_GROUP, of->actions, name);
    case RP_NAMES_GROUP_OF_RETRY:
        return show_group_of_retry(asked, of->actions, name);
    case RP_NAMES_TOPIC_UNLESS_RETRY:
        return is_retry_topic(name) ? RP_OK : show(asked, RP_RESOURCE_TOPIC, of->actions, name);
    case RP_NAMES_TOPIC_OR_GROUP:
        if (is_retry_topic(name)) {
            return show_group_of_retry(asked, of->retry_actions != 0 ? of->retry_actions : of->actions, name);
        }
        return show(asked, RP_RESOURCE_TOPIC, of->actions, name);
    default:
        return show(asked, RP_RESOURCE_TOPIC, of->actions, name);
    }
}

/* ---- fields ---- */

/* A field may occur twice with the same value, as signature.h explains. */
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

static int show_each(asking *asked, const rp_named_field *field, rp_slice names) {
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

static int show_field(asking *asked, const rp_command *command, const rp_named_field *field) {
    rp_slice value;
    int status = find_field(command, field->key, &value);
    if (status != RP_OK) {
        return status;
    }
    if ((value.data == NULL && field->presence != RP_REQUIRED) || (field->presence == RP_NOT_BLANK && is_blank(value))) {
        return RP_OK;
    }
    return field->separator != 0 ? show_each(asked, field, value) : show_named(asked, field->naming, value);
}

static int show_fields(asking *asked, const rp_command *command) {
    const rp_request_rule *of = asked->rule;
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
 * The code that answers the request parses its body again, by fastjson's rules (rocketpy/remoting/json_codec.py), which accept more: it
 * must not find names that were not checked here. What only those rules accept is no JSON to the reader here; a reference is JSON, and
 * is refused. */

#define REFERENCE "$ref"

static bool is_member(rp_slice name, const char *one, const char *other) {
    return (one != NULL && rp_slice_is(name, one)) || (other != NULL && rp_slice_is(name, other));
}

static int show_object(asking *asked, rp_json *json, const rp_body_shape *shape);

static int show_list(asking *asked, rp_json *json, const rp_body_shape *element) {
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

static int show_member(asking *asked, rp_json *json, const rp_body_shape *shape, rp_slice name, bool *names_group) {
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

/* If a member occurs twice both are checked, whichever is used later. Lists of shapes are nested two deep at most. */
static int show_object(asking *asked, rp_json *json, const rp_body_shape *shape) {
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
    const rp_request_rule *of = rp_request_rule_of(command->code);
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

rp_requested_right rp_right_to_send(rp_slice topic) {
    if (is_retry_topic(topic)) {
        return (rp_requested_right){RP_RESOURCE_GROUP, RP_ACTION_SUB, without_retry_prefix(topic)};
    }
    return (rp_requested_right){RP_RESOURCE_TOPIC, RP_ACTION_PUB, topic};
}
