"""Heartbeats that say the same again are not read again, and nobody can tell: a broker beside it reads every one of them."""

from __future__ import annotations

from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker.client_requests import ClientRequests
from rocketpy.broker.clients import EXPIRES_MS, Action, Channel, CloseChannel, ConsumerTable, ProducerTable
from rocketpy.broker.heartbeat import Heartbeat
from rocketpy.broker.settings import broker_settings
from rocketpy.broker.subscriptions import GroupSettings, GroupTable
from rocketpy.broker.topics import TopicSettings, TopicTable
from rocketpy.config import load_config
from rocketpy.remoting.bodies import TopicConfig
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.command import CommandError
from rocketpy.remoting.json_codec import write_json
from tests.unit.broker.recorder import Clock, Recorder

SETTINGS = broker_settings(load_config("broker", None, {}))


class Broker:
    """The tables that heartbeats change, and the requests that change them."""

    def __init__(self, clock: Clock, *, remembers: bool = True) -> None:
        self.clock = clock
        self.recorder = Recorder()
        self.actions: list[Action] = []
        self.announced: list[str] = []
        self.parts = SimpleNamespace(
            settings=SETTINGS,
            topics=TopicTable(TopicSettings(), self.recorder, clock),
            groups=GroupTable(self.recorder, clock),
            consumers=ConsumerTable(self.recorder, clock),
            producers=ProducerTable(self.recorder, clock),
            deletion=SimpleNamespace(is_under_way=lambda topic: False),
            registration=SimpleNamespace(announce=self.announced.extend),
            act=self.actions.extend,
            clock=clock,
        )
        requests = ClientRequests(self.parts)  # type: ignore[arg-type]
        self._handlers = requests.handlers(0)
        if not remembers:
            requests._repeated.keep = lambda *_: None  # type: ignore[method-assign]

    def ask(self, code: int, connection: int, body: bytes, fields: dict[str, str] | None = None, version: int = 501) -> Any:
        request = SimpleNamespace(
            code=code, connection_id=connection, remote_address=f"10.0.0.1:{connection}", language=0, version=version,
            body=body, fields=fields or {},
        )  # fmt: skip
        return self._handlers[code](request)  # type: ignore[arg-type]

    def hear(self, connection: int, body: bytes, version: int = 501) -> Any:
        return self.ask(RequestCode.HEART_BEAT, connection, body, version=version)

    def close(self, connection: int) -> None:
        self.parts.producers.channel_closed(Channel(0, connection))
        self.actions.extend(self.parts.consumers.channel_closed(Channel(0, connection)))

    def scan(self) -> None:
        found = [*self.parts.producers.scan(), *self.parts.consumers.scan()]
        self.actions += found
        for channel in {action.channel for action in found if isinstance(action, CloseChannel)}:
            self.close(channel.connection_id)

    def state(self) -> Any:
        """All that heartbeats can change, but for how often a group has changed."""
        parts = self.parts
        groups = [
            {name: value for name, value in asdict(group).items() if name not in ("changes", "_id_list")} for group in parts.consumers
        ]
        lists = [group.encoded_ids() for group in parts.consumers]
        producers = [(group, [asdict(client) for client in clients]) for group, clients in parts.producers]
        return groups, lists, producers, list(parts.topics), list(parts.groups), self.recorder, self.actions, self.announced


def said(client_id: str = "c", group: str = "g", topics: str = "t", *, producers: str = "p", again: str = "", **members: Any) -> bytes:
    """`members` of the heartbeat itself, or of its group."""
    own = {name: members.pop(name) for name in ("heartbeatFingerprint", "withoutSub") if name in members}
    version = members.pop("subVersion", 1)
    subscriptions = [{"topic": topic, "subString": "*", "subVersion": version} for topic in topics]
    consumer = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "subscriptionDataSet": subscriptions}
    consumers = [consumer | members] + [consumer | {"groupName": name, "consumeType": "CONSUME_ACTIVELY"} for name in again]
    return write_json(
        {"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": [{"groupName": name} for name in producers]} | own
    )


BODIES = [
    said(),
    said("d"),
    said("d", topics="tu"),
    said("d", subVersion=2),
    said("d", messageModel="BROADCASTING"),
    said(consumeType="CONSUME_ACTIVELY"),
    said(topics=""),
    said(again="g"),
    said(again="h", producers="pq"),
    said(heartbeatFingerprint=7),
    said(heartbeatFingerprint=7, withoutSub=True),
    said(consumeFromWhere="CONSUME_FROM_FIRST_OFFSET"),
    said(withoutSub=True, topics=""),
    said(producers=""),
    said("", group="h"),
    said(group="x" * 249),
    b"{",
]
CONNECTIONS = st.integers(1, 3)
STEPS = st.one_of(
    st.tuples(st.just("hear"), CONNECTIONS, st.integers(0, len(BODIES) - 1)),
    st.tuples(st.just("again"), CONNECTIONS, st.integers(1, 3)),
    st.tuples(st.just("again"), CONNECTIONS, st.integers(1, 3)),
    st.tuples(st.just("leave"), CONNECTIONS, st.sampled_from("gh")),
    st.tuples(st.just("stop producing"), CONNECTIONS, st.sampled_from("pq")),
    st.tuples(st.just("close"), CONNECTIONS, st.none()),
    st.tuples(st.just("wait"), st.integers(1, EXPIRES_MS), st.none()),
    st.tuples(st.just("change"), st.integers(0, 7), st.none()),
)


def change(broker: Broker, number: int) -> None:
    """What operators do meanwhile."""
    parts = broker.parts
    if number == 0:
        parts.groups.delete("g")
    elif number == 1:
        parts.topics.delete("%RETRY%g")
    elif number in (2, 3):
        parts.topics.update(TopicConfig("t", order=number == 2))
    elif number == 4:
        parts.topics.delete("t")
    elif number in (5, 6):
        parts.groups.apply(GroupSettings(auto_create=number == 5))
    else:
        parts.settings = replace(SETTINGS, reject_pull_consumer=not parts.settings.reject_pull_consumer)


def answer_of(broker: Broker, *heartbeat: Any) -> Any:
    try:
        return broker.hear(*heartbeat)
    except CommandError as error:
        return error.code, str(error)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def compare(script: list[tuple[str, int, Any]]) -> None:
    """Two brokers, step by step."""
    clock = Clock()
    brokers = (Broker(clock), Broker(clock, remembers=False))
    last: dict[int, bytes] = {}
    for step, one, two in script:
        clock.ms += 1
        answers = []
        if step == "hear":
            last[one] = BODIES[two]
        if step == "wait":
            clock.ms += one
        for broker in brokers:
            if step in ("hear", "again"):
                body = last.setdefault(one, BODIES[0])
                answers.append([answer_of(broker, one, body) for _ in range(two if step == "again" else 1)])
            elif step == "leave":
                broker.ask(RequestCode.UNREGISTER_CLIENT, one, b"", {"clientID": "c", "consumerGroup": two})
            elif step == "stop producing":
                broker.ask(RequestCode.UNREGISTER_CLIENT, one, b"", {"clientID": "c", "producerGroup": two})
            elif step == "close":
                broker.close(one)
            elif step == "wait":
                broker.scan()
            elif step == "change":
                change(broker, one)
        assert not answers or answers[0] == answers[1]
        assert brokers[0].state() == brokers[1].state()


@given(script=st.lists(STEPS, max_size=40))
def test_nobody_can_tell_whether_heartbeats_are_remembered(script: list[tuple[str, int, Any]]) -> None:
    compare(script)


@pytest.mark.parametrize("body", [BODIES.index(said()), BODIES.index(said(consumeType="CONSUME_ACTIVELY"))])
@pytest.mark.parametrize(
    "meanwhile",
    [
        ("hear", 1, BODIES.index(said("d"))),
        ("hear", 2, BODIES.index(said("d", topics="tu"))),
        ("leave", 1, "g"),
        ("stop producing", 1, "p"),
        ("wait", EXPIRES_MS + 1, None),
        *(("change", number, None) for number in range(8)),
    ],
)
def test_nobody_can_tell_by_what_happens_between_two_heartbeats(meanwhile: tuple[str, int, Any], body: int) -> None:
    heard = ("hear", 1, body)
    compare([heard, heard, heard, meanwhile, heard, heard, heard])


@pytest.mark.parametrize(
    "between",
    [
        [
            ("hear", 2, said(heartbeatFingerprint=7)),
            ("hear", 1, said()),
            ("hear", 2, said(heartbeatFingerprint=7)),
        ],  # an answer of version 2
        [("hear", 2, said(consumeFromWhere="CONSUME_FROM_FIRST_OFFSET"))],
        [("hear", 2, said()), ("close", 2, None)],  # replies found the second connection
    ],
    ids=["another fingerprint", "another begin", "the same id at another connection"],
)
def test_nobody_can_tell_by_what_another_connection_says(between: list[tuple[str, int, Any]]) -> None:
    heard = ("hear", 1, BODIES.index(said()))
    other = [(step, connection, BODIES.index(body) if body is not None else None) for step, connection, body in between]
    compare([heard, heard, heard, *other, heard, heard])


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What heartbeats are read from now on."""
    reads: list[Any] = []
    from_json = Heartbeat.from_json
    monkeypatch.setattr(Heartbeat, "from_json", staticmethod(lambda value: reads.append(value) or from_json(value)))
    return reads


def test_a_heartbeat_that_changed_nothing_is_not_read_again(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, reads = Broker(clock), reads_of(monkeypatch)
    answers = []
    for _ in range(5):
        clock.ms += 30_000
        answers.append(broker.hear(1, said()))
    assert len(reads) == 2, "the first one joins, the second changes nothing"
    assert all(answer == answers[0] for answer in answers)
    assert [client.seen_ms for client in (*broker.parts.consumers.get("g").clients.values(), *broker.parts.producers.clients("p"))] == [
        clock.ms
    ] * 2
    broker.hear(1, said(), version=502)
    broker.hear(1, said("d"))
    assert len(reads) == 4, "of another release, or something else"


def test_a_group_that_another_client_has_changed_has_its_heartbeats_read(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(clock)
    for _ in range(3):
        broker.hear(1, said("c"))
    broker.hear(2, said("d", topics="u"))
    reads = reads_of(monkeypatch)
    broker.hear(1, said("c"))
    assert len(reads) == 1 and set(broker.parts.consumers.get("g").subscriptions) == {"t"}


def test_what_is_remembered_goes_with_its_connection(clock: Clock) -> None:
    broker = Broker(clock)
    for connection in (1, 2):
        for _ in range(2):
            broker.hear(connection, said(producers="pq") if connection == 1 else said(group="h"))
    assert len(broker.parts.consumers.heard) == 2
    broker.close(1)
    assert list(broker.parts.consumers.heard) == [Channel(0, 2)]
    broker.close(2)
    assert not broker.parts.consumers.heard
