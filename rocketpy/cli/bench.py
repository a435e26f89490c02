"""`rocketpy bench send|pull|both`: the native load generator against any RocketMQ-compatible broker.

Every setting of a run is an option here; the commands differ only in which options make sense. What they have in common is in run_bench.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from .numbers import BODY_MAX, COUNT_MAX, INT_MAX, RATE_MAX, real

if TYPE_CHECKING:
    from .._core.options import LoadOptions

bench_app = typer.Typer(no_args_is_help=True, help="Measure a broker: sends, pulls, or both at once with every message checked.")

SEND, PULL, BOTH = 1, 2, 3
MODE_NAMES = {SEND: "send", PULL: "pull", BOTH: "send and pull"}
ENCODINGS = {"JSON": 0, "ROCKETMQ": 1}
PULL_FROM = {"MIN": 0, "MAX": 1}

Namesrv = Annotated[str, typer.Option("--namesrv", "-n", help="Name servers, HOST:PORT;HOST:PORT.")]
Address = Annotated[str | None, typer.Option("--address", "-a", help="A broker's HOST:PORT instead of asking a name server.")]
BrokerName = Annotated[str | None, typer.Option("--broker", help="Which of the topic's brokers; default the first.")]
Topic = Annotated[str, typer.Option("--topic", "-t", help="Topic; created with --queues queues when it does not exist.")]
Queues = Annotated[
    int, typer.Option("--queues", "-q", min=1, max=INT_MAX, help="Queues of a topic that is created or reached by --address.")
]
NoCreate = Annotated[bool, typer.Option("--no-create", help="Fail when the topic does not exist.")]
Connections = Annotated[
    int, typer.Option("--connections", "-c", min=1, max=INT_MAX, help="Connections, each a producer or a reader of its own.")
]
InFlight = Annotated[int, typer.Option("--in-flight", "-i", min=1, max=INT_MAX, help="Requests under way on each sending connection.")]
Size = Annotated[int, typer.Option("--size", "-s", min=40, max=BODY_MAX, help="Body bytes.")]
Count = Annotated[int, typer.Option("--count", min=0, max=COUNT_MAX, help="Messages after the warm-up; 0: no limit.")]
Duration = Annotated[float, real("--duration", "-d", told="Measured seconds; 0: no limit. Default 10 without --count.")]
WarmUp = Annotated[float, real("--warm-up", "-w", told="Seconds of the same load before measuring.")]
Rate = Annotated[
    float, real("--rate", "-r", most=RATE_MAX, told="Open loop: messages a second, latency from the intended time. 0: closed loop.")
]
Encoding = Annotated[str, typer.Option("--encoding", "-e", help="Header encoding: JSON or ROCKETMQ.")]
Code = Annotated[int, typer.Option("--code", min=0, max=INT_MAX, help="Send request: 310, 10, or 320 with --batch.")]
Batch = Annotated[int, typer.Option("--batch", min=1, max=INT_MAX, help="Messages in a 320 request.")]
Threads = Annotated[int, typer.Option("--threads", min=1, max=INT_MAX, help="Threads of the generator.")]
Tags = Annotated[str | None, typer.Option("--tags", help="TAGS property of what is sent.")]
PullBatch = Annotated[int, typer.Option("--pull-batch", min=1, max=INT_MAX, help="maxMsgNums of a pull.")]
Group = Annotated[str | None, typer.Option("--group", "-g", help="Producer or consumer group.")]
Timeout = Annotated[float, real("--timeout", least=0.001, told="Seconds a request may take.")]
Spin = Annotated[int, typer.Option("--spin-us", min=0, max=INT_MAX, help="Poll this long after an event before sleeping.")]
Reconnect = Annotated[float, real("--reconnect", told="Seconds a broken connection is tried again; each break is an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print OpenMessaging Benchmark's result fields instead of tables.")]
Ordered = Annotated[bool, typer.Option("--ordered", help="Check that a producer's messages keep their order within a queue.")]


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Where to send to, and the options of the run (csrc/load/load.h)."""

    load: LoadOptions
    namesrv: str
    address: str | None
    broker_name: str | None
    queues: int
    create: bool
    json: bool
    save_ledger: str | None = None
    workload: str = field(default="")


def number_of(table: dict[str, int], text: str, option: str) -> int:
    value = table.get(text.upper())
    if value is None:
        raise typer.BadParameter(f"{text}: one of {', '.join(table)}", param_hint=option)
    return value


def times(count: int, duration_s: float, warm_up_s: float, timeout_s: float, reconnect_s: float) -> LoadOptions:
    duration_s = 10.0 if count == 0 and duration_s == 0 else duration_s
    return {
        "count": count,
        "duration_ms": int(duration_s * 1000),
        "warm_up_ms": int(warm_up_s * 1000),
        "request_timeout_ms": int(timeout_s * 1000),
        "reconnect_timeout_ms": int(reconnect_s * 1000),
    }


@bench_app.command()
def send(
    namesrv: Namesrv = "127.0.0.1:9876",
    address: Address = None,
    broker: BrokerName = None,
    topic: Topic = "bench",
    queues: Queues = 16,
    no_create: NoCreate = False,
    connections: Connections = 64,
    in_flight: InFlight = 1,
    size: Size = 1024,
    count: Count = 0,
    duration: Duration = 0,
    warm_up: WarmUp = 0,
    rate: Rate = 0,
    encoding: Encoding = "JSON",
    code: Code = 310,
    batch: Batch = 1,
    threads: Threads = 1,
    tags: Tags = None,
    group: Group = None,
    timeout: Timeout = 3,
    reconnect: Reconnect = 0,
    spin_us: Spin = 0,
    ledger: Annotated[str | None, typer.Option("--ledger", help="Save which message was acknowledged where, for a later pull.")] = None,
    json: Json = False,
) -> None:
    """Send as fast as the loop allows, or at --rate."""
    load: LoadOptions = {
        "mode": SEND,
        "topic": topic,
        "connections": connections,
        "in_flight": in_flight,
        "message_size": size,
        "rate": rate,
        "serialize_type": number_of(ENCODINGS, encoding, "--encoding"),
        "send_code": 320 if batch > 1 else code,
        "batch_size": batch,
        "threads": threads,
        "tags": tags,
        "producer_group": group,
        "spin_us": spin_us,
        "keep_ledger": int(ledger is not None),
        **times(count, duration, warm_up, timeout, reconnect),
    }
    raise typer.Exit(run_bench(BenchOptions(load, namesrv, address, broker, queues, not no_create, json, ledger)))


@bench_app.command()
def pull(
    namesrv: Namesrv = "127.0.0.1:9876",
    address: Address = None,
    broker: BrokerName = None,
    topic: Topic = "bench",
    queues: Queues = 16,
    connections: Connections = 16,
    size: Size = 1024,
    count: Count = 0,
    duration: Annotated[float, real("--duration", "-d", told="Measured seconds; 0: until every queue is read.")] = 0,
    warm_up: WarmUp = 0,
    pull_batch: PullBatch = 32,
    encoding: Encoding = "JSON",
    threads: Threads = 1,
    group: Group = None,
    timeout: Timeout = 3,
    reconnect: Reconnect = 0,
    spin_us: Spin = 0,
    start: Annotated[str, typer.Option("--from", help="MIN or MAX offset of each queue.")] = "MIN",
    repeat: Annotated[bool, typer.Option("--repeat", help="Begin a queue again at its end, until --count or --duration.")] = False,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Look at offsets only, not at CRC and bodies.")] = False,
    ordered: Ordered = False,
    ledger: Annotated[str | None, typer.Option("--ledger", help="Check against what `send --ledger` saved.")] = None,
    json: Json = False,
) -> None:
    """Read every queue and check what comes."""
    limits = times(count, duration, warm_up, timeout, reconnect)
    limits["duration_ms"] = int(duration * 1000)
    load: LoadOptions = {
        "mode": PULL,
        "topic": topic,
        "connections": connections,
        "message_size": size,
        "pull_batch": pull_batch,
        "pull_start": number_of(PULL_FROM, start, "--from"),
        "serialize_type": number_of(ENCODINGS, encoding, "--encoding"),
        "threads": threads,
        "consumer_group": group,
        "spin_us": spin_us,
        "repeat": int(repeat),
        "skip_verify": int(no_verify),
        "check_order": int(ordered),
        "ledger_path": ledger,
        **limits,
    }
    raise typer.Exit(run_bench(BenchOptions(load, namesrv, address, broker, queues, False, json)))


@bench_app.command()
def both(
    namesrv: Namesrv = "127.0.0.1:9876",
    address: Address = None,
    broker: BrokerName = None,
    topic: Topic = "bench",
    queues: Queues = 16,
    no_create: NoCreate = False,
    connections: Connections = 16,
    in_flight: InFlight = 1,
    pull_connections: Annotated[
        int, typer.Option("--pull-connections", min=1, max=INT_MAX, help="Reading connections; queues are dealt to them.")
    ] = 4,
    size: Size = 1024,
    count: Count = 0,
    duration: Duration = 0,
    warm_up: WarmUp = 0,
    rate: Rate = 0,
    encoding: Encoding = "JSON",
    code: Code = 310,
    batch: Batch = 1,
    pull_batch: PullBatch = 32,
    threads: Threads = 1,
    tags: Tags = None,
    timeout: Timeout = 3,
    reconnect: Reconnect = 0,
    spin_us: Spin = 0,
    ordered: Ordered = False,
    json: Json = False,
) -> None:
    """Send and read at once; every acknowledged message must come back once, whole, where it was acknowledged."""
    load: LoadOptions = {
        "mode": BOTH,
        "topic": topic,
        "connections": connections,
        "pull_connections": pull_connections,
        "in_flight": in_flight,
        "message_size": size,
        "rate": rate,
        "serialize_type": number_of(ENCODINGS, encoding, "--encoding"),
        "send_code": 320 if batch > 1 else code,
        "batch_size": batch,
        "pull_batch": pull_batch,
        "threads": threads,
        "tags": tags,
        "spin_us": spin_us,
        "check_order": int(ordered or in_flight == 1),
        **times(count, duration, warm_up, timeout, reconnect),
    }
    raise typer.Exit(run_bench(BenchOptions(load, namesrv, address, broker, queues, not no_create, json)))


def describe(load: LoadOptions, address: str) -> str:
    """One line that says what is measured, printed above the table."""
    mode = load["mode"]
    shape = f"{load['connections']} connections" + ("" if mode == PULL else f" x {load['in_flight']} in flight")
    loop = f", open loop at {load['rate']:,.0f}/s" if load.get("rate") else ""
    return (
        f"{MODE_NAMES[mode]}: {shape}, {load['message_size']} bytes, {load['queue_count']} queues, topic {load['topic']} at {address}{loop}"
    )


def run_bench(options: BenchOptions) -> int:
    """Runs the benchmark. The exit code: 0 when nothing failed and nothing was refused."""
    from .._core.errors import InvalidArgument, NetworkError, RocketpyError
    from .._core.load import Load
    from .bench_report import is_good, print_result, refusal, to_json, watch
    from .bench_target import find_target
    from .terminal import EXIT_USAGE, complain, say

    load_options = options.load
    try:
        target = find_target(
            options.address,
            options.namesrv,
            load_options["topic"] or "",
            options.queues,
            broker_name=options.broker_name,
            create=options.create,
        )
        load_options = {**load_options, "address": target.address, "queue_count": target.queues}
        title = describe(load_options, target.address)
        started = time.time()
        with Load(**load_options) as load:
            load.start()
            samples = watch(load, title, quiet=options.json)
            result = load.result()
            if options.save_ledger is not None:
                load.save_ledger(options.save_ledger)
            if options.json:
                readers = load_options.get("pull_connections", 0) if load_options["mode"] == BOTH else load_options["connections"]
                extra = {
                    "workload": title,
                    "producers": 0 if load_options["mode"] == PULL else load_options["connections"],
                    "consumers": 0 if load_options["mode"] == SEND else readers,
                }
                say(json.dumps(to_json(result, samples, load.percentile, {**load_options, **extra}, started)))
            else:
                print_result(result, title)
            if load_options["mode"] != PULL and (answer := refusal(result)):
                complain("rocketpy bench", RocketpyError(f"{target.address} refused every send: {answer}; -a names a broker"))
    except NetworkError as error:
        complain("rocketpy bench", NetworkError(f"{error}; is it running there? -n names the name servers, -a a broker"))
        return 1
    except RocketpyError as error:
        complain("rocketpy bench", error)
        return EXIT_USAGE if isinstance(error, InvalidArgument) else 1
    return 0 if is_good(result) else 1
