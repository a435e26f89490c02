"""What a server may say in its log during a soak. Everything else of level ERROR, and every traceback, is a fault."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

EXPECTED_ERRORS = (
    r"ha: slave \S+ dropped at acked offset -1: .* says it holds offset",  # garbage on the port for slaves, read as an offset
    r'logger=broker.pull msg="the topic soak-passing-topic-\d+ not exist',  # of this level in RocketMQ; its sends met a restart
)
"""Patterns of ERROR lines, each with its reason."""
LINE = re.compile(r'level=(?P<level>\w+) logger=(?P<logger>\S+) msg=(?P<text>"(?:[^"\\]|\\.)*"|\S+)')
TROUBLE = re.compile(r"Traceback|exception=|Exception ignored|was never (awaited|retrieved)|Task was destroyed|Segmentation|Assertion")
NUMBER = re.compile(r"\d+")


def unexpected(lines: Iterable[str]) -> list[str]:
    found = []
    for line in lines:
        parts = LINE.search(line)
        is_error = parts is not None and parts["level"] in ("ERROR", "CRITICAL")
        if TROUBLE.search(line) or (is_error and not any(re.search(pattern, line) for pattern in EXPECTED_ERRORS)):
            found.append(line.rstrip())
    return found


def kinds(lines: Iterable[str], level: str = "WARNING") -> Counter[str]:
    """How often what was said, numbers left out."""
    found: Counter[str] = Counter()
    for line in lines:
        parts = LINE.search(line)
        if parts is not None and parts["level"] == level:
            found[NUMBER.sub("N", parts["text"])[:160]] += 1
    return found


def log_lines(directory: Path) -> list[str]:
    """Of all files of a server, its output included."""
    paths = [*sorted((directory / "logs").glob("*.log*")), directory / "output.log"]
    return [line for path in paths if path.exists() for line in path.read_text(errors="replace").splitlines()]
