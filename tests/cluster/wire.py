"""An Ethernet cable with a will of its own, for kernels without netem: `python -m tests.cluster.wire ONE OTHER`.

    ONE ── raw socket ── delay, loss ── raw socket ── OTHER        both are interfaces of the namespace it runs in

Every frame that enters at one end leaves at the other delay_s later, or not at all. Frames keep their order, as netem's do without jitter.
A line on standard input, `DELAY_S LOSS`, changes both; each is answered by a line; the end of the input ends it.
"""

from __future__ import annotations

import os
import random
import select
import socket
import sys
import time
from collections import deque

FRAME_BYTES_MAX = 65536
FRAMES_UNDER_WAY_MAX = 100_000  # then the cable drops, as any queue does
READS_A_TURN = 256
ETH_P_ALL = 3


class Cable:
    """Two ends and what is between them."""

    def __init__(self, one: str, other: str, seed: int) -> None:
        self.delay_s = 0.0
        self.loss = 0.0
        self._dice = random.Random(seed)
        self._ends = [self._open(one), self._open(other)]
        self._under_way: deque[tuple[float, int, bytes]] = deque()  # due, end, frame; of one delay, hence in order

    @staticmethod
    def _open(interface: str) -> socket.socket:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        end.bind((interface, 0))
        return end

    def run(self) -> None:
        while True:
            pause = None if not self._under_way else max(0.0, self._under_way[0][0] - time.monotonic())
            readable, _, _ = select.select([*self._ends, sys.stdin.buffer], [], [], pause)
            for end in readable:
                if end is not sys.stdin.buffer:
                    self._take(self._ends.index(end))
                elif not self._obey():
                    return
            self._give()

    def _obey(self) -> bool:
        line = os.read(0, 256).decode().strip()
        if not line:
            return False
        delay, loss = line.splitlines()[-1].split()
        self.delay_s, self.loss = float(delay), float(loss)
        os.write(1, b"ok\n")
        return True

    def _take(self, index: int) -> None:
        end = self._ends[index]
        for _ in range(READS_A_TURN):
            try:
                frame, (_, _, kind, _, _) = end.recvfrom(FRAME_BYTES_MAX)
            except OSError:  # nothing more, or the interface is down
                return
            if kind == socket.PACKET_OUTGOING or len(self._under_way) >= FRAMES_UNDER_WAY_MAX or self._dice.random() < self.loss:
                continue
            self._under_way.append((time.monotonic() + self.delay_s, 1 - index, frame))

    def _give(self) -> None:
        now = time.monotonic()
        while self._under_way and self._under_way[0][0] <= now:
            _, index, frame = self._under_way.popleft()
            try:
                self._ends[index].send(frame)
            except OSError:
                continue  # a full or dead interface loses frames


if __name__ == "__main__":
    Cable(sys.argv[1], sys.argv[2], int(sys.argv[3])).run()
