"""What may be given to a command: commons-cli's forms, groups of options, what is refused and how."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from rocketpy.admin.command_line import CommandRow, parse, usage
from rocketpy.admin.commands import COMMANDS, LEFT_OUT, find_command
from rocketpy.admin.errors import UsageError
from rocketpy.admin.meanings import MEANINGS
from tests.processes import PATIENCE_S

COMMAND = CommandRow("try", "A trial.", "nowhere:nothing", "b|brokerAddr c|clusterName t!topic q:queue l+list bn:brokerName")


@pytest.mark.parametrize(
    "words",
    [
        ["-t", "T", "-b", "B"],
        ["--topic", "T", "--brokerAddr", "B"],
        ["--topic=T", "--brokerAddr=B"],
        ["-tT", "-bB"],
        ["-t=T", "-b=B"],
        ["--top", "T", "--brokerA", "B"],
        ["-topic", "T", "-brokerAddr", "B"],
        ["-t", " T ", "-b", "B", "-t", "another"],
    ],
)
def test_options_come_in_every_form_of_commons_cli(words: list[str]) -> None:
    given = parse(COMMAND, words)
    assert (given.text("t"), given.text("b"), given.has("c")) == ("T", "B", False)


def test_letters_of_two_characters_are_options_of_their_own() -> None:
    given = parse(COMMAND, ["-bn", "name", "-b", "B", "-t", "T", "-l"])
    assert (given.text("bn"), given.text("b"), given.has("l")) == ("name", "B", True)


def test_values_may_begin_with_a_dash() -> None:
    assert parse(COMMAND, ["-t", "-5", "-b", "B"]).text("t") == "-5"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-b", "B"], "missing: -t/--topic"),
        (["-t", "T"], "missing: -b/--brokerAddr or -c/--clusterName"),
        (["-t", "T", "-b", "B", "-c", "C"], "only one of -b/--brokerAddr or -c/--clusterName can be given"),
        (["-t"], "-t/--topic needs a value"),
        (["-t", "-b", "B"], "-t/--topic needs a value"),
        (["-t", "T", "-b", "B", "more"], "'more' is not an option of try"),
        (["-t", "T", "-b", "B", "--broker", "x"], "'--broker' is not an option of try"),
        (["-t", "T", "-b", "B", "-z"], "'-z' is not an option of try"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match="^" + said.replace("(", r"\(").replace("/", "/")):
        parse(COMMAND, words)


@pytest.mark.parametrize("text", ["x", "", "1.5", "9" * 30])
def test_numbers_are_whole_numbers(text: str) -> None:
    given = parse(COMMAND, ["-t", "T", "-b", "B", f"--queue={text}"])
    with pytest.raises(UsageError, match="-q/--queue"):
        given.number("q")


def test_every_command_explains_all_its_options() -> None:
    for command in COMMANDS:
        text = usage(command)
        assert text.startswith(command.summary)
        assert all(f"--{option.name}" in text and MEANINGS[option.name] for option in command.options())


def test_every_command_has_its_handler_and_no_option_twice() -> None:
    for command in COMMANDS:
        module, _, function = command.handler.partition(":")
        assert callable(getattr(import_module(f"rocketpy.admin.{module}"), function)), command.name
        keys = [option.key for option in command.options()]
        assert len(keys) == len(set(keys)), command.name


def test_questions_name_only_options_of_their_command() -> None:
    for command in COMMANDS:
        assert "{" not in parse(command, ["-h"]).asked(command.asks)


def test_commands_are_found_as_mqadmin_finds_them() -> None:
    found = find_command("TOPICLIST")
    assert found is not None and found.name == "topicList"
    assert find_command("nothing") is None
    assert not [name for name in LEFT_OUT if find_command(name)]


def test_json_has_the_letter_o_where_it_is_free() -> None:
    letters = {command.name: next(option.letter for option in command.options() if option.name == "output") for command in COMMANDS}
    assert letters["topicList"] == "o"
    assert letters["updateTopic"] == ""


def test_help_loads_neither_the_command_line_library_nor_a_client() -> None:
    """So it takes a tenth of a second more than the interpreter itself."""
    program = "import sys; from rocketpy.cli.admin import overview; overview(); print({'typer', 'asyncio', 'ssl'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stdout == "set()\n"
