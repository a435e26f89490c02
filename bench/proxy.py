"""`make bench-proxy`: RocketMQ's proxy 5.5.0 and ours in front of the same rocketpy broker. The same gRPC client sends through each of them
in turn, and then receives and acknowledges.

    load (Go) ── SendMessage, ReceiveMessage, AckMessage ── RocketMQ's proxy ─┐
              └─ the same ───────────────────────────────── rocketpy proxy ───┴─ broker (ASYNC_FLUSH)

The JVM is warmed up first. CPU time is that of the proxy's process. The messages that are received were sent through our proxy just before;
each is acknowledged by itself, as RocketMQ's clients do. Needs Go, and Java with the jars of tests/interop.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from rocketpy.testing import LocalRocketMQ
from tests.interop.proxies import SOURCES, OwnProxy, Proxy
from tests.interop.test_go_client import built

from .resources import cpu_seconds
from .termination import unwind_at_sigterm

TOPIC = "proxied"
READ_TOPIC, GROUP = "received", "readers"
WARM_UP_S = 20
FIGURES = ("rate", "p50_ms", "p99_ms", "cpu_us")


def run_load(load: Path, proxy: Proxy, senders: int, size: int, seconds: int) -> dict[str, float]:
    before_s = cpu_seconds(proxy.process.pid)
    seen = figures_of(load, proxy.address, TOPIC, senders, size, seconds)
    return {**seen, "cpu_us": (cpu_seconds(proxy.process.pid) - before_s) * 1e6 / (seen["rate"] * seconds)}


def figures_of(load: Path, *arguments: Any) -> dict[str, float]:
    """What the load program prints. Raises SystemExit when it fails."""
    done = subprocess.run([str(load), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{load.name} {' '.join(map(str, arguments))}: {done.stderr}")
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


def run_receive(load: Path, proxy: Proxy, feeder: Proxy, consumers: int, options: argparse.Namespace) -> dict[str, float]:
    """Sends the messages through the feeder, then receives them through the proxy."""
    fed = 0
    while fed < options.messages:
        sent = int(figures_of(load, feeder.address, READ_TOPIC, 32, options.size, 1)["calls"])
        if sent == 0:
            raise SystemExit(f"the proxy at {feeder.address} took no message for a second")
        fed += sent
    before_s = cpu_seconds(proxy.process.pid)
    seen = figures_of(load, "receive", proxy.address, READ_TOPIC, GROUP, consumers, options.batch, options.messages)
    return {**seen, "cpu_us": (cpu_seconds(proxy.process.pid) - before_s) * 1e6 / options.messages}


def compare(console: Console, what: str, found: dict[str, list[dict[str, float]]]) -> None:
    for figure in FIGURES:
        rows = {kind: [each[figure] for each in rounds] for kind, rounds in found.items()}
        ratios = [ours / theirs for ours, theirs in zip(rows["ours"], rows["theirs"], strict=True)]
        shown = "; ".join(f"{kind} {', '.join(f'{each:,.1f}' for each in values)}" for kind, values in rows.items())
        console.print(f"{what}, {figure}: {shown}; ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--senders", type=int, nargs="*", default=[1, 32])
    parser.add_argument("--consumers", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--messages", type=int, default=40_000, help="how many are received in a round")
    options = parser.parse_args()
    unwind_at_sigterm()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="rocketpy-bench-") as name, LocalRocketMQ() as rocketmq:
        home = Path(name)
        load = built("./load", home / "load", SOURCES / "go")
        for topic in (TOPIC, READ_TOPIC):
            rocketmq.make_topic(topic)
        proxies: dict[str, Any] = {"theirs": Proxy(home / "theirs", rocketmq.namesrv), "ours": OwnProxy(home / "ours", rocketmq.namesrv)}
        try:
            for proxy in proxies.values():
                proxy.start()
                run_load(load, proxy, 32, options.size, WARM_UP_S if type(proxy) is Proxy else 1)
            for senders in options.senders:
                found: dict[str, list[dict[str, float]]] = {kind: [] for kind in proxies}
                for _ in range(options.rounds):
                    for kind, proxy in proxies.items():
                        found[kind].append(run_load(load, proxy, senders, options.size, options.seconds))
                compare(console, f"{senders} senders", found)
            for consumers in options.consumers:
                for proxy in proxies.values():  # a new group begins with what is sent from now on; and the JVM is warmed up
                    run_receive(load, proxy, proxies["ours"], consumers, options)
                found = {kind: [] for kind in proxies}
                for _ in range(options.rounds):
                    for kind, proxy in proxies.items():
                        found[kind].append(run_receive(load, proxy, proxies["ours"], consumers, options))
                compare(console, f"{consumers} consumers", found)
        finally:
            for proxy in proxies.values():
                proxy.kill()


if __name__ == "__main__":
    main()
