"""Numbers of the command line: each option has a range, and says so before its command does anything."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr
from typing import Any

import pytest
import typer

from rocketpy.cli.app import command_line

COMMAND: Any = typer.main.get_command(command_line(""))  # takes longer than to refuse a number


def numbers(command: Any = COMMAND, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """(the words of the command, the option, whether it may have a fraction) of each option that takes a number."""
    for name, below in getattr(command, "commands", {}).items():
        yield from numbers(below, (*path, name))
    for option in command.params:
        is_real = "float" in option.type.name
        if is_real or "int" in option.type.name:
            yield pytest.param(path, option, is_real, id=" ".join((*path, option.opts[0])))


@pytest.mark.parametrize(("words", "option", "is_real"), list(numbers()))
def test_an_option_that_takes_a_number_has_a_least_and_a_most(
    words: tuple[str, ...], option: Any, is_real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "9999")
    assert option.type.min is not None and option.type.max is not None
    for value in ("9" * 320, "-" + "9" * 320, "9" * 5000, *(("nan", "inf") if is_real else ())):
        with redirect_stderr(io.StringIO()) as said, pytest.raises(SystemExit) as ended:
            COMMAND.main([*words, f"{option.opts[0]}={value}"], prog_name="rocketpy")
        told = said.getvalue()
        assert (ended.value.code, "Invalid value for" in told, option.opts[0] in told) == (2, True, True), told[-500:]


def test_options_of_all_kinds_were_found() -> None:
    assert {"up --check", "bench send --queues", "bench both --rate", "store verify --slot-count"} <= {each.id for each in numbers()}
