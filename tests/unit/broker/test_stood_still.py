"""A broker whose process was stopped, or whose machine was paused: nobody is silent for that time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rocketpy.remoting.codes import RequestCode
from tests.unit.broker.running import run, running

JUMP_NS = 3_600_000_000_000


def test_no_client_and_no_lock_is_forgotten_for_what_the_broker_stood_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client comes back with its next heartbeat, half a minute later: until then its group would have its queues shared out anew."""
    monotonic_ns = time.monotonic_ns

    async def test() -> None:
        async with running(tmp_path) as at:
            peer, parts, housekeeping = at.peer(), at.broker.parts, at.broker._housekeeping
            assert parts is not None and housekeeping is not None
            queues = [{"topic": "t", "brokerName": "broker-a", "queueId": 0}]
            body = {"consumerGroup": "g", "clientId": "one", "mqSet": queues}
            for _ in range(3):
                await peer.heartbeat("one", "g", "t")
            assert (await peer.value(RequestCode.LOCK_BATCH_MQ, {}, body))["lockOKMQSet"] == queues
            with monkeypatch.context() as turned:
                turned.setattr(time, "monotonic_ns", lambda: monotonic_ns() + JUMP_NS)
                housekeeping._scan_clients()
                assert parts.consumers.client_ids("g") == ["one"] and parts.producers.clients("producers")
                assert (await peer.value(RequestCode.LOCK_BATCH_MQ, {}, body | {"clientId": "two"}))["lockOKMQSet"] == []
                await peer.heartbeat("one", "g", "t")
                (producer,) = (await peer.value(RequestCode.GET_ALL_PRODUCER_INFO))["data"]["producers"]
                assert abs(producer["lastUpdateTimestamp"] - time.time() * 1000) < JUMP_NS / 2_000_000
                housekeeping._scan_clients()
                assert parts.consumers.client_ids("g") == ["one"] and parts.producers.clients("producers")

    run(test)
