"""The PyPI package `rocketmq` (RocketMQ's C++ client) in a process of its own, told by lines of JSON what to do.

As a module: CppClient, which starts that process. As a script: that process. It answers {"id": …, "ok": …} per command, in order.
The C++ client keeps its own threads and logs under $HOME, so every test gets a fresh process.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


class CppClient:
    def __init__(self, namesrv: str, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._log = home / "cpp.log"
        with self._log.open("wb") as log:
            self._popen = subprocess.Popen(
                [sys.executable, __file__, namesrv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
                env={**os.environ, "HOME": str(home)},
            )  # fmt: skip
        self._next = 0

    def call(self, op: str, **fields: Any) -> Any:
        assert self._popen.stdin is not None and self._popen.stdout is not None
        self._next += 1
        self._popen.stdin.write(json.dumps({"id": self._next, "op": op, **fields}) + "\n")
        self._popen.stdin.flush()
        line = self._popen.stdout.readline()
        if not line:
            raise AssertionError(f"the C++ client's process ended: {self._popen.wait(10)}\n{self._log.read_text(errors='replace')[-2000:]}")
        answer = json.loads(line)
        assert answer["id"] == self._next
        if "error" in answer:
            raise AssertionError(f"C++ client: {answer['error']}")
        return answer["ok"]

    def send(self, topic: str, *bodies: str, how: str = "sync", **fields: Any) -> list[Any]:
        return self.call("send", topic=topic, bodies=list(bodies), how=how, **fields)

    def received(self, count: int, timeout: float = 50.0) -> list[dict[str, Any]]:
        messages = self.call("received", count=count, timeout=timeout)
        return [{**each, "body": base64.b64decode(each["body"])} for each in messages]

    def close(self) -> None:
        """Lets it leave by itself for a moment; its shutdown may hang, and nothing depends on it."""
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        try:
            self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(10)


class _Child:
    """Inside the process: one producer and any number of consumers."""

    def __init__(self, namesrv: str) -> None:
        from rocketmq import client, exceptions

        self.client, self.namesrv = client, namesrv
        self.failed = exceptions.ProducerSendSyncFailed
        self.producer: Any = None
        self.consumers: dict[str, Any] = {}
        self.received: list[dict[str, Any]] = []
        self.arrived = threading.Condition()

    def producer_start(self, group: str = "GID-cpp-producer", **_: Any) -> None:
        self.producer = self.client.Producer(group, timeout=30_000)
        self.producer.set_namesrv_addr(self.namesrv)
        self.producer.start()
        self._reach_broker()

    def _reach_broker(self, seconds: float = 20.0) -> None:
        """A first message, to BenchmarkTest, tried until it is taken.

        10 ms after its start the client sends heartbeats. While that thread connects to the broker, CreateTransport gives a sending
        thread no transport, its five tries end within the same millisecond, and the error says "No route info": with any server.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.producer.send_sync(self._message("BenchmarkTest", "reached", {}))
                return
            except self.failed:
                if time.monotonic() > deadline:
                    raise

    def _message(self, topic: str, body: str, fields: dict[str, Any]) -> Any:
        message = self.client.Message(topic)
        message.set_body(body)
        if "tags" in fields:
            message.set_tags(fields["tags"])
        if "keys" in fields:
            message.set_keys(fields["keys"])
        for name, value in fields.get("properties", {}).items():
            message.set_property(name, value)
        return message

    def send(self, topic: str, bodies: list[str], how: str, **fields: Any) -> list[Any]:
        messages = [self._message(topic, body, fields) for body in bodies]
        if how == "batch":
            return [self._result(self.producer.send_batch(messages))]
        if how == "oneway":
            for message in messages:
                self.producer.send_oneway(message)
            return []
        if how == "orderly":
            return [self._result(self.producer.send_orderly(message, fields["queue"])) for message in messages]
        if how == "async":
            return self._send_async(messages)
        return [self._result(self.producer.send_sync(message)) for message in messages]

    def _send_async(self, messages: list[Any]) -> list[Any]:
        results: list[Any] = []

        def take(result: Any) -> None:
            with self.arrived:
                results.append(result)
                self.arrived.notify_all()

        for message in messages:
            self.producer.send_async(message, lambda result: take(self._result(result)), lambda error: take(str(error)))
        with self.arrived:
            self.arrived.wait_for(lambda: len(results) == len(messages), 50)
            return list(results)

    @staticmethod
    def _result(result: Any) -> dict[str, Any]:
        return {"status": result.status.name, "msgId": result.msg_id, "offset": result.offset}

    def consumer_start(
        self, group: str, topic: str, expression: str = "*", orderly: bool = False, broadcasting: bool = False, **_: Any
    ) -> None:
        from rocketmq.ffi import MessageModel

        model = MessageModel.BROADCASTING if broadcasting else MessageModel.CLUSTERING
        consumer = self.client.PushConsumer(group, orderly=orderly, message_model=model)
        consumer.set_namesrv_addr(self.namesrv)
        consumer.set_instance_name(f"{group}-{os.getpid()}-{len(self.consumers)}")
        consumer.subscribe(topic, self._take, expression)
        consumer.start()
        self.consumers[group] = consumer

    def _take(self, message: Any) -> None:
        fields = {
            "topic": message.topic,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "msgId": message.id,
            "tags": _text(message.tags),
            "keys": _text(message.keys),
            "colour": _text(message.get_property("colour")),
            "reconsumeTimes": message.reconsume_times,
            "body": base64.b64encode(message.body).decode(),
        }
        with self.arrived:
            self.received.append(fields)
            self.arrived.notify_all()

    def await_received(self, count: int, timeout: float, **_: Any) -> list[dict[str, Any]]:
        with self.arrived:
            self.arrived.wait_for(lambda: len(self.received) >= count, timeout)
            return list(self.received)

    def consumer_shutdown(self, group: str, **_: Any) -> None:
        self.consumers.pop(group).shutdown()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    child = _Child(sys.argv[1])
    operations = {
        "producer": child.producer_start, "send": child.send, "consumer": child.consumer_start, "received": child.await_received,
        "consumer_shutdown": child.consumer_shutdown,
    }  # fmt: skip
    for line in sys.stdin:
        request = json.loads(line)
        number, op = request.pop("id"), request.pop("op")
        try:
            answers.write(json.dumps({"id": number, "ok": operations[op](**request)}) + "\n")
        except Exception as problem:  # whatever the client raised is the answer
            answers.write(json.dumps({"id": number, "error": f"{type(problem).__name__}: {problem}"}) + "\n")
    os._exit(0)


if __name__ == "__main__":
    main()
