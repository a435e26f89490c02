"""A burst of warnings writes one line, and the next one how many there were."""

from __future__ import annotations

import logging

import pytest

from rocketpy._core.remoting import decode_command, encode_command
from rocketpy.proxy import schema
from rocketpy.proxy.clients import Clients
from rocketpy.proxy.context import now_ms
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.told import TOLD_BYTES_MAX
from rocketpy.proxy.transactions import Transactions
from rocketpy.remoting.codes import RequestCode
from rocketpy.repeated_warning import SAID_EVERY_S, RepeatedWarning

log = logging.getLogger("rocketpy.proxy.test")


def test_what_is_said_often_is_said_once_with_the_number_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    repeated = RepeatedWarning(log, lambda: now_s)
    for number in range(5000):
        repeated.warning("question %d is dropped", number)
    now_s += SAID_EVERY_S
    for number in range(2):
        repeated.warning("question %d is dropped", number)
    now_s += 10 * SAID_EVERY_S
    repeated.warning("question %d is dropped", 7)
    assert [record.getMessage() for record in caplog.records] == [
        "question 0 is dropped",
        "question 0 is dropped; and 4999 more since this was said last",
        "question 7 is dropped; and 1 more since this was said last",
    ]


def test_questions_that_clients_do_not_read_are_dropped_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    clients = Clients(now_ms, 120_000)
    settings = schema.message("Settings")(publishing={"topics": [{"name": "t"}]})
    told = [clients.put(name, settings, clients.new_stream()) for name in ("c1", "c2")]
    large = schema.message("TelemetryCommand")()
    large.recover_orphaned_transaction_command.message.body = bytes(TOLD_BYTES_MAX)
    assert all(client.tell(large) for client in told)
    assert not any(client.tell(large) for client in told for _ in range(50))
    assert [record.getMessage() for record in caplog.records] == [
        "client c1, or others, do not read their telemetry: a command to it was dropped"
    ]


def test_questions_that_cannot_be_read_are_told_of_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    transactions = Transactions(ProxySettings(namesrv_addr="127.0.0.1:9876"), Clients(now_ms, 120_000), "proxy", lambda: None)  # type: ignore[arg-type, return-value]
    for opaque in range(50):
        transactions.check("127.0.0.1:1", decode_command(encode_command(RequestCode.CHECK_TRANSACTION_STATE, {}, b"none", opaque=opaque)))
    (record,) = caplog.records
    assert "asked about a transaction in a way that cannot be read" in record.getMessage()
