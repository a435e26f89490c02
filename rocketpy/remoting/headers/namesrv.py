"""Headers that name servers answer: registration, routes, key-value configuration.
RocketMQ: remoting/protocol/header/** (5.3.3, with the additions of 5.5.0). Attribute names are the wire names in snake case.
"""

from __future__ import annotations

from ..codes import RequestCode
from .base import I32, I64, Header, TopicRequestHeader, wire_header


@wire_header(RequestCode.ADD_WRITE_PERM_OF_BROKER)
class AddWritePermOfBrokerRequestHeader(Header):
    broker_name: str


@wire_header()
class AddWritePermOfBrokerResponseHeader(Header):
    add_topic_count: I32


@wire_header(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeatRequestHeader(Header):
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: I64 | None = None
    epoch: I32 | None = None
    max_offset: I64 | None = None
    confirm_offset: I64 | None = None
    heartbeat_timeout_mills: I64 | None = None
    election_priority: I32 | None = None


@wire_header(RequestCode.DELETE_KV_CONFIG)
class DeleteKVConfigRequestHeader(Header):
    namespace: str
    key: str


@wire_header(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicFromNamesrvRequestHeader(TopicRequestHeader):
    topic: str
    cluster_name: str | None = None


@wire_header(RequestCode.GET_BROKER_MEMBER_GROUP)
class GetBrokerMemberGroupRequestHeader(Header):
    cluster_name: str
    broker_name: str


@wire_header(RequestCode.GET_KV_CONFIG)
class GetKVConfigRequestHeader(Header):
    namespace: str
    key: str


@wire_header()
class GetKVConfigResponseHeader(Header):
    value: str | None = None


@wire_header(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKVListByNamespaceRequestHeader(Header):
    namespace: str


@wire_header(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteInfoRequestHeader(TopicRequestHeader):
    topic: str
    accept_standard_json_only: bool | None = None


@wire_header(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByClusterRequestHeader(Header):
    cluster: str


@wire_header(RequestCode.PUT_KV_CONFIG)
class PutKVConfigRequestHeader(Header):
    namespace: str
    key: str
    value: str


@wire_header(RequestCode.QUERY_DATA_VERSION)
class QueryDataVersionRequestHeader(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


@wire_header()
class QueryDataVersionResponseHeader(Header):
    changed: bool


@wire_header(RequestCode.REGISTER_BROKER)
class RegisterBrokerRequestHeader(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: I64
    heartbeat_timeout_millis: I64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: I32 | None = None


@wire_header()
class RegisterBrokerResponseHeader(Header):
    ha_server_addr: str | None = None
    master_addr: str | None = None


@wire_header()
class RegisterOrderTopicRequestHeader(Header):
    topic: str
    order_topic_string: str


@wire_header(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicRequestHeader(TopicRequestHeader):
    topic: str


@wire_header(RequestCode.UNREGISTER_BROKER)
class UnRegisterBrokerRequestHeader(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


@wire_header(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
class WipeWritePermOfBrokerRequestHeader(Header):
    broker_name: str


@wire_header()
class WipeWritePermOfBrokerResponseHeader(Header):
    wipe_topic_count: I32
