"""Names of hosts to addresses, in threads of their own.

While no DNS server answers, the system's resolver keeps a thread for a minute and more, and whoever asked tries again after seconds: in the
event loop's executor, which has few threads, tables could soon not be saved and topics not be made. Here a name has one look-up at a time;
whoever asks for it meanwhile waits for the same one, and the end of the process waits for none.

Threads  one event loop, and a daemon thread a look-up. Bounds: LOOK_UPS_MAX at once, then NetworkError.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading

from .._core.errors import NetworkError
from ..threads import leave_signals

LOOK_UPS_MAX = 64


class LookUps:
    """Looks up host names without blocking: `await look_ups.addresses("namesrv.example")`."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str) -> list[str]:
        """The numeric addresses behind a host name, in the resolver's order; a numeric address is returned as it is. A look-up is shared by
        all who ask for the same name, and goes on if one of them gives up.

        Raises OSError, NetworkError, or UnicodeError for a name with an empty or overlong part.
        """
        if _is_address(host):
            return [host]
        under_way = self._under_way.get(host)
        return await asyncio.shield(under_way if under_way is not None else self._begin(host))

    def _begin(self, host: str) -> asyncio.Future[list[str]]:
        if len(self._under_way) >= LOOK_UPS_MAX:
            raise NetworkError(f"{host} is not looked up: {LOOK_UPS_MAX} names are being looked up already")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()
        found.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen: all who asked may have given up

        def look_up() -> None:
            leave_signals()
            addresses: list[str] = []
            fault: Exception | None = None
            try:
                rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(row[4][0]) for row in rows))
            except Exception as error:  # outer edge of the thread: it is raised where somebody waits
                fault = error
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._end, host, found, addresses, fault)

        try:
            threading.Thread(target=look_up, name="look-up", daemon=True).start()
        except RuntimeError as error:
            raise NetworkError(f"{host} is not looked up: {error}") from error
        self._under_way[host] = found
        return found

    def _end(self, host: str, found: asyncio.Future[list[str]], addresses: list[str], fault: Exception | None) -> None:
        del self._under_way[host]
        if found.done():  # cancelled with the loop
            return
        if fault is not None:
            found.set_exception(fault)
        else:
            found.set_result(addresses)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
