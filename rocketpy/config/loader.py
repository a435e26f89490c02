"""One process's configuration: read from a file and the command line, checked against the table, changed and shown at run time.
RocketMQ: NamesrvStartup, BrokerStartup, MixAll.properties2Object, remoting/Configuration (5.3.3).

RocketMQ drops values it cannot parse and keys it does not know without a word. Here a bad value ends the start with every bad line at once,
and an unknown key is kept (tools may read it back), reported once with the nearest known name. What there is to say about a file is kept
until the logs are open, which this file configures: report_remarks() says it.

Precedence  command line over file over environment over default.
Threads     one event loop. Rooms read what they need at start into their own frozen settings; live keys reach them through `subscribe`.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from .keys import Key, Value
from .keys_broker import BROKER_KEYS, FORMER_KEYS
from .keys_namesrv import AUTH_KEYS, CONTROLLER_KEYS, NAMESRV_KEYS
from .keys_network import CLIENT_KEYS, OWN_KEYS, TLS_KEYS, server_keys
from .keys_store import STORE_KEYS
from .memory import what_does_not_fit
from .properties import Entry, as_latin, edit_properties, escaped, format_properties, properties_text, read_properties, readable
from .rules import CHECKED, MISSING, check_rules, derive_values, path_doubt

log = logging.getLogger(__name__)

HIDDEN: Final = "******"
"""What is shown in place of a secret."""

Role = Literal["namesrv", "broker", "controller"]
MS_MAX = 2**32 - 1
COMMAND_LINE = "command line"


def _table(*sections: Iterable[Key]) -> dict[str, Key]:
    """The keys of a role by name. If two sections hold the same name, the first counts."""
    table: dict[str, Key] = {}
    for section in sections:
        for key in section:
            table.setdefault(key.name, key)
    return table


TABLES: dict[Role, dict[str, Key]] = {
    "namesrv": _table(NAMESRV_KEYS, server_keys(9876), CLIENT_KEYS, TLS_KEYS, OWN_KEYS, CONTROLLER_KEYS),
    "broker": _table(BROKER_KEYS, server_keys(10911), CLIENT_KEYS, TLS_KEYS, STORE_KEYS, AUTH_KEYS, OWN_KEYS),
    "controller": _table(CONTROLLER_KEYS, server_keys(9878), CLIENT_KEYS, TLS_KEYS, OWN_KEYS),
}

NAME_MAX: Final = 64
"""Characters of a name that nobody knows: more are not shown, and no key is near."""
NAMES_TOLD_MAX: Final = 10
SECRETS: Final = frozenset(name for table in TABLES.values() for name, key in table.items() if key.secret)
"""The secret keys of all roles: a broker's key in a name server's file, say, is kept and is still a secret."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a value is refused, and where it stands."""

    key: str
    message: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        place = f"{self.file}{line}: " if self.file else ""
        return f"{place}{self.key}: {self.message}"


class ConfigError(ValueError):
    """Every problem of a configuration. The start or the update does not happen."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Updated:
    """What became of an update."""

    waiting: tuple[str, ...] = ()
    """Keys that take effect at the next start."""
    notes: tuple[str, ...] = ()
    """Keys that change nothing here, that the next start will see otherwise, that do not exist: each with the reason."""
    changed: tuple[str, ...] = ()
    """Keys that are in force and were not."""

    def __str__(self) -> str:
        return self.told(is_stored=True)

    def told(self, *, is_stored: bool) -> str:
        """What to tell the operator; empty when everything is in force and stays so. `is_stored`: there is a file that the next start reads
        it from."""
        told: list[str] = []
        if self.waiting and is_stored:
            told.append(f"takes effect at the next start: {', '.join(self.waiting)}")
        elif self.waiting:
            told.append(f"without effect, as a start reads it and there is no file (-c) to keep it: {', '.join(self.waiting)}")
        if self.changed and not is_stored:
            told.append(f"lasts until this process ends, as there is no file (-c) to keep it: {', '.join(self.changed)}")
        return "; ".join([*told, *self.notes])


Listener = Callable[[Mapping[str, Value]], None]
"""Called with the live keys that changed and their new values."""


class Config:
    """The values of one role. Reading an unknown name raises KeyError: the table is the contract."""

    def __init__(self, role: Role, *, file: Path | None = None) -> None:
        self.role = role
        self.file = file
        self.table = TABLES[role]
        self.unknown: dict[str, str] = {}
        self.file_lock = asyncio.Lock()
        """Held by whoever writes an update into the file."""
        self._values: dict[str, Value] = {}
        self._stored: dict[str, Value] = {}  # what the next start will see, for keys that cannot change while running
        self._given: set[str] = set()
        self._read: set[str] = set()
        self._pinned: set[str] = set()  # set on the command line: a file read again does not change them
        self._given_values: dict[str, Value] = {}  # of keys whose value this process has replaced: what the file says of them
        self._listeners: list[Listener] = []
        self._is_running = False  # from now on a key that nobody has read is one that nobody reads
        self._remarks: list[tuple[int, str]] = []  # (level, text) until the logs are open
        for key in self.table.values():
            self._values[key.name] = key.default() if callable(key.default) else key.default

    # ---- reading ----

    def text(self, name: str) -> str:
        """The value of a text key, "" if it is not set."""
        value = self._value(name)
        assert value is None or isinstance(value, str), f"{name} is not a text key"
        return value or ""

    def integer(self, name: str) -> int:
        value = self._value(name)
        assert isinstance(value, int) and not isinstance(value, bool), f"{name} is not a whole number"
        return value

    def milliseconds(self, name: str, *, unit: int = 1) -> int:
        """A time for the native side, which counts milliseconds in 32 bits. RocketMQ accepts longer times; they are cut to 49 days, which
        is as good as for ever."""
        return min(self.integer(name) * unit, MS_MAX)

    def number(self, name: str) -> float:
        value = self._value(name)
        assert isinstance(value, (int, float)) and not isinstance(value, bool), f"{name} is not a number"
        return float(value)

    def boolean(self, name: str) -> bool:
        value = self._value(name)
        assert isinstance(value, bool), f"{name} is not a switch"
        return value

    def _value(self, name: str) -> Value:
        self._read.add(name)
        return self._values[name]

    def is_given(self, name: str) -> bool:
        """Whether a file, the command line or an update has set the key."""
        return name in self._given

    def addresses(self, name: str) -> list[str]:
        """The parts of an address list."""
        return [part.strip() for part in self.text(name).split(";") if part.strip()]

    def report_remarks(self) -> None:
        """Logs, once, the remarks on the file. To be called when the process has opened its logs."""
        for level, text in self._remarks:
            log.log(level, "%s", text)
        self._remarks.clear()

    def remarks(self) -> list[str]:
        """The remarks on the file, until report_remarks has logged them."""
        return [text for _, text in self._remarks]

    def report_unread(self) -> None:
        """Logs, once, which keys were changed and never read. To be called when all services of the process have started."""
        self._is_running = True
        changed = [name for name in self.unread() if not self._is_default(name)]
        if changed:
            log.warning("set, but nothing in this release uses them: %s", ", ".join(changed))

    def unread(self) -> list[str]:
        """Keys that were set and that nothing has read so far."""
        return [name for name in self.table if self._is_unread(name)]

    def _is_unread(self, name: str) -> bool:
        return name in self._given and name not in self._read | CHECKED and name not in MISSING and not self.table[name].idle

    def _is_default(self, name: str) -> bool:
        """Whether the key has its default value. An operator who changes one key through RocketMQ gets every key written into the file, so
        the ones that say what holds anyway are not worth a warning."""
        default = self.table[name].default
        return self._values[name] == (default() if callable(default) else default)

    # ---- setting ----

    def override(self, name: str, value: Value) -> None:
        """Sets a value that the process has worked out, such as the port behind listenPort=0. It is neither checked nor reported."""
        if name not in self.table:
            raise KeyError(name)
        self._given_values.setdefault(name, self._values[name])
        self._values[name] = value

    def parse(self, name: str, text: str) -> Value:
        """Checks one value. Raises ConfigError; an empty text stands for "not set" where the default is that."""
        key = self.table[name]
        stripped = text.strip()
        shown = HIDDEN if key.secret else repr(readable(stripped))
        if readable(stripped) != stripped:
            raise ConfigError([Problem(name, f"{shown} is not UTF-8")])
        if not stripped and key.kind == "text" and not key.default:
            return ""
        try:
            return key.parse(stripped)
        except ValueError as error:
            comment = "; a comment has to stand on a line of its own" if re.search(r"\s#", stripped) else ""
            raise ConfigError([Problem(name, f"{shown} is not valid: {error}{comment}")]) from None

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def update(self, changes: Mapping[str, str]) -> Updated:
        """Sets keys at run time: all of them or, with ConfigError, none. Live ones take effect at once, others are kept for the next start.

        Names that no table knows are left out, as RocketMQ does."""
        parsed = self._checked(changes)
        changed = {name: value for name, value in parsed.items() if self._values[name] != value}
        live = {name: value for name, value in changed.items() if self.table[name].changes_at_once(self._values[name], value)}
        self._values.update(live)
        waiting = [name for name in changed if name not in live]
        self._stored.update({name: value for name, value in parsed.items() if not self.table[name].live})
        self._given.update(parsed)
        for name in live:
            self._given_values.pop(name, None)
        for name, value in parsed.items():
            text = HIDDEN if self.table[name].secret else self.table[name].format(value)
            log.info("configuration changed: %s = %s%s", name, text, " (takes effect at the next start)" if name in waiting else "")
        if live:
            for listener in self._listeners:
                listener(live)
        idle = tuple(f"{name} has no effect: {reason}" for name in parsed if (reason := self._idle_reason(name)))
        for text in idle:
            log.warning("%s", text)
        pinned = (f"{name} is set on the command line, which wins at the next start" for name in parsed if name in self._pinned)
        ignored = self._ignored([name for name in changes if name not in self.table and name not in self.unknown])
        waiting = [name for name in waiting if name not in self._pinned and not self._idle_reason(name)]
        return Updated(tuple(waiting), (*idle, *pinned, *ignored), tuple(live))

    def _ignored(self, names: Sequence[str]) -> list[str]:
        told = [f"{name[:NAME_MAX]} is ignored: no such key{_suggestion(name, self.table)}" for name in names[:NAMES_TOLD_MAX]]
        told += [f"{len(names) - NAMES_TOLD_MAX} more are ignored"] if len(names) > NAMES_TOLD_MAX else []
        for text in told:
            log.warning("update of %s", text)
        return told

    def _checked(self, changes: Mapping[str, str]) -> dict[str, Value]:
        """The values of an update. Raises ConfigError with everything that is wrong with it."""
        parsed: dict[str, Value] = {}
        unknown: dict[str, str] = {}
        problems: list[Problem] = []
        for name, text in changes.items():
            if _is_hidden(name, text):
                continue
            if name in self.unknown:
                unknown[name] = text.strip()
            elif name in self.table:
                try:
                    parsed[name] = self.parse(name, text)
                except ConfigError as error:
                    problems += error.problems
        problems += [Problem(name, message) for name, message in self._broken_rules(parsed)]
        if problems:
            raise ConfigError(problems)
        self.unknown |= unknown
        return parsed

    def _broken_rules(self, parsed: Mapping[str, Value]) -> list[tuple[str, str]]:
        """The rules that would keep the next start from working. A rule that was broken before is no reason to refuse a change of something
        else."""
        before = self._values | self._given_values | self._stored  # what the process has worked out, the next start works out again
        known = set(check_rules(self.role, before))
        return [rule for rule in check_rules(self.role, {**before, **parsed}) if rule[0] in parsed or rule not in known]

    def _idle_reason(self, name: str) -> str:
        return self.table[name].idle or ("nothing in this release uses it" if self._is_running and self._is_unread(name) else "")

    def reload(self) -> Updated:
        """Reads the file again, for SIGHUP, and applies what has changed in it, as `update` does. Keys that are no longer in the file keep
        their value."""
        if self.file is None:
            return Updated()
        entries = {readable(entry.key): entry for entry in read_properties(properties_text(self.file.read_bytes()))}
        try:
            updated = self.update({name: entry.value for name, entry in entries.items() if self._differs(name, entry.value)})
        except ConfigError as error:
            lines = {name: entry.line for name, entry in entries.items()}
            raise ConfigError(replace(problem, file=str(self.file), line=lines.get(problem.key, 0)) for problem in error.problems) from None
        for name in entries.keys() - self.table.keys() - self.unknown.keys():
            self.unknown[name] = readable(entries[name].value.strip())
            _remark(self, name, f"{self.file}:{entries[name].line}")
        self.report_remarks()
        return updated

    def _differs(self, name: str, text: str) -> bool:
        """Whether the file's value of a key differs from what it was before, or from what an update has made of it since."""
        if name not in self.table or name in self._pinned:
            return False
        key, known = self.table[name], self._stored.get(name, self._given_values.get(name, self._values[name]))
        try:
            return key.format(self.parse(name, text)) != key.format(known)
        except ConfigError:
            return True

    # ---- showing ----

    def shown(self) -> dict[str, str]:
        """Every key that has a value, and the unknown ones, as GET_BROKER_CONFIG and GET_NAMESRV_CONFIG show them."""
        values = self._values | self._stored
        shown = {name: self._shown(name) for name in self.table if values[name] is not None}
        return self.unknown | dict.fromkeys(SECRETS & self.unknown.keys(), HIDDEN) | shown

    def format(self) -> str:
        """The body of GET_*_CONFIG: sorted key=value lines."""
        return format_properties(self.shown())

    def print_lines(self, *, important: bool = False) -> list[str]:
        """What -p (all) and -m (important) print."""
        return [
            f"{key.name}={self._shown(key.name)}"
            for key in self.table.values()
            if self._values[key.name] is not None and (key.important or not important)
        ]

    def stored_text(self, text: str, changes: Mapping[str, str]) -> str:
        """The configuration file's text after an update: only the changed keys differ, comments stay."""
        known = {
            name: value.strip()
            for name, value in changes.items()
            if (name in self.table or name in self.unknown) and not _is_hidden(name, value)
        }
        return edit_properties(text, known)

    def _shown(self, name: str) -> str:
        if self.table[name].secret:
            return HIDDEN
        return self.table[name].format(self._stored.get(name, self._values[name]))


def load_config(
    role: Role, file: str | Path | None = None, overrides: Mapping[str, str] | None = None, *, is_of_another_machine: bool = False
) -> Config:
    """The configuration of a role. Raises one ConfigError with every bad line; unknown and ineffective keys become remarks, once each.

    is_of_another_machine: values that do not fit into this machine's memory are remarks, too. An OSError of the file becomes a ConfigError
    that names it.
    """
    path = Path(file) if file is not None else None
    config = Config(role, file=path)
    problems: list[Problem] = []
    lines: dict[str, int] = {}
    foreign: dict[int, str] = {}
    for entry in _file_entries(path):
        name, line = readable(entry.key), entry.line
        if name in lines:
            _note(config, f"{path}:{line}: {name} was set in line {lines[name]} already; the later value counts")
        lines[name] = line
        if not entry.is_ascii and readable(entry.value) == entry.value:
            foreign[line] = entry.value
        _set(config, name, entry.value, str(path), line, problems)
    for name, text in (overrides or {}).items():
        lines.pop(name, None)
        config._pinned.add(name)
        _set(config, name, text, "", 0, problems)
    problems += _problems_of_environment(config)
    bad = {problem.key for problem in problems}
    unfit = what_does_not_fit(role, config._values) if is_of_another_machine else None
    for name, message in check_rules(role, config._values):
        if (name, message) == unfit:
            _note(config, f"{path}:{lines.get(name, 0)}: {name}: {message}; a start on this machine would be refused")
        elif name not in bad:
            problems.append(Problem(name, message, str(path) if name in lines else "", lines.get(name, 0)))
    if problems:
        raise ConfigError(problems)
    for name, line in lines.items():
        _remark(config, name, f"{path}:{line}")
        if line in foreign:
            _note(config, f"{path}:{line}: {_two_readings(name, foreign[line], is_shown=name not in SECRETS)}")
    for name in overrides or ():
        _remark(config, name, COMMAND_LINE)
    for name, value, reason in derive_values(role, config._values):
        if reason and config.is_given(name):
            _note(config, f"{name} = {config._values[name]} is replaced by {value}: {reason}")
        config.override(name, value)
    return config


def _file_entries(path: Path | None) -> list[Entry]:
    if path is None:
        return []
    try:
        return read_properties(properties_text(path.read_bytes()))
    except OSError as error:
        raise ConfigError([Problem("configFile", f"cannot be read: {error.strerror}", str(path), 0)]) from error


def _set(config: Config, name: str, text: str, file: str, line: int, problems: list[Problem]) -> None:
    if name not in config.table:
        config.unknown[name] = readable(text.strip())
        return
    try:
        config._values[name] = config.parse(name, text)
        config._given.add(name)
    except ConfigError as error:
        problems += [Problem(problem.key, problem.message, file, line) for problem in error.problems]


def _problems_of_environment(config: Config) -> list[Problem]:
    """NAMESRV_ADDR is checked like a line of the file."""
    name = "namesrvAddr"
    if name in config._given or not config._values.get(name):
        return []
    try:
        config.parse(name, str(config._values[name]))
    except ConfigError as error:
        return [Problem(name, f"{problem.message} (the environment's NAMESRV_ADDR)") for problem in error.problems]
    return []


def _note(config: Config, text: str, level: int = logging.WARNING) -> None:
    config._remarks.append((level, text))


def _remark(config: Config, name: str, place: str) -> None:
    """Notes, once, that a key of the file has no effect, or another one than its author may expect."""
    if name in config.table:
        key = config.table[name]
        if key.idle and not config._is_default(name):
            _note(config, f"{place}: {name} has no effect: {key.idle}", logging.INFO)
        shown = key.format(config._values[name])  # not by text(), which would count it as used
        if name.startswith("storePath") and (doubt := path_doubt(shown)):
            _note(config, f"{place}: {name}={shown} {doubt}")
        return
    if config.role == "broker" and name in FORMER_KEYS:
        default, advice = FORMER_KEYS[name]
        if config.unknown[name] != default:
            _note(config, f"{place}: {name} is a key of RocketMQ 4, kept without effect: {advice}")
        return
    if name == "brokerConfigPaths":
        _note(config, f"{place}: {name} is a key of mqbrokercontainer's, without effect here: start a broker for each of the files")
        return
    for role, table in TABLES.items():
        if name in table:
            _note(config, f"{place}: {name} is a key of the {role}, not of the {config.role}; it is kept and has no effect")
            return
    _note(config, f"{place}: unknown key {name} is kept and has no effect{_suggestion(name, config.table)}")


def _two_readings(name: str, value: str, *, is_shown: bool) -> str:
    if not is_shown:
        return (
            f"{name} has characters beyond ASCII: they are read as UTF-8 here and as ISO-8859-1 by RocketMQ, which sees another value; "
            "written as \\uXXXX they are the same for both"
        )
    return (
        f"{name} is {value!r} here, where files are UTF-8, and {as_latin(value)!r} for RocketMQ, which reads ISO-8859-1; "
        f"{name}={escaped(value)} is the same for both"
    )


def _is_hidden(name: str, text: str) -> bool:
    """Whether a value is the placeholder that `shown` has for a secret, sent back by a tool that read it. The secret then stays as it
    is."""
    return name in SECRETS and text.strip() == HIDDEN


def _suggestion(name: str, table: Mapping[str, Key]) -> str:
    """ "; did you mean brokerIP1?", or nothing if no known name is similar."""
    if len(name) > NAME_MAX:
        return ""
    lowered = {known.lower(): known for known in table}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.85)
    return f"; did you mean {lowered[near[0]]}?" if near else ""
