"""The `rocketpy` command for people: help, completion and options by typer. Each command imports what it needs when it runs."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer

from .numbers import BODY_MAX, COUNT_MAX, PORT_MAX, real

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Apache RocketMQ's name server, broker, controller, proxy and mqadmin: a native data plane under a thin Python control plane.",
)

GROUPS: Final = ("bench", "config", "store")
"""Commands with commands of their own: each is a module of that name with a `<name>_app`."""

_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command()
def up(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where data lives; without it a temporary directory, removed at the end.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on and to register; with 0.0.0.0, every interface, this machine's address is registered.")
    ] = "127.0.0.1",
    namesrv_port: Annotated[
        int,
        typer.Option(min=-1, max=PORT_MAX, show_default=False, help="0 is a free one; default 9876 or, when that is taken, a free one."),
    ] = -1,
    broker_port: Annotated[
        int,
        typer.Option(min=-1, max=PORT_MAX, show_default=False, help="0 is a free one; default 10911 or, when that is taken, a free one."),
    ] = -1,
    check: Annotated[
        int, typer.Option(metavar="N", min=0, max=COUNT_MAX, help="Send N messages, consume and check every one, print figures, and end.")
    ] = 0,
    message_size: Annotated[int, typer.Option(min=40, max=BODY_MAX, help="Body bytes of --check.")] = 1024,
    flush: Annotated[str | None, typer.Option(help="ASYNC_FLUSH, the default, or SYNC_FLUSH.")] = None,
    json: Annotated[bool, typer.Option("--json", help="With --check: the figures as JSON.")] = False,
    proxy: Annotated[
        bool, typer.Option("--proxy", help="A proxy, too, for clients that speak gRPC: on 8081 or, when that is taken, a free port.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory to plan with, with --cluster of each broker, such as 512m; default the machine's, or less by its cgroup.",
        ),
    ] = None,
    cluster: Annotated[
        str, typer.Option(help="All brokers of conf/NAME (2m-2s-sync, 2m-2s-async, 2m-noslave, dledger) or of a directory, on free ports.")
    ] = "",
) -> None:
    """Start a name server and a broker, or a whole cluster, in this process."""
    from .up import STANDARD_PORT, UpOptions, run_up

    given = [name for name, is_given in (("--flush", flush), ("--broker-port", broker_port != STANDARD_PORT)) if is_given]
    if cluster and given:
        raise typer.BadParameter("not with --cluster: its files say how brokers flush, and their ports are free ones", param_hint=given)
    proxy_port = STANDARD_PORT if proxy else None
    flushes = flush or "ASYNC_FLUSH"
    options = UpOptions(directory, host, namesrv_port, broker_port, check, message_size, flushes, json, proxy_port, cluster, memory)
    raise typer.Exit(run_up(options))


@app.command(context_settings=_PASS_THROUGH)
def namesrv(context: typer.Context) -> None:
    """Run the name server: -c FILE, -p, --memory SIZE; as mqnamesrv."""
    from .servers import run_server

    raise typer.Exit(run_server("namesrv", context.args, "rocketpy namesrv"))


@app.command(context_settings=_PASS_THROUGH)
def broker(context: typer.Context) -> None:
    """Run the broker: -c FILE, -n ADDR, -p, -m, --memory SIZE; as mqbroker."""
    from .servers import run_server

    raise typer.Exit(run_server("broker", context.args, "rocketpy broker"))


@app.command("proxy", context_settings=_PASS_THROUGH)
def proxy_command(context: typer.Context) -> None:
    """Run the proxy for clients that speak gRPC: -n ADDR, -pc FILE, --memory SIZE; as mqproxy."""
    from .proxy import run_proxy

    raise typer.Exit(run_proxy(context.args, "rocketpy proxy"))


@app.command(context_settings=_PASS_THROUGH)
def admin(context: typer.Context) -> None:
    """Topics, groups, offsets, messages, brokers, users: mqadmin's commands, as mqadmin."""
    from .admin import run_admin

    raise typer.Exit(run_admin(context.args))


@app.command(context_settings=_PASS_THROUGH)
def controller(context: typer.Context) -> None:
    """Run the controller, which elects masters: -c FILE, -p, --memory SIZE; as mqcontroller."""
    from .servers import run_server

    raise typer.Exit(run_server("controller", context.args, "rocketpy controller"))


@app.command(context_settings=_PASS_THROUGH)
def spark(context: typer.Context) -> None:
    """Pipelines on Spark: lake, traffic, lag, dlq, transform, copy, audit; and doctor."""
    from .spark import run_spark

    raise typer.Exit(run_spark(context.args))


@app.command()
def doctor(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Store directory to look at; default ~/store or the home directory.")
    ] = None,
    place: Annotated[
        str,
        typer.Option("--from", metavar="client|server", help="client: whether this host reaches the servers of -n as clients do."),
    ] = "server",
    name_servers: Annotated[
        str, typer.Option("-n", "--namesrvAddr", metavar="ADDR", help="client: name servers, HOST[:9876];…; default NAMESRV_ADDR.")
    ] = "",
    proxies: Annotated[
        list[str] | None, typer.Option("--proxy", metavar="HOST[:8081]", help="client: a proxy's gRPC port, too; repeatable.")
    ] = None,
    timeout_s: Annotated[float | None, real("--timeout", least=0.001, told="client: seconds to wait for each step; default 3.")] = None,
    use_tls: Annotated[bool, typer.Option("--useTLS", help="client: speak TLS, as `rocketpy admin` does.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Look at this machine: kernel, CRC, syncs and io_uring, limits, disk, addresses; or at a cluster from here. Exit 0 healthy, 3 not."""
    if place not in ("client", "server"):
        raise typer.BadParameter(f"{place!r} is neither client nor server", param_hint="--from")
    if place == "server":
        given = {"-n": name_servers, "--proxy": proxies, "--timeout": timeout_s, "--useTLS": use_tls}
        if of_client := [name for name, value in given.items() if value]:
            raise typer.BadParameter("needs --from client", param_hint=of_client)
        from .doctor import run_doctor

        raise typer.Exit(run_doctor(directory, as_json=as_json))
    if directory is not None:
        raise typer.BadParameter("is of this machine, not with --from client", param_hint="--dir")
    from .client_doctor import ask_as_client

    raise typer.Exit(ask_as_client(name_servers, proxies or [], 3.0 if timeout_s is None else timeout_s, use_tls=use_tls, as_json=as_json))


@app.command()
def version() -> None:
    """Print the version."""
    from .version import print_version

    raise typer.Exit(print_version())


def command_line(asked: str) -> typer.Typer:
    """The command tree. Command groups take long to import: when `asked` names one of them, only that group is added."""
    for name in [asked] if asked in GROUPS else GROUPS:
        _add(name)
    return app


@cache  # once in a process
def _add(group: str) -> None:
    app.add_typer(getattr(import_module(f".{group}", __package__), f"{group}_app"), name=group)
