/* call_claim.c: see call_claim.h. */
#include "call_claim.h"

#include <stdbool.h>
#include <string.h>

#include "../base/slice_inl.h"
#include "../remoting/protocol.h"

#define HEADER_MAX 8192u

static int digit_of(uint8_t c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_digest(rp_slice digits, uint8_t digest[RP_SHA1_SIZE]) {
    if (digits.size != 2 * RP_SHA1_SIZE)
        return false;
    for (uint32_t i = 0; i < RP_SHA1_SIZE; i++) {
        int high = digit_of(digits.data[2 * i]), low = digit_of(digits.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* Returns the text before the first mark; *rest becomes the text behind it, with data NULL if there is no mark. */
static rp_slice cut(rp_slice text, char mark, rp_slice *rest) {
    const uint8_t *found = text.size > 0 ? memchr(text.data, mark, text.size) : NULL;
    if (found == NULL) {
        *rest = (rp_slice){NULL, 0};
        return text;
    }
    uint32_t size = (uint32_t)(found - text.data);
    *rest = (rp_slice){found + 1, text.size - size - 1};
    return (rp_slice){text.data, size};
}

static rp_slice stripped(rp_slice text) {
    while (text.size > 0 && text.data[0] == ' ')
        text = (rp_slice){text.data + 1, text.size - 1};
    while (text.size > 0 && text.data[text.size - 1] == ' ')
        text.size--;
    return text;
}

int rp_call_claim_read(rp_slice authorization, rp_slice *user, uint8_t digest[RP_SHA1_SIZE]) {
    rp_slice pairs, value, behind;
    bool is_signed = false;
    *user = (rp_slice){NULL, 0};
    if (authorization.size > HEADER_MAX)
        return 0;
    for (cut(authorization, ' ', &pairs); pairs.data != NULL;) {
        rp_slice pair = stripped(cut(pairs, ',', &pairs)), name = cut(pair, '=', &value);
        if (value.data == NULL)
            return 0;
        if (rp_slice_is(name, "Credential"))
            *user = cut(value, '/', &behind);
        else if (rp_slice_is(name, "Signature") && !(is_signed = read_digest(value, digest)))
            return 0;
    }
    return is_signed && user->size > 0;
}

int rp_call_is_admitted(const rp_gate *gate, const rp_reactor *reactor, const rp_grpc_call *call, const rp_asked_right *rights,
                        uint32_t count) {
    uint8_t digest[RP_SHA1_SIZE];
    if (gate == NULL)
        return 1;
    rp_caller caller = {.content = rp_grpc_call_metadata(call, "x-mq-date-time"),
                        .digest = digest,
                        .source = *rp_connection_address(rp_grpc_call_connection(call))};
    return caller.content.size > 0 && rp_call_claim_read(rp_grpc_call_metadata(call, "authorization"), &caller.user, digest) &&
           rp_caller_is_admitted(gate, reactor, &caller, rights, count);
}
