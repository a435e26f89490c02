"""The commands: mqadmin's of RocketMQ 5.5.0 by its names and options. RocketMQ: MQAdminStartup and tools/command/ (5.5.0)."""

from __future__ import annotations

from .command_line import CommandRow

_ONE = "b|brokerAddr c|clusterName"
_ANY = "b?brokerAddr c?clusterName"
_SPAN = "b:beginTimestamp e:endTimestamp"

COMMANDS: tuple[CommandRow, ...] = (
    # ---- topics ----
    CommandRow(
        "updateTopic",
        "Make or change a topic.",
        "topics:update_topic",
        f"{_ONE} t!topic r:readQueueNums w:writeQueueNums p:perm o:order u:unit s:hasUnitSub a:attributes",
    ),
    CommandRow("updateTopicList", "Make or change the topics of a JSON file.", "topics:update_topic_list", f"{_ONE} f!filename"),
    CommandRow(
        "deleteTopic",
        "Delete a topic at the brokers and the name servers.",
        "topics:delete_topic",
        "t!topic c!clusterName",
        asks="Delete topic {t} and its messages from cluster {c}?",
    ),
    CommandRow("updateTopicPerm", "Change who may read and write a topic.", "topics:update_topic_perm", f"{_ANY} t!topic p!perm"),
    CommandRow("topicRoute", "Where a topic's queues are.", "topics:topic_route", "t!topic l+list"),
    CommandRow("topicStatus", "First and last offset of each queue of a topic.", "topics:topic_status", "t!topic c:cluster"),
    CommandRow("topicClusterList", "The clusters that have a topic.", "topics:topic_cluster_list", "t!topic"),
    CommandRow("topicList", "All topics; with -c their clusters and groups.", "topics:topic_list", "c+clusterModel"),
    CommandRow(
        "updateOrderConf", "A topic's queues for clients that need an order.", "topics:update_order_conf", "t!topic m!method v:orderConf"
    ),
    CommandRow(
        "updateStaticTopic",
        "Make a static topic, of a fixed number of queues, or give it more of them.",
        "static_topics:update_static_topic",
        "c|clusters b|brokers t!topic qn!totalQueueNum mf:mapFile fr:forceReplace",
    ),
    CommandRow(
        "remappingStaticTopic",
        "Move the queues of a static topic to other brokers.",
        "static_topics:remapping_static_topic",
        "c|clusters b|brokers t!topic mf:mapFile fr:forceReplace",
        asks="Move the queues of static topic {t} to {b}{c}?",
    ),
    CommandRow("allocateMQ", "How consumers would share a topic's queues.", "topics:allocate_mq", "t!topic i!ipList"),
    # ---- groups and their clients ----
    CommandRow(
        "updateSubGroup",
        "Make or change a consumer group.",
        "groups:update_sub_group",
        f"{_ANY} g!groupName s:consumeEnable m:consumeFromMinEnable d:consumeBroadcastEnable o:consumeMessageOrderly q:retryQueueNums "
        "r:retryMaxTimes p:groupRetryPolicy i:brokerId w:whichBrokerWhenConsumeSlowly a:notifyConsumerIdsChanged :attributes",
    ),
    CommandRow("updateSubGroupList", "Make or change the groups of a JSON file.", "groups:update_sub_group_list", f"{_ONE} f!filename"),
    CommandRow(
        "deleteSubGroup",
        "Delete a consumer group.",
        "groups:delete_sub_group",
        f"{_ANY} g!groupName r:removeOffset",
        asks="Delete group {g} from {b}{c}?",
    ),
    CommandRow(
        "setConsumeMode",
        "PULL or POP for a group and a topic.",
        "groups:set_consume_mode",
        f"{_ANY} t!topicName g!groupName m!mode q:popShareQueueNum",
    ),
    CommandRow("getConsumerConfig", "A group's settings at each broker.", "groups:get_consumer_config", "g!groupName"),
    CommandRow(
        "consumerConnection", "A group's consumers and subscriptions.", "clients:consumer_connection", "g!consumerGroup b:brokerAddr"
    ),
    CommandRow(
        "consumerStatus",
        "What consumers say about themselves.",
        "clients:consumer_status",
        "g!consumerGroup i:clientId b:brokerAddr s+jstack",
    ),
    CommandRow("producerConnection", "A group's producers.", "clients:producer_connection", "g!producerGroup t!topic"),
    CommandRow("producer", "All producers at a broker.", "clients:producer", "b!broker"),
    # ---- offsets ----
    CommandRow(
        "consumerProgress", "How far groups are behind.", "progress:consumer_progress", "g:groupName t:topicName s:showClientIP c:cluster"
    ),
    CommandRow(
        "brokerConsumeStats",
        "How far all groups of a broker are behind.",
        "progress:broker_consume_stats",
        "b!brokerAddr t:timeoutMillis l:level o:order",
    ),
    CommandRow(
        "resetOffsetByTime",
        "Move a group to a time, or one queue to an offset.",
        "offsets:reset_offset_by_time",
        "g!group t!topic s!timestamp f:force b:broker q:queue o:offset c:cluster",
        asks="Move group {g} of topic {t} to {s}?",
    ),
    CommandRow(
        "skipAccumulatedMessage",
        "Move a group to the end: what waits is not consumed.",
        "offsets:skip_accumulated_message",
        "g!group t!topic f:force c:cluster",
        asks="Skip what group {g} has not consumed of topic {t}?",
    ),
    CommandRow(
        "cloneGroupOffset",
        "Give a group the offsets of another.",
        "offsets:clone_group_offset",
        "s!srcGroup d!destGroup t!topic o:offline",
        asks="Move group {d} to the offsets of {s}?",
    ),
    # ---- messages ----
    CommandRow(
        "queryMsgById",
        "A message by its id; to a consumer with -g and -d, sent again with -s true.",
        "messages:query_msg_by_id",
        "t!topic i!msgId g:consumerGroup d:clientId s:sendMessage u:unitName f:bodyFormat c:cluster",
    ),
    CommandRow(
        "queryMsgByKey",
        "Messages by a key.",
        "messages:query_msg_by_key",
        f"t!topic k!msgKey {_SPAN} m:maxNum c:cluster p:keyType l:lastKey",
    ),
    CommandRow(
        "queryMsgByUniqueKey",
        "Messages by the id that their producer gave them.",
        "messages:query_msg_by_unique_key",
        "i!msgId t!topic g:consumerGroup d:clientId a+showAll c:cluster s:startTime e:endTime",
    ),
    CommandRow(
        "queryMsgByOffset",
        "The message at an offset of a queue.",
        "messages:query_msg_by_offset",
        "t!topic b!brokerName i!queueId o!offset f:bodyFormat r:routeTopic",
    ),
    CommandRow(
        "queryMsgTraceById",
        "Who sent and who consumed a message.",
        "traces:query_msg_trace_by_id",
        f"i!msgId t:traceTopic {_SPAN} c:maxNum",
    ),
    CommandRow(
        "printMsg",
        "The messages of a topic.",
        "reading:print_msg",
        f"t!topic c:charsetName s:subExpression {_SPAN} d:printBody l:lmqParentTopic",
    ),
    CommandRow(
        "printMsgByQueue",
        "The messages of a queue.",
        "reading:print_msg_by_queue",
        f"t!topic a!brokerName i!queueId c:charsetName s:subExpression {_SPAN} p:print d:printBody f:calculate",
    ),
    CommandRow(
        "consumeMessage",
        "Some messages of a topic or a queue, without a group that remembers it.",
        "reading:consume_message",
        "t!topic b:brokerName i:queueId o:offset g:consumerGroup s:beginTimestamp e:endTimestamp c:MessageNumber",
    ),
    CommandRow("dumpCompactionLog", "The messages of a compaction log file.", "reading:dump_compaction_log", "f!file"),
    CommandRow("sendMessage", "Send a message.", "sending:send_message", "t!topic p!body k:key c:tags b:broker i:qid m:msgTraceEnable"),
    CommandRow(
        "sendMsgStatus",
        "Send messages to a broker, one by one, and time them.",
        "sending:send_msg_status",
        "b!brokerName s:messageSize c:count",
    ),
    CommandRow("checkMsgSendRT", "How long sends to a topic take.", "sending:check_msg_send_rt", "t!topic a:amount s:size"),
    CommandRow(
        "clusterRT",
        "How long sends to each broker take, again and again.",
        "sending:cluster_rt",
        "a:amount s:size c:cluster p:print m:machine i:interval",
    ),
    # ---- brokers ----
    CommandRow("brokerStatus", "What a broker says about itself.", "brokers:broker_status", _ONE),
    CommandRow("getBrokerConfig", "The settings of brokers.", "brokers:get_broker_config", _ONE),
    CommandRow(
        "updateBrokerConfig", "Change a setting of brokers.", "brokers:update_broker_config", f"{_ANY} a:updateAllBroker k!key v!value"
    ),
    CommandRow("cleanExpiredCQ", "Drop consume queue files behind the log's begin.", "brokers:clean_expired_cq", "b:brokerAddr c:cluster"),
    CommandRow("cleanUnusedTopic", "Drop queues of topics that are no more.", "brokers:clean_unused_topic", "b:brokerAddr c:cluster"),
    CommandRow(
        "deleteExpiredCommitLog",
        "Delete expired commit log files now.",
        "brokers:delete_expired_commit_log",
        "b:brokerAddr c:cluster",
        asks="Delete expired commit log files of {b}{c}?",
    ),
    CommandRow(
        "setCommitLogReadAheadMode",
        "Read ahead in the commit log, or not.",
        "brokers:set_commit_log_read_ahead_mode",
        f"{_ANY} m!commitLogReadAheadMode",
    ),
    CommandRow("getColdDataFlowCtrInfo", "Groups that read old messages, and their limits.", "brokers:get_cold_data_flow_ctr_info", _ANY),
    CommandRow(
        "updateColdDataFlowCtrGroupConfig",
        "Limit a group's reads of old messages.",
        "brokers:update_cold_data_flow",
        f"{_ANY} g!consumerGroup v!threshold",
    ),
    CommandRow(
        "removeColdDataFlowCtrGroupConfig",
        "Remove a group's limit on reads of old messages.",
        "brokers:remove_cold_data_flow",
        f"{_ANY} g!consumerGroup",
    ),
    CommandRow(
        "resetMasterFlushOffset",
        "Tell a slave how much its master has on disk.",
        "brokers:reset_master_flush_offset",
        "b!brokerAddr o!offset",
    ),
    CommandRow("switchTimerEngine", "Timed messages by RocksDB or by files.", "brokers:switch_timer_engine", f"{_ONE} e!engineType"),
    CommandRow("addBroker", "Start a broker in a container.", "brokers:add_broker", "c!brokerContainerAddr b!brokerConfigPath"),
    CommandRow(
        "removeBroker",
        "Stop a broker in a container.",
        "brokers:remove_broker",
        "c!brokerContainerAddr b!brokerIdentity",
        asks="Stop broker {b} in {c}?",
    ),
    CommandRow("queryCq", "Entries of a consume queue.", "consume_queues:query_cq", "t!topic q!queue i!index c:count b:broker g:consumer"),
    CommandRow(
        "checkRocksdbCqWriteProgress",
        "Compare consume queues in RocksDB and in files.",
        "consume_queues:check_rocksdb_cq",
        "n:nameserverAddr c!cluster t:topic cf:checkFrom",
    ),
    CommandRow(
        "rocksDBConfigToJson",
        "Topics, groups and offsets out of RocksDB.",
        "consume_queues:rocksdb_config_to_json",
        "n:nameserverAddr t:configType p:configPath e:exportFile j:jsonEnable c:cluster b:brokerAddr",
    ),
    CommandRow(
        "exportPopRecord",
        "POP records out of RocksDB into the log.",
        "consume_queues:export_pop_record",
        "c?clusterName b?brokerAddr d:dryRun",
    ),
    # ---- the cluster ----
    CommandRow("clusterList", "Brokers, releases, rates, disks.", "clusters:cluster_list", "m+moreStats i:interval c:clusterName"),
    CommandRow("statsAll", "Rates of topics and groups.", "stats:stats_all", "a+activeTopic t:topic"),
    CommandRow("startMonitoring", "Watch for groups that fall behind.", "monitoring:start_monitoring"),
    CommandRow(
        "exportMetadata",
        "Topics and groups into a JSON file.",
        "exports:export_metadata",
        "c?clusterName b?brokerAddr f:filePath t+topic g+subscriptionGroup s+specialTopic",
    ),
    CommandRow("exportConfigs", "Settings into a JSON file.", "exports:export_configs", "c!clusterName f:filePath"),
    CommandRow("exportMetrics", "Rates, disks and clients into a JSON file.", "exports:export_metrics", "c!clusterName f:filePath"),
    # ---- name servers ----
    CommandRow("updateKvConfig", "Set a value of the name servers.", "namesrv:update_kv_config", "s!namespace k!key v!value"),
    CommandRow("deleteKvConfig", "Delete a value of the name servers.", "namesrv:delete_kv_config", "s!namespace k!key"),
    CommandRow("getNamesrvConfig", "The settings of name servers.", "namesrv:get_namesrv_config"),
    CommandRow("updateNamesrvConfig", "Change a setting of name servers.", "namesrv:update_namesrv_config", "k!key v!value"),
    CommandRow("wipeWritePerm", "Hide a broker from producers.", "namesrv:wipe_write_perm", "b!brokerName"),
    CommandRow("addWritePerm", "Let producers find a broker again.", "namesrv:add_write_perm", "b!brokerName"),
    # ---- replication and controllers ----
    CommandRow("haStatus", "Slaves, their gaps, transfer rates.", "replication:ha_status", "b?brokerAddr c?clusterName i:interval"),
    CommandRow(
        "getSyncStateSet",
        "The replicas in sync, by a controller.",
        "replication:get_sync_state_set",
        "a!controllerAddress b?brokerName c?clusterName i:interval",
    ),
    CommandRow("getBrokerEpoch", "The epochs of a broker's log.", "replication:get_broker_epoch", "b|brokerName c|clusterName i:interval"),
    CommandRow(
        "getControllerMetaData", "Leader and peers of the controllers.", "controllers:get_controller_metadata", "a!controllerAddress"
    ),
    CommandRow("getControllerConfig", "The settings of controllers.", "controllers:get_controller_config", "a!controllerAddress"),
    CommandRow(
        "updateControllerConfig",
        "Change a setting of controllers.",
        "controllers:update_controller_config",
        "a!controllerAddress k!key v!value",
    ),
    CommandRow(
        "electMaster",
        "Make a replica the master.",
        "controllers:elect_master",
        "a!controllerAddress b!brokerId bn!brokerName c!clusterName",
        asks="Make replica {b} of {bn} the master?",
    ),
    CommandRow(
        "cleanBrokerMetadata",
        "Let the controllers forget replicas.",
        "controllers:clean_broker_metadata",
        "a!controllerAddress b:brokerControllerIdsToClean bn!brokerName c:clusterName l+cleanLivingBroker",
        asks="Let the controllers forget replicas {b} of {bn}?",
    ),
    # ---- users and their rights ----
    CommandRow("createUser", "Make a user.", "users:create_user", f"{_ONE} u!username p!password t:userType"),
    CommandRow("updateUser", "Change a user.", "users:update_user", f"{_ONE} u!username p/password t/userType s/userStatus"),
    CommandRow("deleteUser", "Delete a user.", "users:delete_user", f"{_ONE} u!username", asks="Delete user {u} at {b}{c}?"),
    CommandRow("getUser", "One user.", "users:get_user", f"{_ONE} u!username"),
    CommandRow("listUser", "All users.", "users:list_user", f"{_ONE} f:filter"),
    CommandRow("copyUser", "Users of one broker to another.", "users:copy_user", "f!fromBroker t!toBroker u:usernames"),
    CommandRow("createAcl", "Give a user rights.", "acls:create_acl", f"{_ONE} s!subject r!resources a!actions i:sourceIp d!decision"),
    CommandRow("updateAcl", "Change a user's rights.", "acls:update_acl", f"{_ONE} s!subject r!resources a!actions i:sourceIp d!decision"),
    CommandRow(
        "deleteAcl", "Take rights away.", "acls:delete_acl", f"{_ONE} s!subject r:resources", asks="Delete rights of {s} at {b}{c}?"
    ),
    CommandRow("getAcl", "One user's rights.", "acls:get_acl", f"{_ONE} s!subject"),
    CommandRow("listAcl", "All rights.", "acls:list_acl", f"{_ONE} s:subject r:resource"),
    CommandRow("copyAcl", "Rights of one broker to another.", "acls:copy_acl", "f!fromBroker t!toBroker s:subjects"),
    # ---- lite topics ----
    CommandRow("getBrokerLiteInfo", "Lite topics of a broker.", "lite:get_broker_lite_info", "b|brokerAddr c|cluster d+showDetail"),
    CommandRow("getParentTopicInfo", "A topic that has lite topics.", "lite:get_parent_topic_info", "p!parentTopic"),
    CommandRow("getLiteTopicInfo", "A lite topic.", "lite:get_lite_topic_info", "p!parentTopic l!liteTopic s+showClientId"),
    CommandRow(
        "getLiteClientInfo", "A consumer of lite topics.", "lite:get_lite_client_info", "p!parentTopic g!group c!clientId s+showDetail"
    ),
    CommandRow(
        "getLiteGroupInfo",
        "How far a group of lite topics is behind.",
        "lite:get_lite_group_info",
        "p!parentTopic g!group l:liteTopic k:topK",
    ),
    CommandRow(
        "triggerLiteDispatch",
        "Wake consumers of lite topics.",
        "lite:trigger_lite_dispatch",
        "p!parentTopic g!group c:clientId b:brokerName",
    ),
)

LEFT_OUT = {
    "exportMetadataInRocksDB": "it reads RocksDB's files, which needs their library; rocksDBConfigToJson -b lets the broker do it",
}
"""Commands of mqadmin that are not here, and why."""


def find_command(name: str) -> CommandRow | None:
    """Finds a command, regardless of upper and lower case, as mqadmin does."""
    return next((command for command in COMMANDS if command.name.lower() == name.lower()), None)
