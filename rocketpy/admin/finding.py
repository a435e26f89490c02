"""Messages found by id, key or offset, and who has consumed them. RocketMQ: MQAdminImpl, messageTrackDetail (5.5.0 client/, tools/)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..broker.heartbeat import tags_in
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import Fields
from ..remoting.headers import PullMessageRequestHeader, QueryMessageRequestHeader, ViewMessageRequestHeader
from .beside import ask_beside
from .clients import consumers_of
from .errors import AdminError, refused
from .found_message import FoundMessage, place_of, records_in
from .progress import consume_stats
from .session import SLOW_TIMES, Session
from .topics import groups_of

FOREVER_MS = (1 << 63) - 1
UNIQUE_MAX = 32
UNIQUE_FLAG = {"_UNIQUE_KEY_QUERY": "true"}
SUBSCRIPTION_FLAG = 4
"""Of a pull: the request says what it wants to see."""
TOOLS_GROUP = "TOOLS_CONSUMER"


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to a pull. code: SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY or PULL_OFFSET_MOVED."""

    code: int
    messages: list[FoundMessage]
    next_offset: int


async def pull(
    session: Session,
    address: str,
    broker_name: str,
    topic: str,
    queue_id: int,
    offset: int,
    count: int,
    tags: str = "*",
    group: str = TOOLS_GROUP,
) -> Pulled:
    """Raises AdminError."""
    header = PullMessageRequestHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=SUBSCRIPTION_FLAG,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=tags,
        sub_version=0,
        expression_type="TAG",
    )
    response = await session.invoke(address, RequestCode.PULL_MESSAGE, header)
    known = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)
    if response.code not in known:
        raise refused(address, RequestCode.PULL_MESSAGE, response.code, response.remark)
    messages = records_in(response.body, broker_name, pulled=True) if response.code == ResponseCode.SUCCESS else []
    if tags != "*":  # the broker compares hashes
        wanted = tags_in(tags)
        messages = [each for each in messages if each.tags in wanted]
    try:
        next_offset, delta = int(response.fields["nextBeginOffset"]), int(response.fields.get("offsetDelta", 0))
    except (KeyError, ValueError) as error:
        cause = "the answer has no nextBeginOffset, or an offsetDelta that is not a number"
        raise AdminError(cause, address=address, request=RequestCode.PULL_MESSAGE) from error
    return Pulled(response.code, [each.at(queue_id, each.message.queue_offset + delta) for each in messages], next_offset)


async def by_place(session: Session, topic: str, message_id: str) -> FoundMessage | None:
    """The message at the address and log offset in an id; None for other ids, or if there is no message. Raises AdminError if the broker
    cannot be asked."""
    place = place_of(message_id)
    if place is None:
        return None
    address, offset = place
    response = await session.invoke(address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(topic=topic, offset=offset))
    found = records_in(response.body) if response.code == ResponseCode.SUCCESS else []
    return found[0] if found else None


async def by_key(
    session: Session,
    topic: str,
    key: str,
    count: int,
    begin_ms: int = 0,
    end_ms: int = FOREVER_MS,
    *,
    route_topic: str = "",
    index_type: str | None = None,
    last_key: str | None = None,
    is_unique: bool = False,
) -> list[FoundMessage]:
    """The messages with a key or, with is_unique, those with a producer's id. Raises AdminError if no broker answers."""
    header = QueryMessageRequestHeader(
        topic=topic, key=key, max_num=count, begin_timestamp=begin_ms, end_timestamp=end_ms, index_type=index_type, last_key=last_key
    )
    fields: Fields = {**header.encode(), **UNIQUE_FLAG} if is_unique else {**header.encode(), "_UNIQUE_KEY_QUERY": "false"}
    found: list[FoundMessage] = []
    faults: list[AdminError] = []
    for broker_name, address in (await session.addresses(route_topic or topic)).items():
        try:
            response = await session.invoke(address, RequestCode.QUERY_MESSAGE, fields, times=SLOW_TIMES)
            if response.code == ResponseCode.SUCCESS:
                found += records_in(response.body, broker_name)
            elif response.code != ResponseCode.QUERY_NOT_FOUND:
                faults.append(refused(address, RequestCode.QUERY_MESSAGE, response.code, response.remark))
        except AdminError as error:
            faults.append(error)
    if faults and not found:
        raise faults[0]
    for fault in faults:
        session.note(fault)
    return [each for each in found if _is_meant(each, key, index_type, is_unique)]


def _is_meant(found: FoundMessage, key: str, index_type: str | None, is_unique: bool) -> bool:
    """Whether the message has the key itself, not just its hash."""
    if is_unique:
        return found.unique_id == key
    if index_type == "T":
        return found.tags == key
    return key in (found.keys or "").split(" ")


async def by_id(session: Session, topic: str, message_id: str, route_topic: str = "") -> FoundMessage | None:
    """The message with an id of either kind. Raises AdminError."""
    away: AdminError | None = None
    try:
        found = await by_place(session, topic, message_id)
    except AdminError as error:  # a producer's id may look like a place, too
        found, away = None, error
    if found is not None:
        return found
    listed = await by_key(session, topic, message_id, UNIQUE_MAX, route_topic=route_topic, is_unique=True)
    if away is not None and not listed:
        raise away
    return listed[0] if listed else None


# ---- who has consumed it ----


@dataclass(frozen=True, slots=True)
class Track:
    """What became of a message in one group (MessageTrack)."""

    group: str
    state: str
    fault: str | None = None

    def text(self) -> str:
        return f"MessageTrack [consumerGroup={self.group}, trackType={self.state}, exceptionDesc={self.fault or 'null'}]"

    def to_json(self) -> dict[str, Any]:
        return {"consumerGroup": self.group, "trackType": self.state, "exceptionDesc": self.fault}


async def tracks_of(session: Session, found: FoundMessage) -> list[Track]:
    """One Track for each group that consumes the topic. Raises AdminError if the groups cannot be asked for."""
    tracks: list[Track] = []

    async def ask(part: Session, group: str) -> Track:
        return await _track(part, found, group)

    session.keep_answers()
    await ask_beside(session, await groups_of(session, found.message.topic), ask, lambda group, track: tracks.append(track))
    return tracks


def _fault_track(group: str, error: AdminError) -> Track:
    described = f"CODE:{error.code} DESC:{error.cause}"
    if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
        return Track(group, "NOT_ONLINE", described)
    if error.code == ResponseCode.BROADCAST_CONSUMPTION:
        return Track(group, "CONSUME_BROADCASTING")
    return Track(group, "UNKNOWN", described if error.code is not None else str(error))


async def _track(session: Session, found: FoundMessage, group: str) -> Track:
    try:
        consumers = await consumers_of(session, group)
        if consumers.get("consumeType") == "CONSUME_ACTIVELY":
            return Track(group, "PULL")
        if consumers.get("consumeType") != "CONSUME_PASSIVELY":
            return Track(group, "UNKNOWN")
        is_consumed = await _is_consumed(session, found, group)
    except AdminError as error:
        return _fault_track(group, error)
    return Track(group, track_state(found, consumers.get("subscriptionTable") or {}, is_consumed))


def track_state(found: FoundMessage, subscriptions: Any, is_consumed: bool) -> str:
    """What became of a message in a push group. is_consumed: it lies before the group's offset."""
    if not is_consumed:
        return "NOT_CONSUME_YET"
    tags = (subscriptions.get(found.message.topic) or {}).get("tagsSet") or []
    return "CONSUMED" if not tags or "*" in tags or found.tags in tags else "CONSUMED_BUT_FILTERED"


async def _is_consumed(session: Session, found: FoundMessage, group: str) -> bool:
    stats = await consume_stats(session, group)
    cluster = await session.cluster()
    stored_at = found.message.store_host
    for queue, _, at, _, _ in stats.rows():
        broker = cluster.brokers.get(queue["brokerName"])
        is_same = (queue["topic"], queue["queueId"]) == (found.message.topic, found.message.queue_id)
        if is_same and broker is not None and stored_at in broker.broker_addrs.values() and at > found.message.queue_offset:
            return True
    return False
