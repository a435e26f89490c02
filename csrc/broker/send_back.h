/* send_back.h: messages that consumers send back, on the reactor that is asked to. Private to csrc/broker.
 * RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack (5.3.3 broker/processor/).
 *
 * Answered  what may have another try, while its record is in memory, its retry topic in its file, and the log is quick: stored by
 *           rp_broker_send_back, which waits for neither disk nor slaves.
 * Punts     all else, also what could not be stored, of which nothing is there then: refusals, topics that are not there yet, dead letters,
 *           records on disk or of more than 1 MB, commits that have to be waited for.
 * Threads   the reactor's.
 */
#ifndef RP_BROKER_SEND_BACK_H
#define RP_BROKER_SEND_BACK_H

#include "../remoting/server.h"

struct rp_lane;

int rp_send_back_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);

#endif
