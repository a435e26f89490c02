"""Headers of everything that moves or finds messages: send, pull, pop, acknowledge, transactions, offsets, queries.
RocketMQ: remoting/protocol/header/** (5.3.3, with the additions of 5.5.0). Attribute names are the wire names in snake case.
"""

from __future__ import annotations

from ..codes import RequestCode
from .base import I32, I64, Header, HeaderError, RpcRequestHeader, TopicQueueRequestHeader, TopicRequestHeader, wire_header


@wire_header(RequestCode.ACK_MESSAGE)
class AckMessageRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    queue_id: I32
    extra_info: str
    offset: I64
    lite_topic: str | None = None


@wire_header(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
class ChangeInvisibleTimeRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    queue_id: I32
    extra_info: str
    offset: I64
    invisible_time: I64
    lite_topic: str | None = None
    suspend: bool = False


@wire_header()
class ChangeInvisibleTimeResponseHeader(Header):
    pop_time: I64
    invisible_time: I64
    revive_qid: I32


@wire_header(RequestCode.CHECK_TRANSACTION_STATE)
class CheckTransactionStateRequestHeader(RpcRequestHeader):
    topic: str | None = None
    tran_state_table_offset: I64
    commit_log_offset: I64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


@wire_header()
class CheckTransactionStateResponseHeader(Header):
    producer_group: str
    tran_state_table_offset: I64
    commit_log_offset: I64
    commit_or_rollback: I32


@wire_header(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBackRequestHeader(RpcRequestHeader):
    offset: I64
    group: str
    delay_level: I32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None


@wire_header(RequestCode.END_TRANSACTION)
class EndTransactionRequestHeader(RpcRequestHeader):
    topic: str | None = None
    producer_group: str
    tran_state_table_offset: I64
    commit_log_offset: I64
    commit_or_rollback: I32
    from_transaction_check: bool | None = None
    msg_id: str
    transaction_id: str | None = None

    def check(self) -> None:
        if self.commit_or_rollback not in (0x0 << 2, 0x2 << 2, 0x3 << 2):  # unknown, commit, rollback: the transaction bits of a sys flag
            raise HeaderError("commitOrRollback field wrong")


@wire_header()
class EndTransactionResponseHeader(Header):
    pass


@wire_header(RequestCode.GET_EARLIEST_MSG_STORETIME)
class GetEarliestMsgStoretimeRequestHeader(TopicQueueRequestHeader):
    topic: str
    queue_id: I32


@wire_header()
class GetEarliestMsgStoretimeResponseHeader(Header):
    timestamp: I64


@wire_header(RequestCode.GET_MAX_OFFSET)
class GetMaxOffsetRequestHeader(TopicQueueRequestHeader):
    topic: str
    queue_id: I32
    committed: bool = False


@wire_header()
class GetMaxOffsetResponseHeader(Header):
    offset: I64


@wire_header(RequestCode.GET_MIN_OFFSET)
class GetMinOffsetRequestHeader(TopicQueueRequestHeader):
    topic: str
    queue_id: I32


@wire_header()
class GetMinOffsetResponseHeader(Header):
    offset: I64


@wire_header()
class InitConsumerOffsetRequestHeader(TopicRequestHeader):
    topic: str | None = None
    init_mode: I32 = 0


@wire_header(RequestCode.NOTIFICATION)
class NotificationRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    queue_id: I32
    poll_time: I64
    born_time: I64
    order: bool | None = None
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


@wire_header()
class NotificationResponseHeader(Header):
    has_msg: bool
    polling_full: bool = False


@wire_header(RequestCode.PEEK_MESSAGE)
class PeekMessageRequestHeader(TopicQueueRequestHeader):
    topic: str
    queue_id: I32
    max_msg_nums: I32
    consumer_group: str


@wire_header(RequestCode.POLLING_INFO)
class PollingInfoRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    queue_id: I32


@wire_header()
class PollingInfoResponseHeader(Header):
    polling_num: I32


@wire_header(RequestCode.POP_MESSAGE)
class PopMessageRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    queue_id: I32
    max_msg_nums: I32
    invisible_time: I64
    poll_time: I64
    born_time: I64
    init_mode: I32
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


@wire_header()
class PopMessageResponseHeader(Header):
    pop_time: I64
    invisible_time: I64
    revive_qid: I32
    rest_num: I64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@wire_header(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
class PullMessageRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    lite_topic: str | None = None
    queue_id: I32
    queue_offset: I64
    max_msg_nums: I32
    sys_flag: I32
    commit_offset: I64
    suspend_timeout_millis: I64
    subscription: str | None = None
    sub_version: I64
    expression_type: str | None = None
    max_msg_bytes: I32 | None = None
    request_source: I32 | None = None
    proxy_froward_client_id: str | None = None


@wire_header()
class PullMessageResponseHeader(Header):
    suggest_which_broker_id: I64
    next_begin_offset: I64
    min_offset: I64
    max_offset: I64
    offset_delta: I64 | None = None
    topic_sys_flag: I32 | None = None
    group_sys_flag: I32 | None = None
    forbidden_type: I32 | None = None


@wire_header(RequestCode.QUERY_CONSUMER_OFFSET)
class QueryConsumerOffsetRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    queue_id: I32
    set_zero_if_not_found: bool | None = None


@wire_header()
class QueryConsumerOffsetResponseHeader(Header):
    offset: I64


@wire_header(RequestCode.QUERY_MESSAGE)
class QueryMessageRequestHeader(TopicRequestHeader):
    topic: str
    key: str
    max_num: I32
    begin_timestamp: I64
    end_timestamp: I64
    index_type: str | None = None
    last_key: str | None = None


@wire_header()
class QueryMessageResponseHeader(Header):
    index_last_update_timestamp: I64
    index_last_update_phyoffset: I64


@wire_header(RequestCode.RECALL_MESSAGE)
class RecallMessageRequestHeader(TopicRequestHeader):
    producer_group: str | None = None
    topic: str
    recall_handle: str | None = None


@wire_header()
class RecallMessageResponseHeader(Header):
    msg_id: str


@wire_header(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class ReplyMessageRequestHeader(TopicQueueRequestHeader):
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: I64


@wire_header(RequestCode.RESUME_CHECK_HALF_MESSAGE)
class ResumeCheckHalfMessageRequestHeader(Header):
    topic: str | None = None
    msg_id: str | None = None


@wire_header(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
class SearchOffsetRequestHeader(TopicQueueRequestHeader):
    topic: str
    lite_topic: str | None = None
    queue_id: I32
    timestamp: I64
    boundary_type: str = "lower"


@wire_header()
class SearchOffsetResponseHeader(Header):
    offset: I64


@wire_header(RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
class SendMessageRequestHeader(TopicQueueRequestHeader):
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: I32 | None = None


@wire_header(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
class SendMessageRequestHeaderV2(TopicQueueRequestHeader):
    a: str
    b: str
    c: str
    d: I32
    e: I32
    f: I32
    g: I64
    h: I32
    i: str | None = None
    j: I32 | None = None
    k: bool | None = None
    l: I32 | None = None  # noqa: E741 the name on the wire
    m: bool | None = None
    n: str | None = None

    def to_v1(self) -> SendMessageRequestHeader:
        """The same request with long field names (RocketMQ: createSendMessageRequestHeaderV1). `n` is the broker's name."""
        return SendMessageRequestHeader(
            producer_group=self.a,
            topic=self.b,
            default_topic=self.c,
            default_topic_queue_nums=self.d,
            queue_id=self.e,
            sys_flag=self.f,
            born_timestamp=self.g,
            flag=self.h,
            properties=self.i,
            reconsume_times=self.j,
            unit_mode=self.k,
            max_reconsume_times=self.l,
            batch=self.m,
            ns=self.ns,
            nsd=self.nsd,
            oway=self.oway,
            lo=self.lo,
            bname=self.bname or self.n,
        )


@wire_header()
class SendMessageResponseHeader(Header):
    msg_id: str
    queue_id: I32
    queue_offset: I64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


@wire_header()
class StatisticsMessagesRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    queue_id: I32
    from_time: I64 = 0
    to_time: I64 = 0


@wire_header(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffsetRequestHeader(TopicQueueRequestHeader):
    consumer_group: str
    topic: str
    queue_id: I32
    commit_offset: I64


@wire_header()
class UpdateConsumerOffsetResponseHeader(Header):
    pass


@wire_header(RequestCode.VIEW_MESSAGE_BY_ID)
class ViewMessageRequestHeader(Header):
    topic: str | None = None
    offset: I64


@wire_header()
class ViewMessageResponseHeader(Header):
    pass
