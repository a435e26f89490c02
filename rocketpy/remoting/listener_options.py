"""What a listener of any of our servers is told by its configuration. RocketMQ: NettyServerConfig (5.3.3 remoting/netty/)."""

from __future__ import annotations

import os

from .._core.options import ServerOptions
from ..config import Config
from ..config.memory import BUFFERS_LEAST, vip_buffers
from .listen_address import numeric_address
from .tls import tls_mode

DEFAULT_OUTPUT_BYTES = 8 * 1024 * 1024
REACTORS_MAX = 4
"""The most reactors of a server that carries no messages, unless reactorThreads says more."""


def few_reactors(config: Config) -> int:
    return config.integer("reactorThreads") or min(os.cpu_count() or 1, REACTORS_MAX)


def server_options(config: Config, port: int, *, reactors: int, thread_name: str, is_vip: bool = False) -> ServerOptions:
    """The options of a listener. `is_vip`: a broker's second listener, which gets only a part of bufferBytesMax."""
    buffers = config.integer("bufferBytesMax")
    return {
        "bind_address": numeric_address("bindAddress", config.text("bindAddress")),
        "port": port,
        "reactors": reactors,
        "frame_size_max": config.integer("frameSizeMax"),
        "connections_max": config.integer("connectionsMax"),
        "idle_timeout_ms": config.milliseconds("serverChannelMaxIdleTimeSeconds", unit=1000),
        "stall_timeout_ms": config.integer("stallTimeoutMillis"),
        "output_bytes_max": config.integer("writeBufferHighWaterMark") or DEFAULT_OUTPUT_BYTES,
        "memory_bytes_max": vip_buffers(buffers) if is_vip else max(BUFFERS_LEAST, buffers),
        "ring_capacity": config.integer("requestRingCapacity"),
        "spin_us": config.integer("reactorSpinMicros"),
        "socket_send_buffer": config.integer("serverSocketSndBufSize"),
        "socket_receive_buffer": config.integer("serverSocketRcvBufSize"),
        "tls_mode": tls_mode(config),
        "thread_name": thread_name,
    }
