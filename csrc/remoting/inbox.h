/* inbox.h: the items that other threads send to a reactor. Internal to csrc/remoting, C only.
 *
 * Every item begins with rp_inbox_item, is allocated by the sender and belongs to the reactor once it is in the ring.
 */
#ifndef RP_REMOTING_INBOX_H
#define RP_REMOTING_INBOX_H

#include <stdint.h>

#include "server.h"

enum rp_inbox_kind {
    RP_INBOX_WAKE = 0,  /* only makes the reactor turn; static, never freed */
    RP_INBOX_ACCEPTED,  /* rp_accepted: a new socket for this reactor */
    RP_INBOX_OUTPUT,    /* rp_output_piece: an encoded frame for a connection */
    RP_INBOX_RESUBMIT,  /* rp_held_request: a request for the handler */
    RP_INBOX_CLOSE,     /* rp_inbox_item: close the connection */
    RP_INBOX_POSTED     /* rp_posted: for the connection's protocol (protocol.h) */
};

typedef struct rp_inbox_item {
    enum rp_inbox_kind kind;
    uint64_t connection_id;
} rp_inbox_item;

typedef struct rp_accepted {
    rp_inbox_item inbox;
    int fd;
    rp_address address;
} rp_accepted;

#endif
