"""Logs of a server process: one structured line a record, into rotating files or standard error, native threads included.
RocketMQ: the logback files rmq.namesrv.logback.xml and rmq.broker.logback.xml (5.3.3 distribution/).

    logging ──────────────────────────────► LogfmtFormatter | JsonFormatter ─► logPath/NAME.log, .1, .2 … and notices to stderr
    C threads ─ LogTap ring ─ event fd ─ NativeLog ─┘

A record is `time=… level=… logger=… msg="…"` (logFormat=text) or the same keys as one JSON object (logFormat=json).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import logging.handlers
import os
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from ._core.base import LogTap
from .config import Config, ConfigError, Problem, Value
from .error_lines import ErrorLines

NATIVE_LOGGER = "rocketpy.native"
METRICS_LOGGER = "rocketpy.metrics.logged.lines"
"""Of metricsExporterType=LOG: with logPath in a file of its own, bare, as other records would be hard to find among them."""
NOTICE = 25  # RP_LOG_NOTICE: nothing is wrong, but whoever waits at a terminal wants to see it
SAID = {"is_said": True}
"""The `extra` of a record that its program tells standard error itself: it is for the file, and for whoever collects records."""
logging.addLevelName(NOTICE, "NOTICE")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,;~*#$&!?()[]{}<>|^'")
_json_text = json.JSONEncoder(ensure_ascii=False).encode


def _quoted(text: str) -> str:
    """The value as logfmt takes it: bare when nothing in it needs quotes."""
    if text and _PLAIN.issuperset(text):
        return text
    return _json_text(text)


@functools.lru_cache(2)
def _second_text(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(second))


def record_fields(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, str]:
    """What is said of a record, in order."""
    fields = {
        "time": f"{_second_text(int(record.created))}.{int(record.msecs):03d}",
        "level": record.levelname,
        "logger": record.name.removeprefix("rocketpy."),
        "msg": record.getMessage(),
    }
    if record.exc_info:
        fields["exception"] = formatter.formatException(record.exc_info)
    return fields


class LogfmtFormatter(logging.Formatter):
    """key=value pairs, one line a record."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_quoted(value)}" for name, value in record_fields(record, self).items())


class JsonFormatter(logging.Formatter):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        return _json_text(record_fields(record, self))


class TerminalFormatter(logging.Formatter):
    """For people: time of day, level, message; tracebacks as Python prints them."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")


class TerminalHandler(logging.Handler):
    """Records to standard error. A reader that stops reading costs records, not the server (error_lines.py)."""

    def __init__(self, lines: ErrorLines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
        except Exception:  # as every handler of logging: a mistake in the program, with its traceback
            self.handleError(record)
            return
        self._lines.write(line.encode(errors="backslashreplace"))

    def flush(self) -> None:
        """Waits a second at most."""
        self._lines.settle()

    def close(self) -> None:
        self._lines.close()
        super().close()


def _terminal() -> logging.Handler:
    """A plain handler where standard error is not a file of the system, or no thread is left to wait for its reader."""
    try:
        return TerminalHandler(ErrorLines(sys.stderr.fileno()))
    except (OSError, RuntimeError):  # io.UnsupportedOperation is an OSError
        return logging.StreamHandler(sys.stderr)


class LogFile(logging.handlers.RotatingFileHandler):
    """A file that cannot be written, on a full disk say, costs the records of that time; standard error is told in one line a minute."""

    COMPLAINT_PAUSE_S = 60.0
    _silent_until_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """As its base, which makes the text twice, to know its size first, and asks the system for the file by its name each time."""
        try:
            line = self.format(record) + self.terminator
            if self._is_full_with(line):
                self.doRollover()
            self._opened().write(line)
            self.flush()
        except Exception:  # as every handler of logging
            self.handleError(record)

    def _opened(self) -> TextIO:
        if self.stream is None or self.stream.closed:  # `delay`, also behind a rollover; closed: by one that failed
            self.stream = self._open()
        return self.stream

    def _is_full_with(self, line: str) -> bool:
        """Not what is no regular file: it has no size. Raises OSError while lines are left that the disk has not taken: they could not be
        written when the file is closed, and nothing would open the next one."""
        stream = self._opened()
        stream.flush()
        status = os.fstat(stream.fileno())
        return 0 < self.maxBytes <= status.st_size + len(line) and stat.S_ISREG(status.st_mode)

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)  # a mistake in the program: with its traceback
            return
        now_s = time.monotonic()
        if now_s < self._silent_until_s or sys.stderr is None:
            return
        self._silent_until_s = now_s + self.COMPLAINT_PAUSE_S
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{self.baseFilename} cannot be written, records are lost: {error.strerror or error}\n")
            sys.stderr.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what is left has been complained of
            super().close()


def start_logging(name: str, config: Config, *, foreground: bool = False) -> None:
    """Directs this process's records as logPath, logLevel, logFormat, logFileSize and logFileCount say. `name` is the file's.

    Raises ConfigError for a logPath that cannot be. Without logPath everything goes to standard error; with it only notices and warnings
    do, unless the process is not in the foreground."""
    formatter = JsonFormatter() if config.text("logFormat") == "json" else LogfmtFormatter()
    directory = config.text("logPath")
    file_size, file_count = config.integer("logFileSize"), config.integer("logFileCount")
    handlers: list[logging.Handler] = []
    if directory:
        path = _make_directory(Path(directory))
        handlers.append(
            LogFile(
                path / f"{name}.log",
                maxBytes=file_size,
                backupCount=file_count,
                encoding="utf-8",
                errors="backslashreplace",  # a path may hold bytes that are not a text
                delay=True,
            )
        )
        handlers[0].setFormatter(formatter)
    if foreground or not directory:
        terminal = _terminal()
        terminal.setFormatter(TerminalFormatter() if foreground else formatter)
        terminal.setLevel(NOTICE if foreground else logging.NOTSET)
        if foreground:
            terminal.addFilter(lambda record: not hasattr(record, "is_said"))
        handlers.append(terminal)
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    for handler in handlers:
        root.addHandler(handler)
    _direct_metrics(Path(directory).expanduser() / f"{name}_metrics.log" if directory else None, file_size, file_count)
    _leave_out_unsaid()
    root.setLevel(logging.WARNING)
    logging.getLogger("rocketpy").setLevel(config.text("logLevel"))
    config.subscribe(_change_level)


def _leave_out_unsaid() -> None:
    """Of a record no format of ours says where in the program, on which thread or in which process it was made, and finding that out is
    more than half of a line's cost. How to do without is Python's: "Optimization" in its logging HOWTO."""
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def _direct_metrics(path: Path | None, file_size: int, file_count: int) -> None:
    """The file is made with the first line."""
    lines = logging.getLogger(METRICS_LOGGER)
    for handler in lines.handlers[:]:
        lines.removeHandler(handler)
        handler.close()
    lines.setLevel(logging.INFO)
    lines.propagate = path is None
    if path is not None:
        lines.addHandler(LogFile(path, maxBytes=file_size, backupCount=file_count, encoding="utf-8", errors="backslashreplace", delay=True))


def _make_directory(path: Path) -> Path:
    """Raises ConfigError: files in it are opened with the first record, too late for a word about it."""
    try:
        path = path.expanduser()
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        raise ConfigError([Problem("logPath", f"{path} cannot be made: {getattr(error, 'strerror', error)}")]) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError([Problem("logPath", f"{path} cannot be written by this user")])
    return path


def _change_level(changes: Mapping[str, Value]) -> None:
    if "logLevel" in changes:
        logging.getLogger("rocketpy").setLevel(str(changes["logLevel"]))


class NativeLog:
    """Carries what C threads say into logging while the event loop runs, and what is left at the end."""

    def __init__(self) -> None:
        self.tap = LogTap()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dropped = 0
        self._expected = ""
        self._logger = logging.getLogger(NATIVE_LOGGER)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.tap.event_fd, self.drain)

    def expect(self, beginning: str) -> None:
        """Warnings that begin so are news from now on and no more: whoever stops every broker of a cluster brings them about."""
        self.drain()
        self._expected = beginning

    def drain(self) -> None:
        while lines := self.tap.take():
            for level, wall_ms, text in lines:
                if level == logging.WARNING and self._expected and text.startswith(self._expected):
                    level = logging.INFO
                if self._logger.isEnabledFor(level):
                    record = self._logger.makeRecord(NATIVE_LOGGER, level, "", 0, text, (), None)
                    record.created = wall_ms / 1000
                    record.msecs = wall_ms % 1000
                    self._logger.handle(record)
        if (dropped := self.tap.dropped) != self._dropped:
            self._logger.warning("%d native log lines were dropped: the log ring was full", dropped - self._dropped)
            self._dropped = dropped

    def close(self) -> None:
        """After everything that writes to the tap is closed."""
        if self._loop is not None:
            self._loop.remove_reader(self.tap.event_fd)
            self._loop = None
            self.drain()
        self.tap.close()
