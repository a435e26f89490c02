"""Headers of administration: topics, groups, clients, statistics, consumption state.
RocketMQ: remoting/protocol/header/** (5.3.3, with the additions of 5.5.0). Attribute names are the wire names in snake case.
"""

from __future__ import annotations

from ..codes import RequestCode
from .base import I32, I64, Header, HeaderError, RpcRequestHeader, TopicQueueRequestHeader, TopicRequestHeader, renamed, wire_header

AUTO_CREATE_TOPIC = "TBW102"
"""What new topics are modelled on; every broker that creates topics on demand registers it."""
READ_WRITE = 6
"""PermName: PERM_READ and PERM_WRITE."""


@wire_header(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
class CheckRocksdbCqWriteProgressRequestHeader(Header):
    topic: str
    check_store_time: I64 = 0


@wire_header(RequestCode.CLONE_GROUP_OFFSET)
class CloneGroupOffsetRequestHeader(RpcRequestHeader):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@wire_header(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectlyResultRequestHeader(TopicRequestHeader):
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: I32 | None = None
    group_sys_flag: I32 | None = None


@wire_header(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
class CreateTopicListRequestHeader(RpcRequestHeader):
    pass


@wire_header(RequestCode.UPDATE_AND_CREATE_TOPIC)
class CreateTopicRequestHeader(TopicRequestHeader):
    topic: str
    default_topic: str | None = None
    read_queue_nums: I32
    write_queue_nums: I32
    perm: I32
    topic_filter_type: str
    topic_sys_flag: I32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None

    @staticmethod
    def plain(topic: str, queues: int, attributes: str | None = None) -> CreateTopicRequestHeader:
        """A topic with as many queues to read as to write, as mqadmin's updateTopic asks for one."""
        return CreateTopicRequestHeader(
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=READ_WRITE,
            topic_filter_type="SINGLE_TAG",
            order=False,
            attributes=attributes,
        )

    def check(self) -> None:
        if self.topic_filter_type not in ("SINGLE_TAG", "MULTI_TAG"):
            raise HeaderError(f"topicFilterType = [{self.topic_filter_type}] value invalid")


@wire_header(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteSubscriptionGroupRequestHeader(RpcRequestHeader):
    group_name: str
    clean_offset: bool = False


@wire_header(RequestCode.DELETE_TOPIC_IN_BROKER)
class DeleteTopicRequestHeader(TopicRequestHeader):
    topic: str


@wire_header(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON)
class ExportRocksDBConfigToJsonRequestHeader(Header):
    type_name: str | None = None
    config_type: str


@wire_header(RequestCode.GET_ALL_PRODUCER_INFO)
class GetAllProducerInfoRequestHeader(Header):
    pass


@wire_header(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
class GetAllSubscriptionGroupRequestHeader(Header):
    group_seq: I32 | None = None
    data_version: str | None = None
    max_group_num: I32 | None = None


@wire_header()
class GetAllSubscriptionGroupResponseHeader(Header):
    total_group_num: I32


@wire_header(RequestCode.GET_ALL_TOPIC_CONFIG)
class GetAllTopicConfigRequestHeader(Header):
    topic_seq: I32 | None = None
    data_version: str | None = None
    max_topic_num: I32 | None = None


@wire_header()
class GetAllTopicConfigResponseHeader(Header):
    total_topic_num: I32 | None = None


@wire_header()
class GetBrokerConfigResponseHeader(Header):
    version: str


@wire_header(RequestCode.GET_BROKER_CONSUME_STATS)
class GetConsumeStatsInBrokerHeader(Header):
    is_order: bool


@wire_header(RequestCode.GET_CONSUME_STATS)
class GetConsumeStatsRequestHeader(TopicRequestHeader):
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@wire_header(RequestCode.GET_CONSUMER_CONNECTION_LIST)
class GetConsumerConnectionListRequestHeader(RpcRequestHeader):
    consumer_group: str


@wire_header(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerListByGroupRequestHeader(RpcRequestHeader):
    consumer_group: str


@wire_header()
class GetConsumerListByGroupResponseHeader(Header):
    pass


@wire_header(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetConsumerRunningInfoRequestHeader(RpcRequestHeader):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@wire_header(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
class GetConsumerStatusRequestHeader(TopicRequestHeader):
    topic: str
    group: str
    client_addr: str | None = None


@wire_header(RequestCode.GET_PARENT_TOPIC_INFO)
class GetParentTopicInfoRequestHeader(Header):
    topic: str


@wire_header(RequestCode.GET_PRODUCER_CONNECTION_LIST)
class GetProducerConnectionListRequestHeader(RpcRequestHeader):
    producer_group: str


@wire_header(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetSubscriptionGroupConfigRequestHeader(RpcRequestHeader):
    group: str


@wire_header(RequestCode.GET_TOPIC_CONFIG)
class GetTopicConfigRequestHeader(TopicRequestHeader):
    topic: str


@wire_header(RequestCode.GET_TOPIC_STATS_INFO)
class GetTopicStatsInfoRequestHeader(TopicRequestHeader):
    topic: str


@wire_header(RequestCode.HEART_BEAT)
class HeartbeatRequestHeader(RpcRequestHeader):
    pass


@wire_header(RequestCode.LOCK_BATCH_MQ)
class LockBatchMqRequestHeader(RpcRequestHeader):
    pass


@wire_header(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChangedRequestHeader(RpcRequestHeader):
    consumer_group: str


@wire_header(RequestCode.QUERY_CONSUME_QUEUE)
class QueryConsumeQueueRequestHeader(TopicQueueRequestHeader):
    topic: str | None = None
    queue_id: I32 = 0
    index: I64 = 0
    count: I32 = 0
    consumer_group: str | None = None


@wire_header(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpanRequestHeader(TopicRequestHeader):
    topic: str
    group: str


@wire_header(RequestCode.QUERY_CORRECTION_OFFSET)
class QueryCorrectionOffsetHeader(TopicRequestHeader):
    filter_groups: str | None = None
    compare_group: str
    topic: str


@wire_header(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
class QuerySubscriptionByConsumerRequestHeader(TopicRequestHeader):
    group: str
    topic: str | None = None


@wire_header(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
class QueryTopicConsumeByWhoRequestHeader(TopicRequestHeader):
    topic: str


@wire_header(RequestCode.QUERY_TOPICS_BY_CONSUMER)
class QueryTopicsByConsumerRequestHeader(RpcRequestHeader):
    group: str


@wire_header(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
class ResetOffsetRequestHeader(TopicQueueRequestHeader):
    group: str
    topic: str
    queue_id: I32 = -1
    offset: I64 | None = None
    timestamp: I64
    is_force: bool


@wire_header(RequestCode.UNLOCK_BATCH_MQ)
class UnlockBatchMqRequestHeader(RpcRequestHeader):
    pass


@wire_header(RequestCode.UNREGISTER_CLIENT)
class UnregisterClientRequestHeader(RpcRequestHeader):
    client_id: str = renamed("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@wire_header()
class UnregisterClientResponseHeader(Header):
    pass


@wire_header(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
class UpdateGroupForbiddenRequestHeader(TopicRequestHeader):
    group: str
    topic: str
    readable: bool | None = None


@wire_header(RequestCode.VIEW_BROKER_STATS_DATA)
class ViewBrokerStatsDataRequestHeader(Header):
    stats_name: str
    stats_key: str
