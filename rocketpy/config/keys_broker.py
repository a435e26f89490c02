"""Keys of the broker but for its store.
RocketMQ: BrokerIdentity, BrokerConfig (5.3.3 common/, with the additions of 5.5.0).
"""

from __future__ import annotations

import os
import socket

from .addresses import local_address
from .keys import (
    ADDRESS_SERVER,
    COLD_LIMITS,
    CONTAINER,
    FILTER_BITS,
    LITE_EVENTS,
    LITE_LATENCY,
    LITE_POP_LOG,
    LMQ_STATS,
    QUEUES,
    ROCKSDB,
    THREADS,
    Key,
    choice,
    long,
    number,
    switch,
    text,
)
from .keys_metrics import EXPORTER_KEYS
from .keys_namesrv import rocketmq_home

OPERATIONS = "what ends a transaction is written at once"
POP_IN_FLIGHT = "messages in flight are not counted"
POP_TOLD = "a notification says that there are messages"
POP_TRIED = "a message is tried again until it can be stored"
POP_WAITS = "up to 100,000 pops wait, each for as long as its client says"
POP_REVIVED = "the revive thread sleeps until a message is due"
POP_LOGGED = "checkpoints are in the log before their messages leave, acks when they are answered"
THROUGH_HEAP = "answers leave straight from the page cache"


def _host_name() -> str:
    return socket.gethostname() or "DEFAULT_BROKER"


def _namesrv_from_environment() -> str | None:
    return os.environ.get("NAMESRV_ADDR")


IDENTITY_KEYS: tuple[Key, ...] = (
    text("brokerName", _host_name, "Name of the master and its slaves together; the same in all of them.", pattern="name", important=True),
    text("brokerClusterName", "DefaultCluster", "Cluster this broker belongs to.", pattern="name", important=True),
    long("brokerId", 0, "0 is the master, above 0 a slave; in controller mode -1 until one is given.", least=-1, important=True),
    switch("isBrokerContainer", False, "This process holds several brokers.", idle=CONTAINER),
    switch("isInBrokerContainer", False, "This broker lives in a container.", idle=CONTAINER),
)

_ADDRESS_KEYS: tuple[Key, ...] = (
    text("brokerConfigPath", None, "File that run-time changes of configuration go to; the file given with -c."),
    text(
        "rocketmqHome",
        rocketmq_home,
        "RocketMQ's installation (ROCKETMQ_HOME); for migrateAuthFromV1Enabled only.",
    ),
    text(
        "namesrvAddr",
        _namesrv_from_environment,
        "Name servers to register with (NAMESRV_ADDR).",
        pattern="addresses",
        live=True,
        important=True,
    ),
    text("brokerIP1", local_address, "Address registered for clients.", pattern="host", important=True),
    text("brokerIP2", local_address, "Address registered for slaves.", pattern="host"),
    text("rmqAddressServerDomain", "", "Host that tells name server addresses.", idle=ADDRESS_SERVER),
    text("rmqAddressServerSubGroup", "", "Path on that host.", idle=ADDRESS_SERVER),
    switch("fetchNameSrvAddrByDnsLookup", False, "Register with every address behind the host names of namesrvAddr.", important=True),
    switch("fetchNamesrvAddrByAddressServer", False, "Ask an HTTP server for name servers.", important=True, idle=ADDRESS_SERVER),
    long("fetchNamesrvAddrInterval", 10000, "Pause between such questions.", "ms", idle=ADDRESS_SERVER),
    number(
        "updateNameServerAddrPeriod",
        120000,
        "Pause between look-ups of the name servers with fetchNameSrvAddrByDnsLookup.",
        "ms",
        least=1000,
    ),
    number("registerBrokerTimeoutMills", 24000, "How long a registration may take.", "ms", least=1),
    number("registerNameServerPeriod", 30000, "Pause between registrations; 10 to 60 s are used.", "ms", least=1),
    switch("forceRegister", True, "Register every period, whether anything changed or not.", live=True),
    switch("compressedRegister", False, "Compress registrations.", live=True),
    switch("enableSingleTopicRegister", False, "Tell name servers of a changed topic by a request of its own.", live=True),
    switch("enableSplitRegistration", False, "Register in several requests of splitRegistrationSize topics.", live=True),
    number(
        "splitRegistrationSize",
        800,
        "Topics in one request of a split registration (enableSplitRegistration).",
        "topics",
        least=1,
        live=True,
    ),
    switch("compatibleWithOldNameSrv", True, "Use only what name servers of 4.x understand for member groups."),
    number("brokerHeartbeatInterval", 1000, "Pause between heartbeats to name servers with enableSlaveActingMaster.", "ms", least=1),
    number("sendHeartbeatTimeoutMillis", 1000, "How long a heartbeat to a name server may take (enableSlaveActingMaster).", "ms", least=1),
    long(
        "brokerNotActiveTimeoutMillis",
        10000,
        "Silence after which name servers forget this broker (enableSlaveActingMaster).",
        "ms",
        least=1,
    ),
)

_TOPIC_KEYS: tuple[Key, ...] = (
    number("brokerPermission", 6, "What clients may do: 4 read, 2 write, 6 both.", most=7, live=True),
    number("defaultTopicQueueNums", 8, "Queues of a topic that is created by its first message.", "queues", least=1),
    switch("autoCreateTopicEnable", True, "Create a topic when its first message arrives.", live=True, important=True),
    switch("autoCreateSubscriptionGroup", True, "Create a consumer group when its first consumer arrives.", live=True, important=True),
    switch("clusterTopicEnable", True, "Keep a topic named as the cluster."),
    switch("brokerTopicEnable", True, "Keep a topic named as the broker."),
    text("messageStorePlugIn", "", "Classes around the message store.", idle="there are no store plug-ins"),
    text("msgTraceTopicName", "RMQ_SYS_TRACE_TOPIC", "Topic of message traces.", pattern="name", important=True),
    switch("traceTopicEnable", False, "Create the topic of message traces (msgTraceTopicName).", important=True),
    switch("traceOn", True, "Tell producers to send traces.", live=True),
    text("regionId", "DefaultRegion", "Region named in answers to producers.", live=True),
    switch("validateSystemTopicWhenUpdateTopic", True, "Refuse to change system topics.", live=True),
    switch("clearRetryTopicWhenDeleteTopic", True, "Delete a topic's retry topics with it.", live=True),
    switch("enableMixedMessageType", False, "Create topics for any kind of message.", live=True),
    switch("enableCreateSysGroup", True, "Allow to create groups with a system name.", live=True),
    switch("useStaticSubscription", False, "Let groups read only topics that their configuration lists.", live=True),
    long("startAcceptSendRequestTimeStamp", 0, "Refuse sends before this time.", "ms since 1970", live=True),
    number("commercialBaseCount", 1, "Accounting.", idle="there is no accounting"),
    number("commercialSizePerMsg", 4096, "Accounting.", "bytes", idle="there is no accounting"),
    switch("accountStatsEnable", True, "Accounting.", idle="there is no accounting"),
    switch("accountStatsPrintZeroValues", True, "Accounting.", idle="there is no accounting"),
    number("maxStatsIdleTimeInMinutes", -1, "Statistics unused this long are dropped; -1 keeps them.", "min", least=-1),
    switch("autoDeleteUnusedStats", True, "Drop statistics of deleted topics and groups.", live=True),
    switch("enableDetailStat", True, "Statistics by queue as well."),
    text("configBlackList", "configBlackList;brokerConfigPath", "Keys that UPDATE_BROKER_CONFIG must not touch."),
    choice("configManagerVersion", "v1", "v1 v2", "Where topics, groups and offsets are kept: v1, JSON files; v2, RocksDB, is refused."),
    switch("useSingleRocksDBForAllConfigs", False, "One database for them.", idle=ROCKSDB),
    number("filterServerNums", 0, "Filter servers; exportConfigs of RocketMQ 4's mqadmin asks for it.", idle="they are gone since 5.1"),
    switch("isolateLogEnable", False, "Log files named by broker and id."),
    switch("enableSplitMetadata", True, "Export topics and groups in pages."),
    number("splitMetadataSize", 2000, "Topics or groups in one page (enableSplitMetadata).", least=1),
)

_THREAD_KEYS: tuple[Key, ...] = (
    tuple(
        number(name, default, f"Threads that {work}.", idle=THREADS)
        for name, default, work in (
            ("sendMessageThreadPoolNums", 4, "store sent messages"),
            ("putMessageFutureThreadPoolNums", 4, "answer stored messages"),
            ("pullMessageThreadPoolNums", 20, "answer pulls"),
            ("litePullMessageThreadPoolNums", 20, "answer pulls of lite pull consumers"),
            ("ackMessageThreadPoolNums", 16, "take acknowledgements"),
            ("processReplyMessageThreadPoolNums", 20, "pass replies on"),
            ("queryMessageThreadPoolNums", 10, "look up messages"),
            ("adminBrokerThreadPoolNums", 16, "serve administration"),
            ("clientManageThreadPoolNums", 32, "keep clients"),
            ("consumerManageThreadPoolNums", 32, "keep consumer offsets"),
            ("loadBalanceProcessorThreadPoolNums", 32, "balance queues"),
            ("heartbeatThreadPoolNums", 4, "take heartbeats"),
            ("recoverThreadPoolNums", 32, "recover queues"),
            ("endTransactionThreadPoolNums", 16, "end transactions"),
        )
    )
    + tuple(
        number(name, default, f"{work} that may wait for a thread.", idle=QUEUES)
        for name, default, work in (
            ("sendThreadPoolQueueCapacity", 10000, "Sends"),
            ("putThreadPoolQueueCapacity", 10000, "Stored messages"),
            ("pullThreadPoolQueueCapacity", 100000, "Pulls"),
            ("litePullThreadPoolQueueCapacity", 100000, "Lite pulls"),
            ("ackThreadPoolQueueCapacity", 100000, "Acknowledgements"),
            ("replyThreadPoolQueueCapacity", 10000, "Replies"),
            ("queryThreadPoolQueueCapacity", 20000, "Look-ups"),
            ("clientManagerThreadPoolQueueCapacity", 1000000, "Client requests"),
            ("consumerManagerThreadPoolQueueCapacity", 1000000, "Offset requests"),
            ("heartbeatThreadPoolQueueCapacity", 50000, "Heartbeats"),
            ("endTransactionPoolQueueCapacity", 100000, "Transactions"),
            ("adminBrokerThreadPoolQueueCapacity", 10000, "Administration requests"),
            ("loadBalanceThreadPoolQueueCapacity", 100000, "Balance requests"),
        )
    )
    + (
        long(
            "waitTimeMillsInSendQueue",
            200,
            "Sends that waited this long for another append are answered SYSTEM_BUSY.",
            "ms",
            least=1,
            live=True,
        ),
    )
    + tuple(
        long(name, default, f"{work} that waited this long are answered SYSTEM_BUSY.", "ms", idle=QUEUES)
        for name, default, work in (
            ("waitTimeMillsInPullQueue", 5000, "Pulls"),
            ("waitTimeMillsInLitePullQueue", 5000, "Lite pulls"),
            ("waitTimeMillsInHeartbeatQueue", 31000, "Heartbeats"),
            ("waitTimeMillsInTransactionQueue", 3000, "Transactions"),
            ("waitTimeMillsInAckQueue", 3000, "Acknowledgements"),
            ("waitTimeMillsInAdminBrokerQueue", 5000, "Administration requests"),
        )
    )
)

_CONSUMER_KEYS: tuple[Key, ...] = (
    number("flushConsumerOffsetInterval", 5000, "Pause between writes of consumer offsets.", "ms", least=1),
    number("flushConsumerOffsetHistoryInterval", 60000, "Pause between writes of their history.", "ms", idle="no history is kept"),
    switch("longPollingEnable", True, "Hold pulls that find nothing until a message arrives.", live=True),
    long("shortPollingTimeMills", 1000, "How long pulls that find nothing are held with longPollingEnable=false.", "ms", live=True),
    switch("notifyConsumerIdsChangedEnable", True, "Tell consumers when their group changes.", live=True),
    switch("realTimeNotifyConsumerChange", True, "Tell consumers at once when their group changes.", live=True),
    switch("highSpeedMode", False, "Unused in RocketMQ too.", idle="unused in RocketMQ too"),
    switch("transferMsgByHeap", True, "Copy messages instead of sending them from the page cache.", idle=THROUGH_HEAP),
    switch("slaveReadEnable", False, "Send consumers of old messages to a slave.", live=True),
    switch("disableConsumeIfConsumerReadSlowly", False, "Stop groups that lag behind too far.", live=True),
    long(
        "consumerFallbehindThreshold",
        16 * 1024**3,
        "How far a group may lag behind (disableConsumeIfConsumerReadSlowly).",
        "bytes",
        live=True,
    ),
    switch("rejectPullConsumerEnable", False, "Ignore the heartbeats of pull consumers.", live=True),
    switch("litePullMessageEnable", True, "Serve LITE_PULL_MESSAGE.", live=True),
    switch("enableCalcFilterBitMap", False, "Compute which groups a message passes when it is stored.", idle=FILTER_BITS),
    number("expectConsumerNumUseFilter", 32, "Groups expected to use filters.", "groups", least=1, idle=FILTER_BITS),
    number("maxErrorRateOfBloomFilter", 20, "Error rate of that computation.", "%", least=1, most=100, idle=FILTER_BITS),
    long("filterDataCleanTimeSpan", 24 * 3600 * 1000, "Filters unused this long are forgotten.", "ms", idle=FILTER_BITS),
    switch("filterSupportRetry", False, "Filter retried messages by their first topic.", idle="clients do not filter their retry topics"),
    switch("enablePropertyFilter", False, "Allow SQL filters.", live=True),
    switch("enableBroadcastOffsetStore", True, "Keep offsets of broadcast consumers that come through a proxy."),
    long("broadcastOffsetExpireSecond", 120, "How long offsets of broadcast consumers are kept after their last use.", "s"),
    long("broadcastOffsetExpireMaxSecond", 300, "How long offsets of broadcast consumers are kept at most.", "s"),
    switch("useServerSideResetOffset", True, "Reset offsets here instead of asking consumers to.", live=True),
    long("consumerOffsetUpdateVersionStep", 500, "Commits between new versions of the offset table.", "commits", least=1),
    switch("persistConsumerOffsetIncrementally", False, "Write changed offsets only.", idle="the whole file is written, atomically"),
    long("channelExpiredTimeout", 120000, "A client without heartbeat this long is forgotten.", "ms", least=1),
    long("subscriptionExpiredTimeout", 600000, "A subscription unused this long is forgotten.", "ms", least=1),
    switch("estimateAccumulation", True, "Estimate lag behind tag filters.", live=True),
    switch("enableFastChannelEventProcess", False, "Look up a closed connection's client by an index.", idle="always done"),
    switch("printChannelGroups", False, "Log connections with many groups.", live=True),
    number("printChannelGroupsMinNum", 5, "Groups of a connection from which on printChannelGroups logs it.", "groups", live=True),
    switch("enableRegisterProducer", True, "Keep producers of heartbeats.", live=True),
    switch("storeReplyMessageEnable", True, "Store replies besides passing them on.", live=True),
    switch("lockInStrictMode", False, "A queue is locked for an orderly consumer by most of totalReplicas.", live=True),
    switch("serverLoadBalancerEnable", True, "Balance queues here for consumers that ask for it.", live=True),
    long(
        "loadBalancePollNameServerInterval",
        30000,
        "Pause between looks at the routes that balancing needs (serverLoadBalancerEnable).",
        "ms",
        least=1,
    ),
    number(
        "cleanOfflineBrokerInterval",
        30000,
        "Pause between removals of brokers that are gone from the routes that balancing needs.",
        "ms",
        least=1,
    ),
    choice("defaultMessageRequestMode", "PULL", "PULL POP", "How consumers read when nothing else was set.", live=True),
    number("defaultPopShareQueueNum", -1, "Consumers that share a queue with POP; -1 is all.", least=-1, live=True),
    long("forwardTimeout", 3000, "How long a request passed to another broker may take.", "ms", least=1),
    switch(
        "brokerFastFailureEnable",
        True,
        "Answer sends that wait for another append after waitTimeMillsInSendQueue; false: after osPageCacheBusyTimeOutMills.",
        live=True,
    ),
    switch("asyncSendEnable", True, "Answer sends when they are durable without holding a thread.", idle="always so"),
    switch("enableNetWorkFlowControl", False, "Refuse when the network is full.", idle="output is bounded per connection"),
    switch("coldCtrStrategyEnable", False, "Let limits of groups follow their use.", idle=COLD_LIMITS),
    switch("usePIDColdCtrStrategy", True, "How the limit is found.", idle=COLD_LIMITS),
    long(
        "queueStalledAfterMillis",
        60000,
        "Warn of a queue when a live group has not come for its messages for this long; 0: never. Not a key of RocketMQ.",
        "ms",
        live=True,
    ),
    long("cgColdReadThreshold", 3 * 1024**2, "What a group may have read from the disk in 5 s.", "bytes", live=True),
    long("globalColdReadThreshold", 100 * 1024**2, "What all groups may have read from the disk in 5 s.", "bytes", live=True),
)

_POP_KEYS: tuple[Key, ...] = (
    number("popPollingSize", 1024, "POP requests held for one queue.", "requests", least=1, idle=POP_WAITS),
    number("popPollingMapSize", 100000, "Queues with held POP requests.", "queues", least=1, idle=POP_WAITS),
    number("popPollingMapExpireTimeSeconds", 600, "A queue without them is forgotten after.", "s", least=1, idle=POP_WAITS),
    long("maxPopPollingSize", 100000, "POP requests held in all.", "requests", least=1, idle=POP_WAITS),
    number("reviveQueueNum", 8, "Queues of the revive topic.", "queues", least=1),
    long("reviveInterval", 1000, "Pause between looks for messages to deliver again.", "ms", least=1, idle=POP_REVIVED),
    long("reviveMaxSlow", 3, "Rounds a slow revive queue is passed over.", "rounds", idle=POP_REVIVED),
    long("reviveScanTime", 10000, "How long one look lasts at most.", "ms", least=1, idle=POP_REVIVED),
    switch("enableSkipLongAwaitingAck", False, "Give up checkpoints whose acknowledgement is long overdue.", idle=POP_REVIVED),
    long("reviveAckWaitMs", 180000, "How long is long.", "ms", idle=POP_REVIVED),
    switch("enablePopLog", False, "Log what POP does.", idle="metrics count what POP does"),
    switch("enablePopBufferMerge", False, "Match acknowledgements in memory before they are stored.", idle=POP_LOGGED),
    number("popCkStayBufferTime", 10000, "How long a checkpoint stays in memory.", "ms", least=1, idle=POP_LOGGED),
    number("popCkStayBufferTimeOut", 3000, "Before its time it is stored by this much.", "ms", least=1, idle=POP_LOGGED),
    number("popCkMaxBufferSize", 200000, "Checkpoints in memory.", least=1, idle=POP_LOGGED),
    number("popCkOffsetMaxQueueSize", 20000, "Checkpoints of one queue in memory.", least=1, idle=POP_LOGGED),
    switch("enablePopBatchAck", False, "Store several acknowledgements together.", idle=POP_LOGGED),
    long(
        "popLongPollingForceNotifyInterval",
        800,
        "Pause between wake-ups without a filter match.",
        "ms",
        least=1,
        idle="a pop is woken by what comes in its queues",
    ),
    switch("enableNotifyBeforePopCalculateLag", True, "Wake waiting POPs before lag is computed.", idle="always so"),
    switch("enableNotifyAfterPopOrderLockRelease", True, "Wake waiting orderly POPs when a lock is free.", idle="always so"),
    switch("initPopOffsetByCheckMsgInMem", True, "Begin new groups at the end only if the queue is in memory.", live=True),
    switch("retrieveMessageFromPopRetryTopicV1", True, "Read retry topics with names of the first kind too.", live=True),
    switch("enableRetryTopicV2", False, "Name retry topics in the second way."),
    number("popFromRetryProbability", 20, "How often POP looks at the retry topic first.", "%", most=100, live=True),
    number(
        "popFromRetryProbabilityForPriority",
        0,
        "How often POP looks at the retry topic first where it goes by priority.",
        "%",
        most=100,
        live=True,
    ),
    switch("priorityOrderAsc", True, "Of priority topics POP takes the highest priority first; false: 0 first.", live=True),
    switch("popConsumerFSServiceInit", True, "Keep POP's state in files.", idle="always so"),
    switch("popConsumerKVServiceLog", False, "Log POP's state in a database.", idle=ROCKSDB),
    switch("popConsumerKVServiceInit", False, "Open that database.", idle=ROCKSDB),
    switch("popConsumerKVServiceEnable", False, "Use that database.", idle=ROCKSDB),
    number("popReviveMaxReturnSizePerRead", 16 * 1024, "Checkpoints read at once.", idle=ROCKSDB),
    number("popReviveConcurrency", 32, "Messages delivered again at once.", "messages", least=1, idle=ROCKSDB),
    number("popReviveMaxAttemptTimes", 16, "Times a message is delivered again.", "times", least=1, idle=ROCKSDB),
    switch("popReviveSkipIfGroupAbsent", True, "Drop what a deleted group left behind.", idle="always so"),
    switch("useSeparateRetryQueue", False, "POP's retry topics have a queue for every queue of their topic; false: one.", live=True),
    switch("useMessageFilterForNotification", True, "Wake only those whose filter matches.", idle=POP_TOLD),
    number(
        "maxMessageFilterNumForNotification",
        64,
        "Filters tried for one message.",
        least=1,
        idle=POP_TOLD,
    ),
    switch("popResponseReturnActualRetryTopic", False, "Name the retry topic in POP answers.", idle="always so"),
    long(
        "popInflightMessageThreshold",
        10000,
        "Unacknowledged messages of a queue and group.",
        "messages",
        least=1,
        idle=POP_IN_FLIGHT,
    ),
    switch("enablePopMessageThreshold", False, "Refuse POPs beyond it.", idle=POP_IN_FLIGHT),
    switch(
        "skipWhenCKRePutReachMaxTimes",
        False,
        "Drop a checkpoint that could not be stored again 17 times.",
        idle=POP_TRIED,
    ),
    switch("appendAckAsync", False, "Answer acknowledgements before they are durable.", idle=POP_LOGGED),
    switch("appendCkAsync", False, "Answer POPs before their checkpoint is durable.", idle=POP_LOGGED),
)

_TRANSACTION_KEYS: tuple[Key, ...] = (
    switch("rejectTransactionMessage", False, "Refuse transactional messages.", live=True, important=True),
    long("transactionTimeOut", 6000, "Age at which a prepared message is first checked.", "ms", least=1, live=True, important=True),
    number("transactionCheckMax", 15, "Checks before a prepared message is given up.", "checks", least=1, live=True, important=True),
    long("transactionCheckInterval", 30000, "Pause between checks.", "ms", least=1, live=True, important=True),
    long(
        "transactionMetricFlushInterval",
        10000,
        "Pause between writes of transaction counts.",
        "ms",
        least=1,
        idle="what waits is looked up in the log, there is no file of counts",
    ),
    number("transactionOpMsgMaxSize", 4096, "Operations gathered in one message.", "bytes", least=64, idle=OPERATIONS),
    number("transactionOpBatchInterval", 3000, "How long they are gathered.", "ms", least=1, idle=OPERATIONS),
    number("transactionCheckRocksdbCoreThreads", 2, "Threads.", idle=ROCKSDB),
    number("transactionCheckRocksdbMaxThreads", 5, "Threads.", idle=ROCKSDB),
    number("transactionCheckRocksdbQueueCapacity", 2000, "Checks that may wait.", idle=ROCKSDB),
    long("delayOffsetUpdateVersionStep", 200, "Deliveries between new versions of the delay offsets.", "messages", least=1),
    switch("allowRecallWhenBrokerNotWriteable", True, "Recall timed messages on a read-only broker too.", live=True),
    switch("recallMessageEnable", False, "Allow to recall timed messages.", live=True),
    switch("aclEnable", False, "Users and rights of 4.x (plain_acl.yml).", important=True),
)

_GROUP_KEYS: tuple[Key, ...] = (
    number(
        "syncBrokerMemberGroupPeriod",
        1000,
        "How often a slave looks whether its master is there (enableRemoteEscape).",
        "ms",
        least=1,
    ),
    switch("enableSlaveActingMaster", False, "Let the slave with the least id stand in for a master that is down."),
    switch(
        "enableRemoteEscape",
        False,
        "A slave that stands in for its master (enableSlaveActingMaster) passes what is due to other masters of the cluster.",
    ),
    switch("skipPreOnline", False, "Take part at once after a start."),
    switch("enableControllerMode", False, "Let a controller elect the master."),
    text("controllerAddr", "", "Addresses of the controllers.", pattern="addresses"),
    switch("fetchControllerAddrByDnsLookup", False, "Take controllerAddr as host names with many addresses."),
    long("syncBrokerMetadataPeriod", 5000, "Pause between looks at this broker's role.", "ms", least=1),
    long("checkSyncStateSetPeriod", 5000, "Pause between looks at the in-sync set.", "ms", least=1),
    long("syncControllerMetadataPeriod", 10000, "Pause between looks for the controllers' leader.", "ms", least=1),
    long("controllerHeartBeatTimeoutMills", 10000, "Silence after which the controller counts this broker as down.", "ms", least=1),
    long(
        "controllerLeaseMillis",
        10000,
        "How long sends are taken after the controller, or all of the in-sync set, was last heard; 0: for ever. Not a key of RocketMQ.",
        "ms",
    ),
    long(
        "metadataAckMillis",
        3000,
        "How long a change of topics or groups waits for a replica in sync (controller mode); 0: not at all. Not a key of RocketMQ.",
        "ms",
        live=True,
    ),
    number("brokerElectionPriority", 2**31 - 1, "The lower, the sooner elected.", least=0),
    switch("recoverConcurrently", False, "Recover queues in parallel.", important=True, idle="always so"),
)

_METRIC_KEYS: tuple[Key, ...] = (
    *EXPORTER_KEYS,
    number("metricsOtelCardinalityLimit", 50000, "Most series of one metric.", least=1),
    number("metricsExportBatchMaxDataPoints", 1000, "Most series in one push of OTLP, or in one line of the log.", least=1),
    switch("enableRemotingMetrics", True, "Metrics of requests."),
    switch("enableMessageStoreMetrics", True, "Metrics of the store."),
    switch("enablePopMetrics", True, "Metrics of POP."),
    switch("enableConnectionMetrics", True, "Metrics of connections."),
    switch("enableTransactionMetrics", True, "Metrics of transactions."),
    switch("enableStatsMetrics", True, "Metrics of topics and groups."),
    switch("enableRequestMetrics", True, "Metrics of messages."),
    switch("enableLagAndDlqMetrics", True, "Metrics of lag and dead letters."),
)

_LITE_KEYS: tuple[Key, ...] = (
    switch("enableLmqStats", False, "Statistics of light message queues.", idle=LMQ_STATS),
    switch("enableLiteEventMode", True, "Wake consumers of lite topics by events.", idle=LITE_EVENTS),
    long("liteEventCheckInterval", 10000, "Look for consumers that left events of lite topics.", "ms", idle=LITE_EVENTS),
    long("liteTtlCheckInterval", 120000, "Look for lite topics without new messages.", "ms", least=100),
    long("minLiteTTl", 900000, "A lite topic lives this long at least, and none is deleted until this long after the start.", "ms"),
    long("liteSubscriptionCheckInterval", 120000, "Look for consumers of lite topics that are gone.", "ms", least=100),
    long(
        "liteSubscriptionCheckTimeoutMills", 180000, "A consumer of lite topics that says nothing for this long is gone.", "ms", live=True
    ),
    long(
        "maxLiteSubscriptionCount",
        100000,
        "Subscriptions to lite topics, one for each consumer and topic; a tenth more for groups that have less than a tenth.",
        live=True,
    ),
    switch("enableLitePopLog", False, "Log pops of lite topics.", idle=LITE_POP_LOG),
    number("maxClientEventCount", 100, "Lite topics with messages that are kept for a consumer.", idle=LITE_EVENTS),
    long("liteEventFullDispatchDelayTime", 10000, "Look at all a consumer reads, after it had too many events.", "ms", idle=LITE_EVENTS),
    long("liteEventFullDispatchDelayTimeForWildcardGroup", 10000, "The same, of wildcard groups.", "ms", idle=LITE_EVENTS),
    switch("liteLagLatencyCollectEnable", False, "Note lags of lite topics when they are popped.", idle=LITE_LATENCY),
    switch("liteLagLatencyMetricsEnable", False, "Metrics of how long messages of lite topics wait; each scrape reads the log.", live=True),
    switch("liteLagCountMetricsEnable", False, "Metrics of how many messages of lite topics wait.", live=True),
    number("liteLagLatencyTopK", 50, "Lite topics whose lags are kept.", idle=LITE_LATENCY),
)

BROKER_KEYS: tuple[Key, ...] = (
    *IDENTITY_KEYS,
    *_ADDRESS_KEYS,
    *_TOPIC_KEYS,
    *_CONSUMER_KEYS,
    *_POP_KEYS,
    *_TRANSACTION_KEYS,
    *_GROUP_KEYS,
    *_METRIC_KEYS,
    *_THREAD_KEYS,
    *_LITE_KEYS,
)

FORMER_KEYS: dict[str, tuple[str, str]] = {
    "haSlaveFallbehindMax": ("268435456", "haMaxGapNotInSync has its meaning since 5.0"),
    "isEnableBatchPush": ("false", "the key is enableBatchPush"),
    "maxDelayTime": ("40", "nothing has read it"),
    "commercialEnable": ("true", "nothing has read it"),
    "commercialTimerCount": ("1", "nothing has read it"),
    "commercialTransCount": ("1", "nothing has read it"),
    "commercialBigCount": ("1", "nothing has read it"),
}
"""What RocketMQ 4 writes into its file and 5.5.0 does not know: the default, which is no news, and what to do about another value."""
