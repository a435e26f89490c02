"""A controller's metrics under RocketMQ's names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from rocketpy._core.remoting import Request
from rocketpy.controller import counters
from rocketpy.controller.counters import BOUNDS_US, SETS_MAX, Counters, Election
from rocketpy.controller.decisions import Decision
from rocketpy.controller.replicas_info import ReplicasInfo
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import Response
from rocketpy.remoting.headers import (
    ApplyBrokerIdRequestHeader,
    BrokerHeartbeatRequestHeader,
    ElectMasterRequestHeader,
)
from tests.unit.broker.running import run
from tests.unit.broker.test_metrics import scrape, value
from tests.unit.controller.test_service import started

REQUEST = cast(Request, None)


def test_a_scrape_tells_who_leads_who_lives_and_what_was_asked(tmp_path: Path) -> None:
    async def test() -> None:
        prometheus = {"metricsExporterType": "2", "metricsPromExporterPort": "0", "metricsPromExporterHost": "127.0.0.1"}
        async with started(tmp_path, **prometheus, metricsLabel="room:a") as controller:
            client, address = RemotingClient(), controller.address
            applied = ApplyBrokerIdRequestHeader(cluster_name="c", broker_name="b", applied_broker_id=1, register_check_code="x")
            await client.call(address, RequestCode.CONTROLLER_APPLY_BROKER_ID, applied)
            elect = ElectMasterRequestHeader(cluster_name="c", broker_name="b", broker_id=1, designate_elect=False)
            await client.call(address, RequestCode.CONTROLLER_ELECT_MASTER, elect)
            beat = BrokerHeartbeatRequestHeader(cluster_name="c", broker_name="b", broker_id=1, broker_addr="127.0.0.1:1")
            await client.call(address, RequestCode.BROKER_HEARTBEAT, beat)
            samples = await scrape(controller.metrics_port)
            await client.stop()
        common = {"address": address, "group": "group1", "peer_id": "n0", "room": "a"}
        assert value(samples, "role", **common) == 3
        assert value(samples, "active_broker_num", cluster="c", broker_set="b", **common) == 1
        assert value(samples, "election_total", cluster="c", broker_set="b", election_result="new_master_elected") == 1
        for name in ("CONTROLLER_APPLY_BROKER_ID", "CONTROLLER_ELECT_MASTER", "CONTROLLER_BROKER_HEARTBEAT"):
            assert value(samples, "request_total", request_type=name, request_handle_status="success", **common) == 1
            assert value(samples, "request_latency_microseconds_count", request_type=name) == 1
        appended = {"dledger_operation": "append", "dLedger_operation_status": "success"}
        assert value(samples, "dledger_op_total", **appended) >= 2
        assert value(samples, "dledger_op_latency_microseconds_bucket", le="+Inf", **appended) >= 2
        assert value(samples, "dledger_disk_usage_bytes", **common) > 0

    run(test)


def test_requests_count_by_how_they_ended() -> None:
    now_us = 0

    def late(request: Request) -> Response:
        nonlocal now_us
        now_us += counters.TIMEOUT_US
        return Response(ResponseCode.SYSTEM_ERROR)

    def raises(request: Request) -> Response:
        raise ValueError

    async def waits(request: Request) -> Response:
        nonlocal now_us
        now_us += 5
        return Response(ResponseCode.SYSTEM_ERROR, "no, but at once")

    async def wait_and_raise(request: Request) -> Response:
        raise ValueError

    async def test() -> None:
        counted = Counters(lambda: now_us)
        code, name = RequestCode.UPDATE_CONTROLLER_CONFIG, "CONTROLLER_UPDATE_CONTROLLER_CONFIG"
        counted.timed(code, late)(REQUEST)
        with pytest.raises(ValueError):
            counted.timed(code, raises)(REQUEST)
        for handler, expected in ((waits, None), (wait_and_raise, ValueError)):
            answer = counted.timed(code, handler)(REQUEST)
            assert not isinstance(answer, Response)
            [done] = await asyncio.gather(answer, return_exceptions=True)
            assert isinstance(done, expected or Response)
        assert dict(counted.requests) == {(name, "timeout"): 1, (name, "failed"): 2, (name, "success"): 1}
        times = counted.request_times[name]
        assert (sum(times.counts), times.counts[BOUNDS_US.index(5)], times.sum_us) == (1, 1, 5)

    run(test)


def test_elections_of_sets_that_nobody_knows_count_as_none_and_many_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, counted = ReplicasInfo(), Counters()
    counted.elected("b", tables, Decision(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED))
    assert not counted.elections
    counted.elections = type(counted.elections)({Election("c", str(i), "no_master_elected"): 1 for i in range(SETS_MAX)})
    monkeypatch.setattr(tables, "get", lambda name: type("Found", (), {"sync": type("Sync", (), {"cluster_name": "c"})}))
    for name in ("new", "newer", "0"):
        counted.elected(name, tables, Decision(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED))
    assert counted.elections[Election("other", "other", "no_master_elected")] == 2
    assert counted.elections[Election("c", "0", "no_master_elected")] == 2
    counted.elected("0", tables, Decision(ResponseCode.CONTROLLER_NOT_LEADER))
    assert len(counted.elections) == SETS_MAX + 1
