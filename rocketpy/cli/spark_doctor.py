"""`rocketpy spark doctor`: what rocketpy.spark needs. Outside of that package, which cannot be imported where PySpark is missing."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from .._core.errors import RocketpyError
from ..remoting.client import RemotingClient, split_address
from ..remoting.codes import RequestCode
from ..remoting.json_codec import read_object
from .doctor import Finding, print_findings

JAVA_MIN = 17
SPARK_PACKAGES = "'pyspark>=4.2' 'pyarrow>=18'"
TIMEOUT_S = 3.0
JAVA_TIMEOUT_S, PYTHON_TIMEOUT_S = 30, 120  # both are started on a busy machine too


def _why_not_run(error: OSError | subprocess.TimeoutExpired) -> str:
    return f"it did not answer within {error.timeout:g} s" if isinstance(error, subprocess.TimeoutExpired) else str(error.strerror)


def check_java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    remedy = "apt-get install -y default-jre-headless, or set JAVA_HOME"
    if program is None or not Path(program).exists():
        return Finding("Java", "bad", f"{f'JAVA_HOME={home} has no bin/java' if home else 'not found'}; {remedy}")
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=JAVA_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", "bad", f"{program}: {_why_not_run(error)}; {remedy}")
    found = re.search(r'version "(\d+)', done.stderr)
    if found is None or int(found[1]) < JAVA_MIN:
        return Finding("Java", "bad", f"{program} is {found[1] if found else 'of an unknown version'}, Spark needs {JAVA_MIN}; {remedy}")
    return Finding("Java", "ok", f"{found[1]} at {program}")


def check_pyspark() -> Finding:
    try:
        importlib.import_module("rocketpy.spark")
    except ImportError as error:  # it says what is missing and how to get it
        return Finding("PySpark", "bad", str(error))
    import pyarrow
    import pyspark

    return Finding("PySpark", "ok", f"{pyspark.__version__}, pyarrow {pyarrow.__version__}")


def check_worker_python() -> Finding:
    program = os.environ.get("PYSPARK_PYTHON", sys.executable)
    code = "import sys, rocketpy._core.arrow, pyarrow, pyspark; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False, timeout=PYTHON_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("worker Python", "bad", f"PYSPARK_PYTHON={program}: {_why_not_run(error)}; unset it, or name a Python")
    if done.returncode != 0:
        cause = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed"
        missing = "'.[spark]' in a clone of rocketpy" if "rocketpy" in cause else SPARK_PACKAGES
        return Finding("worker Python", "bad", f"{program}: {cause}; {program} -m pip install {missing}")
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if done.stdout.strip() != mine:
        remedy = "use the same minor version: unset PYSPARK_PYTHON, or set it to the driver's"
        return Finding("worker Python", "bad", f"{program} is {done.stdout.strip()}, the driver is {mine}; {remedy}")
    return Finding("worker Python", "ok", f"{mine} at {program}")


async def _broker_addresses(name_server: str) -> dict[str, str]:
    """The registered brokers: "broker (id)" by address."""
    async with RemotingClient(connect_timeout_s=TIMEOUT_S) as client:
        response = await client.call(name_server, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=TIMEOUT_S)
    table = read_object(response.body).get("brokerAddrTable") or {}
    return {address: f"{name} ({number})" for name, data in table.items() for number, address in data["brokerAddrs"].items()}


def check_broker(address: str, name: str) -> Finding:
    """Whether the broker can be reached from here, as the executors must reach it."""
    try:
        socket.create_connection(split_address(address), TIMEOUT_S).close()
    except (OSError, UnicodeError, RocketpyError) as error:
        return Finding("broker", "bad", f"{name} at {address}: {error}; brokerIP1 must be an address that executors can reach")
    return Finding("broker", "ok", f"{name} at {address}")


def check_cluster(name_servers: str) -> list[Finding]:
    """Tries the name servers in turn, then checks the brokers that the first one to answer knows."""
    findings = []
    for address in re.split("[;,]", name_servers):
        try:
            brokers = asyncio.run(_broker_addresses(address))
        except RocketpyError as error:
            remedy = "start it (rocketpy namesrv), or mend the address and the firewall"
            findings.append(Finding("name server", "bad", f"{error}; {remedy}"))
            continue
        findings.append(Finding("name server", "ok", f"{address} knows {len(brokers)} brokers"))
        return findings + [check_broker(place, name) for place, name in sorted(brokers.items())]
    return findings


def main(argv: list[str]) -> int:
    """Runs the checks. The exit code: 0 healthy, 3 not."""
    parser = argparse.ArgumentParser(prog="rocketpy spark doctor", description="Look at what the Spark sources need.")
    parser.add_argument("-n", "--name-server", metavar="HOST:PORT", help="also look whether the cluster can be reached")
    name_servers = parser.parse_args(argv).name_server
    findings = [check_java(), check_pyspark(), check_worker_python()]
    return print_findings(findings + (check_cluster(name_servers) if name_servers is not None else []))
