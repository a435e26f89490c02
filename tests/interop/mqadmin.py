"""RocketMQ's own mqadmin, run inside the driver JVM, and its output in columns."""

from __future__ import annotations

import re
from concurrent.futures import Future

from .javaenv import Jvm

TROUBLE = re.compile(r"Exception\b|\bCODE: \d+|command not exist|error:", re.IGNORECASE)
"""mqadmin prints exceptions and goes on as if nothing had happened."""


class AdminError(AssertionError):
    """The command printed an exception."""


class MqAdmin:
    def __init__(self, jvm: Jvm, namesrv: str) -> None:
        self._jvm, self._namesrv = jvm, namesrv

    def begin(self, command: str, *arguments: str) -> Future[str]:
        return self._jvm.start("admin", args=[command, "-n", self._namesrv, *arguments])

    def text(self, command: str, *arguments: str) -> str:
        """What the command prints, whatever it is."""
        return self.begin(command, *arguments).result(60)

    def run(self, command: str, *arguments: str) -> str:
        return checked(self.text(command, *arguments), command)


def checked(printed: str, command: str = "") -> str:
    if TROUBLE.search(printed.replace("exceptionDesc=null", "")):
        raise AdminError(f"{command}: {printed}")
    return printed


def table(printed: str) -> list[dict[str, str]]:
    """Rows under a heading of #Names. A column reaches from its name's last character (numbers are right-aligned in some tables,
    texts left-aligned), so cells are taken by word position, which is enough where no cell but the last holds blanks."""
    lines = printed.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("#"))
    names = [each.strip() for each in lines[start].split("#")[1:]]
    rows = []
    for line in lines[start + 1 :]:
        if not line.strip() or line.startswith("-"):
            break
        cells = line.split(None, len(names) - 1)
        rows.append(dict(zip(names, (each.strip() for each in cells), strict=False)))
    return rows


def fields(printed: str, separator: str = ":") -> dict[str, str]:
    """Lines of "name : value" or "name = value"."""
    pairs = (line.split(separator, 1) for line in printed.splitlines() if separator in line)
    return {name.strip(): value.strip() for name, value in pairs}
