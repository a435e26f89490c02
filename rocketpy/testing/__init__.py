"""A RocketMQ for other people's tests: name server and broker inside the test process, on free ports, within a tenth of a second.

pytest finds the fixtures `rocketmq` and `rocketmq_topic` by itself (plugin.py); anything else writes `with LocalRocketMQ() as rocketmq:`.
"""

from .local import LocalRocketMQ

__all__ = ["LocalRocketMQ"]
