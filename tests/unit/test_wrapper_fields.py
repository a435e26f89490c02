"""The field tables in the Cython wrappers name every field of the structs they stand for, and the keyword types name every option."""

from __future__ import annotations

import re

import pytest

from rocketpy._core import options
from tests.unit.native import ROOT, ffi

CORE = ROOT / "rocketpy" / "_core"
TABLE = re.compile(r"#define ROW\(member\) RP_FIELD_ROW\((\w+), member\)(.*?)#undef ROW", re.DOTALL)

# Filled by the wrapper itself: seams and borrowed objects, nested structs that become dicts of their own.
BY_HAND = {
    "rp_server_options": {"clock", "log"},
    "rp_message_store_options": {"root_path", "clock", "file_ops", "log"},
    "rp_broker_options": {"store", "log"},
    "rp_timer_options": {"root_path", "clock", "file_ops"},
    "rp_ha_master_options": {"commit_log", "clock", "log", "on_acked", "on_in_sync", "context", "epochs"},
    "rp_ha_slave_options": {"commit_log", "clock", "log", "epochs"},
    "rp_proxy_options": {"clock", "gate", "signer"},
    "rp_dledger_options": {"store", "clock", "log", "on_committed", "context"},
    "rp_load_options": {"start_offsets"},
    "rp_load_result": {"totals", "error_codes", "latency"},
}
OPTION_TYPES: dict[str, type] = {
    "rp_server_options": options.ServerOptions,
    "rp_tls_options": options.TlsOptions,
    "rp_message_store_options": options.MessageStoreOptions,
    "rp_broker_options": options.BrokerOptions,
    "rp_broker_settings": options.BrokerSettings,
    "rp_timer_options": options.TimerOptions,
    "rp_load_options": options.LoadOptions,
    "rp_record_batch_options": options.RecordBatchOptions,
    "rp_message_packer_options": options.MessagePackerOptions,
    "rp_queue_reader_options": options.QueueReaderOptions,
    "rp_segment_reader_options": options.SegmentReaderOptions,
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


@pytest.mark.parametrize("struct", sorted(OPTION_TYPES))
def test_typed_dict_names_every_option(struct: str) -> None:
    assert set(OPTION_TYPES[struct].__annotations__) == tables()[struct]
