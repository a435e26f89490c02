"""A broker whose n-th call to the kernel fails or is its last: failing_calls.c, preloaded, and the file it is steered by."""

from __future__ import annotations

import errno
import mmap
import struct
import subprocess
from enum import IntFlag
from pathlib import Path

from tests.crash.broker_process import BrokerProcess
from tests.native_build import build_library

SOURCE = Path(__file__).with_name("failing_calls.c")
CONTROL_SIZE = 6 * 8 + 1024
COUNTED, FIRST, LAST, ERRNO, KINDS, HITS = range(6)

SMALL_FILES = {
    "mappedFileSizeCommitLog": 64 << 10, "maxMessageSize": 16 << 10, "mappedFileSizeConsumeQueue": 400, "maxHashSlotNum": 20,
    "maxIndexNum": 60,
}  # fmt: skip
"""A hundred messages fill several files of each sort."""
OFTEN = {"flushIntervalCommitLog": 20, "flushIntervalConsumeQueue": 20, "flushCommitLogThoroughInterval": 100}


class Kind(IntFlag):
    """As in failing_calls.c."""

    OPEN = 1
    CHANGE = 2
    SYNC = 4
    MAP = 8


def build(directory: Path) -> Path:
    """Raises CalledProcessError."""
    target = directory / "failing_calls.so"
    compiler = build_library().compiler
    subprocess.run([*compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", target, SOURCE], check=True)
    return target


class FailingCalls:
    """Which calls of a process are hit; from its start, or armed while it runs."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(CONTROL_SIZE))
        with path.open("r+b") as file:
            self._words = mmap.mmap(file.fileno(), CONTROL_SIZE)

    def _set(self, word: int, value: int) -> None:
        struct.pack_into("=q", self._words, 8 * word, value)

    def _get(self, word: int) -> int:
        return int(struct.unpack_from("=q", self._words, 8 * word)[0])

    def kill(self, number: int, kinds: Kind) -> None:
        """At the number-th of these calls from now on."""
        self._arm(number, number, 0, kinds)

    def fail(self, number: int, os_errno: int, kinds: Kind, count: int = 1) -> None:
        """The number-th of these calls from now on, and the count - 1 behind it."""
        self._arm(number, number + count - 1, os_errno, kinds)

    def end(self) -> None:
        self._set(KINDS, 0)

    def _arm(self, first: int, last: int, os_errno: int, kinds: Kind) -> None:
        self.end()
        for word, value in ((COUNTED, 0), (HITS, 0), (FIRST, first), (LAST, last), (ERRNO, os_errno), (KINDS, kinds)):
            self._set(word, value)

    @property
    def was_hit(self) -> bool:
        return self._get(HITS) > 0

    @property
    def first_hit(self) -> str:
        """The name of the first call that was hit, and its file."""
        return self._words[6 * 8 :].partition(b"\0")[0].decode()

    def __str__(self) -> str:
        """For failure reports."""
        return f"call {self._get(FIRST)}, {self.first_hit}: {errno.errorcode.get(self._get(ERRNO), 'SIGKILL')}"


def broker_with_failing_calls(
    directory: Path, library: Path, root: str = "store", **settings: object
) -> tuple[BrokerProcess, FailingCalls]:
    """A broker, not started, with its calls for what lies below root."""
    directory.mkdir(exist_ok=True)
    control = directory / "failing_calls"
    calls = FailingCalls(control)
    preload = ("env", f"LD_PRELOAD={library}", f"FAILING_CALLS_CONTROL={control}", f"FAILING_CALLS_ROOT={directory / root}")
    keys: dict[str, object] = {"flushBackend": "SYSCALL", **SMALL_FILES, **OFTEN, **settings}
    return BrokerProcess(directory, inside=preload, **keys), calls
