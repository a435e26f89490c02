"""Messages that clients of a proxy name by their place in a broker's log, where brokers would take the proxy's word for it."""

from __future__ import annotations

import asyncio
import gc
import struct
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketpy._core.remoting import Command
from rocketpy.proxy import found_messages
from rocketpy.proxy.found_messages import LOOKS_MAX, FoundMessages
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError
from rocketpy.remoting.credentials import Credentials
from rocketpy.testing import LocalRocketMQ
from tests.processes import PATIENCE_S

from .test_authority import CHECKS, new_user, quick_copies, signed_by
from .test_relay import BROKER, Client, client_of, with_port
from .test_service import Peer, code, message

__all__ = ["quick_copies"]  # a fixture

OFFSET_AT, BODY_AT = 28, 88
"""In a record."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalRocketMQ]:
    with LocalRocketMQ(keys={"brokerName": BROKER}) as rocketmq:
        yield rocketmq


async def sent(client: Client, topic: str, properties: str = "", sys_flag: int = 0, body: bytes = b"money") -> Command:
    header = {"a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": sys_flag, "g": time.time_ns() // 1_000_000, "h": 0}
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, body, **header, i=properties, j=0, k="false", m="false")
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


def place_of(answer: Command) -> int:
    return int(answer.fields["msgId"][16:], 16)


def test_who_has_no_right_on_a_message_names_it_by_its_place_in_vain(
    cluster: LocalRocketMQ, quick_copies: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers would take the proxy's word for it."""
    own, secret, group = cluster.make_topic("OwnPlaces"), cluster.make_topic("SecretPlaces"), "placed"
    prepared = "TRAN_MSG\x01true\x02PGROUP\x01producers\x02UNIQ_KEY\x01AB\x02"

    async def test(address: str, peer: Peer) -> None:
        await new_user(cluster, "placer", (f"Topic:{own}", "All", "Allow"), (f"Group:{group}", "Sub", "Allow"))
        headers = signed_by("placer", "secret of placer")
        assert code(await peer.ask("SendMessage", headers=headers, messages=[message(own)])) == "OK"  # the users are copied for it
        async with client_of(address, Credentials("placer", "secret of placer")) as placer, client_of(cluster.broker) as root:
            for topic, expected in ((secret, ResponseCode.NO_PERMISSION), (own, ResponseCode.SUCCESS)):
                place = place_of(await sent(root, topic))
                back = {"offset": place, "group": group, "delayLevel": 0, "originTopic": own, "bname": BROKER}
                assert (await placer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **back)).code == expected
                half = await sent(root, topic, prepared, 4)
                end = {"producerGroup": "producers", "tranStateTableOffset": half.fields["queueOffset"], "msgId": "AB", "bname": BROKER}
                end |= {"commitLogOffset": place_of(half), "commitOrRollback": 8, "fromTransactionCheck": "false"}
                assert (await placer.ask(RequestCode.END_TRANSACTION, **end)).code == expected
            nothing = await placer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **{**back, "offset": 2**40})
            assert nothing.code == ResponseCode.SYSTEM_ERROR
            bad = await placer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **{**back, "offset": "x"})
            assert "is not a 64-bit number" in (bad.remark or "")
        assert caplog.text.count("no right on that message") >= 1
        assert f"requests of 4.x clients to {BROKER} fail" not in caplog.text

    with_port(cluster, test, **CHECKS)


def test_what_reads_like_a_record_in_a_body_is_no_message_although_the_broker_shows_it(cluster: LocalRocketMQ, quick_copies: None) -> None:
    own, group = cluster.make_topic("OwnForged"), "forgers"

    async def test(address: str, peer: Peer) -> None:
        await new_user(cluster, "forger", (f"Topic:{own}", "All", "Allow"), (f"Group:{group}", "Sub", "Allow"))
        headers = signed_by("forger", "secret of forger")
        assert code(await peer.ask("SendMessage", headers=headers, messages=[message(own)])) == "OK"  # the users are copied for it
        async with client_of(address, Credentials("forger", "secret of forger")) as forger, client_of(cluster.broker) as root:
            true = place_of(await sent(root, own))
            forged = bytearray((await root.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=true)).body)
            place = true + len(forged) + BODY_AT
            struct.pack_into(">Q", forged, OFFSET_AT, place)
            assert place_of(await sent(root, own, body=bytes(forged))) + BODY_AT == place
            assert (await root.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=place)).body == forged, "that is where it lies"
            for at, expected in ((place, ResponseCode.SYSTEM_ERROR), (true, ResponseCode.SUCCESS)):
                back = {"offset": at, "group": group, "delayLevel": 0, "originTopic": own, "bname": BROKER}
                assert (await forger.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **back)).code == expected
            handle = f"0 {time.time_ns() // 1_000_000} 60000 0 0 {BROKER} 0 0 {place}"
            named = {"topic": {"name": own}, "group": {"name": group}, "receipt_handle": handle, "message_id": "AB"}
            assert code(await peer.ask("ForwardMessageToDeadLetterQueue", headers=headers, **named)) != "OK"

    with_port(cluster, test, **CHECKS)


def test_a_receipt_handle_that_is_made_up_has_no_message_of_others_made_a_dead_letter(cluster: LocalRocketMQ, quick_copies: None) -> None:
    own, secret, group = cluster.make_topic("OwnDead"), cluster.make_topic("SecretDead"), "buriers"

    async def test(address: str, peer: Peer) -> None:
        await new_user(cluster, "burier", (f"Topic:{own}", "All", "Allow"), (f"Group:{group}", "Sub", "Allow"))
        headers = signed_by("burier", "secret of burier")
        async with client_of(cluster.broker) as root:
            for topic, expected in ((secret, "UNAUTHORIZED"), (own, "OK")):
                place = place_of(await sent(root, topic))
                now_ms = time.time_ns() // 1_000_000
                handle = f"0 {now_ms} 60000 0 0 {BROKER} 0 0 {place}"
                named = {"topic": {"name": own}, "group": {"name": group}, "receipt_handle": handle, "message_id": "AB"}
                answer = await peer.ask("ForwardMessageToDeadLetterQueue", headers=headers, **named)
                assert code(answer) == expected, answer.status.message

    with_port(cluster, test, **CHECKS)


@pytest.mark.parametrize(
    ("topic", "properties", "asked"),
    [
        ("own", {"REAL_TOPIC": "secret"}, ["Topic secret Pub"]),
        ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", {"REAL_TOPIC": "secret"}, ["Topic secret Pub"]),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {}, ["Topic  Pub"]),
        ("own", {}, []),
    ],
)
def test_what_rocketmq_would_end_asks_for_the_right_on_the_topic_it_would_be_stored_under(
    topic: str, properties: dict[str, str], asked: list[str]
) -> None:
    questions: list[str] = []

    def grants(*question: str) -> bool:
        questions.append(" ".join(question))
        return False

    assert found_messages._may_end(cast(Any, SimpleNamespace(topic=topic, properties=properties)), grants) is (not asked)
    assert questions == asked


def asking(brokers: Any) -> FoundMessages:
    """As a proxy without users: it looks, and judges nobody."""
    return FoundMessages(cast(Any, SimpleNamespace(authorization_whitelist="")), brokers, cast(Any, None), cast(Any, None))


def test_a_broker_that_hangs_keeps_nobody_from_the_others() -> None:
    class OneHangs:
        async def call(self, broker: str, *rest: Any) -> Any:
            if broker == "hung":
                await asyncio.Event().wait()
            return SimpleNamespace(code=ResponseCode.SYSTEM_ERROR, remark="there is none", body=b"")

    async def test() -> None:
        found = asking(OneHangs())
        looks = [asyncio.create_task(found._message("hung", 0)) for _ in range(4 * LOOKS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(CommandError, match="there is none"):
            await asyncio.wait_for(found._message("healthy", 0), PATIENCE_S)
        for look in looks:
            look.cancel()
        await asyncio.wait(looks)
        del look, looks
        gc.collect()  # their frames
        assert not found._looks, "nothing is kept of who was asked for"

    asyncio.run(test())


def test_no_more_messages_are_kept_than_are_looked_at_at_once(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("KeptNot")

    class Shown(SimpleNamespace):
        kept, most = 0, 0

        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)
            Shown.kept += 1
            Shown.most = max(Shown.most, Shown.kept)

        def __del__(self) -> None:
            Shown.kept -= 1

    class Shows:
        def __init__(self, answer: Command) -> None:
            self.answer = answer

        async def call(self, broker: str, code: int, header: Any) -> Any:
            await asyncio.sleep(0)
            shown = Shown if code == RequestCode.VIEW_MESSAGE_BY_ID else SimpleNamespace
            return shown(code=ResponseCode.SUCCESS, remark=None, body=self.answer.body)

    async def test() -> None:
        async with client_of(cluster.broker) as client:
            place = place_of(await sent(client, topic))
            found = asking(Shows(await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=place)))
        await asyncio.gather(*(found._message(BROKER, place) for _ in range(10 * LOOKS_MAX)), return_exceptions=True)
        assert 0 < Shown.most <= LOOKS_MAX

    asyncio.run(test())


def test_an_entry_that_the_queue_does_not_have_yet_is_asked_for_again(cluster: LocalRocketMQ) -> None:
    """RocketMQ answers a send before its queue has the entry, and a commit may follow at once."""
    topic = cluster.make_topic("EnteredLater")

    class EntersLater:
        def __init__(self, client: Client) -> None:
            self.client = client
            self.asked = 0

        async def call(self, broker: str, code: int, header: Any) -> Any:
            if code == RequestCode.QUERY_CONSUME_QUEUE:
                self.asked += 1
                if self.asked < 3:
                    return SimpleNamespace(code=ResponseCode.SYSTEM_ERROR, remark="Index is not exist!", body=b"")
            return await self.client.ask(code, **header.encode())

    async def test() -> None:
        async with client_of(cluster.broker) as client:
            place = place_of(await sent(client, topic))
            brokers = EntersLater(client)
            assert (await asking(brokers)._message(BROKER, place)).topic == topic
            assert brokers.asked == 3

    asyncio.run(test())
