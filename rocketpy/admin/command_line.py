"""The options that a command takes, and those that it was given. RocketMQ: ServerUtil over commons-cli's DefaultParser (5.5.0 srvutil/).

A command's options are words of a line: letter, mark, name. A letter may be missing or longer than one.

    t!topic        needed          r:readQueueNums   may be given       l+list    may be given, has no value
    b|brokerAddr   exactly one of those marked | is needed; p/password: of a second such group
    b?brokerAddr   at least one of those marked ? is needed; of several the first of the line counts

As with commons-cli, an option is written --name VALUE, --name=VALUE, -x VALUE, -xVALUE or -name VALUE, and a name may be cut down to a
beginning that no other name shares. Of an option that is given twice, the first counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import UsageError
from .meanings import MEANINGS

_WORD = re.compile(r"([A-Za-z]*)([!:+|/?])(\w+)")
_COMMON = "n:namesrvAddr h+help :output +yes :timeout +useTLS"


@dataclass(frozen=True, slots=True)
class Option:
    letter: str
    mark: str
    name: str

    @property
    def key(self) -> str:
        return self.letter or self.name

    @property
    def takes_value(self) -> bool:
        return self.mark != "+"

    @property
    def shown(self) -> str:
        return f"-{self.letter}/--{self.name}" if self.letter else f"--{self.name}"


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command of the table. handler: "module:function" of this package. asks: the question put to a person at a terminal before the
    command acts."""

    name: str
    summary: str
    handler: str
    line: str = ""
    asks: str = ""

    def options(self) -> list[Option]:
        """The command's own options, then those that all commands share, as far as their letters are not taken."""
        own = [Option(*match) for match in _WORD.findall(self.line)]
        taken = {option.letter for option in own} | {option.name for option in own}
        common = [Option(*match) for match in _WORD.findall(_COMMON)]
        if "o" not in taken:
            common = [Option("o", option.mark, option.name) if option.name == "output" else option for option in common]
        return own + [option for option in common if option.key not in taken and option.name not in taken]


class Given:
    """The options that were given, by letter, or by name for an option without a letter."""

    def __init__(self, values: dict[str, str], names: dict[str, str]) -> None:
        self._values = values
        self._names = names

    def has(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str, default: str = "") -> str:
        """The value without surrounding blanks."""
        return self._values.get(key, default).strip()

    def maybe(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def truth(self, key: str, default: bool = False) -> bool:
        """As Boolean.parseBoolean: everything except true is false."""
        return self.text(key).lower() == "true" if self.has(key) else default

    def number(self, key: str, default: int = 0, *, least: int | None = None) -> int:
        """Raises UsageError."""
        if not self.has(key):
            return default
        text = self.text(key)
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not -(1 << 63) <= int(text) < 1 << 63:
            raise UsageError(f"{self._names[key]}: {text!r} is not a whole number of 64 bits")
        if least is not None and int(text) < least:
            raise UsageError(f"{self._names[key]}: {text} is less than {least}")
        return int(text)

    def words(self, key: str, separator: str = ",") -> list[str]:
        """The parts of a list, without empty ones."""
        return [part.strip() for part in self.text(key).split(separator) if part.strip()]

    def named(self, key: str, what: str, separator: str = ",") -> list[str]:
        """The parts of a list that must not be empty. Raises UsageError."""
        found = self.words(key, separator)
        if not found:
            raise UsageError(f"{self._names[key]} names no {what}")
        return found

    def holds(self, text: str) -> bool:
        """Whether a value was given, by itself or as part of a list."""
        return any(text in map(str.strip, re.split("[;,]", value)) for value in self._values.values())

    def asked(self, question: str) -> str:
        """The question, with each {letter} replaced by the value given for it."""
        return re.sub(r"\{(\w+)\}", lambda match: self.text(match[1]), question)


def parse(command: CommandRow, words: Sequence[str]) -> Given:
    """Reads a command line. Raises UsageError. With -h no option is required."""
    options = command.options()
    values: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        option, value = _find(options, word)
        if option is None:
            raise UsageError(f"{word!r} is not an option of {command.name}")
        if not option.takes_value:
            values.setdefault(option.key, "true")
            if value:  # -ac as -a -c
                left.insert(0, f"-{value}")
            continue
        if value is None:
            if not left or _find(options, left[0])[0] is not None:
                raise UsageError(f"{option.shown} needs a value")
            value = left.pop(0)
        values.setdefault(option.key, value)
    if "h" not in values:
        _refuse_gaps(options, values)
    return Given(values, {option.key: option.shown for option in options})


def _find(options: Sequence[Option], word: str) -> tuple[Option | None, str | None]:
    """The option that a word stands for, and the value that it contains."""
    if not word.startswith("-") or len(word) < 2:
        return None, None
    name, equals, value = word.lstrip("-").partition("=")
    brought = value if equals else None
    if not word.startswith("--"):
        for option in options:
            if option.letter == name:
                return option, brought
    exact = [option for option in options if option.name == name]
    likely = exact or [option for option in options if name and option.name.startswith(name)]
    if len(likely) == 1:
        return likely[0], brought
    if not word.startswith("--"):
        for option in options:
            if len(option.letter) == 1 and word[1] == option.letter:
                return option, word[2:] or None
    return None, None


def _refuse_gaps(options: Sequence[Option], values: dict[str, str]) -> None:
    missing = [option.shown for option in options if option.mark == "!" and option.key not in values]
    if missing:
        raise UsageError(f"missing: {', '.join(missing)}")
    for mark in "|/?":
        group = [option for option in options if option.mark == mark]
        given = [option for option in group if option.key in values]
        names = " or ".join(option.shown for option in group)
        if group and not given:
            raise UsageError(f"missing: {names}")
        if mark != "?" and len(given) > 1:
            raise UsageError(f"only one of {names} can be given")


def usage(command: CommandRow) -> str:
    """What -h prints."""
    options = sorted(command.options(), key=lambda option: option.key.lower())
    parts = []
    for mark, form in (("!", "{}"), ("|", "({})"), ("/", "({})"), ("?", "({})")):
        group = [_synopsis(option) for option in options if option.mark == mark]
        if group:
            parts.append(form.format(" ".join(group) if mark == "!" else " | ".join(group)))
    parts += [f"[{_synopsis(option)}]" for option in options if option.mark in ":+"]
    width = max(len(_left(option)) for option in options)
    rows = [f" {_left(option):{width}}  {MEANINGS[option.name]}" for option in options]
    return "\n".join([command.summary, "", f"usage: rocketpy admin {command.name} {' '.join(parts)}", "", *rows]) + "\n"


def _synopsis(option: Option) -> str:
    flag = f"-{option.letter}" if option.letter else f"--{option.name}"
    return f"{flag} {option.name.upper()}" if option.takes_value else flag


def _left(option: Option) -> str:
    letter = f"-{option.letter}," if option.letter else "   "
    return f"{letter}--{option.name}{' ARG' if option.takes_value else ''}"
