/* call_claim.h: whom a gRPC call says it is from, and whether that may be native. RocketMQ: DefaultAuthenticationContextBuilder
 * (5.3.3 auth/authentication/builder/).
 *
 * As rocketpy/proxy/claims.py reads it: authorization: MQv2-HMAC-SHA1 Credential=USER/…, SignedHeaders=…, Signature=HEX, of x-mq-date-time.
 *
 * Threads  the reactor's.
 */
#ifndef RP_PROXY_CALL_CLAIM_H
#define RP_PROXY_CALL_CLAIM_H

#include "../auth/caller.h"
#include "../base/sha1.h"
#include "../grpc/grpc.h"

/* The user and his signature's bytes. 1; 0: the header is none, or written in another way. */
int rp_call_claim_read(rp_slice authorization, rp_slice *user, uint8_t digest[RP_SHA1_SIZE]);
/* Whether a call that asks for these rights has proven who it is and may have them: by gate, of which NULL asks nobody anything. */
int rp_call_is_admitted(const rp_gate *gate, const rp_reactor *reactor, const rp_grpc_call *call, const rp_asked_right *rights,
                        uint32_t count);

#endif
