"""Switches between roles: one at a time, in order, the newest wins, and what fails leaves nobody served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from rocketpy.broker.replica_state import Role
from rocketpy.broker.role_switch import RoleStep, RoleSteps, RoleSwitch

from .running import eventually, run


def role(epoch: int, *, is_master: bool) -> Role:
    return Role(1 if is_master else 2, "127.0.0.1:1", epoch, is_master)


class Steps:
    """Two steps each way that write down what they do; `gate` holds the first up, `faults` are raised by the second."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.faults: list[Exception] = []

    def switch(self) -> RoleSwitch:
        async def close() -> None:
            self.done.append(("close", 0))

        return RoleSwitch(RoleSteps([*map(self.step, ("m1", "m2"))], [*map(self.step, ("s1", "s2"))], close), pause_s=0.001)

    def step(self, name: str) -> RoleStep:
        async def work(wanted: Role) -> None:
            if name.endswith("1"):
                await self.gate.wait()
            elif self.faults:
                raise self.faults.pop()
            self.done.append((name, wanted.epoch))

        return RoleStep(name, work)


def switching(test: Callable[[Steps, RoleSwitch], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        steps = Steps()
        switch = steps.switch()
        task = asyncio.create_task(switch.run())
        try:
            await test(steps, switch)
        finally:
            steps.gate.set()
            switch.stop()
            await task

    run(whole)


def test_a_role_is_taken_step_by_step() -> None:
    async def test(steps: Steps, switch: RoleSwitch) -> None:
        switch.want(role(1, is_master=False))
        await eventually(lambda: switch.current is not None, "the role")
        switch.want(role(2, is_master=True))
        await eventually(lambda: switch.switches == 2, "the second one")
        assert steps.done == [("s1", 1), ("s2", 1), ("m1", 2), ("m2", 2)]

    switching(test)


def test_of_the_roles_that_come_during_a_switch_the_newest_is_next() -> None:
    async def test(steps: Steps, switch: RoleSwitch) -> None:
        steps.gate.clear()
        switch.want(role(1, is_master=True))
        await asyncio.sleep(0)
        for epoch in range(2, 50):
            switch.want(role(epoch, is_master=epoch % 2 == 0))
            await asyncio.sleep(0)
        assert switch.current is None, "half a role is not a role"
        steps.gate.set()
        await eventually(lambda: switch.switches == 2, "two switches")
        assert steps.done == [("m1", 1), ("m2", 1), ("s1", 49), ("s2", 49)]

    switching(test)


def test_what_fails_serves_nobody_and_is_tried_again() -> None:
    async def test(steps: Steps, switch: RoleSwitch) -> None:
        steps.faults = [ValueError("again"), OSError("the disk")]
        switch.want(role(3, is_master=True))
        await eventually(lambda: switch.current is not None, "the role")
        assert steps.done == [("m1", 3), ("close", 0), ("m1", 3), ("close", 0), ("m1", 3), ("m2", 3)]
        assert switch.failure == ""

    switching(test)


def test_a_stop_waits_for_the_switch_that_is_under_way_and_begins_no_other() -> None:
    async def test(steps: Steps, switch: RoleSwitch) -> None:
        steps.gate.clear()
        switch.want(role(1, is_master=True))
        await asyncio.sleep(0)
        switch.want(role(2, is_master=False))
        switch.stop()
        steps.gate.set()
        await eventually(lambda: switch.switches == 1, "the one under way")
        assert steps.done == [("m1", 1), ("m2", 1)]

    switching(test)
