"""The broker's own settings, read once from the configuration into a frozen struct; live keys make a new one.

Nothing below the service reads the configuration: rooms get this struct, or a smaller one made from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Config
from .light_queues import light_queues_max
from .registration import RegistrationSettings
from .replica_state import ReplicaPeriods
from .replicas_manager import ReplicaSettings
from .retention import RetentionSettings, parse_hours
from .subscriptions import GroupSettings
from .sync_state import SyncStateRules
from .topics import TopicSettings

ASYNC_MASTER = "ASYNC_MASTER"
SYNC_MASTER = "SYNC_MASTER"
SLAVE = "SLAVE"
ROLES = (ASYNC_MASTER, SYNC_MASTER, SLAVE)
"""In the order of the numbers the native table knows them by."""

MASTER_ID = 0


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What handlers need to know of the broker's configuration."""

    cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = 0
    broker_ip: str = "127.0.0.1"
    role: str = ASYNC_MASTER
    permission: int = 6
    accept_after_ms: int = 0
    property_filter: bool = False
    reject_pull_consumer: bool = False
    notify_ids_changed: bool = True
    validate_system_topic: bool = True
    clear_retry_topics: bool = True
    mixed_message_type: bool = False
    server_load_balancer: bool = True
    server_side_reset: bool = True
    default_request_mode: str = "PULL"
    default_pop_share: int = -1
    retry_topic_v2: bool = False
    """How retry topics of popped messages are named."""
    separate_retry_queues: bool = False
    """Whether those have as many queues as the topics whose messages come again."""
    reject_transaction: bool = False
    transaction_timeout_ms: int = 6000
    transaction_checks_max: int = 15
    transaction_check_interval_ms: int = 30_000
    recall_enable: bool = False
    recall_when_read_only: bool = True
    recall_names_topic: bool = False
    timer_delay_max_ms: int = 3 * 24 * 3_600_000
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    query_max: int = 64
    """Messages of one answer to a query."""
    unique_query_max: int = 32
    """Messages looked at for one unique key."""
    clean_offsets: bool = False
    queue_stalled_after_ms: int = 60_000
    """0: no queue is called stalled."""
    memory_ratio_max: int = 40
    """Percent of the memory: a message no further behind the newest one counts as in memory."""
    lock_majority: int = 1
    """How many replicas must have locked a queue for a client before it is told so."""
    metadata_ack_ms: int = 0
    """For a replica in sync to have what an operator changes of topics and groups; 0: it is not waited for."""
    light_queues: bool = False
    light_queues_wanted: int = 20_000
    lite_lag_count: bool = False
    lite_lag_latency: bool = False
    lite_subscriptions_max: int = 100_000
    lite_idle_ms: int = 180_000
    """Who reads lite topics and says nothing for so long is gone."""
    config_black_list: frozenset[str] = frozenset()

    @property
    def is_slave(self) -> bool:
        return self.role == SLAVE


def broker_settings(config: Config) -> BrokerSettings:
    black_list = {name.strip() for name in config.text("configBlackList").split(";") if name.strip()}
    is_strict, replicas = config.boolean("lockInStrictMode"), config.integer("totalReplicas")
    return BrokerSettings(
        cluster_name=config.text("brokerClusterName"),
        broker_name=config.text("brokerName"),
        broker_id=config.integer("brokerId"),
        broker_ip=config.text("brokerIP1"),
        role=config.text("brokerRole"),
        permission=config.integer("brokerPermission"),
        accept_after_ms=config.integer("startAcceptSendRequestTimeStamp"),
        property_filter=config.boolean("enablePropertyFilter"),
        reject_pull_consumer=config.boolean("rejectPullConsumerEnable"),
        notify_ids_changed=config.boolean("notifyConsumerIdsChangedEnable"),
        validate_system_topic=config.boolean("validateSystemTopicWhenUpdateTopic"),
        clear_retry_topics=config.boolean("clearRetryTopicWhenDeleteTopic"),
        mixed_message_type=config.boolean("enableMixedMessageType"),
        server_load_balancer=config.boolean("serverLoadBalancerEnable"),
        server_side_reset=config.boolean("useServerSideResetOffset"),
        default_request_mode=config.text("defaultMessageRequestMode"),
        default_pop_share=config.integer("defaultPopShareQueueNum"),
        retry_topic_v2=config.boolean("enableRetryTopicV2"),
        separate_retry_queues=config.boolean("useSeparateRetryQueue"),
        reject_transaction=config.boolean("rejectTransactionMessage"),
        transaction_timeout_ms=config.integer("transactionTimeOut"),
        transaction_checks_max=config.integer("transactionCheckMax"),
        transaction_check_interval_ms=config.integer("transactionCheckInterval"),
        recall_enable=config.boolean("recallMessageEnable"),
        recall_when_read_only=config.boolean("allowRecallWhenBrokerNotWriteable"),
        recall_names_topic=config.boolean("appendTopicForTimerDeleteKey"),
        timer_delay_max_ms=config.integer("timerMaxDelaySec") * 1000,
        region_id=config.text("regionId"),
        trace_on=config.boolean("traceOn"),
        query_max=config.integer("maxMsgsNumBatch"),
        unique_query_max=config.integer("defaultQueryMaxNum"),
        clean_offsets=config.boolean("enableCleanExpiredOffset"),
        queue_stalled_after_ms=config.integer("queueStalledAfterMillis"),
        memory_ratio_max=config.integer("accessMessageInMemoryMaxRatio"),
        lock_majority=replicas // 2 + 1 if is_strict else 1,
        metadata_ack_ms=config.integer("metadataAckMillis"),
        light_queues=light_queues_max(config) > 0,
        light_queues_wanted=config.integer("maxLmqConsumeQueueNum"),
        lite_lag_count=config.boolean("liteLagCountMetricsEnable"),
        lite_lag_latency=config.boolean("liteLagLatencyMetricsEnable"),
        lite_subscriptions_max=config.integer("maxLiteSubscriptionCount"),
        lite_idle_ms=config.integer("liteSubscriptionCheckTimeoutMills"),
        config_black_list=frozenset(black_list | {"brokerConfigPath", "rocketmqHome", "configBlackList"}),
    )


def topic_settings(config: Config) -> TopicSettings:
    return TopicSettings(
        cluster_name=config.text("brokerClusterName"),
        broker_name=config.text("brokerName"),
        auto_create=config.boolean("autoCreateTopicEnable"),
        default_queues=config.integer("defaultTopicQueueNums"),
        cluster_topic=config.boolean("clusterTopicEnable"),
        broker_topic=config.boolean("brokerTopicEnable"),
        trace_topic=config.boolean("traceTopicEnable"),
        trace_topic_name=config.text("msgTraceTopicName"),
        revive_queues=config.integer("reviveQueueNum"),
        timer_wheel=config.boolean("timerWheelEnable"),
        light_queues_max=light_queues_max(config),
        asks_rights=config.boolean("authorizationEnabled"),
    )


def group_settings(config: Config) -> GroupSettings:
    return GroupSettings(
        auto_create=config.boolean("autoCreateSubscriptionGroup"),
        create_system_groups=config.boolean("enableCreateSysGroup"),
        light_groups_max=light_queues_max(config),
    )


def registration_settings(config: Config) -> RegistrationSettings:
    split_size = config.integer("splitRegistrationSize")
    return RegistrationSettings(
        period_s=config.integer("registerNameServerPeriod") / 1000,
        timeout_s=config.integer("registerBrokerTimeoutMills") / 1000,
        compressed=config.boolean("compressedRegister"),
        force=config.boolean("forceRegister"),
        acting_master=config.boolean("enableSlaveActingMaster"),
        heartbeat_interval_s=config.integer("brokerHeartbeatInterval") / 1000,
        heartbeat_timeout_s=config.integer("sendHeartbeatTimeoutMillis") / 1000,
        not_active_timeout_ms=config.integer("brokerNotActiveTimeoutMillis"),
        split_size=split_size if config.boolean("enableSplitRegistration") else 0,
        single_topics=config.boolean("enableSingleTopicRegister"),
    )


def retention_settings(config: Config) -> RetentionSettings:
    return RetentionSettings(
        reserved_hours=config.integer("fileReservedTime"),
        bytes_max=config.integer("retentionBytes"),
        delete_hours=parse_hours(config.text("deleteWhen")),
        batch_max=config.integer("deleteFileBatchMax"),
        pause_s=config.integer("deleteCommitLogFilesInterval") / 1000,
        forcible=config.boolean("cleanFileForciblyEnable"),
        used_ratio_max=config.integer("diskMaxUsedSpaceRatio"),
        forcible_ratio=config.integer("diskSpaceCleanForciblyRatio"),
        warning_ratio=config.integer("diskSpaceWarningLevelRatio"),
        free_bytes_min=config.integer("freeSpaceReserve"),
        keeps_unread=config.boolean("keepUnreadMessages"),
    )


def is_elected(config: Config) -> bool:
    """Whether others decide about this broker's role: a controller, or the DLedger group that its log belongs to."""
    return config.boolean("enableControllerMode") or config.boolean("enableDLegerCommitLog")


def replica_settings(config: Config, address: str) -> ReplicaSettings:
    """address: the one by which clients and controllers know this broker."""
    patience_ms = config.integer("controllerHeartBeatTimeoutMills")
    lease_ms = min(config.integer("controllerLeaseMillis"), patience_ms)  # past it the controller may elect another one
    rules = SyncStateRules(config.integer("haMaxTimeSlaveNotCatchup"), lease_ms)
    info_ms = config.integer("syncBrokerMetadataPeriod")
    if rules.lease_ms:  # it is asked for often enough for one lost answer
        info_ms = min(info_ms, max(1, rules.lease_ms // 4))
    return ReplicaSettings(
        cluster_name=config.text("brokerClusterName"),
        broker_name=config.text("brokerName"),
        address=address,
        controllers=tuple(config.addresses("controllerAddr")),
        periods=ReplicaPeriods(config.integer("syncControllerMetadataPeriod"), info_ms, config.integer("brokerHeartbeatInterval")),
        rules=rules,
        check_set_ms=config.integer("checkSyncStateSetPeriod"),
        beat_timeout_ms=patience_ms,
        priority=config.integer("brokerElectionPriority"),
        is_learner=config.boolean("asyncLearner"),
    )
