"""Which of a transaction's places a decision goes to: with each question the broker has stored the message again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.proxy.clients import Clients
from rocketpy.proxy.context import now_ms
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.proxy.transactions import Prepared, Transactions
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError

TOPIC, ID = "Payments", "T1"
SENT, ASKED, ASKED_AGAIN = (Prepared("b", offset, 1000 * offset) for offset in range(3))
SUCCESS = decode_command(encode_command(0, {}, opaque=1))


class Broker:
    """The cluster: what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Prepared, int]] = []
        self.before_answering: Callable[[], None] = lambda: None

    async def call(self, broker: str, code: int, header: Any) -> Command:
        assert code == RequestCode.END_TRANSACTION
        self.told.append((Prepared(broker, header.tran_state_table_offset, header.commit_log_offset), header.commit_or_rollback))
        self.before_answering()
        return SUCCESS

    async def call_oneway(self, broker: str, code: int, header: Any) -> None:
        await self.call(broker, code, header)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def transactions(broker: Broker) -> Transactions:
    settings = ProxySettings(namesrv_addr="127.0.0.1:9876")
    return Transactions(settings, Clients(now_ms, 120_000), "proxy", lambda: broker)  # type: ignore[arg-type, return-value]


def test_a_transaction_is_not_forgotten_for_a_clock_that_is_set(
    transactions: Transactions, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions.add(TOPIC, ID, Prepared("b", 1, 2))
    later_ns = time.time_ns() + 3_600_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    transactions.expire()
    end(transactions, "COMMIT")


def end(transactions: Transactions, resolution: str) -> None:
    asyncio.run(transactions.end(TOPIC, ID, "M1", resolution, is_check=True))


def test_what_a_producer_says_when_it_is_asked_goes_to_the_message_that_the_broker_asked_about(
    transactions: Transactions, broker: Broker
) -> None:
    for place in (SENT, ASKED, ASKED_AGAIN):
        transactions.add(TOPIC, ID, place)
    end(transactions, "COMMIT")
    assert broker.told == [(ASKED_AGAIN, 8)]


def test_a_second_decision_delivers_nothing_again(transactions: Transactions, broker: Broker) -> None:
    for place in (SENT, ASKED):
        transactions.add(TOPIC, ID, place)
    end(transactions, "COMMIT")
    with pytest.raises(ProxyError) as raised:
        end(transactions, "COMMIT")
    assert raised.value.code == "INVALID_TRANSACTION_ID" and len(broker.told) == 1


def test_a_producer_that_does_not_know_yet_may_decide_later(transactions: Transactions, broker: Broker) -> None:
    for place in (SENT, ASKED):
        transactions.add(TOPIC, ID, place)
    for resolution in ("TRANSACTION_RESOLUTION_UNSPECIFIED", "ROLLBACK"):
        end(transactions, resolution)
    assert broker.told == [(ASKED, 0), (ASKED, 12)]


def test_a_decision_that_the_broker_did_not_take_may_be_said_again(transactions: Transactions, broker: Broker) -> None:
    def refuses() -> None:
        broker.before_answering = lambda: None
        raise CommandError(ResponseCode.SYSTEM_BUSY, "full")

    transactions.add(TOPIC, ID, SENT)
    broker.before_answering = refuses
    with pytest.raises(CommandError):
        end(transactions, "COMMIT")
    end(transactions, "COMMIT")
    assert broker.told == [(SENT, 8)] * 2


def test_a_decision_that_the_broker_may_have_taken_is_not_said_again_before_it_asks(transactions: Transactions, broker: Broker) -> None:
    def goes() -> None:
        broker.before_answering = lambda: None
        raise NetworkError("the broker is gone")

    transactions.add(TOPIC, ID, SENT)
    broker.before_answering = goes
    with pytest.raises(NetworkError):
        end(transactions, "COMMIT")
    with pytest.raises(ProxyError, match="cannot found transaction data"):
        end(transactions, "COMMIT")
    transactions.add(TOPIC, ID, ASKED)
    end(transactions, "COMMIT")
    assert broker.told == [(SENT, 8), (ASKED, 8)]


def test_a_decision_that_was_not_taken_goes_to_the_place_that_has_come_meanwhile(transactions: Transactions, broker: Broker) -> None:
    def asks_and_goes() -> None:
        broker.before_answering = lambda: None
        transactions.add(TOPIC, ID, ASKED)
        raise NetworkError("the broker is gone")

    transactions.add(TOPIC, ID, SENT)
    broker.before_answering = asks_and_goes
    with pytest.raises(NetworkError):
        end(transactions, "COMMIT")
    end(transactions, "COMMIT")
    assert broker.told == [(SENT, 8), (ASKED, 8)]
