/* signature.c: see signature.h. */
#include "signature.h"

#include <stdbool.h>
#include <string.h>

#include "../base/base64.h"
#include "../base/slice_inl.h"

#define VERSION_4_9_3 399 /* MQVersion.Version.V4_9_3: clients up to it sign without this field, which they add behind the signature */
#define UNIQUE_KEY_QUERY "_UNIQUE_KEY_QUERY"
#define SIGNATURE "Signature"

/* Compares as Java compares strings: by UTF-16 units. UTF-8 sorts in the same way except for surrogate pairs, F0 to F4, which Java sorts
 * before EE and EF. */
static int compare_names(rp_slice left, rp_slice right) {
    uint32_t common = left.size < right.size ? left.size : right.size;
    for (uint32_t i = 0; i < common; i++) {
        uint8_t a = left.data[i], b = right.data[i];
        if (a != b) {
            bool is_swapped = (a >= 0xF0 && (b == 0xEE || b == 0xEF)) || (b >= 0xF0 && (a == 0xEE || a == 0xEF));
            return (a < b) != is_swapped ? -1 : 1;
        }
    }
    return left.size == right.size ? 0 : left.size < right.size ? -1 : 1;
}

/* Compares two fields; sets *differ if they have the same name and different values. */
static int compare_fields(const rp_command *command, uint8_t left, uint8_t right, bool *differ) {
    const rp_field *first = &command->fields[left], *second = &command->fields[right];
    int order = compare_names(first->key, second->key);
    *differ |= order == 0 && !rp_slice_equals(first->value, second->value);
    return order;
}

/* An order contains every place of a command with as many fields, so it suffices that the names ascend. */
static bool is_order_of(const rp_command *command, const rp_field_order *order) {
    bool differ = false;
    if (order->count != command->field_count) {
        return false;
    }
    for (uint32_t i = 1; i < order->count; i++) {
        if (compare_fields(command, order->places[i - 1], order->places[i], &differ) > 0 || differ) {
            return false;
        }
    }
    return true;
}

int rp_field_order_of(const rp_command *command, rp_field_order *order) {
    if (is_order_of(command, order)) {
        return RP_OK;
    }
    bool differ = false;
    order->count = 0; /* invalid until it is complete */
    for (uint32_t i = 0; i < command->field_count; i++) {
        uint32_t at = i;
        for (; at > 0 && compare_fields(command, order->places[at - 1], (uint8_t)i, &differ) > 0; at--) {
            order->places[at] = order->places[at - 1];
        }
        order->places[at] = (uint8_t)i;
        if (differ) {
            return RP_E_PROTOCOL;
        }
    }
    order->count = command->field_count;
    return RP_OK;
}

static void end(rp_sha1 *sha1, const rp_hmac_key *key, char signature[RP_SIGNATURE_TEXT_SIZE]) {
    uint8_t digest[RP_SHA1_SIZE];
    rp_hmac_end(sha1, key, digest);
    _Static_assert(RP_BASE64_SIZE(RP_SHA1_SIZE) == RP_SIGNATURE_TEXT_SIZE, "no zero behind it");
    rp_base64_encode(digest, RP_SHA1_SIZE, (uint8_t *)signature);
}

void rp_signature_make(const rp_command *command, const rp_field_order *order, const rp_hmac_key *key,
                       char signature[RP_SIGNATURE_TEXT_SIZE]) {
    bool skips_query_flag = command->version <= VERSION_4_9_3;
    const rp_field *before = NULL;
    rp_sha1 sha1;
    rp_hmac_begin(&sha1, key);
    for (uint32_t i = 0; i < order->count; i++) {
        const rp_field *field = &command->fields[order->places[i]];
        bool is_again = before != NULL && rp_slice_equals(before->key, field->key);
        bool is_unsigned = rp_slice_is(field->key, SIGNATURE) || (skips_query_flag && rp_slice_is(field->key, UNIQUE_KEY_QUERY));
        if (!is_again && !is_unsigned) {
            rp_sha1_add(&sha1, field->value.data, field->value.size);
        }
        before = field;
    }
    rp_sha1_add(&sha1, command->body.data, command->body.size);
    end(&sha1, key, signature);
}

void rp_signature_of(rp_slice content, const rp_hmac_key *key, char signature[RP_SIGNATURE_TEXT_SIZE]) {
    rp_sha1 sha1;
    rp_hmac_begin(&sha1, key);
    rp_sha1_add(&sha1, content.data, content.size);
    end(&sha1, key, signature);
}

void rp_auth_sign(rp_slice secret, rp_slice content, char signature[RP_SIGNATURE_TEXT_SIZE]) {
    rp_hmac_key key;
    rp_hmac_key_make(&key, secret.data, secret.size);
    rp_signature_of(content, &key, signature);
    rp_wipe(&key, sizeof key);
}
