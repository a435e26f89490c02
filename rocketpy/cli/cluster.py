"""`rocketpy up --cluster NAME`: every broker of a sample deployment (conf/2m-2s-sync and its like) in this process, on free ports.

The files are read as they are; only addresses, ports and directories are replaced, so what is tried here is what will be deployed. The
members of a DLedger group (conf/dledger) find one another at ports of this trial. When an operator changes a broker's configuration, the
broker writes it to its file. Here that file is a copy in the trial's directory, and it is used from then on, until the deployment's own
file changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .._core.errors import NotFound
from ..broker.listen_ports import free_port
from ..config import Config, join_address, load_config, registered_host
from ..dledger.settings import parse_peers
from ..remoting.listen_address import numeric_address

PACKAGE = Path(__file__).resolve().parents[1]
SAMPLES = PACKAGE / "conf" if (PACKAGE / "conf").is_dir() else PACKAGE.parent / "conf"
"""Inside the package if that is installed, beside it in a source tree."""
FILES = ("*.properties", "*.conf")
"""Patterns of brokers' files; the second one counts if the first matches none."""
DEPLOYED_ELSEWHERE = (
    "storePathCommitLog",
    "namesrvAddr",
    "advertise",
    "advertiseHa",
    "haMasterAddress",
    "metricsPromExporterHost",
    "metricsGrpcExporterTarget",
)
"""Directories and addresses of the deployment that a broker does without: a trial keeps its hands off them."""


def deployment_files(name: str) -> list[Path]:
    """The brokers' configuration files of a deployment, by broker. `name` is a directory, or the name of one in conf/. Raises NotFound."""
    directory = Path(name) if Path(name).is_dir() else SAMPLES / name
    files = _broker_files(directory)
    if not files:
        known = ", ".join(sorted(path.name for path in SAMPLES.glob("*") if _broker_files(path))) or "none installed"
        raise NotFound(f"no deployment {name!r}: name a directory of brokers' files, or one of {known}", file=str(directory))
    return files


def _broker_files(directory: Path) -> list[Path]:
    return next((files for pattern in FILES if (files := sorted(directory.glob(pattern)))), [])


def cluster_configs(name: str, host: str, directory: Path, keys: Mapping[str, str] | None = None) -> list[Config]:
    """One configuration per broker, masters first. `keys` are set in each of them. Raises NotFound, ConfigError, and what _settle_groups
    raises."""
    configs = []
    for path in deployment_files(name):
        copy = directory / "conf" / path.name
        is_current = copy.exists() and copy.stat().st_mtime_ns >= path.stat().st_mtime_ns
        overrides = {
            "bindAddress": host,
            "brokerIP1": registered_host(host),
            "brokerIP2": registered_host(host),
            "listenPort": "0",
            "haListenPort": "0",
            "metricsPromExporterPort": "0",
            "storePathRootDir": str(directory / path.stem),
            **dict.fromkeys(DEPLOYED_ELSEWHERE, ""),
            **(keys or {}),
        }
        config = load_config("broker", copy if is_current else path, overrides)
        if not is_current:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
            os.utime(copy, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        config.file = copy
        configs.append(config)
    _settle_groups(configs, host)
    return sorted(configs, key=lambda config: config.integer("brokerId"))


def _settle_groups(configs: list[Config], host: str) -> None:
    """Gives the members of DLedger groups free ports of this host, and tells each of them the addresses of all. Raises InvalidArgument for
    a malformed list of members, NetworkError."""
    addresses: dict[tuple[str, str], str] = {}
    for config in configs:
        if not config.boolean("enableDLegerCommitLog"):
            continue
        given, group = config.text("dLegerPeers"), config.text("dLegerGroup")
        members = parse_peers(given)
        for member in members:
            if (group, member) not in addresses:
                port = free_port(numeric_address("bindAddress", host))
                addresses[group, member] = join_address(registered_host(host), port)
        config.override("storePathDLedgerCommitLog", "")  # as DEPLOYED_ELSEWHERE; others do not have the key
        config.override("dLegerPeers", ";".join(f"{member}-{addresses[group, member]}" for member in members))
