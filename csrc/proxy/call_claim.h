/* call_claim.h: reads which user a gRPC call claims to come from, and decides whether it may be answered natively. RocketMQ:
 * DefaultAuthenticationContextBuilder (5.3.3 auth/authentication/builder/).
 *
 * Reads the same form as rocketpy/proxy/claims.py: authorization: MQv2-HMAC-SHA1 Credential=USER/…, SignedHeaders=…, Signature=HEX,
 * where the signature is over x-mq-date-time.
 *
 * Threads  the reactor's.
 */
#ifndef RP_PROXY_CALL_CLAIM_H
#define RP_PROXY_CALL_CLAIM_H

#include "../auth/caller.h"
#include "../base/sha1.h"
#include "../grpc/grpc.h"

/* Reads the user and the bytes of the signature. Returns 1; 0: the header is absent or has another form. */
int rp_call_claim_read(rp_slice authorization, rp_slice *user, uint8_t digest[RP_SHA1_SIZE]);
/* Returns 1 if the gate admits the call: its user is proven and has all of these rights. A NULL gate admits every call. */
int rp_call_is_admitted(const rp_gate *gate, const rp_reactor *reactor, const rp_grpc_call *call, const rp_asked_right *rights,
                        uint32_t count);

#endif
