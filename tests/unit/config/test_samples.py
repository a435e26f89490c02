"""The files in conf/: each loads without a word of complaint, sets what RocketMQ's sample of that name sets, and explains every key.
The keys that a page shows for copying load, too."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from rocketpy.config import TABLES, load_config, read_properties
from rocketpy.config.loader import Role

ROOT = Path(__file__).resolve().parents[3]
CONF = ROOT / "conf"
SAMPLES = sorted(path for path in CONF.rglob("*") if path.suffix in (".conf", ".properties"))
BROKER = {"brokerClusterName": "DefaultCluster", "deleteWhen": "04", "fileReservedTime": "48", "flushDiskType": "ASYNC_FLUSH"}

SHIPPED: dict[str, dict[str, str]] = {
    "broker.conf": {"brokerName": "broker-a", "brokerId": "0", "brokerRole": "ASYNC_MASTER"},
    "2m-noslave/broker-a.properties": {"brokerName": "broker-a", "brokerId": "0", "brokerRole": "ASYNC_MASTER"},
    "2m-noslave/broker-b.properties": {"brokerName": "broker-b", "brokerId": "0", "brokerRole": "ASYNC_MASTER"},
    "2m-noslave/broker-trace.properties": {"brokerName": "broker-trace", "brokerId": "0", "brokerRole": "ASYNC_MASTER"},
    **{
        f"2m-2s-{kind}/broker-{name}.properties": {"brokerName": f"broker-{name}", "brokerId": "0", "brokerRole": f"{kind.upper()}_MASTER"}
        for kind in ("async", "sync")
        for name in "ab"
    },
    **{
        f"2m-2s-{kind}/broker-{name}-s.properties": {"brokerName": f"broker-{name}", "brokerId": "1", "brokerRole": "SLAVE"}
        for kind in ("async", "sync")
        for name in "ab"
    },
}
MEMBERS = {"controllerDLegerGroup": "group1", "controllerDLegerPeers": "n0-127.0.0.1:9878;n1-127.0.0.1:9868;n2-127.0.0.1:9858"}
CONTROLLERS = {
    f"controller/cluster-3n-independent/controller-{member}.conf": {**MEMBERS, "controllerDLegerSelfId": member}
    for member in ("n0", "n1", "n2")
}
LEDGER = {
    "brokerClusterName": "RaftCluster",
    "brokerName": "RaftNode00",
    "enableDLegerCommitLog": "true",
    "dLegerGroup": "RaftNode00",
    "dLegerPeers": "n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913",
}
LEDGERS = {
    f"dledger/broker-n{number}.conf": {
        **LEDGER,
        "listenPort": f"309{number + 1}1",
        "storePathRootDir": f"/tmp/rmqstore/node0{number}",
        "storePathCommitLog": f"/tmp/rmqstore/node0{number}/commitlog",
        "dLegerSelfId": f"n{number}",
    }
    for number in range(3)
}
EXPECTED = {**{name: {**BROKER, **keys} for name, keys in SHIPPED.items()}, **CONTROLLERS, **LEDGERS}


def role_of(path: Path) -> Role:
    roles: tuple[Role, ...] = ("namesrv", "controller")
    return next((role for role in roles if path.name.startswith(role)), "broker")


def test_rocketmqs_samples_are_all_there() -> None:
    assert {str(path.relative_to(CONF)) for path in SAMPLES} >= {*EXPECTED, "namesrv.conf"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_sets_what_rocketmqs_sets(name: str) -> None:
    set_here = {entry.key: entry.value for entry in read_properties((CONF / name).read_text(encoding="utf-8"))}
    assert {key: set_here.get(key) for key in EXPECTED[name]} == EXPECTED[name]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(CONF)))
def test_a_sample_loads_without_complaint(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        config = load_config(role_of(path), path)
        config.report_remarks()
    assert caplog.messages == []


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(CONF)))
def test_every_key_of_a_sample_exists_and_stands_under_its_explanation(path: Path) -> None:
    table = TABLES[role_of(path)]
    for paragraph in path.read_text(encoding="utf-8").split("\n\n")[1:]:
        lines = paragraph.strip().splitlines()
        keys = [match.group(1) for line in lines if (match := re.fullmatch(r"(?:# )?(\w+) = .*", line))]
        assert keys, f"nothing is set under: {lines[0]}"
        assert set(keys) <= table.keys()
        assert lines[0].startswith("# ") and not re.fullmatch(r"# \w+ = .*", lines[0]), f"{keys} are not explained"


def test_the_sample_of_a_broker_for_traces_makes_their_topic_and_no_other() -> None:
    config = load_config("broker", CONF / "2m-noslave/broker-trace.properties")
    assert config.boolean("traceTopicEnable") and not config.boolean("autoCreateTopicEnable")
    others = [load_config("broker", CONF / f"2m-noslave/broker-{name}.properties") for name in "ab"]
    assert not any(other.boolean("traceTopicEnable") for other in others)


KEYS = {name for table in TABLES.values() for name in table}


def blocks_of_keys() -> list[object]:
    """The indented blocks of the pages that are nothing but comments and keys, one of ours among them (a systemd unit looks alike)."""
    block = re.compile(r"(?:^ {4,}(?:#.*|\w+=.*)\n)+", re.MULTILINE)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = [(page, match) for page in pages for match in block.finditer(page.read_text(encoding="utf-8"))]
    found = [(page, match) for page, match in found if KEYS & {entry.key for entry in read_properties(match.group())}]
    return [pytest.param(match.group(), id=f"{page.name}-{match.group().split('=')[0].split()[-1]}") for page, match in found]


@pytest.mark.parametrize("block", blocks_of_keys())
def test_keys_that_a_page_shows_load_as_they_stand(block: str, tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(block, encoding="utf-8")
    load_config("broker", file)
    assert {entry.key for entry in read_properties(block)} <= KEYS
    assert not [entry for entry in read_properties(block) if "#" in entry.value], "behind a value a comment is part of it"
