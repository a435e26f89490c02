"""Dividing queues among clients as RocketMQ's strategies do, and the modes operators set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker.rebalance_locks import MessageQueue
from rocketpy.broker.request_modes import RequestMode, RequestModes, allocate, allocate_averagely, allocate_by_circle


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("t", "b", queue_id) for queue_id in range(count)]


def ids(allocated: list[MessageQueue] | None) -> list[int]:
    assert allocated is not None
    return [queue.queue_id for queue in allocated]


PULLED = RequestMode("t", "g")


def test_averagely_gives_runs_and_the_rest_to_the_first() -> None:
    clients = ["a", "b", "c"]
    assert [ids(allocate(PULLED, "AVG", client, queues(8), clients)) for client in clients] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_by_circle_gives_every_nth() -> None:
    clients = ["a", "b", "c"]
    assert [ids(allocate(PULLED, "AVG_BY_CIRCLE", client, queues(8), clients)) for client in clients] == [[0, 3, 6], [1, 4, 7], [2, 5]]


@given(st.integers(0, 40), st.integers(1, 12))
def test_every_queue_has_exactly_one_client(queue_count: int, client_count: int) -> None:
    clients = [f"c{number:02}" for number in range(client_count)]
    for strategy in (allocate_averagely, allocate_by_circle):
        shares = [strategy(client, queues(queue_count), clients) for client in clients]
        assert sorted(queue for share in shares for queue in share) == queues(queue_count)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_stranger_gets_nothing_and_an_unknown_strategy_no_answer() -> None:
    assert allocate(PULLED, "AVG", "stranger", queues(4), ["a"]) == []
    assert allocate(PULLED, "NEAREST", "a", queues(4), ["a"]) is None


def test_pop_without_a_share_reads_all_queues() -> None:
    assert allocate(RequestMode("t", "g", "POP", -1), "AVG", "a", queues(4), ["a", "b"]) == [MessageQueue("t", "b", -1)]


def test_pop_with_a_share_reads_the_neighbours_too() -> None:
    mode = RequestMode("t", "g", "POP", 1)
    clients = ["a", "b", "c", "d"]
    assert ids(allocate(mode, "AVG", "a", queues(8), clients)) == [0, 1, 2, 3]
    assert ids(allocate(mode, "AVG", "d", queues(8), clients)) == [6, 7, 0, 1]
    assert ids(allocate(mode, "AVG", "d", queues(2), clients)) == [1]


def test_modes_have_a_default_and_retry_topics_are_pulled() -> None:
    modes = RequestModes("POP", 4)
    assert modes.get("t", "g") == RequestMode("t", "g", "POP", 4)
    assert modes.get("%RETRY%g", "g").mode == "PULL"
    modes.set(RequestMode("t", "g", "PULL"))
    assert modes.get("t", "g").mode == "PULL" and modes.change_count == 1


def test_what_was_written_is_read_back() -> None:
    modes, other = RequestModes(), RequestModes()
    modes.set(RequestMode("t", "g", "POP", 3))
    other.load(RequestModes.read(modes.to_json()))
    assert other.get("t", "g") == RequestMode("t", "g", "POP", 3)


@pytest.mark.parametrize(
    "value",
    [[], {"messageRequestModeMap": {"t": 1}}, {"messageRequestModeMap": {"t": {"g": {"topic": "t", "consumerGroup": "g", "mode": "X"}}}}],
)
def test_a_damaged_table_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        RequestModes.read(value)


@pytest.mark.parametrize("mode", [PULLED, RequestMode("t", "g", "POP", 1)])
@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
def test_of_a_topic_without_readable_queues_clients_keep_what_they_have(mode: RequestMode, strategy: str) -> None:
    assert allocate(mode, strategy, "b", [], ["a", "b", "c", "d"]) is None
    assert allocate(RequestMode("t", "g", "POP", -1), strategy, "b", [], ["a", "b"]) == []


def test_modes_that_are_copied_again_are_no_change_to_be_saved() -> None:
    """A slave asks every three seconds."""
    modes, master = RequestModes(), RequestModes()
    master.set(RequestMode("t", "g", "POP", 3))
    assert modes.load(RequestModes.read(master.to_json()))
    before = modes.change_count
    assert not modes.load(RequestModes.read(master.to_json())) and modes.change_count == before
    master.set(RequestMode("t", "g", "PULL"))
    assert modes.load(RequestModes.read(master.to_json())) and modes.change_count != before
