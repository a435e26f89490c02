/* signature.h: checks that a request was signed by somebody who knows the secret. Internal to csrc/auth.
 * RocketMQ: DefaultAuthenticationContextBuilder, AclUtils.combineRequestContent, AclSigner (5.3.3 auth/, client/acl/common/).
 *
 * Signed are the values of all ext fields except Signature, in the order of their names, then the body; a Signature is the base64 of the
 * HmacSHA1 of that. A field without a value adds nothing: the binary encoding cannot represent an empty one, and the client signed what
 * it had.
 *
 * Threads  pure except for the order, which belongs to the caller.
 */
#ifndef RP_AUTH_SIGNATURE_H
#define RP_AUTH_SIGNATURE_H

#include "../base/sha1.h"
#include "../remoting/command.h"
#include "auth_table.h"

/* The fields of the last request in the order of their names, which is probably that of the next one, too. Initially zero. */
typedef struct rp_field_order {
    uint16_t count;
    uint8_t places[RP_COMMAND_FIELDS_MAX];
} rp_field_order;

/* RP_OK; RP_E_PROTOCOL: two fields have the same name and different values. RocketMQ uses the last one, but what was signed and what is
 * read later must be the same. The same value twice is common: a Java client that signs writes its hot headers twice in the binary
 * encoding, once from the header and once from the fields that signing has made of it. */
int rp_field_order_of(const rp_command *command, rp_field_order *order);

/* Computes the signature of a command whose fields have that order. */
void rp_signature_make(const rp_command *command, const rp_field_order *order, const rp_hmac_key *key,
                       char signature[RP_SIGNATURE_TEXT_SIZE]);
/* Computes the signature of content that is not a command. */
void rp_signature_of(rp_slice content, const rp_hmac_key *key, char signature[RP_SIGNATURE_TEXT_SIZE]);

#endif
