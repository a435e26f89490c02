"""Topics: made, changed, deleted, looked at. RocketMQ: tools/command/topic/ (5.5.0)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..broker.names import DLQ_PREFIX, RETRY_PREFIX
from ..remoting.bodies import TopicConfig
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import (
    CreateTopicRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from ..remoting.headers.admin import AUTO_CREATE_TOPIC
from ..remoting.json_codec import JsonError, read_json, write_fastjson
from ..remoting.route import MASTER_ID, QueueData, TopicRoute
from .beside import ask_beside
from .command_line import Given
from .errors import AdminError, UsageError
from .global_queues import global_bounds, led_by_route, readable_queues
from .name_values import delete_value, get_value, merged_order, put_value
from .output import Columns, Output, Shown
from .queues import by_queue, queue_key
from .session import Session
from .texts import front, human_time, java, java_map, perm_text

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
UNIT_FLAG, UNIT_SUB_FLAG = 1, 2

STATUS = Columns(
    "queues",
    "%-32s  %-4s  %-20s  %-20s    %s",
    "%-32s  %-4s  %-20s  %-20s    %s",
    {
        "#Broker Name": "brokerName",
        "#QID": "queueId",
        "#Min Offset": "minOffset",
        "#Max Offset": "maxOffset",
        "#Last Updated": "lastUpdateTimestamp",
    },
)
ROUTE = Columns(
    "brokers",
    "%-45s %-32s %-50s %-10s %-11s %-5s",
    "%-45s %-32s %-50s %-10s %-11s %-5s",
    {
        "#ClusterName": "clusterName",
        "#BrokerName": "brokerName",
        "#BrokerAddrs": "brokerAddrs",
        "#ReadQueue": "readQueueNums",
        "#WriteQueue": "writeQueueNums",
        "#Perm": "perm",
    },
)
LIST = Columns(
    "topics",
    "%-20s  %-48s  %-48s",
    "%-20s  %-64s  %-64s",
    {"#Cluster Name": "clusterName", "#Topic": "topic", "#Consumer Group": "consumerGroup"},
)


def topic_text(topic: TopicConfig) -> str:
    """TopicConfig.toString."""
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, writeQueueNums={topic.write_queue_nums}, "
        f"perm={perm_text(topic.perm)}, topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={java(topic.order)}, attributes={java_map(topic.attributes)}]"
    )


def attributes_of(text: str) -> dict[str, str]:
    """Reads "+a=b,-c" into {"+a": "b", "-c": ""} (AttributeParser). Raises UsageError."""
    attributes: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not name.startswith("+" if equals else "-") or len(name) < 2:
            raise UsageError(f"attribute {part!r} is neither +name=value nor -name")
        if name in attributes:
            raise UsageError(f"attribute {name} is given twice")
        attributes[name] = value
    return attributes


def _attributes_text(topic: TopicConfig) -> str:
    return ",".join(f"{name}={value}" if value else name for name, value in topic.attributes.items())


async def create_topic(session: Session, address: str, topic: TopicConfig) -> None:
    header = CreateTopicRequestHeader(
        topic=topic.topic_name,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm,
        topic_filter_type=topic.topic_filter_type,
        topic_sys_flag=topic.topic_sys_flag,
        order=topic.order,
        attributes=_attributes_text(topic),
    )
    await session.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)


async def update_topic(session: Session, given: Given, out: Output) -> None:
    topic = TopicConfig(
        given.text("t"),
        given.number("r", 8, least=0),
        given.number("w", 8, least=0),
        given.number("p", 6),
        topic_sys_flag=(UNIT_FLAG if given.truth("u") else 0) | (UNIT_SUB_FLAG if given.truth("s") else 0),
        order=given.truth("o"),
        attributes=attributes_of(given.text("a")),
    )

    async def create(address: str) -> None:
        await create_topic(session, address, topic)
        if not given.has("b"):
            out.done(f"create topic to {address} success.", address=address)

    if not await session.each(await session.masters(given), create):
        return  # an order names brokers that have the topic
    if topic.order:
        await _set_order(session, given, out, topic)
    if given.has("b"):
        out.done(f"create topic to {given.text('b')} success.", address=given.text("b"))
    out.line(topic_text(topic))
    out.set(topic=topic.to_json())


async def _set_order(session: Session, given: Given, out: Output, topic: TopicConfig) -> None:
    cluster = await session.cluster()
    if given.has("b"):
        conf = f"{cluster.name_of(given.text('b'))}:{topic.write_queue_nums}"
        before = await get_value(session, ORDER_NAMESPACE, topic.topic_name)
        await put_value(session, ORDER_NAMESPACE, topic.topic_name, merged_order(before or "", conf))
        out.line(f"set broker orderConf. isOrder={java(topic.order)}, orderConf=[{conf}]")
    else:
        conf = ";".join(f"{name}:{topic.write_queue_nums}" for name in cluster.names(given.text("c")))
        await put_value(session, ORDER_NAMESPACE, topic.topic_name, conf)
        out.line(f"set cluster orderConf. isOrder={java(topic.order)}, orderConf=[{conf}]")
    out.set(orderConf=conf)


def read_list(path: str) -> list[Any]:
    """The JSON list in a file. Raises AdminError, or OSError unchanged."""
    try:
        value = read_json(Path(path).read_bytes(), tolerant_max=None)
    except JsonError as error:
        raise AdminError(f"{path}: {error}") from error
    if not value or not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise AdminError(f"{path} holds no JSON list of objects, one at least")
    return value


async def update_topic_list(session: Session, given: Given, out: Output) -> None:
    body = {"topicConfigList": read_list(given.text("f"))}

    async def submit(address: str) -> None:
        await session.value(address, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, body)
        out.done(f"submit batch of topic config to {address} success, please check the result later.", address=address)

    await session.each(await session.masters(given), submit)


async def delete_topic(session: Session, given: Given, out: Output) -> None:
    topic, cluster = given.text("t"), given.text("c")
    if not await remove_topic(session, topic, await session.masters_of(cluster)):
        return  # clients still find it where it is
    if not session.troubles:
        out.done(f"delete topic [{topic}] from cluster [{cluster}] success.", topic=topic, clusterName=cluster)
    if await forget_topic(session, topic, cluster):
        out.done(f"delete topic [{topic}] from NameServer success.", topic=topic, nameServers=list(session.named()))


async def remove_topic(session: Session, topic: str, addresses: Sequence[str]) -> bool:
    """Deletes a topic. Returns whether it is gone at all the brokers."""

    async def remove(address: str) -> None:
        await session.call(address, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=topic))

    return await session.each(addresses, remove)


async def forget_topic(session: Session, topic: str, cluster: str | None = None) -> bool:
    """Makes name servers forget a topic. Returns whether all of them have."""

    async def forget(address: str) -> None:
        header = DeleteTopicFromNamesrvRequestHeader(topic=topic, cluster_name=cluster)
        await session.call(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    return await session.each(session.named(), forget)


def queues_at(route: TopicRoute, address: str) -> QueueData | None:
    """A topic's queues at the master with that address; None if that is not one of the topic's masters. mqadmin gives every broker the
    first one's."""
    names = {broker.broker_name for broker in route.broker_datas if broker.broker_addrs.get(MASTER_ID) == address}
    return next((queues for queues in route.queue_datas if queues.broker_name in names), None)


async def update_topic_perm(session: Session, given: Given, out: Output) -> None:
    route = await session.route(given.text("t"))
    if not route.queue_datas:
        raise AdminError(f"the route of {given.text('t')} has no queues")
    perm = given.number("p")
    if given.has("b"):
        held = queues_at(route, given.text("b"))
        if held is None:
            raise AdminError(
                "updateTopicPerm error broker not exit or broker is not master!.", remedy="topicRoute shows the masters of a topic"
            )
        if held.perm == perm:
            out.done("new perm equals to the old one!", address=given.text("b"), perm=perm, permBefore=held.perm)
            return

    async def change(address: str) -> None:
        before = queues_at(route, address)
        held = before or route.queue_datas[0]  # as mqadmin, a master of the cluster without the topic gets it
        topic = TopicConfig(given.text("t"), held.read_queue_nums, held.write_queue_nums, perm, topic_sys_flag=held.topic_sys_flag)
        await create_topic(session, address, topic)
        if before is None:
            out.done(f"create topic with perm {perm} to {address} success.", address=address, perm=perm, permBefore=None)
        else:
            done = f"update topic perm from {before.perm} to {perm} in {address} success."
            out.done(done, address=address, perm=perm, permBefore=before.perm)
        if given.has("b"):
            out.line(f"{topic_text(topic)}.")

    await session.each(await session.masters(given), change)


async def topic_route(session: Session, given: Given, out: Output) -> None:
    route = await session.route(given.text("t"))
    if not given.has("l"):
        out.line(write_fastjson(route.to_json(), pretty=True).decode())
        out.set(**route.to_json())
        return
    queues = {each.broker_name: each for each in route.queue_datas}
    out.heading(ROUTE)
    reads = writes = 0
    for broker in sorted(route.broker_datas, key=lambda each: each.broker_name):
        held = queues.get(broker.broker_name)
        read, write, perm = (held.read_queue_nums, held.write_queue_nums, held.perm) if held is not None else (0, 0, 0)
        reads, writes = reads + read, writes + write
        addresses = Shown(dict(broker.broker_addrs), java_map(dict(broker.broker_addrs)))
        out.row(ROUTE, broker.cluster, broker.broker_name, addresses, read, write, perm)
    out.line("-" * 158)
    out.line(ROUTE.form % ("Total:", len(queues), "", reads, writes, ""))
    out.set(readQueueNums=reads, writeQueueNums=writes)


async def topic_stats(session: Session, topic: str, addresses: Sequence[str]) -> tuple[dict[Any, Any], float]:
    """(offsets by queue, messages put per second) over some brokers."""
    offsets: dict[Any, Any] = {}
    rate = 0.0
    for address in addresses:
        table = await session.members(address, RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequestHeader(topic=topic))
        offsets |= by_queue(table.get("offsetTable"))
        rate += float(table.get("topicPutTps") or 0)
    return offsets, rate


async def topic_status(session: Session, given: Given, out: Output) -> None:
    topic = given.text("t")
    offsets: dict[Any, Any] = {}
    rate = 0.0

    async def ask(part: Session, address: str) -> tuple[dict[Any, Any], float]:
        return await topic_stats(part, topic, [address])

    def count(address: str, found: tuple[dict[Any, Any], float]) -> None:
        nonlocal rate
        offsets.update(found[0])
        rate += found[1]

    session.keep_answers()
    await ask_beside(session, (await session.addresses(given.text("c") or topic)).values(), ask, count)
    if not given.has("c"):
        try:
            offsets |= global_bounds(await led_by_route(session, topic, await session.route(topic)), offsets)
        except AdminError as error:
            session.note(error)
    if not offsets and session.troubles:
        return
    if not offsets and not given.has("c"):
        raise AdminError("Not found the topic stats info", remedy="topicRoute shows whether the topic has queues")
    out.heading(STATUS)
    for queue in sorted(offsets, key=queue_key):
        row = offsets[queue]
        updated = int(row.get("lastUpdateTimestamp") or 0)
        when = Shown(updated, human_time(updated) if updated > 0 else "")
        out.row(STATUS, front(queue["brokerName"], 32), queue["queueId"], row.get("minOffset"), row.get("maxOffset"), when)
    out.line()
    out.line(f"Topic Put TPS: {rate}")
    out.set(topicPutTps=rate)


async def topic_cluster_list(session: Session, given: Given, out: Output) -> None:
    for name in await clusters_of(session, given.text("t")):
        out.line(name)
        out.add("clusters", name)


async def clusters_of(session: Session, topic: str) -> list[str]:
    route, cluster = await session.route(topic), await session.cluster()
    names = {broker.broker_name for broker in route.broker_datas[:1]}
    return [name for name, brokers in cluster.clusters.items() if names & set(brokers)]


async def groups_of(session: Session, topic: str) -> list[str]:
    """The groups that consume a topic, according to the first of its brokers that answers."""
    header = QueryTopicConsumeByWhoRequestHeader(topic=topic)

    async def ask(place: str) -> dict[str, Any]:
        return await session.members(place, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)

    value = await session.from_any((await session.addresses(topic)).values(), ask)
    return sorted(str(group) for group in value.get("groupList") or ())


async def topic_list(session: Session, given: Given, out: Output) -> None:
    topics = await session.topics()
    if not given.has("c"):
        for topic in topics:
            out.line(topic)
        out.set(topics=topics)
        return
    out.heading(LIST)

    async def ask(part: Session, topic: str) -> tuple[str, list[str]]:
        try:
            return ", ".join(await clusters_of(part, topic)), await groups_of(part, topic)
        except AdminError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:  # deleted meanwhile, or of a broker that is gone
                part.note(error)
            return "", []

    def show(topic: str, found: tuple[str, list[str]]) -> None:
        cluster, groups = found
        for group in groups or [""]:
            out.row(LIST, front(cluster, 20), front(topic, 64), front(group, 64))

    session.keep_answers()
    await ask_beside(session, (topic for topic in topics if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))), ask, show)


async def update_order_conf(session: Session, given: Given, out: Output) -> None:
    topic, method = given.text("t"), given.text("m")
    if method == "get":
        conf = await get_value(session, ORDER_NAMESPACE, topic)
        if conf is None:
            raise AdminError(f"topic {topic} has no order configuration", remedy="-m put -v BROKERNAME:QUEUES makes one")
        out.line(f"get orderConf success. topic=[{topic}], orderConf=[{conf}] ")
    elif method == "put":
        conf = given.text("v")
        if not conf:
            raise UsageError("please set orderConf with option -v.")
        await put_value(session, ORDER_NAMESPACE, topic, conf)
        if session.troubles:
            return
        out.line(f"update orderConf success. topic=[{topic}], orderConf=[{conf}]")
    elif method == "delete":
        conf = None
        await delete_value(session, ORDER_NAMESPACE, topic)
        if session.troubles:
            return
        out.line(f"delete orderConf success. topic=[{topic}]")
    else:
        raise UsageError(f"-m {method}: expected put, get or delete")
    out.set(topic=topic, orderConf=conf)


def allocate_averagely(queues: Sequence[Any], clients: Sequence[str], client: str) -> list[Any]:
    """A consumer's share of the queues (AllocateMessageQueueAveragely)."""
    if client not in clients:
        return []
    index, rest = clients.index(client), len(queues) % len(clients)
    size = 1 if len(queues) <= len(clients) else len(queues) // len(clients) + (1 if rest > 0 and index < rest else 0)
    begin = index * size if rest > 0 and index < rest else index * size + rest
    return list(queues[begin : begin + max(0, min(size, len(queues) - begin))])


async def allocate_mq(session: Session, given: Given, out: Output) -> None:
    route, clients = await session.route(given.text("t")), given.named("i", "consumer")
    queues = [{"brokerName": name, "queueId": number, "topic": given.text("t")} for name, number, _ in readable_queues(route)]
    result = {client: allocate_averagely(queues, clients, client) for client in clients}
    out.line(write_fastjson({"result": result}).decode())
    out.set(result=result)
