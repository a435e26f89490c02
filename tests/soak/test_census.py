"""What counts as an entry of a table, and which tables are seen."""

from __future__ import annotations

import gc

from rocketpy.broker.rebalance_locks import MessageQueue
from rocketpy.namesrv.events import RouteSettings
from rocketpy.namesrv.route_info import RouteInfo

from .census import census, members


def test_a_queue_in_a_table_is_one_entry_and_its_names_are_seen() -> None:
    groups = {"group": {MessageQueue("topic", "broker", number) for number in range(3)}, "other": set()}
    assert sum(1 for _ in members(groups, with_fields=False)) == 2 + 3
    assert {"group", "other", "topic", "broker"} <= set(members(groups))


def test_tables_that_the_collector_leaves_out_are_seen() -> None:
    """As those of a server are from its start on: the census of a soak was all but empty, and found nothing that grew."""
    before = census()["tables"].get("RouteInfo._clusters", 0)  # of other tests of this process
    routes = RouteInfo(RouteSettings(), lambda: 0)
    routes._clusters["c"] = {"b0", "b1"}
    gc.freeze()
    try:
        assert census()["tables"]["RouteInfo._clusters"] == before + 1 + 2
    finally:
        gc.unfreeze()
