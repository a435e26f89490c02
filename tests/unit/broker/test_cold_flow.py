"""Limits of groups that read from the disk, as operators set and see them. Who is held back: tests/unit/c/broker_cold_flow_test.c."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker import cold_flow
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .running import Peer, run, running


async def limits(peer: Peer) -> dict[str, int]:
    shown = await peer.value(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
    assert (shown["runtimeTable"], shown["globalAcc"]) == ({}, 0)
    assert (shown["cgColdReadThreshold"], shown["globalColdReadThreshold"]) == (4096, 100 << 20)
    return dict(shown["configTable"])


def test_limits_are_set_shown_and_removed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, coldDataFlowControlEnable="true", cgColdReadThreshold="4096") as at:
            peer = at.peer()
            assert await limits(peer) == {}
            assert (await peer.ask(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, {}, b"g=1024\nnot-known-yet=0\n")).code == 0
            assert (await peer.ask(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, {}, b"g=2048\n")).code == 0
            assert await limits(peer) == {"g": 2048, "not-known-yet": 0}
            for group in (b"g", b"never-set"):
                assert (await peer.ask(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, {}, group)).code == 0
            assert await limits(peer) == {"not-known-yet": 0}

    run(test)


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (b"g=many\n", "the limit of group g is 'many': expected bytes"),
        (b"g=-1\n", "expected bytes"),
        (b"g=%d\n" % 2**63, "expected bytes"),
        (b"g=%b\n" % (b"9" * 5000), f"the limit of group g is '{'9' * 64}': expected bytes"),
        (b"fine=1\ng=\n", "the limit of group g is ''"),
        (b"=1\n", "no group can have the name ''"),
        (b"%b=1\n" % (b"x" * 300), "no group can have the name"),
        (b"\xff=1", "the body is not UTF-8"),
    ],
)
def test_a_limit_that_is_none_changes_nothing(tmp_path: Path, body: bytes, remark: str) -> None:
    async def test() -> None:
        async with running(tmp_path, cgColdReadThreshold="4096") as at:
            peer = at.peer()
            answer = await peer.ask(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, {}, body)
            assert answer.code == ResponseCode.INVALID_PARAMETER and answer.remark is not None and remark in answer.remark
            assert await limits(peer) == {}

    run(test)


def test_limits_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(cold_flow, "LIMITS_MAX", 2)
        async with running(tmp_path, cgColdReadThreshold="4096") as at:
            peer = at.peer()
            assert (await peer.ask(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, {}, b"a=1\nb=1\n")).code == 0
            answer = await peer.ask(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, {}, b"c=1\n")
            assert answer.code == ResponseCode.INVALID_PARAMETER and answer.remark == "more than 2 groups have limits: remove some"
            assert (await peer.ask(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, {}, b"a=2\n")).code == 0

    run(test)
