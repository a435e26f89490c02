"""Tables on standard output that lose nothing: names are not cut short, and a file or a pipe gets whole rows."""

from __future__ import annotations

import errno
import os
import sys

from rich.console import Console
from rich.table import Table

from .terminal import forget_output

FILE_WIDTH = 240


class Output(Console):
    """A console whose reader may have seen enough (`… | head`): an OSError like any other, where rich ends the process from within."""

    def on_broken_pipe(self) -> None:
        forget_output()
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def output() -> Console:
    """Standard output; what is not a terminal has room for whole rows."""
    return Output() if sys.stdout.isatty() else Output(width=FILE_WIDTH)


def table_of(*names: str) -> Table:
    """Columns whose long words go on in the next line: a file name cut short names no file."""
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")
    return table
