"""`rocketpy store …` of a store with compacted topics, as an operator types it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from rocketpy._core.broker import Broker
from rocketpy._core.options import MessageStoreOptions
from rocketpy._core.store import Message, MessageStore
from rocketpy.store.compaction import kept_messages
from tests.processes import wait_until
from tests.unit.cli.test_store import OPTIONS, SHAPE, flip, rocketpy

COMPACTED: MessageStoreOptions = {**OPTIONS, "compaction_file_size": 8192, "compaction_queue_file_size": 21 * 46}
MESSAGES = 50
RECORDS, ENTRIES = "compaction/compactionLog/C/0", "compaction/compactionCq/C/0"


def copied(root: Path, *, appends: int = 0) -> None:
    """Opens the store as its broker does, until all of C is copied."""
    with MessageStore(root, **COMPACTED) as store, Broker(store) as broker:
        broker.put_topic("C", 1, 1, 6, compacted=True)
        for number in range(appends):
            store.append("C", 0, b"body %d" % number, f"KEYS\x01k{number}\x02")
        wait_until(lambda: store.compaction_stats()["behind"] == 0, what="all is copied")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copied(tmp_path / "store", appends=MESSAGES)
    return tmp_path / "store"


def damaged(root: Path) -> list[tuple[str, str, int]]:
    done = rocketpy("verify", root, *SHAPE, "--json")
    found = json.loads(done.stdout)["damages"]
    assert done.returncode == (3 if found else 0), done
    return [(damage["kind"], str(Path(damage["file"]).relative_to(root)), damage["offset"]) for damage in found]


def segments(root: Path) -> list[str]:
    return sorted(path.name for path in (root / RECORDS).iterdir() if path.is_file())


def test_what_is_kept_is_shown_and_checked(root: Path) -> None:
    assert len(segments(root)) == 3
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 0 and f"compacted topics: {MESSAGES} messages are kept of 1 queues" in done.stdout
    (queue,) = json.loads(rocketpy("info", root, "--json").stdout)["compacted_queues"]
    assert (queue["topic"], queue["min_offset"], queue["max_offset"], queue["messages"], queue["file_count"]) == ("C", 0, 50, 50, 3)
    assert "compacted topic" in rocketpy("info", root).stdout
    shown = rocketpy("dump", root, "--compacted", "--count", "100", "--json")
    bodies = [base64.b64decode(json.loads(line)["body"]) for line in shown.stdout.splitlines()]
    assert bodies == [b"body %d" % number for number in range(MESSAGES)]
    assert len(rocketpy("export", root, "-", "--compacted", "--topic", "C").stdout.splitlines()) == MESSAGES
    assert rocketpy("export", root, "-", "--compacted", "--topic", "T").stdout == ""


def test_who_exports_the_log_is_told_that_there_is_more(root: Path) -> None:
    assert "--compacted shows those" in " ".join(rocketpy("export", root, "-").stderr.split())
    assert "--compacted" not in rocketpy("export", root, "-", "--topic", "T").stderr
    assert rocketpy("dump", root, "--compacted", "--from", "5").returncode == 2


def test_who_exports_the_log_does_not_wait_until_all_entries_of_copies_are_read(root: Path) -> None:
    for name in segments(root):
        (root / ENTRIES / name).unlink()
        (root / ENTRIES / name).mkdir()  # who reads it fails
    done = rocketpy("export", root, "/dev/null")
    assert done.returncode == 0 and "--compacted shows those" in " ".join(done.stderr.split()), done


def test_a_file_that_a_compaction_replaces_meanwhile_is_passed_over(root: Path) -> None:
    kept = kept_messages(root)
    first = next(kept)
    (root / RECORDS / segments(root)[1]).unlink()
    found = [first, *kept]
    assert 1 < len(found) < MESSAGES and all(isinstance(each, Message) for each in found)


def test_a_queue_whose_files_are_being_moved_is_said_to_be(root: Path) -> None:
    (root / RECORDS / "compacting").mkdir(exist_ok=True)
    (root / RECORDS / "compacting" / "replace").touch()
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 0 and "1 compacted queues were not looked into" in " ".join(done.stdout.split())
    assert "files are being moved" in " ".join(rocketpy("info", root).stdout.split())


def test_a_copy_is_made_again_while_the_log_has_all_of_it(root: Path) -> None:
    entries = root / ENTRIES / segments(root)[0]
    flip(entries, 3 * 46 + 35)
    flip(root / RECORDS / segments(root)[1], 90)
    assert [(kind, name.rpartition("/")[0]) for kind, name, _ in damaged(root)] == [("compaction", ENTRIES), ("compaction", RECORDS)]
    assert rocketpy("export", root, "/dev/null", "--compacted").returncode == 3
    told = " ".join(rocketpy("repair", root, *SHAPE).stdout.split())
    assert "would set aside" in told and "--yes does it" in told and entries.exists()
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 0 and "is copied from the commit log again" in " ".join(done.stdout.split()), done
    assert not (root / RECORDS).exists() and (root / "compaction" / "damaged-C-0").is_dir()
    assert damaged(root) == []
    copied(root)
    assert damaged(root) == [] and len(rocketpy("export", root, "-", "--compacted").stdout.splitlines()) == MESSAGES


@pytest.mark.parametrize("lost", ["first messages", "a record"])
def test_a_copy_that_the_log_cannot_make_again_stays(root: Path, lost: str) -> None:
    first = root / "commitlog" / f"{0:020d}"
    if lost == "first messages":
        with MessageStore(root, **OPTIONS) as store:
            for _ in range(2):
                store.append("T", 0, bytes(40_000), "")
        first.unlink()  # as retention does, which leaves the queue's file
    else:
        flip(first, 90)
    records = root / RECORDS / segments(root)[1]
    flip(records, 90)
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 3 and "so its copy stays: what is damaged is lost" in " ".join(done.stdout.split()), done
    assert records.exists()
    assert [name for kind, name, _ in damaged(root) if kind == "compaction"] == [f"{RECORDS}/{records.name}"]
    assert rocketpy("export", root, "/dev/null", "--compacted").returncode == 3


def test_a_copy_stays_while_the_queue_that_says_where_it_begins_is_damaged(root: Path) -> None:
    """The flipped entry says that the log still has the queue's first message."""
    with MessageStore(root, **OPTIONS) as store:
        for _ in range(2):
            store.append("T", 0, bytes(40_000), "")
    (root / "commitlog" / f"{0:020d}").unlink()
    queue = root / "consumequeue" / "C" / "0" / f"{0:020d}"
    entries = bytearray(queue.read_bytes())
    entries[4] ^= 0x10
    queue.write_bytes(entries)
    records = root / RECORDS / segments(root)[1]
    flip(records, 90)
    assert {kind for kind, _, _ in damaged(root)} == {"compaction", "consumequeue"}
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 3 and "so its copy stays" in " ".join(done.stdout.split()), done
    assert records.exists()
    copied(root)
    assert len(rocketpy("export", root, "-", "--compacted").stdout.splitlines()) == MESSAGES


def test_a_damaged_file_of_positions_is_set_aside(root: Path) -> None:
    positions = root / "compaction" / "position-checkpoint"
    positions.write_text('{"queue')
    assert damaged(root) == [("compaction", "compaction/position-checkpoint", -1)]
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 0 and not positions.exists() and "copied from the commit log again" not in " ".join(done.stdout.split()), done
