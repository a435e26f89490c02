"""What counts as an entry of a table."""

from __future__ import annotations

from rocketpy.broker.rebalance_locks import MessageQueue

from .census import members


def test_a_queue_in_a_table_is_one_entry_and_its_names_are_seen() -> None:
    groups = {"group": {MessageQueue("topic", "broker", number) for number in range(3)}, "other": set()}
    assert sum(1 for _ in members(groups, with_fields=False)) == 2 + 3
    assert {"group", "other", "topic", "broker"} <= set(members(groups))
