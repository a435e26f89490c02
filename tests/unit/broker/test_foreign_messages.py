"""What other brokers gave out is asked for there: with a native side and brokers that the test plays."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy._core.results import ForeignMessage
from rocketpy.broker import foreign_messages
from rocketpy.broker.foreign_messages import AT_ONCE, GONE, LATER, WANTED_MAX, ForeignMessages
from rocketpy.broker.parts import Parts
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import write_json


class Native:
    """In turn, as of rp_broker_take_foreign: what is to be asked for again comes behind all others."""

    def __init__(self, *wanted: ForeignMessage) -> None:
        self.wanted, self.taken = list(wanted), dict[int, ForeignMessage]()
        self.told = dict[int, int]()

    def take_foreign(self) -> ForeignMessage | None:
        if not self.wanted:
            return None
        message = self.wanted.pop(0)
        self.taken[message.id] = message
        return message

    def put_foreign(self, id: int, status: int, record: bytes) -> None:
        message = self.taken.pop(id)
        self.told[id] = status
        if status == LATER:
            self.wanted.append(message)


class Brokers:
    """Two of them: `away` does not answer, `here` answers as it is told."""

    def __init__(self, code: int, **fields: str) -> None:
        self.code, self.fields, self.asked = code, fields, list[str]()

    async def invoke(self, address: str, code: int, *_: object, **__: object) -> Any:
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            brokers = [{"cluster": "c", "brokerName": name, "brokerAddrs": {"0": name}} for name in ("away", "here")]
            return SimpleNamespace(code=0, body=write_json({"queueDatas": [], "brokerDatas": brokers, "filterServerTable": {}}))
        self.asked.append(address)
        if address == "away":
            raise NetworkError("no answer")
        return SimpleNamespace(code=self.code, fields=self.fields, body=b"")


def fetch(brokers: Brokers, *wanted: ForeignMessage) -> Native:
    native = Native(*wanted)
    registration = SimpleNamespace(name_servers=["names"])
    parts = SimpleNamespace(native=native, client=brokers, registration=registration, settings=SimpleNamespace(cluster_name="c"))
    asyncio.run(ForeignMessages(cast(Parts, cast(Any, parts))).fetch())
    assert not native.taken
    return native


def test_one_that_does_not_answer_stops_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is asked for once, and those of the former no more than come together."""
    monkeypatch.setattr(foreign_messages, "ROUTE_MS", 0)
    brokers = Brokers(ResponseCode.PULL_OFFSET_MOVED, minOffset="9")
    away = [ForeignMessage(number, "away", "t", 0, number) for number in range(2 * AT_ONCE)]
    here = [ForeignMessage(1000 + number, "here", "t", 0, 8) for number in range(AT_ONCE // 2)]
    native = fetch(brokers, *away, *here)
    assert [native.told[message.id] for message in here] == [GONE] * len(here)
    assert brokers.asked.count("away") <= AT_ONCE and brokers.asked.count("here") == len(here) < WANTED_MAX
    assert native.wanted and all(native.told[message.id] == LATER for message in away)


@pytest.mark.parametrize(
    ("code", "fields", "status"),
    [
        (ResponseCode.PULL_NOT_FOUND, {"minOffset": "8"}, GONE),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, {"minOffset": "8"}, GONE),
        (ResponseCode.PULL_OFFSET_MOVED, {"minOffset": "8"}, GONE),
        (ResponseCode.PULL_OFFSET_MOVED, {"minOffset": "7"}, LATER),
        (ResponseCode.PULL_NOT_FOUND, {"minOffset": "0", "maxOffset": "7"}, LATER),
        (ResponseCode.SYSTEM_BUSY, {"minOffset": "8"}, LATER),
        (ResponseCode.PULL_NOT_FOUND, {"minOffset": "x"}, LATER),
    ],
)
def test_what_lies_below_the_first_that_is_kept_is_gone(code: int, fields: dict[str, str], status: int) -> None:
    """What lies past the end may come: its broker may have just started, or be a slave that is behind."""
    assert fetch(Brokers(code, **fields), ForeignMessage(1, "here", "t", 0, 7)).told == {1: status}
