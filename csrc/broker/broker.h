/* broker.h: the broker's data plane: the handler that answers sends and pulls on the reactors, and the native tables that Python writes
 * and the hot path reads.
 * RocketMQ: SendMessageProcessor, ReplyMessageProcessor, PullMessageProcessor, PullRequestHoldService, ConsumerOffsetManager (5.3.3).
 *
 *   Python ── topics, groups, subscriptions, settings ──► tables (stable pointers, atomic fields) ──► send_path, pull_path
 *   send_path ─ append (one lock a turn) ─ response now, or parked until flushed / replicated
 *   pull_path ─ queue entries → mapped ranges → response; nothing there → long_polling
 *
 * Threads  the put/delete/export functions from one thread (Python's); reactors read the tables without locks.
 * Owns     the tables, parked responses, suspended pulls. Borrows the store and the server (both are closed after it).
 * Punts    anything special goes up to Python (send_path.h and pull_path.h give the exact rules).
 */
#ifndef RP_BROKER_BROKER_H
#define RP_BROKER_BROKER_H

#include <stdint.h>

#include "../base/error.h"
#include "../remoting/server.h"
#include "../store/message_store.h"

typedef struct rp_broker rp_broker;

typedef struct rp_broker_options {
    rp_message_store *store;
    const char *cluster_name;      /* CLUSTER property of every stored message */
    const char *broker_name;
    const char *broker_ip;         /* brokerIP1, for RocketMQ's error texts */
    const char *region_id;         /* MSG_REGION, "DefaultRegion" */
    int32_t trace_on;              /* TRACE_ON */
    uint8_t store_host[20];        /* as in the store's options: the first part of every msgId */
    int32_t store_host_is_v6;
    uint64_t memory_bytes;         /* the amount of memory that memory_ratio_max of the settings is a percentage of */
    uint32_t suspended_pulls_max;  /* bound of suspended pulls, default 1,000,000; beyond it PULL_NOT_FOUND is answered at once */
    uint64_t cold_after_bytes; /* messages further than this behind the log's end may be on disk only (cold_reads.h), default 64 MiB */
    uint64_t cold_after_entries; /* likewise for queue entries, counted from the queue's end, default 8192 */
    uint32_t push_timeout_ms; /* how long a requester has to answer the reply that was pushed to it, default 10,000 */
    /* How long a pull waits for a read of cold messages before the reactor reads them itself; longer than the disk takes for a stretch
     * of the log; default 500 */
    uint32_t cold_wait_ms;
    uint32_t cold_window_ms; /* cold_flow.h, default RP_COLD_WINDOW_MS */
    rp_log *log;
} rp_broker_options;

void rp_broker_options_default(rp_broker_options *options);
int rp_broker_open(const rp_broker_options *options, rp_broker **broker, rp_error *error);
/* Returns the handler to pass to rp_server_open, valid until rp_broker_close. Then attach the server. */
const rp_handler *rp_broker_handler(rp_broker *broker);
/* Attaches a server, between rp_server_open and rp_server_start. A second listener (VIP channel, listenPort-2) uses the same handler and
 * has to be attached, too. RP_OK; RP_E_BUSY past 4 servers or 64 reactors in all; RP_E_NO_MEMORY. */
int rp_broker_attach(rp_broker *broker, rp_server *server);
/* Frees everything, suspended pulls and parked responses included. Every attached server must have stopped. */
void rp_broker_close(rp_broker *broker);

/* Behind a controller: from until_ms of the monotonic clock on, nothing is appended and sends are answered SERVICE_NOT_AVAILABLE, because a
 * broker that does not hear from the controller may no longer be the master. It is a point in time, not a span, so the lease ends when it
 * has to, however late this call comes. 0: at once; negative, the initial state: never. Any thread. */
void rp_broker_renew_lease(rp_broker *broker, int64_t until_ms);

/* In the order of brokerRole's values. */
enum rp_broker_role { RP_ROLE_ASYNC_MASTER = 0, RP_ROLE_SYNC_MASTER = 1, RP_ROLE_SLAVE = 2 };

#define RP_TRANSFER_COUNT_MAX 65536u
/* Settings the hot path reads and Python may change at any time. */
typedef struct rp_broker_settings {
    int32_t permission; /* brokerPermission: 4 read, 2 write */
    int32_t role; /* rp_broker_role: a slave refuses sends */
    int64_t accept_after_ms; /* startAcceptSendRequestTimeStamp: until then sends get SYSTEM_ERROR as RocketMQ does */
    int32_t slave_read_enable;
    int32_t offset_check_in_slave;
    int32_t lite_pull_enable; /* litePullMessageEnable, default 1 */
    int32_t property_filter_enable; /* enablePropertyFilter, default 0: pulls by SQL92 are punted */
    int64_t broker_id_min; /* smallest live broker id of this group: 0 while the master lives */
    int32_t flush_mode; /* rp_flush_mode; with RP_FLUSH_SYNC a send is answered when it is on disk */
    int32_t slaves_min; /* SYNC_MASTER: with fewer slaves in sync, sends are refused before they are stored; 0: no minimum */
    int32_t slave_acks; /* SYNC_MASTER: this many slaves must hold a message before its response; 0: none */
    int64_t slave_gap_bytes_max; /* haMaxGapNotInSync 268,435,456: if slaves are further behind, the answer is SLAVE_NOT_AVAILABLE */
    uint32_t message_size_max; /* maxMessageSize 4 MiB, limit of the body; the store has its own bound */
    uint32_t transfer_bytes_max_memory; /* maxTransferBytesOnMessageInMemory 262,144 */
    uint32_t transfer_count_max_memory; /* maxTransferCountOnMessageInMemory 32; at most RP_TRANSFER_COUNT_MAX count */
    uint32_t transfer_bytes_max_disk; /* maxTransferBytesOnMessageInDisk 65,536 */
    uint32_t transfer_count_max_disk; /* maxTransferCountOnMessageInDisk 8; at most RP_TRANSFER_COUNT_MAX count */
    uint32_t filter_bytes_max; /* maxFilterMessageSize 16,000: queue bytes one pull may scan (at least maxMsgNums entries) */
    uint32_t memory_ratio_max; /* accessMessageInMemoryMaxRatio 40 */
    int32_t long_polling_enable; /* longPollingEnable; pulls that are already held keep their deadline */
    uint32_t short_polling_ms; /* shortPollingTimeMills 1,000 */
    uint32_t sync_flush_timeout_ms; /* syncFlushTimeout 5,000 */
    uint32_t slave_timeout_ms; /* slaveTimeout 3,000 */
    int32_t store_reply_enable; /* storeReplyMessageEnable: replies are also stored; default 1 */
    int32_t transaction_enable; /* the negation of rejectTransactionMessage; default 1 */
    int64_t transaction_timeout_ms; /* transactionTimeOut 6,000 */
    /* timerWheelEnable: sends with a timer are accepted; default 0, since without the timer service nothing delivers them */
    int32_t timer_enable;
    int32_t timer_precision_ms; /* timerPrecisionMs 1,000 */
    int64_t timer_delay_max_ms; /* timerMaxDelaySec, 3 days */
    int64_t timer_slot_messages_max; /* timerCongestNumEachSlot, 2^31 - 1: beyond it sends for that slot are refused at random */
    int32_t timer_stop_enqueue; /* timerStopEnqueue: arriving timed messages wait in their queue; default 0 */
    int32_t timer_stop_dequeue; /* timerStopDequeue: due messages wait in their slot; default 0 */
    int32_t retry_topic_version; /* version of popped messages' retry topics: 2 with enableRetryTopicV2; default 1 */
    /* retrieveMessageFromPopRetryTopicV1: with version 2, those of version 1 are popped too; default 1 */
    int32_t retry_topic_v1_too;
    /* useSeparateRetryQueue: a retried message goes to the queue with the number of its old one; default 0 */
    int32_t separate_retry_queues;
    int32_t pop_from_retry_percent; /* popFromRetryProbability 20: percentage of pops that look into the retry topic first */
    int32_t pop_from_retry_percent_by_priority; /* popFromRetryProbabilityForPriority 0: the same for pops by priority */
    int32_t priority_ascends; /* priorityOrderAsc: the last queue of a priority topic has the highest priority; default 1 */
    int32_t pop_begins_in_memory; /* initPopOffsetByCheckMsgInMem: a new group begins with the messages in memory; default 1 */
    int32_t cold_flow_enable; /* coldDataFlowControlEnable, default 0: see cold_flow.h */
    /* cgColdReadThreshold 3 MiB: limit of a group per RP_COLD_WINDOW_MS, unless an operator set another */
    int64_t cold_group_bytes;
    int64_t cold_all_bytes; /* globalColdReadThreshold 100 MiB: limit of all groups together */
    int32_t store_writable; /* 0: SERVICE_NOT_AVAILABLE with the reason below */
    char store_reason[128];
} rp_broker_settings;
void rp_broker_settings_default(rp_broker_settings *settings);
void rp_broker_set_settings(rp_broker *broker, const rp_broker_settings *settings);
/* Dismisses waiting pulls because the broker is about to stop: each is answered SYSTEM_BUSY, and so is every pull that arrives from now
 * on. Any thread; cannot be undone. When the connection of a waiting pull closes, RocketMQ's Java client may miss that for half a
 * minute, during which its queue stands still. */
void rp_broker_dismiss_pulls(rp_broker *broker);
/* Sets the commit log offset that slaves_min slaves hold; -1: there are fewer slaves. Any thread. */
void rp_broker_set_in_sync(rp_broker *broker, int64_t offset);

/* Sets the commit log offset that slave_acks slaves hold; -1: there are fewer slaves. Any thread; wakes the responses that it completes. */
void rp_broker_set_replicated(rp_broker *broker, int64_t offset);

/* For a store whose log has entries (commit_log_ledger.h): the log offset up to which it is committed; -1 while this broker does not lead
 * its group. Every send waits until this has passed its message. After slave_timeout_ms it is answered SYSTEM_ERROR, as by RocketMQ; at the
 * next -1 SERVICE_NOT_AVAILABLE, which makes producers try another broker, because another leader may take the message back. Any thread;
 * wakes the responses that it completes. */
void rp_broker_set_committed(rp_broker *broker, int64_t offset);

/* Topics. With RP_TOPIC_NATIVE_SEND or _PULL, plain sends or pulls may take the fast path (not for batch queues that are compacted).
 * Returns RP_OK, RP_E_INVALID (queue counts outside 0..RP_TOPIC_QUEUES_MAX, name longer than 255 bytes) or RP_E_NO_MEMORY. */
#define RP_TOPIC_NATIVE_SEND 1
#define RP_TOPIC_NATIVE_PULL 2
#define RP_TOPIC_ORDER 4 /* order topic: refused while the broker is not writable */
#define RP_TOPIC_MULTI_TAG 8 /* topicFilterType MULTI_TAG: its records carry RP_SYSFLAG_MULTI_TAGS */
#define RP_TOPIC_CHECKED_SEND 16 /* a retry topic: Python checks sends first, and returns them to the fast path */
#define RP_TOPIC_STATIC 32 /* queue ids in requests are global ones (rp_broker_put_queue_mapping), except in requests with lo=false */
#define RP_TOPIC_BATCH 64 /* its queues are batch queues */
#define RP_TOPIC_LITE 128 /* message.type LITE: its lite topics may be popped (lite.h) */
#define RP_TOPIC_COMPACTED 256 /* cleanup.policy=COMPACTION: its messages need keys; its queues are compacted if the store compacts */
#define RP_TOPIC_PRIORITY 512 /* message.type=PRIORITY: pops take its queues in order of priority, unless their group says otherwise */
/* A retry topic that is stored in the topics' file: messages to be retried, or coming back for a retry, need no Python */
#define RP_TOPIC_RETRY_SEND 1024
#define RP_TOPIC_CHECKED_BACK 2048 /* Python first looks whether who sends a message back may read it */
#define RP_TOPIC_QUEUES_MAX 65536
int rp_broker_put_topic(rp_broker *broker, rp_slice topic, int32_t read_queues, int32_t write_queues, int32_t permission, int32_t sys_flag,
                        uint32_t flags);
/* To be called before the topic is put with RP_TOPIC_COMPACTED, so that readers find its kept messages from the start. As
 * rp_message_store_compact; blocks on the disk. */
int rp_broker_compact_topic(rp_broker *broker, rp_slice topic, int32_t queues, rp_error *error);
/* For a static topic: maps a global queue to a queue of this broker, whose message at start_offset has logic_offset in the global queue
 * (-1: not decided yet). is_earliest: no earlier messages can be read elsewhere. queue_id -1: the global queue is not led here. Waiting
 * readers learn of it with the next rp_broker_put_topic. RP_OK; RP_E_INVALID: an impossible name, queue or offset; RP_E_NO_MEMORY. */
int rp_broker_put_queue_mapping(rp_broker *broker, rp_slice topic, int32_t global_id, int32_t queue_id, int64_t logic_offset,
                                int64_t start_offset, int32_t is_earliest);
/* To be called after a change of mappings, on the thread that puts them. mark notes the sends that may have seen the earlier mappings;
 * are_over returns 1 once all of those are stored or refused, so that nothing more gets into a queue that was given up. */
void rp_broker_mark_mapped_sends(rp_broker *broker);
int rp_broker_mapped_sends_are_over(const rp_broker *broker);
/* To be called before rp_message_store_delete_topic. The topic's offsets stay until rp_broker_delete_offsets. */
void rp_broker_delete_topic(rp_broker *broker, rp_slice topic);

/* Producers, to whom replies are sent: sets the connection of a client id in place of its earlier one. `server`: the number of the attached
 * server, from 0. RP_OK; RP_E_INVALID: an empty client id or one of more than RP_CLIENT_ID_MAX bytes, no such server or reactor; RP_E_BUSY
 * past RP_PRODUCERS_MAX; RP_E_NO_MEMORY. Producers that are gone have to be deleted. */
#define RP_CLIENT_ID_MAX 1024
#define RP_PRODUCERS_MAX 1048576
int rp_broker_put_producer(rp_broker *broker, rp_slice client_id, uint32_t server, uint64_t connection_id);
void rp_broker_delete_producer(rp_broker *broker, rp_slice client_id);

/* Delayed messages: SCHEDULE_TOPIC_XXXX, by the levels of messageDelayLevel, from 1. A master delivers due messages from the offset of
 * each level on; offsets are put before the start. Start and stop from one thread. Start: RP_OK; RP_E_NO_MEMORY, RP_E_BUSY. Put: RP_OK;
 * RP_E_INVALID: no such level, or an offset below 0. Read: RP_OK; RP_E_NOT_FOUND past the last level; *offset -1: nothing was ever
 * delivered. What an offset says was delivered had been appended before the offset was read; the offset is written to a file only once
 * all of that is on disk.
 *
 * Messages that cannot be appended to their destination are set aside: the offset stays at the first of them, and all others below
 * `reached` are delivered. They are read after the offset, and put in place of the offset, in any order. RP_E_INVALID: also an offset
 * that is not below `reached`; RP_E_NO_MEMORY, RP_E_BUSY past the bound: then everything from the first of them on is delivered again. */
#define RP_DELAY_ASIDE_MAX 16384
int rp_broker_start_delivery(rp_broker *broker, rp_error *error);
void rp_broker_stop_delivery(rp_broker *broker);
int rp_broker_put_delay_offset(rp_broker *broker, int32_t level, int64_t offset);
int rp_broker_put_delay_aside(rp_broker *broker, int32_t level, int64_t reached, const int64_t *offsets, uint32_t count);
int rp_broker_read_delay_offset(const rp_broker *broker, int32_t level, int64_t *offset, int64_t *max_offset);
/* Copies the offsets that are set aside in a level, ascending, and returns how many there are; 0 also if there is no such level. offsets
 * has room for RP_DELAY_ASIDE_MAX; NULL only counts. */
uint32_t rp_broker_read_delay_aside(const rp_broker *broker, int32_t level, int64_t *reached, int64_t *offsets);

/* A message that a consumer could not process is stored again, for a later try or, after its last, among the dead letters of its group. */
typedef struct rp_send_back {
    int64_t log_offset; /* commit log offset of the message */
    rp_slice group; /* the consumer's group, by which it is counted if group and topic exist here */
    rp_slice retry_topic;
    rp_slice dead_letter_topic; /* size 0: it does not exist yet and must be created first */
    int32_t retry_queue_id, dead_letter_queue_id;
    int32_t delay_level; /* 0: grows with each try; below 0: dead letter at once */
    int32_t reconsume_times_max;
    rp_slice unique_key; /* which message is meant if a batch lies there; size 0: unknown */
} rp_send_back;
enum rp_sent_back { RP_SENT_BACK_TO_RETRY = 0, RP_SENT_BACK_TO_DEAD_LETTERS = 1 };
/* Stores the message again. Any thread; blocks on the disk that the message is read from. Under SYNC_FLUSH the copy's sync is requested,
 * but not waited for. Returns one of rp_sent_back; RP_E_NOT_FOUND: there is no message at log_offset; RP_E_INVALID: there is a batch in
 * one record, and either the request is for a later try or the batch has no message with this unique_key; RP_E_EXISTS: the message is to
 * become a dead letter, and that topic has to be created first; or an error as in rp_append_item's status. If the log has entries it
 * waits for the commit: after RP_E_TIMEOUT or RP_E_READ_ONLY (the lead was lost) the copy may or may not exist. */
int rp_broker_send_back(rp_broker *broker, const rp_send_back *request);

/* Consumer groups. */
int rp_broker_put_group(rp_broker *broker, rp_slice group, int32_t consume_enable, int32_t consume_broadcast_enable, int64_t broker_id,
                        int64_t which_broker_when_slow, int32_t sys_flag);
/* priority.factor: sets the percentage of pops of priority topics that go by priority; the others are like pops of any topic. Clipped to
 * 0..100; 100 for a new group, and kept when the group is put again. RP_OK; RP_E_INVALID: an impossible group name; RP_E_NO_MEMORY. */
int rp_broker_set_priority_percent(rp_broker *broker, rp_slice group, int32_t percent);
/* Sets retryQueueNums and retryMaxTimes. With queues 0, as in a new group, Python handles the group's retries. RP_OK; RP_E_INVALID: an
 * impossible group name or number of queues; RP_E_NO_MEMORY. */
int rp_broker_set_retries(rp_broker *broker, rp_slice group, int32_t queues, int32_t times_max);
/* Says whether a client may hold a lock on a queue of the group, to read it in order. A group begins with 1; at the first send to its
 * retry topic Python finds out that nobody holds one, and says so until the next lock. Unknown groups are ignored. */
void rp_broker_set_locked(rp_broker *broker, rp_slice group, int32_t is_locked);
void rp_broker_delete_group(rp_broker *broker, rp_slice group);

/* Sets what a live group subscribed to by heartbeat. code_count 0: everything ("*"). native 0: its pulls are punted (class filter,
 * forbidden). RP_OK; RP_E_INVALID past RP_SUBSCRIPTION_CODES_MAX codes; RP_E_NO_MEMORY. */
#define RP_SUBSCRIPTION_CODES_MAX 4096
int rp_broker_put_subscription(rp_broker *broker, rp_slice group, rp_slice topic, const int32_t *tag_codes, uint32_t code_count,
                               int64_t version, int32_t broadcast, int32_t native);
/* Subscribes by a SQL92 expression over the properties of messages. RP_OK, and *end is where the expression ends; text behind it is
 * ignored. RP_E_INVALID, with the place in the expression and what is wrong there: nothing is changed; RP_E_NO_MEMORY. Its pulls are
 * punted while property_filter_enable is 0. */
int rp_broker_put_sql_subscription(rp_broker *broker, rp_slice group, rp_slice topic, rp_slice expression, int64_t version,
                                   int32_t broadcast, uint32_t *end, rp_error *error);
/* Checks a SQL92 expression; results as for rp_broker_put_sql_subscription. */
int rp_broker_check_sql(rp_slice expression, uint32_t *end, rp_error *error);
void rp_broker_delete_subscription(rp_broker *broker, rp_slice group, rp_slice topic);

/* Consumer offsets. Reading returns -1 if there is none. */
int rp_broker_put_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id, int64_t offset);
int64_t rp_broker_read_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id);
/* Of one group, one topic, or both; data NULL: of all. */
void rp_broker_delete_offsets(rp_broker *broker, rp_slice group, rp_slice topic);
typedef struct rp_offset_row {
    rp_slice group, topic; /* valid while visited */
    int32_t queue_id;
    int64_t offset;
} rp_offset_row;
/* Which as for deleting. A walk over all pairs of a group and a topic, but for one pair; only cells of those asked for are looked at. */
void rp_broker_each_offset(rp_broker *broker, rp_slice group, rp_slice topic, int (*visit)(void *context, const rp_offset_row *row),
                           void *context);
typedef struct rp_stalled_row {
    rp_slice group, topic; /* valid while visited */
    int32_t queue_id;
    int64_t messages; /* messages behind the committed offset */
    int64_t idle_ms;
} rp_stalled_row;
/* Visits the queues with messages that a group has not pulled, if the group has neither pulled nor committed there for idle_ms, has
 * committed there before, and somebody has sent to the queue or pulled from it since the start. */
void rp_broker_each_stalled(rp_broker *broker, int64_t idle_ms, int (*visit)(void *context, const rp_stalled_row *row), void *context);
uint64_t rp_broker_offset_version(const rp_broker *broker); /* grows with each change; if it is unchanged, there is nothing to persist */
/* The offset after the group's last pull (RocketMQ's pull offset table); the committed offset if it never pulled. */
int64_t rp_broker_read_pull_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id);
/* Server-side reset: the next pull is sent to offset, once; commits until then are ignored. */
int rp_broker_reset_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id, int64_t offset);

/* Flow control of cold data (cold_flow.h): sets an operator's limit for a group, in bytes per window of RP_COLD_WINDOW_MS, in place of
 * cold_group_bytes; if negative, cold_group_bytes applies again. RP_OK; RP_E_INVALID: no group can have that name; RP_E_NO_MEMORY. */
int rp_broker_set_cold_limit(rp_broker *broker, rp_slice group, int64_t bytes);
/* How many bytes a group (with an empty name: all of them) has read from the disk in this window, and when it read there first and last.
 * RP_OK; RP_E_NOT_FOUND: nothing was read for a minute. */
int rp_broker_read_cold_use(const rp_broker *broker, rp_slice group, int64_t *bytes, int64_t *first_ms, int64_t *last_ms);

#endif
