"""The field tables in the Cython wrappers name every field of the structs they stand for, and the stubs name every option."""

from __future__ import annotations

import ast
import re

import pytest

from tests.unit.native import ROOT, ffi

CORE = ROOT / "rocketpy" / "_core"
TABLE = re.compile(r"#define ROW\(member\) RP_FIELD_ROW\((\w+), member\)(.*?)#undef ROW", re.DOTALL)

# Filled by the wrapper itself: seams and borrowed objects, nested structs that become dicts of their own.
BY_HAND = {
    "rp_server_options": {"clock", "log"},
    "rp_message_store_options": {"root_path", "clock", "file_ops", "log"},
    "rp_broker_options": {"store", "log"},
    "rp_load_options": {"start_offsets"},
    "rp_load_result": {"totals", "error_codes", "latency"},
}
OPTION_STUBS = {
    "rp_server_options": ("remoting", "ServerOptions"),
    "rp_message_store_options": ("store", "MessageStoreOptions"),
    "rp_broker_options": ("broker", "BrokerOptions"),
    "rp_broker_settings": ("broker", "BrokerSettings"),
    "rp_load_options": ("load", "LoadOptions"),
}


def tables() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted(CORE.glob("*.pyx")):
        for struct, rows in TABLE.findall(path.read_text()):
            found[struct] = set(re.findall(r"ROW\((\w+)\)", rows))
    return found


@pytest.mark.parametrize("struct", sorted(tables()))
def test_field_table_names_every_field_of_its_struct(struct: str) -> None:
    fields = {name for name, _ in ffi.typeof(struct).fields}
    assert tables()[struct] == fields - BY_HAND.get(struct, set())


@pytest.mark.parametrize("struct", sorted(OPTION_STUBS))
def test_stub_names_every_option(struct: str) -> None:
    room, name = OPTION_STUBS[struct]
    tree = ast.parse((CORE / f"{room}.pyi").read_text())
    stub = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    names = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    assert names == tables()[struct]
