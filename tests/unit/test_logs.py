"""Log records as lines: one each, readable back, rotated."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rocketpy._core.remoting import Server
from rocketpy.config import load_config
from rocketpy.logs import NOTICE, SAID, JsonFormatter, LogFile, LogfmtFormatter, NativeLog, start_logging
from tests.processes import PATIENCE_S


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("rocketpy")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    root.handlers.clear()
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)


def record(message: str, *arguments: object, name: str = "rocketpy.broker.service") -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, __file__, 1, message, arguments, None)


def test_logfmt_quotes_what_needs_quotes_and_stays_one_line() -> None:
    line = LogfmtFormatter().format(record('topic %s says "hi"\nand = more', "Ü"))
    assert "\n" not in line
    fields, _, message = line.partition(" msg=")
    assert "level=WARNING logger=broker.service" in fields
    assert json.loads(message) == 'topic Ü says "hi"\nand = more'


def test_logfmt_leaves_plain_words_bare() -> None:
    assert LogfmtFormatter().format(record("stopped")).endswith(" msg=stopped")


def test_a_file_that_cannot_be_written_is_said_once_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broker.log").symlink_to("/dev/full")
    start_logging("broker", load_config("broker", None, {"logPath": str(tmp_path)}), foreground=True)
    for number in range(3):
        logging.getLogger("rocketpy").info("record %d", number)
    logging.getLogger("rocketpy").warning("said all the same")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"{tmp_path}/broker.log cannot be written, records are lost: No space left on device"
    assert len(said) == 2 and said[1].endswith("WARNING said all the same")


class FullDisk(io.FileIO):
    is_full = False
    fails_at_close = False

    def write(self, data: Any) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)

    def close(self) -> None:
        """A quota may be told of by close alone."""
        was_open = not self.closed
        super().close()
        if was_open and self.fails_at_close:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")


@pytest.mark.parametrize("fails_at_close", [False, True])
def test_a_file_that_was_to_be_rotated_while_the_disk_was_full_goes_on_when_there_is_room(tmp_path: Path, fails_at_close: bool) -> None:
    handler = LogFile(tmp_path / "x.log", maxBytes=200, backupCount=1, encoding="utf-8", delay=True)
    disk = FullDisk(tmp_path / "x.log", "a")
    handler.stream = io.TextIOWrapper(io.BufferedWriter(disk), encoding="utf-8")
    for text in ("before", "full", "full " * 40, "after"):
        disk.is_full, disk.fails_at_close = text.startswith("full"), fails_at_close
        handler.handle(record(text))
    handler.handle(record("at last"))
    handler.close()
    told = "".join(path.read_text() for path in sorted(tmp_path.iterdir()))
    assert "before" in told and ("after" in told or fails_at_close) and "at last" in told


def test_a_path_that_is_no_text_does_not_cost_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("broker", load_config("broker", None, {"logPath": str(tmp_path)}), foreground=True)
    logging.getLogger("rocketpy").info("load %s OK", Path(os.fsdecode(b"/gr\xf6\xdfer")))
    assert r"load /gr\udcf6\udcdfer OK" in (tmp_path / "broker.log").read_text()
    assert capsys.readouterr().err == ""


def test_a_mistake_in_a_record_is_shown_with_its_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("broker", load_config("broker", None, {"logPath": str(tmp_path)}), foreground=True)
    logging.getLogger("rocketpy").info("%d", "not a number")
    assert "TypeError" in capsys.readouterr().err


def test_an_exception_stays_in_its_record() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        failed = record("failed")
        failed.exc_info = sys.exc_info()
    for formatter in (LogfmtFormatter(), JsonFormatter()):
        line = formatter.format(failed)
        assert "\n" not in line
        assert "ValueError: why" in line


def test_files_rotate_and_the_level_can_change(tmp_path: Path) -> None:
    settings = {"logPath": str(tmp_path), "logFileSize": "4096", "logFileCount": "2", "logLevel": "INFO"}
    config = load_config("namesrv", None, settings)
    start_logging("namesrv", config)
    logger = logging.getLogger("rocketpy.test")
    for i in range(400):
        logger.info("line %d of many", i)
    assert {path.name for path in tmp_path.iterdir()} == {"namesrv.log", "namesrv.log.1", "namesrv.log.2"}
    texts = [(tmp_path / name).read_text() for name in ("namesrv.log.2", "namesrv.log.1", "namesrv.log")]
    assert all(4000 < len(text) < 4096 for text in texts[:2]) and 0 < len(texts[2]) < 4096
    numbers = [int(number) for number in re.findall(r'msg="line (\d+) of many"', "".join(texts))]
    assert numbers == list(range(400 - len(numbers), 400))
    logger.debug("unseen")
    config.update({"logLevel": "DEBUG"})
    logger.debug("seen")
    assert "msg=seen" in (tmp_path / "namesrv.log").read_text()


def test_a_terminal_beside_the_file_shows_notices_and_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("broker", load_config("broker", None, {"logPath": str(tmp_path)}), foreground=True)
    logger = logging.getLogger("rocketpy.native")
    logger.info("only in the file")
    logger.log(NOTICE, "recovery: 5 of at most 10 MiB")
    logger.warning("a queue is rebuilt")
    shown = capsys.readouterr().err
    assert "NOTICE  recovery: 5 of at most 10 MiB" in shown
    assert "a queue is rebuilt" in shown
    assert "only in the file" not in shown
    assert "level=NOTICE" in (tmp_path / "broker.log").read_text()


def test_what_its_program_tells_is_not_told_twice_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("broker", load_config("broker", None, {"logPath": str(tmp_path)}), foreground=True)
    logging.getLogger("rocketpy").error("%s ends", "it", extra=SAID)
    assert capsys.readouterr().err == "" and "it ends" in (tmp_path / "broker.log").read_text()


class Lines:
    """A tap that holds lines until they are taken."""

    event_fd, dropped = -1, 0

    def __init__(self, *lines: tuple[int, int, str]) -> None:
        self.lines = list(lines)

    def take(self) -> list[tuple[int, int, str]]:
        lines, self.lines = self.lines, []
        return lines


def test_warnings_that_are_expected_are_news_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    native_log = NativeLog()
    native_log.tap.close()
    tap = Lines((logging.WARNING, 0, "ha: slave a left"))
    native_log.tap = cast(Any, tap)
    with caplog.at_level(logging.INFO, logger="rocketpy.native"):
        native_log.expect("ha: slave ")
        tap.lines += [(logging.WARNING, 0, "ha: slave b left"), (logging.ERROR, 0, "ha: slave c lies"), (logging.WARNING, 0, "disk")]
        native_log.drain()
    assert [found.levelname for found in caplog.records] == ["WARNING", "INFO", "ERROR", "WARNING"]


def test_native_lines_reach_logging(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        native_log = NativeLog()
        native_log.start()
        with Server(bind_address="127.0.0.1", log=native_log.tap) as server:
            server.start()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"\x00\x00\x00\x01garbage")
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""  # the server closes a connection that does not speak the protocol
            writer.close()
        native_log.close()

    with caplog.at_level(logging.DEBUG, logger="rocketpy.native"):
        asyncio.run(scenario())
    assert any(found.name == "rocketpy.native" for found in caplog.records)
