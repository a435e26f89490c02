/* metadata.h: the texts that accompany a call's messages: timeouts, status messages, content types. Internal to csrc/grpc, C only.
 *
 * Threads  pure functions.
 */
#ifndef RP_GRPC_METADATA_H
#define RP_GRPC_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/slice.h"

#define RP_GRPC_TEXT_MAX 1024u /* bytes of a status message that are sent; the rest is cut off */

/* Parses grpc-timeout, such as 3S or 250m, into ns; -1 if it is malformed. */
int64_t rp_grpc_timeout_ns(rp_slice text);
/* True for application/grpc, alone or followed by + or ;. */
bool rp_grpc_is_content_type(rp_slice text);
/* True for a header that calls keep: not HTTP's and not gRPC's own. */
bool rp_grpc_is_kept(rp_slice name);
/* Encodes the text for grpc-message: percent signs and all but printable ASCII become %XX. Returns its size. */
uint32_t rp_grpc_encode_text(rp_slice text, uint8_t target[3 * RP_GRPC_TEXT_MAX]);

#endif
