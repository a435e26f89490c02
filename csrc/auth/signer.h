/* signer.h: signs commands as a user. RocketMQ: AclClientRPCHook (5.3.3 remoting/), AclUtils.combineRequestContent.
 *
 * Threads  a signer is immutable once open.
 * Owns     copies of what it was opened with; the secret is wiped with it.
 */
#ifndef RP_AUTH_SIGNER_H
#define RP_AUTH_SIGNER_H

#include "../remoting/command.h"
#include "auth_table.h"

typedef struct rp_signer rp_signer;

/* token.data NULL: there is none. RP_OK, RP_E_NO_MEMORY. */
int rp_signer_open(rp_slice access_key, rp_slice secret, rp_slice token, rp_signer **signer);
void rp_signer_close(rp_signer *signer); /* NULL is nothing */
/* Adds the access key and the signature, whose text is written into `signature`: the fields point there and to the signer. RP_OK;
 * RP_E_TOO_LARGE: there are too many fields; RP_E_PROTOCOL: two have the same name. */
int rp_signer_sign(const rp_signer *signer, rp_command *command, char signature[RP_SIGNATURE_TEXT_SIZE]);

#endif
