"""`make bench-proxy`: RocketMQ's proxy 5.5.0 and ours before the same rocketpy broker, alternately, asked to send by the same gRPC client.

    load (Go) ── SendMessage ── RocketMQ's proxy ─┐
              └─ SendMessage ── rocketpy proxy ───┴─ broker

A JVM is warmed up first. CPU is that of the proxy's process. Needs Go, and Java with the jars of tests/interop.
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

TOPIC = "proxied"
WARM_UP_S = 20
FIGURES = ("rate", "p50_ms", "p99_ms", "cpu_us")


def run_load(load: Path, proxy: Proxy, senders: int, size: int, seconds: int) -> dict[str, float]:
    before_s = cpu_seconds(proxy.process.pid)
    command = [str(load), proxy.address, TOPIC, f"{senders}", f"{size}", f"{seconds}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seen: dict[str, float] = json.loads(done.stdout)
    return {**seen, "cpu_us": (cpu_seconds(proxy.process.pid) - before_s) * 1e6 / (seen["rate"] * seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 32])
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="rocketpy-bench-") as name, LocalRocketMQ() as rocketmq:
        home = Path(name)
        load = built("./load", home / "load", SOURCES / "go")
        rocketmq.make_topic(TOPIC)
        proxies: dict[str, Any] = {"theirs": Proxy(home / "theirs", rocketmq.namesrv), "ours": OwnProxy(home / "ours", rocketmq.namesrv)}
        try:
            for proxy in proxies.values():
                proxy.start()
                run_load(load, proxy, max(options.senders), options.size, WARM_UP_S if type(proxy) is Proxy else 1)
            for senders in options.senders:
                found: dict[str, list[dict[str, float]]] = {kind: [] for kind in proxies}
                for _ in range(options.rounds):
                    for kind, proxy in proxies.items():
                        found[kind].append(run_load(load, proxy, senders, options.size, options.seconds))
                for figure in FIGURES:
                    rows = {kind: [each[figure] for each in rounds] for kind, rounds in found.items()}
                    ratios = [ours / theirs for ours, theirs in zip(rows["ours"], rows["theirs"], strict=True)]
                    shown = "; ".join(f"{kind} {', '.join(f'{each:,.1f}' for each in values)}" for kind, values in rows.items())
                    console.print(
                        f"{senders} senders, {figure}: {shown}; ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                    )
        finally:
            for proxy in proxies.values():
                proxy.kill()


if __name__ == "__main__":
    main()
