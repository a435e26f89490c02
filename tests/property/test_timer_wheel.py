"""The timer wheel against a plain list of deadlines: nothing comes early, none is forgotten or later than its tick."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.native import ffi, lib

TICK_NS = 1000
NEVER = 2**63 - 1

steps = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 19), st.integers(0, 600 * TICK_NS)),
        st.tuples(st.just("hasten"), st.integers(0, 19), st.integers(0, 600 * TICK_NS)),
        st.tuples(st.just("cancel"), st.integers(0, 19), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.integers(0, 400 * TICK_NS)),
    ),
    max_size=60,
)


@given(st.integers(0, 10**12), steps)
def test_the_wheel_fires_what_is_due_and_keeps_the_rest(start: int, moves: list[tuple[str, int, int]]) -> None:
    wheel = ffi.new("rp_timer_wheel *")
    nodes = ffi.new("rp_timer_node[20]")
    lib.rp_timer_wheel_init(wheel, TICK_NS, start)
    now = start
    due: dict[int, int] = {}
    for verb, index, amount in moves:
        if verb == "schedule":
            lib.rp_timer_wheel_schedule(wheel, nodes + index, now + amount)
            due[index] = now + amount
        elif verb == "hasten":
            lib.rp_timer_wheel_hasten(wheel, nodes + index, now + amount)
            due[index] = min(due.get(index, NEVER), now + amount)
        elif verb == "cancel":
            lib.rp_timer_wheel_cancel(wheel, nodes + index)
            due.pop(index, None)
        else:
            now += amount
            while (node := lib.rp_timer_wheel_take(wheel, now)) != ffi.NULL:
                fired = node - nodes
                # What lies beyond the wheel comes early and is scheduled again, as a connection does it.
                if due[fired] > now:
                    assert due[fired] - now > TICK_NS or due[fired] // TICK_NS >= now // TICK_NS
                    lib.rp_timer_wheel_schedule(wheel, node, due[fired])
                else:
                    del due[fired]
            # One tick is the wheel's grain.
            assert all(limit + TICK_NS >= now for limit in due.values())
        assert wheel.count == len(due)
        look = lib.rp_timer_wheel_next_ns(wheel)
        assert (look == NEVER) == (not due)
        if due:
            assert look <= min(due.values()) // TICK_NS * TICK_NS + TICK_NS
