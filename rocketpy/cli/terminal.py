"""What a command prints: results on standard output; on standard error what went wrong, and what helps."""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Sequence
from typing import TextIO

from .._core.base import inodes_are_used_up
from .._core.errors import DiskFull

EXIT_USAGE = 2
"""The exit code for an invalid command line or configuration."""
READ_WITHIN_MS = 1000
"""So long a reader of ours may be busy with something else."""
RESUMES = ", writing resumes by itself"
"""What errors of the native core end with: true of a server that runs."""
REMEDIES = ("free disk space", "free space on its file system", "no inodes left")
"""What the text of an error says that names what helps against a full disk."""
HEAD_MAX, TAIL_MAX = 4096, 500
"""Characters of a text that others made: the longest path is whole, and so is what helps, which stands at the end."""


def say(line: str) -> None:
    """Prints one line for the operator, at once even if standard output is a file."""
    print(line, flush=True)


def printable(text: str) -> str:
    """Makes a text from elsewhere, such as a name from a server, fit into a line: it can neither end the line nor steer the terminal."""
    if len(text) > HEAD_MAX + TAIL_MAX:
        text = f"{text[:HEAD_MAX]} … {text[-TAIL_MAX:]}"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def text_of_end(error: Exception) -> str:
    """The text of an error that ends a process, or keeps it from its start: nothing resumes by itself then."""
    return str(error).replace(RESUMES, ", then start again")


def complain(program: str, error: Exception) -> None:
    settle_logs()
    if not is_read(sys.stderr):
        return
    for line in (*(text_of_end(error).splitlines() or [type(error).__name__]), *remedies(error)):
        print(f"{program}: {line}", file=sys.stderr, flush=True)


def remedies(error: Exception) -> Sequence[str]:
    """What to do about a start that found no space. The advice to a running server, which recovers by itself, would be wrong here."""
    if not isinstance(error, DiskFull) or any(remedy in str(error) for remedy in REMEDIES):
        return ()
    if error.file and inodes_are_used_up(error.file):
        return (f"the file system of {error.file} has no inodes left (df -i): remove files there, or name another place, then start again",)
    return (f"free disk space where {error.file or 'it writes'} is, or name another place, then start again",)


def settle_logs() -> None:
    """Flushes the logs, so that they stand before what is printed next. Waits a second for a reader that does not read."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def is_read(stream: TextIO) -> bool:
    """Whether a write would not block: False for a pipe or terminal that stays full for a second, because its reader may never come
    back."""
    try:
        waiting = select.poll()
        waiting.register(stream.fileno(), select.POLLOUT)
    except OSError:  # io.UnsupportedOperation: no file of the system
        return True
    return bool(waiting.poll(READ_WITHIN_MS))


def forget_output() -> None:
    """Sends what standard output still holds, and all later output, nowhere: nobody reads it, and the interpreter would end us with code
    120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
