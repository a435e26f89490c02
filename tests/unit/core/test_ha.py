"""What a replication end or a broker borrows stays open as long as it does, and one that cannot be opened leaves nothing behind."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rocketpy._core.base import LogTap
from rocketpy._core.broker import Broker
from rocketpy._core.errors import Busy, Closed, InvalidArgument
from rocketpy._core.ha import HaMaster, HaSlave
from rocketpy._core.remoting import Server
from rocketpy._core.store import MessageStore
from tests.processes import PATIENCE_S, wait_until

MORE_THAN_A_BROKER_TAKES = 100


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with MessageStore(tmp_path / "store", commit_log_file_size=64 * 1024) as store:
        yield store


def master_of(store: MessageStore, broker: Broker | None = None, log: LogTap | None = None) -> HaMaster:
    return HaMaster(store, broker, log=log, commit_log_file_size=64 * 1024, bind_address="127.0.0.1")


def threads_named(name: str) -> int:
    return sum(path.read_text().strip() == name for path in Path("/proc/self/task").glob("*/comm"))


def wait_for_threads(name: str, count: int) -> None:
    """A thread names itself once it runs, and leaves /proc a little after it was joined: both are waited for."""
    wait_until(lambda: threads_named(name) == count, 10, f"{count} threads named {name}", not_yet=OSError)


def test_log_broker_and_store_refuse_to_close_before_what_borrows_them(store: MessageStore) -> None:
    with LogTap() as log, Broker(store) as broker:
        with master_of(store, broker, log):
            for lender in (log, broker, store):
                with pytest.raises(Busy, match=f"this {type(lender).__name__} is still used"):
                    lender.close()
        with HaSlave(store, log=log), pytest.raises(Busy, match="this LogTap is still used"):
            log.close()


def test_a_server_whose_reactors_flusher_and_slaves_still_wake_refuses_to_close(store: MessageStore) -> None:
    broker = Broker(store)
    server = Server(handler=broker, bind_address="127.0.0.1")
    server.start()
    server.stop(0)
    with pytest.raises(Busy, match="this Server is still used"):
        server.close()
    broker.close()
    server.close()


def test_what_is_closed_is_not_borrowed(store: MessageStore) -> None:
    broker = Broker(store)
    broker.close()
    with pytest.raises(Closed):
        master_of(store, broker)
    with master_of(store) as master, pytest.raises(InvalidArgument, match="opened once"):
        master.__init__(store)  # type: ignore[misc]
    with HaSlave(store) as slave, pytest.raises(InvalidArgument, match="opened once"):
        slave.__init__(store)  # type: ignore[misc]


def test_a_master_too_many_leaves_nothing_behind(store: MessageStore) -> None:
    opened: list[HaMaster] = []
    with LogTap() as log, Broker(store) as broker, ExitStack() as masters:
        with pytest.raises(Busy):
            for _ in range(MORE_THAN_A_BROKER_TAKES):
                opened.append(masters.enter_context(master_of(store, broker, log)))
        assert opened
        wait_for_threads("ha-master", len(opened))
    wait_for_threads("ha-master", 0)


def test_a_slave_tells_of_every_transfer_that_begins(store: MessageStore, tmp_path: Path) -> None:
    with MessageStore(tmp_path / "slave", commit_log_file_size=64 * 1024) as copy, master_of(store) as master, HaSlave(copy) as slave:
        poller = select.poll()
        poller.register(slave.transfer_fd, select.POLLIN)
        assert poller.poll(0) == []
        for address in (f"127.0.0.1:{master.port}", f"localhost:{master.port}"):
            slave.set_master(address)
            assert poller.poll(PATIENCE_S * 1000) == [(slave.transfer_fd, select.POLLIN)]
            assert slave.stats()["state"] == "TRANSFER"
            assert os.eventfd_read(slave.transfer_fd) == 1 and poller.poll(0) == []
    with pytest.raises(Closed):
        _ = slave.transfer_fd
