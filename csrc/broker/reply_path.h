/* reply_path.h: replies to requests: pushed to the client that asked, stored, and answered. Private to csrc/broker.
 * RocketMQ: ReplyMessageProcessor (5.3.3 broker/processor/).
 *
 *   request ─ checks as for a send ─┬─ push ──────────────────── pending_replies: the answer, when both are over
 *                                   └─ item of the turn's sends ┘
 *
 * A reply that the store refuses is pushed all the same, as in RocketMQ: only the store's own result is missing then (msgId 0).
 *
 * Punts    as send_path.h.
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_REPLY_PATH_H
#define RP_BROKER_REPLY_PATH_H

#include "../remoting/server.h"

struct rp_lane;

int rp_reply_path_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

#endif
