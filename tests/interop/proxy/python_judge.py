"""The Python client (rocketmq-python-client) as a judge: python_judge.py ENDPOINTS PREFIX COUNT [USER SECRET].

PREFIX names topics and groups.
Run where that package is installed, which calls itself `rocketmq` as the C++ client does. Prints a line of JSON.
"""

import json
import sys
import threading
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.v5.exception import BadRequestException, InternalErrorException

PATIENCE_S = 50
endpoints, prefix, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
configuration = ClientConfiguration(endpoints, Credentials(*sys.argv[4:6]), request_timeout=20)


class Checker(TransactionChecker):
    def check(self, message: Message) -> TransactionResolution:
        return TransactionResolution.ROLLBACK if message.body.startswith(b"rollback") else TransactionResolution.COMMIT


class Inbox(MessageListener):
    """Refuses each message the first time when it is told so."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses, self.taken, self.arrived = refuses, [], threading.Condition()

    def consume(self, message: Message) -> ConsumeResult:
        if self.refuses and message.delivery_attempt == 1:
            return ConsumeResult.FAILURE
        with self.arrived:
            self.taken.append((message.body.decode(), message.delivery_attempt))
            self.arrived.notify_all()
        return ConsumeResult.SUCCESS

    def wait(self, wanted: int) -> list[tuple[str, int]]:
        with self.arrived:
            self.arrived.wait_for(lambda: len(self.taken) >= wanted, PATIENCE_S)
            return list(self.taken)


def message(kind: str, body: str, **fields: object) -> Message:
    made = Message()
    made.topic, made.body = f"{prefix}-{kind}", body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def push(kind: str, inbox: Inbox, expression: str = "*") -> PushConsumer:
    consumer = PushConsumer(configuration, f"{prefix}-{kind}-push", inbox, {f"{prefix}-{kind}": FilterExpression(expression)})
    consumer.startup()
    return consumer


producer = Producer(configuration, [f"{prefix}-{kind}" for kind in ("normal", "fifo", "delay", "transaction")], Checker())
producer.startup()
for number in range(count):
    normal = message("normal", f"{number}", tag="TagB" if number % 2 else "TagA")
    normal.keys = "Schlüssel"
    normal.add_property("colour", "blau ü")
    producer.send(normal)
    producer.send(message("fifo", f"{number % 2} {number}", message_group=f"group {number % 2}"))
start = time.time()
producer.send(message("delay", "late", delivery_timestamp=int(start) + 3))
for word in ("commit", "rollback", "unknown"):
    transaction = producer.begin_transaction()
    producer.send(message("transaction", f"{word} it"), transaction)
    if word != "unknown":
        getattr(transaction, word)()

inboxes = {kind: Inbox(kind == "normal") for kind in ("normal", "fifo", "delay", "transaction")}
consumers = [push(kind, inbox, "TagA" if kind == "normal" else "*") for kind, inbox in inboxes.items()]
simple = SimpleConsumer(configuration, f"{prefix}-normal-simple", {f"{prefix}-normal": FilterExpression()}, await_duration=5)
simple.startup()
taken: dict[str, int] = {}
deadline = time.time() + PATIENCE_S
while len(taken) < count and time.time() < deadline:
    try:
        messages = simple.receive(16, 60) or []
    except (InternalErrorException, BadRequestException) as problem:  # the proxy, RocketMQ's or ours, does not know its settings yet
        print(problem, file=sys.stderr)
        continue
    for each in messages:
        body = each.body.decode()
        if body == "0" and each.delivery_attempt == 1:
            simple.change_invisible_duration(each, 10)
        else:
            simple.ack(each)
            taken[body] = each.delivery_attempt
            properties = each.properties
seen = {
    "simple": taken,
    "normal": dict(inboxes["normal"].wait(count // 2)),
    "fifo": [[body for body, _ in inboxes["fifo"].wait(count) if body.startswith(group)] for group in ("0 ", "1 ")],
    "delay": inboxes["delay"].wait(1),
    "transaction": sorted(body for body, _ in inboxes["transaction"].wait(2)),
    "colour": properties.get("colour"),
}
for client in (*consumers, simple, producer):
    client.shutdown()
print(json.dumps(seen), flush=True)
