/* signature.h: checks that a request was signed by somebody who knows the secret. Internal to csrc/auth.
 * RocketMQ: DefaultAuthenticationContextBuilder, AclUtils.combineRequestContent, AclSigner (5.3.3 auth/, client/acl/common/).
 *
 * Signed are the values of all ext fields but Signature, in the order of their names, then the body; a Signature is the base64 of the
 * HmacSHA1 of that. A field without a value adds nothing: the binary encoding has no empty ones, and the client signed what it had.
 *
 * Threads  pure but for the order, which is the caller's.
 */
#ifndef RP_AUTH_SIGNATURE_H
#define RP_AUTH_SIGNATURE_H

#include "../base/sha1.h"
#include "../remoting/command.h"
#include "auth_table.h"

/* The fields of the last request in the order of their names: most likely that of the next one, too. Begins zeroed. */
typedef struct rp_field_order {
    uint16_t count;
    uint8_t places[RP_COMMAND_FIELDS_MAX];
} rp_field_order;

/* RP_OK; RP_E_PROTOCOL: two fields have one name and different values. RocketMQ takes the last, but what was signed and what is read
 * further on had better be the same. The same value twice is common: a Java client that signs writes its hot headers so in the binary
 * encoding, once as the header and once as the fields that the signing has made of it. */
int rp_field_order_of(const rp_command *command, rp_field_order *order);

/* The signature of a command whose fields are in that order. */
void rp_signature_make(const rp_command *command, const rp_field_order *order, const rp_hmac_key *key,
                       char signature[RP_SIGNATURE_TEXT_SIZE]);
/* The signature of content that is not a command. */
void rp_signature_of(rp_slice content, const rp_hmac_key *key, char signature[RP_SIGNATURE_TEXT_SIZE]);

#endif
