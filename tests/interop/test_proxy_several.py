"""Several messages and several acknowledgements in one gRPC request: RocketMQ's proxy and ours, before the same broker, say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from rocketpy.proxy import schema
from rocketpy.proxy.context import now_ms
from tests.processes import PATIENCE_S
from tests.unit.proxy.test_service import Peer, code, consumer, message

from .products import Cluster
from .proxies import OwnProxy, Proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
BATCHES, EACH = 3, 3


def told(answer: Any) -> tuple[str, list[tuple[str, str]]]:
    return code(answer), [(each.message_id, schema.label("Code", each.status.code)) for each in answer.entries]


async def receive(peer: Peer, topic: str, group: str, count: int) -> dict[str, str]:
    """Handles by message id."""
    found: dict[str, str] = {}
    async with asyncio.timeout(2 * PATIENCE_S):
        while len(found) < count:
            _, messages = await peer.receive(topic, group, invisible_duration={"seconds": 60}, long_polling_timeout={"seconds": 5})
            found |= {each.system_properties.message_id: each.system_properties.receipt_handle for each in messages}
    return found


async def what_is_said(proxy: Proxy, topic: str, group: str) -> list[Any]:
    """Of ours the first of its kind comes by Python, and the others without."""
    said: list[Any] = []
    resources = {"topic": {"name": topic}, "group": {"name": group}}
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        peer = Peer(channel)
        async with peer.telemetry(**consumer(topic, group)):
            for batch in range(BATCHES):
                several = [message(topic, f"{batch}-{at}".encode()) for at in range(EACH)]
                for at, each in enumerate(several):
                    each.system_properties.message_id = f"M{batch}{at}"
                said.append(told(await peer.ask("SendMessage", messages=several)))
            said.append(told(await peer.ask("SendMessage", messages=[])))
            said.append(told(await peer.ask("SendMessage", messages=[message(topic), message("Another")])))
            for several in ([message(topic), message(topic, message_group="g")], [message(topic, message_group="g"), message(topic)]):
                said.append(told(await peer.ask("SendMessage", messages=several)))
            handles = await receive(peer, topic, group, BATCHES * EACH + 1)
            entries = [{"message_id": name, "receipt_handle": handle} for name, handle in sorted(handles.items())]
            over = {"message_id": "over", "receipt_handle": "1 1 1 1 0 b 1 1"}
            nowhere = {"message_id": "nowhere", "receipt_handle": f"1 {now_ms()} 60000 0 0 no-broker 1 1"}
            for some in (entries[:4], [*entries[4:6], over], [nowhere, *entries[6:]], [nowhere], []):
                said.append(told(await peer.ask("AckMessage", **resources, entries=some)))
    return said


def test_several_at_once_are_answered_as_by_rocketmqs_proxy(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = new_cluster()
    said = {}
    for kind in (Proxy, OwnProxy):
        topic = f"Several{kind.__name__}"
        cluster.create_topic(topic, queues=1)
        cluster.create_group(f"GID-{kind.__name__}")
        proxy = kind(tmp_path / kind.__name__, cluster.address).start()
        try:
            said[kind] = asyncio.run(what_is_said(proxy, topic, f"GID-{kind.__name__}"))
        finally:
            proxy.kill()
    assert said[OwnProxy] == said[Proxy]
    assert [each[0] for each in said[OwnProxy][:BATCHES]] == ["OK"] * BATCHES
