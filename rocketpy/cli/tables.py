"""Tables on standard output that lose nothing: names are not cut short, and a file or a pipe gets whole rows."""

from __future__ import annotations

import errno
import os
import sys

from rich.console import Console
from rich.table import Table

from .terminal import forget_output

FILE_WIDTH = 1 << 16
"""More than two paths of the longest kind."""


class Output(Console):
    """A console whose reader may stop reading (`… | head`). That is an OSError like any other here; rich would end the process from
    within."""

    def on_broken_pipe(self) -> None:
        forget_output()
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def output() -> Console:
    """Standard output. If it is not a terminal, a row may be FILE_WIDTH characters wide."""
    return Output() if sys.stdout.isatty() else Output(width=FILE_WIDTH)


def table_of(*names: str) -> Table:
    """A table whose columns wrap long words into the next line: a file name that is cut short is of no use."""
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")
    return table
