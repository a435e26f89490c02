"""Consumer groups: made, changed, deleted, looked at. RocketMQ: tools/command/consumer/ (5.5.0)."""

from __future__ import annotations

from typing import Any

from ..broker.names import DLQ_PREFIX, RETRY_PREFIX
from ..remoting.codes import RequestCode
from ..remoting.headers import DeleteSubscriptionGroupRequestHeader
from ..remoting.json_codec import JsonError, read_object, write_fastjson, write_json
from .beside import ask_beside
from .cluster import address_of
from .command_line import Given
from .errors import AdminError, UsageError
from .output import Output
from .session import Session
from .texts import java
from .topics import attributes_of, forget_topic, read_list, remove_topic

NEW_GROUP: dict[str, Any] = {
    "groupName": "",
    "consumeEnable": True,
    "consumeFromMinEnable": False,
    "consumeBroadcastEnable": False,
    "consumeMessageOrderly": False,
    "retryQueueNums": 1,
    "retryMaxTimes": 16,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1,
    "notifyConsumerIdsChangedEnable": True,
    "groupSysFlag": 0,
    "consumeTimeoutMinute": 15,
    "subscriptionDataSet": None,
    "attributes": {},
}
"""SubscriptionGroupConfig as updateSubGroup begins it; in the order in which it is printed."""
_TRUTHS = {
    "s": "consumeEnable",
    "m": "consumeFromMinEnable",
    "d": "consumeBroadcastEnable",
    "o": "consumeMessageOrderly",
    "a": "notifyConsumerIdsChangedEnable",
}
_NUMBERS = {"q": "retryQueueNums", "r": "retryMaxTimes", "i": "brokerId", "w": "whichBrokerWhenConsumeSlowly"}


def group_of(given: Given) -> dict[str, Any]:
    """The configuration that options ask for. Raises UsageError."""
    group = {**NEW_GROUP, "groupName": given.text("g")}
    group |= {name: given.truth(key) for key, name in _TRUTHS.items() if given.has(key)}
    group |= {name: given.number(key) for key, name in _NUMBERS.items() if given.has(key)}
    if given.has("p"):
        try:
            group["groupRetryPolicy"] = read_object(given.text("p"))
        except JsonError as error:
            raise UsageError(f"-p/--groupRetryPolicy: {error}") from error
    if given.has("attributes"):
        group["attributes"] = attributes_of(given.text("attributes"))
    return group


def group_text(group: dict[str, Any]) -> str:
    """SubscriptionGroupConfig.toString."""
    shown = {**group, "groupRetryPolicy": _policy_text(group["groupRetryPolicy"])}
    return "SubscriptionGroupConfig{" + ", ".join(f"{name}={java(value)}" for name, value in shown.items()) + "}"


def _policy_text(policy: dict[str, Any]) -> str:
    exponential, customized = policy.get("exponentialRetryPolicy"), policy.get("customizedRetryPolicy")
    inner = [
        f"type={policy.get('type')}",
        f"exponentialRetryPolicy={_inner_text('ExponentialRetryPolicy', exponential, 'initial', 'max', 'multiplier')}",
        f"customizedRetryPolicy={_inner_text('CustomizedRetryPolicy', customized, 'next')}",
    ]
    return "GroupRetryPolicy{" + ", ".join(inner) + "}"


def _inner_text(name: str, policy: Any, *members: str) -> str:
    if not isinstance(policy, dict):
        return "null"
    return name + "{" + ", ".join(f"{member}={java(policy.get(member))}" for member in members) + "}"


async def update_sub_group(session: Session, given: Given, out: Output) -> None:
    group = group_of(given)
    body = write_json({name: value for name, value in group.items() if value is not None})

    async def create(address: str) -> None:
        await session.call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
        out.done(f"create subscription group to {address} success.", address=address)

    await session.each(await session.masters(given), create)
    if not session.troubles:
        out.put(group_text(group))
    out.set(group=group)


async def update_sub_group_list(session: Session, given: Given, out: Output) -> None:
    groups = read_list(given.text("f"))
    what = "group" if given.has("b") else "subscription group"

    async def submit(address: str) -> None:
        await session.value(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, {"groupConfigList": groups})
        out.done(f"submit batch of {what} config to {address} success, please check the result later.", address=address)

    await session.each(await session.masters(given), submit)


async def delete_sub_group(session: Session, given: Given, out: Output) -> None:
    group, clean = given.text("g"), given.truth("r")
    where = "" if given.has("b") else f" in cluster [{given.text('c')}]"

    async def delete(address: str) -> None:
        header = DeleteSubscriptionGroupRequestHeader(group_name=group, clean_offset=clean)
        await session.call(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        out.done(f"delete subscription group [{group}] from broker [{address}]{where} success.", groupName=group, address=address)

    is_done = await session.each(await session.masters(given), delete)
    if given.has("b") or not is_done:  # a master that kept the group has messages for it to consume again
        return
    addresses = (await session.cluster()).addresses(given.text("c"))
    for topic in (RETRY_PREFIX + group, DLQ_PREFIX + group):
        await remove_topic(session, topic, addresses)
        await forget_topic(session, topic)


async def set_consume_mode(session: Session, given: Given, out: Output) -> None:
    topic, group, mode, share = given.text("t"), given.text("g"), given.text("m"), given.number("q")
    if mode not in ("PULL", "POP"):
        raise UsageError(f"-m/--mode: {mode!r} is neither PULL nor POP")
    body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": share}

    async def change(address: str) -> None:
        await session.value(address, RequestCode.SET_MESSAGE_REQUEST_MODE, None, body)
        out.done(f"set consume mode to {address} success.", address=address)

    await session.each(await session.masters(given), change)
    if not session.troubles:
        out.put(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")
    out.set(**body)


async def groups_at(session: Session, address: str) -> dict[str, dict[str, Any]]:
    """All groups of a broker, by name. Raises AdminError."""
    value = await session.members(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, times=2)
    table = value.get("subscriptionGroupTable")
    return {str(name): dict(group) for name, group in table.items() if isinstance(group, dict)} if isinstance(table, dict) else {}


async def get_consumer_config(session: Session, given: Given, out: Output) -> None:
    cluster, name = await session.cluster(), given.text("g")
    found = False

    async def ask(part: Session, broker_name: str) -> dict[str, Any] | None:
        return (await groups_at(part, address_of(cluster.brokers[broker_name].broker_addrs))).get(name)

    def show(broker_name: str, group: dict[str, Any] | None) -> None:
        nonlocal found
        if group is None:
            return
        found = True
        at = next((each for each, names in cluster.clusters.items() if broker_name in names), None)
        out.line(f"============================={at}:{broker_name}=============================")
        for member in [*NEW_GROUP, *(each for each in group if each not in NEW_GROUP)]:
            out.line(f"{member:40}=  {_member_text(member, group.get(member))}")
        out.add("brokers", {"clusterName": at, "brokerName": broker_name, "group": group})

    await ask_beside(session, cluster.brokers, ask, show)
    if not found and not session.troubles:
        raise AdminError(f"no broker has a group {name}", remedy="consumerProgress shows the groups there are, updateSubGroup makes one")


def _member_text(member: str, value: Any) -> str:
    if member == "groupRetryPolicy" and isinstance(value, dict):
        return _policy_text(value)
    return "" if value is None else write_fastjson(value).decode() if isinstance(value, list) else java(value)
