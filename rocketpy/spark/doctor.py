"""`rocketpy spark doctor`: looks at what the sources need, and says how to mend each."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .._core.errors import RocketpyError

JAVA_MIN = 17


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    subject: str
    is_well: bool
    text: str
    remedy: str = ""


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    remedy = "apt-get install -y openjdk-17-jre-headless, or set JAVA_HOME"
    if program is None or not Path(program).exists():
        return Finding("Java", False, f"JAVA_HOME={home} has no bin/java" if home else "not found", remedy)
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=30)
    found = re.search(r'version "(\d+)', done.stderr)
    if found is None or int(found[1]) < JAVA_MIN:
        return Finding("Java", False, f"{program} is {found[1] if found else 'of an unknown version'}; Spark needs {JAVA_MIN}", remedy)
    return Finding("Java", True, f"{found[1]} at {program}")


def _pyspark() -> Finding:
    remedy = "pip install 'rocketpy-mq[spark]'"
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            return Finding("PySpark", False, f"{name} is not installed", remedy)
    import pyarrow
    import pyspark

    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < (4, 2):
        return Finding("PySpark", False, f"{pyspark.__version__}; 4.2 or later is needed", f"{remedy} -U")
    return Finding("PySpark", True, f"{pyspark.__version__}, pyarrow {pyarrow.__version__}")


def _worker_python() -> Finding:
    program = os.environ.get("PYSPARK_PYTHON", sys.executable)
    code = "import sys, rocketpy._core.arrow, pyarrow, pyspark; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    except OSError as error:
        return Finding("worker Python", False, f"PYSPARK_PYTHON={program}: {error.strerror}", "unset PYSPARK_PYTHON, or name a Python")
    if done.returncode != 0:
        cause = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed"
        return Finding("worker Python", False, f"{program}: {cause}", f"{program} -m pip install 'rocketpy-mq[spark]'")
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if done.stdout.strip() != mine:
        remedy = "use the same minor version: unset PYSPARK_PYTHON, or set it to the driver's"
        return Finding("worker Python", False, f"{program} is {done.stdout.strip()}, the driver is {mine}", remedy)
    return Finding("worker Python", True, f"{mine} at {program}")


def _name_server(address: str) -> Finding:
    from .cluster import Cluster, Endpoint

    try:
        topics = Cluster(Endpoint(tuple(re.split("[;,]", address)), 3.0, 0.0)).topics()
    except RocketpyError as error:
        return Finding("name server", False, str(error), "start one (rocketpy namesrv), or mend the address and the firewall")
    return Finding("name server", True, f"{address} knows {len(topics)} topics")


def _brokers(address: str) -> list[Finding]:
    """Whether every registered address can be reached from here, as executors must."""
    from .cluster import Cluster, Endpoint
    from .queue_read import connect

    cluster = Cluster(Endpoint(tuple(re.split("[;,]", address)), 3.0, 0.0))
    seen: dict[str, str] = {}
    try:
        for topic in cluster.topics()[:50]:
            for data in cluster.route(topic).broker_datas:
                seen |= {place: f"{data.broker_name} ({broker_id})" for broker_id, place in data.broker_addrs.items()}
    except RocketpyError:
        pass
    findings = []
    for place, name in sorted(seen.items()):
        try:
            os.close(connect(place, 3.0))
            findings.append(Finding("broker", True, f"{name} at {place}"))
        except RocketpyError as error:
            findings.append(Finding("broker", False, f"{name}: {error}", "brokerIP1 must be an address that executors can reach"))
    return findings


def examine(name_server: str | None) -> list[Finding]:
    looks: tuple[Callable[[], Finding], ...] = (_java, _pyspark, _worker_python)
    findings = [look() for look in looks]
    if name_server is not None:
        findings.append(_name_server(name_server))
        if findings[-1].is_well:
            findings += _brokers(name_server)
    return findings


def main(argv: list[str] | None = None) -> int:
    """0 healthy, 3 not."""
    import argparse

    parser = argparse.ArgumentParser(prog="rocketpy spark doctor", description="Look at what the Spark sources need.")
    parser.add_argument("-n", "--name-server", metavar="HOST:PORT", help="also look whether the cluster can be reached")
    findings = examine(parser.parse_args(argv).name_server)
    for finding in findings:
        sys.stdout.write(f"{'ok  ' if finding.is_well else 'FAIL'} {finding.subject}: {finding.text}\n")
        if finding.remedy:
            sys.stdout.write(f"     mend: {finding.remedy}\n")
    return 0 if all(finding.is_well for finding in findings) else 3
