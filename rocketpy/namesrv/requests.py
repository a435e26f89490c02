"""What each request to a name server does: header and body in, table call, answer out. No sockets.
RocketMQ: DefaultRequestProcessor, ClientRequestProcessor (5.3.3 namesrv/processor/).

Errors raised here (HeaderError, CommandError, ConfigError) become answers in remoting/service.py or below. A registration's connection is
remembered by its id, so that its closing takes the broker out.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .._core.errors import RocketpyError
from ..config import Config
from ..remoting.bodies import DataVersion, RegisterBrokerBody
from ..remoting.codes import VERSION_3_0_11, VERSION_4_9_4, RequestCode, ResponseCode, see_faq
from ..remoting.command import Response
from ..remoting.config_requests import ConfigRequests, black_list
from ..remoting.headers import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatRequestHeader,
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicRequestHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from ..remoting.json_codec import write_fastjson
from ..remoting.route import MASTER_ID, TopicRoute
from .events import Departure, MinBrokerIdNotice, Registration
from .kv_config import ORDER_TOPIC_CONFIG, KvConfig, KvConfigFull, encode_table
from .route_info import RouteInfo
from .turns import BUFFERS_PART, Change, Turns, is_slow, topics_in_slices

if TYPE_CHECKING:
    from .._core.remoting import Request

log = logging.getLogger(__name__)

ZONE_NAME, ZONE_MODE = "__ZONE_NAME", "__ZONE_MODE"
_ALWAYS_BLACK = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
SUCCESS = Response()
_NO_ROOM = "registrations that wait to be read, and what waits for them, hold too much, try again later"


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The configuration values that the handlers need; replaced as a whole when one changes."""

    withheld_ms: int
    """How long after the start no route is given away; 0: at once."""
    list_all_topics: bool
    list_topics: bool
    answer_order_topics: bool
    black_list: frozenset[str]


def request_settings(config: Config) -> RequestSettings:
    withheld_ms = config.integer("waitSecondsForService") * 1000
    return RequestSettings(
        withheld_ms=withheld_ms if config.boolean("needWaitForService") else 0,
        list_all_topics=config.boolean("enableAllTopicList"),
        list_topics=config.boolean("enableTopicList"),
        answer_order_topics=config.boolean("returnOrderTopicConfigToBroker"),
        black_list=black_list(config, _ALWAYS_BLACK),
    )


@dataclass(frozen=True, slots=True)
class Effects:
    """What requests cause outside the tables. The service carries it out."""

    notify: Callable[[Iterable[MinBrokerIdNotice]], None]
    unregister: Callable[[Departure], bool]
    """False when too many brokers wait to be unregistered."""
    store_config: Callable[[Mapping[str, str]], Awaitable[None]]
    """Writes an update into the configuration's file. Raises RocketpyError."""


class NamesrvRequests:
    """The handlers; `handlers` maps request codes to them. `clock` gives milliseconds since the name server started."""

    def __init__(self, config: Config, routes: RouteInfo, kv_config: KvConfig, effects: Effects, clock: Callable[[], int]) -> None:
        self._config = config
        self.settings = request_settings(config)
        self._routes = routes
        self._kv_config = kv_config
        self._effects = effects
        self._clock = clock
        self._kv_lock = asyncio.Lock()
        self.turns = Turns(config.integer("bufferBytesMax") // BUFFERS_PART)
        configuration = ConfigRequests(config, lambda: self.settings.black_list, effects.store_config)
        self.handlers: dict[int, Callable[[Request], Response | Awaitable[Response]]] = {
            RequestCode.PUT_KV_CONFIG: self.put_kv_config,
            RequestCode.GET_KV_CONFIG: self.get_kv_config,
            RequestCode.DELETE_KV_CONFIG: self.delete_kv_config,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.get_kv_list,
            RequestCode.QUERY_DATA_VERSION: self.query_data_version,
            RequestCode.REGISTER_BROKER: self.register_broker,
            RequestCode.UNREGISTER_BROKER: self.unregister_broker,
            RequestCode.BROKER_HEARTBEAT: self.hear_broker,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.get_member_group,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.get_cluster_info,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.get_route,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_perm,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.get_all_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.get_topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.get_system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: lambda request: self._topic_list(self._routes.unit_topics),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: lambda request: self._topic_list(self._routes.unit_sub_topics),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: lambda request: self._topic_list(self._routes.unit_sub_ununit_topics),
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
            RequestCode.UPDATE_NAMESRV_CONFIG: configuration.update,
            RequestCode.GET_NAMESRV_CONFIG: configuration.get,
        }

    # ---- routes ----

    def get_route(self, request: Request) -> Response:
        header = GetRouteInfoRequestHeader.decode(request.fields)
        if self._clock() < self.settings.withheld_ms:
            log.warning("name server not ready. request code %d", request.code)
            return Response(ResponseCode.SYSTEM_ERROR, "name server not ready")
        standard = request.version >= VERSION_4_9_4 or header.accept_standard_json_only is True
        zone = request.fields.get(ZONE_NAME, "").strip()
        if zone and request.fields.get(ZONE_MODE, "").lower() == "true":
            route = self._routes.pick_route(header.topic)
            body = route.in_zone(zone).encode(standard=standard) if route is not None else None
        else:
            body = self._routes.encoded_route(header.topic, standard=standard)
        if body is None:
            remark = see_faq(f"No topic route info in name server for the topic: {header.topic}")
            return Response(ResponseCode.TOPIC_NOT_EXIST, remark)
        return Response(body=body)

    def get_cluster_info(self, request: Request) -> Response:
        return Response(body=self._routes.encoded_cluster_info())

    def get_member_group(self, request: Request) -> Response:
        header = GetBrokerMemberGroupRequestHeader.decode(request.fields)
        group = {
            "brokerAddrs": self._routes.broker_member_group(header.broker_name),
            "brokerName": header.broker_name,
            "cluster": header.cluster_name,
        }
        return Response(body=write_fastjson({"brokerMemberGroup": group}))

    # ---- brokers ----

    def register_broker(self, request: Request) -> Response | Awaitable[Response]:
        header = RegisterBrokerRequestHeader.decode(request.fields)
        body_crc = header.body_crc32
        if body_crc and body_crc != zlib.crc32(request.body) & 0x7FFFFFFF:
            log.warning("receive registerBroker request,crc32 not match,from %s", request.remote_address)
            return Response(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        broker, size = (header.cluster_name, header.broker_addr), _size(request)
        has_room = self.turns.has_room(size)
        if self.turns.has(broker) or (is_slow(request.body) and has_room):
            if not has_room:
                return Response(ResponseCode.SYSTEM_BUSY, _NO_ROOM)
            read = partial(self._read_in_slices, request, header)
            return self.turns.take(broker, request.connection_id, size, read, partial(self._register, request, header))
        return self._register(request, header, _registration_body(request, header.compressed))

    async def _read_in_slices(self, request: Request, header: RegisterBrokerRequestHeader) -> RegisterBrokerBody:
        body = _registration_body(request, header.compressed)
        is_looked_at = header.broker_id == MASTER_ID or header.enable_acting_master is not None
        is_known = self._routes.data_version(header.cluster_name, header.broker_addr) == body.data_version
        return await topics_in_slices(body) if is_looked_at and not is_known else body

    def _register(
        self, request: Request, header: RegisterBrokerRequestHeader, body: RegisterBrokerBody, later: Iterable[Change] = ()
    ) -> Response:
        registered = self._routes.register_broker(
            Registration(
                cluster=header.cluster_name,
                address=header.broker_addr,
                broker_name=header.broker_name,
                broker_id=header.broker_id,
                ha_address=header.ha_server_addr,
                body=body,
                connection_id=request.connection_id,
                heartbeat_timeout_ms=header.heartbeat_timeout_millis,
                enable_acting_master=header.enable_acting_master,
                zone_name=request.fields.get(ZONE_NAME),
            )
        )
        if not registered.accepted:
            return Response(ResponseCode.SYSTEM_ERROR, "register broker failed")
        if registered.topics_count:  # else what they changed at once may have been changed again since, by whose topics count
            for change in later:
                change(header.broker_name)
        self._effects.notify(registered.notices)
        answer = RegisterBrokerResponseHeader(ha_server_addr=registered.ha_address, master_addr=registered.master_address)
        return Response(fields=answer, body=self._order_topics())

    def _order_topics(self) -> bytes:
        if not self.settings.answer_order_topics:
            return b""
        table = self._kv_config.namespace(ORDER_TOPIC_CONFIG)
        return encode_table(table) if table is not None else b""

    def unregister_broker(self, request: Request) -> Response | Awaitable[Response]:
        header = UnRegisterBrokerRequestHeader.decode(request.fields)
        broker = (header.cluster_name, header.broker_addr)
        if self.turns.has(broker):
            if not self.turns.has_room(size := _size(request)):
                return Response(ResponseCode.SYSTEM_BUSY, _NO_ROOM)
            return self.turns.take(broker, None, size, None, lambda *_: self._unregister(header))
        return self._unregister(header)

    def _unregister(self, header: UnRegisterBrokerRequestHeader) -> Response:
        registration = self._routes.registration(header.cluster_name, header.broker_addr) or 0  # 0: none, nor one that comes meanwhile
        departure = Departure(header.cluster_name, header.broker_addr, header.broker_name, header.broker_id, registration)
        if not self._effects.unregister(departure):
            log.warning("Couldn't submit the unregister broker request to handler, broker info: %s", departure)
            return Response(ResponseCode.SYSTEM_ERROR)
        return SUCCESS

    def hear_broker(self, request: Request) -> Response:
        header = BrokerHeartbeatRequestHeader.decode(request.fields)
        self._routes.hear(header.cluster_name, header.broker_addr)
        return SUCCESS

    def query_data_version(self, request: Request) -> Response:
        header = QueryDataVersionRequestHeader.decode(request.fields)
        asked = DataVersion.decode(request.body) if request.body else None
        known = self._routes.data_version(header.cluster_name, header.broker_addr)
        self._routes.hear(header.cluster_name, header.broker_addr)
        answer = QueryDataVersionResponseHeader(changed=known is None or known != asked)
        return Response(fields=answer, body=known.encode() if known is not None else b"")

    def wipe_write_perm(self, request: Request) -> Response:
        header = WipeWritePermOfBrokerRequestHeader.decode(request.fields)
        if not self._counts_later(request, lambda name: name == header.broker_name and self._routes.wipe_write_perm(name)):
            return Response(ResponseCode.SYSTEM_BUSY, _NO_ROOM)
        count = self._routes.wipe_write_perm(header.broker_name)
        log.info("wipe write perm of broker[%s], client: %s, %d", header.broker_name, request.remote_address, count)
        return Response(fields=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

    def add_write_perm(self, request: Request) -> Response:
        header = AddWritePermOfBrokerRequestHeader.decode(request.fields)
        if not self._counts_later(request, lambda name: name == header.broker_name and self._routes.add_write_perm(name)):
            return Response(ResponseCode.SYSTEM_BUSY, _NO_ROOM)
        count = self._routes.add_write_perm(header.broker_name)
        log.info("add write perm of broker[%s], client: %s, %d", header.broker_name, request.remote_address, count)
        return Response(fields=AddWritePermOfBrokerResponseHeader(add_topic_count=count))

    # ---- topics ----

    def get_all_topics(self, request: Request) -> Response:
        if not self.settings.list_all_topics:
            return Response(ResponseCode.SYSTEM_ERROR, "disable")
        return _topics(self._routes.all_topics())

    def get_topics_of_cluster(self, request: Request) -> Response:
        return self._topic_list(lambda: self._routes.topics_of_cluster(GetTopicsByClusterRequestHeader.decode(request.fields).cluster))

    def get_system_topics(self, request: Request) -> Response:
        return _topics(*self._routes.system_topics())

    def _topic_list(self, topics: Callable[[], list[str]]) -> Response:
        if not self.settings.list_topics:
            return Response(ResponseCode.SYSTEM_ERROR, "disable")
        return _topics(topics())

    def delete_topic(self, request: Request) -> Response:
        header = DeleteTopicFromNamesrvRequestHeader.decode(request.fields)
        if not self._counts_later(request, lambda name: self._routes.delete_topic(header.topic, header.cluster_name, only=name)):
            return Response(ResponseCode.SYSTEM_BUSY, _NO_ROOM)
        self._routes.delete_topic(header.topic, header.cluster_name)
        log.info("delete topic %s of cluster %s, client: %s", header.topic, header.cluster_name or "*", request.remote_address)
        return SUCCESS

    def register_topic(self, request: Request) -> Response:
        header = RegisterTopicRequestHeader.decode(request.fields)
        if request.body:
            queues = TopicRoute.decode(request.body).queue_datas
            if not self._counts_later(request, lambda name: self._routes.register_topic(header.topic, queues, only=name)):
                return Response(ResponseCode.SYSTEM_BUSY, _NO_ROOM)
            self._routes.register_topic(header.topic, queues)
        return SUCCESS

    def _counts_later(self, request: Request, change: Change) -> bool:
        """Also for registrations that came before the request and are put after it. False: there are too many such requests."""
        return self.turns.changed(_size(request), change)

    # ---- key-value configuration ----

    async def put_kv_config(self, request: Request) -> Response:
        header = PutKVConfigRequestHeader.decode(request.fields)
        return await self._change_kv(self._kv_config.put, header.namespace, header.key, header.value)

    def get_kv_config(self, request: Request) -> Response:
        header = GetKVConfigRequestHeader.decode(request.fields)
        value = self._kv_config.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            return Response(ResponseCode.QUERY_NOT_FOUND, remark)
        return Response(fields=GetKVConfigResponseHeader(value=value))

    async def delete_kv_config(self, request: Request) -> Response:
        header = DeleteKVConfigRequestHeader.decode(request.fields)
        return await self._change_kv(self._kv_config.delete, header.namespace, header.key)

    async def _change_kv(self, change: Callable[..., None], *what: str) -> Response:
        """Makes a change in another thread, one at a time, so that requests for routes do not wait for the disk."""
        try:
            async with self._kv_lock:
                await asyncio.to_thread(change, *what)
        except (KvConfigFull, RocketpyError) as error:
            log.error("persist kvconfig Exception: %s", error)
            return Response(ResponseCode.SYSTEM_ERROR, f"kvconfig was not stored: {error}")
        return SUCCESS

    def get_kv_list(self, request: Request) -> Response:
        header = GetKVListByNamespaceRequestHeader.decode(request.fields)
        table = self._kv_config.namespace(header.namespace)
        if table is None:
            return Response(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}")
        return Response(body=encode_table(table))


def _size(request: Request) -> int:
    return len(request.body) + sum(len(name) + len(value) for name, value in request.fields.items())


def _registration_body(request: Request, compressed: bool) -> RegisterBrokerBody:
    if not request.body:
        return RegisterBrokerBody()
    if request.version < VERSION_3_0_11:
        return RegisterBrokerBody.decode_topics(request.body)
    is_zlib = request.body[:1] == b"\x78"  # brokers of 5.x compress with compressedRegister=true and still say compressed=false
    return RegisterBrokerBody.decode(request.body, compressed=compressed or is_zlib, version=request.version)


def _topics(names: list[str], broker_address: str | None = None) -> Response:
    """RocketMQ: TopicList."""
    return Response(body=write_fastjson({"brokerAddr": broker_address, "topicList": names}))
