"""Headers of lite topics (5.4 and 5.5).
RocketMQ: remoting/protocol/header/** (5.3.3, with the additions of 5.5.0). Attribute names are the wire names in snake case.
"""

from __future__ import annotations

from ..codes import RequestCode
from .base import I32, I64, Header, RpcRequestHeader, wire_header


@wire_header(RequestCode.GET_LITE_CLIENT_INFO)
class GetLiteClientInfoRequestHeader(Header):
    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: I32 = 0


@wire_header(RequestCode.GET_LITE_GROUP_INFO)
class GetLiteGroupInfoRequestHeader(Header):
    group: str
    lite_topic: str | None = None
    top_k: I32 = 0


@wire_header(RequestCode.GET_LITE_TOPIC_INFO)
class GetLiteTopicInfoRequestHeader(Header):
    parent_topic: str | None = None
    lite_topic: str | None = None


@wire_header(RequestCode.LITE_SUBSCRIPTION_CTL)
class LiteSubscriptionCtlRequestHeader(RpcRequestHeader):
    pass


@wire_header(RequestCode.NOTIFY_UNSUBSCRIBE_LITE)
class NotifyUnsubscribeLiteRequestHeader(RpcRequestHeader):
    lite_topic: str
    consumer_group: str
    client_id: str


@wire_header(RequestCode.POP_LITE_MESSAGE)
class PopLiteMessageRequestHeader(RpcRequestHeader):
    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: I32
    invisible_time: I64
    poll_time: I64
    born_time: I64
    attempt_id: str | None = None


@wire_header()
class PopLiteMessageResponseHeader(Header):
    pop_time: I64
    invisible_time: I64
    revive_qid: I32
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@wire_header(RequestCode.TRIGGER_LITE_DISPATCH)
class TriggerLiteDispatchRequestHeader(Header):
    group: str
    client_id: str | None = None
