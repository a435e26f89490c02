"""`rocketpy store …` on the directory of a member of a DLedger group, and the wrapper of its log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketpy._core.dledger_log import DLedgerLog
from rocketpy._core.errors import InvalidArgument, OffsetOutOfRange, StoreReadOnly
from rocketpy._core.options import MessageStoreOptions
from rocketpy._core.store import MessageStore
from rocketpy.cli.store import store_app
from rocketpy.store.directory import StoreDirectory
from tests.processes import wait_until
from tests.unit.cli.test_store import SHAPE, flip

MESSAGES = 120


def options_of(root: Path) -> MessageStoreOptions:
    member = root / "dledger-n0"
    return {
        "commit_log_path": str(member / "data"),
        "ledger_index_path": str(member / "index"),
        "ledger_index_file_size": 3200,
        "commit_log_file_size": 64 * 1024,
        "index_slot_count": 101,
        "index_entry_count_max": 1001,
    }


@contextmanager
def alone(root: Path) -> Iterator[tuple[MessageStore, DLedgerLog]]:
    """A group of one member, which does not lead yet."""
    with MessageStore(root, **options_of(root)) as store:
        ledger = DLedgerLog(store, group="G", self_id="n0", peers="n0-127.0.0.1:1")
        try:
            yield store, ledger
        finally:
            ledger.close()


def wait_committed(ledger: DLedgerLog, index: int) -> None:
    wait_until(lambda: ledger.state()["committed_index"] >= index, what=f"entry {index} to be committed", every=0.001)


def told(*arguments: object) -> tuple[int, str]:
    """Exit status and output of `rocketpy store`."""
    done = CliRunner().invoke(store_app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with alone(tmp_path / "store") as (store, ledger):
        ledger.lead(1)
        for number in range(MESSAGES):
            store.append("T", number % 4, b"body %d" % number, f"KEYS\x01k{number}\x02")
        wait_committed(ledger, MESSAGES)
    return tmp_path / "store"


@pytest.mark.parametrize(("text", "committed"), [("7", 7), ("x", -1), ("9" * 5000, -1)], ids=["whole", "no-number", "too-large"])
def test_a_checkpoint_that_says_nonsense_says_nothing(tmp_path: Path, text: str, committed: int) -> None:
    data = tmp_path / "dledger-n0" / "data"
    data.mkdir(parents=True)
    (data / f"{0:020}").touch()
    (data.parent / "checkpoint").write_text(f"committedIndex={text}\n")
    assert StoreDirectory(tmp_path).committed_index() == committed


def test_a_member_alone_leads_commits_and_follows(tmp_path: Path) -> None:
    with alone(tmp_path / "store") as (store, ledger):
        with pytest.raises(StoreReadOnly):
            store.append("T", 0, b"nobody leads")
        ledger.lead(3)
        assert store.append("T", 0, b"first").commit_log_offset > 48
        wait_committed(ledger, 1)
        state = ledger.state()
        assert (state["term"], state["is_leader"], state["leader_id"], state["end_index"], state["end_term"]) == (3, 1, "n0", 1, 3)
        assert store.max_offset("T", 0) == 1
        assert store.stats()["commit_log_max_offset"] == state["committed_offset"] == state["end_offset"]
        store.wait_flushed(state["end_offset"], 60_000)
        assert ledger.followers() == [] and ledger.take_claim() is None
        with pytest.raises(InvalidArgument, match="n7"):
            ledger.follow(4, "n7")
        with pytest.raises(OffsetOutOfRange):
            ledger.follow(2, None)
        ledger.follow(4, None)
        with pytest.raises(StoreReadOnly):
            store.append("T", 0, b"it leads no more")


def test_a_whole_log_of_entries_is_told_to_be_whole(root: Path) -> None:
    status, shown = told("verify", root, *SHAPE)
    assert status == 0 and f"{MESSAGES + 1} messages" in shown and "whole" in shown  # with the leader's first entry
    info = json.loads(told("info", root, "--json")[1])
    assert info["queues"][0]["max_offset"] == MESSAGES / 4 and info["log_files"]


def test_damage_in_an_entry_is_named(root: Path) -> None:
    log_file = StoreDirectory(root).log_files()[0]
    flip(log_file, log_file.read_bytes().index(b"body 7"))
    assert told("verify", root, *SHAPE)[0] == 3


def test_entries_are_dumped_and_exported(root: Path, tmp_path: Path) -> None:
    shown = told("dump", root, "--count", "3", "--topic", "T", "--json")[1].splitlines()
    assert [json.loads(line)["queue_id"] for line in shown] == [0, 1, 2]
    assert told("export", root, tmp_path / "lines", "--topic", "T")[0] == 0
    assert len((tmp_path / "lines").read_text().splitlines()) == MESSAGES


def test_queues_of_a_log_of_entries_are_built_again(root: Path) -> None:
    flip(StoreDirectory(root).queue_files("T", 1)[0], 5)
    assert told("verify", root, *SHAPE)[0] == 3
    assert told("repair", root, *SHAPE, "--yes")[0] == 0
    with alone(root) as (store, _):
        assert [store.max_offset("T", queue) for queue in range(4)] == [MESSAGES / 4] * 4
