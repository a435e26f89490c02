"""What a configuration key is: name, kind, default, unit, limits, whether it may change while running, and a line of help.
RocketMQ: the fields of BrokerConfig, MessageStoreConfig, NamesrvConfig, NettyServerConfig … and MixAll.properties2Object (5.3.3, 5.5.0).

The tables are in keys_*.py, one row a key, made by the functions below. Everything else is made from them: parsing, checks, `-p`,
runtime updates, nearest names, docs/configuration.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LONG_MAX = 2**63 - 1


def home_directory() -> Path:
    """The user's home directory, or the working directory if there is none: in a container a process may have neither HOME nor an entry in
    /etc/passwd."""
    try:
        return Path.home()
    except RuntimeError:
        return Path.cwd()


Value = str | int | float | bool | None
Kind = Literal["text", "int", "long", "double", "boolean", "size"]


@dataclass(frozen=True, slots=True)
class Key:
    """One row of a table. `default` is a value, or a function without arguments that is called once per load (environment, host name, home
    directory)."""

    name: str
    kind: Kind
    default: Value | Callable[[], Value]
    help: str
    unit: str = ""
    least: float = 0
    most: float = 0
    options: tuple[str, ...] = ()
    pattern: str = ""
    live: bool = False
    """May change at run time with effect at once; others are kept for the next start."""
    live_among: tuple[str, ...] = ()
    """Options between which it may; to and from the others it waits for the next start."""
    important: bool = False
    """Printed by -m (RocketMQ: @ImportantField)."""
    idle: str = ""
    """Why a value is accepted and changes nothing here; empty for keys that work."""
    secret: bool = False
    """Neither shown nor logged: whoever connects may ask for the configuration."""

    @property
    def expected(self) -> str:
        """What a value must be, in words for the operator."""
        if self.kind == "boolean":
            return "true or false"
        if self.options:
            return "one of " + ", ".join(self.options)
        if self.kind == "text":
            return self.pattern_help or "text"
        if self.kind == "size":
            return f"bytes, or a number with k, m, g or t such as 512m, {int(self.least) >> 20}m or more"
        what = "a number" if self.kind == "double" else "a whole number"
        unit = f" of {self.unit}" if self.unit else ""
        limits = f", {self.least} or more" if self.most == LONG_MAX else f" from {self.least} to {self.most}"
        return what + unit + limits

    def changes_at_once(self, old: Value, new: Value) -> bool:
        return self.live or (old in self.live_among and new in self.live_among)

    @property
    def pattern_help(self) -> str:
        return _PATTERNS[self.pattern][1] if self.pattern else ""

    def parse(self, text: str) -> Value:
        """The value of a trimmed text. Raises ValueError that says what was expected."""
        value = _PARSERS[self.kind](text)
        if value is None or not self._admits(value):
            raise ValueError(f"expected {self.expected}")
        return value

    def format(self, value: Value) -> str:
        """The text of a value, as a .properties file and GET_BROKER_CONFIG show it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    def _admits(self, value: str | int | float) -> bool:
        if isinstance(value, str):
            if self.options and value not in self.options:
                return False
            return not self.pattern or re.fullmatch(_PATTERNS[self.pattern][0], value) is not None
        if isinstance(value, bool):
            return True
        return self.least <= value <= self.most


def _parse_whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text) else None


def _parse_double(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text) else None


def _parse_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def parse_size(text: str) -> int | None:
    """Bytes of a text in the notation of Java's memory options; the units are powers of 1024."""
    found = re.fullmatch(r"([0-9]{1,12})([kmgt]?)", text.lower())
    return int(found[1]) << 10 * " kmgt".index(found[2] or " ") if found else None


_PARSERS: dict[Kind, Callable[[str], str | int | float | bool | None]] = {
    "text": str,
    "int": _parse_whole,
    "long": _parse_whole,
    "double": _parse_double,
    "boolean": _parse_boolean,
    "size": parse_size,
}

_HOST = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)"
_PATTERNS: dict[str, tuple[str, str]] = {
    "addresses": (rf"({_HOST}:[0-9]{{1,5}}(\s*;\s*{_HOST}:[0-9]{{1,5}})*;?)?", 'addresses such as "127.0.0.1:9876;192.168.0.1:9876"'),
    "host": (rf"({_HOST}|[0-9A-Fa-f:.]+)?", "a host name or an IP address"),
    "advertise": (rf"({_HOST}(:[0-9]{{1,5}})?)?", "HOST or HOST:PORT"),
    "name": (r"[%|a-zA-Z0-9_.-]{1,127}", "a name of 1 to 127 characters out of letters, digits, % | _ - ."),
    "path": (r".+", "the path of a file or directory"),
    "hours": (r"([01]?[0-9]|2[0-3])(;([01]?[0-9]|2[0-3]))*;*", 'hours of the day such as "04" or "04;16"'),
    "levels": (r"[0-9]{1,9}[smhd]( +[0-9]{1,9}[smhd]){0,63}", 'delays such as "1s 5s 10s 1m 2h 1d"'),
    "peers": (r"([^-;]+-[^;]+:[0-9]{1,5}(;[^-;]+-[^;]+:[0-9]{1,5})*)?", 'members such as "n0-127.0.0.1:40911;n1-127.0.0.1:40912"'),
}


def text(
    name: str,
    default: str | Callable[[], Value] | None,
    help: str,
    *,
    pattern: str = "",
    live: bool = False,
    important: bool = False,
    idle: str = "",
    secret: bool = False,
) -> Key:
    return Key(name, "text", default, help, pattern=pattern, live=live, important=important, idle=idle, secret=secret)


def choice(
    name: str,
    default: str,
    options: str,
    help: str,
    *,
    live: bool = False,
    live_among: str = "",
    important: bool = False,
    idle: str = "",
) -> Key:
    among = tuple(live_among.split())
    return Key(name, "text", default, help, options=tuple(options.split()), live=live, live_among=among, important=important, idle=idle)


def switch(name: str, default: bool, help: str, *, live: bool = False, important: bool = False, idle: str = "") -> Key:
    return Key(name, "boolean", default, help, live=live, important=important, idle=idle)


def number(
    name: str,
    default: int | Callable[[], Value],
    help: str,
    unit: str = "",
    *,
    least: int = 0,
    most: int = 2**31 - 1,
    live: bool = False,
    important: bool = False,
    idle: str = "",
) -> Key:
    return Key(name, "int", default, help, unit, least, most, live=live, important=important, idle=idle)


def long(
    name: str,
    default: int | Callable[[], Value],
    help: str,
    unit: str = "",
    *,
    least: int = 0,
    live: bool = False,
    important: bool = False,
    idle: str = "",
) -> Key:
    return Key(name, "long", default, help, unit, least, LONG_MAX, live=live, important=important, idle=idle)


def double(
    name: str, default: float, help: str, unit: str = "", *, least: float = 0, most: float = 1e18, live: bool = False, idle: str = ""
) -> Key:
    return Key(name, "double", default, help, unit, least, most, live=live, idle=idle)


def size(name: str, default: Callable[[], Value], help: str, *, least: int) -> Key:
    return Key(name, "size", default, help, "bytes", least, LONG_MAX)


# Why a key of RocketMQ changes nothing here; said once at start for each that a file sets.
THREADS = "the work runs in reactors and one event loop, there is no such thread pool"
QUEUES = "there is no queue between threads to bound or to wait in; the request ring and the output bounds do that"
JAVA_IO = "a choice among Java's ways of doing I/O"
ROCKSDB = "there is no RocksDB store"
FILTER_BITS = "filters are evaluated when messages are pulled, nothing is computed ahead"
LITE_EVENTS = "each lite topic that a consumer reads and that has messages stands in its row, once: none is dropped or looked for"
LITE_LATENCY = "when messages were stored is read from the log, by who asks"
LITE_POP_LOG = "a pop writes no log line"
COMPACTION_THREADS = "one thread compacts, queue by queue"
LMQ_STATS = "light queues are counted by name, as topics are"
LMQ_QUOTA = "maxLmqConsumeQueueNum holds in any case"
COLD_LIMITS = "limits are cgColdReadThreshold and what operators set by updateColdDataFlowCtrGroupConfig"
COLD_PAGES = "the kernel is asked what memory holds, pull by pull"
CONTAINER = "there is no broker container"
ADDRESS_SERVER = "name server addresses come from namesrvAddr or NAMESRV_ADDR only"
