"""A consumer's report about itself, as text, and the troubles that it shows. RocketMQ: ConsumerRunningInfo (5.3.3 remoting/protocol/body/).

The report comes from a client, so every member may be missing or have another type. Such a member counts as missing, or, if it is a number,
is shown as it came. Nothing here raises for a report that check_report has let pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..remoting.json_codec import DEPTH_MAX, is_deeper
from .errors import AdminError
from .queues import by_queue, queue_key, queue_text
from .texts import digits_time, java

SETTLED_MS = 2 * 60 * 1000
"""How long after its start a consumer may have other subscriptions than the rest of its group."""
BLOCKED_MS = 60 * 1000
"""How long a queue with cached messages may go without consuming any before it counts as blocked."""
_QUEUE = "%-64s  %-32s  %-4s  %s"
_NARROW = "%-32s  %-32s  %-4s  %s"
_HEAD = ("#Topic", "#Broker Name", "#QID")
_RATE = "%-32s  %14s %14s %14s %14s %18s %25d"
_PROCESS = (
    "commitOffset",
    "cachedMsgMinOffset",
    "cachedMsgMaxOffset",
    "cachedMsgCount",
    "cachedMsgSizeInMiB",
    "transactionMsgMinOffset",
    "transactionMsgMaxOffset",
    "transactionMsgCount",
    "locked",
    "tryUnlockTimes",
    "lastLockTimestamp",
    "droped",
    "lastPullTimestamp",
    "lastConsumeTimestamp",
)
_RATES = ("pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS")


def check_report(client_id: str, info: Mapping[str, Any]) -> None:
    """Raises AdminError, naming the client, for a report that cannot be shown: tables whose keys are not queues, or excessive nesting."""
    if is_deeper(info, DEPTH_MAX):
        raise AdminError(f"what client {client_id} says of itself is nested deeper than {DEPTH_MAX}")
    for name in ("mqTable", "mqPopTable"):
        try:
            by_queue(info.get(name))
        except AdminError as error:
            raise error.about(f"what client {client_id} says of itself, {name}") from error


def _members(info: Mapping[str, Any], name: str) -> dict[Any, Any]:
    value = info.get(name)
    return value if isinstance(value, dict) else {}


def _integer(value: Any) -> int:
    try:
        return int(value)
    except (OverflowError, TypeError, ValueError):
        return 0


def _rate(value: Any) -> str:
    try:
        return f"{float(value or 0):.2f}"
    except (OverflowError, TypeError, ValueError):
        return java(value)


def is_push(info: Mapping[str, Any]) -> bool:
    return _members(info, "properties").get("PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY"


def _subscriptions(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = info.get("subscriptionSet")
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return sorted(found, key=lambda each: str(each.get("topic")))


def has_same_subscriptions(infos: Sequence[Mapping[str, Any]], now_ms: int) -> bool:
    """False if push consumers of one group that have run for a while (SETTLED_MS) subscribe to different things."""
    first = infos[0]
    started = _integer(_members(first, "properties").get("PROP_CONSUMER_START_TIMESTAMP"))
    if not is_push(first) or now_ms - started <= SETTLED_MS:
        return True
    seen = [[(each.get("topic"), each.get("subString")) for each in _subscriptions(info)] for info in infos]
    return all(each == seen[0] for each in seen)


def blocked_queues(client_id: str, info: Mapping[str, Any], now_ms: int) -> Iterator[str]:
    """A line for each queue whose consumption has stopped."""
    if not is_push(info):
        return
    in_order = str(_members(info, "properties").get("PROP_CONSUMEORDERLY")).lower() == "true"
    table = by_queue(info.get("mqTable"))
    for queue in sorted(table, key=queue_key):
        state = table[queue] if isinstance(table[queue], dict) else {}
        waited = now_ms - _integer(state.get("lastConsumeTimestamp"))
        unlocked = _integer(state.get("tryUnlockTimes"))
        if in_order and not state.get("locked"):
            yield f"{client_id} {queue_text(queue)} can't lock for a while, {now_ms - _integer(state.get('lastLockTimestamp'))}ms"
        elif in_order and state.get("droped") and unlocked > 0:
            yield f"{client_id} {queue_text(queue)} unlock {unlocked} times, still failed"
        elif not in_order and waited > BLOCKED_MS and _integer(state.get("cachedMsgCount")) > 0:
            yield f"{client_id} {queue_text(queue)} can't consume for a while, maybe blocked, {waited}ms"


def running_text(info: Mapping[str, Any]) -> str:
    """The text that consumerStatus prints (formatString)."""
    lines = ["#Consumer Properties#"]
    lines += [f"{name!s:40}: {java(value)}" for name, value in _members(info, "properties").items()]
    lines += ["", "", "#Consumer Subscription#"]
    for number, each in enumerate(_subscriptions(info), 1):
        lines.append(
            f"{number:03} Topic: {each.get('topic')!s:40} ClassFilter: {java(each.get('classFilterMode', False)):8} "
            f"SubExpression: {each.get('subString')}"
        )
    queues = by_queue(info.get("mqTable"))
    order = sorted(queues, key=queue_key)
    lines += ["", "", "#Consumer Offset#", _QUEUE % (*_HEAD, f"{'#Consumer Offset':20}")]
    lines += [_NARROW % (*_cells(queue), f"{java(_members(queues, queue).get('commitOffset')):20}") for queue in order]
    lines += ["", "", "#Consumer MQ Detail#", _QUEUE % (*_HEAD, f"{'#ProcessQueueInfo':20}")]
    lines += [_QUEUE % (*_cells(queue), _process_text(_members(queues, queue))) for queue in order]
    popped = by_queue(info.get("mqPopTable"))
    lines += ["", "", "#Consumer Pop Detail#", _NARROW % (*_HEAD, f"{'#ProcessQueueInfo':20}")]
    lines += [_NARROW % (*_cells(queue), _pop_text(_members(popped, queue))) for queue in sorted(popped, key=queue_key)]
    return "\n".join([*lines, *_rates(info), *_ends(info)])


def _cells(queue: Any) -> tuple[str, str, int]:
    return queue["topic"], queue["brokerName"], queue["queueId"]


def _process_text(state: Mapping[str, Any]) -> str:
    """ProcessQueueInfo.toString."""
    return "ProcessQueueInfo [" + ", ".join(f"{name}={_state_text(name, state.get(name))}" for name in _PROCESS) + "]"


def _pop_text(state: Mapping[str, Any]) -> str:
    names = ("waitAckCount", "droped", "lastPopTimestamp")
    return "PopProcessQueueInfo [" + ", ".join(f"{name}:{java(state.get(name))}" for name in names) + "]"


def _state_text(name: str, value: Any) -> str:
    return digits_time(_integer(value)) if name.endswith("Timestamp") else java(value)


def _rates(info: Mapping[str, Any]) -> list[str]:
    head = "%-64s  %14s %14s %14s %14s %18s %25s"
    names = ("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS", "#ConsumeFailedMsgsInHour")
    lines = ["", "", "#Consumer RT&TPS#", head % names]
    table = _members(info, "statusTable")
    for topic in sorted(table, key=str):
        state = _members(table, topic)
        rates = [_rate(state.get(name)) for name in _RATES]
        lines.append(_RATE % (topic, *rates, _integer(state.get("consumeFailedMsgs"))))
    return lines


def _ends(info: Mapping[str, Any]) -> list[str]:
    lines = []
    if info.get("userConsumerInfo") is not None:
        lines += ["", "", "#User Consume Info#"]
        lines += [f"{name!s:40}: {java(value)}" for name, value in _members(info, "userConsumerInfo").items()]
    if info.get("jstack") is not None:
        lines += ["", "", "#Consumer jstack#", str(info["jstack"])]
    return [*lines, ""] if not info.get("jstack") else lines
