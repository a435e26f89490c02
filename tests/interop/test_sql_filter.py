"""SQL92 filters: RocketMQ's own compiler and evaluator say the same of expressions and messages, and Java consumers get what passes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.unit.sql_filter import SqlFilter

from .javaenv import JavaClients, JavaError, Jvm
from .products import Cluster, Product, running_cluster

pytestmark = pytest.mark.timeout(300)

CASES = 20_000
MESSAGES_A_CASE = 4
SEED = 92

NAMES = ("a", "b", "TAGS", "price", "$x_1", "missing")
TEXTS = ("", "x", "TagA", "TagB", "it''s", "ümlaut", "12", "1.5", "true")
NUMBERS = ("0", "1", "5", "12", "12L", "007", "2147483647", "2147483648", "9223372036854775807", "1.5", ".5", "5.", "1e2", "12.0E-1")
VALUES = (
    "0", "1", "5", "-1", "12", "+12", "007", "2147483647", "2147483648", "-2147483648", "1.5", " 1.5 ", "1e2", "0x1p3", "NaN", "Infinity",
    "-Infinity", "-0", "0.0", "1.5f", "true", "FALSE", "x", "TagA", "TagB", "it's", "ümlaut", "a TagA b",
)  # fmt: skip
WORDS = (
    "AND", "or", "NOT", "IN", "between", "IS", "NULL", "TRUE", "false", "CONTAINS", "StartsWith", "ENDSWITH", "=", "<>", ">", ">=", "<",
    "<=", "(", ")", ",", "+", "-", "--", "/*", "*/", "\n", "#", "'",
)  # fmt: skip


class Writer:
    """Expressions by the grammar, most of them right, some with a word too much, too few or in another place."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self) -> str:
        words = self._either(self._random.randint(0, 3)).split(" ")
        if self._random.random() < 0.3:
            at = self._random.randrange(len(words) + 1)
            damage = self._random.choice(("insert", "remove", "replace"))
            words[at : at + (damage != "insert")] = [] if damage == "remove" else [self._word()]
        return self._random.choice((" ", " ", "  ", "\t")).join(words)

    def message(self) -> dict[str, str]:
        return {name: self._random.choice(VALUES) for name in NAMES[:-1] if self._random.random() < 0.8}

    def _word(self) -> str:
        return self._random.choice((*WORDS, *NAMES, *NUMBERS, self._text()))

    def _text(self) -> str:
        return f"'{self._random.choice(TEXTS)}'"

    def _either(self, depth: int) -> str:
        joint = self._random.choice((" AND ", " OR ", " and "))
        return joint.join(self._comparison(depth) for _ in range(self._random.choice((1, 1, 2, 3))))

    def _value(self, depth: int) -> str:
        choice = self._random.random()
        if depth > 0 and choice < 0.1:
            return f"( {self._either(depth - 1)} )"
        if choice < 0.2:
            return f"{self._random.choice('+-')} {self._value(depth)}"
        if choice < 0.65:
            return self._random.choice(NAMES)
        return self._random.choice((self._random.choice(NUMBERS), self._random.choice(NUMBERS), self._text(), "TRUE", "FALSE", "NULL"))

    def _comparison(self, depth: int) -> str:
        left = self._value(depth)
        no = self._random.choice(("", "", "NOT "))
        match self._random.randrange(8):
            case 0 if depth > 0:
                return f"{no}( {self._either(depth - 1)} )"
            case 1:
                return f"{left} {no}BETWEEN {self._value(depth)} AND {self._value(depth)}"
            case 2:
                return f"{left} {no}IN ( {' , '.join(self._text() for _ in range(self._random.randint(1, 7)))} )"
            case 3:
                return f"{left} IS {no}NULL"
            case 4:
                return f"{left} {no}{self._random.choice(('CONTAINS', 'STARTSWITH', 'ENDSWITH'))} {self._text()}"
            case 5 if no:
                return f"{no}{left}"
            case _:
                return f"{left} {self._random.choice(('=', '=', '<>', '>', '>=', '<', '<='))} {self._value(depth)}"


def test_rocketmq_says_the_same(jvm: Callable[..., Jvm]) -> None:
    write = Writer(SEED)
    cases = [(write(), [write.message() for _ in range(MESSAGES_A_CASE)]) for _ in range(CASES)]
    theirs = jvm().call("filter", cases=cases)
    differences = []
    for (expression, messages), their in zip(cases, theirs, strict=True):
        sql = SqlFilter(expression)
        ours = None if sql.refused else [sql.passes(message) for message in messages]
        if ours != their:
            differences.append((expression, messages, ours, their, sql.refused))
    assert not differences, f"{len(differences)} of {CASES}, the shortest: {min(differences, key=lambda each: len(each[0]))}"
    verdicts = [verdict for their in theirs if their is not None for verdict in their]
    print(f"{len(verdicts) // MESSAGES_A_CASE} expressions, {sum(verdicts)} of {len(verdicts)} messages pass")
    assert CASES / 4 < len(verdicts) / MESSAGES_A_CASE < CASES
    assert len(verdicts) / 20 < sum(verdicts) < len(verdicts) * 19 / 20


@pytest.fixture(scope="module")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """As that of the other tests, with filters allowed."""
    with running_cluster(product, tmp_path_factory.mktemp("filters"), {"enablePropertyFilter": "true"}) as cluster:
        yield cluster


def orders(count: int) -> list[dict]:
    return [{"body": f"{number:03}", "tags": f"Tag{'ABC'[number % 3]}", "properties": {"price": str(number)}} for number in range(count)]


SELECTED = "(TAGS is not null and TAGS in ('TagA', 'TagB')) and price between 10 and 49"
WANTED = sorted(f"{number:03}".encode() for number in range(10, 50) if number % 3 != 2)


@pytest.mark.parametrize(
    "in_pull", [pytest.param(False, id="of-the-heartbeat"), pytest.param(True, id="of-the-pull", marks=pytest.mark.slow)]
)
def test_a_push_consumer_gets_what_passes(java: JavaClients, topic: str, group: str, in_pull: bool) -> None:
    producer = java.producer()
    producer.send(topic, *orders(100))
    consumer = java.push(group, topic, sql=SELECTED, postSubscriptionWhenPull=in_pull)
    assert sorted(each["body"] for each in consumer.received(len(WANTED))) == WANTED
    producer.send(topic, {"body": "no", "tags": "TagA"}, {"body": "yes", "tags": "TagB", "properties": {"price": "10"}})
    assert sorted(each["body"] for each in consumer.received(len(WANTED) + 1)) == [*WANTED, b"yes"]


def test_a_consumer_whose_expression_is_none_does_not_start(java: JavaClients, topic: str, group: str) -> None:
    java.producer().send(topic, "first")
    with pytest.raises(JavaError, match=r"MessageSelector|SQL92"):
        java.push(group, topic, sql="price >")
