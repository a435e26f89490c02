"""Groups of three and five under seeds, and that the simulation finds members that break their promises."""

from __future__ import annotations

import pytest

from rocketpy.dledger.elector import Elector
from tests.unit.dledger.simulation import MemoryLog, MemoryPromises, Simulation, Violation

SEEDS = 4


@pytest.mark.parametrize("size", [3, 5])
def test_what_is_committed_stays_and_one_leads_a_term(size: int) -> None:
    for seed in range(SEEDS):
        Simulation(size, seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 5])
def test_the_same_for_many_seeds(size: int) -> None:
    for seed in range(SEEDS, 1000):
        try:
            Simulation(size, seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


class UnsyncedLog(MemoryLog):
    """Says that it is synced, and is not."""

    def sync(self) -> None:
        pass


class ForgetfulPromises(MemoryPromises):
    """Votes are not on disk when they are given."""

    def crash(self) -> None:
        self.term, self.vote = 0, None


def finds(make_log: type[MemoryLog], make_promises: type[MemoryPromises]) -> bool:
    for seed in range(200):
        try:
            Simulation(3, seed, make_log, make_promises).run()
        except Violation:
            return True
    return False


def test_an_acknowledgement_before_the_sync_is_found() -> None:
    assert finds(UnsyncedLog, MemoryPromises)


def test_a_leader_that_is_certain_without_a_majority_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elector, "led_at", lambda elector: elector._last_heartbeats)
    assert finds(MemoryLog, MemoryPromises)


def test_a_vote_that_is_forgotten_is_found() -> None:
    assert finds(MemoryLog, ForgetfulPromises)
