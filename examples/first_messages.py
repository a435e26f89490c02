"""One message sent and received with the Python client: pip install rocketmq (the C++ client; a wheel for x86-64)."""

import os
import threading

from rocketmq.client import Message, Producer, PushConsumer

NAME_SERVER = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

producer = Producer("group-p")
producer.set_namesrv_addr(NAME_SERVER)
producer.start()
message = Message("TopicTest")
message.set_keys("order-1")
message.set_tags("TagA")
message.set_body("hello")
print(producer.send_sync(message))

received = threading.Event()


def receive(message):
    print(message.id, message.body)
    received.set()


consumer = PushConsumer("group-c")
consumer.set_namesrv_addr(NAME_SERVER)
consumer.subscribe("TopicTest", receive, "TagA || TagB")
consumer.start()
received.wait(60)

consumer.shutdown()
producer.shutdown()
