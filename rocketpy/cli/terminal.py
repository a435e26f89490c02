"""What a command prints: results on standard output; on standard error what went wrong, and what helps."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from .._core.errors import DiskFull

EXIT_USAGE = 2
"""Of a command line or a configuration that cannot be."""
READ_WITHIN_MS = 1000
"""So long a reader of ours may be busy with something else."""
HEAD_MAX, TAIL_MAX = 4096, 500
"""Characters of a text that others made: the longest path is whole, and so is what helps, which stands at the end."""


def say(line: str) -> None:
    """One line for the operator, at once also when standard output is a file."""
    print(line, flush=True)


def printable(text: str) -> str:
    """A text that others may have made, such as a name from a server, as part of a line: it neither ends that nor steers the terminal."""
    if len(text) > HEAD_MAX + TAIL_MAX:
        text = f"{text[:HEAD_MAX]} … {text[-TAIL_MAX:]}"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def complain(program: str, error: Exception) -> None:
    settle_logs()
    if not is_read(sys.stderr):
        return
    for line in (*(str(error).splitlines() or [type(error).__name__]), *remedies(error)):
        print(f"{program}: {line}", file=sys.stderr, flush=True)


def remedies(error: Exception) -> Sequence[str]:
    """What helps a start that found no space: what is said to a server that runs, which goes on by itself, would not be true."""
    if not isinstance(error, DiskFull) or "free disk space" in str(error) or "no inodes left" in str(error):
        return ()
    if error.file and inodes_are_used_up(Path(error.file)):
        return (f"the file system of {error.file} has no inodes left (df -i): remove files there, or name another place, then start again",)
    return (f"free disk space where {error.file or 'it writes'} is, or name another place, then start again",)


def inodes_are_used_up(path: Path) -> bool:
    """Of its file system, which has free space. What is not there yet was to be in the nearest directory that is."""
    for place in (path, *path.absolute().parents):
        with contextlib.suppress(OSError):
            at = os.statvfs(place)
            return at.f_files > 0 and at.f_favail == 0 and at.f_bavail > 0  # btrfs counts none, and has no bound
    return False


def settle_logs() -> None:
    """What was logged before stands before what is said now; a reader that does not read is waited for a second."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def is_read(stream: TextIO) -> bool:
    """False for a pipe or terminal that is full and stays so for a second: a write would wait for its reader, maybe for ever."""
    try:
        waiting = select.poll()
        waiting.register(stream.fileno(), select.POLLOUT)
    except OSError:  # io.UnsupportedOperation: no file of the system
        return True
    return bool(waiting.poll(READ_WITHIN_MS))


def forget_output() -> None:
    """What standard output still holds, and what comes, goes nowhere: nobody takes it, and the interpreter would end us with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
