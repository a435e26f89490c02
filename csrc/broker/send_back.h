/* send_back.h: answers messages that consumers send back, on the reactor that receives them. Private to csrc/broker.
 * RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack (5.3.3 broker/processor/).
 *
 * Answered  messages that may have another try, if their record is in memory, their retry topic is stored in its file, and the log is
 *           fast: stored by rp_broker_send_back, which waits for neither disk nor slaves.
 * Punts     everything else, including what could not be stored, of which nothing exists then: refusals, topics that do not exist yet,
 *           dead letters, records on disk or of more than 1 MB, commits that have to be waited for.
 * Threads   the reactor's.
 */
#ifndef RP_BROKER_SEND_BACK_H
#define RP_BROKER_SEND_BACK_H

#include "../remoting/server.h"

struct rp_lane;

int rp_send_back_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

#endif
