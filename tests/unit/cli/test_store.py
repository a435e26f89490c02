"""`rocketpy store …` as an operator types it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy._core.errors import NotFound, StoreLocked
from rocketpy._core.options import MessageStoreOptions
from rocketpy._core.store import MessageStore
from rocketpy.cli.store import repair
from rocketpy.store.directory import StoreDirectory
from tests.unit.cli.processes import run_here

OPTIONS: MessageStoreOptions = {"commit_log_file_size": 64 * 1024, "index_slot_count": 101, "index_entry_count_max": 1001}
SHAPE = ("--slot-count", "101", "--entry-count", "1001")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with MessageStore(tmp_path / "store", **OPTIONS) as store:
        for number in range(200):
            store.append("T", number % 4, b"body %d" % number, f"KEYS\x01k{number}\x02")
    return tmp_path / "store"


def rocketpy(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_here("store", *map(str, arguments))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_a_whole_store_is_said_to_be_whole(root: Path) -> None:
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 0 and "200 messages" in done.stdout and "whole" in done.stdout
    assert json.loads(rocketpy("info", root, "--json").stdout)["queues"][0]["max_offset"] == 50


def test_info_says_how_far_timed_messages_are(root: Path) -> None:
    assert "timed messages" not in rocketpy("info", root).stdout
    (root / "timerlog").mkdir()
    (root / "timerlog" / f"{0:020d}").touch()
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "timercheck").write_bytes(struct.pack(">4q", 1700000000000, 5240, 100, 101) + bytes(4064))
    shown = " ".join(rocketpy("info", root).stdout.split())
    assert "timed messages: 1 timer log files of 0 bytes, timing wheel of 0 bytes;" in shown
    assert "lastReadTimeMs=1700000000000, lastTimerLogFlushPos=5240" in shown
    assert json.loads(rocketpy("info", root, "--json").stdout)["timer_checkpoint"]["masterTimerQueueOffset"] == 101


def test_damage_of_timed_messages_is_named_and_stays(root: Path) -> None:
    (root / "timerwheel").write_bytes(b"short")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "timermetrics").write_text('{"timingCount": {"T": {"count": "many"}}}')
    done = rocketpy("verify", root, *SHAPE, "--json")
    found = [(damage["kind"], Path(damage["file"]).name, damage["size"]) for damage in json.loads(done.stdout)["damages"]]
    assert done.returncode == 3 and found == [("timer", "timerwheel", 5), ("timer", "timermetrics", 0)], done
    repaired = rocketpy("repair", root, *SHAPE, "--yes")
    assert repaired.returncode == 3 and "damage of timed messages stays" in repaired.stdout and (root / "timerwheel").stat().st_size == 5
    (root / "config" / "timermetrics").write_text("{")
    assert "the counts of timed messages cannot be read" in " ".join(rocketpy("verify", root, *SHAPE).stdout.split())


def test_damage_is_named_and_is_exit_status_3(root: Path) -> None:
    flip(root / "commitlog" / f"{0:020d}", 90)
    done = rocketpy("verify", root, *SHAPE, "--json")
    assert done.returncode == 3
    assert any("CRC" in damage["cause"] and damage["kind"] == "commitlog" for damage in json.loads(done.stdout)["damages"])


@pytest.mark.parametrize("kind", [0x4, 0xC], ids=["prepared", "rolled back"])
def test_a_message_whose_sys_flag_says_that_no_queue_holds_it_is_named(root: Path, kind: int) -> None:
    """No CRC covers the flag: a rebuild leaves such a message out, and only its entry tells that a queue held it."""
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[39] |= kind
    log.write_bytes(data)
    done = rocketpy("verify", root, *SHAPE, "--json")
    assert done.returncode == 3
    assert [damage["cause"] for damage in json.loads(done.stdout)["damages"] if "sys flag" in damage["cause"]]


def test_a_file_beside_a_queues_whose_name_is_no_offset_hides_no_damage(root: Path) -> None:
    queue = root / "consumequeue" / "T" / "0"
    (queue / ("9" * 20)).write_bytes(bytes(20))
    with (queue / f"{0:020d}").open("r+b") as file:
        file.seek(50 * 20)
        file.write(struct.pack(">qiq", 0, 100, 0))  # an entry more than there are messages
    done = rocketpy("verify", root, *SHAPE, "--json")
    assert done.returncode == 3
    assert [(damage["kind"], damage["offset"]) for damage in json.loads(done.stdout)["damages"]] == [("consumequeue", 50 * 20)]
    (root / "commitlog" / ("9" * 20)).touch()
    assert json.loads(rocketpy("info", root, "--json").stdout)["queues"][0]["max_offset"] == 51
    assert rocketpy("dump", root, "--count", "1000").returncode == 0


def test_topics_that_are_deleted_meanwhile_are_passed_over(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore(root, **OPTIONS) as store:
        store.append("U", 0, b"body")
    shutil.copytree(root, root / "later")
    queues = StoreDirectory(root).queues()
    assert next(queues).topic == "T"
    for topic in ("T", "U"):
        shutil.rmtree(root / "consumequeue" / topic)
    assert list(queues) == []

    def listed_and_deleted(queue: Path) -> list[Path]:
        files = sorted(queue.iterdir())
        shutil.rmtree(queue)
        return files

    monkeypatch.setattr("rocketpy.store.directory.offset_files", listed_and_deleted)
    assert list(StoreDirectory(root / "later").queues()) == []


def test_what_is_roots_alone_on_a_disk_of_the_queues_is_passed_over(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "consumequeue" / "lost+found").mkdir()
    real = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "lost+found":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert {queue.topic for queue in StoreDirectory(root).queues()} == {"T"}


def test_who_names_the_directory_above_the_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="not a store, or storePathCommitLog lies elsewhere"):
        StoreDirectory(tmp_path)
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    with pytest.raises(NotFound, match=f"not a store; {tmp_path / 'store'} is one"):
        StoreDirectory(tmp_path)


def test_a_log_file_that_retention_takes_meanwhile_is_passed_over(root: Path) -> None:
    """A link to nowhere is what was listed and is gone when it is asked for its size."""
    before = rocketpy("info", root, "--json").stdout
    (root / "commitlog" / f"{1 << 20:020d}").symlink_to("nowhere")
    assert rocketpy("info", root, "--json").stdout == before
    assert len(rocketpy("dump", root, "--count", "1000", "--json").stdout.splitlines()) == 200


@pytest.mark.parametrize("name", ["consumequeue/T", "index"])
def test_a_directory_that_cannot_be_read_is_not_called_whole(root: Path, name: str) -> None:
    (root / name).rename(root / "elsewhere")
    (root / name).symlink_to(root / name)  # leads to itself
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 1 and f"cannot list the directory: Too many levels of symbolic links [{root / name}]" in done.stderr


def test_damaged_queues_and_indexes_are_built_again_from_the_log(root: Path) -> None:
    flip(root / "consumequeue" / "T" / "2" / f"{0:020d}", 27)
    assert rocketpy("verify", root, *SHAPE).returncode == 3
    assert "would set aside" in rocketpy("repair", root, *SHAPE).stdout
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert rocketpy("verify", root, *SHAPE).returncode == 0


def test_messages_are_dumped_and_exported(root: Path, tmp_path: Path) -> None:
    lines = rocketpy("dump", root, "--count", "3", "--json").stdout.splitlines()
    assert [json.loads(line)["queue_id"] for line in lines] == [0, 1, 2]
    assert rocketpy("export", root, tmp_path / "out.jsonl").returncode == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 200


def test_brackets_of_messages_and_paths_are_shown_as_they_are(tmp_path: Path) -> None:
    root = tmp_path / "[red]store[/b]"
    with MessageStore(root, **OPTIONS) as store:
        store.append("T", 0, b"[INFO] in [/b] out", "KEYS\x01[k]\x02")
    shown = rocketpy("dump", root).stdout
    assert "[INFO] in [/b] out" in shown and "KEYS=[k]" in shown
    assert str(root) in rocketpy("info", root).stdout
    flip(root / "commitlog" / f"{0:020d}", 90)
    assert str(root) in rocketpy("verify", root, *SHAPE).stdout and str(root) in rocketpy("repair", root, *SHAPE).stdout


def test_a_file_that_cannot_be_mapped_is_no_damage(tmp_path: Path) -> None:
    """As with more files than vm.max_map_count: a repair would set whole queues aside. Room for some of the queues stands in for it."""
    with MessageStore(tmp_path / "store", commit_log_file_size=1 << 20, consume_queue_file_size=20 * 300_000) as store:
        for queue in range(12):
            store.append("T", queue, b"body")
    check = (
        "import resource, sys; from rocketpy._core.inspect import verify_store; damages = []\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * 4096 + (30 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, size))\n"
        "try: verify_store(sys.argv[1], on_damage=damages.append)\n"
        "except Exception as error: print(len(damages), error)"
    )
    done = subprocess.run([sys.executable, "-c", check, tmp_path / "store"], capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.startswith("0 cannot map the file: Cannot allocate memory"), done


def test_messages_are_exported_to_standard_output_too(root: Path) -> None:
    done = rocketpy("export", root, "-", "--topic", "T")
    assert done.returncode == 0 and done.stderr == ""
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 200


def test_an_export_of_no_store_leaves_its_target_alone(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("of yesterday")
    assert rocketpy("export", tmp_path / "absent", target).returncode == 1
    assert target.read_text() == "of yesterday"


def test_a_directory_that_is_no_store_is_refused_in_one_line(tmp_path: Path) -> None:
    done = rocketpy("verify", tmp_path / "absent")
    assert done.returncode == 1 and "there is no store directory here" in done.stderr and "Traceback" not in done.stderr


def test_a_store_in_use_is_not_repaired_and_its_verdict_comes_with_a_warning(root: Path) -> None:
    with MessageStore(root, **OPTIONS):
        flip(root / "consumequeue" / "T" / "2" / f"{0:020d}", 27)
        done = rocketpy("repair", root, *SHAPE, "--yes")
        assert done.returncode == 1 and f"in use by process {os.getpid()}" in done.stderr
        assert f"process {os.getpid()} is writing" in rocketpy("verify", root, *SHAPE).stderr
    assert not list(root.rglob("damaged-*"))


def test_a_store_whose_holder_cannot_be_seen_is_not_repaired(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker in another container, or one that was started during the check."""
    monkeypatch.setattr("rocketpy.store.directory.LOCKS", tmp_path / "none")
    with MessageStore(root, **OPTIONS):
        flip(root / "consumequeue" / "T" / "2" / f"{0:020d}", 27)
        with pytest.raises(StoreLocked, match="nothing was changed"):
            repair(root, slot_count=101, entry_count=1001, yes=True)
    assert not list(root.rglob("damaged-*"))


def test_a_holder_in_another_container_is_not_taken_for_this_process(root: Path) -> None:
    program = f"from rocketpy._core.store import MessageStore; MessageStore({str(root)!r})"
    contained = ["unshare", "--pid", "--fork", sys.executable, "-c", program]
    if shutil.which("unshare") is None or subprocess.run([*contained[:3], "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no process namespaces here: needs root and unshare(1)")
    with MessageStore(root, **OPTIONS):
        done = subprocess.run(contained, capture_output=True, text=True, timeout=200, check=False)
    assert "StoreLocked: the store is in use by a process that cannot be seen from here" in done.stderr


def test_a_lock_on_another_file_of_the_same_inode_number_is_nobodys(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = root / "lock"
    table = tmp_path / "locks"
    table.write_text(f"1: POSIX  ADVISORY  WRITE {os.getpid()} 00:99:{lock.stat().st_ino} 0 EOF\n")
    monkeypatch.setattr("rocketpy.store.directory.LOCKS", table)
    assert StoreDirectory(root).lock_holder() is None
    with lock.open():
        assert StoreDirectory(root).lock_holder() == str(os.getpid())


def test_a_repair_says_that_there_is_nothing_to_do_or_what_does_it(root: Path) -> None:
    assert "whole" in rocketpy("repair", root, *SHAPE).stdout
    wrong_shape = rocketpy("repair", root)
    assert wrong_shape.returncode == 3 and "--yes does it" in wrong_shape.stdout
    assert "--slot-count and --entry-count" in rocketpy("verify", root).stdout


def test_a_repair_takes_the_delay_levels_of_the_stores_broker(root: Path) -> None:
    topic = "SCHEDULE_TOPIC_XXXX"
    with MessageStore(root, **OPTIONS) as store:
        store.append(topic, 0, b"later", "DELAY\x011\x02", tags_code=0)
        stored_ms = store.time_at(topic, 0, 0)
    flip(root / "consumequeue" / topic / "0" / f"{0:020d}", 7)
    assert rocketpy("repair", root, *SHAPE, "--delay-levels", "5h", "--yes").returncode == 0
    with MessageStore(root, **OPTIONS) as store:
        assert store.entries(topic, 0, 0, 1)[0][2] == stored_ms + 5 * 3_600_000


def test_a_repair_makes_light_queues_again(root: Path) -> None:
    lists = "INNER_MULTI_DISPATCH\x01%LMQ%q\x02INNER_MULTI_QUEUE_OFFSET\x01{}\x02"
    with MessageStore(root, **OPTIONS) as store:
        stored = [store.append("T", 0, b"light", lists.format(number)).commit_log_offset for number in range(3)]
    with MessageStore(root, **OPTIONS, light_queues_max=1, rebuild_queues=1) as store:
        assert store.max_offset("%LMQ%q", 0) == 3
    flip(root / "consumequeue" / "%LMQ%q" / "0" / f"{0:020d}", 27)
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 0 and "%LMQ%q" in done.stdout.replace("\n", ""), done.stdout + done.stderr
    with MessageStore(root, **OPTIONS) as store:
        assert [entry[0] for entry in store.entries("%LMQ%q", 0, 0, 3)] == stored


def test_file_names_are_whole_also_where_nobody_is_at_a_terminal(root: Path) -> None:
    deep = root.rename(root.with_name("x" * 250))
    (index,) = (deep / "index").iterdir()
    assert str(index) in rocketpy("verify", deep).stdout


@pytest.mark.parametrize("target", ["missing/out.jsonl", "/dev/full"])
def test_a_file_that_cannot_be_written_is_one_line(root: Path, tmp_path: Path, target: str) -> None:
    done = rocketpy("export", root, tmp_path / target)
    assert done.returncode == 1 and done.stderr.startswith("rocketpy: No s") and len(done.stderr.splitlines()) == 1


def as_rocketmq_left_it(root: Path) -> None:
    """Without what only our checkpoints say."""
    data = (root / "checkpoint").read_bytes()
    (root / "checkpoint").write_bytes(data[:256] + bytes(3840))


def test_messages_of_a_topic_from_before_it_was_deleted_and_made_again_are_no_damage(root: Path) -> None:
    with MessageStore(root, **OPTIONS) as store:
        store.delete_topic("T")
        for number in range(3):
            store.append("T", 0, b"new %d" % number, "")
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 0 and "200 messages are in no queue" in done.stdout and "3 entries" in done.stdout, done.stdout


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_queue_that_a_kill_left_without_files_goes_with_the_next_start(root: Path, is_closed: bool) -> None:
    """Between a deletion's unlinks and its rmdir, or before the first file of a queue that is made again."""
    with MessageStore(root, **OPTIONS) as store:
        store.delete_topic("T")
    (root / "consumequeue" / "T" / "0").mkdir(parents=True)
    if not is_closed:
        (root / "abort").write_bytes(b"")
    MessageStore(root, **OPTIONS).close()
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 0 and "200 messages are in no queue" in done.stdout, done.stdout


@pytest.mark.parametrize("files", [1, 5])
def test_a_queue_of_a_store_of_rocketmq_is_built_again_from_its_first_message(tmp_path: Path, files: int) -> None:
    root = tmp_path / "store"
    with MessageStore(root, **OPTIONS) as store:
        for number in range(200 * files):
            store.append("T", number % 2, bytes(300), "")
        store.append("Deleted", 0, b"", "")
        store.delete_topic("Deleted")
    as_rocketmq_left_it(root)
    flip(root / "consumequeue" / "T" / "1" / f"{0:020d}", 27)
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{200 * files + 1} messages" in done.stdout and f"{200 * files} entries of 2 queues" in done.stdout
    assert not (root / "consumequeue" / "Deleted").exists()


@pytest.mark.parametrize("of_rocketmq", [False, True])
def test_a_repair_loses_nothing_behind_damage_in_the_log_and_a_second_one_has_nothing_to_do(root: Path, of_rocketmq: bool) -> None:
    flip(root / "commitlog" / f"{0:020d}", 90)
    flip(root / "consumequeue" / "T" / "2" / f"{0:020d}", 27)
    if of_rocketmq:
        as_rocketmq_left_it(root)
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 3 and "199 messages" in done.stdout and "1 damaged places" in done.stdout, done.stdout + done.stderr
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert "commit log damage stays" in rocketpy("repair", root, *SHAPE, "--yes").stdout
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_digits_that_are_no_numbers_name_no_queue(root: Path) -> None:
    """ "²".isdigit() is true, and int("²") an error."""
    (root / "consumequeue" / "T" / "²").mkdir()
    assert [queue.queue_id for queue in StoreDirectory(root).queues()] == [0, 1, 2, 3]


def test_batch_queues_are_shown_checked_and_built_again(root: Path) -> None:
    with MessageStore(root, **OPTIONS, batch_topics="B\n") as store:
        for number in range(4):
            store.append("B", 0, b"batch", f"KEYS\x01k{number}\x02", inner_messages=3)
    assert next(queue for queue in StoreDirectory(root).queues() if queue.topic == "B").max_offset == 12
    assert rocketpy("verify", root, *SHAPE).returncode == 0
    flip(root / "batchconsumequeue" / "B" / "0" / f"{0:020d}", 46 + 35)
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 3 and "offsets" in done.stdout, done.stdout
    assert rocketpy("repair", root, *SHAPE, "--yes").returncode == 0
    with MessageStore(root, **OPTIONS) as store:
        assert store.max_offset("B", 0) == 12 and len(store.entries("B", 0, 0, 12)) == 4


@pytest.mark.parametrize("length", [None, 0, 64 * 1024], ids=["gone", "no length", "zeros"])
def test_queues_stay_where_the_whole_log_is_gone(root: Path, length: int | None) -> None:
    """Set aside, they would have been built again empty: new messages at offsets that had been read."""
    (root / "commitlog").rename(root / "away")
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 1 and "mount its disk, or put it back" in done.stderr, done.stderr
    (root / "commitlog").mkdir()
    if length is not None:
        (root / "commitlog" / f"{0:020d}").write_bytes(bytes(length))
    for options in ((), ("--yes",)):
        done = rocketpy("repair", root, *SHAPE, *options)
        assert done.returncode == 1 and "mount its disk" in done.stderr and "set aside" not in done.stdout, (done.stdout, done.stderr)
        assert not list((root / "consumequeue").glob("damaged*"))
    shutil.rmtree(root / "commitlog")
    (root / "away").rename(root / "commitlog")
    assert rocketpy("verify", root, *SHAPE).returncode == 0


def test_nothing_is_set_aside_where_the_log_cannot_be_opened(root: Path) -> None:
    """The files of a store tell its sizes: those of queues by one that has a length."""
    first = root / "commitlog" / f"{0:020d}"
    whole = first.read_bytes()
    first.rename(root / "away")
    first.write_bytes(whole[:100])
    flip(root / "consumequeue" / "T" / "2" / f"{0:020d}", 27)
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 1 and "shorter than any is" in done.stderr and "nothing was changed" in done.stderr, done.stderr
    assert not list((root / "consumequeue").glob("damaged*"))
    (root / "away").rename(first)
    queue = root / "consumequeue" / "T" / "0"
    (queue / f"{0:020d}").rename(queue / f"{6_000_000:020d}")
    (queue / f"{0:020d}").touch()
    done = rocketpy("repair", root, *SHAPE, "--yes")
    assert done.returncode == 0 and "whole" in done.stdout, (done.stdout, done.stderr)


@pytest.mark.parametrize("gone", [slice(0, 1), slice(1, 2), slice(2, 3), slice(0, 3)], ids=["first", "second", "last", "all"])
def test_index_files_that_are_gone_are_missed_and_built_again(tmp_path: Path, gone: slice) -> None:
    """As many as the last stop left; those that are there say nothing of it."""
    root, shape = tmp_path / "store", ("--slot-count", "101", "--entry-count", "51")
    with MessageStore(root, commit_log_file_size=64 * 1024, index_slot_count=101, index_entry_count_max=51) as store:
        for number in range(120):
            store.append("T", 0, b"", f"KEYS\x01k{number}\x02")
    files = sorted((root / "index").iterdir())
    assert len(files) == 3
    for file in files[gone]:
        file.unlink()
    done = rocketpy("verify", root, *shape)
    said = f"{3 - len(files[gone])} index files where the last stop left 3"
    assert done.returncode == 3 and said in " ".join(done.stdout.replace("│", "").split()), done.stdout
    assert rocketpy("repair", root, *shape, "--yes").returncode == 0
    assert len(list((root / "index").iterdir())) == 3
    (root / "abort").touch()  # after a kill, when nothing says it
    sorted((root / "index").iterdir())[-1].unlink()
    assert rocketpy("verify", root, *shape).returncode == 0


NEW_FILES = (
    "consumequeue/T/0/00000000000006000000",
    "index/20991231235959999",
    "timerlog/00000000000000000000",
    "timerwheel",
    "config/timercheck",
    "compaction/compactionLog/T/0/00000000000000000000",
)


def test_files_that_a_kill_left_without_length_are_no_damage(root: Path) -> None:
    log_end = sum(path.stat().st_size for path in (root / "commitlog").iterdir())  # with or without one made ahead
    for name in (f"commitlog/{log_end:020d}", *NEW_FILES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch(exist_ok=False)
    (root / "abort").touch()
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 0 and "whole" in done.stdout, done.stdout
    (root / "index" / "20200101000000000").touch()  # one in front of others is no new one
    (root / "compaction/compactionCq/T/0").mkdir(parents=True)
    (root / "compaction/compactionCq/T/0" / f"{0:020d}").write_bytes(struct.pack(">qiqqqhii", 0, 100, 0, 0, 0, 1, -1, 0))
    damages = json.loads(rocketpy("verify", root, *SHAPE, "--json").stdout)["damages"]
    assert {Path(damage["file"]).relative_to(root).parts[0] for damage in damages} == {"index", "compaction"}, damages


def test_a_copy_of_later_entries_in_a_batch_queue_is_named(root: Path) -> None:
    """Each says what is so of its messages, and those whose entries are gone seem to be older than the queue."""
    with MessageStore(root, **OPTIONS, batch_topics="B\n") as store:
        for number in range(4):
            store.append("B", 0, b"batch", f"KEYS\x01k{number}\x02", inner_messages=3)
    entries = root / "batchconsumequeue" / "B" / "0" / f"{0:020d}"
    data = entries.read_bytes()
    entries.write_bytes(data[2 * 46 : 4 * 46] + data[2 * 46 :])
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 3 and "do not lie behind" in " ".join(done.stdout.split()), done.stdout


def test_what_an_expired_batch_says_is_not_held_against_those_behind_it(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with MessageStore(root, commit_log_file_size=8192, index_slot_count=101, index_entry_count_max=1001, batch_topics="B\n") as store:
        for _ in range(40):
            store.append("B", 0, bytes(400), "", inner_messages=3)
    sorted((root / "commitlog").iterdir())[0].unlink()
    for entry in (2, 9):  # one that no search for those behind comes by, and one that does
        flip(root / "batchconsumequeue" / "B" / "0" / f"{0:020d}", entry * 46 + 28 + 4)
    done = rocketpy("verify", root, *SHAPE)
    assert done.returncode == 0, done.stdout
