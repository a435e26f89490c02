"""A topic's queues as clients see them: all are behind this proxy, under the address at which the client reached it.
RocketMQ: RouteActivity (5.3.3 proxy/grpc/v2/route/).
"""

from __future__ import annotations

from typing import Any, Final

from ..remoting.bodies import PERM_INHERIT, PERM_READ, PERM_WRITE
from ..remoting.route import QueueData
from . import schema
from .brokers import Brokers
from .context import Context
from .settings import ProxySettings
from .status import OK, ProxyError, status
from .validation import group_of, topic_of

ANY_QUEUE: Final = -1
PORT_MAX: Final = 65_535
REQUEST_BYTES_MAX: Final = 8192
"""Each queue of the answer repeats what the request says of topic and endpoints: a large one would be thousands of times as large."""
_MIXED: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


def _permission(read: bool, write: bool) -> int:
    return schema.number("Permission", "READ_WRITE" if read and write else "READ" if read else "WRITE" if write else "NONE")


def numbered_permissions(data: QueueData) -> list[int]:
    """The permission of each queue that a client is told of, by its number: read-only queues first, then those that are only written."""
    read, write = bool(data.perm & PERM_READ), bool(data.perm & PERM_WRITE)
    reads, writes = data.read_queue_nums if read else 0, data.write_queue_nums if write else 0
    both = min(reads, writes)
    if not data.perm & (PERM_READ | PERM_WRITE | PERM_INHERIT):
        return [_permission(False, False)] * max(1, data.read_queue_nums, data.write_queue_nums)
    return [
        *[_permission(True, False)] * (reads - both),
        *[_permission(False, True)] * (writes - both),
        *[_permission(True, True)] * both,
    ]


def _check_size(request: Any) -> None:
    if request.ByteSize() > REQUEST_BYTES_MAX:
        raise ProxyError("BAD_REQUEST", f"topic and endpoints of more than {REQUEST_BYTES_MAX} bytes")


class Routing:
    """The methods QueryRoute and QueryAssignment."""

    def __init__(self, settings: ProxySettings, brokers: Brokers) -> None:
        self._settings = settings
        self._brokers = brokers
        self.port = settings.grpc_server_port
        """What clients are told; the one that was got where any was asked for."""

    def _endpoints(self, given: Any) -> Any:
        """Raises ProxyError."""
        endpoints = schema.message("Endpoints")()
        endpoints.CopyFrom(given)
        if not endpoints.addresses:
            endpoints.scheme = schema.number("AddressScheme", "IPv4")
        for address in endpoints.addresses:
            if not self._settings.use_endpoint_port_from_request:
                address.port = self.port
            elif not 0 <= address.port <= PORT_MAX:
                raise ProxyError("BAD_REQUEST", f"{address.port} is not a port of an endpoint")
        return endpoints

    async def query_route(self, context: Context, request: Any) -> Any:
        topic = topic_of(request.topic)
        _check_size(request)
        route = await self._brokers.route(topic)
        kind = await self._brokers.message_type_if_known(topic)
        kinds = [schema.number("MessageType", each) for each in (_MIXED if kind == "MIXED" else (kind,)) if each != "UNSPECIFIED"]
        endpoints = self._endpoints(request.endpoints)
        masters = {data.broker_name for data in route.broker_datas if 0 in data.broker_addrs}
        response = schema.message("QueryRouteResponse")(status=status(OK))
        for data in route.queue_datas:
            if data.broker_name not in masters:
                continue
            broker = schema.message("Broker")(name=data.broker_name, id=0, endpoints=endpoints)
            for queue_id, permission in enumerate(numbered_permissions(data)):
                response.message_queues.add(
                    topic=request.topic, id=queue_id, permission=permission, broker=broker, accept_message_types=kinds or [0]
                )
        return response

    async def query_assignment(self, context: Context, request: Any) -> Any:
        """A consumer is assigned all brokers; pops show which of them has messages for it. An order group is told the queues, unless it is
        a lite group, which consumes no queues of the topic."""
        topic, group = topic_of(request.topic), group_of(request.group)
        _check_size(request)
        route = await self._brokers.route(topic)
        config = await self._brokers.group(group)
        is_told = config is not None and config.orderly and not config.lite_bind_topic
        endpoints = self._endpoints(request.endpoints)
        masters = {data.broker_name for data in route.broker_datas if 0 in data.broker_addrs}
        response = schema.message("QueryAssignmentResponse")(status=status(OK))
        for data in route.queue_datas:
            if not data.perm & PERM_READ or data.read_queue_nums <= 0 or data.broker_name not in masters:
                continue
            broker = schema.message("Broker")(name=data.broker_name, id=0, endpoints=endpoints)
            permission = _permission(True, bool(data.perm & PERM_WRITE))
            for queue_id in range(data.read_queue_nums) if is_told else (ANY_QUEUE,):
                queue = schema.message("MessageQueue")(topic=request.topic, id=queue_id, permission=permission, broker=broker)
                response.assignments.add(message_queue=queue)
        if not response.assignments:
            raise ProxyError("FORBIDDEN", "no readable queue")
        return response
