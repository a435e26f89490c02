"""`rocketpy config …`: what a configuration file says, before a server is started with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ..config import TABLES, Config, ConfigError, Problem, load_config
from .tables import output, table_of
from .terminal import EXIT_USAGE, complain, say

config_app = typer.Typer(help=__doc__, no_args_is_help=True)
DEFAULTS = "default"
PROXY = "proxy"
"""The role whose file is JSON, and read by the proxy itself."""

File = Annotated[Path, typer.Argument(help="A configuration file, RocketMQ's or ours.", show_default=False)]
RoleName = Annotated[str, typer.Option("--role", help=f"Whose file it is: {', '.join(TABLES)}.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@config_app.command()
def check(
    file: File, role: Annotated[str, typer.Option("--role", help=f"Whose file it is: {', '.join((*TABLES, PROXY))}.")] = "broker"
) -> None:
    """Say everything that is wrong with a file, and what in it has no effect. Exit 0 it would start, 2 it would not."""
    program = "rocketpy config check"
    if role not in (*TABLES, PROXY):
        raise typer.BadParameter(f"{role!r} is not one of {', '.join((*TABLES, PROXY))}", param_hint="--role")
    try:
        remarks = _remarks_of_proxy(file) if role == PROXY else _remarks_of_server(program, role, file)
    except ConfigError as error:
        complain(program, error)
        raise typer.Exit(EXIT_USAGE) from None
    for remark in remarks:
        say(remark)
    say(f"{file}: a {role} starts with it")


def _remarks_of_server(program: str, role: str, file: Path) -> list[str]:
    """Remarks on a server's file. Raises ConfigError, also for what only a start would notice: checks beyond the table of keys, in the
    environment of this shell."""
    from ..auth.settings import AuthSettings
    from ..remoting.tls import tls_settings

    if file.suffix == ".json":
        raise ConfigError([Problem("configFile", f"JSON is what a proxy reads: --role {PROXY}", str(file))])
    config = _loaded(program, role, file)
    if config.is_given("memory"):
        load_config(config.role, file)  # which judges by that
    remarks = config.remarks()
    problems: list[Problem] = []
    for read in (AuthSettings.of, tls_settings) if role == "broker" else (tls_settings,):
        try:
            read(config)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return remarks


def _remarks_of_proxy(file: Path) -> list[str]:
    """Remarks on a proxy's file. Raises ConfigError."""
    from ..proxy.settings import ANY_NAME_SERVER, load_settings
    from .proxy import take_log_config

    _, others = load_settings(file, {"namesrvAddr": ANY_NAME_SERVER}, {})
    take_log_config(others)
    return [f"{file}: without effect here: {', '.join(sorted(others))}"] if others else []


@config_app.command()
def auth(
    files: Annotated[list[Path], typer.Argument(help="broker.conf of masters and slaves, rmq-proxy.json of proxies.", show_default=False)],
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A broker's file that has the cluster's credentials, such as a copy from its host."),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Whose conf/tools.yml gets the first user, for mqadmin; default ROCKETMQ_HOME, or beside FILES; none with --from.",
        ),
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the first user, who may do everything; default admin.")] = None,
) -> None:
    """Let only known users in: make a first user, and credentials that servers know each other by, and write both into their files."""
    from .credential_files import set_up

    program = "rocketpy config auth"
    try:
        done = set_up(files, source, home, user)
    except ConfigError as error:
        complain(program, error)
        raise typer.Exit(EXIT_USAGE) from None
    for line in done.write():
        say(line)
    for line in done.next_steps():
        say(line)


@config_app.command()
def diff(
    file: File,
    other: Annotated[Path | None, typer.Argument(help="Another file; without it the defaults.", show_default=False)] = None,
    role: RoleName = "broker",
    as_json: AsJson = False,
) -> None:
    """Show the keys whose values are not the defaults, or not those of another file. Secrets are not shown, nor compared."""
    program = "rocketpy config diff"
    ours, theirs = (_loaded(program, role, path).shown() for path in (file, other))
    names = [name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]
    columns = (str(file), str(other) if other else DEFAULTS)
    if as_json:
        say(json.dumps({name: {"value": ours.get(name), "other": theirs.get(name)} for name in names}))
        return
    table = table_of("key", *columns)
    for name in names:
        table.add_row(name, escape(ours.get(name, "")), escape(theirs.get(name, "")))
    output().print(table)


def _loaded(program: str, role: str, file: Path | None) -> Config:
    """The configuration of the file. Ends the command if the file cannot be used."""
    if role not in TABLES:
        raise typer.BadParameter(f"{role!r} is not one of {', '.join(TABLES)}", param_hint="--role")
    try:
        return load_config(role, file, is_of_another_machine=True)
    except ConfigError as error:
        complain(program, error)
        raise typer.Exit(EXIT_USAGE) from None
