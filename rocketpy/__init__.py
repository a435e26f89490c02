"""rocketpy: Apache RocketMQ's name server, broker, HA, controller, proxy and admin for Linux, with a native core."""

__version__ = "0.1.0"
