"""State files of the broker under power cuts: every truncation, noise, an empty file, no file; the backup serves and is said aloud."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy._core.errors import DiskFull, StoreIOError, Unsupported
from rocketpy.broker.consumer_offsets import ConsumerOffsets, SavedOffsets
from rocketpy.broker.persistence import SavedState
from rocketpy.broker.request_modes import RequestMode, RequestModes
from rocketpy.broker.subscriptions import GroupConfig, GroupTable, SavedGroups
from rocketpy.broker.topics import SavedTopics, TopicSettings, TopicTable
from rocketpy.remoting.bodies import TopicConfig
from rocketpy.remoting.json_codec import read_json
from rocketpy.state_file import StateFile
from tests.unit.broker.recorder import Clock, Recorder


class Case:
    """One kind of table and its file: `change(n)` makes the n-th version, `read` is what a fresh table holds after loading."""

    def __init__(self, name: str, directory: Path) -> None:
        self.path = directory / name
        getattr(self, "_" + name.partition(".")[0])()

    def _topics(self) -> None:
        table = TopicTable(TopicSettings(), Recorder(), Clock())
        self.saved = SavedState(self.path, table.to_json, lambda: table.version)
        self.change = lambda n: table.update(TopicConfig(f"t{n}"))
        self.load = lambda: self.saved.load(SavedTopics.from_json, table.load)
        self.read = lambda: sorted(
            config.topic_name for config in table if config.topic_name.startswith("t") and config.topic_name[1:].isdigit()
        )

    def _subscriptionGroup(self) -> None:
        table = GroupTable(Recorder(), Clock())
        self.saved = SavedState(self.path, table.snapshot, lambda: table.version, table.texts.pretty)
        self.change = lambda n: table.update(GroupConfig(f"t{n}"))
        self.load = lambda: self.saved.load(SavedGroups.from_json, table.load)
        self.read = lambda: sorted(config.group for config in table if config.group.startswith("t"))

    def _consumerOffset(self) -> None:
        recorder = Recorder()
        table = ConsumerOffsets(recorder, Clock())
        self.saved = SavedState(self.path, table.snapshot, lambda: table.change_count, lambda value: value.text(pretty=True))
        self.change = lambda n: recorder.put_offset(f"t{n}", "topic", 0, n)
        self.load = lambda: self.saved.load(SavedOffsets.from_json, table.load)
        self.read = lambda: sorted(key[0] for key in recorder.table)

    def _messageRequestMode(self) -> None:
        table = RequestModes()
        self.saved = SavedState(self.path, table.to_json, lambda: table.change_count)
        self.change = lambda n: table.set(RequestMode("topic", f"t{n}", "POP", 1))
        self.load = lambda: self.saved.load(RequestModes.read, table.load)
        self.read = lambda: sorted(table.to_json()["messageRequestModeMap"].get("topic", {}))


NAMES = ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "messageRequestMode.json"]


@pytest.fixture(params=NAMES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Case]:
    return lambda: Case(request.param, tmp_path)


def written_twice(case: Callable[[], Case]) -> Case:
    """A file with t1 and t2, whose backup holds t1."""
    first = case()
    for number in (1, 2):
        first.change(number)
        asyncio.run(first.saved.save())
    return first


def reloaded(case: Callable[[], Case]) -> list[str]:
    again = case()
    again.load()
    return again.read()


def test_what_was_saved_is_there_after_a_restart(case: Callable[[], Case]) -> None:
    written_twice(case)
    assert reloaded(case) == ["t1", "t2"]


def test_every_truncation_falls_back_to_the_backup(case: Callable[[], Case], caplog: pytest.LogCaptureFixture) -> None:
    path = written_twice(case).path
    whole, backup = path.read_bytes(), path.with_name(path.name + ".bak").read_bytes()
    for size in sorted({0, 1, 2, len(whole) // 2, len(whole) - 2, len(whole) - 1} | set(range(3, len(whole) - 3, 499))):
        path.write_bytes(whole[:size])
        path.with_name(path.name + ".bak").write_bytes(backup)
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            assert reloaded(case) == ["t1"], f"cut at byte {size}"
            assert ".bak is used instead" in caplog.text
        path.with_name(path.name + ".damaged").unlink(missing_ok=True)


@pytest.mark.parametrize("seed", range(8))
def test_noise_falls_back_to_the_backup(case: Callable[[], Case], seed: int) -> None:
    path = written_twice(case).path
    noise = random.Random(seed)
    path.write_bytes(noise.randbytes(noise.randrange(1, 3000)))
    assert reloaded(case) == ["t1"]


@pytest.mark.parametrize("content", [b"\0" * 4096, b"null", b"[]", b"3", b'"x"', b"{}", b"{" * 100_000, b"\xff\xfe"])
def test_json_that_is_no_table_falls_back_to_the_backup(case: Callable[[], Case], content: bytes) -> None:
    path = written_twice(case).path
    path.write_bytes(content)
    expected = ["t1"] if not (content == b"{}" and path.name in ("consumerOffset.json", "messageRequestMode.json")) else []
    assert reloaded(case) == expected


def test_both_files_damaged_start_empty_and_keep_the_damaged_one(case: Callable[[], Case], caplog: pytest.LogCaptureFixture) -> None:
    path = written_twice(case).path
    path.write_bytes(b"{half")
    path.with_name(path.name + ".bak").write_bytes(b"}")
    with caplog.at_level(logging.ERROR):
        assert reloaded(case) == []
    assert "neither" in caplog.text and "{half" not in caplog.text
    assert path.with_name(path.name + ".damaged").read_bytes() == b"{half"


def test_an_empty_file_without_a_backup_is_said(case: Callable[[], Case], caplog: pytest.LogCaptureFixture) -> None:
    empty = case()
    empty.path.touch()
    with caplog.at_level(logging.ERROR):
        empty.load()
    assert [f"{empty.path.name}: 0 bytes, all blank): starting empty" in line for line in caplog.messages] == [True]
    assert not list(empty.path.parent.glob("*.damaged"))


def in_the_way(path: Path) -> None:
    """Something that root cannot read either, where permissions do not count."""
    path.unlink(missing_ok=True)
    path.mkdir()


def dangling(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("not mounted")


def without_a_writer(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("make_unreadable", [in_the_way, dangling, without_a_writer])
@pytest.mark.parametrize("which", ["file", "backup of a damaged file"])
def test_what_cannot_be_read_just_now_is_no_reason_to_begin_with_less(
    case: Callable[[], Case], which: str, make_unreadable: Callable[[Path], None]
) -> None:
    path = written_twice(case).path
    unreadable = path
    if which != "file":
        path.write_bytes(b"{half")
        unreadable = path.with_name(path.name + ".bak")
    make_unreadable(unreadable)
    again = case()
    with pytest.raises(StoreIOError, match=f"the state cannot be read: .*{unreadable.name}"):
        again.load()
    assert unreadable.is_dir() or unreadable.is_symlink() or unreadable.is_fifo()
    assert not list(path.parent.glob("*.damaged"))


@pytest.mark.parametrize(
    ("os_errno", "remedy"),
    [(errno.EMFILE, "raise the limit of open files"), (errno.EIO, "check the disk"), (errno.EACCES, "give this user")],
)
def test_who_has_no_descriptor_left_is_not_told_to_move_the_file_away(
    case: Callable[[], Case], monkeypatch: pytest.MonkeyPatch, os_errno: int, remedy: str
) -> None:
    """It is whole: without it the broker would begin without its topics."""
    written_twice(case)

    def fail(path: Path) -> bytes:
        raise OSError(os_errno, os.strerror(os_errno))

    again = case()
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(StoreIOError) as caught:
        again.load()
    assert f"{os.strerror(os_errno)}; {remedy}" in str(caught.value)
    assert ("move it away" in str(caught.value)) == (os_errno == errno.EACCES)


def test_a_whole_table_with_a_number_we_do_not_take_is_no_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text('{"topicConfigTable":{"t1":{"topicName":"t1"},"wide":{"topicName":"wide","readQueueNums":70000}},"dataVersion":{}}')
    before = path.read_bytes()
    with pytest.raises(Unsupported, match=rf"topic wide: readQueueNums = 70000 is not in 0..65536; correct it.*{path}"):
        StateFile(path).read(lambda text: SavedTopics.from_json(read_json(text)))
    assert path.read_bytes() == before and [path] == list(tmp_path.iterdir())


def test_a_damaged_file_never_becomes_the_backup(case: Callable[[], Case]) -> None:
    path = written_twice(case).path
    path.write_bytes(b"{half")
    again = case()
    again.load()
    again.change(3)
    asyncio.run(again.saved.save())
    path.write_bytes(b"{half again")
    assert reloaded(case) == ["t1"], "the backup is still the last one that was read"


def test_who_may_read_a_file_stays_as_it_was(tmp_path: Path) -> None:
    """The configuration, too, is written through here, and may name secrets."""
    path = tmp_path / "broker.conf"
    path.write_text("1")
    path.chmod(0o600)
    file = StateFile(path)
    file.write("2")
    file.write("3")
    assert [each.stat().st_mode & 0o777 for each in (path, file.backup_path)] == [0o600, 0o600]


def make_mount_point(path: Path, patch: pytest.MonkeyPatch) -> None:
    """As `docker run -v FILE:FILE` makes them: nothing can be renamed to them, nor linked across their border."""
    real_replace = Path.replace

    def replace(source: Path, target: Path) -> Path:
        if target == path:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return real_replace(source, target)

    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    patch.setattr(Path, "replace", replace)
    patch.setattr(os, "link", link)


def test_a_file_that_is_a_mount_point_is_written_over(case: Callable[[], Case], monkeypatch: pytest.MonkeyPatch) -> None:
    first = written_twice(case)
    first.change(3)
    with monkeypatch.context() as patch:
        make_mount_point(first.path, patch)
        asyncio.run(first.saved.save())
    assert reloaded(case) == ["t1", "t2", "t3"]
    assert not [path for path in first.path.parent.iterdir() if path.suffix == ".tmp"]
    first.path.write_bytes(b"{half")
    assert reloaded(case) == ["t1", "t2"]


def test_a_private_file_that_is_a_mount_point_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users.json"
    path.write_text("1")
    path.chmod(0o644)
    make_mount_point(path, monkeypatch)
    StateFile(path, is_private=True).write("2")
    assert path.read_text() == "2" and path.stat().st_mode & 0o777 == 0o600


def test_what_stands_in_the_place_of_the_temporary_file_gets_nothing(tmp_path: Path) -> None:
    """A link to a file of somebody else's, and one that was left there, which somebody holds open."""
    victim, file = tmp_path / "victim", StateFile(tmp_path / "users.json", is_private=True)
    victim.write_text("victim's")
    temporary = tmp_path / "users.json.tmp"
    temporary.symlink_to(victim)
    file.write("secret 1")
    assert (victim.read_text(), file.path.read_text(), file.path.is_symlink()) == ("victim's", "secret 1", False)
    temporary.touch(0o644)
    with temporary.open() as held:
        file.write("secret 2")
        assert (held.read(), file.path.read_text()) == ("", "secret 2")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_file_is_its_owners_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the two, whoever it is for would not read it for good."""
    path, real_replace = tmp_path / "broker.conf", Path.replace
    placed: list[tuple[str, int, int, int]] = []

    def replace(source: Path, target: Path) -> Path:
        found = source.stat()
        placed.append((target.name, found.st_uid, found.st_gid, found.st_mode & 0o777))
        return real_replace(source, target)

    monkeypatch.setattr(Path, "replace", replace)
    StateFile(path, is_private=True, owner=(65534, 65533)).write("1")
    assert placed == [("broker.conf", 65534, 65533, 0o600)]


@pytest.mark.parametrize("failures", [1, 100])
def test_a_mount_point_that_is_full_keeps_what_it_held_or_its_backup(
    case: Callable[[], Case], monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Saved again, as every few seconds: half a file, where the old one does not fit any more either, never becomes the backup."""
    first = written_twice(case)
    first.change(3)
    whole = first.path.read_bytes()
    real_write = os.write
    failed = 0

    def full(descriptor: int, data: bytes) -> int:
        nonlocal failed
        if Path(f"/proc/self/fd/{descriptor}").readlink() != first.path or len(data) < len(whole) // 2 or failed == failures:
            return real_write(descriptor, data)
        if os.fstat(descriptor).st_size == 0:
            return real_write(descriptor, data[: len(data) // 3])
        failed += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        make_mount_point(first.path, patch)
        patch.setattr(os, "write", full)
        with pytest.raises(DiskFull):
            asyncio.run(first.saved.save())
        if failures == 1:
            assert first.path.read_bytes() == whole
            asyncio.run(first.saved.save())
        else:
            with pytest.raises(DiskFull):
                asyncio.run(first.saved.save())
    assert reloaded(case) == (["t1", "t2", "t3"] if failures == 1 else ["t1", "t2"])


def test_a_full_disk_leaves_the_old_file(case: Callable[[], Case], monkeypatch: pytest.MonkeyPatch) -> None:
    first = written_twice(case)
    real_write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith(".tmp"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_write(descriptor, data)

    first.change(3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DiskFull) as raised:
            asyncio.run(first.saved.save())
    assert str(first.path) in str(raised.value)
    assert first.saved.is_dirty and reloaded(case) == ["t1", "t2"]
    asyncio.run(first.saved.save())
    assert reloaded(case) == ["t1", "t2", "t3"]


@pytest.mark.parametrize("ends", [None, errno.ENOSPC, errno.EIO])
def test_a_write_that_takes_a_part_is_gone_on_with(case: Callable[[], Case], monkeypatch: pytest.MonkeyPatch, ends: int | None) -> None:
    """As a disk that fills up does it: some bytes are taken, and then none."""
    first = written_twice(case)
    first.change(3)
    real_write = os.write
    calls = 0

    def short(descriptor: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if ends is not None and calls == 3:
            raise OSError(ends, os.strerror(ends))
        return real_write(descriptor, data[: max(1, len(data) // 3)])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short)
        if ends is None:
            asyncio.run(first.saved.save())
        else:
            with pytest.raises(DiskFull if ends == errno.ENOSPC else StoreIOError, match=os.strerror(ends)):
                asyncio.run(first.saved.save())
    assert calls >= 3
    assert first.saved.is_dirty == (ends is not None)
    assert reloaded(case) == (["t1", "t2", "t3"] if ends is None else ["t1", "t2"])
    asyncio.run(first.saved.save())
    assert reloaded(case) == ["t1", "t2", "t3"]


FAILING_CALLS = ["open", "write", "fsync", "link", "replace"]


@pytest.mark.parametrize("call", FAILING_CALLS)
def test_whichever_step_fails_one_whole_file_is_left(case: Callable[[], Case], monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The n-th use of each system call fails, n = 1, 2, … until a save needs it no more often."""
    for nth in range(1, 10):
        first = written_twice(case)
        first.change(3)
        uses = 0
        owner, name = (Path, "replace") if call == "replace" else (os, call)
        real = getattr(owner, name)

        def failing(*args: object, real: object = real, nth: int = nth, **kwargs: object) -> object:
            nonlocal uses
            uses += 1
            if uses == nth:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            assert callable(real)
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing)
            try:
                asyncio.run(first.saved.save())
                failed = False
            except StoreIOError:
                failed = True
        assert reloaded(case) in (["t1", "t2"], ["t1", "t2", "t3"])
        if not failed:
            assert uses < nth and reloaded(case) == ["t1", "t2", "t3"]
            return
    pytest.fail(f"{call} is used more than nine times by one save")


def written_by(case: Case) -> list[str]:
    """Every text that it writes from now on."""
    written: list[str] = []
    real = case.saved.file.write

    def noted(text: str) -> None:
        written.append(text)
        real(text)

    case.saved.file.write = noted  # type: ignore[method-assign]
    return written


def test_many_changes_while_one_write_is_under_way_share_the_next(case: Callable[[], Case]) -> None:
    async def run() -> int:
        first = case()
        written = written_by(first)
        first.change(0)
        saves = [asyncio.create_task(first.saved.save())]
        await asyncio.sleep(0)
        for number in range(1, 50):
            first.change(number)
            saves.append(asyncio.create_task(first.saved.save()))
        await asyncio.gather(*saves)
        assert not first.saved.is_dirty
        return len(written)

    assert asyncio.run(run()) == 2
    assert len(reloaded(case)) == 50


def test_changes_that_come_without_end_share_writes_too(case: Callable[[], Case]) -> None:
    """Each answer brings the next request: whoever waited in line for a write that began after his change does not make one more."""

    async def run() -> int:
        first = case()
        written = written_by(first)

        async def operator(name: int) -> None:
            for step in range(10):
                first.change(name * 100 + step)
                await first.saved.save()

        await asyncio.gather(*(operator(name) for name in range(1, 21)))
        assert not first.saved.is_dirty
        return len(written)

    assert asyncio.run(run()) <= 30
    assert len(reloaded(case)) == 200
