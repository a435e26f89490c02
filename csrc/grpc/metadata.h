/* metadata.h: the texts around a call's messages: time limits, statuses' messages, content types. Internal to csrc/grpc, C only.
 *
 * Threads  pure functions.
 */
#ifndef RP_GRPC_METADATA_H
#define RP_GRPC_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/slice.h"

#define RP_GRPC_TEXT_MAX 1024u /* bytes of a status' message that are sent; what is behind them is cut off */

/* grpc-timeout, such as 3S or 250m, in ns; -1 when it cannot be read. */
int64_t rp_grpc_timeout_ns(rp_slice text);
/* application/grpc, alone or with + or ; behind it. */
bool rp_grpc_is_content_type(rp_slice text);
/* Whether a header is one that calls keep: not HTTP's and not gRPC's own. */
bool rp_grpc_is_kept(rp_slice name);
/* The text as grpc-message has it: percent signs and what is not printable ASCII are %XX. Returns its size. */
uint32_t rp_grpc_encode_text(rp_slice text, uint8_t target[3 * RP_GRPC_TEXT_MAX]);

#endif
