"""Pulls that are filtered by SQL92, as a client sees them: by the subscription of the request and by that of the heartbeat."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.remoting import Command
from rocketpy._core.store import decode_message
from rocketpy.remoting.codes import VERSION_5_3_3, RequestCode, ResponseCode
from tests.unit.broker.running import Peer, Running, eventually, run, running

ALLOWED = {"enablePropertyFilter": "true"}


def bodies(answer: Command) -> list[bytes]:
    found, rest = [], answer.body
    while rest:
        size = int.from_bytes(rest[:4], "big")
        found.append(decode_message(rest[:size]).body)
        rest = rest[size:]
    return found


async def send_prices(at: Running, *prices: int) -> Peer:
    peer = at.peer()
    for price in prices:
        assert (await peer.send("t", b"%d" % price, f"price\x01{price}\x02TAGS\x01even\x02" if price % 2 == 0 else "")).code == 0
    return peer


def subscribed(expression: str, version: int, **members: Any) -> dict[str, Any]:
    given = {"topic": "t", "subString": expression, "expressionType": "SQL92", "subVersion": version, "tagsSet": [], "codeSet": []}
    return {"subscriptionDataSet": [given | members]}


def test_the_expression_of_a_request_chooses(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ALLOWED) as at:
            peer = await send_prices(at, *range(10))
            sql = {"expressionType": "SQL92"}
            answer = await peer.pull("g", "t", subscription="price BETWEEN 2 AND 6", **sql)
            assert (answer.code, bodies(answer), answer.fields["nextBeginOffset"]) == (0, [b"2", b"4", b"6"], "10")
            answer = await peer.pull("g", "t", offset=3, maxMsgNums=1, subscription="price > 0", **sql)
            assert (bodies(answer), answer.fields["nextBeginOffset"]) == ([b"4"], "5")
            nothing = await peer.pull("g", "t", subscription="price > 100", **sql)
            assert (nothing.code, nothing.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "10")
            wrong = await peer.pull("g", "t", subscription="price >", **sql)
            assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED and "at byte 7" in (wrong.remark or "")
            other = await peer.pull("g", "t", subscription="price > 1", expressionType="XPATH")
            assert (other.code, other.remark) == (1, "The broker does not support consumer to filter message by XPATH")

    run(test)


def test_the_expression_of_a_heartbeat_chooses_until_a_newer_one_comes(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ALLOWED) as at:
            peer = await send_prices(at, *range(6))
            answer = await peer.heartbeat("c", "g", **subscribed("price < 3", 1))
            assert answer.version >= VERSION_5_3_3, "Java clients pull by SQL92 from a broker whose heartbeat answers say 4.1 or later"
            assert bodies(await peer.pull("g", "t", sysFlag=0)) == [b"0", b"2"]
            await peer.heartbeat("c", "g", **subscribed("price < 1", 1))
            assert bodies(await peer.pull("g", "t", sysFlag=0)) == [b"0", b"2"], "of the same age"
            assert (await peer.pull("g", "t", sysFlag=0, subVersion=2)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
            await peer.heartbeat("c", "g", **subscribed("price > 3", 2))
            assert bodies(await peer.pull("g", "t", sysFlag=0, subVersion=2)) == [b"4"]
            await peer.heartbeat("c", "g", **subscribed("even", 3, expressionType="TAG", tagsSet=["even"]))
            assert bodies(await peer.pull("g", "t", sysFlag=0, subVersion=3)) == [b"0", b"2", b"4"]
            await peer.heartbeat("c", "g", **subscribed("price >", 4))
            wrong = await peer.pull("g", "t", sysFlag=0, subVersion=4)
            assert wrong.code == ResponseCode.FILTER_DATA_NOT_EXIST and "at byte 7" in (wrong.remark or "")

    run(test)


def test_a_waiting_pull_wakes_for_what_passes_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ALLOWED) as at:
            peer = await send_prices(at, 0)

            def suspended() -> bool:
                return at.broker.parts.native.stats()["pulls_suspended_now"] == 1

            for flags in (2, 2 | 4):
                await peer.heartbeat("c", "g", **subscribed("price = 8", 1))
                end = await peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})
                sql = {"sysFlag": flags, "suspendTimeoutMillis": 60_000, "subscription": "price = 8", "expressionType": "SQL92"}
                waiting = asyncio.create_task(peer.pull("g", "t", offset=int(end.fields["offset"]), **sql))
                await eventually(suspended, "it waits")
                await send_prices(at, 2, 4)
                assert suspended() and not waiting.done()
                await send_prices(at, 8)
                assert bodies(await waiting) == [b"8"]

    run(test)


def test_a_waiting_pull_gets_what_a_newer_expression_wants_of_what_came_before_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ALLOWED) as at:
            peer = await send_prices(at, 0)
            await peer.heartbeat("c", "g", **subscribed("price = 2", 1))
            waiting = asyncio.create_task(peer.pull("g", "t", offset=1, sysFlag=2, suspendTimeoutMillis=60_000))
            woken = lambda: at.broker.parts.native.stats()["pulls_woken"]  # noqa: E731
            await eventually(lambda: at.broker.parts.native.stats()["pulls_suspended_now"] == 1, "it waits")
            await send_prices(at, 4)
            await eventually(lambda: woken() == 1, "it has looked at the message, which does not match")
            await peer.heartbeat("c", "g", **subscribed("price = 4", 2))
            await send_prices(at, 6)
            answer = await waiting
            assert (bodies(answer), answer.fields["nextBeginOffset"]) == ([b"4"], "3")

    run(test)


def test_a_pull_that_waits_with_its_own_expression_is_sent_back_when_leave_is_taken(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ALLOWED) as at:
            peer = await send_prices(at, 0)
            sql = {"subscription": "price = 2", "expressionType": "SQL92"}
            waiting = asyncio.create_task(peer.pull("g", "t", offset=1, sysFlag=2 | 4, suspendTimeoutMillis=60_000, **sql))
            await eventually(lambda: at.broker.parts.native.stats()["pulls_suspended_now"] == 1, "it waits")
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"enablePropertyFilter=false")).code == 0
            await send_prices(at, 2)
            answer = await waiting
            assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "1")
            assert (await peer.pull("g", "t", offset=1, **sql)).code == ResponseCode.SYSTEM_ERROR

    run(test)


def test_an_expression_that_takes_long_is_answered_by_and_by(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ALLOWED) as at:
            peer = at.peer()
            for number in range(3):
                assert (await peer.send("t", b"%d" % number, "a\x01" + "x" * 30_000 + "\x02")).code == 0
            sql = {"subscription": " OR ".join(["a CONTAINS'xy'"] * 900), "expressionType": "SQL92"}
            for offset in range(3):
                answer = await peer.pull("g", "t", offset=offset, **sql)
                assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, str(offset + 1))

    run(test)


def test_without_leave_every_expression_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = await send_prices(at, 0)
            refused = (ResponseCode.SYSTEM_ERROR, "The broker does not support consumer to filter message by SQL92")
            of_request = await peer.pull("g", "t", subscription="price = 0", expressionType="SQL92")
            await peer.heartbeat("c", "g", **subscribed("price = 0", 1))
            of_heartbeat = await peer.pull("g", "t", sysFlag=0)
            assert (of_request.code, of_request.remark) == (of_heartbeat.code, of_heartbeat.remark) == refused
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"enablePropertyFilter=true")).code == 0
            assert bodies(await peer.pull("g", "t", sysFlag=0)) == [b"0"], "the setting takes effect at once"

    run(test)


@pytest.mark.parametrize(
    ("subscription", "code"),
    [
        (subscribed("price = 1", 1), ResponseCode.SUCCESS),
        (subscribed("price =", 1), ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (subscribed("price = 1", 1, expressionType="XPATH"), ResponseCode.SYSTEM_ERROR),
        (subscribed("price = 1", 1, classFilterMode=True), ResponseCode.SYSTEM_ERROR),
        (subscribed("a || b", 1, expressionType="TAG"), ResponseCode.SUCCESS),
    ],
)
def test_a_client_asks_before_it_starts(tmp_path: Path, subscription: dict[str, Any], code: int) -> None:
    async def test() -> None:
        async with running(tmp_path, **ALLOWED) as at:
            asked = {"clientId": "c", "group": "g", "namespace": "", "subscriptionData": subscription["subscriptionDataSet"][0]}
            assert (await at.peer().ask(RequestCode.CHECK_CLIENT_CONFIG, {}, asked)).code == code

    run(test)


def test_filters_of_many_pulls_leave_turns_to_those_who_send(tmp_path: Path) -> None:
    """400 pulls on one connection, each over as many messages as one may look at: the send behind them is answered among them."""
    pulls, looks = 400, 800

    async def test() -> None:
        async with running(tmp_path, **ALLOWED) as at:
            many = await send_prices(at, *range(looks))
            other = at.peer()
            assert (await other.send("t", b"first")).code == 0
            wanted = looks - 2
            ask = {"subscription": f"price > {looks} OR price = {wanted}", "expressionType": "SQL92"}
            waiting = [asyncio.ensure_future(many.pull("g", "t", **ask)) for _ in range(pulls)]
            await eventually(lambda: any(each.done() for each in waiting))
            assert (await other.send("t", b"second")).code == 0
            assert not all(each.done() for each in waiting)
            for answer in await asyncio.gather(*waiting):
                goes_on_at = int(answer.fields["nextBeginOffset"])
                if answer.code != ResponseCode.PULL_RETRY_IMMEDIATELY:  # that says: come again, its time was up on the way
                    assert (answer.code, bodies(answer)) == (0, [b"%d" % wanted])
                assert (goes_on_at > wanted) == (answer.code == 0) and goes_on_at <= looks

    run(test)
