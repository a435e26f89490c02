"""What a comparison measures unless it is told."""

from __future__ import annotations

from argparse import Namespace

import pytest

from bench.peer import plan_of
from bench.peer_report import targets_of


def options(flush: str, replication: str) -> Namespace:
    return Namespace(
        flush=flush,
        replication=replication,
        shape=None,
        quick=True,
        seconds=0,
        rounds=0,
        size=1024,
        batch=1,
        encoding="JSON",
        no_footprint=True,
    )


@pytest.mark.parametrize(("flush", "replication"), [("ASYNC", "NONE"), ("SYNC", "NONE"), ("ASYNC", "SYNC")])
def test_the_shapes_are_those_whose_figures_are_asked_for(flush: str, replication: str) -> None:
    plan = plan_of(options(flush, replication))
    wanted = targets_of(plan.durability.flush, plan.durability.replication)
    assert set(plan.shapes) == set(wanted) != set()


def test_a_mode_without_figures_that_are_asked_for_has_those_of_its_flush() -> None:
    assert plan_of(options("SYNC", "SYNC")).shapes == ("1x1", "64x1", "16x16")
