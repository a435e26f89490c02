"""A store directory that cannot be: the key, the cause and the remedy are named."""

from __future__ import annotations

import errno
import os
import struct
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from rocketpy._core.errors import StoreIOError
from rocketpy.broker.service import BrokerService
from rocketpy.broker.store_directory import check_kind_of_store, check_place_of_log, make_log_directory, make_store_directory
from rocketpy.remoting.codes import RequestCode
from rocketpy.store.directory import has_entries
from tests.unit.broker import running as broker
from tests.unit.cli.processes import run

ENTRY = struct.pack(">qiq", 0, 100, 0)
RECORD = struct.pack(">ii", 100, -626843481)


def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    make_store_directory("storePathRootDir", tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("below", ["", "store"])
def test_a_file_in_its_place_is_named_with_the_key(below: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(StoreIOError, match=rf"storePathRootDir={file / below}: {file} is not a directory; name another place"):
        make_store_directory("storePathRootDir", file / below)


def test_a_directory_of_somebody_else_is_named_with_the_key(foreign_directory: Path) -> None:
    is_ours = foreign_directory.stat().st_uid == os.getuid()  # where the tests do not run as root
    command = r"chmod u\+rwx" if is_ours else r"sudo chown \$USER"
    with pytest.raises(StoreIOError, match=rf"storePathCommitLog={foreign_directory} .*{command} {foreign_directory}$"):
        make_store_directory("storePathCommitLog", foreign_directory)


@pytest.mark.usefixtures("foreign_directory")
def test_a_directory_of_ours_that_is_closed_to_us_is_to_be_opened() -> None:
    with tempfile.TemporaryDirectory(prefix="rocketpy-closed-") as ours:
        Path(ours).chmod(0o000)
        with pytest.raises(StoreIOError, match=rf"storePathRootDir={ours} .*, or: chmod u\+rwx {ours}$"):
            make_store_directory("storePathRootDir", Path(ours))


def test_a_directory_below_somebody_elses_is_made_by_the_remedy_not_taken_away(foreign_directory: Path) -> None:
    log = foreign_directory / "log"
    with pytest.raises(StoreIOError, match=rf"storePathCommitLog={log} cannot be made: .*sudo install -d -o \$USER {log}$"):
        make_store_directory("storePathCommitLog", log)


def test_a_directory_that_is_closed_to_this_user_is_named_with_the_key(foreign_directory: Path) -> None:
    closed = foreign_directory / "closed"
    if foreign_directory.stat().st_uid == os.getuid():
        foreign_directory.chmod(0o000)
        closed = foreign_directory
    else:
        os.seteuid(0)
        closed.mkdir(mode=0o700)
        os.seteuid(65534)
    with pytest.raises(StoreIOError, match=rf"storePathRootDir={closed}/store cannot be made: .*, {closed} is closed to this user$"):
        make_store_directory("storePathRootDir", closed / "store")


def test_a_directory_the_kernel_does_not_make_is_named_with_the_key() -> None:
    with pytest.raises(StoreIOError, match=r"storePathRootDir=/proc/store cannot be made: .*name another place"):
        make_store_directory("storePathRootDir", Path("/proc/store"))


@pytest.mark.parametrize("name", ["config/topics/CURRENT", "consumequeue/CURRENT"])
def test_a_store_that_rocketmq_keeps_in_rocksdb_is_refused_and_left_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("MANIFEST-000005")
    done = run("broker", "-o", f"storePathRootDir={tmp_path}", "-o", "listenPort=0", "-o", "bindAddress=127.0.0.1")
    assert done.returncode == 1 and "is RocksDB's (storeType=defaultRocksDB)" in done.stderr, done.stderr
    assert not (tmp_path / "commitlog").exists()
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "topics.json").write_text("{}")
    check_kind_of_store(tmp_path)


def test_a_log_where_rocketmq_before_4_9_4_kept_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There storePathRootDir alone did not move it. A start without it would cut every queue to nothing."""
    root, old_log = tmp_path / "data", tmp_path / "home" / "store" / "commitlog"
    entries = root / "consumequeue" / "t" / "0" / f"{0:020d}"
    entries.parent.mkdir(parents=True)
    entries.write_bytes(ENTRY)
    old_log.mkdir(parents=True)
    (old_log / f"{0:020d}").write_bytes(RECORD)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    done = run("broker", "-o", f"storePathRootDir={root}", "-o", "listenPort=0", "-o", "bindAddress=127.0.0.1")
    assert done.returncode == 1 and f"set storePathCommitLog={old_log}" in done.stderr, done.stderr
    assert entries.read_bytes() == ENTRY and not (root / "commitlog").exists()
    (root / "commitlog").mkdir()
    (root / "commitlog" / f"{0:020d}").touch()
    with pytest.raises(StoreIOError, match=f"set storePathCommitLog={old_log}"):
        check_place_of_log(root)
    (root / "commitlog" / f"{0:020d}").write_bytes(RECORD)
    check_place_of_log(root)


def test_a_log_whose_disk_is_not_mounted_is_not_begun_anew(tmp_path: Path) -> None:
    """Every queue was cut to nothing, and what came was stored on the wrong disk, at offsets that had been read."""
    root, log = tmp_path / "data", tmp_path / "mount" / "commitlog"
    entries = root / "consumequeue" / "t" / "0" / f"{0:020d}"
    entries.parent.mkdir(parents=True)
    entries.write_bytes(ENTRY)
    done = run(
        "broker",
        *("-o", f"storePathRootDir={root}", "-o", f"storePathCommitLog={log}", "-o", "listenPort=0", "-o", "bindAddress=127.0.0.1"),
    )
    assert done.returncode == 1 and f"storePathCommitLog={log} holds no messages" in done.stderr and "mount its disk" in done.stderr
    assert entries.read_bytes() == ENTRY and not log.exists()
    (root / "consumequeue").rename(root / "batchconsumequeue")
    log.parent.mkdir()
    log.write_text("in the way")
    with pytest.raises(StoreIOError, match=f"{log} is not a directory"):  # it is not called empty
        make_log_directory(root, "storePathCommitLog", log, may_be_cut=False)
    log.unlink()
    with pytest.raises(StoreIOError, match=r"holds no messages for the queues in .*batchconsumequeue"):
        make_log_directory(root, "storePathCommitLog", log, may_be_cut=False)
    make_log_directory(root, "storePathCommitLog", log, may_be_cut=True)
    (log / f"{0:020d}").write_bytes(RECORD)
    make_log_directory(root, "storePathCommitLog", log, may_be_cut=False)


def test_nor_is_one_that_is_gone_from_its_store(tmp_path: Path) -> None:
    """A directory of the store is a mount of its own, or was removed; new messages took the offsets of those that had been read."""
    entries = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    entries.parent.mkdir(parents=True)
    entries.write_bytes(ENTRY)
    done = run("broker", "-o", f"storePathRootDir={tmp_path}", "-o", "listenPort=0", "-o", "bindAddress=127.0.0.1")
    refusal = f"storePathRootDir={tmp_path}: commitlog holds no messages for the queues in {entries.parents[2]}: mount its disk"
    assert done.returncode == 1 and refusal in done.stderr, done.stderr
    assert entries.read_bytes() == ENTRY and not (tmp_path / "commitlog").exists()
    (tmp_path / "consumequeue").rename(tmp_path / "away")
    make_log_directory(tmp_path, "storePathCommitLog", tmp_path / "commitlog", may_be_cut=False)


def put(path: Path, at: int = 0, data: bytes = b"", size: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize(
    ("log", "is_gone"),
    [
        ({}, True),
        ({f"{0:020d}": b""}, True),
        ({f"{0:020d}": bytes(8)}, True),
        ({f"{0:020d}": bytes(8), f"{8:020d}": bytes(8)}, True),  # the second was made ahead, too
        ({"notes.txt": RECORD, "9" * 20: RECORD}, True),
        ({f"{0:020d}": RECORD}, False),
        ({f"{0:020d}": b"", f"{8:020d}": RECORD}, False),  # damage of another kind
        ({f"{8:020d}": bytes(8)}, False),  # retention left what was made ahead
    ],
)
def test_a_log_without_a_record_is_gone(log: dict[str, bytes], is_gone: bool, tmp_path: Path) -> None:
    put(tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}", data=ENTRY)
    for name, data in log.items():
        put(tmp_path / "commitlog" / name, data=data)
    with pytest.raises(StoreIOError, match="commitlog holds no messages") if is_gone else nullcontext():
        make_log_directory(tmp_path, "storePathCommitLog", tmp_path / "commitlog", may_be_cut=False)


GONE = struct.pack(">qiq", 0, 2**31 - 1, 0)
BATCH_ENTRY = struct.pack(">qiqqqhii", 0, 100, 0, 0, 0, 1, -1, 0)


@pytest.mark.parametrize(
    ("queue", "at", "data", "has_some"),
    [
        ("consumequeue/t/0", 0, b"", False),
        ("consumequeue/t/0", 0, bytes(6000), False),  # made ahead
        ("consumequeue/t/0", 0, GONE * 3000, False),
        ("consumequeue/t/0", 0, GONE * 3000 + ENTRY, True),
        ("consumequeue/t/0", 0, bytes(60_000) + ENTRY, True),
        ("consumequeue/t/0", 299_999 * 20, ENTRY, True),  # behind a hole
        ("consumequeue/t/0/notes", 0, ENTRY, False),
        ("consumequeue/t/copy", 0, ENTRY, False),
        ("batchconsumequeue/t/7", 299_999 * 46, BATCH_ENTRY, True),
        ("batchconsumequeue/t/7", 0, GONE.ljust(46, b"\0") * 3000, False),
    ],
)
def test_a_queue_that_lost_its_log_has_an_entry_of_a_message(queue: str, at: int, data: bytes, has_some: bool, tmp_path: Path) -> None:
    """Wherever it is; what was made ahead, and entries that stand for messages of before the queue, are none."""
    put(tmp_path / queue / f"{0:020d}", at, data, size=300_000 * (46 if queue.startswith("batch") else 20))
    put(tmp_path / queue / "copy", data=ENTRY)
    with pytest.raises(StoreIOError, match="commitlog holds no messages") if has_some else nullcontext():
        make_log_directory(tmp_path, "storePathCommitLog", tmp_path / "commitlog", may_be_cut=False)


@pytest.mark.parametrize("messages", [(), (5_000,), (299_999,)])
def test_entries_are_found_between_holes_and_those_of_nothing(messages: tuple[int, ...], tmp_path: Path) -> None:
    file = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    put(file, data=GONE * 10, size=6_000_000)
    with file.open("r+b") as entries:
        for place, entry in ((4_990, GONE * 10), (200_000, bytes(20)), *((place, ENTRY) for place in messages)):
            entries.seek(place * 20)
            entries.write(entry)
    assert has_entries(tmp_path / "consumequeue") == bool(messages)


def test_a_file_system_that_knows_no_holes_has_data_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*of: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    directory = tmp_path / "consumequeue" / "t" / "0"
    directory.mkdir(parents=True)
    queue = directory / f"{0:020d}"
    queue.write_bytes(bytes(6_000_000))
    monkeypatch.setattr(os, "lseek", refuse)
    assert not has_entries(tmp_path / "consumequeue")
    queue.write_bytes(bytes(5_999_980) + (0).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8))
    assert has_entries(tmp_path / "consumequeue")


def test_a_queue_that_cannot_be_looked_into_is_named_with_the_key(foreign_directory: Path) -> None:
    assert foreign_directory.exists()
    with tempfile.TemporaryDirectory(prefix="rocketpy-closed-") as ours:
        root = Path(ours)
        closed = root / "consumequeue" / "t" / "0" / f"{0:020d}"
        put(closed, data=ENTRY)
        closed.chmod(0o000)
        with pytest.raises(StoreIOError, match=rf"^storePathRootDir={root}: {closed} cannot be read: .*; let this user read it"):
            make_log_directory(root, "storePathCommitLog", root / "commitlog", may_be_cut=False)


@pytest.mark.parametrize(
    ("os_errno", "remedy"),
    [
        (errno.EMFILE, "raise the limit of open files"),
        (errno.ENFILE, "raise the limit"),
        (errno.EIO, "check the disk"),
        (errno.EACCES, "let this"),
    ],
)
def test_who_has_no_descriptor_left_is_not_told_to_move_the_queues_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, os_errno: int, remedy: str
) -> None:
    def fail(path: Path) -> bool:
        raise OSError(os_errno, os.strerror(os_errno), str(path))

    monkeypatch.setattr("rocketpy.broker.store_directory.has_messages", fail)
    with pytest.raises(StoreIOError) as caught:
        make_log_directory(tmp_path, "storePathCommitLog", tmp_path / "commitlog", may_be_cut=False)
    assert f"{tmp_path / 'commitlog'} cannot be read: {os.strerror(os_errno)}; {remedy}" in str(caught.value)
    assert ("move it away" in str(caught.value)) == (os_errno == errno.EACCES)


def test_the_start_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    done = run("broker", "-o", f"storePathRootDir={file}", "-o", "listenPort=0", "-o", "bindAddress=127.0.0.1")
    assert done.returncode == 1
    assert f"rocketpy broker: storePathRootDir={file}: {file} is not a directory" in done.stderr


def test_tables_that_could_not_be_saved_refuse_the_start(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("in the way")  # of anybody's rights: root may write everywhere
    done = run("broker", "-o", f"storePathRootDir={tmp_path}", "-o", "listenPort=0", "-o", "bindAddress=127.0.0.1")
    assert done.returncode == 1
    assert f"storePathRootDir={tmp_path / 'config'}: {tmp_path / 'config'} is not a directory" in done.stderr


def test_a_table_that_cannot_be_read_refuses_the_start_and_no_other_is_written(tmp_path: Path) -> None:
    """Consumers would be told to begin again; and what a failed start has not read it must not save."""

    async def test() -> None:
        async with broker.running(tmp_path) as at:
            assert (await at.peer().send("t")).code == 0 == (await at.peer().pull("g", "t")).code
            commit = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 1}
            assert (await at.peer().ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        config = tmp_path / "store" / "config"
        topics, aside = config / "topics.json", tmp_path / "aside"
        topics.rename(aside)
        topics.mkdir()
        before = (config / "consumerOffset.json").read_bytes()
        with pytest.raises(StoreIOError, match=r"the state cannot be read: Is a directory; .*topics.json"):
            await BrokerService(broker.broker_config(tmp_path)).start()
        assert b'"t@g"' in before and (config / "consumerOffset.json").read_bytes() == before
        topics.rmdir()
        aside.rename(topics)
        async with broker.running(tmp_path) as at:
            assert (await at.peer().pull("g", "t")).code == 0

    broker.run(test)
